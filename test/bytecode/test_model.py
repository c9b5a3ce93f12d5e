# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The neutral form on its own: interned types, lazy bodies, tables that survive a change, modules made in memory."""

from __future__ import annotations

import pickle
import subprocess
import sys

import pytest

from bytecode.samples import F32, I32, LOCATION, SCALAR, TOKEN, VECTOR, dump, module_of, op, scope, tile
from libtile import bytecode
from libtile.bytecode.model import (
    Block,
    Dense,
    Function,
    Global,
    Module,
    Value,
    describe_location,
    make_debug,
    make_type,
)
from patience import PATIENCE


def constant(number: int) -> bytes:
    return number.to_bytes(4, "little")


def sample() -> Module:
    value = Value(SCALAR)
    first = op("constant", results=(SCALAR,), value=Dense(SCALAR, constant(5)), location=scope(8))
    second = op("addi", value, first.results[0], results=(SCALAR,), overflow="none", location=scope(9))
    return module_of(first, second, arguments=(value,), location=LOCATION)


def test_equal_types_are_one_object() -> None:
    assert make_type("tile", make_type("f32"), (4, 8)) is make_type("tile", make_type("f32"), [4, 8])
    assert make_type("tile", F32, (4,)) is not make_type("tile", F32, (8,))
    assert make_type("ptr", F32) is not make_type("ptr", F32, "none")
    assert VECTOR["element"] is F32 and VECTOR["shape"] == (4,)
    assert pickle.loads(pickle.dumps(VECTOR)) is VECTOR


def test_extents_that_are_known_at_run_time_are_shown_as_in_text() -> None:
    assert str(make_type("tensor_view", F32, (-(2**63), 8), (8, 1))).startswith("tensor_view(element=f32, shape=(?, 8)")


@pytest.mark.parametrize("arguments", [("tile",), ("tile", F32), ("tile", F32, (1,), 2), ("nothing",)])
def test_a_type_needs_its_parameters(arguments: tuple) -> None:
    with pytest.raises(ValueError):
        make_type(*arguments)


def test_a_body_is_decoded_when_it_is_looked_at() -> None:
    module = bytecode.read(bytecode.write(sample()))
    function = module.functions[0]
    assert function.encoded is not None
    assert [o.name for o in function.body.operations] == ["constant", "addi", "return"]
    assert function.encoded is None
    assert [describe_location(o.location) for o in function.body.operations] == ["k.py:8:1", "k.py:9:1", None]


def test_a_fault_in_one_body_is_found_when_that_body_is_looked_at() -> None:
    module = sample()
    module.functions.append(Function("other", module.functions[0].type, Block([Value(SCALAR)], [op("return")])))
    data = bytearray(bytecode.write(module))
    place = data.rindex(bytes([0x5C, 0]))  # the return of the second function
    data[place] = 0x7F
    back = bytecode.read(bytes(data))
    assert back.functions[0].body.operations
    with pytest.raises(bytecode.BytecodeError, match="function 'other'") as caught:
        _ = back.functions[1].body
    assert caught.value.offset == place
    with pytest.raises(bytecode.BytecodeError):
        bytecode.validate(bytes(data))


def test_a_changed_function_leaves_the_others_and_the_tables_in_place() -> None:
    module = sample()
    module.functions.append(Function("other", module.functions[0].type, module.functions[0].body))
    data = bytecode.write(module)
    back = bytecode.read(data)
    before = back.functions[1].encoded
    assert before is not None and back.tables is not None
    strings = list(back.tables.strings)
    back.functions[0].body.operations[1].attributes["overflow"] = "no_wrap"
    again = bytecode.read(bytecode.write(back))
    assert again.functions[1].encoded is not None and again.functions[1].encoded.data == before.data
    assert again.tables is not None and again.tables.strings == strings
    assert again.functions[0].body.operations[1].attributes["overflow"] == "no_wrap"


def test_a_function_of_another_file_is_encoded_anew() -> None:
    one, other = bytecode.read(bytecode.write(sample())), bytecode.read(bytecode.write(sample()))
    other.functions[0].name = "k2"
    moved = other.functions[0]
    one.functions.insert(0, moved)
    again = bytecode.read(bytecode.write(one))
    assert [f.name for f in again.functions] == ["k2", "k"]
    assert len(list(again.operations())) == 6


def test_tables_of_a_module_made_in_memory_are_in_the_reference_order() -> None:
    """Functions first (name, signature), then globals, then ops in order; a type after the types that it names."""
    module = sample()
    module.producer = "maker"
    module.globals.append(Global("g", Dense(VECTOR, bytes(16))))
    back = bytecode.read(bytecode.write(module, "13.3"))
    assert back.tables is not None and back.layout is not None
    assert back.tables.strings == ["k", "g", "k.py", "/src", "maker"]
    assert back.tables.types == [I32, SCALAR, make_type("function", (SCALAR,), ()), F32, VECTOR]
    assert back.tables.constants == [bytes(16), constant(5)]
    names = [d.name for d in back.tables.debug]
    assert names == ["di_file", "di_compile_unit", "di_subprogram", "di_loc", "di_loc", "di_loc"]
    assert [s.id for s in back.layout] == [6, 2, 4, 3, 5, 7, 1]


def test_equal_bytes_of_two_types_are_two_constants() -> None:
    """The reference writer keys its constants by type and bytes."""
    one = op("constant", results=(SCALAR,), value=Dense(SCALAR, bytes(4)))
    two = op("constant", results=(tile(F32),), value=Dense(tile(F32), bytes(4)))
    data = bytecode.write(module_of(one, two, one))
    module = bytecode.read(data, lazy=False)
    assert module.tables is not None and module.tables.constants == [bytes(4), bytes(4)]
    assert bytecode.write(module) == data


def test_locations_of_ops_are_kept_where_the_function_has_none() -> None:
    module = module_of(op("make_token", results=(TOKEN,), location=scope(4)))
    back = bytecode.read(bytecode.write(module))
    assert describe_location(back.functions[0].body.operations[0].location) == "k.py:4:1"
    assert back.functions[0].location is None


def test_a_call_site_is_described_by_its_callee() -> None:
    site = make_debug("call_site", scope(3), scope(30))
    assert describe_location(site) == "k.py:3:1"
    module = module_of(op("make_token", results=(TOKEN,), location=site), location=LOCATION)
    assert dump(bytecode.read(bytecode.write(module))) == dump(module)


def test_operands_are_found_by_name() -> None:
    value, token = Value(SCALAR), Value(TOKEN)
    operation = op("print_tko", value, value, token, results=(TOKEN,), segments=(2, 1), str="x")
    assert operation.group("args") == (value, value)
    assert operation.operand("token") is token
    loop = op("for", *[Value(SCALAR) for _ in range(5)])
    assert loop.group_lengths() == (1, 1, 1, 2)
    with pytest.raises(KeyError):
        loop.group("nothing")


@pytest.mark.parametrize(
    "operation, message",
    [
        (op("addi", Value(SCALAR), Value(SCALAR), results=(SCALAR,)), "not defined before its use"),
        (op("constant", results=(SCALAR,)), "requires attribute 'value'"),
        (op("addi", results=(SCALAR,)), "operands do not fit"),
        (op("make_token"), "make_token has 0 results"),
        (op("assert", Value(SCALAR), message=3), "3 is not a string"),
        (op("assert", Value(SCALAR), message="\ud800"), "cannot be encoded"),
        (op("permute", Value(SCALAR), results=(SCALAR,), permutation=(2**40,)), "cannot be encoded"),
        (op("if", results=()), "operands do not fit"),
        (op("cat", results=(SCALAR,), dim=2**70), "does not fit in 64 bits"),
        (op("trunci", results=(SCALAR,), overflow="often"), "'often' is not a case"),
        (op("entry"), "cannot stand in a function body"),
    ],
    ids=lambda x: x if isinstance(x, str) else x.name,
)
def test_an_op_that_cannot_be_encoded_is_refused_by_name(operation: object, message: str) -> None:
    with pytest.raises(bytecode.InvalidError, match=message) as refused:
        bytecode.write(module_of(operation))  # type: ignore[arg-type]
    assert f"cuda_tile.{operation.name}" in str(refused.value)  # type: ignore[attr-defined]


def test_the_package_needs_neither_the_ir_nor_numpy() -> None:
    """Bytecode is a leaf: a small tool can use it without paying for the rest."""
    code = "import sys, libtile.bytecode; print(sorted({'xdsl', 'numpy', 'llvmlite'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE, check=True)
    assert done.stdout.strip() == "[]"
