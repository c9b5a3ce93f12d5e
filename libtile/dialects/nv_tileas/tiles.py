# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Ops of nv_tileas on tiles: storage, layouts, shapes, collectives.

Those that nv_tileaa has as well mean the same; here the types of tiles carry layouts. Elementwise ops and the rest of
nv_tileaa stay as they are, with layouts in their types.
"""

from __future__ import annotations

from math import prod

from xdsl.dialects.builtin import DenseArrayBase, DictionaryAttr, IntegerAttr, UnitAttr
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    operand_def,
    opt_operand_def,
    opt_prop_def,
    opt_region_def,
    opt_result_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from libtile.dialects.effect_traits import Allocates, ChangesDestination, Observable, ReadsOrWrites
from libtile.dialects.interfaces import Folds, NamesMemoryOf, Partial
from libtile.dialects.nv_tileaa.collectives import ReduceLike, ScanLike
from libtile.dialects.nv_tileaa.contracts import NAMED_BARRIERS, require_at_least, require_at_most, require_yields
from libtile.dialects.nv_tileaa.shapes import (
    ExpandDims,
    Generate,
    Unary,
    View,
    check_slice,
    integers_of,
    require_same_element,
)
from libtile.dialects.nv_tileaa.terminators import YIELD, check_region_ends
from libtile.dialects.nv_tileas.atom_rules import check_shared_atom, check_tensor_atom, check_way
from libtile.dialects.nv_tileas.attributes import ConversionAttr, CopyAtomAttr
from libtile.dialects.nv_tileas.layout import LayoutAttr
from libtile.dialects.nv_tileas.steps import StepsAttr, check_reduction, check_scan, check_shared_layout
from libtile.dialects.nv_tileas.types import BufferType, PipelineType
from libtile.ir.tile_form import TileOp, layout_of, shape_of, stored_element, stored_shape, tile_op, type_text

YIELDS = (YIELD, "nv_tileas.async.pipeline.yield")


@tile_op
class AllocTensorOp(TileOp):
    """Storage for a tile in a memory space; `alignment` in bytes. That of a buffer in shared memory is the stages of
    `pipeline`, if it is given, which nobody fills or reads any more (`drained`). Storage in tensor memory that both
    CTAs of a `pair` have is at the same columns of both."""

    name = "nv_tileas.alloc_tensor"
    traits = traits_def(Allocates(), NamesMemoryOf("pipeline", part=True))
    pipeline = opt_operand_def()
    result = result_def()
    alignment = opt_prop_def(IntegerAttr)
    pair = opt_prop_def(UnitAttr)

    def check(self) -> None:
        if not isinstance(self.result.type, BufferType):
            raise VerifyException(f"expects a buffer as result, but got {type_text(self.result.type)}")
        if self.pair is not None and self.result.type.space != "tmem":
            raise VerifyException(f"expects a pair to share tensor memory, but got {type_text(self.result.type)}")
        if self.pipeline is not None:
            check_free(self.pipeline, self.result.type)
        check_alignment(self.alignment)


def check_free(pipeline: SSAValue, buffer: BufferType) -> None:
    """A buffer in shared memory may lie in the stages of a pipeline that is drained; VerifyException."""
    made = pipeline.owner
    if not isinstance(pipeline.type, PipelineType) or buffer.space != "shared":
        raise VerifyException(
            f"expects a buffer in shared memory in a pipeline, but got {type_text(buffer)} in one of "
            f"{type_text(pipeline.type)}"
        )
    if not isinstance(made, Operation) or "drained" not in made.attributes:
        raise VerifyException("expects the pipeline in whose stages a buffer lies to be drained")


def check_alignment(alignment: IntegerAttr | None) -> None:
    """An alignment of storage in bytes, if it is given, is a power of two; VerifyException."""
    if alignment is not None and (alignment.value.data <= 0 or alignment.value.data.bit_count() != 1):
        raise VerifyException(f"expects an alignment that is a power of two, but got {alignment.value.data}")


class Rearranging(Unary):
    """Base: the same tile in another layout."""

    def check(self) -> None:
        require_same_element(self)
        if stored_shape(self.source.type) != stored_shape(self.result.type):
            raise VerifyException("expects source and result to have the same shape")
        for type_ in (self.source.type, self.result.type):
            check_layout(type_)


@tile_op
class ConvertLayoutOp(Rearranging):
    """The same tile in another layout, by a way that `tileas-materialize-convert-layout` chooses."""

    name = "nv_tileas.convert_layout"
    traits = traits_def(Pure(), Folds("same"), NamesMemoryOf())
    atom = opt_prop_def(CopyAtomAttr)
    way = opt_prop_def(ConversionAttr)

    def check(self) -> None:
        super().check()
        if self.way is not None:
            check_way(self.way.kind, self.source.type, self.result.type)
        through = self.way.through if self.way is not None else None
        if through is None:
            return
        check_shared_layout(through.layout.layout)
        elements, piece = prod(stored_shape(self.source.type)), prod(through.layout.shape)
        if through.pieces * piece != elements:
            raise VerifyException(f"expects {elements} elements to go in pieces, but got {through.pieces} of {piece}")
        check_shared_atom(through.store, self.source.type, loads=False)
        check_shared_atom(through.load, self.result.type, loads=True)


def check_layout(type_: Attribute) -> None:
    """A tile's layout is a layout of its shape; VerifyException."""
    layout = layout_of(type_)
    if isinstance(layout, LayoutAttr) and layout.shape != shape_of(type_):
        raise VerifyException(f"expects a layout of shape {list(shape_of(type_))}, but got {list(layout.shape)}")


@tile_op
class CopyOp(TileOp):
    """Copies a tile or a buffer into a buffer; or, without a destination, a buffer into registers, its result. With
    `offsets` that is the part of a buffer in shared memory from there on that has the tile's shape. From shared memory
    to shared memory it makes another dimension the dense one: by `ldmatrix` for bytes, by `lds` for words. By
    `tcgen05_cp` one thread copies a buffer in shared memory to tensor memory, which goes on by itself: it is there for
    the products that this thread issues behind it."""

    name = "nv_tileas.copy"
    traits = traits_def(ReadsOrWrites())
    source = operand_def()
    destination = opt_operand_def()
    result = opt_result_def()
    atom = opt_prop_def(CopyAtomAttr)
    offsets = opt_prop_def(DenseArrayBase)

    def check(self) -> None:
        if (self.destination is None) == (self.result is None):
            raise VerifyException("expects either a destination or a result")
        source = self.source.type
        target = self.destination.type if self.destination is not None else self.results[0].type
        if self.offsets is not None:
            self._check_part(source, target)
        elif stored_element(source) != stored_element(target) or stored_shape(source) != stored_shape(target):
            raise VerifyException(
                f"expects source and destination of one shape and element type, but got {type_text(source)} vs "
                f"{type_text(target)}"
            )
        self._check_atom(source, target)

    def _check_part(self, source: Attribute, target: Attribute) -> None:
        """A part of a buffer in shared memory, of those into which it can be cut, that goes to registers or comes from
        them."""
        buffer, tile = (target, source) if self.result is None else (source, target)
        if not isinstance(buffer, BufferType) or buffer.space != "shared" or isinstance(tile, BufferType):
            raise VerifyException(
                "expects offsets where a part of a buffer in shared memory goes to registers, or comes from them"
            )
        whole, part = stored_shape(buffer), stored_shape(tile)
        if stored_element(buffer) != stored_element(tile):
            raise VerifyException(f"expects a part of {type_text(buffer)}, but got {type_text(tile)}")
        check_slice(self, whole, part)
        if any(offset % size for offset, size in zip(integers_of(self.offsets), part)):
            raise VerifyException(f"expects offsets that are multiples of the part's shape {list(part)}")

    def _check_atom(self, source: Attribute, target: Attribute) -> None:
        """The atom of a copy between registers and shared or tensor memory."""
        if self.atom is None:
            return
        for held, other, loads in ((target, source, True), (source, target, False)):
            if not isinstance(held, BufferType) and isinstance(other, BufferType) and other.space == "shared":
                check_shared_atom(self.atom, held, loads=loads)
            if not isinstance(held, BufferType) and isinstance(other, BufferType) and other.space == "tmem":
                check_tensor_atom(self.atom, held, loads=loads)


@tile_op
class ViewOp(View):
    __doc__ = View.__doc__
    name = "nv_tileas.view"
    traits = traits_def(Pure(), Folds("same"), NamesMemoryOf())

    def check(self) -> None:
        super().check()
        check_layout(self.result.type)


def _places(type_: Attribute) -> int:
    """How many elements there is room for: in tensor memory a layout may have some of them several times."""
    if isinstance(type_, BufferType) and type_.space == "tmem" and type_.layout is not None:
        layout = type_.layout.layout
        return prod(layout.in_size(name) for name in layout.in_dims)
    return prod(stored_shape(type_))


@tile_op
class ReinterpretOp(Unary):
    """The same storage (or the same registers) seen as another type of the same number of bits; in shared memory the
    first elements of storage seen as a smaller one of elements of the same width, too."""

    name = "nv_tileas.reinterpret"
    traits = traits_def(Pure(), Folds("same_bits"), NamesMemoryOf())

    def check(self) -> None:
        from libtile.dialects.nv_tileaa.element_types import bit_width

        types = self.source.type, self.result.type
        bits = [_places(t) * bit_width(stored_element(t)) for t in types]
        shared = all(isinstance(t, BufferType) and t.space == "shared" for t in types)
        first = shared and len({bit_width(stored_element(t)) for t in types}) == 1 and bits[0] > bits[1]
        if bits[0] != bits[1] and not first:
            raise VerifyException(f"expects the same number of bits, but got {bits[0]} vs {bits[1]}")


@tile_op
class ExtractSliceOp(TileOp):
    """The part of a tile or buffer from `offsets` (constants) plus the indices (run-time values, in elements) on."""

    name = "nv_tileas.extract_slice"
    source = operand_def()
    indices = var_operand_def()
    result = result_def()
    offsets = prop_def(DenseArrayBase)
    strides = opt_prop_def(DenseArrayBase)
    traits = traits_def(Pure(), Partial(), Folds("spread"), NamesMemoryOf(part=True))

    def check(self) -> None:
        require_same_element(self)
        whole, part = stored_shape(self.source.type), stored_shape(self.result.type)
        check_slice(self, whole, (1,) * (len(whole) - len(part)) + part)


@tile_op
class InsertSliceOp(TileOp):
    """The destination with the part from `offsets` plus the indices on replaced by the source."""

    name = "nv_tileas.insert_slice"
    source = operand_def()
    destination = operand_def()
    indices = var_operand_def()
    result = result_def()
    offsets = prop_def(DenseArrayBase)
    strides = opt_prop_def(DenseArrayBase)
    traits = traits_def(ChangesDestination(), Partial(), Folds("together"), NamesMemoryOf("destination", storage=True))

    def check(self) -> None:
        require_same_element(self)
        if self.destination.type != self.result.type:
            raise VerifyException("expects the result to have the destination's type")
        check_slice(self, stored_shape(self.destination.type), stored_shape(self.source.type))


@tile_op
class ExpandDimsOp(ExpandDims):
    __doc__ = ExpandDims.__doc__
    name = "nv_tileas.expand_dims"
    traits = traits_def(Pure(), Folds("same"), NamesMemoryOf())


@tile_op
class ShuffleOp(Rearranging):
    """Exchanges registers between the lanes of a warp: the conversion between layouts that differ in lanes only."""

    name = "nv_tileas.shuffle"
    traits = traits_def(Pure(), Folds("same"), NamesMemoryOf())

    def check(self) -> None:
        super().check()
        check_way("shuffle", self.source.type, self.result.type)


@tile_op
class GenerateOp(Generate):
    __doc__ = Generate.__doc__
    name = "nv_tileas.generate"


@tile_op
class PragmaOp(TileOp):
    """Directives for the optimizer, on entering (`ocgEnterDirectives`) and on leaving a region or place."""

    name = "nv_tileas.pragma"
    traits = traits_def(Observable())
    enter_directives = opt_prop_def(DictionaryAttr, prop_name="ocgEnterDirectives")
    leave_directives = opt_prop_def(DictionaryAttr, prop_name="ocgLeaveDirectives")
    body = opt_region_def()

    def check(self) -> None:
        check_region_ends(self)
        require_yields(self, [])


@tile_op
class ReduceOp(ReduceLike):
    """Combines all elements along `dim`, which the results do not have, by steps that `tileas-select-collectives`
    chooses."""

    name = "nv_tileas.reduce"
    steps = opt_prop_def(StepsAttr)

    def check(self) -> None:
        super().check()
        if self.steps is not None:
            check_reduction(self, self.steps)


@tile_op
class ScanOp(ScanLike):
    """Combines each element with all before it along `dim` (behind it, with `reverse`), itself included, by steps that
    `tileas-select-collectives` chooses."""

    name = "nv_tileas.scan"
    steps = opt_prop_def(StepsAttr)

    def check(self) -> None:
        super().check()
        if self.steps is not None:
            check_scan(self, self.steps)


@tile_op
class ClusterBarrierOp(TileOp):
    """Waits for all warps of all CTAs of the cluster; barrier objects that were made before it are there behind it."""

    name = "nv_tileas.cluster_barrier"
    traits = traits_def(Observable())


@tile_op
class BarrierOp(TileOp):
    """Waits for all warps of the CTA (of `num_warps` of them, at the named barrier `id`); orders shared memory."""

    name = "nv_tileas.barrier"
    traits = traits_def(Observable())
    id = opt_prop_def(IntegerAttr)
    num_warps = opt_prop_def(IntegerAttr)

    def check(self) -> None:
        require_at_least(self, 0, "id")
        require_at_most(self, NAMED_BARRIERS - 1, "id")
        require_at_least(self, 1, "num_warps")


class TurnOfGroup(TileOp):
    """The warpgroups of an agent take turns, one after the other: each has a named barrier, of number `id` plus its own
    number, where it waits for its turn and the one before hands it on."""

    traits = traits_def(Observable())
    id = prop_def(IntegerAttr)
    groups = prop_def(IntegerAttr)

    def check(self) -> None:
        require_at_least(self, 1, "id")
        require_at_least(self, 2, "groups")


@tile_op
class TakeTurnOp(TurnOfGroup):
    """Waits for the turn of a warpgroup, one of `groups`; with `last` only the first one does, for the turn that the
    last one hands on at the end."""

    name = "nv_tileas.take_turn"
    last = opt_prop_def(UnitAttr)


@tile_op
class HandOnTurnOp(TurnOfGroup):
    """Hands the turn on to the next warpgroup, one of `groups`, and waits for nothing; with `first` only the last one
    does, so that the first one has the first turn."""

    name = "nv_tileas.hand_on_turn"
    first = opt_prop_def(UnitAttr)
