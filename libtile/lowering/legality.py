# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Legality tables: what may stand in a module at a boundary of the lowering.

    nv_tileas               to_tileas/legality.py    what convert-tileaa-to-tileas gives, and the passes behind it take
    nv_tileas for LLVM IR   to_llvm/legality.py      what LLVM IR is emitted from

A table is checked in every compilation, before anything is made of what it lets through, so that what cannot be
compiled is an error that names op, types, target and place. What the dialects' verifiers see to is not repeated.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Operation

from libtile.dialects.cuda_tile.types import NUMBER_NAMES
from libtile.ir.tile_form import layout_of, type_text
from libtile.lowering.errors import unsupported

NUMBERS: tuple[type[Attribute], ...] = tuple(dict.fromkeys(type(element) for element in NUMBER_NAMES))
"""The classes of the types of numbers."""


@dataclass(frozen=True)
class Stage:
    """What may stand at a boundary.

    `dialects` are those whose ops may, or `ops` the names of the only ones that may. `types` are the classes of the
    types of values, `elements` those of the elements of tiles (none are named: all). With `layouts` each tile has one.
    `problem` says of an op what else it may not be, as its attributes.
    """

    name: str
    types: tuple[type[Attribute], ...]
    elements: tuple[type[Attribute], ...] = ()
    dialects: frozenset[str] = frozenset()
    ops: frozenset[str] = frozenset()
    layouts: bool = False
    problem: Callable[[Operation], str | None] | None = None

    def op_problem(self, name: str) -> str | None:
        """Why no op of this name may stand here; None where one may."""
        return None if name in self.ops or name.partition(".")[0] in self.dialects else "cannot be compiled"

    def type_problem(self, type_: Attribute) -> str | None:
        """Why no value of this type may stand here; None where one may."""
        if not isinstance(type_, self.types):
            return f"has a value of type {type_text(type_)}, which cannot stand in {self.name}"
        if not isinstance(type_, TensorType):
            return None
        if self.elements and not isinstance(type_.element_type, self.elements):
            return f"has a tile of {type_text(type_.element_type)}, which cannot stand in {self.name}"
        if self.layouts and layout_of(type_) is None:
            return f"has a {type_text(type_)} without a layout, in {self.name}"
        return None


def check(stage: Stage, root: Operation, target: str) -> None:
    """LoweringError for the first op in `root` (itself included) that may not stand at the boundary."""
    good_ops: set[str] = set()
    good_types: set[int] = set()  # by identity: types are shared, and hashing one takes longer than this check of it
    for op in root.walk():
        name = op.name
        if name not in good_ops:
            if (found := stage.op_problem(name)) is not None:
                raise unsupported(op, found, target)
            good_ops.add(name)
        values = [*op.results]
        for region in op.regions:
            for block in region.blocks:
                values += block.args
        for value in values:
            type_ = value.type
            if id(type_) not in good_types:
                if (found := stage.type_problem(type_)) is not None:
                    raise unsupported(op, found, target)
                good_types.add(id(type_))
        if stage.problem is not None and (found := stage.problem(op)) is not None:
            raise unsupported(op, found, target)
