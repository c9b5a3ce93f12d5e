# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Whether two modules are the same program: ops, types, attributes and data flow, not names of values or locations.

Functions, globals and modules are found by their symbol names, in whatever order they stand; everything else is
compared in order. The name of a `cuda_tile.module`, hints in another order, an attribute that is left out against its
default, and a splat against the list of its elements are no differences.
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Attribute, Block, BlockArgument, Operation, OpResult, SSAValue

from libtile.asm.module import Module, load, unwrapped
from libtile.dialects.cuda_tile.attributes import DenseElementsAttr, OptimizationHintsAttr
from libtile.dialects.cuda_tile.locations import source_location
from libtile.dialects.cuda_tile.ops import OPS, SEGMENTS, CudaTileOp, python_value
from libtile.dialects.cuda_tile.types import type_text
from libtile.support.files import Bytes, Path
from libtile.support.records import dataclass
from libtile.support.signatures import checked

_CONTAINERS = (ModuleOp, OPS["module"])
_NAME = "sym_name"


@dataclass(frozen=True)
class Difference:
    """The first thing that differs in a function (or outside of all): what it is, and how it is on either side."""

    where: str
    what: str
    left: str
    right: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}\n< {self.left}\n> {self.right}"


@checked
def diff(
    left: Module | Operation | Path | Bytes, right: Module | Operation | Path | Bytes, *, locations: bool = False
) -> list[Difference]:
    """The differences of two modules (or paths, or bytes of files), the first one of each function; none: the same.

    `locations` compares the ops' locations as well. Neither module is verified. Raises LibtileError for a file that
    cannot be read.
    """
    ours, theirs = unwrapped(load(left)), unwrapped(load(right))
    found: list[Difference] = []
    if type(ours) is not type(theirs):  # one may have a builtin.module around it, of which something is said
        found = [*_own_attributes(_around(ours), _around(theirs))]
        ours, theirs = _inner(ours), _inner(theirs)
    return [*found, *_containers(ours, theirs, locations)]


def _inner(op: Operation) -> Operation:
    """The one `cuda_tile.module` in a `builtin.module`; else the op itself."""
    inner = list(op.regions[0].block.ops) if isinstance(op, ModuleOp) and op.regions[0].blocks else []
    return inner[0] if len(inner) == 1 and isinstance(inner[0], OPS["module"]) else op


def _around(op: Operation) -> Operation:
    """The `builtin.module` that is taken off an op; one of which nothing is said where there is none."""
    return op if _inner(op) is not op else ModuleOp([])


# -- modules ----------------------------------------------------------------------------------------------------------


def _containers(left: Operation, right: Operation, locations: bool) -> Iterator[Difference]:
    if type(left) is not type(right):
        yield Difference("the module", "another op", f"'{left.name}'", f"'{right.name}'")
        return
    if not isinstance(left, _CONTAINERS):
        yield from _first(left, right, locations)
        return
    yield from _own_attributes(left, right)
    ours, theirs = _members(left), _members(right)
    for key in (*ours, *(key for key in theirs if key not in ours)):
        if key not in theirs or key not in ours:
            present = _place(ours.get(key) or theirs[key])
            sides = (present, "nothing") if key in ours else ("nothing", present)
            yield Difference(_title(key), "only on one side", *sides)
        elif isinstance(ours[key], _CONTAINERS):
            yield from _containers(ours[key], theirs[key], locations)
        else:
            yield from _first(ours[key], theirs[key], locations)


def _own_attributes(left: Operation, right: Operation) -> Iterator[Difference]:
    found = _attribute_difference(left, right, ignored=frozenset({_NAME}))
    if found is not None:
        yield Difference("the module", *found)


Key = tuple[str, str, int]


def _members(container: Operation) -> dict[Key, Operation]:
    """The ops of a module by name, symbol, and number among those without or with the same symbol."""
    found: dict[Key, Operation] = {}
    for region in container.regions:
        for block in region.blocks:
            for op in block.ops:
                symbol, number = _symbol(op), 0
                while (op.name, symbol, number) in found:
                    number += 1
                found[op.name, symbol, number] = op
    return found


def _symbol(op: Operation) -> str:
    if isinstance(op, _CONTAINERS):
        return ""
    name = op.properties.get(_NAME) or op.attributes.get(_NAME)
    return name.data if isinstance(name, StringAttr) else ""


def _title(key: Key) -> str:
    name, symbol, number = key
    return f"{name.rpartition('.')[2]} @{symbol}" if symbol else f"{name} number {number}"


# -- functions --------------------------------------------------------------------------------------------------------


def _first(left: Operation, right: Operation, locations: bool) -> Iterator[Difference]:
    """The first difference between two functions, or two other ops with all that they hold."""
    where = _title((left.name, _symbol(left), 0))
    found = _Comparison(locations).compare(left, right)
    if found is not None:
        yield Difference(where, *found)


Found = tuple[str, str, str]
"""What differs, and how it is on the left and on the right."""


class _Comparison:
    def __init__(self, locations: bool) -> None:
        self.locations = locations
        self.to_right: dict[SSAValue, SSAValue] = {}
        self.to_left: dict[SSAValue, SSAValue] = {}

    def compare(self, left: Operation, right: Operation) -> Found | None:
        for one, other in zip(_events(left), _events(right), strict=True):
            found = self.event(one, other)
            if found is not None:
                return found  # what follows need not be of one shape any more
        return None

    def event(self, left: _Event, right: _Event) -> Found | None:
        if isinstance(left, Operation) and isinstance(right, Operation):
            return self.op(left, right)
        if isinstance(left, Block) and isinstance(right, Block):
            return self.block(left, right)
        if type(left) is type(right):
            return None
        kinds = [f"{_place(event)}" if isinstance(event, Operation) else _end(event) for event in (left, right)]
        return "one side has another op here", kinds[0], kinds[1]

    def op(self, left: Operation, right: Operation) -> Found | None:
        if type(left) is not type(right):
            return "another op", _place(left), _place(right)
        shape = self._shape(left, right)
        if shape is not None:
            return shape
        for index, (one, other) in enumerate(zip(left.operands, right.operands)):
            if not self.same(one, other):
                return f"operand {index} of '{left.name}'", self._source(left, one), self._source(right, other)
        for index, (one, other) in enumerate(zip(left.results, right.results)):
            if one.type != other.type:
                what = f"type of result {index} of '{left.name}'"
                return what, _place(left, type_text(one.type)), _place(right, type_text(other.type))
            if not self.same(one, other):  # used before, as something else
                return f"result {index} of '{left.name}'", _place(left), _place(right)
        found = _attribute_difference(left, right)
        if found is None and self.locations and left.location != right.location:
            return f"location of '{left.name}'", _place(left, str(left.location)), _place(right, str(right.location))
        return found

    def _shape(self, left: Operation, right: Operation) -> Found | None:
        counts = [
            ("operands", len(left.operands), len(right.operands)),
            ("results", len(left.results), len(right.results)),
            ("regions", len(left.regions), len(right.regions)),
            ("successors", len(left.successors), len(right.successors)),
            *(
                (f"blocks of region {i}", len(one.blocks), len(other.blocks))
                for i, (one, other) in enumerate(zip(left.regions, right.regions))
            ),
        ]
        for what, one, other in counts:
            if one != other:
                return f"number of {what} of '{left.name}'", _place(left, str(one)), _place(right, str(other))
        ours, theirs = (_block_numbers(op) for op in (left, right))
        if ours != theirs:
            return f"successors of '{left.name}'", _place(left, str(ours)), _place(right, str(theirs))
        return None

    def block(self, left: Block, right: Block) -> Found | None:
        ours, theirs = ([type_text(arg.type) for arg in block.args] for block in (left, right))
        if ours != theirs:
            sides = (_place(_parent(left), ", ".join(ours)), _place(_parent(right), ", ".join(theirs)))
            return "types of a block's arguments", *sides
        for one, other in zip(left.args, right.args):
            if not self.same(one, other):
                return "a block's argument", _place(_parent(left)), _place(_parent(right))
        return None

    def same(self, left: SSAValue, right: SSAValue) -> bool:
        """Whether the values correspond; at their first meeting they do, if neither has met another."""
        known = self.to_right.get(left)
        if known is None and right not in self.to_left:
            self.to_right[left], self.to_left[right] = right, left
            return True
        return known is right

    def _source(self, user: Operation, value: SSAValue) -> str:
        return _place(user, f"is {_described(value)}")


_Event = Operation | Block | str


def _events(root: Operation) -> Iterator[_Event]:
    """An op, its blocks and the ops in them, in order; "end" where a block is over. Deep nests take no stack."""
    stack: list[Iterator[_Event]] = [iter([root])]
    while stack:
        event = next(stack[-1], None)
        if event is None:
            stack.pop()
            if stack:
                yield "end"
            continue
        yield event
        if isinstance(event, Operation):
            stack.append(iter([block for region in event.regions for block in region.blocks]))
        else:
            assert isinstance(event, Block)  # "end" is never pushed
            stack.append(iter(event.ops))


def _block_numbers(op: Operation) -> list[int]:
    region = op.parent_region()
    return [] if region is None else [region.get_block_index(block) for block in op.successors]


def _parent(block: Block) -> Operation:
    parent = block.parent_op()
    assert parent is not None  # the comparison begins with an op
    return parent


def _end(event: _Event) -> str:
    return "the end of the block" if event == "end" else "a block"


# -- attributes -------------------------------------------------------------------------------------------------------


def _attribute_difference(left: Operation, right: Operation, ignored: frozenset[str] = frozenset()) -> Found | None:
    for kind in ("properties", "attributes"):
        ours, theirs = getattr(left, kind), getattr(right, kind)
        for name in (*ours, *(name for name in theirs if name not in ours)):
            one, other = ours.get(name), theirs.get(name)
            if kind == "properties" and (name in ignored or (_is_default(left, name) and _is_default(right, name))):
                continue
            if _normal(one) != _normal(other):
                sides = [
                    _place(op, "absent" if attr is None else str(attr)) for op, attr in ((left, one), (right, other))
                ]
                return f"attribute '{name}' of '{left.name}'", sides[0], sides[1]
    return None


def _is_default(op: Operation, name: str) -> bool:
    """Whether a declared attribute is left out, or says what that would."""
    if not isinstance(op, CudaTileOp) or name == SEGMENTS or op.spec.attribute(name) is None:
        return False
    attr = op.properties.get(name)
    if attr is None or isinstance(attr, OptimizationHintsAttr):
        return not _normal(attr)
    value, default = op.attribute_value(name), op.default_value(name)
    return value is False if default is None else (type(value), value) == (type(default), default)


def _normal(attr: Attribute | None) -> object:
    """Something that is equal for attributes that say the same."""
    match attr:
        case DenseElementsAttr():
            size = attr.element_bytes
            same = attr.raw == attr.raw[:size] * (len(attr.raw) // size)
            return attr.type, attr.raw[:size] if same else attr.raw
        case OptimizationHintsAttr():
            # Whole numbers without a type: texts give them i64, files the type that they were written with.
            return {arch: {key: _hint(hint) for key, hint in keys} for arch, keys in attr.data} or None
    return attr


def _hint(attr: Attribute) -> object:
    value = python_value(attr)
    return type(value), value


# -- words ------------------------------------------------------------------------------------------------------------


def _place(op: Operation, detail: str = "") -> str:
    """Where an op stands: its position in the source, or else its number in the function."""
    location = source_location(op.location)
    place = str(location) if location is not None else f"op {_number(op)}"
    return f"{place}: '{op.name}'" + (f" {detail}" if detail else "")


def _number(op: Operation) -> int:
    """The number of an op in its function, the function itself being 0."""
    function = op
    while (parent := function.parent_op()) is not None and not isinstance(parent, _CONTAINERS):
        function = parent
    return next((number for number, inner in enumerate(function.walk()) if inner is op), 0)


def _described(value: SSAValue) -> str:
    name = f"%{value.name_hint}, " if value.name_hint else ""
    if isinstance(value, OpResult):
        return f"{name}result {value.index} of {_place(value.op)}"
    assert isinstance(value, BlockArgument)
    owner = value.block.parent_op()
    return f"{name}argument {value.index}" + (f" of {_place(owner)}" if owner is not None else "")
