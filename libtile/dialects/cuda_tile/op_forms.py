# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What is asked of an op of the dialect by the names that the spec declares, whichever IR it is of.

The class here is the base of the ops of xDSL's (`ops`) and of `light` ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache

from libtile.dialects.cuda_tile.attribute_forms import EnumForm
from libtile.dialects.cuda_tile.type_forms import NUMBER_NAMES, is_number
from libtile.ir.forms import ArrayAttr, Attribute, DenseArrayBase, IntegerAttr, StringAttr, SymbolRefAttr, UnitAttr

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, ClassVar

    from libtile.ir.forms import Operation, SSAValue
    from libtile.spec import OpSpec, Spec
    from libtile.spec.model import AttributeSpec, ValueSpec

    _Base = Operation
else:
    _Base = object

SEGMENTS = "operandSegmentSizes"


class OpForm(_Base):
    """Gives access to operands, results and attributes by their declared names.

    Attributes that the spec declares live in `properties`; discardable ones in `attributes`. An op with several
    optional or variadic operands keeps the size of each group in the `operandSegmentSizes` property.
    """

    __slots__ = ()

    spec: ClassVar[OpSpec]
    dialect: ClassVar[Spec]
    """The declarations that `spec` is one of: where its constraints and enums are looked up."""

    @classmethod
    def default_of(cls, attribute: AttributeSpec) -> Any:
        """The attribute that the scalar default of a declared one stands for; None where there is none."""
        raise TypeError(f"{cls.__name__} has no attributes")  # every subclass has one

    def segment_sizes(self) -> tuple[int, ...]:
        """Number of operands in each declared group. ValueError when the operands do not fit the declaration."""
        if _has_segments(type(self)):
            sizes = self.properties.get(SEGMENTS)
            if not isinstance(sizes, DenseArrayBase):
                raise ValueError(f"'{self.name}' op requires attribute '{SEGMENTS}'")
            return self.sizes_in(sizes)
        return _operand_sizes(type(self), len(self._operands))

    @staticmethod
    def sizes_in(attribute: DenseArrayBase[Any]) -> tuple[int, ...]:
        """The numbers in the property of the sizes of groups."""
        return tuple(int(n) for n in attribute.get_values())

    def operand_group(self, name: str) -> tuple[SSAValue, ...]:
        """The operands of the group declared as `name`."""
        start, end = self._place(name)
        return tuple(self._operands[start:end])

    def operand(self, name: str) -> SSAValue:
        """The operand declared as `name`. ValueError where the op has not exactly one."""
        start, end = self._place(name)
        operands = self._operands
        if end - start != 1 or not 0 <= start < len(operands):
            raise ValueError(f"'{self.name}' op has not exactly one operand '{name}'")
        return operands[start]

    def _place(self, name: str) -> tuple[int, int]:
        """Where the operands of a group begin and end."""
        if _has_segments(type(self)):
            return _place_in(type(self), name, self.segment_sizes())
        return _place_among(type(self), name, len(self._operands))

    def optional_operand(self, name: str) -> SSAValue | None:
        """The operand of the optional group declared as `name`, or None."""
        return next(iter(self.operand_group(name)), None)

    def result_group(self, name: str) -> tuple[SSAValue, ...]:
        """The results of the group declared as `name`."""
        start = 0
        sizes = group_sizes(self.spec.results, len(self.results), self.name, "result")
        for spec, size in zip(self.spec.results, sizes, strict=True):
            if spec.name == name:
                return tuple(self.results[start : start + size])
            start += size
        raise KeyError(name)

    def attribute_value(self, name: str) -> Any:
        """The Python value of a declared attribute; its default, or None (False for a flag), when it is not set."""
        attr = self.properties.get(name)
        if attr is None or self.spec.attribute(name) is None:
            return self.default_value(name)
        return python_value(attr)

    def default_value(self, name: str) -> Any:
        """What the absence of a declared attribute means, as a Python value."""
        spec = self.spec.attribute(name)
        if spec is None:
            raise KeyError(name)
        if spec.is_flag:
            return False
        if spec.kind == "bool_array" and spec.default is not None:
            group = str(spec.default).removeprefix("all_false(").removesuffix(")")
            return (False,) * len(self.operand_group(group))
        return spec.default


@cache
def _has_segments(cls: type[OpForm]) -> bool:
    return cls.spec.has_segments


@cache
def _operand_sizes(cls: type[OpForm], count: int) -> tuple[int, ...]:
    return group_sizes(cls.spec.operands, count, cls.name, "operand")


@lru_cache(maxsize=4096)
def _place_among(cls: type[OpForm], name: str, count: int) -> tuple[int, int]:
    return _place_in(cls, name, _operand_sizes(cls, count))


@lru_cache(maxsize=4096)
def _place_in(cls: type[OpForm], name: str, sizes: tuple[int, ...]) -> tuple[int, int]:
    """Where a group begins and ends, by the sizes of all. KeyError for a name that the class does not declare."""
    start = 0
    for spec, size in zip(cls.spec.operands, sizes, strict=True):
        if spec.name == name:
            return start, start + size
        start += size
    raise KeyError(name)


def group_sizes(specs: Sequence[ValueSpec], count: int, op: str, what: str) -> tuple[int, ...]:
    """How `count` values fall into the declared groups when at most one of these is optional or variadic."""
    fixed = sum(s.arity == "one" for s in specs)
    rest = count - fixed
    flexible = [s for s in specs if s.arity != "one"]
    if rest < 0 or (rest > 0 and not flexible) or (rest > 1 and flexible[0].is_optional):
        raise ValueError(f"'{op}' op expected {fixed} {what}s, but found {count}")
    return tuple(1 if s.arity == "one" else rest for s in specs)


def python_value(attr: Attribute) -> Any:
    """What an attribute means as a Python value (see the text of the module `ops`)."""
    match attr:
        case EnumForm():
            return attr.keyword
        case IntegerAttr():
            value = attr.value.data
            return bool(value) if is_number(attr.type, "i1") else value
        case StringAttr():
            return attr.data
        case SymbolRefAttr():
            return attr.root_reference.data
        case UnitAttr():
            return True
        case DenseArrayBase():
            values = attr.get_values()
            flags = NUMBER_NAMES.get(attr.elt_type) in ("i1", "i8")
            return tuple(bool(v) for v in values) if flags else tuple(int(v) for v in values)
        case ArrayAttr():
            return tuple(attr.data)
        case _:
            return attr
