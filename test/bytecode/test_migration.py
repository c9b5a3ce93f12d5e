# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Both sides of every version gate: what a version has is written, what it lacks is refused, a default is dropped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from bytecode.samples import (
    F32,
    I32,
    LOCATION,
    SCALAR,
    TOKEN,
    VECTOR,
    attribute_value,
    dump,
    instructions,
    module_of,
    op,
    op_module,
    scope,
)
from libtile import bytecode
from libtile.bytecode.model import (
    Dense,
    Dictionary,
    Global,
    Integer,
    Module,
    OptimizationHints,
    Type,
    Value,
    make_debug,
    make_type,
)
from libtile.bytecode.ops_source import default_of
from libtile.spec import Version, default_spec

SPEC = default_spec()


def before(version: Version) -> Version:
    return [v for v in SPEC.versions if v < version][-1]


def refusal(module: Module, version: Version | str) -> bytecode.MigrationError:
    with pytest.raises(bytecode.MigrationError) as refused:
        bytecode.write(module, version, allow_testing=True)
    return refused.value


# -- gates that the declarations make ---------------------------------------------------------------------------------

NEWER_ATTRIBUTES = [
    pytest.param(o, a, id=f"{o.name}-{a.name}") for o in instructions(SPEC) for a in o.attributes if a.since > o.since
]
NEWER_OPERANDS = [
    pytest.param(o, v, id=f"{o.name}-{v.name}") for o in instructions(SPEC) for v in o.operands if v.since > o.since
]
NEWER_RESULTS = [
    pytest.param(o, v, id=f"{o.name}-{v.name}") for o in instructions(SPEC) for v in o.results if v.since > o.since
]


@pytest.mark.parametrize("declared, attribute", NEWER_ATTRIBUTES)
def test_newer_attribute(declared: Any, attribute: Any) -> None:
    module = op_module(SPEC, declared, before(attribute.since), full=True)
    operation = module.functions[0].body.operations[0]
    kept = bytecode.write(module, before(attribute.since), allow_testing=True)
    assert dump(bytecode.read(bytecode.migrate(kept, attribute.since, allow_testing=True), allow_testing=True)) == dump(
        bytecode.read(kept, allow_testing=True)
    ), "a default that was left out reads as the default"
    operation.attributes[attribute.name] = attribute_value(SPEC, attribute, attribute.since, 2)
    assert bytecode.write(module, attribute.since, allow_testing=True)
    error = refusal(module, before(attribute.since))
    target, required = before(attribute.since), attribute.since
    if attribute.in_flags:
        assert error.message == (
            f"optional attribute '{attribute.name}' is provided but requires bytecode version {required}, "
            f"targeting {target}"
        )
    else:
        assert error.message == (
            f"attribute '{attribute.name}' requires bytecode version {required}+, but targeting {target}"
        )
    assert (error.op, error.feature, error.required) == (f"cuda_tile.{declared.name}", attribute.name, required)
    assert error.location == "k.py:7:9"


@pytest.mark.parametrize("declared, operand", NEWER_OPERANDS)
def test_newer_operand(declared: Any, operand: Any) -> None:
    module = op_module(SPEC, declared, operand.since, full=True)
    assert bytecode.write(module, operand.since, allow_testing=True)
    for attribute in declared.attributes:
        if attribute.since > before(operand.since):
            default = default_of(attribute)
            module.functions[0].body.operations[0].attributes.pop(attribute.name)
            assert default is None
    error = refusal(module, before(operand.since))
    assert error.message == (
        f"optional operand '{operand.name}' is provided but requires bytecode version {operand.since}, "
        f"targeting {before(operand.since)}"
    )


@pytest.mark.parametrize("declared, result", NEWER_RESULTS)
def test_newer_result(declared: Any, result: Any) -> None:
    module = op_module(SPEC, declared, before(result.since), full=False)
    body = module.functions[0].body
    data = bytecode.write(module, before(result.since), allow_testing=True)
    assert len(bytecode.read(data, allow_testing=True).functions[0].body.operations[0].results) == 1
    token = body.operations[0].results[-1]
    body.operations.insert(1, op("join_tokens", token, token, results=(TOKEN,)))
    assert bytecode.write(module, result.since, allow_testing=True)
    error = refusal(module, before(result.since))
    assert error.message == (
        f"result '{result.name}' requires bytecode version {result.since} but is being used and targeting "
        f"{before(result.since)}. Cannot serialize to older bytecode version when newer features are used."
    )
    assert error.op == f"cuda_tile.{declared.name}"


NEWER_CASES = [
    pytest.param(o, a, c, id=f"{o.name}-{c.keyword}")
    for o in instructions(SPEC)
    for a in o.attributes
    if a.kind in SPEC.enums
    for c in SPEC.enums[a.kind].cases
    if c.since > max(a.since, SPEC.enums[a.kind].since)
]


@pytest.mark.parametrize("declared, attribute, case", NEWER_CASES)
def test_newer_enum_case(declared: Any, attribute: Any, case: Any) -> None:
    version = max(declared.since, before(case.since))
    module = op_module(SPEC, declared, version, full=True)
    module.functions[0].body.operations[0].attributes[attribute.name] = case.keyword
    assert bytecode.write(module, max(case.since, declared.since), allow_testing=True)
    if version < case.since:
        error = refusal(module, version)
        assert error.message == (
            f"enum value for attribute '{attribute.name}' is not available in bytecode version {version}"
        )
        assert error.required == case.since


def sample_type(name: str) -> Type:
    view = make_type("tensor_view", F32, (8, 8), (8, 1))
    return {
        "gather_scatter_view": lambda: make_type(name, (2, 4), view, 0, "nan"),
        "strided_view": lambda: make_type(name, (2, 4), (1, 3), view, (0, 1), "zero"),
        "testing$bytecode_test_evolved": lambda: make_type(name, F32, I32),
    }.get(name, lambda: make_type("tile", make_type(name), (4,)))()


def module_with(type_: Type) -> Module:
    """A module that names a type: as an entry's parameter where that may be one, else as a value in its body."""
    if type_.name == "tile":
        return module_of(arguments=(Value(type_),))
    return module_of(op("make_token", results=(type_,)))


@pytest.mark.parametrize("name", [n for n, t in SPEC.types.items() if t.since > SPEC.versions[0]])
def test_newer_type(name: str) -> None:
    declared = SPEC.types[name]
    module = module_with(sample_type(name))
    data = bytecode.write(module, declared.since, allow_testing=True)
    assert dump(bytecode.read(data, allow_testing=True)) == dump(module)
    target = before(declared.since)
    error = refusal(module, target)
    assert error.message == (
        f"type '{declared.display}' requires bytecode version {declared.since}+, targeting {target}"
    )


NEWER_PARAMETERS = [
    ("ptr", "ptr_attr", make_type("tile", make_type("ptr", F32, "multicast"), ())),
    ("tensor_view", "ptr_attr", make_type("tensor_view", F32, (8,), (1,), "none")),
    ("testing$bytecode_test_evolved", "newType", make_type("testing$bytecode_test_evolved", F32, F32)),
    ("testing$bytecode_test_evolved", "optionalAttr", make_type("testing$bytecode_test_evolved", F32, I32, "nan")),
    ("testing$bytecode_test_evolved", "optionalType", make_type("testing$bytecode_test_evolved", F32, I32, None, F32)),
]


def test_every_newer_type_parameter_is_listed() -> None:
    declared = {(t.name, p.name) for t in SPEC.types.values() for p in t.parameters if p.since > t.since}
    assert declared == {(name, parameter) for name, parameter, _ in NEWER_PARAMETERS}


@pytest.mark.parametrize("name, parameter, type_", NEWER_PARAMETERS)
def test_newer_type_parameter(name: str, parameter: str, type_: Type) -> None:
    since = next(p.since for p in SPEC.types[name].parameters if p.name == parameter)
    module = module_with(type_)
    data = bytecode.write(module, since, allow_testing=True)
    assert dump(bytecode.read(data, allow_testing=True)) == dump(module)
    error = refusal(module, before(since))
    assert error.message == (
        f"parameter '{parameter}' requires bytecode version {since}+, but targeting {before(since)}"
    )


def test_a_padding_value_is_written_in_both_encodings() -> None:
    view = make_type("tensor_view", F32, (-(2**63), 8), (8, 1))
    for padding in (None, "zero", "neg_inf"):
        module = module_with(make_type("partition_view", (2, 4), view, (1, 0), padding))
        old, new = bytecode.write(module, "13.2"), bytecode.write(module, "13.3")
        assert dump(bytecode.read(old)) == dump(bytecode.read(new)) == dump(module)
        assert bytecode.migrate(old, "13.3") == new
        assert bytecode.migrate(new, "13.2") == old


# -- gates that are changes of the container --------------------------------------------------------------------------


def with_global(**fields: Any) -> Module:
    module = module_of()
    module.globals.append(Global("g", Dense(VECTOR, bytes(16)), **fields))
    return module


def with_hints(architecture: str, key: str) -> Module:
    return module_of(hints=OptimizationHints(((architecture, Dictionary(((key, Integer(4, I32)),))),)))


def with_argument_attributes() -> Module:
    return module_of(
        arguments=(Value(SCALAR),), argument_attributes=(Dictionary((("cuda_tile.noalias", Integer(1, I32)),)),)
    )


def with_subprogram_flags() -> Module:
    fields = list(LOCATION["scope"].parameters)
    return module_of(location=make_debug("di_loc", make_debug("di_subprogram", *fields[:-1], 5), "k.py", 1, 2))


STRUCTURAL = [
    pytest.param(
        lambda: with_global(visibility="private"),
        "GLOBAL_VISIBILITY",
        "global `g` uses non-public symbol visibility, which cannot be encoded in bytecode version 13.2 "
        "(requires bytecode 13.3+)",
        id="global-visibility",
    ),
    pytest.param(
        lambda: with_global(constant=True),
        "GLOBAL_VISIBILITY",
        "constant global `g` cannot be encoded in bytecode version 13.2 "
        "(the `constant` attribute requires bytecode 13.3+)",
        id="global-constant",
    ),
    pytest.param(
        lambda: with_hints("default", "occupancy"),
        "DEFAULT_ARCHITECTURE",
        "optimization hints for 'default' require bytecode version 13.3+, but targeting 13.2",
        id="hints-default",
    ),
    pytest.param(
        lambda: with_hints("sm_100", "num_worker_warps_per_cta"),
        "DEFAULT_ARCHITECTURE",
        "optimization hint 'num_worker_warps_per_cta' requires bytecode version 13.3+, but targeting 13.2",
        id="hints-worker-warps",
    ),
    pytest.param(
        with_argument_attributes,
        "ARGUMENT_ATTRIBUTES",
        "argument attributes of 'k' require bytecode version 13.5+, but targeting 13.4",
        id="argument-attributes",
    ),
    pytest.param(
        with_subprogram_flags,
        "SUBPROGRAM_FLAGS",
        "'flags' of di_subprogram requires bytecode version 13.5+, but targeting 13.4",
        id="subprogram-flags",
    ),
]


@pytest.mark.parametrize("make, change, message", STRUCTURAL)
def test_structural_gate(make: Callable[[], Module], change: str, message: str) -> None:
    since = SPEC.change(change)
    module = make()
    assert dump(bytecode.read(bytecode.write(module, since))) == dump(module)
    assert refusal(module, before(since)).message == message


def test_a_public_global_is_written_in_four_or_six_fields() -> None:
    old, new = bytecode.write(with_global(), "13.2"), bytecode.write(with_global(), "13.3")
    assert (old[12:14], new[12:14]) == (bytes([6, 5]), bytes([6, 7])), "section id and payload length"
    assert bytecode.migrate(old, "13.3") == new
    assert bytecode.migrate(new, "13.2") == old


def test_a_producer_is_dropped_by_a_downgrade() -> None:
    module = module_of()
    module.producer = "maker 1.0"
    assert bytecode.read(bytecode.write(module, "13.3")).producer == "maker 1.0"
    assert bytecode.read(bytecode.write(module, "13.2")).producer is None


def test_hints_become_mandatory() -> None:
    without = bytecode.write(module_of(), "13.4")
    assert bytecode.read(without).functions[0].hints is None
    upgraded = bytecode.read(bytecode.migrate(without, "13.5"))
    assert upgraded.functions[0].hints == OptimizationHints()
    # The flag that announced hints is gone: kernel is the only bit left.
    flag_with_hints = bytecode.write(upgraded, "13.4")
    assert bytecode.read(flag_with_hints).functions[0].hints == OptimizationHints()


def test_default_hints_can_be_renamed_to_the_target_of_an_older_version() -> None:
    data = bytecode.write(with_hints("default", "occupancy"), "13.3")
    old = bytecode.migrate(data, "13.1", for_target="sm_90")
    hints = bytecode.read(old).functions[0].hints
    assert hints is not None and [name for name, _ in hints.items] == ["sm_90"]
    assert bytecode.read(bytecode.migrate(data, "13.4", for_target="sm_90")).functions[0].hints == (
        bytecode.read(data).functions[0].hints
    )


def test_a_preview_module_stays_at_the_current_version() -> None:
    module = module_of()
    module.preview = True
    data = bytecode.write(module)
    assert data[8:12] == bytes([13, 5, 1, 0])
    assert bytecode.read(data, preview=("simt",)).preview
    with pytest.raises(
        bytecode.UnsupportedVersionError, match="requires at least one enabled preview feature"
    ) as refused:
        bytecode.read(data)
    assert refused.value.offset == 12
    assert "only valid at bytecode version 13.5" in refusal(module, "13.4").message


def test_a_dropped_result_keeps_the_numbers_of_later_values_right() -> None:
    value = Value(SCALAR)
    first = op("print_tko", value, results=(TOKEN,), segments=(1, 0), str="a")
    second = op("addi", value, value, results=(SCALAR,), overflow="none")
    third = op("muli", second.results[0], value, results=(SCALAR,), overflow="none")
    module = module_of(first, second, third, arguments=(value,))
    for version in ("13.1", "13.2"):
        assert dump(bytecode.read(bytecode.write(module, version))) == dump(module)


def test_an_unused_type_of_a_newer_version_does_not_stop_a_downgrade() -> None:
    module = bytecode.read(bytecode.write(module_of(arguments=(Value(SCALAR),)), "13.3"))
    assert module.tables is not None
    module.tables.types.insert(0, make_type("tile", make_type("i4"), (8,)))
    module.tables.types.insert(0, make_type("i4"))
    assert make_type("i4") not in bytecode.read(bytecode.write(module, "13.1")).tables.types  # type: ignore[union-attr]


def test_errors_name_place_op_and_feature() -> None:
    value = Value(SCALAR)
    module = module_of(op("negi", value, results=(SCALAR,), overflow="no_wrap", location=scope(12)), arguments=(value,))
    assert str(refusal(module, "13.1")) == (
        "k.py:12:1: 'cuda_tile.negi': attribute 'overflow' requires bytecode version 13.2+, but targeting 13.1"
    )


@pytest.mark.parametrize("version", ["12.0", "13.9", "250.0", "x", "13"])
def test_an_unknown_version_is_refused(version: str) -> None:
    with pytest.raises(bytecode.UnsupportedVersionError, match="version"):
        bytecode.write(module_of(), version)


def test_an_entry_takes_tiles_only() -> None:
    module = module_of(arguments=(Value(SCALAR), Value(TOKEN)))
    problem = "function 'k': unsupported type in bytecode for entry argument #1: 'token'"
    with pytest.raises(bytecode.InvalidError, match=problem):
        bytecode.write(module)
    # The open project's own tests write and read such files.
    again = bytecode.read(bytecode.write(module, allow_testing=True), allow_testing=True)
    assert dump(again) == dump(module)
    assert len(again.warnings) == 1 and again.warnings[0].startswith(problem)


def test_a_testing_function_is_refused_in_a_version_without_it() -> None:
    module = module_of(kind="testing$func")
    data = bytearray(bytecode.write(module, "250.0", allow_testing=True))
    assert bytecode.read(bytes(data), allow_testing=True).functions[0].kind == "testing$func"
    data[8:10] = bytes([13, 2])
    with pytest.raises(bytecode.InvalidError, match="un-expected non-entry function 'k'"):
        bytecode.read(bytes(data), allow_testing=True)
