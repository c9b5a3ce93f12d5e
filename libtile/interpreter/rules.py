# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What rules are, and the table that they enter, which `libtile.interpreter.table` has full: one per op, each made once
per place in a program and then called for every execution.

A rule is a function that takes a `Site` (all that is known before running: types, attributes, how much to check) and
returns the function that runs. That one takes the op's operands as declared (a value, None for an absent optional
one, a tuple for a variadic one) and returns its result, or a tuple when the op declares several.

    @pure("negi")
    def negi(site: Site) -> Run:
        return lambda source: ...

`@effect` rules also take the tile block that runs, as their first argument; `reduce` and `scan` take their region,
as a function.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar

import numpy as np
from xdsl.ir import Attribute, SSAValue

from libtile.dialects.cuda_tile.ops import CudaTileOp
from libtile.dialects.cuda_tile.types import TileType
from libtile.interpreter.faults import Fault, FaultKind
from libtile.interpreter.formats import Element, element
from libtile.support.checks import Checks
from libtile.support.records import dataclass, field

Run = Callable[..., Any]
Mask = Any
"""Which elements of a value are uninitialised: a bool array of its shape, or None when all are initialised."""


@dataclass(frozen=True)
class Site:
    """One op in a program, before running."""

    op: CudaTileOp
    checks: Checks
    globals: Mapping[str, Any] = field(default_factory=dict)
    body_is_elementwise: bool = False
    """Whether the region of `reduce` and `scan` may be given whole tiles: its ops take tiles of any shape."""

    def on(self, check: str) -> bool:
        """Whether a check, one of `libtile.support.checks.INTERPRETER`, is to be made."""
        return check in self.checks

    @property
    def masks(self) -> bool:
        """Whether uninitialised elements are kept track of."""
        return "uninitialized" in self.checks

    @property
    def tokens(self) -> bool:
        """Whether tokens are kept track of, for data races."""
        return "race" in self.checks

    def attr(self, name: str) -> Any:
        """The Python value of a declared attribute, or its default."""
        return self.op.attribute_value(name)

    def operand(self, name: str) -> SSAValue | None:
        """The (first) operand of a declared group, or None when it is absent."""
        return next(iter(self.op.operand_group(name)), None)

    def type_of(self, name: str) -> Attribute:
        """The type of an operand, or else of a result, by declared name."""
        for spec in self.op.spec.operands:
            if spec.name == name:
                return self.op.operand_group(name)[0].type
        return self.op.result_group(name)[0].type

    def element(self, name: str) -> Element:
        """The element type of an operand or result that is a tile."""
        return element(self.type_of(name))

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of an operand or result that is a tile."""
        type_ = self.type_of(name)
        if not isinstance(type_, TileType):
            raise TypeError(f"{name} of {self.op.name} is not a tile")
        return type_.shape


@dataclass(frozen=True)
class Rule:
    """How an op runs.

    `undefined` says how uninitialised elements pass through: "elementwise" (an element of the result is
    uninitialised if one of the operands' is), "structural" (the op moves elements about: run it on the masks), or a
    function of (site) -> (values, masks) -> mask. An effect's operands must be initialised, but for those that are
    named in `accepts_undefined`: their masks are passed on as the keyword `undefined`.
    """

    name: str
    make: Callable[[Site], Run]
    effect: bool = False
    undefined: str | Callable[[Site], Callable[[tuple, tuple], Mask]] = "elementwise"
    elementwise: bool = True
    accepts_undefined: tuple[str, ...] = ()
    yields_mask: bool = False
    """The rule returns, after the op's results, the mask of its first result."""
    synchronises: Callable[[CudaTileOp], bool] = field(default=lambda op: False)
    """Whether other tile blocks may run before the op: it is one that they can communicate through."""


RULES: dict[str, Rule] = {}


def pure(
    *names: str,
    undefined: str | Callable[[Site], Callable[[tuple, tuple], Mask]] = "elementwise",
    elementwise: bool = True,
) -> Callable[[Callable[[Site], Run]], Callable[[Site], Run]]:
    """Register the rule of ops that only compute; `elementwise` ones work on tiles of any shape alike."""

    def register(make: Callable[[Site], Run]) -> Callable[[Site], Run]:
        for name in names:
            add_rule(RULES, Rule(name, make, undefined=undefined, elementwise=elementwise))
        return make

    return register


def effect(
    *names: str,
    accepts_undefined: tuple[str, ...] = (),
    yields_mask: bool = False,
    synchronises: Callable[[CudaTileOp], bool] = lambda op: False,
) -> Callable[[Callable[[Site], Run]], Callable[[Site], Run]]:
    """Register the rule of ops that use the tile block's state."""

    def register(make: Callable[[Site], Run]) -> Callable[[Site], Run]:
        for name in names:
            add_rule(RULES, Rule(name, make, effect=True, elementwise=False, accepts_undefined=accepts_undefined,
                                 yields_mask=yields_mask, synchronises=synchronises))  # fmt: skip
        return make

    return register


class Named(Protocol):
    """A rule of any dialect."""

    @property
    def name(self) -> str: ...


AnyRule = TypeVar("AnyRule", bound=Named)


def add_rule(rules: dict[str, AnyRule], rule: AnyRule) -> None:
    """Add a rule to a table that has none for its op."""
    if rule.name in rules:
        raise ValueError(f"two rules for {rule.name}")
    rules[rule.name] = rule


# -- uninitialised elements -----------------------------------------------------------------------------------------


def combine_masks(masks: tuple, shape: tuple[int, ...]) -> Mask:
    """The union of masks (None: nothing), each of them broadcast to `shape`."""
    given = [m for m in masks if m is not None]
    if not given:
        return None
    result = np.zeros(shape, bool)
    for m in given:
        result |= m
    return result if result.any() else None


def flatten(groups: tuple) -> tuple:
    """The members of operand groups, one after the other (a variadic group is a tuple)."""
    flat: list[Any] = []
    for group in groups:
        flat.extend(group if isinstance(group, tuple) else (group,))
    return tuple(flat)


def require_initialised(masks: tuple, what: str) -> None:
    """Fault if any element of any operand is uninitialised; the masks are those of an op's operands."""
    for mask in flatten(masks):
        if mask is not None and np.any(mask):
            index = tuple(int(i) for i in np.argwhere(mask)[0])
            raise Fault(FaultKind.UNINITIALISED, f"{what} is uninitialised", index)
