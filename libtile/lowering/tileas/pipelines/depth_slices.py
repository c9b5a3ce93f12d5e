# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Products of registers whose operands lie in shared memory, one slice along k after the other.

Read as a whole, operands take as many registers as an accumulator does. A product is therefore made of products of the
depth of an instruction; each reads its part of the buffers where it is, so that only a few fragments live at a time:

    %a0 = copy %stage_a {offsets = [0, 0]}      %b0 = copy %stage_b {offsets = [0, 0]}      %d0 = dot %a0, %b0, %c
    %a1 = copy %stage_a {offsets = [0, 16]}     %b1 = copy %stage_b {offsets = [16, 0]}     %d1 = dot %a1, %b1, %d0

Stages may hold a part of a step's tiles each, whose slices are then those of a part of k.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, TensorType, i64
from xdsl.ir import Operation, SSAValue

from libtile.atoms import mma_block_scale
from libtile.dialects.nv_tileaa.pointers import FpToFpOp
from libtile.dialects.nv_tileaa.shapes import ExpandDimsOp, PermuteOp, ViewOp, integers_of
from libtile.dialects.nv_tileas.products import DotOp, ScaledDotOp
from libtile.dialects.nv_tileas.tiles import ConvertLayoutOp, CopyOp, ExtractSliceOp
from libtile.ir.operands import source_of
from libtile.ir.tile_form import erase, shape_of
from libtile.layouts import LinearLayout, parts
from libtile.lowering.product_reasons import STEP_PARTS
from libtile.lowering.tileas.inserter import Inserter
from libtile.lowering.tileas.pipelines.operand_paths import rounds_to_tf32
from libtile.lowering.to_tileas import shape_layouts as layouts
from libtile.lowering.to_tileas.types import layout_of, with_layout
from libtile.support.records import dataclass
from libtile.targets import MMA_SYNC


@dataclass(frozen=True)
class Slices:
    """A product that can be cut along k, and for each side the ops that bring its operand from a load, the product's
    side first; None for an operand in registers."""

    product: DotOp | ScaledDotOp
    paths: tuple[list[Operation] | None, list[Operation] | None]
    rounded: bool = True
    """Whether who copies f32 rounds it to tf32, where it is on its way; slices are rounded otherwise."""

    @property
    def depth(self) -> int:
        """Of a slice: that of an instruction, or, as factors come in words, of a few with factors."""
        return _depth(self.product)

    @property
    def whole_depth(self) -> int:
        return shape_of(self.product.a.type)[-1]

    def operand(self, loaded: SSAValue) -> SSAValue:
        """The operand that a load's tile becomes. If that is rounded on its way to tf32, who copies it does that."""
        return self._path_from(loaded)[1]

    def _path_from(self, loaded: SSAValue) -> tuple[int, SSAValue, list[Operation]]:
        """The side of an operand, the operand, and the ops that bring it from a load's tile."""
        sides = zip((0, 1), (self.product.a, self.product.b), self.paths)
        return next((n, v, ops) for n, v, ops in sides if ops is not None and _source_of(v, ops) is loaded)

    def depth_dim(self, loaded: SSAValue) -> int:
        """The dimension of a load's tile along which slices lie one behind the other."""
        side, value, path = self._path_from(loaded)
        shape, layout = shape_of(value.type), layout_of(value)
        dim = len(shape) - 1 - side
        for op in _renaming(path):
            shape, layout, dim = _source(op, shape, layout, dim)
        return dim

    def slice_layout(self, loaded: SSAValue) -> LinearLayout:
        """The layout in which a slice of a load's tile is read."""
        side, value, path = self._path_from(loaded)
        shape, layout, dim = self._cut(value, side)
        for op in _renaming(path):
            shape, layout, dim = _source(op, shape, layout, dim)
        return layout

    def first_user(self, loaded: SSAValue) -> Operation:
        """The op that uses a load's tile on its way to the product, which may be that itself."""
        _, _, path = self._path_from(loaded)
        return path[-1] if path else self.product

    def _cut(self, value: SSAValue, side: int) -> tuple[tuple[int, ...], LinearLayout, int]:
        """The shape and the layout of a slice of an operand, and the dimension along which it is one."""
        whole = shape_of(value.type)
        dim = len(whole) - 1 - side
        shape = tuple(self.depth if d == dim else n for d, n in enumerate(whole))
        return shape, parts.part_layout(layout_of(value), shape), dim

    def make(
        self, at: Inserter, buffers: Mapping[SSAValue, SSAValue], given_sum: SSAValue, part: int, parts: int
    ) -> SSAValue:
        """The products of a part of all slices, which read the buffers of that part of the loads' tiles, added to a
        sum; the result of the last one."""
        product, size = self.product, self.whole_depth // parts
        result = given_sum
        for first in range(part * size, (part + 1) * size, self.depth):
            operands = [self._operand(at, side, first, part * size, buffers) for side in (0, 1)]
            given = [*operands, result, *(self._factors(at, side, first) for side in range(len(_factors_of(product))))]
            made = type(product).make(*given, results=[product.result.type], location=product.location)
            made.properties.update(product.properties)
            made.attributes |= {n: a for n, a in product.attributes.items() if n not in made.attributes}
            if parts > 1:
                made.attributes[STEP_PARTS] = IntegerAttr(parts, i64)
            result = at.value(made, product.location)
        return result

    def _is_remade(self, op: Operation) -> bool:
        """Whether an op on an operand's way is there for each slice."""
        return not isinstance(op, ConvertLayoutOp) and not (self.rounded and isinstance(op, FpToFpOp))

    def erase(self) -> None:
        """Drop the product, whose result nobody uses any more, and what brought its operands from loads."""
        copies = [v.owner for v in (self.product.a, self.product.b) if _buffer_of(v) is not None]
        erase(self.product)
        for copy in copies:
            assert isinstance(copy, CopyOp)
            if copy.results[0].first_use is None:
                erase(copy)
        for path in self.paths:
            for op in path or ():
                if op.results[0].first_use is None:
                    erase(op)

    def _factors(self, at: Inserter, side: int, first: int) -> SSAValue:
        """The factors of a slice that begins at an element along k."""
        value, depth = _factors_of(self.product)[side], shape_of(self.product.a.type)[-1]
        rank, blocks = len(shape_of(value.type)), shape_of(value.type)[-1 - side]
        dim = rank - 1 - side
        shape = tuple(blocks * self.depth // depth if d == dim else n for d, n in enumerate(shape_of(value.type)))
        type_ = _tile(value, shape, parts.part_layout(layout_of(value), shape))
        return at.value(
            ExtractSliceOp.make(value, (), results=[type_], offsets=_corner(rank, dim, first * blocks // depth))
        )

    def _operand(
        self, at: Inserter, side: int, first: int, start: int, buffers: Mapping[SSAValue, SSAValue]
    ) -> SSAValue:
        """The operand of a slice that begins at an element along k, from buffers that begin at another one."""
        value, path = (self.product.a, self.product.b)[side], self.paths[side]
        shape, layout, dim = self._cut(value, side)
        if path is None:
            type_ = _tile(value, shape, layout)
            if (buffer := _buffer_of(value)) is not None:
                return at.value(CopyOp.make(buffer, results=[type_], offsets=_corner(len(shape), dim, first)))
            return at.value(ExtractSliceOp.make(value, (), results=[type_], offsets=_corner(len(shape), dim, first)))
        remade, types = [op for op in path if self._is_remade(op)], []
        given = value
        for op in remade:
            types.append(_tile(given, shape, layout))
            given = source_of(op) if isinstance(op, FpToFpOp) else given
            shape, layout, dim = _source(op, shape, layout, dim)
        loaded = _source_of(value, path)
        made = at.value(
            CopyOp.make(
                buffers[loaded], results=[_tile(given, shape, layout)], offsets=_corner(len(shape), dim, first - start)
            )
        )
        for op, type_ in zip(reversed(remade), reversed(types)):
            again = type(op).create(operands=[made], result_types=[type_], properties=dict(op.properties))
            made = at.value(again, op.location)
        return made


def _factors_of(product: DotOp | ScaledDotOp) -> tuple[SSAValue, ...]:
    """The scale factors of the operands: none, or one tile for each."""
    return tuple(factor for factor in (product.sfa, product.sfb) if factor is not None)


def slices_of(
    product: Operation, loaded: Sequence[SSAValue], *, rounded: bool = True, alone: bool = True
) -> Slices | None:
    """How a product is cut whose operands are these loaded tiles, as they are, or `rounded` to tf32 by who copies them;
    None where it is not. It is `alone` where nothing else may use these tiles."""
    if not isinstance(product, DotOp | ScaledDotOp) or product.atom.kind not in _KINDS[type(product)]:
        return None
    found = Slices(product, (_path(product.a, loaded, alone), _path(product.b, loaded, alone)), rounded)
    paths = [(path, value) for path, value in zip(found.paths, (product.a, product.b)) if path is not None]
    reached = [_source_of(value, path) for path, value in paths]
    if set(reached) != set(loaded) or len(reached) != len(loaded) or shape_of(product.a.type)[-1] <= found.depth:
        return None
    for side, value in enumerate((product.a, product.b)):
        whole = shape_of(value.type)
        shape = tuple(found.depth if d == len(whole) - 1 - side else n for d, n in enumerate(whole))
        layout = layout_of(value)
        if not parts.are_told_apart(layout, parts.part_bits(layout, shape)):
            return None
    return found


def _buffer_of(value: SSAValue) -> SSAValue | None:
    """The buffer of which an operand is a copy, as it is read from it; None for another one."""
    op = value.owner
    return op.source if isinstance(op, CopyOp) and op.result is not None and op.offsets is None else None


def loaded_operands(product: Operation, loaded: Sequence[SSAValue]) -> list[SSAValue]:
    """Those of the loaded tiles that are operands of a product, as they are or renamed, converted or rounded."""
    if not isinstance(product, DotOp | ScaledDotOp):
        return []
    sides = [(value, _path(value, loaded, alone=False)) for value in (product.a, product.b)]
    return list(dict.fromkeys(_source_of(value, path) for value, path in sides if path is not None))


_KINDS: dict[type[Operation], tuple[str, ...]] = {DotOp: (MMA_SYNC,), ScaledDotOp: (mma_block_scale.FAMILY,)}


def _depth(product: DotOp | ScaledDotOp) -> int:
    """Of a slice, in elements of the operands' tiles."""
    if isinstance(product, DotOp):
        return product.atom.instruction.k
    blocks = shape_of(product.sfa.type)[-1]
    each = shape_of(product.a.type)[-1] // blocks
    atom = product.atom.instruction
    return max(mma_block_scale.blocks_at_once(atom) * each, mma_block_scale.depth_bytes(atom))


def _path(value: SSAValue, loaded: Sequence[SSAValue], alone: bool) -> list[Operation] | None:
    """The ops that only rename what a load gives, or convert it, or round it to tf32; None for another operand, or one
    that is not `alone` used by its product."""
    found: list[Operation] = []
    while value not in loaded:
        op = value.owner
        if alone and not value.has_one_use():
            return None
        if not isinstance(op, ConvertLayoutOp | PermuteOp | ViewOp | ExpandDimsOp | FpToFpOp):
            return None
        if isinstance(op, FpToFpOp) and not rounds_to_tf32(op):
            return None
        if isinstance(op, ViewOp) and _wide(op.source) != _wide(op.result):
            return None
        found.append(op)
        value = op.source
    return found if value.has_one_use() or not alone else None


def _source_of(value: SSAValue, path: Sequence[Operation]) -> SSAValue:
    """The load's tile that a path leads from."""
    return source_of(path[-1]) if path else value


def _renaming(path: Sequence[Operation]) -> list[Operation]:
    """Those of a path's ops that rename dimensions."""
    return [op for op in path if not isinstance(op, ConvertLayoutOp | FpToFpOp)]


def _wide(value: SSAValue) -> list[int]:
    return [n for n in shape_of(value.type) if n != 1]


def _source(
    op: Operation, shape: Sequence[int], layout: LinearLayout, dim: int
) -> tuple[tuple[int, ...], LinearLayout, int]:
    """The shape and the layout of a part of an op's operand that becomes one of its result, and where the dimension is
    along which the part is one."""
    whole = shape_of(source_of(op).type)
    if isinstance(op, FpToFpOp):
        return tuple(shape), layout, dim
    if isinstance(op, PermuteOp):
        order = integers_of(op.permutation)
        inverse = layouts.inverse_permutation(order)
        return tuple(shape[d] for d in inverse), layouts.permuted(layout, inverse), order[dim]
    # What has one element goes or comes, the others stay in their order.
    number = sum(n != 1 for n in shape_of(op.results[0].type)[:dim])
    before = [d for d, n in enumerate(whole) if n != 1][number]
    source = tuple(shape[dim] if d == before else n for d, n in enumerate(whole))
    return source, layouts.reshaped(layout, source), before


def _tile(value: SSAValue, shape: Sequence[int], layout: LinearLayout) -> TensorType:
    assert isinstance(value.type, TensorType)
    made = with_layout(TensorType(value.type.element_type, shape), layout)
    assert isinstance(made, TensorType)
    return made


def _corner(rank: int, dim: int, first: int) -> DenseArrayBase:
    return DenseArrayBase.from_list(i64, [first if d == dim else 0 for d in range(rank)])
