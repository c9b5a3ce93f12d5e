# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`#nv_tileas.steps`: by which steps a reduction or a scan combines what threads hold, and what they have to fit.

    #nv_tileas.steps<commutative, registers [0,1], lanes [4,3], warps [0,1] by [[#nv_tileas.layout<offset=...>]],
                     registers [2,3]>

`libtile.layouts.collectives` says what the steps mean. Behind `by` stand the ways through shared memory, each a layout
and the atoms that store and load it (`LAYOUT, store = ATOM, load = ATOM`): of the op's tiles in their order, those that
take one exchange together, or `[... in 4]`, that of each of so many pieces of a tile.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Self

from xdsl.utils.exceptions import VerifyException

from libtile.dialects.nv_tileaa.collectives import Collective
from libtile.dialects.nv_tileaa.types import natural
from libtile.dialects.nv_tileas.copy_atoms import access_of, load_atom, parse_store_and_load, store_atom
from libtile.dialects.nv_tileas.layout import LayoutAttr
from libtile.ir.data_field import DataField, data_definition
from libtile.ir.parsed_data import ParsedData
from libtile.ir.tile_form import integer_of, layout_of, type_text
from libtile.layouts import OFFSET, LinearLayout
from libtile.layouts.collectives import (
    EXCHANGE,
    LANES,
    REDUX,
    REGISTERS,
    WARPS,
    SharedTrip,
    Step,
    folds,
    result_layout,
    runs,
)
from libtile.layouts.shared_access import SharedWay

if TYPE_CHECKING:
    from xdsl.parser import AttrParser

COMMUTATIVE, NONE = "commutative", "none"
KINDS = (REGISTERS, LANES, REDUX, EXCHANGE, WARPS)


@data_definition
class StepsAttr(ParsedData):
    """The steps of a reduction or a scan, in order; in a `commutative` reduction the body's arguments may be exchanged,
    so that elements are combined in any order."""

    name = "nv_tileas.steps"

    steps = DataField[tuple[Step, ...]](0)
    commutative = DataField[bool](1)

    def __init__(self, steps: Sequence[Step], commutative: bool = False):
        super().__init__((tuple(steps), commutative))

    def body(self) -> str:
        parts = [COMMUTATIVE] if self.commutative else []
        parts += [_step_text(step) for step in self.steps] or [NONE]
        return ", ".join(parts)

    @classmethod
    def parse_body(cls, parser: AttrParser) -> Self:
        commutative = parser.parse_optional_keyword(COMMUTATIVE) is not None
        if commutative:
            parser.parse_punctuation(",")
        if parser.parse_optional_keyword(NONE):
            return cls((), commutative)
        steps = [_step(parser)]
        while parser.parse_optional_punctuation(","):
            steps.append(_step(parser))
        return cls(steps, commutative)


def _step_text(step: Step) -> str:
    text = f"{step.kind} [{','.join(map(str, step.bits))}]"
    if step.register is not None:
        text += f" with {step.register}"
    if step.trips:
        text += f" by [{', '.join(map(_trip_text, step.trips))}]"
    return text


def _trip_text(trip: SharedTrip) -> str:
    pieces = f" in {trip.pieces}" if trip.pieces != 1 else ""
    return f"[{', '.join(map(_way_text, trip.ways))}{pieces}]"


def _way_text(way: SharedWay) -> str:
    return f"{LayoutAttr(way.layout)}, store = {store_atom(way.store)}, load = {load_atom(way.load)}"


def _step(parser: AttrParser) -> Step:
    kind = parser.parse_identifier()
    if kind not in KINDS:
        parser.raise_error(f"expected a step to be one of: {', '.join(KINDS)}")
    bits = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, lambda: natural(parser))
    register, trips = None, []
    if kind == EXCHANGE:
        parser.parse_keyword("with")
        register = natural(parser)
    if kind == WARPS:
        parser.parse_keyword("by")
        trips = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, lambda: _trip(parser))
    return Step(kind, tuple(bits), register, tuple(trips))


def _trip(parser: AttrParser) -> SharedTrip:
    parser.parse_punctuation("[")
    ways = [_way(parser)]
    while parser.parse_optional_punctuation(","):
        ways.append(_way(parser))
    pieces = natural(parser) if parser.parse_optional_keyword("in") else 1
    parser.parse_punctuation("]")
    return SharedTrip(tuple(ways), pieces)


def _way(parser: AttrParser) -> SharedWay:
    layout = parser.parse_attribute()
    if not isinstance(layout, LayoutAttr):
        parser.raise_error("expected a layout")
    store, load = parse_store_and_load(parser)
    return SharedWay(layout.layout, access_of(store), access_of(load))


# -- what they have to fit --------------------------------------------------------------------------------------------


def check_reduction(op: Collective, steps: StepsAttr) -> None:
    """The steps reduce the op's tiles to its results, in their layouts; VerifyException."""
    layout, dim = _common_layout(op), integer_of(op.dim)
    try:
        found = folds(layout, dim, steps.steps, steps.commutative)
    except ValueError as problem:
        raise VerifyException(f"expects {problem}") from None
    for fold in found:
        if fold.handed is not None:
            _check_trips(fold.trips, fold.handed[0], len(op.inputs))
    _check_results(op, LayoutAttr(result_layout(layout, dim, steps.steps, steps.commutative)))


def check_scan(op: Collective, steps: StepsAttr) -> None:
    """The steps scan the op's tiles, and the results have their layout; VerifyException."""
    layout = _common_layout(op)
    if steps.commutative:
        raise VerifyException("expects a scan that combines elements in order")
    try:
        found = runs(layout, integer_of(op.dim), steps.steps)
    except ValueError as problem:
        raise VerifyException(f"expects {problem}") from None
    for run in found:
        if run.handed is not None:
            _check_trips(run.trips, run.handed[0], len(op.inputs))
    _check_results(op, LayoutAttr(layout))


def _common_layout(op: Collective) -> LinearLayout:
    given = [layout_of(v.type) for v in op.inputs]
    first = given[0]
    if not isinstance(first, LayoutAttr) or any(other != first for other in given):
        raise VerifyException("expects tiles of one layout where there are steps")
    return first.layout


def _check_results(op: Collective, made: LayoutAttr) -> None:
    for value in op.outputs:
        if layout_of(value.type) != made:
            raise VerifyException(f"expects results in the layout {made}, but got {type_text(value.type)}")


def _check_trips(trips: Sequence[SharedTrip], source: LinearLayout, tiles: int) -> None:
    """All tiles go through shared memory in order, each as a whole; VerifyException."""
    count = sum(len(trip.ways) for trip in trips)
    if count != tiles:
        raise VerifyException(f"expects layouts in shared memory for {tiles} tiles, but got {count}")
    elements = prod(source.shape)
    for trip in trips:
        if trip.pieces != 1 and len(trip.ways) != 1:
            raise VerifyException("expects a tile that goes in pieces to go alone")
        for layout in (way.layout for way in trip.ways):
            check_shared_layout(layout)
            if trip.pieces * prod(layout.shape) != elements:
                raise VerifyException(
                    f"expects {elements} elements to go in pieces, but got {trip.pieces} of {prod(layout.shape)}"
                )
            if trip.pieces == 1 and layout.shape != source.shape:
                raise VerifyException(f"expects a layout of shape {list(source.shape)}, but got {list(layout.shape)}")


def check_shared_layout(layout: LinearLayout) -> None:
    """A layout in shared memory gives each element an offset of its own; VerifyException."""
    if layout.in_dims != (OFFSET,) or not layout.is_invertible:
        raise VerifyException(f"expects a layout of offsets, one for each element, but got {LayoutAttr(layout)}")
