# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Modules made from the declarations: one for every op and version, so that a new op is tested without a new test.

Operand types are not meant to verify; the bytecode layer does not look at them.
"""

from __future__ import annotations

from typing import Any

from libtile.bytecode.model import (
    Block,
    Bounded,
    DebugInfo,
    Dense,
    Dictionary,
    Float,
    Function,
    Integer,
    Module,
    Operation,
    OptimizationHints,
    Type,
    Value,
    make_debug,
    make_type,
)
from libtile.bytecode.ops_codec import CONTAINER_OPS
from libtile.bytecode.ops_source import AllFalse, default_of
from libtile.spec import OpSpec, Spec, Version, default_spec
from libtile.spec.model import AttributeSpec

I1, I32, F32, F64, TOKEN = (make_type(name) for name in ("i1", "i32", "f32", "f64", "token"))


def tile(element: Type, *shape: int) -> Type:
    return make_type("tile", element, shape)


SCALAR = tile(I32)
VECTOR = tile(F32, 4)
LOCATION = make_debug(
    "di_loc",
    make_debug(
        "di_subprogram",
        make_debug("di_file", "k.py", "/src"),
        3,
        "k",
        "k",
        make_debug("di_compile_unit", make_debug("di_file", "k.py", "/src")),
        4,
    ),
    "k.py",
    7,
    9,
)


def op(
    name: str, *operands: Value, results: tuple[Type, ...] = (), spec: Spec | None = None, **fields: Any
) -> Operation:
    """An op by name; `fields` are attributes but for `regions`, `segments` and `location`."""
    extra = {k: fields.pop(k) for k in ("regions", "segments", "location") if k in fields}
    declared = (spec or default_spec()).ops[name]
    return Operation(declared, list(operands), [Value(t) for t in results], fields, **extra)


def module_of(
    *operations: Operation, arguments: tuple[Value, ...] = (), spec: Spec | None = None, **fields: Any
) -> Module:
    """A module with one entry of the given ops, and a `return`."""
    spec = spec or default_spec()
    body = Block(arguments, [*operations, op("return", spec=spec)])
    signature = make_type("function", tuple(a.type for a in arguments), ())
    return Module(spec, functions=[Function("k", signature, body, **fields)])


def instructions(spec: Spec) -> list[OpSpec]:
    """The ops that stand in function bodies."""
    return [o for o in spec.ops.values() if o.name not in CONTAINER_OPS]


def attribute_value(spec: Spec, attribute: AttributeSpec, version: Version, operands: int) -> Any:
    """A value that is not the default, and that `version` has."""
    kind = attribute.kind
    if kind in spec.enums:
        cases = [c.keyword for c in spec.enums[kind].cases if c.since <= version]
        return next((c for c in reversed(cases) if c != attribute.default), cases[0])
    return {
        "unit": True,
        "i64": -5,
        "i32": -7,
        "i64_nonneg": 300,
        "i32_nonneg": 1,
        "bool": True,
        "string": "text \udcff",
        "symbol_name": "name",
        "symbol_ref": "name",
        "array": (Integer(-1, I32), Float(0x3F800000, F32)),
        "dict_array": (Dictionary((("key", Integer(1, I32)),)),),
        "dense": Dense(VECTOR, bytes(range(16))),
        "i32_array": (1, 0, -3),
        "bool_array": tuple(i == 0 for i in range(operands)),
        "hints": OptimizationHints((("sm_90", Dictionary((("latency", Integer(3, I32)),))),)),
        "predicate": Bounded(-1, None),
        "test_value": -12,
    }[kind]


def op_module(spec: Spec, declared: OpSpec, version: Version, full: bool) -> Module:
    """A module that uses `declared`: with all its optional members that `version` has, or with none."""
    arguments = tuple(Value(t) for t in (SCALAR, VECTOR, tile(I1), VECTOR))
    operands: list[Value] = []
    lengths: list[int] = []
    for number, operand in enumerate(declared.operands):
        present = full and operand.since <= version
        length = {"one": 1, "optional": int(present), "variadic": 2 if full else 0}[operand.arity]
        operands += [arguments[(number + i) % 4] for i in range(length)]
        lengths.append(length)
    results: list[Value] = []
    for result in declared.results:
        is_token = spec.constraints[result.constraint].types == ("token",)
        count = (2 if full else 0) if result.is_variadic else 1
        results += [Value(TOKEN if is_token else VECTOR) for _ in range(count)]
    attributes: dict[str, Any] = {}
    for attribute in declared.attributes:
        default = default_of(attribute)
        over = next(
            (
                lengths[i]
                for i, v in enumerate(declared.operands)
                if isinstance(default, AllFalse) and v.name == default.operand
            ),
            2,
        )
        if attribute.since > version or (not full and (attribute.in_flags or default is not None)):
            if not attribute.in_flags:
                attributes[attribute.name] = (False,) * over if isinstance(default, AllFalse) else default
        else:
            attributes[attribute.name] = attribute_value(spec, attribute, version, over)
    regions = []
    for _ in declared.regions:
        inner = [Value(VECTOR)]
        ops = [op("absf", inner[0], results=(VECTOR,), spec=spec)]
        ops.append(op("continue", ops[0].results[0], spec=spec))
        regions.append([Block(inner, ops)])
    segments = tuple(lengths) if declared.has_segments else None
    operation = Operation(declared, operands, results, attributes, regions, LOCATION if full else None, segments)
    module = module_of(operation, arguments=arguments, spec=spec, location=LOCATION if full else None)
    module.preview = declared.preview is not None
    return module


# -- comparing --------------------------------------------------------------------------------------------------------


def dump(module: Module) -> Any:
    """Everything that a module says, as nested tuples: equal for equal programs."""
    functions = []
    for function in module.functions:
        numbers: dict[Value, int] = {}
        body = _dump_block(function.body, numbers)
        functions.append(
            (function.name, function.type, function.kind, function.private, function.hints or OptimizationHints(),
             function.argument_attributes, function.location, body)
        )  # fmt: skip
    variables = [(g.name, g.value, g.alignment, g.constant, g.visibility) for g in module.globals]
    return functions, variables, module.producer, module.preview


def _dump_block(block: Block, numbers: dict[Value, int]) -> Any:
    arguments = tuple(_define(v, numbers) for v in block.arguments)
    return arguments, [_dump_op(o, numbers) for o in block.operations]


def _define(value: Value, numbers: dict[Value, int]) -> Any:
    numbers[value] = len(numbers)
    return numbers[value], value.type


def _dump_op(o: Operation, numbers: dict[Value, int]) -> Any:
    operands = tuple(numbers[v] for v in o.operands)
    regions = [[_dump_block(b, numbers) for b in region] for region in o.regions]
    results = tuple(_define(v, numbers) for v in o.results)
    return o.name, operands, o.segments, o.attributes, regions, results, o.location


def scope(line: int) -> DebugInfo:
    return make_debug("di_loc", LOCATION["scope"], "k.py", line, 1)
