# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What an attribute of each declared kind may be, and how diagnostics describe the kind."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from libtile.bytecode.limits import ATTRIBUTE_DEPTH
from libtile.dialects.cuda_tile.forms import (
    PREDICATES,
    DenseElementsAttr,
    EnumAttr,
    OptimizationHintsAttr,
    TestValueAttr,
)
from libtile.dialects.cuda_tile.type_forms import is_number
from libtile.ir.forms import (
    ArrayAttr,
    Attribute,
    DenseArrayBase,
    DictionaryAttr,
    FunctionType,
    IntegerAttr,
    StringAttr,
    SymbolRefAttr,
    UnitAttr,
)
from libtile.spec import Spec
from libtile.spec.model import EnumSpec

Predicate = Callable[[Attribute], bool]


def _integer(type_: str, nonnegative: bool = False) -> Predicate:
    def check(attr: Attribute) -> bool:
        return (
            isinstance(attr, IntegerAttr) and is_number(attr.type, type_) and not (nonnegative and attr.value.data < 0)
        )

    return check


def _instance(*classes: type[Attribute]) -> Predicate:
    return lambda attr: isinstance(attr, classes)


def _dense_array(type_: str) -> Predicate:
    return lambda attr: isinstance(attr, DenseArrayBase) and is_number(attr.elt_type, type_)


def _flat_symbol(attr: Attribute) -> bool:
    return isinstance(attr, SymbolRefAttr) and not attr.nested_references.data


def _dictionaries(attr: Attribute) -> bool:
    return isinstance(attr, ArrayAttr) and all(isinstance(a, DictionaryAttr) for a in attr.data)


_KINDS: dict[str, tuple[Predicate, str]] = {
    "unit": (_instance(UnitAttr), "unit attribute"),
    "i64": (_integer("i64"), "64-bit signless integer attribute"),
    "i32": (_integer("i32"), "32-bit signless integer attribute"),
    "i64_nonneg": (_integer("i64", True), "64-bit signless integer attribute whose minimum value is 0"),
    "i32_nonneg": (_integer("i32", True), "32-bit signless integer attribute whose value is non-negative"),
    "bool": (_integer("i1"), "bool attribute"),
    "string": (_instance(StringAttr), "string attribute"),
    "symbol_name": (_instance(StringAttr), "string attribute"),
    "symbol_ref": (_flat_symbol, "flat symbol reference attribute"),
    "function_type": (_instance(FunctionType), "type attribute of function type"),
    "array": (_instance(ArrayAttr), "array attribute"),
    "dict_array": (_dictionaries, "Array of dictionary attributes"),
    "dense": (
        _instance(DenseElementsAttr),
        "An Attribute containing a dense multi-dimensional array of values",
    ),
    "i32_array": (_dense_array("i32"), "i32 dense array attribute"),
    "bool_array": (_dense_array("i1"), "i1 dense array attribute"),
    "hints": (_instance(OptimizationHintsAttr), ""),
    "predicate": (_instance(*PREDICATES), "AssumePredicateAttrInterface instance"),
    "test_value": (_instance(TestValueAttr), ""),
}


def _enum(spec: EnumSpec) -> tuple[Predicate, str]:
    cases = f"allowed 32-bit signless integer cases: {', '.join(str(c.value) for c in spec.cases)}"
    return (lambda attr: isinstance(attr, EnumAttr) and attr.enum == spec.name), spec.summary or cases


def attribute_kind(kind: str, spec: Spec) -> tuple[Predicate, str]:
    """The predicate of a declared kind (or enum) and the wording of its diagnostic; KeyError for an unknown kind."""
    return _enum(spec.enums[kind]) if kind in spec.enums else _KINDS[kind]


NESTING_KINDS = frozenset(("array", "dict_array", "hints"))
"""The kinds whose attributes hold any others."""


def nests_too_deep(attr: Attribute) -> bool:
    """Whether an attribute has more levels of attributes in one another than a file of bytecode can have."""
    level = [attr]
    for _ in range(ATTRIBUTE_DEPTH + 1):
        level = [inner for outer in level for inner in _parts(outer)]
        if not level:
            return False
    return True


def _parts(attr: Attribute) -> Iterable[Attribute]:
    match attr:
        case ArrayAttr():
            return attr.data
        case DictionaryAttr():
            return attr.data.values()
        case OptimizationHintsAttr():
            return [DictionaryAttr(keys) for keys in attr.hints.values()]
    return ()
