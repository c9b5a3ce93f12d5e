# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Products with scale factors in a loop, as cuTile's kernels have them, and their operands."""

from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes
import numpy as np

TYPES = {
    "f8E4M3FN": ml_dtypes.float8_e4m3fn,
    "f8E5M2": ml_dtypes.float8_e5m2,
    "f8E8M0FNU": ml_dtypes.float8_e8m0fnu,
    "f4E2M1FN": ml_dtypes.float4_e2m1fn,
}


@dataclass(frozen=True)
class Scaled:
    """c = (a * sa) (b * sb)^T in f32, in tiles of m x n x k, with a factor for each `block` elements along k.

    a and b lie along k; elements of 4 bits come as bytes that hold two. Factors lie in pieces of 512 bytes where they
    are `in_pieces` (32x4x4, as cuTile's documentation has them for sm_100), else those of a line side by side. These
    are loaded by views, `by_pointers`, which takes sizes of whole tiles, or doubled on the way (`doubled`). A kernel
    that is `persistent` goes through the tiles of c from its block's number on, in steps of the grid.
    """

    m: int = 128
    n: int = 128
    k: int = 128
    element: str = "f8E4M3FN"
    factors: str = "f8E8M0FNU"
    block: int = 32
    in_pieces: bool = True
    by_pointers: bool = False
    doubled: bool = False
    persistent: bool = False
    hints: str = ""

    @property
    def packed(self) -> bool:
        return self.element == "f4E2M1FN"

    def _operand(self, name: str, lines: int, index: str) -> tuple[str, str]:
        """What makes a view, and what loads (k x lines for b) from it."""
        stored, width = ("i8", self.k // 2) if self.packed else (self.element, self.k)
        size = "%m" if name == "a" else "%n"
        tensor = f"tensor_view<?x?x{stored}, strides=[?,1]>"
        view = f"partition_view<tile=({lines}x{width}), padding_value = zero, {tensor}>"
        made = f"""%{name}1 = assume div_by<16>, %{name}0 : tile<ptr<{stored}>>
    %t{name} = make_tensor_view %{name}1, shape = [{size}, %width], strides = [%width, 1] : tile<i32> -> {tensor}
    %v{name} = make_partition_view %t{name} : {view}"""
        tile = f"tile<{lines}x{self.k}x{self.element}>"
        loaded = f"""%{name}l, %{name}w = load_view_tko weak %v{name}[{index}, %i] : {view}, tile<i32> -> \
tile<{lines}x{width}x{stored}>, token
      """
        if self.packed:
            flat = lines * width
            loaded += f"""%{name}f = reshape %{name}l : tile<{lines}x{width}xi8> -> tile<{flat}xi8>
      %{name}u = unpack %{name}f : tile<{flat}xi8> -> tile<{2 * flat}x{self.element}>
      %{name}r = reshape %{name}u : tile<{2 * flat}x{self.element}> -> {tile}
      """
        source = f"%{name}r" if self.packed else f"%{name}l"
        if name == "a":
            return made, loaded + f"%a = reshape {source} : {tile} -> {tile}\n      "
        return made, loaded + f"%b = permute {source} [1, 0] : {tile} -> tile<{self.k}x{lines}x{self.element}>\n      "

    def _factors(self, name: str, lines: int, index: str) -> tuple[str, str]:
        """What makes a view of factors, and what loads (blocks x lines for sb) from it."""
        blocks, element = self.k // self.block, self.factors
        size = "%m" if name == "sa" else "%n"
        tile = f"tile<{lines}x{blocks}x{element}>"
        rest = f"%{name}r = reshape %{name}l : {tile} -> {tile}"
        if self.in_pieces:
            shape = f"{lines // 128}x{blocks // 4}"
            tensor = f"tensor_view<?x?x32x16x{element}, strides=[?,512,16,1]>"
            view = f"partition_view<tile=({shape}x32x16), {tensor}>"
            sizes, strides, at = f"{size}pieces, %pieces", "%stride", f"{index}, %i, %zero, %zero"
            loaded, five = f"tile<{shape}x32x16x{element}>", f"tile<{shape}x32x4x4x{element}>"
            moved = f"tile<{lines // 128}x4x32x{blocks // 4}x4x{element}>"
            rest = f"""%{name}v = reshape %{name}l : {loaded} -> {five}
      %{name}p = permute %{name}v [0, 3, 2, 1, 4] : {five} -> {moved}
      %{name}r = reshape %{name}p : {moved} -> {tile}"""
        else:
            tensor = f"tensor_view<?x?x{element}, strides=[?,1]>"
            view = f"partition_view<tile=({lines}x{blocks}), padding_value = zero, {tensor}>"
            sizes, strides, at, loaded = f"{size}, %blocks", "%blocks", f"{index}, %i", tile
        sizes, strides = (f"{sizes}, 32, 16", f"{strides}, 512, 16, 1") if self.in_pieces else (sizes, f"{strides}, 1")
        made = f"""%{name}1 = assume div_by<16>, %{name}0 : tile<ptr<{element}>>
    %t{name} = make_tensor_view %{name}1, shape = [{sizes}], strides = [{strides}] : tile<i32> -> {tensor}
    %v{name} = make_partition_view %t{name} : {view}"""
        done = f"%sa = reshape %sar : {tile} -> {tile}"
        if name == "sb":
            done = f"%sb = permute %sbr [1, 0] : {tile} -> tile<{blocks}x{lines}x{element}>"
        load = f"%{name}l, %{name}w = load_view_tko weak %v{name}[{at}] : {view}, tile<i32> -> {loaded}, token"
        if self.by_pointers:
            load = self._pointers(name, lines, blocks, index)
        if self.doubled:
            wide = tile.replace(element, "f32")
            rest = f"""%{name}wide = ftof %{name}l : {tile} -> {wide}
      %{name}twice = addf %{name}wide, %{name}wide : {wide}
      %{name}r = ftof %{name}twice{" rounding<zero>" if element == "f8E8M0FNU" else ""} : {wide} -> {tile}"""
        return made, f"{load}\n      {rest}\n      {done}\n      "

    def _pointers(self, name: str, lines: int, blocks: int, index: str) -> str:
        """What loads factors by pointers."""
        both, element = f"{lines}x{blocks}", self.factors
        return f"""%{name}first = muli {index}, %{name}lines : tile<i32>
      %{name}row0 = iota : tile<{lines}xi32>
      %{name}first1 = reshape %{name}first : tile<i32> -> tile<1xi32>
      %{name}first2 = broadcast %{name}first1 : tile<1xi32> -> tile<{lines}xi32>
      %{name}row1 = addi %{name}row0, %{name}first2 : tile<{lines}xi32>
      %{name}all1 = reshape %blocks : tile<i32> -> tile<1xi32>
      %{name}all2 = broadcast %{name}all1 : tile<1xi32> -> tile<{lines}xi32>
      %{name}row2 = muli %{name}row1, %{name}all2 : tile<{lines}xi32>
      %{name}row3 = reshape %{name}row2 : tile<{lines}xi32> -> tile<{lines}x1xi32>
      %{name}row = broadcast %{name}row3 : tile<{lines}x1xi32> -> tile<{both}xi32>
      %{name}step = muli %i, %{name}each : tile<i32>
      %{name}column0 = iota : tile<{blocks}xi32>
      %{name}step1 = reshape %{name}step : tile<i32> -> tile<1xi32>
      %{name}step2 = broadcast %{name}step1 : tile<1xi32> -> tile<{blocks}xi32>
      %{name}column1 = addi %{name}column0, %{name}step2 : tile<{blocks}xi32>
      %{name}column2 = reshape %{name}column1 : tile<{blocks}xi32> -> tile<1x{blocks}xi32>
      %{name}column = broadcast %{name}column2 : tile<1x{blocks}xi32> -> tile<{both}xi32>
      %{name}place = addi %{name}row, %{name}column : tile<{both}xi32>
      %{name}base1 = reshape %{name}1 : tile<ptr<{element}>> -> tile<1x1xptr<{element}>>
      %{name}base = broadcast %{name}base1 : tile<1x1xptr<{element}>> -> tile<{both}xptr<{element}>>
      %{name}at = offset %{name}base, %{name}place : tile<{both}xptr<{element}>>, tile<{both}xi32> -> \
tile<{both}xptr<{element}>>
      %{name}l, %{name}w = load_ptr_tko weak %{name}at : tile<{both}xptr<{element}>> -> tile<{both}x{element}>, token"""

    @property
    def text(self) -> str:
        m, n, k, block = self.m, self.n, self.k, self.block
        parts = [self._operand("a", m, "%bx"), self._operand("b", n, "%by")]
        parts += [self._factors("sa", m, "%bx"), self._factors("sb", n, "%by")]
        stored = "i8" if self.packed else self.element
        head, body = "\n    ".join(x for x, _ in parts), "".join(x for _, x in parts)
        types = f"tile<{m}x{k}x{self.element}>, tile<{k}x{n}x{self.element}>, tile<{m}x{n}xf32>, " \
            f"tile<{m}x{k // block}x{self.factors}>, tile<{k // block}x{n}x{self.factors}>"  # fmt: skip
        out = "tensor_view<?x?xf32, strides=[?,1]>"
        to, result = f"partition_view<tile=({m}x{n}), {out}>", f"tile<{m}x{n}xf32>"
        hints = f" optimization_hints = <sm_100 = {{{self.hints}}}>" if self.hints else ""
        width = k // 2 if self.packed else k
        ids, loop, end = "%bx, %by, %bz", "", ""
        if self.persistent:
            ids, end = "%p0, %p1, %p2", "  continue\n    }"
            loop = f"""%g0, %g1, %g2 = get_num_tile_blocks : tile<i32>
    %tiles:2 = get_index_space_shape %vc : {to} -> tile<i32>
    %all = muli %tiles#0, %tiles#1 : tile<i32>
    for %tile in (%p0 to %all, step %g0) : tile<i32> {{
      %bx = divi %tile, %tiles#1 signed : tile<i32>
      %by = remi %tile, %tiles#1 signed : tile<i32>"""
        return f"""cuda_tile.module @kernels {{
  entry @gemm(%a0: tile<ptr<{stored}>>, %b0: tile<ptr<{stored}>>, %sa0: tile<ptr<{self.factors}>>,
      %sb0: tile<ptr<{self.factors}>>, %c: tile<ptr<f32>>, %m0: tile<i32>, %n0: tile<i32>, %width0: tile<i32>,
      %mpieces0: tile<i32>, %npieces0: tile<i32>, %pieces0: tile<i32>, %stride0: tile<i32>,
      %blocks0: tile<i32>){hints} {{
    %m = assume bounded<0, ?>, %m0 : tile<i32>
    %n1 = assume bounded<0, ?>, %n0 : tile<i32>
    %n = assume div_by<4>, %n1 : tile<i32>
    %width1 = assume bounded<0, ?>, %width0 : tile<i32>
    %width = assume div_by<16>, %width1 : tile<i32>
    %mpieces = assume bounded<0, ?>, %mpieces0 : tile<i32>
    %npieces = assume bounded<0, ?>, %npieces0 : tile<i32>
    %pieces = assume bounded<0, ?>, %pieces0 : tile<i32>
    %stride1 = assume bounded<0, ?>, %stride0 : tile<i32>
    %stride = assume div_by<512>, %stride1 : tile<i32>
    %blocks = assume bounded<0, ?>, %blocks0 : tile<i32>
    {head}
    %tc = make_tensor_view %c, shape = [%m, %n], strides = [%n, 1] : tile<i32> -> {out}
    %vc = make_partition_view %tc : {to}
    {ids} = get_tile_block_id : tile<i32>
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %step = constant <i32: {width}> : tile<i32>
    %last = constant <i32: {width - 1}> : tile<i32>
    %more = addi %width, %last : tile<i32>
    %steps = divi %more, %step signed : tile<i32>
    %none = constant <f32: 0.0> : {result}
    %salines = constant <i32: {m}> : tile<i32>
    %sblines = constant <i32: {n}> : tile<i32>
    %saeach = constant <i32: {k // block}> : tile<i32>
    %sbeach = constant <i32: {k // block}> : tile<i32>
    {loop}
    %r = for %i in (%zero to %steps, step %one) : tile<i32> iter_values(%acc = %none) -> ({result}) {{
      {body}%d = mmaf_scaled %a, %b, %acc, %sa, %sb : {types}
      continue %d : {result}
    }}
    %w = store_view_tko weak %r, %vc[%bx, %by] : {result}, {to}, tile<i32> -> token
    {end}
    return
  }}
}}
"""

    def problem(self, m: int, n: int, k: int, seed: int = 0) -> tuple[list[np.ndarray | int], np.ndarray]:
        """Arguments for matrices of these sizes, of which the fifth is the result, and what it should be."""
        rng, kind = np.random.default_rng(seed), TYPES[self.element]
        if self.packed:
            codes = [rng.integers(0, 16, (lines, k)).astype(np.uint8) for lines in (m, n)]
            stored = [(c[:, ::2] | c[:, 1::2] << 4).astype(np.uint8) for c in codes]
            values = [c.view(kind).astype(np.float64) for c in codes]
        else:
            stored = [rng.integers(-3, 4, (lines, k)).astype(kind) for lines in (m, n)]
            values = [x.astype(np.float64) for x in stored]
        blocks = -(-k // self.block)
        factors = [np.exp2(rng.integers(-2, 3, (lines, blocks))).astype(TYPES[self.factors]) for lines in (m, n)]
        times = 2.0 if self.doubled else 1.0
        x, y = (v * times * f.astype(np.float64).repeat(self.block, 1)[:, :k] for v, f in zip(values, factors))
        given = [in_pieces(f) if self.in_pieces else f for f in factors]
        pieces = -(-blocks // 4)
        numbers = [m, n, stored[0].shape[1], -(-m // 128), -(-n // 128), pieces, pieces * 512, blocks]
        return [*stored, *given, np.full((m, n), 7, np.float32), *numbers], (x @ y.T).astype(np.float32)


def in_pieces(factors: np.ndarray) -> np.ndarray:
    """Factors (lines, blocks) with four blocks of 128 lines in 512 bytes: 32 rows of 4 x 4."""
    lines, blocks = (-(-n // by) * by for n, by in zip(factors.shape, (128, 4)))
    whole = np.ones((lines, blocks), factors.dtype)
    whole[: factors.shape[0], : factors.shape[1]] = factors
    split = whole.reshape(lines // 128, 4, 32, blocks // 4, 4)
    return np.ascontiguousarray(split.transpose(0, 3, 2, 1, 4)).reshape(lines // 128, blocks // 4, 32, 16)
