# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Programs of a grid that are handed out by a counter, where hardware hands out none (targets without launch control).

A tile block does not run the program that it was started for, but the next one, and takes further ones from the same
counter while it runs; a block that finds none left ends at once. So each program is run once, and blocks that come late
have nothing to do.

A launch has no memory of its own, and launches of a kernel may overlap, in streams or as a dependent launch. So the
counters are a table in a variable of the module, whose entries grids take by their `%gridid`, which no other grid of
the context has. A device runs 128 grids at once at most (CUDA Programming Guide, "Maximum number of resident grids per
device"), and the last block of a grid gives its entry back, with zeros in it: the table never overflows, and no launch
finds what another one left. A fault, behind which an entry stays taken, ends the context that has the variable.

An entry's place is its key's, modulo the table; where another grid has that, it is any free one, and the grid is
`displaced`. Blocks of a grid find the entry at its place without a lock; only who makes one holds it, for a few
accesses. What an entry needs is ordered by its key: it is freed by a release and found by an acquire.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from libtile.codegen.agents import uniform
from libtile.codegen.builder import AXES, KernelBuilder, Value, integer
from libtile.codegen.control import Carried, for_loop, if_else, while_loop
from libtile.codegen.exchange import Exchange
from libtile.codegen.launch_control import NO_PROGRAM, index_of
from libtile.codegen.llvm_types import GLOBAL_POINTER, I64, VOID
from libtile.codegen.symbols import own_name

EXCHANGED = 16
"""Bytes that a block's threads exchange: a number, and the address of the grid's entry."""

TABLE = own_name("programs")
"""The module's variable."""
_ENTRIES, _ENTRY = 128, 32
_NEXT, _FINISHED = 8, 16
"""Of an entry, behind its key: the number of the program that is handed out next, and the blocks that are done."""
_LOCK, _DISPLACED = _ENTRIES * _ENTRY, _ENTRIES * _ENTRY + 8
_FREE = 0
_ZERO, _ONE = integer(I64, 0), integer(I64, 1)

Acting = Callable[[], AbstractContextManager[None]]
"""Emits what one thread does for all that run this code."""


def begin(b: KernelBuilder, place: Exchange, acting: Acting) -> None:
    """At the head of a kernel: the block takes its first program, which is from here on what it was started for (see
    `KernelBuilder.block_id`), or ends where none is left. `place` is 16 bytes of shared memory that nobody uses yet."""
    with acting():
        entry = _own_entry(b)
        _hand_out(b, place, _next(b, entry), entry)
    b.barrier()
    number, address = (_handed(b, place, at) for at in (0, 8))
    if b.target.has("tma"):  # copies may write to the place, which threads have used
        b.call("llvm.nvvm.fence.proxy.async.shared_cta", VOID, [])
    b.barrier()
    b.programs = address
    going, leaving = b.new_block("program"), b.new_block("none")
    b.conditional_branch(b.compare("ult", number, _count(b)), going, leaving)
    b.start(leaving)
    with acting():
        _finish(b, address)
    b.return_()
    b.start(going)
    b.program = [uniform(b, index_of(b, number, axis)) for axis in range(len(AXES))]


def take(b: KernelBuilder, acting: Acting, alone: bool) -> Value:
    """The number of the grid's next program, which the caller runs; `NO_PROGRAM` where none is left. All threads that
    run this code come here (one thread where it is `alone`) and get the same."""
    place = b.exchanges.take(EXCHANGED)
    assert b.programs is not None  # as `begin` stands in front
    if not alone:
        b.barrier()
    with acting():
        _hand_out(b, place, _next(b, b.programs), b.programs)
    if not alone:
        b.barrier()
    number = _handed(b, place, 0)
    return b.select(b.compare("ult", number, _count(b)), number, integer(I64, NO_PROGRAM))


def end(b: KernelBuilder, acting: Acting) -> None:
    """At the end of a kernel, which all threads of the block come to."""
    assert b.programs is not None
    b.barrier()  # no thread of the block takes another program behind it
    with acting():
        _finish(b, b.programs)


# -- within a block ---------------------------------------------------------------------------------------------------


def _hand_out(b: KernelBuilder, place: Exchange, number: Value, entry: Value) -> None:
    for at, value in ((0, number), (8, entry)):
        b.line(f"store i64 {value.text}, {b.exchange_pointer(place, at).typed}, align 8")


def _handed(b: KernelBuilder, place: Exchange, at: int) -> Value:
    return b.emit(I64, f"load i64, {b.exchange_pointer(place, at).typed}, align 8")


def _count(b: KernelBuilder) -> Value:
    """How many programs the grid has."""
    count = _ONE
    for axis in AXES:
        count = b.mul(count, b.cast("zext", b.num_blocks(axis), I64))
    return count


# -- the table, by one thread of a block ------------------------------------------------------------------------------


def _table(b: KernelBuilder) -> Value:
    """The address of the table, of 64-bit words."""
    size = _DISPLACED + 8
    pointer = b.add_global(TABLE, f"[{size} x i8] zeroinitializer", _ENTRY)
    assert pointer.type is GLOBAL_POINTER
    return b.emit(I64, f"ptrtoint {pointer.typed} to i64")


def _behind(b: KernelBuilder, address: Value, offset: int) -> Value:
    return b.add(address, integer(I64, offset))


def _key(b: KernelBuilder) -> Value:
    """The grid's number, which is never that of a free entry."""
    return b.add(b.asm("mov.u64 $0, %gridid;", "=l", I64), _ONE)


def _place_of(b: KernelBuilder, table: Value, number: Value) -> Value:
    """The address of the entry with a number, modulo the table."""
    return b.add(table, b.mul(b.and_(number, integer(I64, _ENTRIES - 1)), integer(I64, _ENTRY)))


def _load(b: KernelBuilder, address: Value) -> Value:
    return b.asm("ld.acquire.gpu.global.u64 $0, [$1];", "=l,l", I64, [address], memory=True)


def _store(b: KernelBuilder, address: Value, value: Value, order: str = "release") -> None:
    b.asm(f"st.{order}.gpu.global.u64 [$0], $1;", "l,l", VOID, [address, value], memory=True)


def _add(b: KernelBuilder, address: Value, value: Value, order: str = "relaxed") -> Value:
    text = f"atom.{order}.gpu.global.add.u64 $0, [$1], $2;"
    return b.asm(text, "=l,l,l", I64, [address, value], memory=True)


def _next(b: KernelBuilder, entry: Value) -> Value:
    return _add(b, _behind(b, entry, _NEXT), _ONE)


def _finish(b: KernelBuilder, entry: Value) -> None:
    """The block is done; the last one of the grid gives its entry back."""
    before = _add(b, _behind(b, entry, _FINISHED), _ONE, "acq_rel")
    with b.when(b.compare("eq", b.add(before, _ONE), _count(b))):
        table = _table(b)
        for counter in (_NEXT, _FINISHED):
            _store(b, _behind(b, entry, counter), _ZERO, "relaxed")
        _store(b, entry, integer(I64, _FREE))
        with b.when(b.compare("ne", entry, _place_of(b, table, _key(b)))):
            _add(b, _behind(b, table, _DISPLACED), integer(I64, -1))


def _find(b: KernelBuilder, table: Value, wanted: Value) -> Value:
    """The address of an entry with a key; 0 where there is none."""

    def look(number: Value, carried: list[Carried]) -> list[Carried]:
        entry = _place_of(b, table, number)
        (found,) = _values(carried)
        return [b.select(b.compare("eq", _load(b, entry), wanted), entry, found)]

    (found,) = _values(for_loop(b, _ZERO, integer(I64, _ENTRIES), _ONE, [_ZERO], look, unsigned=True))
    return found


def _find_displaced(b: KernelBuilder, table: Value, wanted: Value) -> Value:
    """The address of an entry that is not at its place; 0 where there is none with the key."""
    some = b.compare("ne", _load(b, _behind(b, table, _DISPLACED)), _ZERO)
    return _chosen(b, some, lambda: _find(b, table, wanted), lambda: _ZERO)


def _own_entry(b: KernelBuilder) -> Value:
    """The address of the grid's entry, which is made where no block has done so."""
    table, key = _table(b), _key(b)
    home, lock = _place_of(b, table, key), _behind(b, table, _LOCK)

    def ask() -> Value:
        """By who has not found it: the entry, or 0 while another thread makes one."""
        held = b.asm("atom.acquire.gpu.global.exch.b64 $0, [$1], $2;", "=l,l,l", I64, [lock, _ONE], memory=True)
        return _chosen(b, b.compare("eq", held, _ZERO), lambda: _made(b, table, home, key, lock), lambda: _ZERO)

    def look(carried: list[Carried]) -> tuple[Value, list[Carried]]:
        found = _found(b, table, home, key, there=_load(b, home), missing=ask)
        return b.compare("eq", found, _ZERO), [found]

    (entry,) = _values(while_loop(b, [_ZERO], look, lambda carried: carried))
    return entry


def _found(
    b: KernelBuilder, table: Value, home: Value, key: Value, *, there: Value, missing: Callable[[], Value]
) -> Value:
    """The grid's entry, at its place, where the key `there` stands, or displaced; else what `missing` gives."""

    def elsewhere() -> Value:
        away = _find_displaced(b, table, key)
        return _chosen(b, b.compare("eq", away, _ZERO), missing, lambda: away)

    return _chosen(b, b.compare("eq", there, key), lambda: home, elsewhere)


def _made(b: KernelBuilder, table: Value, home: Value, key: Value, lock: Value) -> Value:
    """The grid's entry, by the thread that holds the lock and gives it back: made, unless another thread has."""
    there = _load(b, home)

    def another() -> Value:
        _add(b, _behind(b, table, _DISPLACED), _ONE)

        def look(carried: list[Carried]) -> tuple[Value, list[Carried]]:
            free = _find(b, table, integer(I64, _FREE))
            return b.compare("eq", free, _ZERO), [free]

        (free,) = _values(while_loop(b, [_ZERO], look, lambda carried: carried))
        return free

    def make() -> Value:
        entry = _chosen(b, b.compare("eq", there, integer(I64, _FREE)), lambda: home, another)
        _store(b, entry, key)
        return entry

    entry = _found(b, table, home, key, there=there, missing=make)
    _store(b, lock, _ZERO)
    return entry


def _chosen(b: KernelBuilder, condition: Value, then: Callable[[], Value], otherwise: Callable[[], Value]) -> Value:
    (value,) = _values(if_else(b, condition, lambda: [then()], lambda: [otherwise()]))
    return value


def _values(carried: list[Carried]) -> list[Value]:
    return [value for value in carried if isinstance(value, Value)]
