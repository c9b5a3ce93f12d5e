# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What an op declares by name (`op.lhs`), taken from where it stands.

IRDL's accessors ask at each use which of operands, results and regions they are for, and make a view of the operands;
six functions run for one operand. What they say of a class is the same for all of its ops, so here a class gets
properties that say it in one: `test/ir/test_op_accessors.py` compares them on every op of a compilation.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
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
    if make is None:
        return None
    index = accessor.idx
    if accessor.construct is irdl.VarIRConstruct.OPERAND:
        return make(accessor, index)
    if not isinstance(accessor, irdl.BeforeVariadicSingleAccessor):
        return None
    if accessor.construct is irdl.VarIRConstruct.RESULT:
        return lambda op: op.results[index]
    if accessor.construct is irdl.VarIRConstruct.REGION:
        return lambda op: op.regions[index]
    return None


def _single(_: irdl.BeforeVariadicSingleAccessor, index: int) -> Getter:
    return lambda op: op._operands[index]


def _only_optional(accessor: irdl.SameOptionalAccessor, index: int) -> Getter:
    """The one group that may be absent, and is there where there is an operand for each group."""
    groups = accessor.num_defs
    return lambda op: op._operands[index] if len(op._operands) == groups else None


def _only_variadic(accessor: irdl.UniqueVariadicAccessor, index: int) -> Getter:
    """The one group of any size: what the others leave."""
    behind = accessor.num_defs - index - 1

    def get(op: Operation) -> Values:
        values = op._operands
        return Values(values[index : len(values) - behind])

    return get


def _among_segments(accessor: irdl.BaseAttrAccessor, index: int) -> Getter | None:
    """A group of an op whose property says how large the groups are."""
    if accessor.option.attribute_name != SEGMENTS or not accessor.option.as_property:
        return None
    if isinstance(accessor, irdl.SingleAttrAccessor):
        return lambda op: op._operands[_bounds_of(op)[index]]
    if isinstance(accessor, irdl.OptionalAttrAccessor):

        def optional(op: Operation) -> Any:
            bounds = _bounds_of(op)
            start = bounds[index]
            return None if start == bounds[index + 1] else op._operands[start]

        return optional

    def variadic(op: Operation) -> Values:
        bounds = _bounds_of(op)
        return Values(op._operands[bounds[index] : bounds[index + 1]])

    return variadic


def _bounds_of(op: Operation) -> tuple[int, ...]:
    """Where each group begins, and where the last one ends."""
    sizes = op.properties[SEGMENTS]
    assert isinstance(sizes, DenseArrayBase)
    return _bounds(sizes_of(sizes))


@cache
def _bounds(sizes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(accumulate(sizes, initial=0))


_MAKERS: dict[type, Callable[[Any, int], Getter | None]] = {
    irdl.BeforeVariadicSingleAccessor: _single,
    irdl.SameOptionalAccessor: _only_optional,
    irdl.UniqueVariadicAccessor: _only_variadic,
    irdl.SingleAttrAccessor: _among_segments,
    irdl.OptionalAttrAccessor: _among_segments,
    irdl.VariadicAttrAccessor: _among_segments,
}
"""For each kind of accessor of IRDL's what makes that of an operand."""
