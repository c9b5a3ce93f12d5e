# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Small programs of nv_tileaa and nv_tileas, each about some ops that Tile IR does not make: what they take and where
they write. The interpreter says what they mean."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from libtile.dialects.nv_tileas.layout import LayoutAttr
from libtile.layouts import LinearLayout
from libtile.lowering.to_tileas.shape_layouts import spread

Draw = Callable[[np.random.Generator], np.ndarray]


def floats(*shape: int, dtype: Any = np.float32) -> Draw:
    """Numbers of a few digits, so that sums and products are exact, with some special ones."""

    def draw(rng: np.random.Generator) -> np.ndarray:
        return (rng.integers(-64, 65, shape) / 8).astype(dtype)

    return draw


def special(*shape: int) -> Draw:
    """Floats with NaN, infinities, zeros of both signs and a subnormal number."""

    def draw(rng: np.random.Generator) -> np.ndarray:
        made = rng.standard_normal(shape).astype(np.float32).reshape(-1)
        some = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40], np.float32)
        made[: some.size] = some[: made.size]
        return made.reshape(shape)

    return draw


def integers(*shape: int, dtype: Any = np.int32, low: int | None = None, high: int | None = None) -> Draw:
    """Integers of the whole range, or of a part of it."""
    info = np.iinfo(dtype)
    least, most = info.min if low is None else low, info.max if high is None else high

    def draw(rng: np.random.Generator) -> np.ndarray:
        return rng.integers(least, most, shape, dtype, endpoint=True)

    return draw


def zeros(*shape: int, dtype: Any = np.float32) -> Draw:
    """What a program writes to."""
    return lambda rng: np.zeros(shape, dtype)


@dataclass(frozen=True)
class Program:
    """A kernel: its parameters (names to types, and what is given for them: an array, of which memrefs get sizes and
    strides too, or a number) and its body. `ops` are what it is about; `refused` says, by target, in which words it is
    refused where it is."""

    ops: str
    parameters: dict[str, tuple[str, Any]]
    body: str
    outside: str = ""
    grid: int = 1
    warps: int = 4
    refused: dict[str, str] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)

    def text(self) -> str:
        spec = f"kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps={self.warps}, num_ctas=1>"
        head = ", ".join(f"%{name}: {type_}" for name, (type_, _) in self.parameters.items())
        return (
            f"{self.outside}\nnv_tileaa.func @k({head}) attributes {{{spec}}} {{\n{self.body}\nnv_tileaa.return\n}}\n"
        )

    def arguments(self, seed: int = 0) -> list[Any]:
        """Fresh flat arguments of a launch."""
        rng, given = np.random.default_rng(seed), []
        for type_, value in self.parameters.values():
            drawn = value(rng) if callable(value) else value
            given.append(drawn)
            if type_.startswith("!nv_tileaa.memref"):
                given += [*drawn.shape, *(s // drawn.itemsize for s in drawn.strides)]
        return given


def memref(element: str, rank: int = 1) -> str:
    return f"!nv_tileaa.memref<{'?x' * rank}{element}, 1>"


def pointer(element: str) -> str:
    return f"!nv_tileaa.ptr<{element}, 1>"


def vector(name: str, element: str, count: int) -> str:
    """Ops that load a tile of rank 1 from a pointer."""
    p, t = pointer(element), f"tile<{count}x"
    return f"""
      %{name}_r = nv_tileaa.make_range : {t}i32>
      %{name}_s = nv_tileaa.splat %{name}_p : {p} -> {t}{p}>
      %{name}_a = nv_tileaa.addptr %{name}_s, %{name}_r : {t}{p}>, {t}i32> -> {t}{p}>
      %{name} = nv_tileaa.load %{name}_a : {t}{p}> -> {t}{element}>
    """


def stored(name: str, value: str, element: str, count: int) -> str:
    """Ops that store a tile of rank 1 to a pointer."""
    p, t = pointer(element), f"tile<{count}x"
    return f"""
      %{name}_r = nv_tileaa.make_range : {t}i32>
      %{name}_s = nv_tileaa.splat %{name}_p : {p} -> {t}{p}>
      %{name}_a = nv_tileaa.addptr %{name}_s, %{name}_r : {t}{p}>, {t}i32> -> {t}{p}>
      nv_tileaa.store %{name}_a, {value} : {t}{p}>, {t}{element}>
    """


def intrinsics(a: str, b: str, element: str, listed: str) -> str:
    """Ops that call intrinsics of two tiles in a chain, so that each shows in the last result; each is listed with the
    number of its operands."""
    t, last, calls = f"tile<{N}x{element}>", f"%{a}", listed.split(", ")
    lines: list[str] = []
    for number, call in enumerate(calls):
        name, count = call.split()
        operands = [last, f"%{b}", f"%{a}"][: int(count)]
        result = f"%llvm_last_{element}" if number == len(calls) - 1 else f"%{a}_{number}"
        types = ", ".join([t] * len(operands))
        given = ", ".join(operands)
        call = f'nv_tileaa.call_elementwise_intrinsic {given} {{intrinsic = "llvm.{name}", pure}}'
        lines.append(f"{result} = {call} : {types} -> {t}")
        last = result
    return "\n".join(lines)


def layout(shape: tuple[int, ...], order: tuple[int, ...] = (), each: int = 1) -> str:
    """A layout of a shape for four warps: `each` elements of a thread along the first dimension of `order`."""
    return str(LayoutAttr(spread(shape, 4, each, order or tuple(reversed(range(len(shape)))))))


def addresses(name: str, element: str, count: int) -> str:
    """Ops of nv_tileas that make `%<name>_a`: the addresses of the first elements behind the pointer `%<name>_p`."""
    p, flat, t = pointer(element), layout((count,)), f"tile<{count}x"
    return f"""
      %{name}_r = nv_tileaa.make_range : {t}i32, {flat}>
      %{name}_s = nv_tileaa.splat %{name}_p : {p} -> {t}{p}, {flat}>
      %{name}_a = nv_tileaa.addptr %{name}_s, %{name}_r : {t}{p}, {flat}>, {t}i32, {flat}> -> {t}{p}, {flat}>
    """


def laid_out(name: str, element: str, shape: tuple[int, ...], how: str) -> str:
    """Ops of nv_tileas that load a tile row by row from a pointer, in a layout."""
    count, p = prod(shape), pointer(element)
    flat, dims = layout((count,)), "x".join(map(str, shape))
    t = f"tile<{count}x"
    return f"""{addresses(name, element, count)}
      %{name}_f = nv_tileas.load %{name}_a : {t}{p}, {flat}> -> {t}{element}, {flat}>
      %{name} = nv_tileas.view %{name}_f : {t}{element}, {flat}> -> tile<{dims}x{element}, {how}>
    """


def laid_back(name: str, value: str, element: str, shape: tuple[int, ...], how: str) -> str:
    """Ops of nv_tileas that store a tile in a layout row by row to a pointer."""
    count, p = prod(shape), pointer(element)
    flat, dims = layout((count,)), "x".join(map(str, shape))
    t = f"tile<{count}x"
    return f"""{addresses(name, element, count)}
      %{name}_f = nv_tileas.view {value} : tile<{dims}x{element}, {how}> -> {t}{element}, {flat}>
      nv_tileas.store %{name}_a, %{name}_f : {t}{p}, {flat}>, {t}{element}, {flat}>
    """


N = 64
X, Y, OUT = ({f"{n}_p": (pointer("f32"), draw(N))} for n, draw in (("x", floats), ("y", floats), ("o", zeros)))
XI, YI, OUT_I = (
    {f"{n}_p": (pointer("i32"), draw)}
    for n, draw in (("x", integers(N)), ("y", integers(N)), ("o", zeros(N, dtype=np.int32)))
)
T, TI = f"tile<{N}xf32>", f"tile<{N}xi32>"

ROWS, OTHER = layout((4, 16)), layout((4, 1, 16), (0, 1, 2))
SHUFFLED = str(
    LayoutAttr(
        LinearLayout.of(
            {"register": [], "lane": [(0, 2), (0, 1), (0, 8), (0, 4), (1, 0)], "warp": [(0, 0), (2, 0)]},
            {"dim0": 4, "dim1": 16},
        )
    )
)
"""ROWS with other lanes."""


def buffer(shape: tuple[int, ...], element: str) -> str:
    """Storage in shared memory, row by row."""
    bases, size = [], prod(shape)
    for bit in range(size.bit_length() - 1):
        left, index = 1 << bit, []
        for extent in reversed(shape):
            index.insert(0, left % extent)
            left //= extent
        bases.append(tuple(index))
    rows = LinearLayout.of({"offset": bases}, {f"dim{d}": extent for d, extent in enumerate(shape)})
    return f"!nv_tileas.buffer<{'x'.join(map(str, shape))}x{element}, shared, {LayoutAttr(rows)}>"


M2 = memref("f32", 2)
TILED = f"!nv_tileaa.tiled_view<{M2}, 4x8>"
PADDED = f"!nv_tileaa.tiled_view<{M2}, 4x8, #nv_tileaa.tiling<padding=neg_inf>>"
SPARSE = f"!nv_tileaa.tiled_view<{M2}, 4x8, #nv_tileaa.tiling<sparse_dim=0>>"
RELAXED = "mem_semantic = #nv_tileaa.mem_semantic<relaxed>, mem_scope = #nv_tileaa.mem_scope<gpu>"

ACTIVATION = memref("f16", 4)
CONVOLVED = f"!nv_tileaa.tiled_view<{ACTIVATION}, 1x4x8x16, #nv_tileaa.tiling<padding=zero, leading=1>>"

CLAMPED = {"x_p": (pointer("f32"), special(N)), **Y, **OUT}

PROGRAMS: dict[str, Program] = {
    "clampf": Program(
        "nv_tileaa.clampf",
        CLAMPED,
        vector("x", "f32", N) + vector("y", "f32", N)
        + f"""
        %one = nv_tileaa.constant {{value = dense<1.5> : !cuda_tile.{T}}} : {T}
        %c = nv_tileaa.clampf %x, %y, %one : {T}, {T}, {T} -> {T}
        """
        + stored("o", "%c", "f32", N),
    ),
    "clampf that hands NaNs on and flushes": Program(
        "nv_tileaa.clampf",
        CLAMPED,
        vector("x", "f32", N) + vector("y", "f32", N)
        + f"""
        %one = nv_tileaa.constant {{value = dense<1.5> : !cuda_tile.{T}}} : {T}
        %c = nv_tileaa.clampf %x, %y, %one {{propagate_nan = #nv_tileaa.propagate_nan<all>, flush_to_zero}}
          : {T}, {T}, {T} -> {T}
        """
        + stored("o", "%c", "f32", N),
    ),
    "high halves of signed products": Program(
        "nv_tileaa.mulhisi",
        {**XI, **YI, **OUT_I},
        vector("x", "i32", N) + vector("y", "i32", N)
        + f"%c = nv_tileaa.mulhisi %x, %y : {TI}, {TI} -> {TI}"
        + stored("o", "%c", "i32", N),
    ),
    "words to the compiler": Program(
        "nv_tileaa.assume nv_tileaa.optimization_barrier nv_tileaa.mark_for_reuse nv_tileaa.pragma nv_tileaa.message "
        "nv_tileas.pragma",
        {
            "x_p": (pointer("i32"), integers(N, low=0, high=100)),
            "h_p": (pointer("f16"), floats(N, dtype=np.float16)),
            **OUT,
        },
        vector("x", "i32", N) + vector("h", "f16", N)
        + f"""
        %a = nv_tileaa.assume %x {{predicates = [#nv_tileaa.bounded<0, 100>]}} : {TI} -> {TI}
        %b:2 = nv_tileaa.optimization_barrier %a, %h : {TI}, tile<{N}xf16> -> {TI}, tile<{N}xf16>
        nv_tileaa.mark_for_reuse %b#0 : {TI}
        nv_tileaa.pragma {{directives = {{unroll = 1 : i32}}}} ({{
          nv_tileaa.message {{text = "inside"}}
          %f = nv_tileaa.int_to_fp %b#0 : {TI} -> {T}
          %g = nv_tileaa.fp_to_fp %b#1 : tile<{N}xf16> -> {T}
          %s = nv_tileaa.addf %f, %g : {T}, {T} -> {T}
          {stored("o", "%s", "f32", N)}
          nv_tileaa.yield
        }})
        nv_tileaa.pragma {{directives = {{}}}}
        """,
    ),
    "program ids": Program(
        "nv_tileaa.is_valid_program_id nv_tileaa.get_program_id nv_tileaa.cancel_next_program_id",
        {"o": (memref("i32", 3), zeros(4, 2, 3, dtype=np.int32))},
        f"""
        %first = nv_tileaa.get_program_id {{axis = 0}} : !nv_tileaa.program_id
        %end = scf.while (%p = %first) : (!nv_tileaa.program_id) -> !nv_tileaa.program_id {{
          %more = nv_tileaa.is_valid_program_id %p : !nv_tileaa.program_id -> i1
          scf.condition(%more) %p : !nv_tileaa.program_id
        }} do {{
        ^bb0(%p: !nv_tileaa.program_id):
          %x = nv_tileaa.get_program_id %p {{axis = 0}} : !nv_tileaa.program_id -> index
          %y = nv_tileaa.get_program_id %p {{axis = 1}} : !nv_tileaa.program_id -> index
          %z = nv_tileaa.get_program_id %p {{axis = 2}} : !nv_tileaa.program_id -> i32
          %10 = arith.constant 10 : i32
          %v = arith.addi %z, %10 : i32
          %s = nv_tileaa.splat %v : i32 -> tile<1x1x1xi32>
          nv_tileaa.tiled_store %o[%z, %y, %x], %s : {memref("i32", 3)}, tile<1x1x1xi32>, i32, index, index
          %next = nv_tileaa.cancel_next_program_id : !nv_tileaa.program_id
          scf.yield %next : !nv_tileaa.program_id
        }}
        """,
        grid=(3, 2, 4),
    ),
    "tiles of nv_tileas in other shapes, types and lanes": Program(
        "nv_tileas.view nv_tileas.expand_dims nv_tileas.reinterpret nv_tileas.shuffle",
        {"x_p": (pointer("f32"), floats(N)), "o_p": (pointer("i32"), zeros(N, dtype=np.int32))},
        laid_out("x", "f32", (4, 16), ROWS)
        + f"""
        %e = nv_tileas.expand_dims %x {{axes = array<i64: 1>}} : tile<4x16xf32, {ROWS}> -> tile<4x1x16xf32, {OTHER}>
        %i = nv_tileas.reinterpret %e : tile<4x1x16xf32, {OTHER}> -> tile<4x16xi32, {SHUFFLED}>
        %s = nv_tileas.shuffle %i : tile<4x16xi32, {SHUFFLED}> -> tile<4x16xi32, {ROWS}>
        """
        + laid_back("o", "%s", "i32", (4, 16), ROWS),
    ),
    "storage of nv_tileas in other shapes and types": Program(
        "nv_tileas.view nv_tileas.expand_dims nv_tileas.reinterpret nv_tileas.alloc_tensor nv_tileas.copy",
        {"x_p": (pointer("f32"), floats(N)), "o_p": (pointer("i32"), zeros(N, dtype=np.int32))},
        laid_out("x", "f32", (4, 16), ROWS)
        + f"""
        %b = nv_tileas.alloc_tensor : {buffer((4, 16), "f32")}
        nv_tileas.copy %x, %b : tile<4x16xf32, {ROWS}>, {buffer((4, 16), "f32")}
        %v = nv_tileas.view %b : {buffer((4, 16), "f32")} -> {buffer((8, 8), "f32")}
        %e = nv_tileas.expand_dims %v {{axes = array<i64: 0>}} : {buffer((8, 8), "f32")} -> {buffer((1, 8, 8), "f32")}
        %i = nv_tileas.reinterpret %e : {buffer((1, 8, 8), "f32")} -> {buffer((64,), "i32")}
        %y = nv_tileas.copy %i : {buffer((64,), "i32")} -> tile<64xi32, {layout((64,))}>
        """
        + laid_back("o", "%y", "i32", (64,), layout((64,))),
    ),
    "the first elements of storage of nv_tileas": Program(
        "nv_tileas.reinterpret nv_tileas.alloc_tensor nv_tileas.copy",
        {"x_p": (pointer("f32"), floats(N)), "o_p": (pointer("i32"), zeros(N, dtype=np.int32))},
        laid_out("x", "f32", (4, 16), ROWS)
        + f"""
        %b = nv_tileas.alloc_tensor : {buffer((4, 16), "f32")}
        nv_tileas.copy %x, %b : tile<4x16xf32, {ROWS}>, {buffer((4, 16), "f32")}
        %i = nv_tileas.reinterpret %b : {buffer((4, 16), "f32")} -> {buffer((32,), "i32")}
        %y = nv_tileas.copy %i : {buffer((32,), "i32")} -> tile<32xi32, {layout((32,))}>
        """
        + laid_back("o", "%y", "i32", (32,), layout((32,))),
    ),
    "elements of memrefs": Program(
        "nv_tileaa.load nv_tileaa.store nv_tileaa.make_memref",
        {"m": (M2, floats(8, 16)), "o": (M2, zeros(8, 16)), "i": ("index", 2), "j": ("index", 3)},
        f"""
        %s = nv_tileaa.load %m[%i, %j] : {M2}, index, index -> f32
        nv_tileaa.store %o[%j, %i], %s : {M2}, f32, index, index
        %b = nv_tileaa.load %m[%i, %j] : {M2}, index, index -> tile<2x4xf32>
        %f = nv_tileaa.splat %s : f32 -> tile<2x4xf32>
        %x = nv_tileaa.addf %f, %b : tile<2x4xf32>, tile<2x4xf32> -> tile<2x4xf32>
        nv_tileaa.store %o[%i, %j], %x : {M2}, tile<2x4xf32>, index, index
        %r = nv_tileaa.make_range {{start = 1}} : tile<4xindex>
        %t = nv_tileaa.make_range : tile<4xi32>
        %d = nv_tileaa.load %m[%r, %t] : {M2}, tile<4xindex>, tile<4xi32> -> tile<4xf32>
        %k = nv_tileaa.constant {{value = dense<[1, 0, 1, 1]> : !cuda_tile.tile<4xi1>}} : tile<4xi1>
        %e = nv_tileaa.load %m[%i, %t], %k, %d : {M2}, index, tile<4xi32>, tile<4xi1>, tile<4xf32> -> tile<4xf32>
        %z = arith.constant 0 : index
        nv_tileaa.store %o[%r, %z], %d : {M2}, tile<4xf32>, tile<4xindex>, index
        nv_tileaa.store %o[%t, %r], %e, %k : {M2}, tile<4xf32>, tile<4xi32>, tile<4xindex>, tile<4xi1>
        """,
    ),
    "atomics on memrefs": Program(
        "nv_tileaa.atomic_rmw nv_tileaa.atomic_cas",
        {"m": (memref("i32", 2), integers(8, 16, low=0, high=3)), "i": ("index", 2), "n": ("i32", 5)},
        f"""
        %r = nv_tileaa.make_range : tile<8xi32>
        %a = nv_tileaa.atomic_rmw %m[%r, %i], %r {{rmw_mode = #nv_tileaa.rmw_mode<add>, {RELAXED}}}
          : {memref("i32", 2)}, tile<8xi32>, tile<8xi32>, index -> tile<8xi32>
        %j = arith.constant 3 : index
        %b = nv_tileaa.atomic_rmw %m[%j, %j], %n {{rmw_mode = #nv_tileaa.rmw_mode<max>, {RELAXED}}}
          : {memref("i32", 2)}, i32, index, index -> i32
        %z = nv_tileaa.splat %n : i32 -> tile<8xi32>
        %c = nv_tileaa.atomic_cas %m[%r, %r], %a, %z {{{RELAXED}}}
          : {memref("i32", 2)}, tile<8xi32>, tile<8xi32>, tile<8xi32>, tile<8xi32> -> tile<8xi32>
        nv_tileaa.store %m[%r, %j], %c : {memref("i32", 2)}, tile<8xi32>, tile<8xi32>, index
        """,
    ),
    "tiles combined with memory, and what was there": Program(
        "nv_tileaa.tiled_atomic_rmw nv_tileas.tiled_atomic_rmw",
        {"m": (M2, floats(5, 13)), "o": (M2, zeros(4, 8)), "p": (M2, zeros(4, 8))},
        f"""
        %0 = arith.constant 0 : index
        %1 = arith.constant 1 : index
        %v = nv_tileaa.block_tile %m {{tileSizes = array<i64: 4, 8>, dimGroups = [array<i64: 0>, array<i64: 1>]}}
          : {M2} -> {TILED}
        %x = nv_tileaa.constant {{value = dense<0.5> : !cuda_tile.tile<4x8xf32>}} : tile<4x8xf32>
        %a = nv_tileaa.tiled_atomic_rmw %v[%1, %0], %x {{rmw_mode = #nv_tileaa.rmw_mode<addf>, {RELAXED}}}
          : {TILED}, tile<4x8xf32>, index, index -> tile<4x8xf32>
        nv_tileaa.tiled_store %o[%0, %0], %a : {M2}, tile<4x8xf32>, index, index
        %b = nv_tileaa.tiled_atomic_rmw %v[%1, %1], %x {{rmw_mode = #nv_tileaa.rmw_mode<xchg>, {RELAXED}}}
          : {TILED}, tile<4x8xf32>, index, index -> tile<4x8xf32>
        nv_tileaa.tiled_store %p[%0, %0], %b : {M2}, tile<4x8xf32>, index, index
        """,
    ),
    "rows by index": Program(
        "nv_tileaa.gather_load nv_tileaa.scatter_store",
        {"m": (M2, floats(8, 16)), "o": (M2, zeros(8, 16))},
        f"""
        %w = nv_tileaa.block_tile %o {{tileSizes = array<i64: 4, 8>, dimGroups = [array<i64: 0>, array<i64: 1>]}}
          : {M2} -> {SPARSE}
        %r = nv_tileaa.make_range {{start = 3}} : tile<4xi32>
        %z = arith.constant 0 : i32
        %8 = arith.constant 8 : index
        %x = nv_tileaa.gather_load %m[%r, %8] : {M2}, tile<4xi32>, index -> tile<4x8xf32>
        nv_tileaa.scatter_store %w[%r, %z], %x : {SPARSE}, tile<4x8xf32>, tile<4xi32>, i32
        """,
    ),
    "tiles with masks": Program(
        "nv_tileaa.tiled_load nv_tileaa.tiled_store",
        {"m": (M2, floats(6, 13)), "o": (M2, zeros(6, 13))},
        f"""
        %v = nv_tileaa.block_tile %m {{tileSizes = array<i64: 4, 8>, dimGroups = [array<i64: 0>, array<i64: 1>]}}
          : {M2} -> {PADDED}
        %w = nv_tileaa.block_tile %o {{tileSizes = array<i64: 4, 8>, dimGroups = [array<i64: 0>, array<i64: 1>]}}
          : {M2} -> {TILED}
        %0 = arith.constant 0 : index
        %1 = arith.constant 1 : index
        %r = nv_tileaa.make_range : tile<8xi32>
        %h = nv_tileaa.view %r : tile<8xi32> -> tile<1x8xi32>
        %g = nv_tileaa.broadcast %h : tile<1x8xi32> -> tile<4x8xi32>
        %t = nv_tileaa.constant {{value = dense<3> : !cuda_tile.tile<4x8xi32>}} : tile<4x8xi32>
        %k = arith.cmpi slt, %g, %t : tile<4x8xi32>
        %x = nv_tileaa.tiled_load %v[%1, %1], %k : {PADDED}, index, index, tile<4x8xi1> -> tile<4x8xf32>
        %y = nv_tileaa.tiled_load %m[%1, %1], %k, %x : {M2}, index, index, tile<4x8xi1>, tile<4x8xf32> -> tile<4x8xf32>
        %s = nv_tileaa.addf %x, %y : tile<4x8xf32>, tile<4x8xf32> -> tile<4x8xf32>
        nv_tileaa.tiled_store %w[%1, %1], %s, %k : {TILED}, tile<4x8xf32>, index, index, tile<4x8xi1>
        nv_tileaa.tiled_store %w[%0, %0], %y : {TILED}, tile<4x8xf32>, index, index
        """,
    ),
    "generated tiles": Program(
        "nv_tileaa.generate",
        {
            "m": (M2, floats(8, 16)),
            "o": (memref("i32", 2), zeros(4, 8, dtype=np.int32)),
            "n": ("i32", 7),
            "c": (M2, zeros(4, 8)),
        },
        f"""
        %0 = arith.constant 0 : index
        %g = nv_tileaa.generate %n ({{
        ^bb0(%i: index, %j: index, %k: i32):
          %3 = arith.constant 3 : index
          %a = arith.muli %i, %3 : index
          %b = arith.addi %a, %j : index
          %e = arith.index_cast %b : index to i32
          %f = arith.muli %e, %k : i32
          nv_tileaa.yield %f : i32
        }}) : i32 -> tile<4x8xi32>
        nv_tileaa.tiled_store %o[%0, %0], %g : {memref("i32", 2)}, tile<4x8xi32>, index, index
        %h = nv_tileaa.generate ({{
        ^bb0(%i: index, %j: index):
          %1 = arith.constant 1 : index
          %p = arith.addi %i, %1 : index
          %x = nv_tileaa.load %m[%p, %j] : {M2}, index, index -> f32
          %y = nv_tileaa.load %m[%i, %j] : {M2}, index, index -> f32
          %s = nv_tileaa.addf %x, %y : f32, f32 -> f32
          nv_tileaa.yield %s : f32
        }}) : tile<4x8xf32>
        nv_tileaa.tiled_store %c[%0, %0], %h : {M2}, tile<4x8xf32>, index, index
        """,
    ),
    "calls": Program(
        "nv_tileaa.call nv_tileaa.plugin",
        {"o": (M2, zeros(4, 8)), "i": ("f32", 1.5)},
        f"""
        %0 = arith.constant 0 : index
        %x = nv_tileaa.splat %i : f32 -> tile<4x8xf32>
        %y = nv_tileaa.call %x {{callee = @twice}} : tile<4x8xf32> -> tile<4x8xf32>
        %z = nv_tileaa.plugin %y, %x {{plugin = @sum}} : tile<4x8xf32>, tile<4x8xf32> -> tile<4x8xf32>
        nv_tileaa.tiled_store %o[%0, %0], %z : {M2}, tile<4x8xf32>, index, index
        """,
        outside="""
        nv_tileaa.func @sum(%a: tensor<4x8xf32>, %b: tensor<4x8xf32>) -> tile<4x8xf32> {
          %c = nv_tileaa.addf %a, %b : tile<4x8xf32>, tile<4x8xf32> -> tile<4x8xf32>
          nv_tileaa.return %c : tile<4x8xf32>
        }
        nv_tileaa.func @twice(%a: tensor<4x8xf32>) -> tile<4x8xf32> {
          %c = nv_tileaa.call %a, %a {callee = @sum} : tile<4x8xf32>, tile<4x8xf32> -> tile<4x8xf32>
          nv_tileaa.return %c : tile<4x8xf32>
        }
        """,
    ),
    "scale factors": Program(
        "nv_tileaa.dot nv_tileaa.scaled_dot",
        {"o": (M2, zeros(16, 16))},
        f"""
        %0 = arith.constant 0 : index
        %a = nv_tileaa.constant {{value = dense<1.5> : !cuda_tile.tile<16x64xf8E4M3FN>}} : tile<16x64xf8E4M3FN>
        %b = nv_tileaa.constant {{value = dense<-2.0> : !cuda_tile.tile<64x16xf8E4M3FN>}} : tile<64x16xf8E4M3FN>
        %c = nv_tileaa.constant {{value = dense<0.5> : !cuda_tile.tile<16x16xf32>}} : tile<16x16xf32>
        %s = nv_tileaa.constant {{value = dense<4.0> : !cuda_tile.tile<16x2xf8E8M0FNU>}} : tile<16x2xf8E8M0FNU>
        %t = nv_tileaa.constant {{value = dense<0.5> : !cuda_tile.tile<2x16xf8E8M0FNU>}} : tile<2x16xf8E8M0FNU>
        %d = nv_tileaa.dot %a, %b, %c, %s, %t : tile<16x64xf8E4M3FN>, tile<64x16xf8E4M3FN>, tile<16x16xf32>,
          tile<16x2xf8E8M0FNU>, tile<2x16xf8E8M0FNU> -> tile<16x16xf32>
        nv_tileaa.tiled_store %o[%0, %0], %d : {M2}, tile<16x16xf32>, index, index
        """,
        refused={t: f"target that supports block-scaled MMA, but got {t} on {t}" for t in ("sm_80", "sm_90")},
    ),
    "slices at any place": Program(
        "nv_tileaa.extract_slice nv_tileaa.insert_slice",
        {"m": (M2, floats(8, 16)), "o": (M2, zeros(8, 16))},
        f"""
        %0 = arith.constant 0 : index
        %x = nv_tileaa.tiled_load %m[%0, %0] : {M2}, index, index -> tile<8x16xf32>
        %s = nv_tileaa.extract_slice %x {{offsets = array<i64: 1, 3>, strides = array<i64: 2, 3>}}
          : tile<8x16xf32> -> tile<4x4xf32>
        nv_tileaa.tiled_store %o[%0, %0], %s : {M2}, tile<4x4xf32>, index, index
        """,
    ),
    "slices of nv_tileas": Program(
        "nv_tileas.extract_slice nv_tileas.insert_slice",
        {"x_p": (pointer("f16"), floats(N, dtype=np.float16)), "o_p": (pointer("f16"), zeros(N, dtype=np.float16)),
         "i": ("i32", 2)},
        laid_out("x", "f16", (4, 16), ROWS)
        + f"""
        %s = nv_tileas.extract_slice %x, %i {{offsets = array<i64: 0, 5>, strides = array<i64: 1, 2>}}
          : tile<4x16xf16, {ROWS}>, i32 -> tile<2x4xf16, {layout((2, 4))}>
        %y = nv_tileas.insert_slice %s, %x, %i {{offsets = array<i64: 0, 0>, strides = array<i64: 1, 5>}}
          : tile<2x4xf16, {layout((2, 4))}>, tile<4x16xf16, {ROWS}>, i32 -> tile<4x16xf16, {ROWS}>
        """
        + laid_back("o", "%y", "f16", (4, 16), ROWS),
    ),
    "histograms": Program(
        "nv_tileaa.histogram",
        {"x_p": (pointer("i32"), integers(256, low=-2, high=40)), "y_p": (pointer("i8"), integers(64, dtype=np.int8)),
         "o": (memref("i32"), zeros(256 + 64, dtype=np.int32))},
        vector("x", "i32", 256) + vector("y", "i8", 64)
        + f"""
        %0 = arith.constant 0 : index
        %256 = arith.constant 256 : index
        %h = nv_tileaa.histogram %x : tile<256xi32> -> tile<256xi32>
        %g = nv_tileaa.histogram %y : tile<64xi8> -> tile<64xi32>
        nv_tileaa.tiled_store %o[%0], %h : {memref("i32")}, tile<256xi32>, index
        nv_tileaa.tiled_store %o[%256], %g : {memref("i32")}, tile<64xi32>, index
        """,
    ),
    "intrinsics": Program(
        "nv_tileaa.call_elementwise_intrinsic",
        {
            "x_p": (pointer("f32"), special(N)),
            "y_p": (pointer("f32"), special(N)),
            "a_p": (pointer("i16"), integers(N, dtype=np.int16)),
            "b_p": (pointer("i16"), integers(N, dtype=np.int16)),
            "q_p": (pointer("i16"), zeros(N, dtype=np.int16)),
            **OUT,
        },
        vector("x", "f32", N) + vector("y", "f32", N) + vector("a", "i16", N) + vector("b", "i16", N)
        + intrinsics("x", "y", "f32", "fabs 1, minimum 2, copysign.f32 2, maxnum 2, fma 3, rint 1")
        + stored("o", "%llvm_last_f32", "f32", N)
        + intrinsics("a", "b", "i16", "smin 2, sadd.sat 2, bitreverse 1, usub.sat 2, ctpop 1, umax.i16 2")
        + stored("q", "%llvm_last_i16", "i16", N),
    ),
    "functions of libdevice": Program(
        "nv_tileaa.extern_elementwise",
        {**X, **OUT},
        vector("x", "f32", N)
        + f"""
        %e = nv_tileaa.extern_elementwise %x {{symbol = "__nv_exp2f", pure}} : {T} -> {T}
        """
        + stored("o", "%e", "f32", N),
    ),
    "a convolution": Program(
        "nv_tileaa.conv_tile nv_tileaa.conv_dot",
        {
            "a": (ACTIVATION, floats(1, 9, 7, 16, dtype=np.float16)),
            "f": (memref("f16", 2), floats(6 * 16, 16, dtype=np.float16)),
            "o": (memref("f32", 4), zeros(1, 5, 8, 16)),
            "row": ("index", 1),
        },
        f"""
        %v = nv_tileaa.conv_tile %a
          {{tileSizes = array<i64: 1, 4, 8, 16>, channelAxis = 3, filterSizes = array<i64: 3, 2>,
          dimGroups = [array<i64: 0>, array<i64: 1>, array<i64: 2>, array<i64: 3>],
          conv_params = #nv_tileaa.conv_params<pad_lower=[1,0], pad_upper=[1,1], stride=[2,1], dilation=[1,2]>}}
          : {ACTIVATION} -> {CONVOLVED}
        %w = nv_tileaa.block_tile %f {{tileSizes = array<i64: 16, 16>, dimGroups = [array<i64: 0>, array<i64: 1>]}}
          : {memref("f16", 2)} -> !nv_tileaa.tiled_view<{memref("f16", 2)}, 16x16>
        %zero = nv_tileaa.constant {{value = dense<0.0> : !cuda_tile.tile<1x4x8x16xf32>}} : tile<1x4x8x16xf32>
        %0 = arith.constant 0 : index
        %1 = arith.constant 1 : index
        %6 = arith.constant 6 : index
        %sum = scf.for %p = %0 to %6 step %1 iter_args(%c = %zero) -> (tensor<1x4x8x16xf32>) {{
          %x = nv_tileaa.tiled_load %v[%p, %0, %0, %0, %0] : {CONVOLVED}, index, index, index, index, index
            -> tile<1x4x8x16xf16>
          %y = nv_tileaa.tiled_load %w[%p, %0] : !nv_tileaa.tiled_view<{memref("f16", 2)}, 16x16>, index, index
            -> tile<16x16xf16>
          %d = nv_tileaa.conv_dot %x, %y, %c {{activation_layout = #nv_tileaa.activation_layout<nhwc>,
            conv_params = #nv_tileaa.conv_params<pad_lower=[1,0], pad_upper=[1,1], stride=[2,1], dilation=[1,2]>}}
            : tile<1x4x8x16xf16>, tile<16x16xf16>, tile<1x4x8x16xf32> -> tile<1x4x8x16xf32>
          scf.yield %d : tensor<1x4x8x16xf32>
        }}
        nv_tileaa.tiled_store %o[%0, %row, %0, %0], %sum : {memref("f32", 4)}, tile<1x4x8x16xf32>, index, index, index,
          index
        """,
    ),
    "a convolution of channels first": Program(
        "nv_tileaa.conv_dot",
        {
            "a": (memref("f16", 3), floats(2, 16, 8, dtype=np.float16)),
            "f": (memref("f16", 2), floats(16, 8, dtype=np.float16)),
            "o": (memref("f32", 3), zeros(2, 8, 8)),
        },
        f"""
        %0 = arith.constant 0 : index
        %x = nv_tileaa.tiled_load %a[%0, %0, %0] : {memref("f16", 3)}, index, index, index -> tile<2x16x8xf16>
        %y = nv_tileaa.tiled_load %f[%0, %0] : {memref("f16", 2)}, index, index -> tile<16x8xf16>
        %c = nv_tileaa.constant {{value = dense<0.5> : !cuda_tile.tile<2x8x8xf32>}} : tile<2x8x8xf32>
        %d = nv_tileaa.conv_dot %x, %y, %c {{activation_layout = #nv_tileaa.activation_layout<ncw>,
          conv_params = #nv_tileaa.conv_params<pad_lower=[0], pad_upper=[0], stride=[1], dilation=[1]>}}
          : tile<2x16x8xf16>, tile<16x8xf16>, tile<2x8x8xf32> -> tile<2x8x8xf32>
        nv_tileaa.tiled_store %o[%0, %0, %0], %d : {memref("f32", 3)}, tile<2x8x8xf32>, index, index, index
        """,
    ),
}  # fmt: skip
"""Programs by what they show."""
