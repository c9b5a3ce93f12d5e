# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tile blocks in several processes: the same as in one, wherever they cannot depend on each other."""

from __future__ import annotations

import io
import os
import signal
import sys
from multiprocessing.connection import Connection

import numpy as np
import pytest

import libtile
from interpreter.programs import fault_of, module_text, run_body
from libtile.interpreter import FaultKind, parallel
from libtile.interpreter.entries import LaunchError
from libtile.support import workers
from libtile.support.errors import LibtileError

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are forked")

PARAMETERS = "%x: tile<ptr<f32>>, %out: tile<ptr<f32>>"

#: Each block takes the sine of its 8 numbers, stores it, and every third one says so.
BODY = """
%bx, %by, %bz = get_tile_block_id : tile<i32>
%eight = constant <i32: 8> : tile<i32>
%three = constant <i32: 3> : tile<i32>
%zero = constant <i32: 0> : tile<i32>
%i = iota : tile<8xi32>
%first = muli %bx, %eight : tile<i32>
%f1 = reshape %first : tile<i32> -> tile<1xi32>
%f8 = broadcast %f1 : tile<1xi32> -> tile<8xi32>
%n = addi %f8, %i : tile<8xi32>
%x1 = reshape %x : tile<ptr<f32>> -> tile<1xptr<f32>>
%x8 = broadcast %x1 : tile<1xptr<f32>> -> tile<8xptr<f32>>
%px = offset %x8, %n : tile<8xptr<f32>>, tile<8xi32> -> tile<8xptr<f32>>
%v, %t0 = load_ptr_tko weak %px : tile<8xptr<f32>> -> tile<8xf32>, token
%s = sin %v : tile<8xf32>
%o1 = reshape %out : tile<ptr<f32>> -> tile<1xptr<f32>>
%o8 = broadcast %o1 : tile<1xptr<f32>> -> tile<8xptr<f32>>
%po = offset %o8, %n : tile<8xptr<f32>>, tile<8xi32> -> tile<8xptr<f32>>
%t1 = store_ptr_tko weak %po, %s : tile<8xptr<f32>>, tile<8xf32> -> token
%r = remi %bx, %three signed : tile<i32>
%c = cmpi equal %r, %zero, signed : tile<i32> -> tile<i1>
if %c {
  print_tko "block %i\\n", %bx : tile<i32> -> token
}
"""
BLOCKS = 100


def run(processes: int | None, blocks: int = BLOCKS, size: int = BLOCKS, body: str = BODY, **options):
    x, out = np.random.default_rng(1).random(8 * size, np.float32), np.zeros(8 * size, np.float32)
    stream, seen = io.StringIO(), []
    result = run_body(
        PARAMETERS, body, [x, out], blocks, processes=processes, out=stream,
        progress=lambda done, total: seen.append((done, total)), **options,
    )  # fmt: skip
    return out, result, stream.getvalue(), seen


@pytest.mark.parametrize("processes", [2, 3])
def test_processes_give_the_same_to_the_bit(processes):
    one, alone, said, _ = run(1)
    many, result, text, seen = run(processes)
    assert np.array_equal(one.view(np.uint32), many.view(np.uint32)) and one.any()
    assert (result.ops, result.bytes_read, result.bytes_written) == (alone.ops, alone.bytes_read, alone.bytes_written)
    assert (alone.processes, result.processes) == (1, processes)
    assert text == said == result.output and text.count("block") == 34
    assert seen == sorted(seen) and seen[-1] == (BLOCKS, BLOCKS)


@pytest.mark.parametrize("check", ["off", "full,-race"])
def test_checks_do_not_change_that(check):
    assert np.array_equal(run(1, check=check)[0], run(2, check=check)[0])


def test_the_fault_is_that_of_the_first_block_with_one(monkeypatch):
    def faulty(processes: int) -> tuple[str, str]:
        stream = io.StringIO()
        arrays = list(np.zeros((2, 8 * 40), np.float32))  # of one order in memory, as the message has an address
        with pytest.raises(LibtileError) as caught:
            run_body(PARAMETERS, BODY, arrays, BLOCKS, processes=processes, out=stream)
        return str(caught.value), stream.getvalue()

    assert faulty(2) == faulty(1)
    assert "tile block (40, 0, 0)" in faulty(3)[0] and faulty(3)[1].endswith("block 39\n")
    fault = fault_of(FaultKind.OUT_OF_BOUNDS, PARAMETERS, BODY, [np.zeros(8, np.float32)] * 2, 9, processes=2)
    assert fault.block == (1, 0, 0) and fault.location is not None


def test_a_large_grid_takes_every_processor(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})
    assert run(None)[1].processes == 1, "a grid that takes a moment is not worth a process"
    monkeypatch.setattr(parallel, "TRIED", 0.0)
    monkeypatch.setattr(parallel, "LEAST", 0.0)
    out, result, text, seen = run(None)
    assert result.processes == 2 and np.array_equal(out, run(1)[0])
    assert text.splitlines()[:2] == ["block 0", "block 3"] and seen[0] == (1, BLOCKS) and seen[-1] == (BLOCKS, BLOCKS)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0})
    assert run(None)[1].processes == 1


def test_arrays_that_share_memory_or_may_not_be_written_are_what_they_were():
    x = np.arange(16, dtype=np.float32)
    x.flags.writeable = False
    both = np.zeros(40, np.float32)
    run_body(PARAMETERS, BODY, [x, both[8:24]], 2, processes=2)
    assert np.allclose(both[8:24], np.sin(x)) and not both[:8].any() and not both[24:].any()


SPIN = """
loop {
  %f, %t = load_ptr_tko weak %out : tile<ptr<f32>> -> tile<f32>, token
  %zero = constant <f32: 0.0> : tile<f32>
  %is = cmpf equal ordered %f, %zero : tile<f32> -> tile<i1>
  if %is {
    break
  }
  continue
}
"""
ATOMIC = """
%one = constant <f32: 1.0> : tile<f32>
%n, %t = atomic_rmw_tko relaxed device %out, addf, %one : tile<ptr<f32>>, tile<f32> -> tile<f32>, token
"""
ALLOCA = "%a = alloca num_elem = 4, alignment = 64 : tile<ptr<i32>>"


@pytest.mark.parametrize(
    ("body", "options", "why"),
    [
        (ATOMIC, {}, "they may depend on each other by 'cuda_tile.atomic_rmw_tko'"),
        (SPIN, {}, "by 'cuda_tile.load_ptr_tko'"),
        (ALLOCA, {}, "by 'cuda_tile.alloca'"),
        (BODY, {"block_order": 3}, "a block order was given"),
        (BODY, {"trace": lambda *_: None}, "they are traced"),
        (BODY, {"check": "full"}, "the check for races has to see all of them"),
    ],
    ids=["atomic", "spin", "alloca", "order", "trace", "race"],
)
def test_blocks_that_may_depend_on_each_other_run_in_one_process(body, options, why, monkeypatch):
    with pytest.raises(LaunchError, match="run in one process, and not in 2: ") as caught:
        run(2, body=body, **options)
    assert why in str(caught.value)
    monkeypatch.setattr(parallel, "LEAST", 0.0)
    assert run(None, body=body, **options)[1].processes == 1


def test_kernels_of_the_inner_dialects_are_asked_too():
    def lowered(body: str) -> str:
        module = libtile.parse(module_text(PARAMETERS, body))
        return libtile.compile(module, "sm_90", emit="tileaa", keep_text=True).tileaa

    x, out = np.random.default_rng(1).random(8 * BLOCKS, np.float32), np.zeros(8 * BLOCKS, np.float32)
    result = libtile.run(lowered(BODY).encode(), grid=BLOCKS, args=[x, out], processes=2)
    assert result.processes == 2 and np.array_equal(out, run(1)[0])
    with pytest.raises(LaunchError, match=r"by 'nv_tileaa\.atomic_rmw'"):
        libtile.run(lowered(ATOMIC).encode(), grid=2, args=[x, out], processes=2)


# -- workers ----------------------------------------------------------------------------------------------------------


def test_parts_above_a_fault_need_not_run():
    def part(number: int) -> tuple[int, LibtileError | None]:
        return number, LibtileError(f"part {number}") if number in (3, 6, 7) else None

    heard: list[int] = []
    ends, fault = workers.run_parts(100_000, 2, part, lambda: "end", lambda number, value: heard.append(value))
    assert str(fault) == "part 3" and {0, 1, 2, 3} <= set(heard) and len(heard) < 100_000
    assert ends == ["end", "end"]


def test_what_becomes_of_a_worker_is_told():
    def ends(number: int) -> tuple[None, None]:
        os.kill(os.getpid(), signal.SIGKILL)
        return None, None

    def fails(number: int) -> tuple[None, None]:
        raise RuntimeError("of libtile")

    with pytest.raises(workers.WorkerError, match="ended without a report"):
        workers.run_parts(4, 2, ends, lambda: None, lambda *_: None)
    with pytest.raises(workers.WorkerError, match=r"internal error of the worker process .*RuntimeError: of libtile"):
        workers.run_parts(4, 2, fails, lambda: None, lambda *_: None)


def test_a_worker_that_is_killed_while_it_reports_ended_without_a_report(monkeypatch):
    def cut(connection: Connection, message: bytes) -> None:
        os.write(connection.fileno(), bytes(message)[:10])
        os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setattr(Connection, "_send", cut)
    with pytest.raises(workers.WorkerError, match="ended without a report"):
        workers.run_parts(4, 2, lambda number: (number, None), lambda: None, lambda *_: None)


def test_an_error_here_ends_the_workers():
    def heard(number: int, value: int) -> None:
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        workers.run_parts(1 << 40, 2, lambda number: (number, None), lambda: None, heard)
