# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Atomic read-modify-write and compare-and-swap, by pointers and by views, in every type, order and scope.

Where old values are checked, each element is touched once; otherwise only the sum of all updates is.
"""

from __future__ import annotations

from typing import Any

import cuda.tile as ct
import numpy as np
from cuda.tile import MemoryOrder, MemoryScope

from examples.signatures import array
from kernels.dtypes import FLOATS, INTEGERS, Dtype
from kernels.model import Kernel, Problem, Tolerance

SIZE = 64
WIDE_INTEGERS = {name: INTEGERS[name] for name in ("i32", "u32", "i64", "u64")}


def put_old(old, row, inside, values):
    """Store old values into one row; what an element that is masked out returns is up to the implementation."""
    ct.store(old, (row, 0), ct.where(inside, values, 0)[None, :])


@ct.kernel
def integer_atomics(data, places, updates, old, size: ct.Constant[int]):
    where = ct.load(places, (0,), (size,))
    inside = (where >= 0) & (where < data.shape[1])
    update = ct.load(updates, (0,), (size,))
    put_old(old, 0, inside, ct.atomic_add(data, (0, where), update))
    put_old(old, 1, inside, ct.atomic_max(data, (1, where), update))
    put_old(old, 2, inside, ct.atomic_min(data, (2, where), update))
    put_old(old, 3, inside, ct.atomic_and(data, (3, where), update))
    put_old(old, 4, inside, ct.atomic_or(data, (4, where), update))
    put_old(old, 5, inside, ct.atomic_xor(data, (5, where), update))
    put_old(old, 6, inside, ct.atomic_xchg(data, (6, where), update))


_FUNCTIONS: Any = (np.add, np.maximum, np.minimum, np.bitwise_and, np.bitwise_or, np.bitwise_xor, lambda a, b: b)


def integer_atomics_reference(data, places, updates, old):
    result, before = data.copy(), np.zeros_like(old)
    inside = (places >= 0) & (places < data.shape[1])
    for row, function in enumerate(_FUNCTIONS):
        before[row, inside] = data[row, places[inside]]
        with np.errstate(over="ignore"):
            result[row, places[inside]] = function(data[row, places[inside]], updates[inside])
    return {"data": result, "old": before}


@ct.kernel
def float_add(data, places, updates, size: ct.Constant[int]):
    where = ct.load(places, (ct.bid(0),), (size,))
    ct.atomic_add(data, where, ct.load(updates, (ct.bid(0),), (size,)), check_bounds=False)


def float_add_reference(data, places, updates):
    result = data.astype(np.float64)
    np.add.at(result, places, updates.astype(np.float64))
    return {"data": result.astype(data.dtype)}


@ct.kernel
def float_swap(data, updates, old, size: ct.Constant[int]):
    where = ct.arange(size, dtype=ct.int32)
    ct.store(old, (0,), ct.atomic_xchg(data, where, ct.load(updates, (0,), (size,))))


@ct.kernel
def compare_and_swap(data, expected, desired, old, size: ct.Constant[int]):
    where = ct.arange(size, dtype=ct.int32)
    found = ct.atomic_cas(data, where, ct.load(expected, (0,), (size,)), ct.load(desired, (0,), (size,)))
    ct.store(old, (0,), found)


def compare_and_swap_reference(data, expected, desired, old):
    return {"data": np.where(data == expected, desired, data), "old": data}


@ct.kernel
def orders(data, old):
    for order in ct.static_iter((MemoryOrder.RELAXED, MemoryOrder.ACQUIRE, MemoryOrder.RELEASE, MemoryOrder.ACQ_REL)):
        for scope in ct.static_iter((MemoryScope.BLOCK, MemoryScope.DEVICE, MemoryScope.SYS)):
            ct.atomic_add(data, 0, 1, memory_order=order, memory_scope=scope)
            ct.atomic_cas(data, 1, ct.gather(data, 1), 5, memory_order=order, memory_scope=scope)
    ct.scatter(old, 0, ct.atomic_xchg(data, 2, 9))


@ct.kernel
def raw_atomics(data, old, size: ct.Constant[int]):
    memory = data.get_raw_memory()
    where = ct.arange(size, dtype=ct.int32) * 2
    inside = where < 40
    ct.store(old, (0,), ct.where(inside, memory.atomic_add_offset(where, 10, mask=inside), 0))
    memory.atomic_max_offset(where + 1, 50)
    memory.atomic_cas_offset(where, 3, 4, memory_order=MemoryOrder.RELAXED)


def raw_atomics_reference(data, old):
    result, size = data.copy(), len(old)
    even, odd = result[0 : 2 * size : 2], result[1 : 2 * size : 2]
    inside = np.arange(0, 2 * size, 2) < 40
    before = np.where(inside, even, 0)
    even[inside] += 10
    odd[:] = np.maximum(odd, 50)
    even[even == 3] = 4
    return {"data": result, "old": before}


@ct.kernel
def view_atomics(data, updates, size: ct.Constant[int]):
    update = ct.load(updates, (ct.bid(0),), (size,))[None, :]
    view = data.tiled_view((1, size))
    view.atomic_store_add((0, ct.bid(0)), update)
    view.atomic_store_max((1, ct.bid(0)), update)
    view.atomic_store_min((2, ct.bid(0)), update)
    view.atomic_store_and((3, ct.bid(0)), update)
    view.atomic_store_or((4, ct.bid(0)), update)
    view.atomic_store_xor((5, ct.bid(0)), update)


def view_atomics_reference(data, updates):
    rows = [function(data[row], updates) for row, function in enumerate(_FUNCTIONS[:6])]
    return {"data": np.stack(rows)}


@ct.kernel
def view_add(data, updates, size: ct.Constant[int]):
    # All blocks add to the same tile.
    data.tiled_view((size,)).atomic_store_add((0,), ct.load(updates, (ct.bid(0), 0), (1, size)).reshape((size,)))


def view_add_reference(data, updates):
    return {"data": (data.astype(np.float64) + updates.astype(np.float64).sum(axis=0)).astype(data.dtype)}


@ct.kernel
def spin_lock(lock, counter, log, size: ct.Constant[int]):
    # Take the lock, change what it guards without atomics, give it back.
    while ct.atomic_cas(lock, 0, 0, 1, memory_order=MemoryOrder.ACQUIRE) != 0:
        pass
    ct.store(counter, (0,), ct.load(counter, (0,), (size,)) * 3 + 1)
    ct.atomic_xchg(lock, 0, 0, memory_order=MemoryOrder.RELEASE)
    ct.atomic_add(log, ct.bid(0), 1)


def spin_lock_reference(lock, counter, log):
    result = counter.copy()
    for _ in log:
        result = result * 3 + 1
    return {"counter": result.astype(counter.dtype), "log": log + 1}


@ct.kernel
def last_block_sums(x, partial, arrived, out, size: ct.Constant[int]):
    # Each block writes a partial sum; the one that arrives last adds them up.
    block = ct.bid(0)
    ct.store(partial, (block,), ct.sum(ct.load(x, (block,), (size,), padding_mode=ct.PaddingMode.ZERO), keepdims=True))
    before = ct.atomic_add(arrived, 0, 1, memory_order=MemoryOrder.ACQ_REL)
    if before == ct.num_blocks(0) - 1:
        total = ct.sum(ct.load(partial, (0,), (16,), padding_mode=ct.PaddingMode.ZERO))
        ct.scatter(out, 0, total)


def last_block_sums_reference(x, partial, arrived, out):
    padded = np.concatenate([x, np.zeros(-len(x) % SIZE, x.dtype)]).reshape(-1, SIZE)
    sums = padded.sum(axis=1, dtype=np.float32)
    return {"partial": sums, "arrived": arrived + len(sums), "out": np.array([sums.sum()], np.float32)}


def _integer_problem(dtype: Dtype):
    def problem(rng: np.random.Generator) -> Problem:
        info = np.iinfo(dtype.numpy)
        data = rng.integers(info.min, info.max, (7, 80), dtype=dtype.numpy, endpoint=True)
        updates = rng.integers(info.min, info.max, SIZE, dtype=dtype.numpy, endpoint=True)
        places = rng.permutation(np.arange(-4, 84))[:SIZE].astype(np.int32)
        return Problem((1, 1, 1), [data, places, updates, np.ones((7, SIZE), dtype.numpy)])

    return problem


def _float_problem(dtype: Dtype):
    def problem(rng: np.random.Generator) -> Problem:
        # Whole numbers: every order of the additions gives the same sum.
        data = rng.integers(-8, 9, 16).astype(dtype.numpy)
        updates = rng.integers(-2, 3, 4 * SIZE).astype(dtype.numpy)
        places = rng.integers(0, 16, 4 * SIZE).astype(np.int32)
        return Problem((4, 1, 1), [data, places, updates])

    return problem


def _swap_problem(rng: np.random.Generator) -> Problem:
    data, updates = rng.standard_normal((2, SIZE), dtype=np.float32)
    return Problem((1, 1, 1), [data, updates, np.zeros(SIZE, np.float32)])


def _cas_problem(dtype: Dtype):
    def problem(rng: np.random.Generator) -> Problem:
        data, expected, desired = rng.integers(0, 3, (3, SIZE)).astype(dtype.numpy)
        return Problem((1, 1, 1), [data, expected, desired, np.zeros(SIZE, dtype.numpy)])

    return problem


def _orders_problem(rng: np.random.Generator) -> Problem:
    return Problem((1, 1, 1), [rng.integers(10, 20, 4, dtype=np.int32), np.zeros(1, np.int32)])


def orders_reference(data, old):
    result = data.copy()
    result[0] += 12
    result[1], result[2] = 5, 9
    return {"data": result, "old": data[2:3]}


def _raw_problem(rng: np.random.Generator) -> Problem:
    return Problem((1, 1, 1), [rng.integers(0, 100, 70, dtype=np.int32), np.full(32, -1, np.int32)])


def _view_problem(rng: np.random.Generator) -> Problem:
    data, updates = rng.integers(-1000, 1000, (6, 100), dtype=np.int32), rng.integers(-1000, 1000, 100, dtype=np.int32)
    return Problem((2, 1, 1), [data, updates])


def _view_add_problem(dtype: Dtype):
    def problem(rng: np.random.Generator) -> Problem:
        data, updates = rng.integers(-8, 9, 50), rng.integers(-4, 5, (4, 50))
        return Problem((4, 1, 1), [data.astype(dtype.numpy), updates.astype(dtype.numpy)])

    return problem


def _lock_problem(rng: np.random.Generator) -> Problem:
    return Problem((5, 1, 1), [np.zeros(1, np.int32), rng.integers(0, 9, 32, dtype=np.int32), np.zeros(5, np.int32)])


def _last_problem(rng: np.random.Generator) -> Problem:
    x = rng.integers(-50, 50, 600).astype(np.float32)
    return Problem((10, 1, 1), [x, np.zeros(10, np.float32), np.zeros(1, np.int32), np.zeros(1, np.float32)])


def _kernels() -> list[Kernel]:
    tags = frozenset({"atomic"})
    f1, i1, i2 = array(ct.float32), array(ct.int32), array(ct.int32, 2)
    result = []
    for name, dtype in WIDE_INTEGERS.items():
        one, two = array(dtype.tile), array(dtype.tile, 2)
        result += [
            Kernel(f"atomic_{name}", integer_atomics, (two, i1, one, two, SIZE), _integer_problem(dtype),
                   integer_atomics_reference, tags=tags | {"pointer"}),
            Kernel(f"atomic_cas_{name}", compare_and_swap, (one, one, one, one, SIZE), _cas_problem(dtype),
                   compare_and_swap_reference, tags=tags | {"pointer"}),
        ]  # fmt: skip
    for name, dtype in FLOATS.items():
        one = array(dtype.tile)
        since: dict[str, Any] = {}
        if name == "bf16":
            since = {"min_version": "13.3", "refusal": "bfloat16 on atomic add requires tileiras 13.3"}
        result.append(Kernel(f"atomic_add_{name}", float_add, (one, i1, one, SIZE), _float_problem(dtype),
                             float_add_reference, Tolerance(signed_zero=False), tags=tags | {"pointer"},
                             **since))  # fmt: skip
        result.append(Kernel(f"atomic_view_add_{name}", view_add, (one, array(dtype.tile, 2), SIZE),
                             _view_add_problem(dtype), view_add_reference, Tolerance(signed_zero=False),
                             min_version="13.3", refusal="requires tileiras 13.3", tags=tags | {"view"}))  # fmt: skip
    result += [
        Kernel("atomic_xchg_f32", float_swap, (f1, f1, f1, SIZE), _swap_problem,
               lambda data, updates, old: {"data": updates, "old": data}, tags=tags | {"pointer"}),
        Kernel("atomic_cas_f32", compare_and_swap, (f1, f1, f1, f1, SIZE), _cas_problem(FLOATS["f32"]),
               compare_and_swap_reference, tags=tags | {"pointer"}),
        Kernel("atomic_orders", orders, (i1, i1), _orders_problem, orders_reference, tags=tags | {"order", "pointer"}),
        Kernel("atomic_raw_memory", raw_atomics, (i1, i1, 32), _raw_problem, raw_atomics_reference,
               tags=tags | {"pointer"}),
        Kernel("atomic_views", view_atomics, (i2, i1, SIZE), _view_problem, view_atomics_reference,
               min_version="13.3", refusal="requires tileiras 13.3", tags=tags | {"view"}),
        Kernel("spin_lock", spin_lock, (i1, i1, i1, 32), _lock_problem, spin_lock_reference,
               tags=tags | {"order", "control", "inter-block"}),
        Kernel("last_block_sums", last_block_sums, (f1, f1, i1, f1, SIZE), _last_problem, last_block_sums_reference,
               tags=tags | {"order", "control", "inter-block"}),
    ]  # fmt: skip
    return result


KERNELS = _kernels()
