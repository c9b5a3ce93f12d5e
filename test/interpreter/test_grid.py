# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Many tile blocks: order, waiting for one another, deadlock."""

from __future__ import annotations

import numpy as np
import pytest

from interpreter.programs import fault_of, run_body
from libtile.interpreter import FaultKind

#: Every block takes a ticket and writes its id there: shows the order in which blocks ran.
TICKET = """
%bx, %by, %bz = get_tile_block_id : tile<i32>
%one = constant <i32: 1> : tile<i32>
%n, %t = atomic_rmw_tko relaxed device %counter, add, %one : tile<ptr<i32>>, tile<i32> -> tile<i32>, token
%p = offset %out, %n : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
store_ptr_tko weak %p, %bx : tile<ptr<i32>>, tile<i32> -> token
"""


def order_of(blocks: int, **options) -> list[int]:
    counter, out = np.zeros(1, np.int32), np.full(blocks, -1, np.int32)
    run_body("%counter: tile<ptr<i32>>, %out: tile<ptr<i32>>", TICKET, [counter, out], blocks, **options)
    return out.tolist()


def test_blocks_run_by_increasing_id_unless_told_otherwise():
    assert order_of(100) == list(range(100))
    assert order_of(100, block_order="reverse")[:1] == [99]


def test_a_seed_gives_an_order_of_its_own_and_the_same_one_again():
    first, second = order_of(100, block_order=1), order_of(100, block_order=2)
    assert sorted(first) == sorted(second) == list(range(100))
    assert first != second != list(range(100))
    assert order_of(100, block_order=1) == first


#: Block i waits until block i + 1 has set its flag; the last one starts the chain.
CHAIN = """
%bx, %by, %bz = get_tile_block_id : tile<i32>
%w, %h, %d = get_num_tile_blocks : tile<i32>
%one = constant <i32: 1> : tile<i32>
%zero = constant <i32: 0> : tile<i32>
%next = addi %bx, %one : tile<i32>
%mine = offset %flags, %bx : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
%theirs = offset %flags, %next : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
%place = offset %data, %bx : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
%source = offset %data, %next : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
%t0 = make_token : token
%last = cmpi equal %next, %w, signed : tile<i32> -> tile<i1>
%sum, %t1 = if %last -> (tile<i32>, token) {
  yield %one, %t0 : tile<i32>, token
} else {
  %seen = loop iter_values(%k = %t0) : token -> token {
    %f, %tf = load_ptr_tko ACQUIRE device %theirs token=%k : tile<ptr<i32>> -> tile<i32>, token
    %set = cmpi equal %f, %one, signed : tile<i32> -> tile<i1>
    if %set {
      break %tf : token
    }
    continue %tf : token
  }
  %v, %tv = load_ptr_tko weak %source token=%seen : tile<ptr<i32>> -> tile<i32>, token
  %u = addi %v, %one : tile<i32>
  yield %u, %tv : tile<i32>, token
}
%t2 = store_ptr_tko weak %place, %sum token=%t1 : tile<ptr<i32>>, tile<i32> -> token
%t3 = store_ptr_tko RELEASE device %mine, %one token=%t2 : tile<ptr<i32>>, tile<i32> -> token
"""
NAMES = "%flags: tile<ptr<i32>>, %data: tile<ptr<i32>>"
ORDERED = CHAIN.replace("ACQUIRE", "acquire").replace("RELEASE", "release")


@pytest.mark.parametrize("check", ["basic", "full"])
@pytest.mark.parametrize("order", [None, "reverse", 3])
@pytest.mark.parametrize("blocks", [2, 40, 120])
def test_blocks_that_wait_for_later_ones_make_progress(blocks, order, check):
    data = np.zeros(blocks, np.int32)
    run_body(NAMES, ORDERED, [np.zeros(blocks, np.int32), data], blocks, block_order=order, check=check)
    assert data.tolist() == list(range(blocks, 0, -1))


def test_a_flag_that_nobody_sets_is_a_deadlock():
    body = ORDERED.replace("%t3 = store_ptr_tko release device %mine, %one token=%t2 : tile<ptr<i32>>, tile<i32> "
                           "-> token", "")  # fmt: skip
    fault = fault_of(FaultKind.DEADLOCK, NAMES, body, [np.zeros(3, np.int32), np.zeros(3, np.int32)], 3)
    assert "2 tile blocks wait" in fault.message and "(0, 0, 0), (1, 0, 0)" in fault.message
    assert fault.op == "cuda_tile.load_ptr_tko"
    assert fault.location is not None


LOCK = """
%zero = constant <i32: 0> : tile<i32>
%one = constant <i32: 1> : tile<i32>
%t0 = make_token : token
%locked = loop iter_values(%k = %t0) : token -> token {
  %old, %tl = atomic_rmw_tko acquire device %flags, xchg, %one token=%k : tile<ptr<i32>>, tile<i32> -> tile<i32>, token
  %free = cmpi equal %old, %zero, signed : tile<i32> -> tile<i1>
  if %free {
    break %tl : token
  }
  continue %tl : token
}
%v, %tv = load_ptr_tko weak %data token=%locked : tile<ptr<i32>> -> tile<i32>, token
%w = addi %v, %one : tile<i32>
%ts = store_ptr_tko weak %data, %w token=%tv : tile<ptr<i32>>, tile<i32> -> token
UNLOCK
"""
UNLOCK = """
%r, %tr = atomic_rmw_tko release device %flags, xchg, %zero token=%ts
  : tile<ptr<i32>>, tile<i32> -> tile<i32>, token
"""


@pytest.mark.parametrize("order", [None, 1, 2])
def test_a_lock_orders_what_it_guards(order):
    data = np.zeros(1, np.int32)
    run_body(NAMES, LOCK.replace("UNLOCK", UNLOCK), [np.zeros(1, np.int32), data], 50, block_order=order, check="full")
    assert data[0] == 50


def test_a_lock_that_is_never_released_is_a_deadlock():
    args = [np.zeros(1, np.int32), np.zeros(1, np.int32)]
    fault = fault_of(FaultKind.DEADLOCK, NAMES, LOCK.replace("UNLOCK", ""), args, 3)
    assert fault.op == "cuda_tile.atomic_rmw_tko"


def test_a_bounded_spin_is_no_deadlock():
    body = """
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %n = constant <i32: 500> : tile<i32>
    for %i in (%zero to %n, step %one) : tile<i32> {
      %f, %t = load_ptr_tko relaxed device %flags : tile<ptr<i32>> -> tile<i32>, token
    }
    store_ptr_tko weak %data, %one : tile<ptr<i32>>, tile<i32> -> token
    """
    data = np.zeros(1, np.int32)
    run_body(NAMES, body, [np.zeros(1, np.int32), data])
    assert data[0] == 1


def test_a_loop_that_never_changes_anything_is_a_deadlock():
    body = """
    %t = constant <i1: true> : tile<i1>
    loop {
      if %t {
        continue
      }
      break
    }
    """
    fault = fault_of(FaultKind.DEADLOCK, "", body)
    assert fault.op == "cuda_tile.loop"


def test_progress_is_reported_to_the_end():
    seen = []
    run_body("", "", grid=(3, 2), progress=lambda done, total: seen.append((done, total)))
    assert seen == [(n, 6) for n in range(1, 7)]
