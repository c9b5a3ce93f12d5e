# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Structural checks of the inner dialects' ops, from their declarations, in MLIR's words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import DenseArrayBase
from xdsl.irdl import OptionalDef, OptPropertyDef, VariadicDef
from xdsl.irdl.constraints import ConstraintContext, VerificationContext
from xdsl.utils.exceptions import VerifyException

from libtile.ir.grouped_op import SEGMENTS, GroupedOp


def check_structure(op: GroupedOp) -> None:
    """Numbers of regions, successors, results and operands, then attributes. VerifyException for the first fault."""
    definition = op.get_irdl_definition()
    _check_regions(op)
    if op.successors:
        raise VerifyException(f"requires 0 successors but found {len(op.successors)}")
    _check_groups("result", [d for _, d in definition.results], len(op.results))
    if op.has_segments():
        _check_segments(op)
    else:
        _check_groups("operand", [d for _, d in definition.operands], len(op.operands))
    for name, declared in definition.properties.items():
        value = op.properties.get(name)
        if value is None:
            if not isinstance(declared, OptPropertyDef):
                raise VerifyException(f"requires attribute '{name}'")
            continue
        try:
            declared.constr.verify(value, _context())
        except VerifyException:
            raise VerifyException(f"attribute '{name}' failed to satisfy its constraint: got {value}") from None
    for name in op.properties:
        if name not in definition.properties and name != SEGMENTS:
            raise VerifyException(f"has no property '{name}'")


def _check_regions(op: GroupedOp) -> None:
    definitions = [d for _, d in op.get_irdl_definition().regions]
    count = len(op.regions)
    if not definitions:
        if count:
            raise VerifyException("requires zero regions")
        return
    fixed = sum(not isinstance(d, VariadicDef) for d in definitions)
    if count < fixed or (count > fixed and fixed == len(definitions)):
        raise VerifyException(f"requires {fixed} region{'' if fixed == 1 else 's'} but found {count}")


def _check_groups(what: str, definitions: Sequence[Any], count: int) -> None:
    """Groups of which at most one is optional or variadic: it takes what the others leave."""
    flexible = [i for i, d in enumerate(definitions) if isinstance(d, VariadicDef)]
    fixed = len(definitions) - len(flexible)
    if not flexible:
        if count != fixed:
            raise VerifyException(f"expected {fixed} {what}{'' if fixed == 1 else 's'}, but found {count}")
        return
    if count < fixed:
        raise VerifyException(f"expected {fixed} or more {what}s, but found {count}")
    if isinstance(definitions[flexible[0]], OptionalDef) and count - fixed > 1:
        raise VerifyException(
            f"{what} group starting at #{flexible[0]} requires 0 or 1 element, but found {count - fixed}"
        )


def _check_segments(op: GroupedOp) -> None:
    sizes = op.properties.get(SEGMENTS)
    if not isinstance(sizes, DenseArrayBase):
        raise VerifyException(f"requires attribute '{SEGMENTS}'")
    values = [int(n) for n in sizes.get_values()]
    definitions = op.get_irdl_definition().operands
    if len(values) != len(definitions):
        raise VerifyException(
            f"'{SEGMENTS}' attribute for specifying operand segments must have {len(definitions)} elements, but got "
            f"{len(values)}"
        )
    if any(n < 0 for n in values):
        raise VerifyException(f"'{SEGMENTS}' attribute cannot have negative elements")
    if sum(values) != len(op.operands):
        raise VerifyException(
            f"operand count ({len(op.operands)}) does not match with the total size ({sum(values)}) specified in "
            f"attribute '{SEGMENTS}'"
        )
    start = 0
    for size, (_, definition) in zip(values, definitions):
        if isinstance(definition, OptionalDef) and size > 1:
            raise VerifyException(f"operand group starting at #{start} requires 0 or 1 element, but found {size}")
        if not isinstance(definition, VariadicDef) and size != 1:
            raise VerifyException(f"operand group starting at #{start} requires 1 element, but found {size}")
        start += size


def _context() -> Any:
    return VerificationContext()


__all__ = ["ConstraintContext", "check_structure"]
