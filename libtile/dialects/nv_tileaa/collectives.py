# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Ops of nv_tileaa that combine elements: matrix products, convolutions, reductions, scans, histograms."""

from __future__ import annotations

from xdsl.dialects.builtin import ArrayAttr, Float4E2M1FNType, FloatAttr, IntegerAttr, UnitAttr
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import Pure, RecursiveMemoryEffect
from xdsl.utils.exceptions import VerifyException

from libtile.dialects.nv_tileaa.attributes import ActivationLayoutAttr, ConvParamsAttr, SignednessAttr
from libtile.dialects.nv_tileaa.dot_rules import check_dot, check_dot_elements, check_scaled_dot
from libtile.dialects.nv_tileaa.element_types import is_integer
from libtile.dialects.nv_tileaa.shapes import Unary
from libtile.dialects.nv_tileaa.terminators import check_region_ends, only_block
from libtile.ir.tile_form import TileOp, element_of, shape_of, tile_op, type_text


class DotLike(TileOp):
    """D = A * B + C; with scale factors, A and B are multiplied by them block by block along K.

    `fast_acc` allows an accumulation of lower precision in FP8 products; `propagate_nan` asks for NaNs to come through.
    """

    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    a = operand_def()
    b = operand_def()
    c = operand_def()
    sfa = opt_operand_def()
    sfb = opt_operand_def()
    result = result_def()
    signedness_a = opt_prop_def(SignednessAttr)
    signedness_b = opt_prop_def(SignednessAttr)
    propagate_nan = opt_prop_def(UnitAttr)
    fast_acc = opt_prop_def(UnitAttr)
    traits = traits_def(Pure())


@tile_op
class DotOp(DotLike):
    __doc__ = DotLike.__doc__
    name = "nv_tileaa.dot"

    def check(self) -> None:
        check_dot(self)


class ScaledDotLike(TileOp):
    """A product of block-scaled operands, by an instruction that takes factors where a target has it, else made of
    ordinary products. `dot` with `sfa` and `sfb` is the former alone. `packed` operands are tiles of i8, each of which
    holds two f4E2M1FN that are neighbours along k, the first one in its lower bits."""

    a = operand_def()
    b = operand_def()
    c = operand_def()
    sfa = operand_def()
    sfb = operand_def()
    result = result_def()
    packed = opt_prop_def(UnitAttr)
    traits = traits_def(Pure())

    def element(self, operand: SSAValue) -> Attribute:
        """The type of the elements of A or B that are multiplied."""
        return element_of(operand.type) if self.packed is None else Float4E2M1FNType()


@tile_op
class ScaledDotOp(ScaledDotLike):
    __doc__ = ScaledDotLike.__doc__
    name = "nv_tileaa.scaled_dot"

    def check(self) -> None:
        check_scaled_dot(self)


@tile_op
class ConvDotOp(TileOp):
    """The product of an activation tile and a filter tile of a convolution, added to an accumulator.

    The activation has the channels of each pixel along the channel axis of its layout (the last one, of a tile of rank
    2), the filter at one of its places is a matrix of input and output channels; the accumulator has the output
    channels along that axis.
    """

    name = "nv_tileaa.conv_dot"
    activation = operand_def()
    filter = operand_def()
    accumulator = operand_def()
    result = result_def()
    activation_layout = prop_def(ActivationLayoutAttr)
    conv_params = prop_def(ConvParamsAttr)
    traits = traits_def(Pure())

    def check(self) -> None:
        self.conv_params.check()
        if self.accumulator.type != self.result.type:
            raise VerifyException("expects the result to have the accumulator's type")
        check_dot_elements(self, [element_of(v.type) for v in (*self.operands, self.result)])
        activation, weights, result = (list(shape_of(v.type)) for v in (self.activation, self.filter, self.result))
        if len(activation) not in (2, len(self.activation_layout.keyword)):
            raise VerifyException(
                f"expects an activation of rank 2 or {len(self.activation_layout.keyword)}, but got {len(activation)}"
            )
        channels = activation[self.channel_axis]
        if len(weights) != 2 or weights[0] != channels:
            raise VerifyException(f"expects a filter of {channels} input channels, but got a shape of {weights}")
        activation[self.channel_axis] = weights[1]
        if activation != result:
            raise VerifyException(f"expects an accumulator of shape {activation}, but got {result}")

    @property
    def channel_axis(self) -> int:
        """The dimension of the activation and of the accumulator that has the channels."""
        rank = len(shape_of(self.activation.type))
        return rank - 1 if rank == 2 else self.activation_layout.keyword.index("c")


class Collective(TileOp):
    """Base of reductions and scans: several tiles of one shape, combined element by element by a region.

    The region's arguments are, for all tiles first, what has been accumulated, and then what comes next; `identities`
    hold an attribute per tile that leaves the other operand of the region unchanged.
    """

    inputs = var_operand_def()
    outputs = var_result_def()
    dim = prop_def(IntegerAttr)
    identities = prop_def(ArrayAttr)
    body = region_def()
    traits = traits_def(RecursiveMemoryEffect())

    def check(self) -> None:
        check_region_ends(self)
        if not self.inputs:
            raise VerifyException("expects at least one operand")
        shape, dim = shape_of(self.inputs[0].type), self.dim.value.data
        if any(shape_of(v.type) != shape for v in self.inputs):
            raise VerifyException("expects all operands to have the same shape")
        if not 0 <= dim < len(shape):
            raise VerifyException(f"expects dim in range 0 to {len(shape) - 1}, but got {dim}")
        count = len(self.inputs)
        if len(self.outputs) != count or len(self.identities.data) != count:
            raise VerifyException(
                f"expects {count} results and identities, but got {len(self.outputs)} and {len(self.identities.data)}"
            )
        for source, identity in zip(self.inputs, self.identities.data):
            given = identity.type if isinstance(identity, IntegerAttr | FloatAttr) else identity
            if given != element_of(source.type):
                raise VerifyException(
                    f"expects an identity of the element type of {type_text(source.type)}, but got {given}"
                )
        expected = self.result_shape(shape, dim)
        for source, result in zip(self.inputs, self.outputs):
            if shape_of(result.type) != expected or element_of(result.type) != element_of(source.type):
                raise VerifyException(f"expects a result of shape {list(expected)}, but got {type_text(result.type)}")
        block = only_block(self)
        if len(block.args) != 2 * count:
            raise VerifyException(f"expects a region with {2 * count} arguments, but got {len(block.args)}")
        last = block.last_op
        if last is not None and len(last.operands) != count:
            raise VerifyException(f"expects a region that yields {count} values, but got {len(last.operands)}")
        elements = [element_of(v.type) for v in self.inputs]
        for given in (block.args[:count], block.args[count:], last.operands if last is not None else ()):
            if [element_of(v.type) for v in given] != elements or any(shape_of(v.type) for v in given):
                shown = ", ".join(type_text(v.type) for v in given)
                raise VerifyException(f"expects a region that works on single elements of the tiles, but got ({shown})")

    def result_shape(self, shape: tuple[int, ...], dim: int) -> tuple[int, ...]:
        """The shape of the results."""
        return shape


class ReduceLike(Collective):
    """Combines all elements along `dim`, which the results do not have."""

    def result_shape(self, shape: tuple[int, ...], dim: int) -> tuple[int, ...]:
        return shape[:dim] + shape[dim + 1 :]


@tile_op
class ReduceOp(ReduceLike):
    __doc__ = ReduceLike.__doc__
    name = "nv_tileaa.reduce"


class ScanLike(Collective):
    """Combines each element with all before it along `dim` (behind it, with `reverse`), itself included."""

    reverse = opt_prop_def(UnitAttr)


@tile_op
class ScanOp(ScanLike):
    __doc__ = ScanLike.__doc__
    name = "nv_tileaa.scan"


@tile_op
class HistogramOp(Unary):
    """How often each number from 0 on occurs in the source, in a tile of rank 1; others are not counted."""

    name = "nv_tileaa.histogram"

    def check(self) -> None:
        if len(shape_of(self.result.type)) != 1:
            raise VerifyException(f"expects a rank-1 tile as result, but got {type_text(self.result.type)}")
        for value in (self.source, self.result):
            if not is_integer(element_of(value.type)):
                raise VerifyException(f"expects tiles of integers, but got {type_text(value.type)}")
