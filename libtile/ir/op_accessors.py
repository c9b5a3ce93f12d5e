# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What an op declares by name (`op.lhs`), taken from where it stands.

IRDL's accessors ask at each use which of operands, results and regions they are for, and make a view of the operands;
six functions run for one operand. What they say of a class is the same for all of its ops, so here a class gets
properties that say it in one: `test/ir/test_op_accessors.py` compares them on every op of a compilation.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from itertools import accumulate
from typing import Any

from xdsl.dialects.builtin import DenseArrayBase
from xdsl.ir import Operation
from xdsl.irdl import operations as irdl

from libtile.ir.op_making import Values
from libtile.ir.op_parts import SEGMENTS, sizes_of

Getter = Callable[[Any], Any]


def shorten_accessors(cls: type[Operation]) -> None:
    """Give a class that IRDL has just defined its short accessors; those that are of no kind here stay."""
    for name, accessor in list(vars(cls).items()):
        found = _getter(accessor)
        if found is not None:
            setattr(cls, name, property(found))


def _getter(accessor: Any) -> Getter | None:
    make = _MAKERS.get(type(accessor))
    if make is None or accessor.construct not in _ROWS:
        return None
    if accessor.construct is irdl.VarIRConstruct.REGION and make is not _single:
        return None
    return make(accessor, accessor.idx, _ROWS[accessor.construct])


def _single(_: irdl.BeforeVariadicSingleAccessor, index: int, row: str) -> Getter:
    if row == "_operands":
        return lambda op: op._operands[index]
    if row == "results":
        return lambda op: op.results[index]
    return lambda op: op.regions[index]


def _only_optional(accessor: irdl.SameOptionalAccessor, index: int, row: str) -> Getter:
    """The one group that may be absent, and is there where there is a value for each group."""
    groups = accessor.num_defs

    def get(op: Operation) -> Any:
        values = getattr(op, row)
        return values[index] if len(values) == groups else None

    return get


def _only_variadic(accessor: irdl.UniqueVariadicAccessor, index: int, row: str) -> Getter:
    """The one group of any size: what the others leave."""
    behind = accessor.num_defs - index - 1

    def get(op: Operation) -> Any:
        values = getattr(op, row)
        return _some(values[index : len(values) - behind])

    return get


def _among_segments(accessor: irdl.BaseAttrAccessor, index: int, row: str) -> Getter:
    """A group of operands of an op whose property says how large the groups are."""
    if row != "_operands" or not accessor.option.as_property:
        return lambda op: _some(accessor.__get__(op))
    if isinstance(accessor, irdl.SingleAttrAccessor):
        return lambda op: op._operands[_bounds_of(op)[index]]
    if isinstance(accessor, irdl.OptionalAttrAccessor):

        def optional(op: Operation) -> Any:
            bounds = _bounds_of(op)
            start = bounds[index]
            return None if start == bounds[index + 1] else op._operands[start]

        return optional

    def variadic(op: Operation) -> Any:
        bounds = _bounds_of(op)
        return _some(op._operands[bounds[index] : bounds[index + 1]])

    return variadic


def _by_irdl(accessor: irdl.BaseAccessor, index: int, row: str) -> Getter:
    return lambda op: _some(accessor.__get__(op))


def _some(found: Any) -> Any:
    """Some values of a row, which xDSL's code asks for their types."""
    return Values(found) if type(found) is tuple else found


def _bounds_of(op: Operation) -> tuple[int, ...]:
    """Where each group begins, and where the last one ends."""
    sizes = op.properties[SEGMENTS]
    assert isinstance(sizes, DenseArrayBase)
    return _bounds(sizes_of(sizes))


@lru_cache(maxsize=1024)
def _bounds(sizes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(accumulate(sizes, initial=0))


_ROWS = {
    irdl.VarIRConstruct.OPERAND: "_operands",
    irdl.VarIRConstruct.RESULT: "results",
    irdl.VarIRConstruct.REGION: "regions",
}
"""Where an op has what accessors are for, successors excepted."""

_MAKERS: dict[type, Callable[[Any, int, str], Getter]] = {
    irdl.BeforeVariadicSingleAccessor: _single,
    irdl.SameOptionalAccessor: _only_optional,
    irdl.UniqueVariadicAccessor: _only_variadic,
    irdl.SameVariadicAccessor: _by_irdl,
    irdl.SingleAttrAccessor: _among_segments,
    irdl.OptionalAttrAccessor: _among_segments,
    irdl.VariadicAttrAccessor: _among_segments,
}
"""What makes an accessor in the place of each kind of IRDL's. The kinds that are left give single values."""
