# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Operands of any op by what its class declares, for what has to do with ops of many classes.

What knows the class of an op says `op.lhs`. These functions are for the rest: a pass that follows values through all
ops that rename or convert one has an op with a source, whatever its declaration calls it (`source`, `from`, `input`);
one that gives an op another operand says which by its name. Where that stands is worked out from the one declaration of
the op: the spec's for cuda_tile, IRDL's for all others. No other place counts operands.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from functools import cache

from xdsl.dialects.builtin import DenseArrayBase
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import AttrSizedOperandSegments, IRDLOperation, VariadicDef

from libtile.ir.made_ops import note
from libtile.ir.numbers import numbers_of
from libtile.ir.op_making import makes_ops
from libtile.ir.plain_class import PlainClass
from libtile.ir.remembered_traits import remembers_traits

Groups = tuple[tuple[str, bool], ...]
"""The groups of operands that a class declares, in order: the name, and whether it always has one operand."""


@makes_ops
@remembers_traits
class DeclaresOperands(Operation, metaclass=PlainClass):
    """Base of ops whose groups of operands are declared elsewhere than with IRDL."""

    __eq__ = object.__eq__
    __hash__ = object.__hash__
    """As in `DeferredOp`."""

    def __post_init__(self) -> None:
        note(self)
        Operation.__post_init__(self)

    @classmethod
    def complete(cls) -> None:
        """Called before traits are looked for: these have all theirs from the beginning."""

    @classmethod
    @abstractmethod
    def operand_groups(cls) -> Groups:
        """What the class declares."""

    @abstractmethod
    def segment_sizes(self) -> tuple[int, ...]:
        """Number of operands in each declared group. ValueError when the operands do not fit the declaration."""


@cache
def operand_groups(cls: type[Operation]) -> Groups:
    """The groups of operands that a class declares. TypeError where it declares none, which no op here does."""
    if issubclass(cls, DeclaresOperands):
        return cls.operand_groups()
    if not issubclass(cls, IRDLOperation):
        raise TypeError(f"'{cls.name}' does not declare its operands")
    return tuple((name, not isinstance(group, VariadicDef)) for name, group in cls.get_irdl_definition().operands)


def operand_sizes(op: Operation) -> tuple[int, ...]:
    """The number of operands in each declared group. ValueError when the operands do not fit the declaration."""
    if isinstance(op, DeclaresOperands):
        return op.segment_sizes()
    sizes = op.properties.get(AttrSizedOperandSegments.attribute_name)
    if isinstance(sizes, DenseArrayBase):
        return numbers_of(sizes)
    groups = operand_groups(type(op))
    flexible = sum(not single for _, single in groups)
    rest = len(op._operands) - (len(groups) - flexible)
    if rest < 0 or flexible > 1 or (rest and not flexible):
        raise ValueError(f"'{op.name}' has {len(op._operands)} operands, which do not fit what it declares")
    return tuple(1 if single else rest for _, single in groups)


def _place(op: Operation, name: str) -> tuple[int, int]:
    """Where a group begins among all operands, and its size. KeyError for a name that the class does not declare."""
    start = 0
    for (other, _), size in zip(operand_groups(type(op)), operand_sizes(op), strict=True):
        if other == name:
            return start, size
        start += size
    raise KeyError(name)


def declares(op: Operation, name: str) -> bool:
    """Whether the op's class has a group of operands of this name."""
    return any(other == name for other, _ in operand_groups(type(op)))


def operands_of(op: Operation, name: str) -> Sequence[SSAValue]:
    """The operands of the group declared as `name`. KeyError where there is no such group."""
    start, size = _place(op, name)
    return op._operands[start : start + size]


def operand_of(op: Operation, name: str) -> SSAValue:
    """The operand declared as `name`. ValueError where the op has none of it, or several."""
    (value,) = operands_of(op, name)
    return value


def sources_of(op: Operation) -> Sequence[SSAValue]:
    """The operands of the group that is declared first: what the op is done to. None for an op without operands."""
    groups = operand_groups(type(op))
    if groups and groups[0][1]:  # all of a pass's conversions and renamings, without the sizes of the others
        return op._operands[:1]
    return op._operands[: operand_sizes(op)[0]] if groups else ()


def source_of(op: Operation) -> SSAValue:
    """The operand that is declared first: what a conversion converts, a change of shape reshapes, an access goes
    through. ValueError where the op has none, or several."""
    (source,) = sources_of(op)
    return source


def set_operand(op: Operation, name: str, value: SSAValue, number: int = 0) -> None:
    """Give an op another operand, in place: number `number` of the group declared as `name`. KeyError where there is no
    such group, IndexError where it has no such operand."""
    start, size = _place(op, name)
    if not 0 <= number < size:
        raise IndexError(f"'{op.name}' has {size} operands '{name}'")
    op.operands[start + number] = value
