# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The ops of the cuda_tile dialect: one xDSL class per declaration in the spec.

`OPS["addi"]` is the class of `cuda_tile.addi`; `build("addi", ...)` makes one from Python values. Members have the
names that the spec declares: `op.lhs` is a value, `op.mask` a value or None, `op.index` a tuple of values,
`op.overflow` the Python value of an attribute (an enum's keyword, a bool for a flag, an int, a str, a tuple, or the
attribute object), `op.body` a region. A name that Python reserves or that xDSL's Operation uses has a trailing `_`.
"""

from __future__ import annotations

import keyword
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    IntegerAttr,
    StringAttr,
    SymbolRefAttr,
    UnitAttr,
)
from xdsl.ir import Attribute, Block, Operation, OpTrait, OpTraits, Region, SSAValue
from xdsl.traits import (
    ConstantLike,
    HasParent,
    IsolatedFromAbove,
    IsTerminator,
    NoMemoryEffect,
    Pure,
    RecursiveMemoryEffect,
    SymbolTable,
)

from libtile.dialects.cuda_tile.attributes import EnumAttr
from libtile.dialects.cuda_tile.op_forms import SEGMENTS as SEGMENTS
from libtile.dialects.cuda_tile.op_forms import OpForm
from libtile.dialects.cuda_tile.op_forms import group_sizes as group_sizes
from libtile.dialects.cuda_tile.op_forms import python_value as python_value
from libtile.dialects.cuda_tile.types import i1, i32, i64
from libtile.dialects.effect_traits import (
    Allocates,
    AlwaysReturns,
    Observable,
    ReadsThrough,
    UpdatesThrough,
    WritesThrough,
)
from libtile.dialects.interfaces import (
    Branch,
    CountedLoop,
    DividesBy,
    EndlessLoop,
    EndsFunction,
    EndsIteration,
    EndsLoop,
    EndsRegion,
    Folds,
    FreshToken,
    JoinsTokens,
    MayExcludeOverflow,
    NamesMemoryOf,
    Partial,
    StatesFact,
)
from libtile.ir.op_parts import sizes_of
from libtile.ir.operands import DeclaresOperands, Groups
from libtile.spec import OpSpec, Spec, default_spec
from libtile.spec.model import AttributeSpec, ValueSpec
from libtile.support.errors import LibtileError
from libtile.support.threads import SHARED

Member = ValueSpec | AttributeSpec


class BuildError(LibtileError):
    """An op cannot be made of what `build` was given."""


class CudaTileOp(OpForm, DeclaresOperands):
    """Base of all ops: gives access to operands, results, attributes and regions by their declared names."""

    traits: ClassVar[OpTraits] = OpTraits(lambda: ())
    _found_fact: Any = None
    """What `analysis.dataflow` has found of the result, with what it was found from."""

    sizes_in = staticmethod(sizes_of)

    @classmethod
    def operand_groups(cls) -> Groups:
        return tuple((operand.name, operand.arity == "one") for operand in cls.spec.operands)

    @classmethod
    def default_of(cls, attribute: AttributeSpec) -> Attribute | None:
        return default_attribute(attribute, cls.dialect)


_INTEGER_KINDS = {"i64": i64, "i64_nonneg": i64, "i32": i32, "i32_nonneg": i32, "bool": i1}


def attribute_of(spec: AttributeSpec, value: Any, dialect: Spec) -> Attribute:
    """The attribute that stands for a Python value given for an attribute that `dialect` declares.

    TypeError when none does.
    """
    if isinstance(value, Attribute):
        return value
    kind = spec.kind
    if kind in dialect.enums:
        return EnumAttr(dialect.enums[kind], value)
    if kind in _INTEGER_KINDS:
        return IntegerAttr(int(value), _INTEGER_KINDS[kind])
    if kind in ("string", "symbol_name"):
        return StringAttr(value)
    if kind == "symbol_ref":
        return SymbolRefAttr(value)
    if kind == "unit":
        return UnitAttr()
    if kind == "i32_array":
        return DenseArrayBase.from_list(i32, list(value))
    if kind == "bool_array":
        return DenseArrayBase.from_list(i1, [int(v) for v in value])
    if kind == "array":
        return ArrayAttr(value)
    if kind == "dict_array":
        return ArrayAttr([DictionaryAttr(v) for v in value])
    raise TypeError(f"attribute '{spec.name}' ({kind}) cannot be made from {value!r}")


def default_attribute(attribute: AttributeSpec, dialect: Spec) -> Attribute | None:
    """The attribute that the scalar default of one of `dialect`'s declarations stands for."""
    if attribute.default is None or attribute.kind == "bool_array":
        return None
    return attribute_of(attribute, attribute.default, dialect)


_RESERVED = frozenset(dir(CudaTileOp)) | frozenset(Operation.__annotations__) | {"spec"}
"""Names that an op has already; `name` is only annotated in Operation."""


def _accessor_name(name: str) -> str:
    return name + "_" if keyword.iskeyword(name) or name in _RESERVED else name


def _operand_property(spec: ValueSpec) -> property:
    name = spec.name
    if spec.is_variadic:
        return property(lambda self: self.operand_group(name))
    if spec.is_optional:
        return property(lambda self: next(iter(self.operand_group(name)), None))
    return property(lambda self: self.operand_group(name)[0])


def _result_property(spec: ValueSpec) -> property:
    name = spec.name
    if spec.is_variadic:
        return property(lambda self: self.result_group(name))
    return property(lambda self: next(iter(self.result_group(name)), None))


def _attribute_property(spec: AttributeSpec) -> property:
    name = spec.name
    return property(lambda self: self.attribute_value(name))


def _region_property(index: int) -> property:
    return property(lambda self: self.regions[index])


PARAMETERS = ("signedness", "rounding", "comparison_predicate", "predicate")
"""Attributes that say what an op computes of integers."""


_SIMPLE_TRAITS: dict[str, OpTrait] = {
    "pure": Pure(),
    "no_memory_effect": NoMemoryEffect(),
    "isolated": IsolatedFromAbove(),
    "terminator": IsTerminator(),
    "symbol_table": SymbolTable(),
    "recursive_memory_effects": RecursiveMemoryEffect(),
    "constant_like": ConstantLike(),
    "observable": Observable(),
    "always_returns": AlwaysReturns(),
    "allocates": Allocates(),
    "partial": Partial(),
    "states_fact": StatesFact(),
    "branch": Branch(),
    "counted_loop": CountedLoop(),
    "endless_loop": EndlessLoop(),
    "ends_region": EndsRegion(),
    "ends_iteration": EndsIteration(),
    "ends_loop": EndsLoop(),
    "ends_function": EndsFunction(),
    "fresh_token": FreshToken(),
    "joins_tokens": JoinsTokens(),
}
"""The spec's traits that passes act on. The verifier reads the spec's list, not this one."""


def _traits(spec: OpSpec) -> tuple[OpTrait, ...]:
    traits: list[OpTrait] = [_SIMPLE_TRAITS[t.name] for t in spec.traits if t.name in _SIMPLE_TRAITS]
    for declared in spec.traits:
        match declared.name, declared.arguments:
            case "parent", parents:
                traits.append(HasParent(*(OPS[p] for p in parents)))
            case "reads_memory", (group,):
                traits.append(ReadsThrough(group))
            case "writes_memory", (group,):
                traits.append(WritesThrough(group))
            case "names_memory_of", (operand,):
                traits.append(NamesMemoryOf(operand))
            case "names_part_of", (operand,):
                traits.append(NamesMemoryOf(operand, part=True))
            case "updates_memory", (group,):
                traits.append(UpdatesThrough(group))
            case "divides_by", (divisor,):
                traits.append(DividesBy([operand.name for operand in spec.operands].index(divisor)))
            case "folds", (function,):
                traits.append(Folds(function, (), tuple(name for name in PARAMETERS if spec.attribute(name))))
    if spec.attribute("overflow"):
        traits.append(MayExcludeOverflow())
    return tuple(traits)


def op_class(spec: OpSpec, dialect: Spec, base: type[CudaTileOp] = CudaTileOp) -> type[CudaTileOp]:
    """Make the class of an op that `dialect` declares."""
    members: dict[str, Any] = {
        "name": "cuda_tile." + spec.name,
        "spec": spec,
        "dialect": dialect,
        "__doc__": spec.doc or spec.summary,
    }
    for operand in spec.operands:
        members[_accessor_name(operand.name)] = _operand_property(operand)
    for result in spec.results:
        members[_accessor_name(result.name)] = _result_property(result)
    for attribute in spec.attributes:
        members[_accessor_name(attribute.name)] = _attribute_property(attribute)
    for index, region in enumerate(spec.regions):
        members[_accessor_name(region)] = _region_property(index)
    members["traits"] = OpTraits(lambda: _traits(spec))
    class_name = "".join(part.capitalize() for part in spec.name.replace("$", "_").split("_")) + "Op"
    return type(class_name, (base,), members | {"__module__": __name__})


class OpClasses(Mapping[str, type[CudaTileOp]]):
    """The classes of all ops of a spec, by mnemonic; each is made when it is first asked for.

    Those of a spec that is not the package's own are subclasses of the package's, where this has the op: what asks for
    the class of an op, or has a table by classes, knows it.
    """

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._made: dict[str, type[CudaTileOp]] = {}

    def __getitem__(self, name: str) -> type[CudaTileOp]:
        made = self._made.get(name)
        if made is None:
            declared = self._spec.ops[name]
            base = CudaTileOp if self._spec is default_spec() else OPS.get(name, CudaTileOp)
            with SHARED:  # all threads have the same one
                made = self._made.get(name) or self._made.setdefault(name, op_class(declared, self._spec, base))
        return made

    def __contains__(self, name: object) -> bool:  # makes no class
        return name in self._spec.ops

    def __iter__(self) -> Iterator[str]:
        return iter(self._spec.ops)

    def __len__(self) -> int:
        return len(self._spec.ops)


OPS = OpClasses(default_spec())
"""The classes of the ops that the package's own spec declares, by mnemonic."""


def build(
    name: str,
    operands: Mapping[str, SSAValue | Sequence[SSAValue] | None] | None = None,
    result_types: Sequence[Attribute] = (),
    attributes: Mapping[str, Any] | None = None,
    regions: Sequence[Region | Block] = (),
    classes: Mapping[str, type[CudaTileOp]] = OPS,
) -> CudaTileOp:
    """Make an op from its mnemonic.

    `operands` maps declared names to a value, a sequence of values (variadic), or None (absent); `attributes` maps
    declared names to Python values or attributes (None and False for a flag mean absent). BuildError for an unknown
    op or member, for an operand that is missing, and for a value that is none of an attribute; the op is not verified.
    """
    if name not in classes:
        raise BuildError(f"there is no op 'cuda_tile.{name}'")
    cls = classes[name]
    spec = cls.spec
    given = dict(operands or {})
    values: list[SSAValue] = []
    sizes: list[int] = []
    for operand in spec.operands:
        group = given.pop(operand.name, None)
        group_values = () if group is None else (group,) if isinstance(group, SSAValue) else tuple(group)
        values += group_values
        sizes.append(len(group_values))
    properties: dict[str, Attribute] = {}
    settings = dict(attributes or {})
    for attribute in spec.attributes:
        value = settings.pop(attribute.name, None)
        if value is None or (attribute.is_flag and value is False):
            continue
        try:
            properties[attribute.name] = attribute_of(attribute, value, cls.dialect)
        except (TypeError, ValueError) as problem:
            raise BuildError(f"attribute '{attribute.name}' of 'cuda_tile.{name}': {problem}") from None
    if given or settings:
        raise BuildError(f"'cuda_tile.{name}' has no member {sorted([*given, *settings])[0]!r}")
    for operand, size in zip(spec.operands, sizes):
        if not size and operand.arity == "one":
            raise BuildError(f"operand '{operand.name}' of 'cuda_tile.{name}' is missing")
    if spec.has_segments:
        properties[SEGMENTS] = DenseArrayBase.from_list(i32, sizes)
    bodies = [r if isinstance(r, Region) else Region(r) for r in regions]
    return cls.create(operands=values, result_types=result_types, properties=properties, regions=bodies)
