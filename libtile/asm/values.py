# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Names of SSA values and blocks while a text is read: scopes, forward references, and their diagnostics."""

from __future__ import annotations

from typing import Any

from xdsl.ir import Attribute, Block, SSAValue

from libtile.asm.attribute_parser import AttributeParser
from libtile.asm.op_state import Use
from libtile.dialects.cuda_tile.attribute_text import generic_type_text
from libtile.support.records import dataclass

MAX_RESULT_NUMBER = 1 << 16
"""The largest number that `%name#number` may have, and the most results that an op may bind to one name."""


@dataclass(eq=False)
class ForwardReference(SSAValue[Any]):
    """A value that is used before it is defined; its definition replaces it."""

    @property
    def owner(self) -> Any:
        raise ValueError("a forward reference has no owner")


class _Definition:
    """Values bound to one name, and where; by number. An entry's value may be a `ForwardReference`."""

    __slots__ = ("offsets", "values")

    def __init__(self) -> None:
        self.values: list[SSAValue[Any] | None] = []
        self.offsets: list[int] = []

    def grow(self, size: int) -> None:
        while len(self.values) < size:
            self.values.append(None)
            self.offsets.append(0)


class _BlockScope:
    """Blocks of one region: those defined, and those only referred to, with the offset of the first reference."""

    __slots__ = ("blocks", "forward")

    def __init__(self) -> None:
        self.blocks: dict[str, Block] = {}
        self.forward: dict[str, int] = {}


class ValueParser(AttributeParser):
    """Keeps the values in scope. A name may not be defined twice in nested regions."""

    values: dict[str, _Definition]
    scopes: list[list[str]]
    block_scopes: list[_BlockScope]
    forward_references: dict[ForwardReference, int]
    replaced: list[tuple[ForwardReference, SSAValue[Any]]]
    """Forward references and what they turned out to be."""

    def start_values(self) -> None:
        self.values = {}
        self.scopes = []
        self.block_scopes = []
        self.forward_references = {}
        self.replaced = []

    # -- uses ---------------------------------------------------------------------------------------------------

    def operand(self) -> Use:
        """`%name` or `%name#number`."""
        if self.kind != "percent":
            raise self.wrong_token("expected SSA operand")
        name, start = self.token, self.start
        self.advance()
        if self.kind != "hash":
            return Use(name, 0, start)
        digits = self.token[1:]
        if not (digits.isascii() and digits.isdigit()) or len(digits) > 9:
            self.fail("invalid SSA value result number")
        self.advance()
        return Use(name, int(digits), start)

    def operand_list(self) -> list[Use]:
        """Operands with commas between; none at all when no name starts here."""
        if self.kind != "percent":
            return []
        uses = [self.operand()]
        while self.kind == ",":
            self.advance()
            uses.append(self.operand())
        return uses

    def resolve(self, use: Use, type_: Attribute) -> SSAValue[Any]:
        """The value that a use stands for; it must have the given type."""
        name, number, offset = use
        definition = self.values.get(name)
        if definition is not None and number < len(definition.values):
            value = definition.values[number]
            if value is not None:
                found = value.type
                if found is type_ or found == type_:
                    return value
                raise self.report(
                    f"use of value '{name}' expects different type than prior uses: "
                    f"'{generic_type_text(type_)}' vs '{generic_type_text(found)}'",
                    offset,
                    [(definition.offsets[number], "prior use here")],
                )
        if number >= MAX_RESULT_NUMBER:
            raise self.report("reference to invalid result number", offset)
        if definition is None:
            definition = self.values[name] = _Definition()
        elif definition.values and definition.values[0] is not None and not _is_forward(definition.values[0]):
            raise self.report("reference to invalid result number", offset)
        definition.grow(number + 1)
        reference = ForwardReference(type_)
        self.forward_references[reference] = offset
        definition.values[number] = reference
        definition.offsets[number] = offset
        return reference

    def resolve_all(self, uses: list[Use], types: list[Attribute], offset: int) -> list[SSAValue[Any]]:
        """The values of uses and types one by one; their numbers must agree."""
        if len(uses) != len(types):
            self.fail(
                f"number of operands and types do not match: got {len(uses)} operands and {len(types)} types", offset
            )
        return [self.resolve(use, type_) for use, type_ in zip(uses, types)]

    # -- definitions --------------------------------------------------------------------------------------------

    def define(self, use: Use, value: SSAValue[Any]) -> None:
        """Bind a value to a name in the current scope."""
        name, number, offset = use
        definition = self.values.get(name)
        if definition is None:
            definition = self.values[name] = _Definition()
        if number >= len(definition.values):
            definition.grow(number + 1)
        existing = definition.values[number]
        if existing is not None:
            self._replace(use, existing, value, definition.offsets[number])
        definition.values[number] = value
        definition.offsets[number] = offset
        if number == 0:
            self.scopes[-1].append(name)
            hint = name[1:]
            if not hint[0].isdigit() and SSAValue.is_valid_name(hint):
                value.name_hint = hint

    def _replace(self, use: Use, existing: SSAValue[Any], value: SSAValue[Any], previous: int) -> None:
        name, number, offset = use
        if not isinstance(existing, ForwardReference):
            raise self.report(f"redefinition of SSA value '{name}'", offset, [(previous, "previously defined here")])
        if existing.type != value.type:
            raise self.report(
                f"definition of SSA value '{name}#{number}' has type '{generic_type_text(value.type)}'",
                offset,
                [(previous, f"previously used here with type '{generic_type_text(existing.type)}'")],
            )
        existing.replace_all_uses_with(value)
        del self.forward_references[existing]
        self.replaced.append((existing, value))

    def define_argument(self, use: Use, value: SSAValue[Any]) -> None:
        """Bind a block argument that a custom form has named."""
        definition = self.values.get(use.name)
        if definition is not None and use.number < len(definition.values) and definition.values[use.number] is not None:
            raise self.report(
                f"region entry argument '{use.name}' is already in use",
                use.offset,
                [(definition.offsets[use.number], "previously referenced here")],
            )
        self.define(use, value)

    def push_scope(self) -> None:
        self.scopes.append([])
        self.block_scopes.append(_BlockScope())

    def pop_scope(self) -> None:
        blocks = self.block_scopes.pop()
        if blocks.forward:
            failures = [self.report("reference to an undefined block", o) for o in sorted(blocks.forward.values())]
            raise failures[0]
        for name in self.scopes.pop():
            del self.values[name]

    def check_forward_references(self) -> None:
        """Every name that was used must have been defined."""
        missing = sorted(self.forward_references.values())
        if missing:
            failures = [self.report("use of undeclared SSA value name", offset) for offset in missing]
            raise failures[0]
        for reference, value in self.replaced:
            # An op that has the definition in a region of its own takes it as an operand: it is made behind both.
            if reference.first_use is not None:
                reference.replace_all_uses_with(value)
        self.replaced = []

    # -- blocks -------------------------------------------------------------------------------------------------

    def define_block(self, name: str, offset: int, block: Block | None) -> Block:
        """The block for a label: a new one (or `block`), or the one that was referred to before."""
        scope = self.block_scopes[-1]
        if name in scope.blocks and name not in scope.forward:
            raise self.report(f"redefinition of block '{name}'", offset)
        if scope.forward.pop(name, None) is not None:
            return scope.blocks[name]
        scope.blocks[name] = block or Block()
        return scope.blocks[name]

    def successor(self) -> Block:
        """`^name`."""
        if self.kind != "caret":
            raise self.wrong_token("expected branch destination")
        name = self.token
        scope = self.block_scopes[-1]
        if name not in scope.blocks:
            scope.blocks[name] = Block()
            scope.forward[name] = self.start
        self.advance()
        return scope.blocks[name]


def _is_forward(value: SSAValue[Any] | None) -> bool:
    return isinstance(value, ForwardReference)
