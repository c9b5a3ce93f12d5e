# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Ops whose definitions are made on demand: a program has few kinds of ops, and defining all takes as long as compiling
a small one.

A class declares operands, results, properties and regions with IRDL's `*_def` functions, as any op of xDSL does. What
IRDL makes of that is made when the class is first asked for its definition, or for an op. An op that is written in an
assembly format of xDSL's says so in `FORMAT`, which is parsed when an op of the class is first read or printed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

from xdsl.dialects.builtin import UNKNOWN_LOC
from xdsl.ir import Attribute, Operation
from xdsl.irdl import IRDLOperation, OpDef, irdl_op_definition

from libtile.ir.made_ops import note
from libtile.ir.op_accessors import shorten_accessors
from libtile.ir.op_making import fill, makes_ops
from libtile.ir.op_parts import defaults_of, parts_of
from libtile.ir.plain_class import PlainClass
from libtile.ir.remembered_traits import remembers_traits
from libtile.support.threads import SHARED

if TYPE_CHECKING:
    from xdsl.irdl.declarative_assembly_format import FormatProgram
    from xdsl.parser import Parser
    from xdsl.printer import Printer

NONE: Mapping[str, Attribute | None] = {}

_DEFINED: set[type[DeferredOp]] = set()
_FORMATS: dict[str, FormatProgram] = {}
"""By the name of the op."""


@makes_ops
@remembers_traits
class DeferredOp(IRDLOperation, metaclass=PlainClass):
    """Base of ops that are defined on demand. Properties named after operands and the like are there from then on."""

    __eq__ = object.__eq__
    __hash__ = object.__hash__
    """An op is equal to itself alone; xDSL says so in Python, for each look into a table of ops."""

    FORMAT: ClassVar[str | None] = None
    """The assembly format; None for an op that prints itself otherwise."""

    def __new__(cls, *_: Any, **__: Any) -> Self:
        if cls not in _DEFINED:
            define(cls)
        return super().__new__(cls)

    def __init__(
        self,
        *,
        operands: Sequence[Any] = (),
        result_types: Sequence[Any] = (),
        properties: Mapping[str, Attribute | None] = NONE,
        attributes: Mapping[str, Attribute | None] | None = None,
        successors: Sequence[Any] = (),
        regions: Sequence[Any] = (),
    ) -> None:
        """As IRDL's builder has it: a value, an op, or a sequence of them, or None, for each declared group."""
        parts = None if successors else parts_of(type(self), operands, result_types, properties, regions)
        if parts is None:
            super().__init__(
                operands=operands,
                result_types=result_types,
                properties=properties,
                attributes=attributes,
                successors=successors,
                regions=regions,
            )
            return
        others = {} if not attributes else {name: value for name, value in attributes.items() if value is not None}
        fill(self, parts.operands, parts.result_types, parts.properties, others, UNKNOWN_LOC, regions)

    def __post_init__(self) -> None:
        note(self)
        properties, attributes = defaults_of(type(self))
        for name, value in properties:
            self.properties.setdefault(name, value)
        for name, value in attributes:
            self.attributes.setdefault(name, value)
        Operation.__post_init__(self)  # where xDSL's implicit builders hear of it

    @classmethod
    def get_irdl_definition(cls) -> OpDef:
        define(cls)  # which puts the class's own method before this one
        return cls.get_irdl_definition()

    @classmethod
    def complete(cls) -> None:
        """Called before traits are looked for."""
        define(cls)

    @classmethod
    def defined(cls) -> None:
        """Called when the definition has been made."""

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        return _format(cls).parse(parser, cls)

    def print(self, printer: Printer) -> None:
        _format(type(self)).print(printer, self)

    if TYPE_CHECKING:

        def detach(self) -> None: ...  # which has no types in xDSL


def define(cls: type[DeferredOp]) -> None:
    """Have IRDL define a class, once."""
    with SHARED:
        if cls not in _DEFINED:
            irdl_op_definition(cls)
            shorten_accessors(cls)
            cls.defined()
            _DEFINED.add(cls)


def _format(cls: type[DeferredOp]) -> FormatProgram:
    found = _FORMATS.get(cls.name)
    if found is None:
        from xdsl.irdl.declarative_assembly_format import FormatProgram

        if cls.FORMAT is None:
            raise TypeError(f"{cls.__name__} has neither an assembly format nor a form of its own")
        found = _FORMATS[cls.name] = FormatProgram.from_str(cls.FORMAT, cls.get_irdl_definition())
    return found
