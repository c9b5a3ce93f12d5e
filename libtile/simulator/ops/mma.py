# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""mma.sync (PTX ISA, "Warp-level matrix multiply-accumulate").

Products are summed in float64 and rounded once to the accumulator's type. The ISA leaves order and rounding of the sum
of floating types open, so results agree with hardware within the accumulator's precision; integer and b1 results are
exact.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from libtile.ptx.reader import product_shape
from libtile.support.records import dataclass

from .. import fp
from ..codegen import Emitter, op
from ..fragments import c_positions, gather_index, volta_positions
from ..ir import Instruction, Vec
from ..types import TYPES

if TYPE_CHECKING:
    from ..group import ThreadGroup

_BITS = {
    "f16": 16, "bf16": 16, "tf32": 32, "f64": 64, "s8": 8, "u8": 8, "s4": 4, "u4": 4, "b1": 1,
    "e4m3": 8, "e5m2": 8, "e3m2": 8, "e2m3": 8, "e2m1": 8,
}  # fmt: skip

# Legal (m, n, k) per operand type (PTX ISA, tables of mma.sync shapes).
_SHAPES: dict[str, tuple[tuple[int, int, int], ...]] = {
    "f16": ((8, 8, 4), (16, 8, 8), (16, 8, 16)),
    "bf16": ((16, 8, 8), (16, 8, 16)),
    "tf32": ((16, 8, 4), (16, 8, 8)),
    "f64": ((8, 8, 4), (16, 8, 4), (16, 8, 8), (16, 8, 16)),
    "s8": ((8, 8, 16), (16, 8, 16), (16, 8, 32)),
    "u8": ((8, 8, 16), (16, 8, 16), (16, 8, 32)),
    "s4": ((8, 8, 32), (16, 8, 32), (16, 8, 64)),
    "u4": ((8, 8, 32), (16, 8, 32), (16, 8, 64)),
    "b1": ((8, 8, 128), (16, 8, 128), (16, 8, 256)),
    "e4m3": ((16, 8, 16), (16, 8, 32)),
    "e5m2": ((16, 8, 16), (16, 8, 32)),
    "e3m2": ((16, 8, 32),),
    "e2m3": ((16, 8, 32),),
    "e2m1": ((16, 8, 32), (16, 8, 64)),
}


@dataclass(frozen=True)
class MmaSpec:
    """Static form of one mma: shape, types of D, A, B, C, layouts, and what is special."""

    m: int
    n: int
    k: int
    d: str
    a: str
    b: str
    c: str
    a_layout: str = "row"
    b_layout: str = "col"
    satfinite: bool = False
    bit_op: str = ""
    packed4: bool = False
    scale: str = ""
    scale_count: int = 0


# -- operands


def unpack_elements(regs: np.ndarray, kind: str, packed4: bool = False) -> np.ndarray:
    """[..., registers] of raw bits to [..., elements] as float64, least significant element first."""
    flat = np.ascontiguousarray(regs)
    lead = flat.shape[:-1]
    if kind == "f64":
        return flat.view(np.float64)
    if kind == "f16":
        return flat.view(np.float16).astype(np.float64)
    if kind == "bf16":
        return (flat.view(np.uint16).astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)
    if kind == "tf32":
        return (flat & np.uint32(0xFFFFE000)).view(np.float32).astype(np.float64)
    if kind in ("s8", "u8"):
        return flat.view(np.int8 if kind == "s8" else np.uint8).astype(np.float64)
    raw = flat.view(np.uint8)
    if kind == "b1":
        return np.unpackbits(raw, axis=-1, bitorder="little").astype(np.float64)
    if kind in ("s4", "u4") or packed4:
        nibbles = np.stack([raw & 15, raw >> 4], axis=-1).reshape(*lead, -1)
        if kind == "u4":
            return nibbles.astype(np.float64)
        if kind == "s4":
            return ((nibbles.astype(np.int8) ^ 8) - 8).astype(np.float64)
        return fp.decode_table("e2m1")[nibbles]
    if kind == "e2m1":
        # kind::f8f6f4 keeps 4-bit elements in bits 2..5 of their byte.
        return fp.decode_table("e2m1")[(raw >> 2) & 15]
    return fp.decode_table(kind)[raw & 63 if kind in ("e3m2", "e2m3") else raw]


def fragment(g: ThreadGroup, regs: tuple[np.ndarray, ...]) -> np.ndarray:
    """Registers as [warps, 32, registers]."""
    shape = (g.n,)
    return np.stack([g.to_warps(r if r.shape == shape else np.broadcast_to(r, shape)) for r in regs], axis=-1)


def _matrix(frag: np.ndarray, index: np.ndarray) -> np.ndarray:
    """[w, 32, elements] to [w, rows, columns]."""
    return frag.reshape(len(frag), -1)[:, index]


def accumulator(frag: np.ndarray, kind: str, m: int, n: int) -> np.ndarray:
    """C as [w, m, n], float64 or (for s32) int64."""
    if kind == "f16":
        values: Any = np.ascontiguousarray(frag).view(np.float16).astype(np.float64)
    elif kind == "f32":
        values = frag.view(np.float32).astype(np.float64)
    elif kind == "s32":
        values = frag.view(np.int32).astype(np.int64)
    else:
        values = frag.view(np.float64)
    return _matrix(values, gather_index("C", m, n))


def result_registers(g: ThreadGroup, d: np.ndarray, spec: MmaSpec) -> list[np.ndarray]:
    """D [w, m, n] as the registers of each lane."""
    rows, columns = c_positions(spec.m, spec.n)
    values = convert_result(d, spec)[:, rows, columns]
    if spec.d == "f16":
        values = np.ascontiguousarray(values).view(np.uint32)
    return [g.from_warps(np.ascontiguousarray(values[:, :, i])) for i in range(values.shape[2])]


def convert_result(d: np.ndarray, spec: MmaSpec) -> np.ndarray:
    """Round float64 or wrap int64 to the type of D."""
    if spec.d == "f32":
        return fp.canon(d.astype(np.float32))
    if spec.d == "f16":
        return fp.canon(d.astype(np.float16))
    if spec.d == "s32":
        if spec.satfinite:
            return np.clip(d, -(1 << 31), (1 << 31) - 1).astype(np.int32)
        return d.astype(np.uint64).astype(np.uint32).view(np.int32)
    return d


def product(a: np.ndarray, b: np.ndarray, spec: MmaSpec) -> np.ndarray:
    """A times B: [w, m, k] and [w, k, n] to [w, m, n]."""
    if spec.bit_op:
        both = np.matmul(a, b)
        if spec.bit_op == "xor":
            both = a.sum(axis=2)[:, :, None] + b.sum(axis=1)[:, None, :] - 2 * both
        return both.astype(np.int64)
    p = np.matmul(a, b)
    return p.astype(np.int64) if spec.d == "s32" else p


def multiply(
    g: ThreadGroup, spec: MmaSpec, a: tuple, b: tuple, c: tuple, scales: tuple | None = None
) -> list[np.ndarray]:
    """mma.sync for every shape but m8n8k4 of f16."""
    per = max(1, 32 // (4 if spec.packed4 else _BITS[spec.a]))
    left = _matrix(unpack_elements(fragment(g, a), spec.a, spec.packed4), gather_index("A", spec.m, spec.k, per))
    right = _matrix(unpack_elements(fragment(g, b), spec.b, spec.packed4), gather_index("B", spec.k, spec.n, per))
    if scales is not None:
        left, right = _scaled(g, spec, left, right, scales)
    total = product(left, right, spec) + accumulator(fragment(g, c), spec.c, spec.m, spec.n)
    return result_registers(g, total, spec)


def _scaled(
    g: ThreadGroup, spec: MmaSpec, left: np.ndarray, right: np.ndarray, scales: tuple
) -> tuple[np.ndarray, np.ndarray]:
    """block_scale: each block of k / scale_count elements along k has a factor.

    A's factors of row r come from lane 4 (r % 8) + 2 thread_id + r / 8; B's of column n from lane 4 n + thread_id.
    """
    a_data, a_byte, a_thread, b_data, b_byte, b_thread = scales
    table = fp.decode_table("ue8m0") if spec.scale == "ue8m0" else np.abs(fp.decode_table("e4m3"))
    count = spec.scale_count
    row = np.arange(16)
    a_bytes = np.ascontiguousarray(g.to_warps(a_data)).view(np.uint8).reshape(-1, 32, 4)
    b_bytes = np.ascontiguousarray(g.to_warps(b_data)).view(np.uint8).reshape(-1, 32, 4)
    sa = a_bytes[:, 4 * (row % 8) + 2 * a_thread + row // 8, a_byte : a_byte + count]
    sb = b_bytes[:, 4 * np.arange(8) + b_thread, b_byte : b_byte + count]
    block = spec.k // count
    fa = np.repeat(table[sa], block, axis=2)
    fb = np.repeat(table[sb], block, axis=2)
    return left * fa, right * fb.transpose(0, 2, 1)


def multiply_volta(g: ThreadGroup, spec: MmaSpec, a: tuple, b: tuple, c: tuple) -> list[np.ndarray]:
    """mma.m8n8k4 of f16: each of four quad pairs multiplies its own 8x4 and 4x8 matrices."""
    fa = unpack_elements(fragment(g, a), "f16")
    fb = unpack_elements(fragment(g, b), "f16")
    fc = fragment(g, c)
    cv: Any = np.ascontiguousarray(fc).view(np.float16) if spec.c == "f16" else fc.view(np.float32)
    warps = len(fa)
    left, right, acc = np.zeros((warps, 4, 8, 4)), np.zeros((warps, 4, 4, 8)), np.zeros((warps, 4, 8, 8))
    q, r, col = volta_positions(f"A {spec.a_layout}")
    left[:, q, r, col] = fa
    q, r, col = volta_positions(f"B {spec.b_layout}")
    right[:, q, r, col] = fb
    q, r, col = volta_positions(f"C {spec.c}")
    acc[:, q, r, col] = cv.astype(np.float64)
    total = np.matmul(left, right) + acc
    q, r, col = volta_positions(f"C {spec.d}")
    values: Any = convert_result(total, spec)[:, q, r, col]
    if spec.d == "f16":
        values = np.ascontiguousarray(values).view(np.uint32)
    return [g.from_warps(np.ascontiguousarray(values[:, :, i])) for i in range(values.shape[2])]


# -- generator


def _parse(cg: Emitter, ins: Instruction) -> MmaSpec:
    modifiers = list(ins.modifiers)
    if "sp" in modifiers or any(m.startswith("sp::") for m in modifiers):
        cg.fail("sparse mma is not simulated")
    shape = product_shape(modifiers)
    if shape is None:
        cg.fail("mma needs a shape")
    m, n, k = shape
    kinds = [x for x in modifiers if x in _BITS or x in ("f32", "s32")]
    if len(kinds) < 4:
        cg.fail("mma needs the types of d, a, b and c")
    d, a, b, c = kinds[:4]
    if (m, n, k) not in _SHAPES.get(a, ()):
        cg.fail(f"mma.m{m}n{n}k{k} does not exist for .{a}")
    layouts = [x for x in modifiers if x in ("row", "col")]
    bit_op = next((x for x in modifiers if x in ("xor", "and")), "") if a == "b1" else ""
    scale, count = "", 0
    if "block_scale" in modifiers:
        scale = "ue4m3" if "ue4m3" in modifiers else "ue8m0"
        default = {"kind::mxf8f6f4": "1X", "kind::mxf4": "2X"}.get(
            next((x for x in modifiers if x.startswith("kind::")), ""), "4X"
        )
        vec = next((x.split("::")[1] for x in modifiers if x.startswith("scale_vec::")), default)
        count = int(vec[0])
    a_layout, b_layout = layouts[:2] if len(layouts) == 2 else ("row", "col")
    return MmaSpec(
        m, n, k, d, a, b, c, a_layout, b_layout,
        satfinite="satfinite" in modifiers, bit_op=bit_op, packed4=(a == "e2m1" and k == 64), scale=scale,
        scale_count=count,
    )  # fmt: skip


def _registers(cg: Emitter, operand: Any, kind: str) -> str:
    items = operand.items if isinstance(operand, Vec) else (operand,)
    bits = TYPES["b64" if kind == "f64" else "b32"]
    code = "f8" if kind == "f64" else "u4"
    return "(" + ", ".join(cg.src(x, bits, None if code == "u4" else "u8") for x in items) + ",)"


def _expect(cg: Emitter, operand: Any, elements: int, bits: int, name: str) -> None:
    items = operand.items if isinstance(operand, Vec) else (operand,)
    wanted = max(1, elements * bits // 32 // (2 if bits == 64 else 1))
    if len(items) != wanted:
        cg.fail(f"the fragment of {name} needs {wanted} registers, not {len(items)}")


@op("mma")
def _mma(cg: Emitter, ins: Instruction) -> None:
    spec = _parse(cg, ins)
    volta = spec.a == "f16" and spec.k == 4
    d, a, b, c = ins.operands[:4]
    element = 4 if spec.packed4 else _BITS[spec.a]
    quads = 4 if volta else 1
    _expect(cg, a, quads * spec.m * spec.k // 32, element, "A")
    _expect(cg, b, quads * spec.k * spec.n // 32, element, "B")
    sizes = {"f16": 16, "f32": 32, "s32": 32, "f64": 64}
    _expect(cg, c, quads * spec.m * spec.n // 32, sizes[spec.c], "C")
    _expect(cg, d, quads * spec.m * spec.n // 32, sizes[spec.d], "D")
    name = cg.use(spec, f"m{abs(hash(spec))}")
    cg.uniform = True
    values = ", ".join((_registers(cg, a, spec.a), _registers(cg, b, spec.b), _registers(cg, c, spec.c)))
    scales = ", " + _scale_operands(cg, ins) if spec.scale else ""
    cg.uniform = False
    helper = cg.use(multiply_volta if volta else multiply)
    result = cg.let(f"{helper}(g, {name}, {values}{scales})")
    items = d.items if isinstance(d, Vec) else (d,)
    for i, item in enumerate(items):
        _assign(cg, item, spec.d, f"{result}[{i}]")


def _assign(cg: Emitter, item: Any, kind: str, expr: str) -> None:
    if kind == "f64":
        cg.dst(item, TYPES["f64"], expr)
    elif kind == "f32":
        cg.dst(item, TYPES["f32"], expr)
    elif kind == "s32":
        cg.dst(item, TYPES["s32"], expr)
    else:
        cg.dst(item, TYPES["b32"], expr)


def _scale_operands(cg: Emitter, ins: Instruction) -> str:
    """scale-a-data, {byte-id-a, thread-id-a}, scale-b-data, {byte-id-b, thread-id-b}; the selectors are constants."""
    if len(ins.operands) != 8:
        cg.fail("block_scale needs scale data and selectors for A and B")
    parts = []
    for data, selector in ((ins.operands[4], ins.operands[5]), (ins.operands[6], ins.operands[7])):
        numbers = [getattr(x, "value", None) for x in selector.items]
        if not all(isinstance(v, int) for v in numbers):
            # Compilers pass the selectors through registers that hold constants.
            numbers = [f"int({cg.src(x, TYPES['u16'])}[0])" for x in selector.items]
        factor = data.items[0] if isinstance(data, Vec) else data
        parts.append(f"{cg.src(factor, TYPES['b32'])}, {numbers[0]}, {numbers[1]}")
    return f"({', '.join(parts)})"
