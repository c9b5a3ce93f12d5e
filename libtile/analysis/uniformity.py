# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Along which dimensions all elements of a tile are the same, for tiles of all element types.

Scalars are the same for all threads of a tile block by nature; a tile is uniform along a dimension where it is spread
(`broadcast`), constant, or computed element by element of tiles that are. Values that loops carry are taken to be
uniform until something shows that they are not, so that a counter that is spread over a tile stays one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from xdsl.ir import Operation, SSAValue

from libtile.dialects.cuda_tile.attributes import DenseElementsAttr
from libtile.dialects.cuda_tile.elementwise import is_elementwise
from libtile.dialects.cuda_tile.ops import CudaTileOp
from libtile.dialects.cuda_tile.types import TileType
from libtile.dialects.interfaces import edges
from libtile.ir.operands import source_of
from libtile.ir.places import ops_of

Dims = tuple[bool, ...]
"""For each dimension of a tile, whether it is uniform along it: those of one element are."""


class Uniformity:
    """The uniform dimensions of one function's values. Not kept up to date when the function changes."""

    def __init__(self, function: Operation) -> None:
        self._varying: dict[SSAValue, Dims] = {}
        """What has been found not to be uniform; all else is, along all dimensions."""
        self._incoming: dict[SSAValue, list[SSAValue]] = {}
        ops = [op for op in ops_of(function) if op is not function]
        for op in ops:
            for number, value in edges(op):
                self._incoming.setdefault(value, []).append(op.operands[number])
        self._solve(ops)

    def of(self, value: SSAValue) -> Dims:
        """The uniform dimensions of a tile; none of a value that is no tile."""
        known = self._varying.get(value)
        return known if known is not None else (True,) * _rank(value)

    def is_uniform(self, value: SSAValue) -> bool:
        """Whether all elements of a tile are the same."""
        return isinstance(value.type, TileType) and all(self.of(value))

    # -- the fixpoint: dimensions are only ever taken back ----------------------------------------------------------

    def _solve(self, ops: list[Operation]) -> None:
        work = list(reversed(ops))
        queued = set(work)
        while work:
            op = work.pop()
            queued.discard(op)
            changed = [value for value in self._made_by(op) if self._lower(value)]
            for value in changed:
                for use in value.uses:
                    if use.operation not in queued:
                        queued.add(use.operation)
                        work.append(use.operation)

    def _made_by(self, op: Operation) -> list[SSAValue]:
        """The values that change with the operands of an op: its results, and what control hands its operands to."""
        carried = [value for _, value in edges(op)]
        return [*carried, *(result for result in op.results if result not in carried)]

    def _lower(self, value: SSAValue) -> bool:
        found = self._found(value)
        if found == self.of(value):
            return False
        self._varying[value] = found
        return True

    def _found(self, value: SSAValue) -> Dims:
        if not isinstance(value.type, TileType):
            return ()
        ones = tuple(extent == 1 for extent in value.type.shape)
        if value in self._incoming:
            found = _all(self.of(source) for source in self._incoming[value])
        elif isinstance(op := value.owner, CudaTileOp):
            found = self._result(op, value)
        else:
            found = ones  # arguments of functions and of reductions are scalars
        return tuple(a or b for a, b in zip(found, ones, strict=True))

    def _result(self, op: CudaTileOp, value: SSAValue) -> Dims:
        rule = _RULES.get(op.spec.name)
        if rule is not None:
            return rule(self, op)
        if is_elementwise(op):
            return _all(map(self.of, op.operands))
        return (False,) * _rank(value)


def _rank(value: SSAValue) -> int:
    return value.type.rank if isinstance(value.type, TileType) else 0


def _shape(value: SSAValue) -> tuple[int, ...]:
    assert isinstance(value.type, TileType)
    return value.type.shape


def _all(found: Iterable[Dims]) -> Dims:
    return tuple(all(dims) for dims in zip(*found, strict=True))


_Rule = Callable[[Uniformity, CudaTileOp], Dims]


def _constant(known: Uniformity, op: CudaTileOp) -> Dims:
    value = op.properties["value"]
    assert isinstance(value, DenseElementsAttr)
    return (value.is_splat,) * _rank(op.results[0])


def _broadcast(known: Uniformity, op: CudaTileOp) -> Dims:
    return known.of(op.operand("source"))  # dimensions of one element, which are spread, are uniform


def _reshape(known: Uniformity, op: CudaTileOp) -> Dims:
    source, shape = op.operand("source"), _shape(op.results[0])
    dims = known.of(source)
    if all(dims):
        return (True,) * len(shape)
    if [extent for extent in shape if extent > 1] != [extent for extent in _shape(source) if extent > 1]:
        return (False,) * len(shape)
    kept = iter(dim for extent, dim in zip(_shape(source), dims) if extent > 1)
    return tuple(extent == 1 or next(kept) for extent in shape)


def _permute(known: Uniformity, op: CudaTileOp) -> Dims:
    dims = known.of(op.operand("source"))
    return tuple(dims[number] for number in op.attribute_value("permutation"))


def _first(known: Uniformity, op: CudaTileOp) -> Dims:
    return known.of(source_of(op))


def _reduce(known: Uniformity, op: CudaTileOp) -> Dims:
    dims = list(_all(map(known.of, op.operands)))
    del dims[int(op.attribute_value("dim"))]
    return tuple(dims)


def _scan(known: Uniformity, op: CudaTileOp) -> Dims:
    along = int(op.attribute_value("dim"))
    return tuple(dim and number != along for number, dim in enumerate(_all(map(known.of, op.operands))))


_RULES: dict[str, _Rule] = {
    "assume": _first,
    "broadcast": _broadcast,
    "constant": _constant,
    "extract": _first,
    "permute": _permute,
    "reduce": _reduce,
    "reshape": _reshape,
    "scan": _scan,
}
