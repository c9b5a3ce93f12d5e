# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes IR as text: custom forms of the spec's ops, the generic form of any op, and what xDSL prints for others."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import cache
from itertools import accumulate, islice
from typing import TYPE_CHECKING, Any

from libtile.asm.aliases import Aliases
from libtile.asm.names import Named, Names, Suggest
from libtile.asm.recursion import room_for_nesting
from libtile.dialects.cuda_tile.attribute_text import (
    Alias,
    TypeElision,
    attribute_text,
    dictionary_text,
    elided_above,
    generic_type_text,
    location_text,
    no_alias,
)
from libtile.dialects.cuda_tile.forms import CudaTileOp, CudaTileType, DenseElementsAttr, EnumAttr, TensorViewType
from libtile.dialects.cuda_tile.op_forms import SEGMENTS
from libtile.dialects.cuda_tile.type_forms import DYNAMIC, type_text
from libtile.ir.forms import (
    ArrayAttr,
    Attribute,
    Block,
    BlockArgument,
    FunctionType,
    ModuleOp,
    Operation,
    Region,
    SSAValue,
    UnregisteredOp,
)
from libtile.spec import OpSpec
from libtile.spec.model import AttributeSpec

if TYPE_CHECKING:
    from libtile.asm.custom_ops_print import PrintOp

INDENT = "  "


@cache
def _compiled(cls: type[CudaTileOp]) -> PrintOp | None:
    """The function that writes ops of a class in their custom form; None when they have none."""
    from libtile.asm.custom_ops_print import PRINTERS
    from libtile.asm.format_print import compile_printer

    op = cls.spec
    if op.format == "generic":
        return None
    return PRINTERS[op.name] if op.format == "custom" else compile_printer(cls)


class Printer:
    """Writes one op and all below it. `text` is the result."""

    def __init__(
        self,
        op: Operation,
        *,
        generic: bool = False,
        debuginfo: bool = False,
        local_scope: bool = False,
        names: Suggest | None = None,
        printed_names: dict[str, str] | None = None,
    ):
        self.generic = generic
        self.debuginfo = debuginfo
        self.printed_names = printed_names or {}
        self.default_dialects = [""]
        self._names = self._names_of(op, generic, names)
        self._values = self._names.values
        self._type_texts: dict[Attribute, str] = {}
        self._parts: list[str] = []
        self._indent = ""
        self.alias: Alias = no_alias
        self._aliases = (
            Aliases(op, self._arguments_printed, self._hidden_terminator) if debuginfo and not local_scope else None
        )
        if self._aliases is not None:
            self.alias = self._aliases
        self.write = self._parts.append
        self._op = op

    def text(self) -> str:
        """The whole text, with the definitions of aliases around it; ends in a newline."""
        if self._aliases is not None:
            self.write(self._aliases.definitions(deferred=False))
        self.operation(self._op)
        self.write("\n")
        if self._aliases is not None:
            self.write(self._aliases.definitions(deferred=True))
        return "".join(self._parts)

    def _names_of(self, op: Operation, generic: bool, suggest: Suggest | None) -> Names:
        return Names(op, generic=generic, suggest=suggest)

    # -- pieces -------------------------------------------------------------------------------------------------

    write: Callable[[str], None]

    def value(self, value: SSAValue[Any]) -> str:
        """The name of a value; one that is defined outside of what is printed has none."""
        return self._values.get(value, "<<UNKNOWN SSA VALUE>>")

    def type(self, type_: Attribute) -> str:
        """A type in a custom form: the dialect's without prefix."""
        text = self._type_texts.get(type_)
        if text is None:
            text = type_text(type_) if isinstance(type_, CudaTileType) else generic_type_text(type_)
            self._type_texts[type_] = text
        return text

    def types(self, values: Sequence[SSAValue[Any]]) -> str:
        if len(values) == 1:
            return self.type(values[0].type)
        return ", ".join(self.type(v.type) for v in values)

    def attribute(self, attr: Attribute) -> str:
        return attribute_text(attr, TypeElision.NEVER, self.alias)

    def block_name(self, block: Block) -> str:
        return self._names.blocks.get(block, "^<<UNKNOWN BLOCK>>")

    def newline(self) -> None:
        self.write("\n" + self._indent)

    def attribute_dict(self, op: Operation, elided: Collection[str], *, keyword: bool = False) -> None:
        """` {...}` of what the form does not write itself, if anything is left; declared defaults are left out."""
        entries = {k: v for k, v in op.attributes.items() if k not in elided and k != "op_name__"}
        if len(op.properties) > len(elided) or any(name not in elided for name in op.properties):
            entries |= {k: v for k, v in op.properties.items() if k not in elided and not _is_default(op, k, v)}
        if entries:
            self.write(f"{' attributes' if keyword else ''} {{{dictionary_text(entries, self.alias)}}}")

    def argument_list(self, arguments: Sequence[SSAValue[Any]]) -> None:
        """`(%name: type, ...)`."""
        self.write(f"({', '.join(f'{self.value(a)}: {self.type(a.type)}' for a in arguments)})")

    # -- operations ---------------------------------------------------------------------------------------------

    def operation(self, op: Operation) -> None:
        results = op.results
        if results:
            self.write(self._result_names(op) + " = ")
        self.operation_body(op)
        if self.debuginfo:
            self._location(op.location)

    def operation_body(self, op: Operation) -> None:
        """The op without the names of its results and without its location."""
        if self.generic:
            self._generic(op)
            return
        if isinstance(op, CudaTileOp):
            write = _compiled(type(op))
            if write is not None and printable(op):
                mnemonic = op.spec.name
                mnemonic = self.printed_names.get(mnemonic, mnemonic)
                self.write(mnemonic if self.default_dialects[-1] == "cuda_tile" else "cuda_tile." + mnemonic)
                if op.regions:
                    self.default_dialects.append("cuda_tile")
                    write(self, op)
                    self.default_dialects.pop()
                else:
                    write(self, op)
                return
            self._generic(op)
            return
        if isinstance(op, ModuleOp) and len(op.regions) == 1 and not (op.operands or op.results or op.successors):
            self._module(op)
            return
        self._foreign(op)

    def _module(self, op: ModuleOp) -> None:
        self.write("module" if self.default_dialects[-1] in ("", "builtin") else "builtin.module")
        if op.sym_name is not None:
            from libtile.ir.strings import symbol_text

            self.write(f" {symbol_text(op.sym_name.data)}")
        self.attribute_dict(op, {"sym_name"}, keyword=True)
        self.write(" ")
        self.default_dialects.append("")
        self.region(op.regions[0])
        self.default_dialects.pop()

    def _foreign(self, op: Operation) -> None:
        """An op of another dialect: by its own printer if it has one, and is what that relies on."""
        from libtile.asm.xdsl_bridge import has_custom_form, print_custom

        if isinstance(op, UnregisteredOp) or not has_custom_form(op):
            self._generic(op)
            return
        self.default_dialects.append(op.name.partition(".")[0])
        print_custom(self, op)
        self.default_dialects.pop()

    def _result_names(self, op: Named) -> str:
        results = op.results
        if len(results) == 1:
            return self.value(results[0])
        starts = self._names.groups.get(op, [0])
        parts = []
        for position, start in enumerate(starts):
            end = starts[position + 1] if position + 1 < len(starts) else len(results)
            name = self.value(results[start])
            parts.append(name if end - start == 1 else f"{name.partition('#')[0]}:{end - start}")
        return ", ".join(parts)

    def _location(self, location: Attribute) -> None:
        self.write(f" loc({self.alias(location) or location_text(location, self.alias)})")

    # -- the generic form ---------------------------------------------------------------------------------------

    def _generic(self, op: Operation) -> None:
        name = op.op_name.data if isinstance(op, UnregisteredOp) else op.name
        self.write(f'"{name}"({", ".join(map(self.value, op.operands))})')
        if op.successors:
            self.write(f"[{', '.join(map(self.block_name, op.successors))}]")
        properties = _generic_properties(op)
        if properties:
            self.write(f" <{{{dictionary_text(properties, self.alias)}}}>")
        if op.regions:
            self.write(" (")
            self.default_dialects.append("")
            for index, region in enumerate(op.regions):
                if index:
                    self.write(", ")
                self.region(region, empty_block=True)
            self.default_dialects.pop()
            self.write(")")
        attributes = {k: v for k, v in op.attributes.items() if k != "op_name__"}
        if attributes:
            self.write(f" {{{dictionary_text(attributes, self.alias)}}}")
        inputs = ", ".join(generic_type_text(v.type) for v in op.operands)
        outputs = ", ".join(generic_type_text(v.type) for v in op.results)
        single = len(op.results) == 1 and not outputs.startswith("(")
        self.write(f" : ({inputs}) -> {outputs if single else f'({outputs})'}")

    # -- regions ------------------------------------------------------------------------------------------------

    def region(
        self, region: Region, *, arguments: bool = True, terminators: bool = True, empty_block: bool = False
    ) -> None:
        """`{ ... }`. Without `arguments` the entry block's are left to the op's own form; without `terminators` the
        last op of a block is not written.
        """
        self.write("{")
        outer = self._indent
        self._indent = outer + INDENT
        first = region.first_block
        if first is not None:
            label = bool(arguments and first.args) or _has_predecessors(first, region)
            self.write("\n")
            self._block(
                first, label=label or (empty_block and first.first_op is None), terminators=terminators, outer=outer
            )
            for block in islice(region.blocks, 1, None):
                self._block(block, label=True, terminators=terminators, outer=outer)
            self._indent = outer
            self.write(outer + "}")
        else:
            self._indent = outer
            self.write("\n" + outer + "}")

    def _block(self, block: Block, *, label: bool, terminators: bool, outer: str) -> None:
        self._label(block, label, outer)
        indent = self._indent
        last = None if terminators else block.last_op
        for op in block.ops:
            if op is last:
                break
            self.write(indent)
            self.operation(op)
            self.write("\n")

    def _label(self, block: Block, label: bool, outer: str) -> None:
        if label:
            self.write(f"{outer}{self._names.blocks[block]}")
            if block.args:
                self.write(f"({', '.join(map(self._argument, block.args))})")
            self.write(":\n")

    def _argument(self, argument: BlockArgument) -> str:
        text = f"{self.value(argument)}: {generic_type_text(argument.type)}"
        if self.debuginfo:
            location: Attribute = argument.location
            text += f" loc({self.alias(location) or location_text(location, self.alias)})"
        return text

    def _arguments_printed(self, op: Operation) -> bool:
        """Whether the arguments of an op's entry block are written with the block (and so with their locations)."""
        if self.generic or not isinstance(op, CudaTileOp):
            return True
        return _compiled(type(op)) is None or not printable(op)

    def _hidden_terminator(self, region: Region) -> Operation | None:
        """The terminator of a region that its op's custom form implies."""
        from libtile.asm.custom_directives_print import IMPLICIT, implied_terminator

        op = region.parent
        if self.generic or not isinstance(op, CudaTileOp) or op.spec.name not in IMPLICIT or not printable(op):
            return None
        return implied_terminator(region, IMPLICIT[op.spec.name])


class LinePrinter(Printer):
    """Writes an op, and knows on which line of the text each op below it begins."""

    def __init__(self, op: Operation, **options: Any):
        super().__init__(op, **options)
        self._starts: dict[Operation, int] = {}

    def operation(self, op: Operation) -> None:
        self._starts[op] = len(self._parts)
        super().operation(op)

    def lines(self) -> dict[Operation, int]:
        """The line of each op in what `text` gave, from 1."""
        ends = list(accumulate((part.count("\n") for part in self._parts), initial=1))
        return {op: ends[start] for op, start in self._starts.items()}


def _has_predecessors(block: Block, region: Region) -> bool:
    if region.first_block is region.last_block:
        return False
    return any(b.last_op is not None and block in b.last_op.successors for b in region.blocks)


def _is_default(op: Operation, name: str, value: Attribute) -> bool:
    if not isinstance(op, CudaTileOp):
        return False
    declared = op.spec.attribute(name)
    if declared is None or declared.default is None:
        return False
    if declared.kind == "bool_array":
        return not any(op.attribute_value(name) or ())
    return value == op.default_of(declared)


def _generic_properties(op: Operation) -> dict[str, Attribute]:
    """All properties, with declared defaults that are not set: the generic form spells them out."""
    if not isinstance(op, CudaTileOp):
        return dict(op.properties)
    properties = dict(op.properties)
    for declared in op.spec.attributes:
        if declared.name not in properties and declared.default is not None:
            default = op.default_of(declared)
            if default is not None:
                properties[declared.name] = default
    return properties


@cache
def _required(spec: OpSpec) -> tuple[AttributeSpec, ...]:
    return tuple(a for a in spec.attributes if not a.optional and not a.is_flag and a.default is None)


_TYPED = {"dense": DenseElementsAttr, "function_type": FunctionType}


def printable(op: CudaTileOp) -> bool:
    """Whether an op has the members that its custom form writes; an op that lacks one is printed generically."""
    spec = op.spec
    properties = op.properties
    for attribute in _required(spec):
        value = properties.get(attribute.name)
        if value is None:
            return False
        if attribute.kind in _TYPED and not isinstance(value, _TYPED[attribute.kind]):
            return False
    if len(op.regions) != len(spec.regions):
        return False
    for region in op.regions:
        if region.first_block is None:
            if not (spec.name == "if" and region is op.regions[1]):
                return False
        elif region.first_block is not region.last_block:
            return False
    return _values_fit(op) and _enums_fit(op) and _form_fits(op)


def _values_fit(op: CudaTileOp) -> bool:
    spec = op.spec
    if spec.has_segments:
        if SEGMENTS not in op.properties:
            return False
        sizes = op.segment_sizes()
        if len(sizes) != len(spec.operands) or sum(sizes) != len(op.operands):
            return False
        if any(v.arity == "one" and n != 1 for v, n in zip(spec.operands, sizes)):
            return False
    return _fits(spec.operands, len(op.operands), spec.has_segments) and _fits(spec.results, len(op.results), False)


def _fits(specs: Sequence[Any], count: int, segments: bool) -> bool:
    fixed = sum(v.arity == "one" for v in specs)
    if any(v.arity == "variadic" for v in specs) or segments:
        return count >= fixed
    return fixed <= count <= fixed + sum(v.arity == "optional" for v in specs)


def _enums_fit(op: CudaTileOp) -> bool:
    enums = op.dialect.enums
    for attribute in op.spec.attributes:
        if attribute.kind in enums:
            value = op.properties.get(attribute.name)
            if value is not None and not isinstance(value, EnumAttr):
                return False
    return True


def _form_fits(op: CudaTileOp) -> bool:
    """What the forms of single ops need beyond their members."""
    name = op.spec.name
    if name in ("for", "loop"):
        initial = len(op.operands) - (3 if name == "for" else 0)
        block = op.regions[0].first_block
        return block is not None and len(block.args) == initial + (name == "for")
    if name in ("get_index_space_shape", "get_tensor_shape"):
        return bool(op.results)
    if name == "preview$call":
        constants = op.properties.get("const_args")
        return isinstance(constants, ArrayAttr) and not constants.data
    if name == "make_tensor_view":
        view = op.results[0].type
        return (
            isinstance(view, TensorViewType)
            and sum(d == DYNAMIC for d in view.shape) == len(op.operand_group("dynamicShape"))
            and sum(d == DYNAMIC for d in view.strides) == len(op.operand_group("dynamicStrides"))
        )
    return True


def print_op(
    op: Operation,
    *,
    generic: bool = False,
    debuginfo: bool = False,
    local_scope: bool = False,
    names: Suggest | None = None,
    printed_names: dict[str, str] | None = None,
    elide_above: int | None = None,
) -> str:
    """The text of an op and all below it, ending in a newline.

    `generic` writes every op in the generic form; `debuginfo` writes locations, by aliases unless `local_scope` is set.
    `names` suggests names for results in place of the dialect's own suggestions; `printed_names` replaces mnemonics.
    Of constants with more than `elide_above` different elements stands `__elided__`, which no parser takes.
    """
    token = elided_above.set(elide_above)
    try:
        with room_for_nesting():
            return Printer(
                op,
                generic=generic,
                debuginfo=debuginfo,
                local_scope=local_scope,
                names=names,
                printed_names=printed_names,
            ).text()
    finally:
        elided_above.reset(token)
