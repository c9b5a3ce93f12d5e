# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Data races: each program that has one is reported, and its repaired twin is not."""

from __future__ import annotations

import numpy as np
import pytest

from interpreter.programs import fault_of, pointers, run_body
from interpreter.test_grid import CHAIN, NAMES, ORDERED
from libtile.interpreter import FaultKind

STORE_LOAD = """
%v = constant <i32: 7> : tile<i32>
%t = store_ptr_tko weak %x, %v : tile<ptr<i32>>, tile<i32> -> token
%l, %t2 = load_ptr_tko weak %x TOKEN : tile<ptr<i32>> -> tile<i32>, token
"""
X = "%x: tile<ptr<i32>>"


def memory(count: int = 1) -> list[np.ndarray]:
    return [np.zeros(count, np.int32)]


def test_a_load_that_no_token_orders_after_a_store_races():
    fault = fault_of(FaultKind.RACE, X, STORE_LOAD.replace("TOKEN", ""), memory(), check="full")
    assert fault.op == "cuda_tile.load_ptr_tko"
    assert "write by 'cuda_tile.store_ptr_tko' at k.mlir:" in fault.message
    assert "of the same tile block" in fault.message
    run_body(X, STORE_LOAD.replace("TOKEN", "token=%t"), memory(), check="full")


def test_races_are_looked_for_under_full_checks_only():
    run_body(X, STORE_LOAD.replace("TOKEN", ""), memory(), check="basic")


def test_a_store_that_no_token_orders_after_a_load_races():
    body = """
    %v = constant <i32: 7> : tile<i32>
    %l, %t = load_ptr_tko weak %x : tile<ptr<i32>> -> tile<i32>, token
    %t2 = store_ptr_tko weak %x, %v TOKEN : tile<ptr<i32>>, tile<i32> -> token
    """
    fault_of(FaultKind.RACE, X, body.replace("TOKEN", ""), memory(), check="full")
    run_body(X, body.replace("TOKEN", "token=%t"), memory(), check="full")


def test_two_loads_do_not_race():
    body = """
    %a, %t = load_ptr_tko weak %x : tile<ptr<i32>> -> tile<i32>, token
    %b, %t2 = load_ptr_tko weak %x : tile<ptr<i32>> -> tile<i32>, token
    """
    run_body(X, body, memory(), 4, check="full")


def test_joined_tokens_order_after_all_of_them():
    body = """
    %v = constant <i32: 7> : tile<i32>
    %a, %ta = load_ptr_tko weak %x : tile<ptr<i32>> -> tile<i32>, token
    %b, %tb = load_ptr_tko weak %x : tile<ptr<i32>> -> tile<i32>, token
    %both = join_tokens %ta, %tb : token
    %t2 = store_ptr_tko weak %x, %v token=TOKEN : tile<ptr<i32>>, tile<i32> -> token
    """
    for missing in ("%ta", "%tb"):
        fault_of(FaultKind.RACE, X, body.replace("TOKEN", missing), memory(), check="full")
    run_body(X, body.replace("TOKEN", "%both"), memory(), check="full")


def test_accesses_to_different_bytes_do_not_race():
    body = """
    %one = constant <i32: 1> : tile<i32>
    %y = offset %x, %one : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
    store_ptr_tko weak %x, %one : tile<ptr<i32>>, tile<i32> -> token
    store_ptr_tko weak %y, %one : tile<ptr<i32>>, tile<i32> -> token
    """
    run_body(X, body, memory(2), check="full")


def test_two_elements_of_one_store_race():
    body = (
        """
    %o = constant <i32: [0, 1, 2, 1]> : tile<4xi32>
    """
        + pointers("x", 4, "i32", "p", "o")
        + """
    store_ptr_tko weak %p, %o : tile<4xptr<i32>>, tile<4xi32> -> token
    """
    )
    fault = fault_of(FaultKind.RACE, X, body, memory(4), check="full")
    assert "two elements of one store" in fault.message and fault.index == (3,)
    run_body(X, body.replace("2, 1]", "2, 3]"), memory(4), check="full")


BLOCKS = """
%bx, %by, %bz = get_tile_block_id : tile<i32>
%p = offset %x, PLACE : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
store_ptr_tko ORDER %p, %bx : tile<ptr<i32>>, tile<i32> -> token
"""
ZERO = "%zero = constant <i32: 0> : tile<i32>"


def test_tile_blocks_that_write_one_place_race():
    same = ZERO + BLOCKS.replace("PLACE", "%zero").replace("ORDER", "weak")
    fault = fault_of(FaultKind.RACE, X, same, memory(4), 4, check="full")
    assert fault.block == (1, 0, 0) and "of tile block 0" in fault.message
    run_body(X, BLOCKS.replace("PLACE", "%bx").replace("ORDER", "weak"), memory(4), 4, check="full")


def test_atomic_accesses_of_a_wide_enough_scope_do_not_race():
    text = ZERO + BLOCKS.replace("PLACE", "%zero")
    run_body(X, text.replace("ORDER", "relaxed device"), memory(), 4, check="full")
    run_body(X, text.replace("ORDER", "relaxed sys"), memory(), 4, check="full")
    fault_of(FaultKind.RACE, X, text.replace("ORDER", "relaxed tl_blk"), memory(), 4, check="full")


@pytest.mark.parametrize("acquire, release", [("relaxed", "release"), ("acquire", "relaxed"), ("relaxed", "relaxed")])
def test_a_flag_without_acquire_and_release_does_not_order_the_data(acquire, release):
    body = CHAIN.replace("ACQUIRE", acquire).replace("RELEASE", release)
    fault = fault_of(FaultKind.RACE, NAMES, body, [*memory(2), *memory(2)], 2, check="full")
    assert fault.op == "cuda_tile.load_ptr_tko" and "tile block 1" in fault.message
    run_body(NAMES, ORDERED, [*memory(2), *memory(2)], 2, check="full")


def test_data_stored_outside_of_the_release_token_is_not_ordered():
    body = ORDERED.replace("%mine, %one token=%t2", "%mine, %one token=%t1")
    fault_of(FaultKind.RACE, NAMES, body, [*memory(2), *memory(2)], 2, check="full")


def test_an_uninitialised_condition_address_or_print_is_a_fault():
    load = """
    %no = constant <i1: false> : tile<i1>
    %l, %t = load_ptr_tko weak %x, %no : tile<ptr<i32>>, tile<i1> -> tile<i32>, token
    """
    uses = {
        "cuda_tile.if": "%c = cmpi equal %l, %l, signed : tile<i32> -> tile<i1>\nif %c {\n}",
        "cuda_tile.load_ptr_tko": "%q = offset %x, %l : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>\n"
        "%m, %u = load_ptr_tko weak %q : tile<ptr<i32>> -> tile<i32>, token",
        "cuda_tile.print_tko": 'print_tko "%d", %l : tile<i32> -> token',
    }
    for op, use in uses.items():
        fault = fault_of(FaultKind.UNINITIALISED, X, load + use, memory(), check="full")
        assert fault.op == op
        run_body(X, load.replace("false", "true") + use, memory(), check="full")


def test_uninitialised_elements_may_be_selected_away():
    body = (
        """
    %m = constant <i1: [true, false, true, false]> : tile<4xi1>
    %z = constant <i32: -1> : tile<4xi32>
    """
        + pointers("x", 4, "i32")
        + """
    %l, %t = load_ptr_tko weak %p, %m : tile<4xptr<i32>>, tile<4xi1> -> tile<4xi32>, token
    %d = addi %l, %l : tile<4xi32>
    %s = select %m, %d, %z : tile<4xi1>, tile<4xi32>
    %t2 = store_ptr_tko weak %p, VALUE token=%t : tile<4xptr<i32>>, tile<4xi32> -> token
    """
    )
    data = [np.array([1, 2, 3, 4], np.int32)]
    run_body(X, body.replace("VALUE", "%s"), data, check="full")
    assert data[0].tolist() == [2, -1, 6, -1]
    fault = fault_of(FaultKind.UNINITIALISED, X, body.replace("VALUE", "%d"), data, check="full")
    assert fault.index == (1,)


DOUBLE = "addi %l, %l : tile<4xi32>"
SUM = "(%p0: tile<i32>, %p1: tile<i32>) {\n%q0 = addi %p0, %p1 : tile<i32>\nyield %q0 : tile<i32>\n}"
MOVES = {
    "broadcast": ("reshape %l : tile<4xi32> -> tile<4x1xi32>", "broadcast %a : tile<4x1xi32> -> tile<4x2xi32>",
                  "4x2", [2, 3]),
    "cat": (DOUBLE, "cat %z, %a dim = 0 : tile<4xi32>, tile<4xi32> -> tile<8xi32>", "8", [5]),
    "extract": (DOUBLE, "extract %a[%c] : tile<4xi32> -> tile<2xi32>", "2", [1]),
    "reduce": (DOUBLE, "reduce %a dim=0 identities=[0 : i32] : tile<4xi32> -> tile<i32> " + SUM, "", [0]),
    "scan": (DOUBLE, "scan %a dim=0 reverse=false identities=[0 : i32] : tile<4xi32> -> tile<4xi32> " + SUM, "4",
             [1, 2, 3]),
}  # fmt: skip


@pytest.mark.parametrize("name", MOVES)
def test_uninitialised_elements_are_followed_where_ops_move_them(name):
    first, second, shape, undefined = MOVES[name]
    count = int(np.prod([int(n) for n in shape.split("x")])) if shape else 1
    whole = f"tile<{shape}xi32>" if shape else "tile<i32>"
    for position in range(count):
        keep = ", ".join("true" if i == position else "false" for i in range(count))
        body = f"""
        %m = constant <i1: [true, false, true, true]> : tile<4xi1>
        %z = constant <i32: 0> : tile<4xi32>
        %c = constant <i32: 0> : tile<i32>
        {pointers("x", 4, "i32")}
        %l, %t = load_ptr_tko weak %p, %m : tile<4xptr<i32>>, tile<4xi1> -> tile<4xi32>, token
        %a = {first}
        %b = {second}
        %f = reshape %b : {whole} -> tile<{count}xi32>
        %k = constant <i1: [{keep}]> : tile<{count}xi1>
        {pointers("y", count, "i32", "q")}
        store_ptr_tko weak %q, %f, %k : tile<{count}xptr<i32>>, tile<{count}xi32>, tile<{count}xi1> -> token
        """
        args = [np.ones(4, np.int32), np.zeros(count, np.int32)]
        names = X + ", %y: tile<ptr<i32>>"
        if position in undefined:
            fault_of(FaultKind.UNINITIALISED, names, body, args, check="full")
        else:
            run_body(names, body, args, check="full")


def masks_of(name, operands, masks, results, attributes=None):
    """The mask that a rule gives its result, for operand masks given by hand."""
    from xdsl.dialects.test import TestOp

    from interpreter.helpers import tile
    from libtile.dialects.cuda_tile.ops import build
    from libtile.interpreter.codegen import mask_function
    from libtile.interpreter.rules import Site
    from libtile.interpreter.table import RULES
    from libtile.support.checks import INTERPRETER

    source = TestOp(result_types=[tile(np.shape(v), e) for v, e in operands.values()])
    op = build(name, dict(zip(operands, source.results)), [tile(s, e) for s, e in results], attributes)
    function = mask_function(Site(op, INTERPRETER.names), RULES[name])
    return function(tuple(np.asarray(v) for v, _ in operands.values()), masks)


def test_a_known_operand_may_decide_a_logical_operation():
    known, unknown = np.array([False, True]), np.array([False, False])
    operands = {"lhs": (known, "i1"), "rhs": (unknown, "i1")}
    mask = np.array([True, True])
    assert masks_of("andi", operands, (None, mask), [((2,), "i1")]).tolist() == [False, True]
    assert masks_of("ori", operands, (None, mask), [((2,), "i1")]).tolist() == [True, False]
    assert masks_of("xori", operands, (None, mask), [((2,), "i1")]).tolist() == [True, True]
    numbers = {"lhs": (np.zeros(2), "i32"), "rhs": (np.zeros(2), "i32")}
    assert masks_of("andi", numbers, (None, mask), [((2,), "i32")]).tolist() == [True, True]


def test_an_uninitialised_element_spoils_its_row_or_column_of_a_product():
    operands = {"lhs": (np.zeros((4, 8)), "f16"), "rhs": (np.zeros((8, 2)), "f16"), "acc": (np.zeros((4, 2)), "f32")}
    left, right, acc = np.zeros((4, 8), bool), np.zeros((8, 2), bool), np.zeros((4, 2), bool)
    left[1, 3] = right[5, 0] = acc[3, 1] = True
    shape = [((4, 2), "f32")]
    row, column = np.zeros((4, 2), bool), np.zeros((4, 2), bool)
    row[1], column[:, 0] = True, True
    assert np.array_equal(masks_of("mmaf", operands, (left, None, None), shape), row)
    assert np.array_equal(masks_of("mmaf", operands, (None, right, None), shape), column)
    assert np.array_equal(masks_of("mmaf", operands, (left, right, acc), shape), row | column | acc)
    assert masks_of("mmaf", operands, (None, None, None), shape) is None


def test_a_packed_byte_is_uninitialised_with_any_element_in_it():
    source = np.array([True, False, False, False])
    assert masks_of("pack", {"source": (np.zeros(4), "f4E2M1FN")}, (source,), [((2,), "i8")]).tolist() == [True, False]
    wide = masks_of("pack", {"source": (np.zeros(4), "i16")}, (source,), [((8,), "i8")])
    assert wide.tolist() == [True] * 2 + [False] * 6
    assert masks_of("unpack", {"source": (np.zeros(4), "i8")}, (source,), [((2,), "i16")]).tolist() == [True, False]
