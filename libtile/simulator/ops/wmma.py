# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""wmma.load, wmma.store and wmma.mma (PTX ISA, "Warp-level matrix instructions: wmma").

The ISA leaves open which lane holds which element. Here lane l holds a run of consecutive elements of the row-major
matrix; where a fragment has more places than the matrix has elements (A and B of f16), the run repeats.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from libtile.ptx.reader import product_shape
from libtile.support.records import dataclass

from ..access import AccessInfo
from ..codegen import Emitter, op
from ..ir import Imm, Instruction, Vec
from ..types import TYPES
from .memory import SPACES, address
from .mma import MmaSpec, convert_result, fragment, product, unpack_elements

if TYPE_CHECKING:
    from ..group import ThreadGroup

_BITS = {
    "f16": 16,
    "bf16": 16,
    "tf32": 32,
    "f32": 32,
    "s32": 32,
    "f64": 64,
    "s8": 8,
    "u8": 8,
    "s4": 4,
    "u4": 4,
    "b1": 1,
}


@dataclass(frozen=True)
class FragmentSpec:
    """One matrix operand: rows, columns, element type, memory layout, registers per lane."""

    rows: int
    columns: int
    kind: str
    layout: str
    registers: int

    @property
    def per_register(self) -> int:
        return max(1, self.register_bits // _BITS[self.kind])

    @property
    def register_bits(self) -> int:
        return 64 if self.kind == "f64" else 32

    @property
    def run(self) -> int:
        """Elements of the matrix per lane."""
        return self.rows * self.columns // 32


def _shape(cg: Emitter, ins: Instruction) -> tuple[int, int, int]:
    shape = product_shape(ins.modifiers)
    if shape is None:
        cg.fail("wmma needs a shape")
    return shape


def _dims(shape: tuple[int, int, int], operand: str) -> tuple[int, int]:
    m, n, k = shape
    return {"a": (m, k), "b": (k, n)}.get(operand, (m, n))


def _offsets(spec: FragmentSpec, stride: int) -> np.ndarray:
    """Byte offsets [n lanes' worth: 32, run units] of each lane's elements; sub-byte types count whole registers."""
    bits = _BITS[spec.kind]
    unit = spec.per_register if bits < 8 else 1
    linear = np.arange(32)[:, None] * spec.run + np.arange(0, spec.run, unit)[None, :]
    if bits < 8 and spec.layout == "col":
        # Columns are the packed direction: walk the transpose.
        row, column = linear % spec.rows, linear // spec.rows
    else:
        row, column = linear // spec.columns, linear % spec.columns
    if spec.layout == "row":
        return (row * stride + column) * bits // 8
    return (column * stride + row) * bits // 8


def _lane_addresses(
    g: ThreadGroup, spec: FragmentSpec, addr: np.ndarray, stride: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    base = addr if addr.dtype == np.uint64 else addr.astype(np.uint64)
    lanes = g.threads & 31
    table = np.stack([_offsets(spec, s)[lane] for s, lane in zip(*_few(stride, lanes), strict=True)])
    where = base[:, None] + table.astype(np.uint64)
    return where.reshape(-1), np.repeat(g.threads, where.shape[1])


def _few(stride: np.ndarray, lanes: np.ndarray) -> tuple[list[int], list[int]]:
    return np.broadcast_to(stride, lanes.shape).tolist(), lanes.tolist()


def wmma_load(
    M: Any, info: AccessInfo, g: ThreadGroup, spec: FragmentSpec, addr: np.ndarray, stride: np.ndarray
) -> list[np.ndarray]:
    """wmma.load: registers per lane."""
    where, threads = _lane_addresses(g, spec, addr, stride)
    values = M.load_at(info, where, threads).reshape(g.n, -1)
    raw = np.ascontiguousarray(values).view(np.uint64 if spec.kind == "f64" else np.uint32)
    repeat = spec.registers // raw.shape[1]
    raw = np.tile(raw, (1, max(1, repeat)))
    return [np.ascontiguousarray(raw[:, i]) for i in range(spec.registers)]


def wmma_store(
    M: Any, info: AccessInfo, g: ThreadGroup, spec: FragmentSpec, addr: np.ndarray, stride: np.ndarray, regs: tuple
) -> None:
    """wmma.store of an accumulator."""
    where, threads = _lane_addresses(g, spec, addr, stride)
    raw = np.stack([np.broadcast_to(r, (g.n,)) for r in regs], axis=1)
    values = np.ascontiguousarray(raw).view(info_view(info)).reshape(g.n, -1)[:, : spec.run]
    M.store_at(info, where, np.ascontiguousarray(values).reshape(-1), threads)


def info_view(info: AccessInfo) -> np.dtype:
    from ..types import DTYPES

    return DTYPES[info.code]


def _as_matrix(g: ThreadGroup, spec: FragmentSpec, regs: tuple) -> np.ndarray:
    """Registers to [w, rows, columns] of float64 or int64."""
    frag = fragment(g, regs)
    if spec.kind == "f32":
        values: Any = frag.view(np.float32).astype(np.float64)
    elif spec.kind == "s32":
        values = frag.view(np.int32).astype(np.int64)
    else:
        values = unpack_elements(frag, spec.kind)
    values = np.ascontiguousarray(values[:, :, : spec.run])
    if _BITS[spec.kind] < 8 and spec.layout == "col":
        return values.reshape(len(values), spec.columns, spec.rows).transpose(0, 2, 1)
    return values.reshape(len(values), spec.rows, spec.columns)


def wmma_multiply(
    g: ThreadGroup, spec: MmaSpec, parts: tuple[FragmentSpec, ...], a: tuple, b: tuple, c: tuple
) -> list[np.ndarray]:
    """wmma.mma: D = A * B + C."""
    left, right, acc = (_as_matrix(g, s, r) for s, r in zip(parts, (a, b, c), strict=True))
    total = convert_result(product(left, right, spec) + acc, spec)
    lanes = total.reshape(len(total), 32, -1)
    if spec.d == "f16":
        lanes = np.ascontiguousarray(lanes).view(np.uint32)
    return [g.from_warps(np.ascontiguousarray(lanes[:, :, i])) for i in range(lanes.shape[2])]


def _items(operand: Any) -> tuple[Any, ...]:
    return operand.items if isinstance(operand, Vec) else (operand,)


def _memory_info(cg: Emitter, ins: Instruction, kind: str) -> AccessInfo:
    space = next((SPACES[m] for m in ins.modifiers if m in SPACES), "generic")
    code = {64: "u8", 32: "u4", 16: "u2", 8: "u1"}.get(_BITS[kind], "u4")
    return AccessInfo(ins, space, code)


def _check_size(cg: Emitter, spec: FragmentSpec, name: str) -> None:
    held = spec.registers * spec.per_register
    if held == 0 or held % spec.run:
        text = f"{spec.rows}x{spec.columns} elements of .{spec.kind}"
        cg.fail(f"{spec.registers} registers do not hold the fragment of {name} ({text})")


@op("wmma")
def _wmma(cg: Emitter, ins: Instruction) -> None:
    action = ins.modifiers[0]
    if action == "mma":
        _emit_multiply(cg, ins)
        return
    shape = _shape(cg, ins)
    operand = ins.modifiers[1]
    kind = next(m for m in reversed(ins.modifiers) if m in _BITS)
    layout = next((m for m in ins.modifiers if m in ("row", "col")), "row")
    rows, columns = _dims(shape, operand)
    loading = action == "load"
    regs, where = (ins.operands[0], ins.operands[1]) if loading else (ins.operands[1], ins.operands[0])
    spec = FragmentSpec(rows, columns, kind, layout, len(_items(regs)))
    _check_size(cg, spec, operand)
    leading = columns if layout == "row" else rows
    cg.uniform = True
    base = address(cg, where)
    stride = cg.src(ins.operands[2] if len(ins.operands) > 2 else Imm(leading), TYPES["u32"])
    info = cg.use(_memory_info(cg, ins, kind), f"a{id(ins)}")
    name = cg.use(spec, f"w{abs(hash(spec))}")
    bits = TYPES["b64" if kind == "f64" else "b32"]
    if not loading:
        values = "(" + ", ".join(cg.src(x, bits) for x in _items(regs)) + ",)"
        cg.emit(f"{cg.use(wmma_store)}(M, {info}, g, {name}, {base}, {stride}, {values})")
        return
    cg.uniform = False
    result = cg.let(f"{cg.use(wmma_load)}(M, {info}, g, {name}, {base}, {stride})")
    for k, item in enumerate(_items(regs)):
        cg.dst(item, bits, f"{result}[{k}]")


def _types(cg: Emitter, ins: Instruction) -> tuple[str, str, str, str]:
    """Types of d, a, b, c: wmma.mma names two for f16 (d and c) and all four otherwise."""
    kinds = [m for m in ins.modifiers if m in _BITS]
    if len(kinds) == 2:
        return kinds[0], "f16", "f16", kinds[1]
    if len(kinds) == 4:
        return kinds[0], kinds[1], kinds[2], kinds[3]
    cg.fail("wmma.mma needs its types")


def _emit_multiply(cg: Emitter, ins: Instruction) -> None:
    shape = _shape(cg, ins)
    m, n, k = shape
    d, a, b, c = _types(cg, ins)
    layouts = [x for x in ins.modifiers if x in ("row", "col")]
    bit_op = next((x for x in ins.modifiers if x in ("xor", "and")), "") if a == "b1" else ""
    spec = MmaSpec(m, n, k, d, a, b, c, satfinite="satfinite" in ins.modifiers, bit_op=bit_op)
    operands = ins.operands[1:4]
    parts = tuple(
        FragmentSpec(*_dims(shape, which), kind, layout, len(_items(operand)))
        for which, kind, layout, operand in zip("abc", (a, b, c), (*layouts, "row"), operands, strict=True)
    )
    for which, part in zip("abc", parts, strict=True):
        _check_size(cg, part, which)
    if len(_items(ins.operands[0])) * (2 if d == "f16" else 1) != m * n // 32:
        cg.fail("the destination has the wrong number of registers")
    cg.uniform = True
    values = ", ".join(
        "(" + ", ".join(cg.src(x, TYPES["b64" if kind == "f64" else "b32"]) for x in _items(operand)) + ",)"
        for operand, kind in zip(operands, (a, b, c), strict=True)
    )
    cg.uniform = False
    names = f"{cg.use(spec, f'm{abs(hash(spec))}')}, {cg.use(parts, f'w{abs(hash(parts))}')}"
    result = cg.let(f"{cg.use(wmma_multiply)}(g, {names}, {values})")
    kind = {"f16": "b32", "f32": "f32", "s32": "s32", "f64": "f64"}[d]
    for i, item in enumerate(_items(ins.operands[0])):
        cg.dst(item, TYPES[kind], f"{result}[{i}]")
