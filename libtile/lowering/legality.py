# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Legality tables: what may stand in a module at a boundary of the lowering.

    cuda_tile               to_tileaa/legality.py    what convert-cuda-tile-to-tileaa takes
    nv_tileaa               to_tileas/legality.py    what that gives, canonicalize-tileaa keeps, and
                                                     convert-tileaa-to-tileas takes
    nv_tileas               to_tileas/legality.py    what that gives, and the passes behind it take
    nv_tileas for LLVM IR   to_llvm/legality.py      what LLVM IR is emitted from

A table is checked in every compilation, before anything is made of what it lets through, so that what cannot be
compiled is an error that names op, types, target and place. What the dialects' verifiers see to is not repeated.
Attributes that an op does not declare (discardable ones) are looked at where a module comes from outside, and behind
each pass where the verifier runs there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Operation, SSAValue

from libtile.dialects.cuda_tile.types import NUMBER_NAMES, TileType
from libtile.ir.classes import is_subclass
from libtile.ir.places import ops_of
from libtile.ir.tile_form import layout_of, type_text
from libtile.lowering.discardable import Declared, is_foreign
from libtile.lowering.errors import unsupported
from libtile.lowering.rules import Rules
from libtile.support.records import dataclass, field

NUMBERS: tuple[type[Attribute], ...] = tuple(dict.fromkeys(type(element) for element in NUMBER_NAMES))
"""The classes of the types of numbers."""


@dataclass(frozen=True)
class Stage:
    """What may stand at a boundary.

    Ops: those of `dialects`, of the classes `ops`, and those that a table of `rules` has a rule for. `types` are the
    classes of the types of values, `elements` those of the elements of tiles (none are named: all). With `layouts` each
    tile has one. Where there is a dialect that comes `later`, none has, and an op of it is not there yet. `problem`
    says of an op what else it may not be, as its declared attributes. `attributes` are the discardable ones, with the
    classes of ops that may have them and the form of their values; one that has the name of a foreign dialect is
    somebody else's, and stays.
    """

    name: str
    types: tuple[type[Attribute], ...]
    elements: tuple[type[Attribute], ...] = ()
    dialects: frozenset[str] = frozenset()
    ops: frozenset[type[Operation]] = frozenset()
    rules: Rules[Any] | None = None
    layouts: bool = False
    later: str = ""
    problem: Callable[[Operation], str | None] | None = None
    attributes: Mapping[str, Declared] = field(default_factory=dict)

    def takes(self, cls: type[Operation]) -> bool:
        """Whether ops of a class may stand here."""
        if cls.name.partition(".")[0] in self.dialects or issubclass(cls, tuple(self.ops)):
            return True
        return self.rules is not None and self.rules.of_class(cls) is not None

    def op_problem(self, op: Operation) -> str | None:
        """Why no op of the class of this one may stand here; None where one may."""
        if self.takes(type(op)):
            return None
        dialect = op.name.partition(".")[0]
        return f"is in {self.later} already" if dialect == self.later else "cannot be compiled"

    def type_problem(self, type_: Attribute) -> str | None:
        """Why no value of this type may stand here; None where one may."""
        if not is_subclass(type(type_), self.types):
            return f"has a value of type {type_text(type_)}, which cannot stand in {self.name}"
        if not isinstance(type_, TensorType | TileType):
            return None
        element: Attribute = type_.element_type
        if self.elements and not is_subclass(type(element), self.elements):
            return f"has a tile of {type_text(element)}, which cannot stand in {self.name}"
        if self.layouts and layout_of(type_) is None:
            return f"has a {type_text(type_)} without a layout, in {self.name}"
        return f"is in {self.later} already" if self.later and layout_of(type_) is not None else None

    def attribute_problem(self, op: Operation) -> str | None:
        """Why a discardable attribute of an op may not stand here; None where all may."""
        for name, attr in op.attributes.items():
            if is_foreign(name):
                continue
            declared = self.attributes.get(name)
            if declared is None or not is_subclass(type(op), declared.ops):
                return f"has the attribute '{name}' ({attr}), which means nothing in {self.name}"
            if not declared.form.fits(op, attr):
                return f"has the attribute '{name}' ({attr}), which is {declared.form.words}"
        return None


def check(stage: Stage, root: Operation, target: str, *, attributes: bool = False) -> None:
    """LoweringError for the first op in `root` (itself included) that may not stand at the boundary.

    With `attributes` the discardable ones are looked at, too.
    """
    good_ops: set[type[Operation]] = set()
    good_types: set[int] = set()  # by identity: types are shared, and hashing one takes longer than this check of it
    for op in ops_of(root):
        if type(op) not in good_ops:
            if (found := stage.op_problem(op)) is not None:
                raise unsupported(op, found, target)
            good_ops.add(type(op))
        values: Sequence[SSAValue] = op.results
        if op.regions:
            values = [
                *values,
                *(argument for region in op.regions for block in region.blocks for argument in block.args),
            ]
        for value in values:
            type_ = value._type
            if id(type_) not in good_types:
                if (found := stage.type_problem(type_)) is not None:
                    raise unsupported(op, found, target)
                good_types.add(id(type_))
        found = stage.problem(op) if stage.problem is not None else None
        if found is None and attributes and op.attributes:
            found = stage.attribute_problem(op)
        if found is not None:
            raise unsupported(op, found, target)
