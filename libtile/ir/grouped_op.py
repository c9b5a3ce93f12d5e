# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Ops whose operands come in groups, by name, in the order of their declaration."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import DenseArrayBase
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import AttrSizedOperandSegments, BaseAttr, OptionalDef, VariadicDef

from libtile.ir.deferred_op import DeferredOp
from libtile.ir.op_parts import SEGMENTS as SEGMENTS
from libtile.ir.op_parts import sizes_of
from libtile.ir.tile_types import is_token

INDICES = "indices"
TOKEN = "token"


class GroupedOp(DeferredOp):
    """An op that knows its groups of operands. Optional and variadic ones stand behind `indices` and the operands that
    are always there."""

    @classmethod
    def property_class(cls, name: str) -> type[Attribute] | None:
        """The class of attributes that a declared property takes, where it is a single one."""
        constraint = cls.get_irdl_definition().properties[name].constr
        return constraint.attr if isinstance(constraint, BaseAttr) else None

    @classmethod
    def has_segments(cls) -> bool:
        return any(isinstance(o, AttrSizedOperandSegments) for o in cls.get_irdl_definition().options)

    @classmethod
    def infer_segments(cls, before: int, indices: int, rest: Sequence[Attribute]) -> list[int] | None:
        """The sizes of the operand groups from the number of leading operands and indices and the types of the others.

        None when they cannot be told. A final token is known by its type; the other optional groups are taken in order.
        """
        sizes: list[int] = []
        left = len(rest)
        defs = cls.get_irdl_definition().operands
        token = bool(defs) and defs[-1][0] == TOKEN and left > 0 and is_token(rest[-1])
        left -= token
        for name, definition in defs:
            if name == INDICES:
                sizes.append(indices)
            elif name == TOKEN:
                sizes.append(int(token))
            elif not isinstance(definition, VariadicDef):
                if before:
                    before -= 1
                elif left:
                    left -= 1
                else:
                    return None
                sizes.append(1)
            else:
                size = min(left, 1) if isinstance(definition, OptionalDef) else left
                left -= size
                sizes.append(size)
        return None if left or before else sizes

    def segment_sizes(self) -> tuple[int, ...]:
        """Number of operands in each declared group."""
        sizes = self.properties.get(SEGMENTS)
        if isinstance(sizes, DenseArrayBase):
            return sizes_of(sizes)
        found = _plain_sizes([d for _, d in self.get_irdl_definition().operands], len(self.operands))
        return found or (len(self.operands),)

    def group(self, name: str) -> tuple[SSAValue, ...]:
        """The operands of a declared group."""
        start = 0
        for (other, _), size in zip(self.get_irdl_definition().operands, self.segment_sizes(), strict=True):
            if other == name:
                return tuple(self.operands[start : start + size])
            start += size
        raise KeyError(name)


def _plain_sizes(definitions: Sequence[Any], count: int) -> tuple[int, ...] | None:
    """Sizes of groups of which at most one is optional or variadic; None when the number does not fit."""
    flexible = [d for d in definitions if isinstance(d, VariadicDef)]
    rest = count - (len(definitions) - len(flexible))
    if rest < 0 or (rest and not flexible) or (rest > 1 and isinstance(flexible[0], OptionalDef)):
        return None
    return tuple(rest if isinstance(d, VariadicDef) else 1 for d in definitions)
