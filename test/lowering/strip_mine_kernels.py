# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# ruff: noqa: E501 - views and their types are long
"""Kernels on tiles of a few hundred elements that `strip-mine` cuts when it is told that registers hold little."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import ml_dtypes
import numpy as np

Arguments = Callable[[np.random.Generator], list]


@dataclass(frozen=True)
class Kernel:
    """A kernel: the body of its entry, its parameters, its arguments. `loops` is how many loops it is cut into."""

    name: str
    parameters: str
    body: str
    arguments: Arguments
    loops: int = 1
    relative: float = 0.0

    @property
    def text(self) -> str:
        return f"cuda_tile.module @m {{\n  entry @k({self.parameters}) {{\n{self.body}    return\n  }}\n}}\n"


def floats(*sizes: int) -> Arguments:
    return lambda rng: [rng.standard_normal(size).astype(np.float32) for size in sizes]


def integers(*sizes: int) -> Arguments:
    return lambda rng: [rng.integers(-1000, 1000, size).astype(np.int32) for size in sizes]


def pointers(name: str, base: str, size: int, element: str = "f32", index: str = "%i") -> str:
    return f"""
    %{name}1 = reshape {base} : tile<ptr<{element}>> -> tile<1xptr<{element}>>
    %{name}b = broadcast %{name}1 : tile<1xptr<{element}>> -> tile<{size}xptr<{element}>>
    %{name} = offset %{name}b, {index} : tile<{size}xptr<{element}>>, tile<{size}xi32> -> tile<{size}xptr<{element}>>
"""


def view(
    name: str, base: str, shape: tuple[int, ...], tile: tuple[int, ...], element: str = "f32", tail: str = ""
) -> str:
    strides = [int(np.prod(shape[d + 1 :])) for d in range(len(shape))]
    memory = f"tensor_view<{'x'.join(map(str, shape))}x{element}, strides={strides}>"
    tiles = f"partition_view<tile=({'x'.join(map(str, tile))}), {tail}{memory}>"
    return f"""
    %{name}t = make_tensor_view {base}, shape = {list(shape)}, strides = {strides} : {memory}
    %{name} = make_partition_view %{name}t : {tiles}
"""


def load(
    name: str, shape: tuple[int, ...], view_: str, memory: tuple[int, ...] = (), element: str = "f32", **options: str
) -> str:
    return _access("load", name, shape, view_, memory, element, **options)


def store(
    name: str, shape: tuple[int, ...], view_: str, memory: tuple[int, ...] = (), element: str = "f32", **options: str
) -> str:
    return _access("store", name, shape, view_, memory, element, **options)


def _access(
    what: str, name: str, shape: tuple[int, ...], view_: str, memory: tuple[int, ...], element: str,
    tail: str = "", token: str = "", index: str = "%zero",
) -> str:  # fmt: skip
    memory = memory or shape
    strides = [int(np.prod(memory[d + 1 :])) for d in range(len(memory))]
    tensor = f"tensor_view<{'x'.join(map(str, memory))}x{element}, strides={strides}>"
    tiles = f"partition_view<tile=({'x'.join(map(str, shape))}), {tail}{tensor}>"
    tile = f"tile<{'x'.join(map(str, shape))}x{element}>"
    indices = ", ".join([index] * len(shape))
    behind = f" token = {token}" if token else ""
    if what == "load":
        return f"    %{name}, %{name}tok = load_view_tko weak %{view_}[{indices}]{behind} : {tiles}, tile<i32> -> {tile}, token\n"
    return f"    %{name}st = store_view_tko weak %{name}, %{view_}[{indices}]{behind} : {tile}, {tiles}, tile<i32> -> token\n"


def reduced(
    result: str,
    source: str,
    shape: tuple[int, ...],
    dim: int,
    op: str = "addf",
    identity: str = "0.0",
    element: str = "f32",
    what: str = "reduce",
    more: str = "",
) -> str:
    rest = [s for d, s in enumerate(shape) if d != dim]
    to = "tile<" + "".join(f"{s}x" for s in (rest if what == "reduce" else shape)) + element + ">"
    tail = {"maxi": " signed", "mini": " signed"}.get(op, "")
    return f"""
    %{result} = {what} %{source} dim={dim} {more}identities=[{identity} : {element}] : tile<{"x".join(map(str, shape))}x{element}> -> {to}
    (%{result}a: tile<{element}>, %{result}b: tile<{element}>) {{
      %{result}c = {op} %{result}a, %{result}b{tail} : tile<{element}>
      yield %{result}c : tile<{element}>
    }}
"""


ZERO = "    %zero = constant <i32: 0> : tile<i32>\n"
RANGE = "    %i = iota : tile<256xi32>\n"
PTRS = "%p: tile<ptr<f32>>, %q: tile<ptr<f32>>"
INTS = "%p: tile<ptr<i32>>, %q: tile<ptr<i32>>"
GRID = (16, 16)

MASKED = Kernel(
    "masked", f"{PTRS}, %n: tile<i32>",
    RANGE + pointers("a", "%p", 256) + pointers("b", "%q", 256) + """
    %n1 = reshape %n : tile<i32> -> tile<1xi32>
    %nb = broadcast %n1 : tile<1xi32> -> tile<256xi32>
    %m = cmpi less_than %i, %nb, signed : tile<256xi32> -> tile<256xi1>
    %pad = constant <f32: 2.0> : tile<256xf32>
    %x, %t = load_ptr_tko weak %a, %m, %pad : tile<256xptr<f32>>, tile<256xi1>, tile<256xf32> -> tile<256xf32>, token
    %e = exp %x : tile<256xf32>
    %y = select %m, %e, %x : tile<256xi1>, tile<256xf32>
    %u = store_ptr_tko weak %b, %y : tile<256xptr<f32>>, tile<256xf32> -> token
    %z = mulf %x, %x : tile<256xf32>
    %w = store_ptr_tko weak %a, %z, %m token=%t : tile<256xptr<f32>>, tile<256xf32>, tile<256xi1> -> token
""",
    lambda rng: [*floats(256, 256)(rng), 201], relative=1e-6,
)  # fmt: skip

RAGGED = Kernel(
    "ragged", PTRS,
    ZERO + "    %one = constant <i32: 1> : tile<i32>\n"
    + view("v", "%p", (11, 70), (16, 32), tail="padding_value = neg_inf, ")
    + view("w", "%q", (11, 70), (16, 32))
    + load("x", (16, 32), "v", (11, 70), tail="padding_value = neg_inf, ", index="%zero")
    + load("y", (16, 32), "v", (11, 70), tail="padding_value = neg_inf, ", index="%zero").replace("%zero, %zero", "%zero, %one")
    + "    %s = maxf %x, %y : tile<16x32xf32>\n"
    + store("s", (16, 32), "w", (11, 70)),
    floats(770, 770),
)  # fmt: skip


def sums(dim: int, op: str, identity: str) -> Kernel:
    return Kernel(
        f"{op}-{dim}", INTS,
        ZERO + view("v", "%p", GRID, GRID, "i32") + view("w", "%q", (16,), (16,), "i32")
        + load("x", GRID, "v", element="i32") + reduced("s", "x", GRID, dim, op, identity, "i32")
        + store("s", (16,), "w", element="i32"),
        integers(256, 16),
    )  # fmt: skip


BOTH = Kernel(
    "both", PTRS,
    ZERO + view("v", "%p", GRID, GRID) + load("x", GRID, "v") + reduced("s", "x", GRID, 1) + reduced("r", "s", (16,), 0)
    + "    %t = store_ptr_tko weak %q, %r token=%xtok : tile<ptr<f32>>, tile<f32> -> token\n",
    floats(256, 1), relative=1e-5,
)  # fmt: skip

SOFTMAX_ROWS = Kernel(
    "softmax-rows", PTRS,
    ZERO + view("v", "%p", GRID, GRID) + view("w", "%q", GRID, GRID) + load("x", GRID, "v")
    + reduced("m", "x", GRID, 1, "maxf", "0xFF800000") + """
    %m1 = reshape %m : tile<16xf32> -> tile<16x1xf32>
    %mb = broadcast %m1 : tile<16x1xf32> -> tile<16x16xf32>
    %d = subf %x, %mb : tile<16x16xf32>
    %e = exp %d : tile<16x16xf32>
""" + reduced("s", "e", GRID, 1) + """
    %s1 = reshape %s : tile<16xf32> -> tile<16x1xf32>
    %sb = broadcast %s1 : tile<16x1xf32> -> tile<16x16xf32>
    %y = divf %e, %sb : tile<16x16xf32>
""" + store("y", GRID, "v", token="%xtok"),
    floats(256, 256), relative=1e-5,
)  # fmt: skip

NORMALIZED = Kernel(
    "normalized", PTRS,
    ZERO + view("v", "%p", (256,), (256,)) + view("w", "%q", (256,), (256,)) + load("x", (256,), "v")
    + reduced("s", "x", (256,), 0) + """
    %count = constant <f32: 256.0> : tile<f32>
    %mean = divf %s, %count : tile<f32>
    %mean1 = reshape %mean : tile<f32> -> tile<1xf32>
    %meanb = broadcast %mean1 : tile<1xf32> -> tile<256xf32>
    %c = subf %x, %meanb : tile<256xf32>
    %c2 = mulf %c, %c : tile<256xf32>
""" + reduced("var", "c2", (256,), 0) + """
    %dev = sqrt %var : tile<f32>
    %dev1 = reshape %dev : tile<f32> -> tile<1xf32>
    %devb = broadcast %dev1 : tile<1xf32> -> tile<256xf32>
    %y = divf %c, %devb : tile<256xf32>
""" + store("y", (256,), "v", token="%xtok"),
    floats(256, 256), loops=3, relative=1e-4,
)  # fmt: skip


def scanned(dim: int, reverse: bool, shape: tuple[int, ...] = GRID) -> Kernel:
    return Kernel(
        f"scan-{len(shape)}d-{dim}-{'reverse' if reverse else 'forward'}", INTS,
        ZERO + view("v", "%p", shape, shape, "i32") + view("w", "%q", shape, shape, "i32")
        + load("x", shape, "v", element="i32")
        + reduced("s", "x", shape, dim, "addi", "0", "i32", what="scan", more=f"reverse={str(reverse).lower()} ")
        + store("s", shape, "w", element="i32"),
        integers(256, 256),
    )  # fmt: skip


AFFINE = Kernel(
    "affine", f"{INTS}, %r: tile<ptr<i32>>",
    ZERO + view("v", "%p", (256,), (256,), "i32") + view("w", "%q", (256,), (256,), "i32")
    + load("x", (256,), "v", element="i32") + load("y", (256,), "w", element="i32") + """
    %s:2 = reduce %x, %y dim=0 identities=[1 : i32, 0 : i32] : tile<256xi32>, tile<256xi32> -> tile<i32>, tile<i32>
    (%m1: tile<i32>, %m2: tile<i32>, %c1: tile<i32>, %c2: tile<i32>) {
      %m = muli %m1, %m2 : tile<i32>
      %c = muli %c1, %m2 : tile<i32>
      %d = addi %c, %c2 : tile<i32>
      yield %m, %d : tile<i32>, tile<i32>
    }
    %t = store_ptr_tko weak %r, %s#1 : tile<ptr<i32>>, tile<i32> -> token
""" + reduced("z", "x", (256,), 0, "addi", "0", "i32", what="scan", more="reverse=true ") + store("z", (256,), "v", element="i32", token="%xtok"),
    lambda rng: [rng.integers(-9, 9, 256).astype(np.int32) * 2 + 1, *integers(256, 1)(rng)],
)  # fmt: skip
"""A reduction whose order matters, in two results; the scan makes the loop go from the last piece to the first."""

BOTH_WAYS = Kernel(
    "both-ways", f"{INTS}, %r: tile<ptr<i32>>",
    ZERO + view("v", "%p", (256,), (256,), "i32") + view("w", "%q", (256,), (256,), "i32") + view("u", "%r", (256,), (256,), "i32")
    + load("x", (256,), "v", element="i32")
    + reduced("y", "x", (256,), 0, "addi", "0", "i32", what="scan", more="reverse=false ") + store("y", (256,), "w", element="i32")
    + reduced("z", "x", (256,), 0, "addi", "0", "i32", what="scan", more="reverse=true ") + store("z", (256,), "u", element="i32"),
    integers(256, 256, 256), loops=2,
)  # fmt: skip

ARGMAX = Kernel(
    "argmax", f"{INTS}, %r: tile<ptr<i32>>",
    ZERO + view("v", "%p", GRID, GRID, "i32") + view("w", "%q", (16,), (16,), "i32") + view("u", "%r", (16,), (16,), "i32")
    + load("x", GRID, "v", element="i32") + """
    %n = iota : tile<16xi32>
    %n1 = reshape %n : tile<16xi32> -> tile<16x1xi32>
    %nb = broadcast %n1 : tile<16x1xi32> -> tile<16x16xi32>
    %best, %at = reduce %x, %nb dim=0 identities=[-2147483648 : i32, 0 : i32] : tile<16x16xi32>, tile<16x16xi32> -> tile<16xi32>, tile<16xi32>
    (%a: tile<i32>, %b: tile<i32>, %ai: tile<i32>, %bi: tile<i32>) {
      %ge = cmpi greater_than_or_equal %a, %b, signed : tile<i32> -> tile<i1>
      %v1 = select %ge, %a, %b : tile<i1>, tile<i32>
      %i1 = select %ge, %ai, %bi : tile<i1>, tile<i32>
      yield %v1, %i1 : tile<i32>, tile<i32>
    }
""" + store("best", (16,), "w", element="i32") + store("at", (16,), "u", element="i32"),
    lambda rng: [rng.integers(0, 5, 256).astype(np.int32), *integers(16, 16)(rng)],
)  # fmt: skip

NARROW = Kernel(
    "narrow", "%p: tile<ptr<f16>>, %q: tile<ptr<f8E4M3FN>>, %r: tile<ptr<i8>>",
    ZERO + view("v", "%p", GRID, GRID, "f16") + view("w", "%q", GRID, GRID, "f8E4M3FN") + view("u", "%r", GRID, GRID, "i8")
    + load("x", GRID, "v", element="f16") + """
    %wide = ftof %x : tile<16x16xf16> -> tile<16x16xf32>
    %limit = constant <f32: 0.5> : tile<16x16xf32>
    %big = cmpf greater_than ordered %wide, %limit : tile<16x16xf32> -> tile<16x16xi1>
    %half = mulf %wide, %limit : tile<16x16xf32>
    %either = select %big, %half, %wide : tile<16x16xi1>, tile<16x16xf32>
    %y = ftof %either : tile<16x16xf32> -> tile<16x16xf8E4M3FN>
    %byte = exti %big unsigned : tile<16x16xi1> -> tile<16x16xi8>
""" + store("y", GRID, "w", element="f8E4M3FN") + store("byte", GRID, "u", element="i8"),
    lambda rng: [rng.standard_normal(256).astype(np.float16), np.zeros(256, ml_dtypes.float8_e4m3fn), np.zeros(256, np.int8)],
)  # fmt: skip

SHAPES = Kernel(
    "shapes", f"{PTRS}, %r: tile<ptr<f32>>",
    ZERO + view("v", "%p", GRID, GRID) + view("w", "%q", GRID, GRID) + view("u", "%r", (16, 32), (16, 32)) + load("x", GRID, "v") + """
    %t = permute %x [1, 0] : tile<16x16xf32> -> tile<16x16xf32>
    %y = subf %t, %x : tile<16x16xf32>
    %flat = reshape %y : tile<16x16xf32> -> tile<256xf32>
    %neg = negf %flat : tile<256xf32>
    %z = reshape %neg : tile<256xf32> -> tile<4x4x16xf32>
    %o = reshape %z : tile<4x4x16xf32> -> tile<16x16xf32>
    %c = cat %o, %x dim = 1 : tile<16x16xf32>, tile<16x16xf32> -> tile<16x32xf32>
""" + store("o", GRID, "w") + store("c", (16, 32), "u"),
    floats(256, 256, 512), loops=2,
)  # fmt: skip

SEVERAL = Kernel(
    "several", f"{PTRS}, %r: tile<ptr<f32>>, %s: tile<ptr<f32>>",
    ZERO + view("v", "%p", GRID, GRID) + view("w", "%q", GRID, GRID) + view("u", "%r", GRID, GRID) + view("z", "%s", (16,), (16,))
    + load("x", GRID, "v") + load("y", GRID, "w") + """
    %sum = addf %x, %y : tile<16x16xf32>
    %dif = subf %x, %y : tile<16x16xf32>
""" + store("sum", GRID, "u") + store("dif", GRID, "w", token="%ytok") + reduced("col", "sum", GRID, 0) + store("col", (16,), "z"),
    floats(256, 256, 256, 16), relative=1e-5,
)  # fmt: skip

ATOMIC = Kernel(
    "atomic", INTS,
    "    %i = iota : tile<256xi32>\n    %k = constant <i32: 15> : tile<256xi32>\n    %j = andi %i, %k : tile<256xi32>\n"
    + pointers("a", "%p", 256, "i32") + pointers("b", "%q", 256, "i32", "%j") + """
    %x, %t = load_ptr_tko weak %a : tile<256xptr<i32>> -> tile<256xi32>, token
    %old, %u = atomic_rmw_tko relaxed device %b, add, %x : tile<256xptr<i32>>, tile<256xi32> -> tile<256xi32>, token
""",
    integers(256, 16),
)  # fmt: skip

GATHERED = Kernel(
    "gathered", f"{INTS}, %r: tile<ptr<i32>>",
    """
    %rt = make_tensor_view %r, shape = [16], strides = [1] : tensor_view<16xi32, strides=[1]>
    %rv = make_partition_view %rt : partition_view<tile=(16), tensor_view<16xi32, strides=[1]>>
    %zero = constant <i32: 0> : tile<i32>
    %rows, %rtok = load_view_tko weak %rv[%zero] : partition_view<tile=(16), tensor_view<16xi32, strides=[1]>>, tile<i32> -> tile<16xi32>, token
    %pt = make_tensor_view %p, shape = [16, 16], strides = [16, 1] : tensor_view<16x16xi32, strides=[16,1]>
    %pv = make_gather_scatter_view %pt : gather_scatter_view<tile=(16x16), tensor_view<16x16xi32, strides=[16,1]>, sparse_dim=0>
    %x, %t = load_view_tko weak %pv[%rows, %zero] : gather_scatter_view<tile=(16x16), tensor_view<16x16xi32, strides=[16,1]>, sparse_dim=0>, tile<16xi32>, tile<i32> -> tile<16x16xi32>, token
    %qt = make_tensor_view %q, shape = [16, 16], strides = [16, 1] : tensor_view<16x16xi32, strides=[16,1]>
    %qv = make_strided_view %qt : strided_view<tile=(16x16), traversal_strides=[12,1], tensor_view<16x16xi32, strides=[16,1]>>
    %y = addi %x, %x : tile<16x16xi32>
    %u = store_view_tko weak %y, %qv[%zero, %zero] : tile<16x16xi32>, strided_view<tile=(16x16), traversal_strides=[12,1], tensor_view<16x16xi32, strides=[16,1]>>, tile<i32> -> token
""",
    lambda rng: [*integers(256, 256)(rng), rng.integers(0, 16, 16).astype(np.int32)],
)  # fmt: skip

IN_A_LOOP = Kernel(
    "in-a-loop", PTRS,
    ZERO + RANGE + "    %two = constant <i32: 2> : tile<i32>\n    %one = constant <i32: 1> : tile<i32>\n    %k = constant <f32: 3.0> : tile<256xf32>\n"
    "    %nought = constant <f32: 0.0> : tile<f32>\n"
    + pointers("a", "%p", 256) + """
    %r = for %n in (%zero to %two, step %one) : tile<i32> iter_values(%acc = %nought) -> (tile<f32>) {
      %x, %t = load_ptr_tko weak %a : tile<256xptr<f32>> -> tile<256xf32>, token
      %y = mulf %x, %k : tile<256xf32>
""" + reduced("s", "y", (256,), 0) + """
      %next = addf %acc, %s : tile<f32>
      continue %next : tile<f32>
    }
    %t = store_ptr_tko weak %q, %r : tile<ptr<f32>>, tile<f32> -> token
""",
    floats(256, 1), loops=1, relative=1e-5,
)  # fmt: skip

BEHIND = Kernel(
    "behind", INTS,
    RANGE + "    %one = constant <i32: 1> : tile<256xi32>\n    %j = addi %i, %one : tile<256xi32>\n"
    + pointers("a", "%p", 256, "i32") + pointers("b", "%p", 256, "i32", "%j") + """
    %x, %t = load_ptr_tko weak %a : tile<256xptr<i32>> -> tile<256xi32>, token
""" + reduced("s", "x", (256,), 0, "addi", "0", "i32") + """
    %s1 = reshape %s : tile<i32> -> tile<1xi32>
    %sb = broadcast %s1 : tile<1xi32> -> tile<256xi32>
    %y = addi %sb, %i : tile<256xi32>
    %u = store_ptr_tko weak %b, %y token=%t : tile<256xptr<i32>>, tile<256xi32> -> token
    %z, %v = load_ptr_tko weak %a token=%u : tile<256xptr<i32>> -> tile<256xi32>, token
""" + pointers("c", "%q", 256, "i32") + """
    %w = store_ptr_tko weak %c, %z : tile<256xptr<i32>>, tile<256xi32> -> token
""",
    integers(257, 256), loops=3,
)  # fmt: skip
"""Accesses that overlap in other places, one behind the other: each loop ends before the next one begins."""

BIAS = Kernel(
    "bias",
    PTRS,
    ZERO
    + view("v", "%p", GRID, GRID)
    + view("w", "%q", (16,), (16,))
    + load("x", GRID, "v")
    + load("b", (16,), "w")
    + """
    %b1 = reshape %b : tile<16xf32> -> tile<16x1xf32>
    %bb = broadcast %b1 : tile<16x1xf32> -> tile<16x16xf32>
    %y = addf %x, %bb : tile<16x16xf32>
    %both = join_tokens %xtok, %btok : token
"""
    + store("y", GRID, "v", token="%xtok")
    + "    %d = addf %b, %b : tile<16xf32>\n"
    + store("d", (16,), "w", token="%both"),
    floats(256, 16),
)  # fmt: skip
"""A small tile that is read in pieces, and written behind."""

CUT = (
    MASKED, RAGGED, sums(0, "addi", "0"), sums(1, "addi", "0"), sums(0, "maxi", "-2147483648"),
    sums(1, "mini", "2147483647"), BOTH, SOFTMAX_ROWS, NORMALIZED,
    *(scanned(dim, reverse) for dim in (0, 1) for reverse in (False, True)),
    *(scanned(0, reverse, (256,)) for reverse in (False, True)),
    AFFINE, BOTH_WAYS, ARGMAX, NARROW, SHAPES, SEVERAL, ATOMIC, GATHERED, IN_A_LOOP, BEHIND, BIAS,
)  # fmt: skip
