# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tiles that the warps of a producer copy to the stages of a pipeline (cp.async), where nothing copies whole tiles.

Lanes copy what lies side by side, 16 bytes each where so many are known to lie together. Copies arrive at a stage's
barrier object by themselves, so that as many turns are under way as there are stages. A copy may be cut by the tensor's
end: it says how many bytes there are, and zeros take the place of the others.

The layout in which a tile is copied is one of the producer's warps, of which there may be fewer than of those that
multiply. What pointers and masks come from is therefore computed again in it (`remade`).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, SSAValue

from libtile.atoms.cp_async import copy_width, staged_layout
from libtile.atoms.shared_accesses import matrix_loads
from libtile.codegen.memory import MAX_ACCESS_BYTES
from libtile.codegen.shapes import embedded
from libtile.dialects.cuda_tile.types import NUMBER_NAMES
from libtile.dialects.nv_tileaa.tokens import CreateMemTokenOp
from libtile.dialects.nv_tileas.layout import LayoutAttr
from libtile.dialects.nv_tileas.memory import LoadOp, TiledLoadOp
from libtile.dialects.nv_tileas.types import BufferType
from libtile.ir.tile_form import shape_of
from libtile.layouts import LinearLayout
from libtile.layouts.parts import part_layout
from libtile.lowering.tileas.agents.made_operands import Traced, carried_from
from libtile.lowering.tileas.agents.remade import Carried, Remade, Source, Values, sources, sparse_dim, whole
from libtile.lowering.tileas.ahead import is_unordered
from libtile.lowering.tileas.copies.tma_tiles import Parted, Unfit
from libtile.lowering.tileas.copies.view_accesses import view_access
from libtile.lowering.tileas.inserter import Inserter
from libtile.lowering.tileas.pipelines.schedule import Load, fastest_dim, not_copied, not_handed_on
from libtile.lowering.tileas.products.result_parts import Part
from libtile.lowering.to_tileas.accesses import element_bytes, pointer_vector
from libtile.lowering.to_tileas.shape_layouts import spread
from libtile.support.records import dataclass
from libtile.targets import Target

NARROWEST_BYTES = 4
"""Of a copy."""


@dataclass(frozen=True)
class ThreadTile:
    """A tile that a producer's threads copy."""

    access: Load
    type: BufferType
    layout: LinearLayout
    """Of the producer's warps: which thread copies what."""
    cut: bool
    """Whether the tensor's end may lie within what is copied at once."""
    given: tuple[SSAValue, ...]
    """Numbers, views and pointers that it takes to find the tile."""
    parted: int | None = None
    """The dimension along which it is copied in parts, one behind the other."""
    carried: tuple[tuple[SSAValue, LinearLayout], ...] = ()
    """Tiles among what its place comes from that the loop carries, and the layouts in which the producer has them."""

    @property
    def load(self) -> Load:
        return self.access

    def copy(
        self, at: Inserter, front: Inserter, body: Block, buffer: SSAValue, values: Values, carried: Carried,
        number: int,
    ) -> None:  # fmt: skip
        """Start the copies of a part of the tile in a step of the loop with a body, with values for some of it, and for
        tiles that it carries; what comes from before the loop stands in `front`."""
        known = dict(values)
        for token in self.access.group("token"):  # a new one, as it is in order with nothing
            known[token] = at.value(CreateMemTokenOp.make(results=[token.type]))
        first = tuple(number * n if d == self.parted else 0 for d, n in enumerate(self.type.shape))
        part = Part(first, self.type.shape)
        Remade(body, at, front, {}, known, carried).copy(self.access, self.layout, buffer, cut=self.cut, part=part)


def given_by(what: str, load: Load, body: Block) -> tuple[SSAValue, ...]:
    """The numbers, views and pointers from which the places come that a load of a loop's body reads. Unfit where
    threads of other warps cannot compute them again, with `what` in front of the reason."""
    traced = Traced(what, body, carries=True)
    traced.follow(load.value)
    if not all(map(is_unordered, traced.loads)):
        raise Unfit(what + "comes from a tile that is loaded in order with other accesses")
    return tuple(dict.fromkeys(traced.given))


def thread_tile(
    gpu: Target, what: str, load: Load, body: Block, warps: int, wanted: Sequence[LinearLayout],
    parted: Parted | None = None,
) -> ThreadTile:  # fmt: skip
    """How so many warps copy the tile of a load in a loop's body, or one of the parts of it, which is read as a whole
    or slice by slice in `wanted` layouts; Unfit, with `what` in front of the reason, where they do not."""
    if not is_unordered(load):
        raise Unfit(what + "is loaded in order with other accesses")
    if (reason := not_handed_on(load) or not_copied(load, rows=True)) is not None:
        raise Unfit(f"{what}is not copied by threads: {reason}")
    type_ = load.value.type
    assert isinstance(type_, TensorType)
    size = element_bytes(type_.element_type)
    vector, cut = MAX_ACCESS_BYTES // size, False
    shape = tuple(
        n // parted.parts if parted is not None and d == parted.dim else n for d, n in enumerate(shape_of(type_))
    )
    layout = _side_by_side(load, shape, warps, vector)
    if isinstance(load, TiledLoadOp):
        vector, cut = _by_view(what, load, layout, size)
    else:
        vector = min(vector, pointer_vector(load)[0].count)
    if isinstance(load, LoadOp) or sparse_dim(load) is not None:
        layout = _side_by_side(load, shape, warps, vector)
    name, fastest = NUMBER_NAMES[type_.element_type], fastest_dim(load)
    parts = (of if prod(of.shape) < prod(shape) else part_layout(of, shape) for of in wanted)
    read = tuple(dict.fromkeys(embedded(of, layout) for of in parts))
    shared = staged_layout(layout, read, name, fastest, matrix_loads(gpu))
    if copy_width(shared, layout, name, fastest, vector) is None and isinstance(load, LoadOp):
        raise Unfit(what + "is not copied by threads: adjacent pointers are not known to be adjacent and aligned")
    given = given_by(what, load, body)
    carried = _carried(what, load, layout, Part((0,) * len(shape), shape))
    made = BufferType(shape, type_.element_type, "shared", LayoutAttr(shared))
    return ThreadTile(load, made, layout, cut, given, None if parted is None else parted.dim, tuple(carried))


def _side_by_side(load: Load, shape: Sequence[int], warps: int, vector: int) -> LinearLayout:
    """The layout of warps whose lanes have so many neighbours each, side by side, of a part of what a load gives."""
    fastest = fastest_dim(load)
    return spread(shape, warps, vector, [fastest, *(d for d in reversed(range(len(shape))) if d != fastest)])


def _by_view(what: str, load: TiledLoadOp, layout: LinearLayout, size: int) -> tuple[int, bool]:
    """How many elements a copy has through a view, and whether the tensor's end may cut it."""
    view = view_access(load)
    if view is None:
        raise Unfit(what + "is of a view that is not made in its function")
    most, whole_copies = view.cut_width(layout), view.width(layout)
    cut = most > whole_copies and most * size == MAX_ACCESS_BYTES
    count = most if cut else whole_copies
    if sparse_dim(load) is not None and count * size < NARROWEST_BYTES:
        raise Unfit(what + "is not copied by threads: rows are not known to be aligned")
    return count, cut


def _carried(what: str, load: Load, layout: LinearLayout, part: Part) -> list[tuple[SSAValue, LinearLayout]]:
    """The tiles that a loop carries among what a load takes, in the layouts that follow from the one in which a part of
    it is copied. Unfit where there is no layout that follows, or it goes in no parts."""
    work: list[Source] = [(load.value, layout, part)]
    seen, found = set(work), list[tuple[SSAValue, LinearLayout]]()
    while work:
        value, held, box = work.pop()
        op = value.owner
        if isinstance(op, Block):
            if box != whole(value):
                raise Unfit(what + "is copied through pointers that its loop carries, and not in parts")
            found.append((value, held))
            reached: list[Source] = [(v, held, box) for v in carried_from(value)]
        else:
            reached = list(sources(op, held, box))
        for source in reached:
            if source not in seen:
                seen.add(source)
                work.append(source)
    return found
