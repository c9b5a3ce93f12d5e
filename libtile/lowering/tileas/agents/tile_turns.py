# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which tiles of a loop's step take turns at a stage: those that are never there at the same time.

The products of a step can be computed one after the other, in the order of the text, a bridge be filled in front of the
first one that reads it, and a result be taken behind the last one that adds to it. So a bridge lives from the first
product that reads it to the last one, and a result from the first product that adds to it to the last one.

    s = dot a, state       1     a: 1 to 1    state: 1 to 2
    o = dot b, state       2     b: 2 to 2
    t = dot f(s), g(s)     3     f: 3 to 3    g: 3 to 3

The tiles here can lie in two stages: f takes turns with state, and g with a and b. Who waits for a stage waits for
products, which go on beside what has a stage of its own: no more tiles take turns than have to.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from itertools import combinations, pairwise

from libtile.support.records import dataclass


@dataclass(frozen=True)
class TileLife:
    """A tile by its number: the size of its stage, the `kind` of those with which it can take turns, and the first and
    last product for which it is there; `held` where it keeps its stage from step to step."""

    number: int
    size: int
    kind: Hashable
    first: int
    last: int
    held: bool = False


Turns = tuple[TileLife, ...]
"""Tiles that have a stage one after the other."""


def share_stages(tiles: Sequence[TileLife], missing: int) -> list[list[int]]:
    """The numbers of the tiles of each stage, in the order of their turns, where all stages take at least so much less
    than one for each; or as little as is found, where that cannot be."""
    ways = [_merged([(tile,) for tile in tiles], missing, by_size) for by_size in (False, True)]
    whole = sum(tile.size for tile in tiles)
    enough = [stages for stages in ways if _taken(stages) <= whole - missing]
    found = enough[0] if enough else min(ways, key=_taken)
    return [[tile.number for tile in turns] for turns in sorted(found, key=lambda turns: turns[0].number)]


def _merged(stages: list[Turns], missing: int, by_size: bool) -> list[Turns]:
    """Stages joined two by two until they take so much less, or no two can be joined: first those by which most
    is saved, or else those with most products between two turns."""
    while missing > 0:
        joined = list(_joined(stages))
        if not joined:
            break
        best = max(joined, key=lambda j: (j.saved, j.distance) if by_size else (j.distance, j.saved))
        stages = [best.turns if stage is best.one else stage for stage in stages if stage is not best.other]
        missing -= best.saved
    return stages


@dataclass(frozen=True)
class _Joined:
    """Two stages that can be one: the turns there, what this saves, and the least distance between two turns,
    in products."""

    one: Turns
    other: Turns
    turns: Turns
    saved: int
    distance: int


def _joined(stages: Sequence[Turns]) -> Iterator[_Joined]:
    """The pairs of stages that can be one."""
    for one, other in combinations(stages, 2):
        turns = tuple(sorted((*one, *other), key=lambda tile: tile.first))
        if any(tile.held for tile in turns) or len({tile.kind for tile in turns}) > 1:
            continue
        distance = min(after.first - before.last for before, after in pairwise(turns))
        if distance > 0:
            yield _Joined(one, other, turns, min(_taken([one]), _taken([other])), distance)


def _taken(stages: Sequence[Turns]) -> int:
    """What stages take, each as much as the largest of its tiles."""
    return sum(max(tile.size for tile in turns) for turns in stages)
