# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the disassembler prints, from the bytecode's records, without IR for most of the ops.

A file has many ops and few kinds of them: ops of one name, with equal attributes and types, read alike but for the
names of their values. The first op of a kind is converted, verified and printed as any op is, and gives a `Form`, into
which the names of all others are put. Made as IR are those that are checked against what stands around them: loops and
conditionals, terminators, uses of symbols, and reductions and scans with all that they hold. They make up the outline
of the module, in which ops of no dialect stand for the values and the debug scopes of what was left
out, and which is verified as a module is.

There are no diagnostics here: what does not verify has no text, and is left to the way over the IR, which says why.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any

from libtile.asm.custom_directives_print import IMPLICIT
from libtile.asm.diagnosis import diagnose, generic_text
from libtile.asm.disasm_names import RENAMED, Disassembler
from libtile.asm.names import Names, Suggest, has_suggestions, suggested_names
from libtile.asm.printer import Printer
from libtile.bytecode import model as bc
from libtile.bytecode.errors import InvalidError
from libtile.dialects.cuda_tile import kit_light
from libtile.dialects.cuda_tile.bridge import FromBytecode
from libtile.dialects.cuda_tile.forms import CudaTileOp
from libtile.dialects.cuda_tile.verify import verify_alone
from libtile.ir import light
from libtile.ir.forms import Attribute, Block, Operation, SSAValue
from libtile.spec import OpSpec
from libtile.support.collector import collector_paused
from libtile.support.diagnostics import has_errors
from libtile.support.records import dataclass

_AROUND = ("terminator", "symbol_user", "parent")
"""Traits of ops that are checked against what stands around them."""

_LONGEST_CHAIN = 60
"""Ops `assume` of one value after the other, whose names are put together; far more have shorter names."""


class _Undecided(Exception):
    """There is no text to be had this way."""


@dataclass(slots=True, eq=False)
class Form:
    """How ops of one kind read: `text` takes the names of the operands with the numbers in `operands`, and `names` has
    what the results' names are made of, by result number.
    """

    text: str
    operands: tuple[int, ...]
    names: dict[int, str]


@dataclass(slots=True)
class _Body:
    """A block's records, and for each of them its form or the op that it is in the outline."""

    source: bc.Block
    items: list[Form | Operation]


@cache
def _stands_alone(spec: OpSpec) -> bool:
    return not spec.regions and not any(spec.has_trait(trait) for trait in _AROUND)


class _Outline(FromBytecode):
    """Converts what has to be IR, and finds the forms of all else."""

    def __init__(self, module: bc.Module) -> None:
        super().__init__(module, kit_light)
        self.bodies: dict[Block, _Body] = {}
        self.stand_ins: list[tuple[SSAValue, bc.Value]] = []
        self.assumes = False
        self._forms: dict[Any, Form] = {}
        self._within = False
        """Inside of an op that is converted as a whole."""

    def _block(self, source: bc.Block, location: Any) -> Block:
        if self._within:
            return super()._block(source, location)
        block = self._start_block(source, location)
        items: list[Form | Operation] = []
        scopes: set[bc.DebugInfo | None] = {None}
        for record in source.operations:
            if _stands_alone(record.spec):
                items.append(self._form(record))
                place = record.location
                if place is not None:
                    scope = place["scope"] if place.name == "di_loc" else place
                    if scope not in scopes:
                        scopes.add(scope)
                        block.add_op(_cast([], self._decided(self._location, place)))
                continue
            stand_ins = self._stand_in(record, block)
            self._within = record.spec.name not in IMPLICIT
            op = self._operation(record)
            self._within = False
            for value in stand_ins:
                del self._values[value]
            block.add_op(op)
            items.append(op)
        self.bodies[block] = _Body(source, items)
        return block

    def _stand_in(self, record: bc.Operation, block: Block) -> list[bc.Value]:
        """Make values for what a record uses, also inside of it if it is converted as a whole, and no op of the outline
        makes. They are used by it alone.
        """
        made: list[bc.Value] = []
        inside: set[bc.Value] = set()
        for user in (record,) if record.spec.name in IMPLICIT else record.walk():
            for region in user.regions:
                for inner in region:
                    inside.update(inner.arguments)
                    inside.update(r for op in inner.operations for r in op.results)
            for operand in user.operands:
                if operand not in self._values and operand not in inside:
                    cast = _cast([self._type(operand.type)], self._location(None))
                    block.add_op(cast)
                    self._values[operand] = cast.results[0]
                    self.stand_ins.append((cast.results[0], operand))
                    made.append(operand)
        return made

    def _form(self, record: bc.Operation) -> Form:
        operands, results = record.operands, record.results
        spec = record.spec
        key = (
            spec.name,
            tuple(record.attributes.items()),
            tuple([v.type for v in operands]),
            tuple([v.type for v in results]),
            record.segments,
        )
        found = self._forms.get(key)
        if found is None:
            found = self._forms[key] = self._make_form(record)
            self.assumes |= spec.name == "assume"
        return found

    def _make_form(self, record: bc.Operation) -> Form:
        operands = [bc.Value(v.type) for v in record.operands]
        block = Block(arg_types=[self._type(v.type) for v in operands])
        outside, self._values = self._values, dict(zip(operands, block.args))
        alike = bc.Operation(
            record.spec,
            operands,
            [bc.Value(v.type) for v in record.results],
            record.attributes,
            segments=record.segments,
            location=record.location,
        )
        op = self._decided(self._operation, alike)
        self._values = outside
        block.add_op(op)
        if has_errors(verify_alone(op, generic_text)):
            raise _Undecided
        text, numbers = _FormPrinter(op).form(block)
        return Form(text, numbers, suggested_names(op))

    def _decided(self, convert: Callable[[Any], Any], record: Any) -> Any:
        """What a record becomes. What has no form in the dialect is reported with its place on the way over the IR."""
        try:
            return convert(record)
        except InvalidError:
            raise _Undecided from None


def _cast(results: list[Attribute], location: Any) -> Any:
    return light.Operation(result_types=results, location=location)


# -- text -------------------------------------------------------------------------------------------------------------

_SLOT = re.compile("\0([0-9]+)\0")


class _FormPrinter(Printer):
    """Prints one op with slots in place of names."""

    def __init__(self, op: Operation) -> None:
        super().__init__(op, printed_names=RENAMED)

    def form(self, block: Block) -> tuple[str, tuple[int, ...]]:
        """The text behind the results' names, and the numbers of the block's arguments that stand in its slots."""
        self._values = {argument: f"\0{number}\0" for number, argument in enumerate(block.args)}
        self.default_dialects.append("cuda_tile")
        self.operation_body(self._op)
        text = "".join(self._parts)
        if "\n" in text:
            raise _Undecided  # it is indented by where it stands
        numbers = tuple(int(number) for number in _SLOT.findall(text))
        return _SLOT.sub("%s", text.replace("%", "%%")), numbers


class _RecordNames(Names):
    """Names of the outline's values and of the records', which are in `values` both."""

    def __init__(self, op: Operation, outline: _Outline) -> None:
        self._outline = outline
        self._made: dict[bc.Value, tuple[bool, str]] = {}
        """Where there are ops `assume`: whether the op that makes a value suggests names, and the one for it."""
        super().__init__(op)
        for value, record in outline.stand_ins:
            self.values[value] = self.values[record]

    def _name_ops(self, block: Block) -> None:
        body = self._outline.bodies.get(block)
        if body is None:
            super()._name_ops(block)
            return
        values = self.values
        for argument, value in zip(body.source.arguments, block.args):
            values[argument] = values[value]
        assumes = self._outline.assumes
        for record, item in zip(body.source.operations, body.items):
            results = record.results
            if not results:
                continue
            if type(item) is Form:
                names = item.names
                if assumes:
                    names = self._with_assumed(record, names)
                if len(results) > 1:
                    self._name_as_suggested(record, names)
                else:
                    values[results[0]] = "%" + self._unique(names[0]) if names and names[0] else self._next()
            else:
                assert isinstance(item, Operation)
                self._name_results(item)
                for result, made in zip(results, item.results):
                    values[result] = values[made]
                if assumes:
                    names = suggested_names(item)
                    suggests = bool(names) or (isinstance(item, CudaTileOp) and has_suggestions(item))
                    self._made.update((r, (suggests, names.get(i, ""))) for i, r in enumerate(results))

    def _with_assumed(self, record: bc.Operation, names: dict[int, str]) -> dict[int, str]:
        """The names that a record suggests, which for an `assume` have to do with the op in front of it."""
        if record.spec.name == "assume":
            suggests, name = self._made.get(record.group("value")[0], (False, ""))
            names = {0: "assume_" + name if suggests else "assume"}
            if names[0].count("assume") > _LONGEST_CHAIN:
                raise _Undecided
        self._made.update((r, (bool(names), names.get(i, ""))) for i, r in enumerate(record.results))
        return names


class _RecordPrinter(Disassembler):
    """Prints the outline with what was left out of it."""

    def __init__(self, module: Operation, outline: _Outline) -> None:
        self._outline = outline
        super().__init__(module)

    def _names_of(self, op: Operation, generic: bool, suggest: Suggest | None) -> Names:
        return _RecordNames(op, self._outline)

    def _block(self, block: Block, *, label: bool, terminators: bool, outer: str) -> None:
        body = self._outline.bodies.get(block)
        if body is None:
            super()._block(block, label=label, terminators=terminators, outer=outer)
            return
        self._label(block, label, outer)
        indent, write, values = self._indent, self.write, self._values
        count = len(body.items) if terminators else len(body.items) - 1
        for record, item, _ in zip(body.source.operations, body.items, range(count)):
            if type(item) is Form:
                results, operands = record.results, record.operands
                text = item.text % tuple([values[operands[number]] for number in item.operands])
                if len(results) == 1:
                    write(f"{indent}{values[results[0]]} = {text}\n")
                elif results:
                    write(f"{indent}{self._result_names(record)} = {text}\n")
                else:
                    write(f"{indent}{text}\n")
            else:
                assert isinstance(item, Operation)
                write(indent)
                self.operation(item)
                write("\n")


def disassembled(module: bc.Module) -> str | None:
    """What the disassembler prints for a module, without debug information; None unless the module is valid.

    Raises BytecodeError when a function does not decode.
    """
    with collector_paused():
        outline = _Outline(module)
        try:
            op = outline.run()
            return None if has_errors(diagnose(op)) else _RecordPrinter(op, outline).text()
        except _Undecided:
            return None
