# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""IR without xDSL: ops, blocks, values and attributes, as far as a verifier and a printer ask for them.

A tool that prints bytecode would otherwise load xDSL, which takes longer than all that it does. The classes have the
names of xDSL's, and of their members those that code for both reads (see `libtile.ir.forms`). IR of this kind is made
once and not changed: there are no uses, no parsers and no verifiers of single attributes here.

To `isinstance`, a class here stands for xDSL's of its name as well, once that has been said by `stand_for`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any


class _Form(type):
    """The metaclass: whose objects, beside those of the class, are of it."""

    other: type | tuple[()] = ()
    """xDSL's class of this name."""
    of_it: dict[type, bool]
    """Whether objects of a class are of this one, once that has been asked: of xDSL's ops Python finds it out by a
    search through abstract base classes."""

    def __init__(cls, *_: Any) -> None:
        cls.other, cls.of_it = (), {}  # and not what a base has

    def __instancecheck__(cls, instance: Any) -> bool:
        kind = type(instance)
        found = cls.of_it.get(kind)
        if found is None:
            found = cls.of_it[kind] = type.__subclasscheck__(cls, kind) or issubclass(kind, cls.other)
        return found


def stand_for(*classes: type) -> None:
    """Say of classes of xDSL's that those of their names here stand for them."""
    for cls in classes:
        ours = globals()[cls.__name__]
        assert isinstance(ours, _Form)
        ours.other = cls
        ours.of_it.clear()


# -- attributes -------------------------------------------------------------------------------------------------------


class Attribute(metaclass=_Form):
    """Base of attributes and types, which are values: equal where their class and members are."""

    __slots__ = ()

    def _members(self) -> tuple[Any, ...]:
        return ()

    def __eq__(self, other: object) -> bool:
        return self is other or (type(self) is type(other) and self._members() == other._members())

    def __hash__(self) -> int:
        return hash((type(self), self._members()))


class TypeAttribute(Attribute):
    __slots__ = ()


class Data(Attribute):
    """An attribute that is one Python value."""

    __slots__ = ("data",)

    def __init__(self, data: Any):
        self.data = data

    def _members(self) -> tuple[Any, ...]:
        return (self.data,)


class NoneAttr(Attribute):
    __slots__ = ()


class UnitAttr(Attribute):
    __slots__ = ()


class IntAttr(Data):
    """A number that is no attribute of its own, but a member of others."""

    __slots__ = ()


class StringAttr(Data):
    __slots__ = ()


class ArrayAttr(Data):
    __slots__ = ()

    def __init__(self, data: Iterable[Any]):
        super().__init__(tuple(data))

    def __iter__(self) -> Iterator[Any]:
        return iter(self.data)


class DictionaryAttr(Data):
    __slots__ = ()

    data: Mapping[str, Any]

    def _members(self) -> tuple[Any, ...]:
        return tuple(sorted(self.data.items(), key=lambda item: item[0]))


class _TypedValue(Attribute):
    __slots__ = ("type", "value")

    def __init__(self, value: Any, type_: Any):
        self.value = IntAttr(value)
        self.type = type_

    def _members(self) -> tuple[Any, ...]:
        return self.value.data, self.type


class IntegerAttr(_TypedValue):
    __slots__ = ()


class FloatAttr(_TypedValue):
    __slots__ = ()

    def _members(self) -> tuple[Any, ...]:
        number = self.value.data  # as xDSL compares them: by what they are, and not as numbers
        return repr(number), self.type


class SymbolRefAttr(Attribute):
    __slots__ = ("nested_references", "root_reference")

    def __init__(self, root: str):
        self.root_reference = StringAttr(root)
        self.nested_references = ArrayAttr(())

    def _members(self) -> tuple[Any, ...]:
        return (self.root_reference,)


class DenseArrayBase(Attribute):
    __slots__ = ("_values", "elt_type")

    def __init__(self, element_type: Any, values: Iterable[int]):
        self.elt_type = element_type
        self._values = tuple(values)

    def get_values(self) -> tuple[int, ...]:
        return self._values

    def _members(self) -> tuple[Any, ...]:
        return self.elt_type, self._values


class UnregisteredAttr(Attribute):
    """None is made here; the name stands for xDSL's."""

    __slots__ = ()


# -- types ------------------------------------------------------------------------------------------------------------


class NumberType(TypeAttribute):
    """A type of numbers; there is one object of each."""

    __slots__ = ("keyword",)

    def __init__(self, keyword: str):
        self.keyword = keyword

    def _members(self) -> tuple[Any, ...]:
        return (self.keyword,)


class IntegerType(NumberType):
    __slots__ = ("width",)

    def __init__(self, keyword: str, width: int):
        super().__init__(keyword)
        self.width = IntAttr(width)


class FunctionType(TypeAttribute):
    __slots__ = ("inputs", "outputs")

    def __init__(self, inputs: Iterable[Any], outputs: Iterable[Any]):
        self.inputs = ArrayAttr(inputs)
        self.outputs = ArrayAttr(outputs)

    def _members(self) -> tuple[Any, ...]:
        return self.inputs, self.outputs


# -- locations --------------------------------------------------------------------------------------------------------


class UnknownLoc(Attribute):
    __slots__ = ()


class FileLineColLoc(Attribute):
    __slots__ = ("column", "filename", "line")

    def __init__(self, filename: str, line: int, column: int):
        self.filename, self.line, self.column = StringAttr(filename), IntAttr(line), IntAttr(column)

    def _members(self) -> tuple[Any, ...]:
        return self.filename, self.line, self.column


class CallSiteLoc(Attribute):
    __slots__ = ("callee", "caller")

    def __init__(self, callee: Attribute, caller: Attribute):
        self.callee, self.caller = callee, caller

    def _members(self) -> tuple[Any, ...]:
        return self.callee, self.caller


class NameLoc(Attribute):
    """Neither this nor the two behind it are in bytecode: the names stand for those of IR of xDSL's."""

    __slots__ = ()


class FusedLoc(Attribute):
    __slots__ = ()


class FileLineColRange(Attribute):
    """Of the dialect's own, for xDSL has none."""

    __slots__ = ()


UNKNOWN_LOC = UnknownLoc()

# -- ops, blocks, values ----------------------------------------------------------------------------------------------


class SSAValue(metaclass=_Form):
    __slots__ = ("type",)


class OpResult(SSAValue):
    __slots__ = ("index", "op")

    def __init__(self, type_: Any, op: Operation, index: int):
        self.type, self.op, self.index = type_, op, index

    @property
    def owner(self) -> Operation:
        return self.op


class BlockArgument(SSAValue):
    __slots__ = ("block", "index", "location")

    def __init__(self, type_: Any, block: Block, index: int):
        self.type, self.block, self.index = type_, block, index
        self.location: Any = UNKNOWN_LOC

    @property
    def owner(self) -> Block:
        return self.block


class Operation(metaclass=_Form):
    """An op; subclasses have its `name`. One of no subclass stands for something else."""

    __slots__ = ("_next_op", "_operands", "attributes", "location", "parent", "properties", "regions", "results")

    name = "builtin.unrealized_conversion_cast"
    _successors: tuple[Any, ...] = ()
    """Bytecode has no op that goes on in another block."""

    def __init__(
        self,
        operands: Iterable[Any] = (),
        result_types: Iterable[Any] = (),
        properties: dict[str, Any] | None = None,
        regions: Iterable[Region] = (),
        location: Any = UNKNOWN_LOC,
    ):
        self._operands = tuple(operands)
        self.results = tuple([OpResult(type_, self, index) for index, type_ in enumerate(result_types)])
        self.properties: dict[str, Any] = {} if properties is None else properties
        self.attributes: dict[str, Any] = {}
        self.regions = list(regions)
        for region in self.regions:
            region.parent = self
        self.location = location
        self.parent: Block | None = None
        self._next_op: Operation | None = None

    @property
    def next_op(self) -> Operation | None:
        return self._next_op

    @property
    def operands(self) -> tuple[Any, ...]:
        return self._operands

    @property
    def successors(self) -> tuple[Any, ...]:
        return self._successors

    def parent_region(self) -> Region | None:
        return None if self.parent is None else self.parent.parent

    def parent_op(self) -> Operation | None:
        return None if self.parent is None else self.parent.parent_op()


def is_stand_in(op: Any) -> bool:
    """Whether an op is one of no dialect, which stands for something else."""
    return type(op) is Operation


class Block(metaclass=_Form):
    __slots__ = ("_next_block", "args", "ops", "parent")

    def __init__(self, ops: Sequence[Operation] = (), arg_types: Iterable[Any] = ()):
        self.args = tuple([BlockArgument(type_, self, index) for index, type_ in enumerate(arg_types)])
        self.ops: list[Operation] = []
        self.parent: Region | None = None
        self._next_block: Block | None = None
        self.add_ops(ops)

    def add_ops(self, ops: Iterable[Operation]) -> None:
        for op in ops:
            self.add_op(op)

    def add_op(self, op: Operation) -> None:
        if self.ops:
            self.ops[-1]._next_op = op
        self.ops.append(op)
        op.parent = self

    @property
    def first_op(self) -> Operation | None:
        return self.ops[0] if self.ops else None

    @property
    def last_op(self) -> Operation | None:
        return self.ops[-1] if self.ops else None

    def parent_op(self) -> Operation | None:
        return None if self.parent is None else self.parent.parent

    def predecessors(self) -> tuple[Block, ...]:
        return ()


class Region(metaclass=_Form):
    __slots__ = ("blocks", "parent")

    def __init__(self, blocks: Block | Iterable[Block] = ()):
        self.blocks: list[Block] = [blocks] if type(blocks) is Block else list(blocks)  # type: ignore[arg-type]
        self.parent: Operation | None = None
        for block in self.blocks:
            block.parent = self
        for block, behind in zip(self.blocks, self.blocks[1:]):
            block._next_block = behind

    @property
    def block(self) -> Block:
        (block,) = self.blocks
        return block

    @property
    def first_block(self) -> Block | None:
        return self.blocks[0] if self.blocks else None

    @property
    def last_block(self) -> Block | None:
        return self.blocks[-1] if self.blocks else None


class ModuleOp(Operation):
    """As is the next, the name of xDSL's alone."""

    __slots__ = ()


class UnregisteredOp(Operation):
    __slots__ = ()
