# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Products of nv_tileas whose results lie in tensor memory (tcgen05), and the storage there.

`async.dot_into` issues the products of a tile, by one thread. They have ended when a stage of a pipeline that is
committed or released `after_products` is waited for; those of one thread on one result follow each other. Storage is
made by `alloc_tensor`, and may be that of a pipeline, whose stages are results; what a tile of it is in registers, a
copy says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.dialects.builtin import i1, i8
from xdsl.ir import Attribute
from xdsl.irdl import AttrSizedOperandSegments, operand_def, opt_operand_def, opt_prop_def, prop_def, traits_def
from xdsl.utils.exceptions import VerifyException

from libtile.dialects.cuda_tile.types import NUMBER_NAMES
from libtile.dialects.effect_traits import Observable
from libtile.dialects.nv_tileaa.attributes import SignednessAttr
from libtile.dialects.nv_tileaa.dot_rules import check_dot_shapes
from libtile.dialects.nv_tileaa.element_types import bit_width
from libtile.dialects.nv_tileaa.target import target_of
from libtile.dialects.nv_tileas.async_products import check_product_types, check_shared_operand, matrix_shape
from libtile.dialects.nv_tileas.attributes import TCGEN05, MmaAtomAttr
from libtile.dialects.nv_tileas.layout import LayoutAttr
from libtile.dialects.nv_tileas.types import BufferType
from libtile.ir.tile_form import TileOp, stored_element, stored_shape, tile_op, type_text
from libtile.layouts.row_swizzles import ATOMS

if TYPE_CHECKING:
    from libtile.targets import Target


@tile_op
class AsyncDotIntoOp(TileOp):
    """Issues D = A * B + D, or D = A * B where `accumulate` is false. A and B are buffers in shared memory, D one in
    tensor memory, where A may lie as well. SFA and SFB are scale factors there, of blocks along k of A's rows and B's
    columns. Operands of such a product whose elements have 4 bits are buffers of i8, of which each holds two along k,
    the first one in its lower bits. By an atom of a pair of CTAs, their first one issues the products of both: each has
    its rows of A and D, and half of the columns of B."""

    name = "nv_tileas.async.dot_into"
    traits = traits_def(Observable())
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    a = operand_def()
    b = operand_def()
    d = operand_def()
    accumulate = operand_def()
    sfa = opt_operand_def()
    sfb = opt_operand_def()
    atom = prop_def(MmaAtomAttr)
    signedness_a = opt_prop_def(SignednessAttr)
    signedness_b = opt_prop_def(SignednessAttr)

    def check(self) -> None:
        from libtile.atoms import tcgen05, tcgen05_factors

        if self.atom.kind != TCGEN05:
            raise VerifyException(f"expects an atom of kind {TCGEN05}, but got {self.atom}")
        if self.accumulate.type != i1:
            raise VerifyException(f"expects 'accumulate' of i1, but got {type_text(self.accumulate.type)}")
        atom, given = self.atom.instruction, (self.a, self.b, self.d)
        a, b, d = (matrix_shape(v.type) for v in given)
        ctas = tcgen05.ctas_of(atom)
        check_dot_shapes(a, (*b[:-1], b[-1] * ctas), d, d)
        if len(d) != 2:
            raise VerifyException("expects matrices, without a batch dimension")
        target = target_of(self)
        if self.sfa is not None or self.sfb is not None:
            self._check_factors(target, a, d)
            atom = tcgen05_factors.in_bytes(atom)
        else:
            check_product_types(self, given, self.atom)
        if target is not None and self.sfa is None:
            found = tcgen05.find(target, atom.a, atom.b, atom.d, d[0], d[1], a[1], ctas)
            if found is None or atom != found:
                raise VerifyException(
                    f"expects an atom of {target.name} for a product of this shape, but got {self.atom}"
                )
        transposed = ATOMS if target is None else tcgen05.transposed_atoms(target, atom)
        for side, value in (("a", self.a), ("b", self.b)):
            if side == "a" and isinstance(value.type, BufferType) and value.type.space == "tmem":
                check_left_operand(value.type)
            else:
                check_shared_operand(side, value, tcgen05.share_of(atom), transposed)
        check_tensor_memory("#D", self.d.type)

    def _check_factors(self, target: Target | None, a: tuple[int, ...], d: tuple[int, ...]) -> None:
        """Operands and factors are what the atom multiplies; VerifyException."""
        from libtile.atoms import tcgen05_factors

        if self.sfa is None or self.sfb is None:
            raise VerifyException("expects both SFA and SFB to be present")
        atom, depth = self.atom.instruction, a[1]
        if tcgen05_factors.shares_bytes(atom):
            depth *= 8 // tcgen05_factors.SHARED_BITS
            if any(stored_element(v.type) != i8 for v in (self.a, self.b)):
                raise VerifyException(f"expects #A and #B of i8, of which each holds two elements of {atom.a}")
        else:
            check_product_types(self, (self.a, self.b, self.d), self.atom)
        blocks = self.factors_of(d[0], "SFA", self.sfa.type)
        if self.factors_of(d[1], "SFB", self.sfb.type) != blocks or depth % blocks:
            raise VerifyException("expects as many blocks along k of SFA as of SFB, which k is a multiple of")
        elements = {NUMBER_NAMES[stored_element(v.type)] for v in (self.sfa, self.sfb)}
        if len(elements) != 1:
            raise VerifyException("expects SFA and SFB of one element type")
        if target is not None:
            found = tcgen05_factors.find(target, atom.a, atom.b, elements.pop(), (d[0], d[1], depth), blocks)
            if atom != found:
                raise VerifyException(
                    f"expects an atom of {target.name} for a product of this shape, but got {self.atom}"
                )

    @staticmethod
    def factors_of(lines: int, name: str, type_: Attribute) -> int:
        """How many blocks along k factors of so many lines have, which lie as products read them; VerifyException."""
        from libtile.atoms import tcgen05_factors

        shape = stored_shape(type_)
        if not isinstance(type_, BufferType) or type_.space != "tmem" or len(shape) != 2 or shape[0] != lines:
            raise VerifyException(f"expects {name} of {lines} lines in tensor memory, but got {type_text(type_)}")
        try:
            layout = tcgen05_factors.layout(shape)
        except ValueError as problem:
            raise VerifyException(f"{name} has no layout for products: {problem}") from None
        if type_.layout is None or type_.layout.layout != layout:
            raise VerifyException(f"expects {name} in the layout {LayoutAttr(layout).body()}, but got {type_.layout}")
        return shape[1]


@tile_op
class DeallocTensorOp(TileOp):
    """Gives back storage in tensor memory, when all threads of the block have come here."""

    name = "nv_tileas.dealloc_tensor"
    traits = traits_def(Observable())
    storage = operand_def()

    def check(self) -> None:
        type_ = self.storage.type
        if not isinstance(type_, BufferType) or type_.space != "tmem":
            raise VerifyException(f"expects storage in tensor memory, but got {type_text(type_)}")


def check_tensor_memory(name: str, type_: Attribute) -> None:
    """A result of products in tensor memory, a row to a lane; VerifyException."""
    from libtile.atoms import tcgen05

    if not isinstance(type_, BufferType) or type_.space != "tmem":
        raise VerifyException(f"expects {name} in tensor memory, but got {type_text(type_)}")
    try:
        layout = tcgen05.memory_layout(type_.shape)
    except ValueError as problem:
        raise VerifyException(f"{name} has no layout for products: {problem}") from None
    if type_.layout is None or type_.layout.layout != layout:
        raise VerifyException(f"expects {name} in the layout {LayoutAttr(layout).body()}, but got {type_.layout}")


def check_left_operand(type_: BufferType) -> None:
    """A left operand in tensor memory, a row to a lane and several elements to a column; VerifyException."""
    from libtile.atoms import tcgen05

    try:
        layout = tcgen05.left_layout(type_.shape, bit_width(type_.element_type))
    except ValueError as problem:
        raise VerifyException(f"#A has no layout for products: {problem}") from None
    if type_.layout is None or type_.layout.layout != layout:
        raise VerifyException(f"expects #A in the layout {LayoutAttr(layout).body()}, but got {type_.layout}")
