# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Rules of the inner dialects, and of the ops of arith, math and tensor that stand beside theirs, and the table that
they enter, which `libtile.interpreter.inner_table` has full.

A rule is what it is for Tile IR (`libtile.interpreter.rules`): a function that takes a `Site`, and returns the function
that runs. That one takes the op's operand groups as declared (a value, None for an absent optional one, a tuple for a
variadic one; of an op of another dialect its operands one by one). Where an op means what one of Tile IR does, its rule
is that op's (`same`). Layouts mean nothing here: a tile is its elements.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from xdsl.dialects.builtin import (
    DenseArrayBase,
    DictionaryAttr,
    FloatAttr,
    IntegerAttr,
    StringAttr,
    SymbolRefAttr,
    UnitAttr,
)
from xdsl.ir import Attribute, Operation, SSAValue

from libtile.dialects.nv_tileaa.attributes import KeywordAttr
from libtile.interpreter import rules
from libtile.interpreter.formats import Element, element
from libtile.interpreter.rules import Run as Run
from libtile.interpreter.table import RULES as TILE_RULES
from libtile.ir.tile_form import TileOp, stored_element, stored_shape
from libtile.support.checks import Checks
from libtile.support.records import dataclass, field

WAIT = object()
"""What a rule returns to say that its op has to wait: it is run again when another agent may have gone on."""

DEFAULTS: dict[str, Any] = {
    "rounding_mode": "nearest_even",
    "flush_to_zero": False,
    "overflow": "none",
    "signedness": "signed",
    "propagate_nan": False,
    "saturating": False,
}
"""Values of attributes that ops leave out."""


def python_value(attr: Attribute | None) -> Any:
    """The Python value of an attribute: a keyword, a number, a text, True for a flag, a tuple of numbers."""
    match attr:
        case KeywordAttr():
            return attr.keyword
        case IntegerAttr() | FloatAttr():
            return attr.value.data
        case StringAttr():
            return attr.data
        case SymbolRefAttr():
            return attr.root_reference.data
        case UnitAttr():
            return True
        case DenseArrayBase():
            return tuple(attr.get_values())
        case DictionaryAttr():
            return {name: python_value(value) for name, value in attr.data.items()}
    return attr


@dataclass(frozen=True)
class Site:
    """One op in a program, before running."""

    op: Operation
    checks: Checks
    compile: Callable[[Operation], Any]
    """Translates another kernel of the module: to a `Program`, with the same checks and globals."""
    globals: Mapping[str, Any] = field(default_factory=dict)
    given: Mapping[str, Any] = field(default_factory=dict)
    """Attributes that the rule is to see in place of the op's."""
    names: tuple[str, ...] = ()
    """Names by which the rule knows the operands; "to" and "result" are the first result."""
    body_is_elementwise: bool = False
    """Whether the region may be given whole tiles: its ops take tiles of any shape."""

    masks = False
    tokens = False

    def on(self, check: str) -> bool:
        """Whether a check, one of `libtile.support.checks.INNER_INTERPRETER`, is to be made."""
        return check in self.checks

    def attr(self, name: str, default: Any = None) -> Any:
        """The Python value of an attribute, or its default."""
        if name in self.given:
            return self.given[name]
        found = self.op.properties.get(name, self.op.attributes.get(name))
        if found is None:
            return DEFAULTS.get(name, default)
        value = python_value(found)
        return value == "all" if name == "propagate_nan" and isinstance(value, str) else value

    def value(self, name: str) -> SSAValue:
        """An operand by name, or else a result."""
        if name in self.names:
            return self.op.operands[self.names.index(name)]
        if isinstance(self.op, TileOp):
            groups = dict(self.op.get_irdl_definition().operands)
            if name in groups:
                return self.op.group(name)[0]
        return self.op.results[0]

    def type_of(self, name: str) -> Attribute:
        """The type of an operand or a result."""
        return self.value(name).type

    def element(self, name: str) -> Element:
        """The element of an operand or a result that is a scalar, a tile, or memory for one."""
        return element(stored_element(self.type_of(name)))

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of an operand or a result that is a tile or memory for one; () for a scalar."""
        return stored_shape(self.type_of(name))


@dataclass(frozen=True)
class Rule:
    """How an op runs. An `effect` is also given the tile block that runs it, as its first argument; `elementwise` ops
    take tiles of any shape; `waits` says that it may have to wait for another agent; before one that `synchronises`
    other tile blocks may run."""

    name: str
    make: Callable[[Site], Run]
    effect: bool = False
    elementwise: bool = False
    waits: bool = False
    synchronises: Callable[[Operation], bool] = field(default=lambda op: False)
    given: Mapping[str, Any] = field(default_factory=dict)
    names: tuple[str, ...] = ()


RULES: dict[str, Rule] = {}
"""The rule of each op, by full name."""

Register = Callable[[Callable[[Site], Run]], Callable[[Site], Run]]


def pure(*names: str, elementwise: bool = False) -> Register:
    """Register the rule of ops that only compute."""

    def register(make: Callable[[Site], Run]) -> Callable[[Site], Run]:
        for name in names:
            rules.add_rule(RULES, Rule(name, make, elementwise=elementwise))
        return make

    return register


def effect(*names: str, waits: bool = False, synchronises: Callable[[Operation], bool] = lambda op: False) -> Register:
    """Register the rule of ops that use the tile block's state."""

    def register(make: Callable[[Site], Run]) -> Callable[[Site], Run]:
        for name in names:
            rules.add_rule(RULES, Rule(name, make, effect=True, waits=waits, synchronises=synchronises))
        return make

    return register


def same(name: str, rule: str, names: str = "", **given: Any) -> None:
    """The rule of an op of Tile IR is this op's as well: it knows the operands by `names`, and sees attributes that are
    `given` here in place of the op's."""
    known = TILE_RULES[rule]
    made = Rule(name, made_by(rule), known.effect, known.elementwise, given=given, names=tuple(names.split()))
    rules.add_rule(RULES, made)


def made_by(rule: str) -> Callable[[Site], Run]:
    """What the rule of an op of Tile IR makes for a place: it asks no more of that than this module's sites have."""
    make: Any = TILE_RULES[rule].make
    found: Callable[[Site], Run] = make
    return found
