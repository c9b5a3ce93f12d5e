# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles the format of an op to a function that writes it.

Where spaces go is decided when the format is compiled, by the rules of MLIR's generated printers: they depend on the
elements before, whether or not these turn out to write something. So a directive that writes nothing leaves its space.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from libtile.asm.attribute_values import attribute_value_text, symbol_name_text
from libtile.asm.format import (
    AttributeDict,
    AttributeRef,
    Custom,
    Element,
    FormatError,
    Literal,
    OneOfEach,
    OperandRef,
    Optional,
    RegionRef,
    Space,
    TypeRef,
    parse_format,
)
from libtile.dialects.cuda_tile.attribute_text import generic_type_text
from libtile.dialects.cuda_tile.op_forms import SEGMENTS, group_sizes
from libtile.ir.forms import SSAValue, UnitAttr
from libtile.spec.model import AttributeSpec

if TYPE_CHECKING:
    from libtile.asm.printer import Printer
    from libtile.dialects.cuda_tile.forms import CudaTileOp

Groups = Mapping[str, Sequence["SSAValue[Any]"]]
"""Operands and results of an op by declared name."""

PrintStep = Callable[["Printer", "CudaTileOp", Groups], None]
Condition = Callable[["CudaTileOp", Groups], bool]


def groups_of(op: CudaTileOp) -> Groups:
    """Operands and results by name. ValueError when they do not fit the declaration."""
    spec = op.spec
    found: dict[str, Sequence[SSAValue[Any]]] = {}
    values = op._operands
    start = 0
    for value, size in zip(spec.operands, op.segment_sizes(), strict=True):
        found[value.name] = values[start : start + size]
        start += size
    results = op.results
    start = 0
    for value, size in zip(spec.results, group_sizes(spec.results, len(results), op.name, "result")):
        found[value.name] = results[start : start + size]
        start += size
    return found


def compile_printer(cls: type[CudaTileOp]) -> Callable[[Printer, CudaTileOp], None]:
    """The function that writes what follows the name of an op of this class."""
    compiler = _Compiler(cls)
    compiler.add_all(parse_format(cls.spec))
    steps = tuple(compiler.steps)

    def run(p: Printer, o: CudaTileOp) -> None:
        groups = groups_of(o)
        for step in steps:
            step(p, o, groups)

    return run


def _space_before(text: str, last_was_punctuation: bool) -> bool:
    if len(text) != 1 and text != "->":
        return True
    return text[0] not in (">)}]," if last_was_punctuation else "<>(){}[],")


class _Compiler:
    def __init__(self, cls: type[CudaTileOp]):
        self.cls = cls
        self.op = cls.spec
        self.steps: list[PrintStep] = []
        self.space = True  # behind the op's name
        self.punctuation = False
        self.written: set[str] = set()
        self._collect(parse_format(self.op))

    def _collect(self, elements: Sequence[Element]) -> None:
        """Names of the attributes that the format writes itself, which the attribute dictionary leaves out."""
        for element in elements:
            match element:
                case AttributeRef(attribute):
                    self.written.add(attribute.name)
                case Custom(_, arguments):
                    self._collect(arguments)
                case Optional(inner, _, otherwise):
                    self._collect((*inner, *otherwise))
                case OneOfEach(clauses):
                    for _, inner in clauses:
                        self._collect(inner)

    def add_all(self, elements: Sequence[Element]) -> None:
        for element in elements:
            self.add(element)

    def nested(self, elements: Sequence[Element]) -> tuple[PrintStep, ...]:
        outer, self.steps = self.steps, []
        self.add_all(elements)
        inner, self.steps = self.steps, outer
        return tuple(inner)

    def text(self, text: str) -> None:
        self.steps.append(lambda p, o, g: p.write(text))

    def add(self, element: Element) -> None:
        match element:
            case Space(text):
                if text:
                    self.text(text)
                self.space = False
                self.punctuation = not text
            case Literal(text):
                lead = " " if self.space and _space_before(text, self.punctuation) else ""
                self.text(lead + text)
                self.space = len(text) != 1 or text not in "<({["
                self.punctuation = not (text[0] == "_" or text[0].isalpha())
            case Optional():
                self._optional(element)
            case OneOfEach():
                self._one_of_each(element)
            case AttributeDict(with_keyword):
                self._attribute_dict(with_keyword)
                self.punctuation = False
            case _:
                if self.space or not self.punctuation:
                    self.text(" ")
                self.punctuation = False
                self.space = True
                self.steps.append(self._member(element))

    def _member(self, element: OperandRef | AttributeRef | RegionRef | TypeRef | Custom) -> PrintStep:
        match element:
            case OperandRef(value):
                return _operand(value.name)
            case AttributeRef(attribute):
                return _attribute(attribute, self.cls)
            case TypeRef():
                return _type(element)
            case RegionRef(name):
                index = self.op.regions.index(name)
                return lambda p, o, g: p.region(o.regions[index])
            case Custom():
                from libtile.asm.custom_directives_print import PRINTERS, subset_printer

                return PRINTERS.get(element.name, subset_printer)(element, self.op)

    def _attribute_dict(self, with_keyword: bool) -> None:
        elided = frozenset(self.written | {SEGMENTS})
        self.steps.append(lambda p, o, g: p.attribute_dict(o, elided, keyword=with_keyword))

    def _optional(self, group: Optional) -> None:
        anchor = group.elements[group.anchor]
        condition = self._condition(anchor)
        elements = group.elements
        if isinstance(anchor, AttributeRef) and anchor.spec.is_flag and anchor is not elements[0]:
            elements = tuple(e for e in elements if e is not anchor)
        then = self.nested(elements)
        otherwise = self.nested(group.otherwise)

        def step(p: Printer, o: CudaTileOp, g: Groups) -> None:
            for inner in then if condition(o, g) else otherwise:
                inner(p, o, g)

        self.steps.append(step)

    def _one_of_each(self, element: OneOfEach) -> None:
        """Each clause starts anew: a space, its keyword, and what follows."""
        for literal, inner in element.clauses:
            flags = [e for e in inner if isinstance(e, AttributeRef) and e.spec.is_flag]
            rest = [e for e in inner if e not in flags]
            members = [e for e in inner if not isinstance(e, Literal | Space)]
            if not members:
                raise FormatError(f"format of op {self.op.name!r}: a clause of oilist has no member")
            condition = self._condition(members[0])
            self.space, self.punctuation = True, False
            steps = self.nested((literal, *rest))

            def step(
                p: Printer,
                o: CudaTileOp,
                g: Groups,
                condition: Condition = condition,
                steps: tuple[PrintStep, ...] = steps,
            ) -> None:
                if condition(o, g):
                    for inner_step in steps:
                        inner_step(p, o, g)

            self.steps.append(step)

    def _condition(self, anchor: Element) -> Condition:
        """Whether an optional group is written."""
        match anchor:
            case OperandRef(value):
                name = value.name
                return lambda o, g: bool(g[name])
            case TypeRef(value):
                name = value.name
                return lambda o, g: bool(g[name])
            case AttributeRef(attribute):
                return _attribute_condition(attribute, self.cls)
            case RegionRef(name):
                index = self.op.regions.index(name)
                return lambda o, g: o.regions[index].first_block is not None
            case Custom(_, arguments) if arguments:
                return self._condition(arguments[0])
            case _:
                raise FormatError(f"format of op {self.op.name!r}: {anchor} cannot be an anchor")


def _attribute_condition(attribute: AttributeSpec, cls: type[CudaTileOp]) -> Condition:
    name = attribute.name
    default = cls.default_of(attribute)
    if attribute.kind == "bool_array":
        return lambda o, g: any(o.attribute_value(name) or ())
    if default is None:
        return lambda o, g: name in o.properties

    def differs(o: CudaTileOp, g: Groups) -> bool:
        found = o.properties.get(name)
        return found is not None and found != default

    return differs


def _operand(name: str) -> PrintStep:
    def step(p: Printer, o: CudaTileOp, g: Groups) -> None:
        p.write(", ".join(map(p.value, g[name])))

    return step


def _attribute(attribute: AttributeSpec, cls: type[CudaTileOp]) -> PrintStep:
    name = attribute.name
    default = cls.default_of(attribute)
    as_symbol = attribute.kind == "symbol_name"

    def step(p: Printer, o: CudaTileOp, g: Groups) -> None:
        value = o.properties.get(name, default)
        if value is not None and not isinstance(value, UnitAttr):
            p.write(symbol_name_text(value) if as_symbol else attribute_value_text(value, p.alias))

    return step


def _type(element: TypeRef) -> PrintStep:
    name = element.spec.name
    if element.full:
        return lambda p, o, g: p.write(", ".join(generic_type_text(v.type) for v in g[name]))

    def step(p: Printer, o: CudaTileOp, g: Groups) -> None:
        p.write(p.types(g[name]))

    return step
