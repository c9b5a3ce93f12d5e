# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Matrix products of nv_tileas: those of nv_tileaa with the instruction that computes them, and where warps are.

`atom` is one instruction (or a fused multiply-add for each element), of which the product is made; `warps` is how many
warps lie along batches, rows and columns of the result. The layouts of the operands follow from the two, and the rules
here hold them together: what is emitted is what the op says.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import DenseArrayBase
from xdsl.ir import Attribute
from xdsl.irdl import opt_prop_def, prop_def
from xdsl.utils.exceptions import VerifyException

from libtile.dialects.cuda_tile.types import NUMBER_NAMES
from libtile.dialects.nv_tileaa.attributes import SignednessAttr
from libtile.dialects.nv_tileaa.collectives import DotLike, ScaledDotLike
from libtile.dialects.nv_tileaa.dot_rules import check_dot, check_scaled_dot
from libtile.dialects.nv_tileaa.target import target_of
from libtile.dialects.nv_tileas.attributes import FMA, TCGEN05, MmaAtomAttr
from libtile.dialects.nv_tileas.layout import LayoutAttr, linear_layout
from libtile.ir.tile_form import TileOp, element_of, layout_of, shape_of, tile_op
from libtile.layouts import WARP, LinearLayout
from libtile.targets import MMA_SYNC

if TYPE_CHECKING:
    from libtile.targets import MmaAtom, Target


@tile_op
class DotOp(DotLike):
    __doc__ = DotLike.__doc__
    name = "nv_tileas.dot"
    atom = prop_def(MmaAtomAttr)
    warps = opt_prop_def(DenseArrayBase)

    def check(self) -> None:
        check_dot(self)
        _check_types(self, self.atom)
        _check_result(self)
        if self.atom.kind == TCGEN05:
            _check_tensor_memory(self)
        elif self.atom.kind != FMA:
            _check_target(self, self.atom)
            _check_fragments(self, self.atom.instruction)


@tile_op
class ScaledDotOp(ScaledDotLike):
    __doc__ = ScaledDotLike.__doc__
    name = "nv_tileas.scaled_dot"
    atom = prop_def(MmaAtomAttr)
    warps = opt_prop_def(DenseArrayBase)

    def check(self) -> None:
        from libtile.atoms import mma_block_scale
        from libtile.atoms.mma_layouts import scale_layouts

        check_scaled_dot(self)
        kinds = (MMA_SYNC, mma_block_scale.FAMILY, TCGEN05)
        if self.atom.kind not in kinds:
            raise VerifyException(f"expects an atom of kind {' or '.join(kinds)}, but got {self.atom}")
        _check_types(self, self.atom)
        _check_result(self)
        if self.atom.kind == TCGEN05:
            _check_tensor_memory(self)
            return
        _check_target(self, self.atom)
        grid = _check_fragments(self, self.atom.instruction)
        accumulator = linear_layout(self.c.type)
        assert accumulator is not None  # it is that of the fragments
        shapes = [shape_of(v.type) for v in (self.sfa, self.sfb)]
        wanted = scale_layouts(self.atom.instruction, grid, accumulator, *shapes)
        for name, value, layout in zip(("SFA", "SFB"), (self.sfa, self.sfb), wanted):
            _require(name, value.type, layout)


def _check_types(op: TileOp, atom: MmaAtomAttr) -> None:
    """The atom multiplies what the operands are, or what all of their values are also, into what is added to."""
    from libtile.atoms.operand_types import accumulator_type, ptx_type, widens_to

    elements = [op.element(v) if isinstance(op, ScaledDotOp) else element_of(v.type) for v in op.operands[:2]]
    a, b, c = (NUMBER_NAMES[e] for e in (*elements, element_of(op.operands[2].type)))
    wanted = accumulator_type(c)
    if atom.kind == FMA:
        fits = atom.shape == (1, 1, 1) and atom.types == (wanted,) * 3 and wanted.startswith("f")
    else:
        given = [{ptx_type(e, _is_signed(op, side)), widens_to(e)} - {""} for e, side in ((a, "a"), (b, "b"))]
        fits = atom.types[0] in given[0] and atom.types[1] in given[1] and atom.types[2] == wanted
    if not fits:
        raise VerifyException(f"expects an atom that multiplies {a} and {b} into {c}, but got {atom}")


def _is_signed(op: TileOp, side: str) -> bool:
    sign = op.properties.get(f"signedness_{side}")
    return not isinstance(sign, SignednessAttr) or sign.keyword == "signed"


def _check_result(op: TileOp) -> None:
    """What an atom adds to stays where it is."""
    if op.operands[2].type != op.results[0].type:
        raise VerifyException("expects the result to have the layout of #C")


def _check_target(op: TileOp, atom: MmaAtomAttr) -> None:
    target = target_of(op)
    if target is not None and atom.instruction not in target.mma_atoms:
        raise VerifyException(f"expects an atom of {target.name}, but got {atom}")


def _check_fragments(op: TileOp, atom: MmaAtom) -> tuple[int, int, int]:
    """The operands are in the fragments that the instruction reads; the numbers of warps."""
    from libtile.atoms.mma_layouts import fragments
    from libtile.atoms.mma_sync import TRANSPOSED_COLUMNS

    warps = op.properties.get("warps")
    if not isinstance(warps, DenseArrayBase):
        raise VerifyException("expects 'warps', the numbers of warps along batches, rows and columns")
    sizes = tuple(int(n) for n in warps.get_values())
    if len(sizes) != 3 or any(n < 1 or n & (n - 1) for n in sizes):
        raise VerifyException(f"expects three powers of two as 'warps', but got {list(sizes)}")
    batches, rows, columns = sizes
    shapes: Sequence[tuple[int, ...]] = [shape_of(v.type) for v in op.operands[:3]]
    wanted = fragments(atom, (batches, rows, columns), shapes)
    given = linear_layout(op.operands[2].type)
    if given != wanted[2]:
        wide = fragments(atom, (batches, rows, columns), shapes, TRANSPOSED_COLUMNS)
        wanted = wide if given == wide[2] else _in_pairs(op, wanted)
    for name, value, layout in zip("ABC", op.operands, wanted):
        _require(f"#{name}", value.type, layout)
    return batches, rows, columns


def _in_pairs(
    op: TileOp, plain: tuple[LinearLayout, LinearLayout, LinearLayout]
) -> tuple[LinearLayout, LinearLayout, LinearLayout]:
    """The fragments with rows in pairs, if those of the result lie so."""
    from libtile.atoms import wgmma

    a, b, c = plain
    given = linear_layout(op.operands[2].type)
    if given is None or not wgmma.lies_in_pairs(given, c):
        return plain
    return wgmma.in_pairs(a), b, wgmma.in_pairs(c)


def _check_tensor_memory(op: DotOp | ScaledDotOp) -> None:
    """An instruction of the target, and a result as warps load it from tensor memory."""
    from libtile.atoms import tcgen05

    target, c = target_of(op), shape_of(op.c.type)
    if target is not None and (len(c) != 2 or op.atom.instruction != _in_tensor_memory(op, target)):
        raise VerifyException(f"expects an atom of {target.name} for a product of this shape, but got {op.atom}")
    found = linear_layout(op.c.type)
    warps = 1 << len(found.basis(WARP)) if found is not None else 1
    by_rows = c[0] in tcgen05.ROWS_OF_THREADS and warps == tcgen05.row_warps(c[0])
    if by_rows and found == tcgen05.row_layout(c, warps):
        return
    try:
        layout = tcgen05.register_layout(c, warps)
    except ValueError as problem:
        raise VerifyException(f"#C has no layout for products: {problem}") from None
    _require("#C", op.c.type, layout)


def _in_tensor_memory(op: DotOp | ScaledDotOp, target: Target) -> MmaAtom | None:
    """The instruction of a product whose result lies in tensor memory."""
    from libtile.atoms import tcgen05, tcgen05_factors

    atom, c, depth = op.atom.instruction, shape_of(op.c.type), shape_of(op.a.type)[1]
    if isinstance(op, DotOp):
        return tcgen05.find(target, atom.a, atom.b, atom.d, c[0], c[1], depth)
    element, blocks = NUMBER_NAMES[element_of(op.sfa.type)], shape_of(op.sfa.type)[1]
    return tcgen05_factors.find(target, atom.a, atom.b, element, (c[0], c[1], depth), blocks)


def _require(name: str, type_: Attribute, layout: LinearLayout) -> None:
    found = linear_layout(type_)
    if found is None:
        raise VerifyException(f"expects {name} to have a layout")
    if len(found.basis(WARP)) != len(layout.basis(WARP)):
        raise VerifyException(
            f"expects as many warps as {name} has, which are {1 << len(found.basis(WARP))}, but 'warps' are "
            f"{1 << len(layout.basis(WARP))}"
        )
    if found != layout:
        raise VerifyException(f"expects {name} in the layout {LayoutAttr(layout).body()}, but got {layout_of(type_)}")
