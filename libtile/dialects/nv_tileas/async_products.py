# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Matrix products of nv_tileas that are under way while the program goes on (wgmma).

`async.dot` issues the products of a tile, and closes a group of them. What it gives is in flight: only another
`async.dot` may add to it, a loop or a yield carry it, or a `wait_dot` wait for it. Operands in shared memory, and A in
registers, must stay as they are until then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, TensorType, UnitAttr
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.utils.exceptions import VerifyException

from libtile.dialects import scf
from libtile.dialects.cuda_tile.types import NUMBER_NAMES
from libtile.dialects.effect_traits import Observable
from libtile.dialects.nv_tileaa.attributes import SignednessAttr
from libtile.dialects.nv_tileaa.dot_rules import check_dot_shapes, check_no_signs
from libtile.dialects.nv_tileaa.element_types import is_float
from libtile.dialects.nv_tileaa.shapes import integers_of
from libtile.dialects.nv_tileaa.target import target_of
from libtile.dialects.nv_tileas.attributes import MmaAtomAttr
from libtile.dialects.nv_tileas.layout import LayoutAttr
from libtile.dialects.nv_tileas.pipeline import PipelineYieldOp
from libtile.dialects.nv_tileas.types import BufferType
from libtile.ir.tile_form import TileOp, layout_of, stored_element, stored_shape, tile_op, type_text
from libtile.layouts import WARP, LinearLayout
from libtile.layouts.builders import dim_names
from libtile.layouts.row_swizzles import ATOMS
from libtile.numerics.elements import STORAGE_BYTES

if TYPE_CHECKING:
    from libtile.targets import MmaAtom

WGMMA = "wgmma"


@tile_op
class AsyncDotOp(TileOp):
    """Issues D = A * B + C, and closes a group of products. B is a buffer in shared memory, A one or a tile.

    Buffers may have dimensions of size 1 beside those of the matrix. Tiles `ahead` are written before the product is
    issued, and products that are `fenced` read such tiles: nothing writes to registers in between. With `first_column`
    the product is one with as many columns of B, from that one on, as C has, with `first_row` one of a buffer's rows,
    and with `first_depth` one of as many rows of B, from that one on, as A has columns. Rows of A and C may lie in
    pairs (`wgmma.in_pairs`), where A is in registers. Warpgroups share the columns of C where it has no rows for all of
    them, and A is in shared memory then. The descriptors of a `rematerialized_a` or `rematerialized_b` are computed
    where each part of it is read, and not held in registers.
    """

    name = "nv_tileas.async.dot"
    traits = traits_def(Observable())
    a = operand_def()
    b = operand_def()
    c = operand_def()
    ahead = var_operand_def()
    result = result_def()
    atom = prop_def(MmaAtomAttr)
    fenced = opt_prop_def(UnitAttr)
    signedness_a = opt_prop_def(SignednessAttr)
    signedness_b = opt_prop_def(SignednessAttr)
    fast_acc = opt_prop_def(UnitAttr)
    first_column = opt_prop_def(IntegerAttr)
    first_row = opt_prop_def(IntegerAttr)
    first_depth = opt_prop_def(IntegerAttr)
    rematerialized_a = opt_prop_def(UnitAttr)
    rematerialized_b = opt_prop_def(UnitAttr)

    def check(self) -> None:
        from libtile.atoms import wgmma

        if self.atom.kind != WGMMA:
            raise VerifyException(f"expects an atom of kind {WGMMA}, but got {self.atom}")
        atom = self.atom.instruction
        a, b, c = shapes = [matrix_shape(v.type) for v in self.operands[:3]]
        if self.first_column is not None and len(b) == len(c) == 2:
            first = self.first_column.value.data
            if first < 0 or first % atom.n or first + c[1] > b[1]:
                raise VerifyException(f"expects columns of #B from a multiple of {atom.n} on, but got {first}")
            b = (b[0], c[1])
        if self.first_row is not None and len(a) == len(c) == 2:
            first = self.first_row.value.data
            if not isinstance(self.a.type, BufferType) or first < 0 or first % c[0] or first + c[0] > a[0]:
                raise VerifyException(f"expects rows of a buffer from a multiple of {c[0]} on, but got {first}")
            a = (c[0], a[1])
        if self.first_depth is not None and len(a) == len(b) == 2:
            first = self.first_depth.value.data
            if not isinstance(self.a.type, TensorType) or first < 0 or first % atom.k or first + a[1] > b[0]:
                raise VerifyException(f"expects rows of #B from a multiple of {atom.k} on, but got {first}")
            b = (a[1], b[1])
        check_dot_shapes(a, b, c, stored_shape(self.result.type))
        if len(c) != 2:
            raise VerifyException("expects matrices, without a batch dimension")
        if self.rematerialized_a is not None and not isinstance(self.a.type, BufferType):
            raise VerifyException(f"expects descriptors of a buffer, but got {type_text(self.a.type)}")
        if self.c.type != self.result.type:
            raise VerifyException("expects the result to have the type of #C")
        check_product_types(self, self.operands, self.atom)
        target = target_of(self)
        if target is not None:
            found = wgmma.find(target, atom.a, atom.b, atom.d, c[0], c[1], a[1])
            if found is None or atom != wgmma.find(target, atom.a, atom.b, atom.d, atom.m, atom.n, atom.k):
                raise VerifyException(
                    f"expects an atom of {target.name} for a product of this shape, but got {self.atom}"
                )
        accumulator = layout_of(self.c.type)
        if not isinstance(accumulator, LayoutAttr):
            raise VerifyException("expects #C to have a layout")
        warps = 1 << len(accumulator.layout.basis(WARP))
        pairs = isinstance(self.a.type, TensorType) and self._lies_in_pairs(accumulator, shapes[2], warps)

        def sums(shape: Sequence[int], warps: int) -> LinearLayout:
            plain = wgmma.shared_layout(shape, warps)
            return wgmma.in_pairs(plain) if pairs else plain

        self._check_layout("#C", accumulator, sums, shapes[2], warps)
        if c[1] // wgmma.column_groups(c[0], warps) % atom.n:
            raise VerifyException(f"expects an atom for the columns of a warpgroup, but got {self.atom}")
        if isinstance(self.a.type, TensorType):
            bits = 8 * self._bytes()

            def wanted(shape: Sequence[int], warps: int) -> LinearLayout:
                plain = wgmma.a_layout(shape, warps, bits)
                return wgmma.in_pairs(plain) if pairs else plain

            self._check_layout("#A", layout_of(self.a.type), wanted, shapes[0], warps)
        transposed = ATOMS if target is None else wgmma.transposed_atoms(target, atom)
        for side, value in (("a", self.a), ("b", self.b)):
            if side == "b" or not isinstance(value.type, TensorType):
                check_shared_operand(side, value, atom, transposed)
        for value in (self.a, self.c) if self.fenced is not None else ():
            if isinstance(value.type, TensorType) and not any(
                isinstance(use.operation, AsyncDotOp) and use.index > 2 for use in value.uses
            ):
                raise VerifyException("expects the registers of a fenced product to be ahead of another one")
        for user in users_in_flight(self.result):
            raise VerifyException(f"expects a wait_dot before '{user.name}' uses what is in flight")

    @staticmethod
    def _lies_in_pairs(accumulator: LayoutAttr, shape: tuple[int, ...], warps: int) -> bool:
        from libtile.atoms import wgmma

        try:
            return wgmma.lies_in_pairs(accumulator.layout, wgmma.accumulator_layout(shape, warps))
        except ValueError:
            return False

    def _bytes(self) -> int:
        return STORAGE_BYTES[NUMBER_NAMES[stored_element(self.b.type)]]

    @staticmethod
    def _check_layout(
        name: str,
        given: Attribute | None,
        wanted: Callable[[Sequence[int], int], LinearLayout],
        shape: tuple[int, ...],
        warps: int,
    ) -> None:
        try:
            layout = wanted(shape, warps)
        except ValueError as problem:
            raise VerifyException(f"{name} has no layout for products: {problem}") from None
        if not isinstance(given, LayoutAttr) or given.layout != layout:
            raise VerifyException(f"expects {name} in the layout {LayoutAttr(layout).body()}, but got {given}")


def check_product_types(op: TileOp, values: Sequence[SSAValue], atom: MmaAtomAttr) -> None:
    """The atom multiplies what the operands are into what is added to; VerifyException."""
    from libtile.atoms.operand_types import accumulator_type, ptx_type

    if is_float(stored_element(values[2].type)):
        check_no_signs(op)
    for value in values[:3]:
        if stored_element(value.type) not in NUMBER_NAMES:
            raise VerifyException(f"expects operands of numbers, but got {type_text(value.type)}")
    given = [NUMBER_NAMES[stored_element(v.type)] for v in values[:3]]
    given_signs = [op.properties.get(f"signedness_{side}") for side in "ab"]
    signs = [not isinstance(s, SignednessAttr) or s.keyword == "signed" for s in given_signs]
    types = (*(ptx_type(e, s) for e, s in zip(given, signs)), accumulator_type(given[2]))
    if types != atom.types:
        raise VerifyException(
            f"expects an atom that multiplies {given[0]} and {given[1]} into {given[2]}, but got {atom}"
        )


def check_shared_operand(side: str, value: SSAValue, atom: MmaAtom, transposed: tuple[int, ...]) -> None:
    """An operand lies in shared memory as products read it, MN-major under swizzles with such atoms only;
    VerifyException."""
    from libtile.atoms import wgmma

    type_ = value.type
    if not isinstance(type_, BufferType) or type_.space != "shared" or type_.layout is None:
        raise VerifyException(f"expects #{side.upper()} in shared memory with a layout, but got {type_text(type_)}")
    size = STORAGE_BYTES[NUMBER_NAMES[stored_element(type_)]]
    found = wgmma.shared_operand(matrix_of(type_.layout.layout), side, atom, size, transposed)
    if isinstance(found, str):
        raise VerifyException(f"expects #{side.upper()} as products read it, but {found}")


@tile_op
class WaitDotOp(TileOp):
    """Waits until at most `pending` groups of products are under way.

    The results are the accumulators, which may be used from here on where their groups have ended, and the `pins`:
    tiles that are computed before the wait. `reads` are tiles that products under way may read as A until here. A wait
    that is `held` stays behind all that stands in front of it, in machine code too, and one with `held_pins`, by their
    numbers, behind what these pins are computed of. What holds them `apart` is not shared with waits elsewhere.
    """

    name = "nv_tileas.wait_dot"
    traits = traits_def(Observable())
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    accumulators = var_operand_def()
    reads = var_operand_def()
    pins = var_operand_def()
    outputs = var_result_def()
    pending = opt_prop_def(IntegerAttr)
    held = opt_prop_def(UnitAttr)
    held_pins = opt_prop_def(DenseArrayBase)
    apart = opt_prop_def(UnitAttr)

    def check(self) -> None:
        given = [v.type for v in (*self.group("accumulators"), *self.group("pins"))]
        if given != [r.type for r in self.results]:
            raise VerifyException("expects results of the types of the accumulators and the pins")
        if self.pending is not None and not 0 <= self.pending.value.data < MAX_GROUPS:
            raise VerifyException(
                f"expects pending to be from 0 to {MAX_GROUPS - 1}, but got {self.pending.value.data}"
            )
        numbers, pins = integers_of(self.held_pins), len(self.group("pins"))
        if list(numbers) != sorted({*numbers} & {*range(pins)}):
            raise VerifyException(f"expects held_pins to count some of {pins} pins, but got {list(numbers)}")
        if self.apart is not None and not numbers:
            raise VerifyException("expects held_pins where what holds them is apart")


def matrix_shape(type_: Attribute) -> tuple[int, ...]:
    """The shape of an operand: of a buffer, without its dimensions of size 1."""
    shape = stored_shape(type_)
    return tuple(n for n in shape if n != 1) if isinstance(type_, BufferType) else shape


def matrix_of(layout: LinearLayout) -> LinearLayout:
    """A layout without the dimensions of size 1."""
    shape = [n for n in layout.shape if n != 1]
    return layout if len(shape) == len(layout.shape) else layout.reshape_outs(dict(zip(dim_names(len(shape)), shape)))


MAX_GROUPS = 8
"""Groups that a wait can leave under way are fewer (PTX ISA, "wgmma.wait_group")."""


def users_in_flight(value: SSAValue) -> Iterator[Operation]:
    """The ops that use what is in flight, but must not: all but products that add to it, waits, and those that hand it
    on, behind which its users are looked at."""
    seen: set[SSAValue] = set()
    work = [value]
    while work:
        value = work.pop()
        if value in seen:
            continue
        seen.add(value)
        for use in value.uses:
            op, number = use.operation, use.index
            if (isinstance(op, AsyncDotOp) and number == 2) or isinstance(op, WaitDotOp):
                continue
            handed = _handed_on(op, number)
            if handed is None:
                yield op
            else:
                work += handed


def _handed_on(op: Operation, number: int) -> list[SSAValue] | None:
    """The values that an operand of an op becomes; None for an op that does something with it."""
    parent = op.parent_op()
    if isinstance(op, scf.ForOp) and number >= 3:
        return [op.body.block.args[number - 2], op.results[number - 3]]
    if isinstance(op, PipelineYieldOp) and parent is not None:
        behind = len(op.operands) - number
        return [parent.results[-behind]] if behind <= len(parent.results) else None
    if isinstance(op, scf.YieldOp) and isinstance(parent, scf.ForOp):
        return [parent.body.block.args[number + 1], parent.results[number]]
    if isinstance(op, scf.YieldOp) and isinstance(parent, scf.IfOp):
        return [parent.results[number]]
    return None
