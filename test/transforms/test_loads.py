# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Loads that `cse` merges and `licm` moves read what they read before: random programs over a few words, in which loads
without tokens stand between stores, and whose order is the interpreter's."""

from __future__ import annotations

import random
from collections.abc import Iterable

import numpy as np
import pytest
from xdsl.ir import Operation

import libtile
from libtile.dialects.effect_traits import only_loads
from libtile.dialects.interfaces import loop_around
from libtile.passes.manager import PassManager
from libtile.passes.pipeline import parse_pipeline

WORDS, FAR, RESULTS = 6, 32, 64
TYPE = "tile<2xptr<i32>>"


class _Writer:
    """One program: two words at a time, at constant places, at places that a parameter moves, or that a loop counts."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.count = self.results = 0
        self.places = [f"c{n}" for n in range(WORDS)] + ["%m"]

    def new(self) -> str:
        self.count += 1
        return f"%v{self.count}"

    def at(self, base: str, place: str) -> str:
        """Pointers to two words from a place on."""
        where = f"%k{place[1:]}" if place.startswith("c") else place
        start, spread, tile, found = self.new(), self.new(), self.new(), self.new()
        self.lines += [
            f"{start} = offset {base}, {where} : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>",
            f"{spread} = reshape {start} : tile<ptr<i32>> -> tile<1xptr<i32>>",
            f"{tile} = broadcast {spread} : tile<1xptr<i32>> -> {TYPE}",
            f"{found} = offset {tile}, %two : {TYPE}, tile<2xi32> -> {TYPE}",
        ]
        return found

    def load(self, places: list[str]) -> str:
        pointers, value = self.at("%p", self.random.choice(places)), self.new()
        self.lines.append(f"{value}, {self.new()} = load_ptr_tko weak {pointers} : {TYPE} -> tile<2xi32>, token")
        return value

    def store(self, base: str, place: str, value: str) -> None:
        self.lines.append(f"store_ptr_tko weak {self.at(base, place)}, {value} : {TYPE}, tile<2xi32> -> token")

    def block(self, places: list[str], depth: int, step: str) -> None:
        for _ in range(self.random.randint(3, 7)):
            kind = self.random.random()
            if kind < 0.55:
                value = self.load(places)
                # What was read is kept in memory that nobody reads: where a loop stands, that of its last iteration.
                self.store("%out", f"%r{self.results}", value)
                self.results += 1
            elif kind < 0.85 or depth == 2:
                changed = self.new()
                self.lines.append(f"{changed} = addi {self.load(places)}, {step} : tile<2xi32>")
                self.store("%p", self.random.choice(places), changed)
            else:
                counter, spread, tile = (self.new() for _ in range(3))
                until = self.random.choice(("%k3", "%k2", "%m"))
                self.lines += [
                    f"for {counter} in (%k0 to {until}, step %k1) : tile<i32> {{",
                    f"{spread} = reshape {counter} : tile<i32> -> tile<1xi32>",
                    f"{tile} = broadcast {spread} : tile<1xi32> -> tile<2xi32>",
                ]
                self.block([*places, counter], depth + 1, tile)
                self.lines += ["continue", "}"]

    def text(self) -> str:
        self.block(self.places, 0, "%two")
        numbers = [f"%k{n} = constant <i32: {n}> : tile<i32>" for n in range(WORDS)]
        numbers += [f"%r{n} = constant <i32: {2 * n}> : tile<i32>" for n in range(self.results)]
        numbers.append("%two = iota : tile<2xi32>")
        numbers += [
            f"%far = constant <i32: {FAR}> : tile<i32>",
            "%out = offset %p, %far : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>",
            f"%m = assume bounded<0, {WORDS}>, %moved : tile<i32>",
        ]
        body = "\n".join([*numbers, *self.lines, "return"])
        parameters = "%p: tile<ptr<i32>>, %moved: tile<i32>"
        return f"cuda_tile.module @m {{ entry @k({parameters}) {{\n{body}\n}} }}"


def run(module: libtile.Module, moved: int) -> bytes:
    memory = np.arange(FAR + 2 * RESULTS, dtype=np.int32)
    libtile.run(module, args=[memory, moved])
    return memory.tobytes()


def weight(module: Operation) -> tuple[int, int]:
    """How many loads there are, and how many are in loops."""
    loads = [op for op in module.walk() if only_loads(op)]
    return len(loads), sum(loop_around(op) is not None for op in loads)


def check(seeds: Iterable[int]) -> tuple[int, int]:
    """Hold programs against themselves behind the passes; how many loads were merged, and moved."""
    merged = moved = 0
    for seed in seeds:
        text = _Writer(seed).text()
        want = [run(libtile.parse(text), m) for m in (1, 4)]
        for pipeline in ("cse", "canonicalize,cse,licm"):
            module = libtile.parse(text)
            before = weight(module.op)
            PassManager(parse_pipeline(pipeline)).run(module.op)
            after = weight(module.op)
            assert [run(module, m) for m in (1, 4)] == want, (seed, pipeline)
            if pipeline == "cse":
                merged += before[0] - after[0]
            moved += before[1] - after[1]
    return merged, moved


def test_loads_read_what_they_read_before() -> None:
    merged, moved = check([0, 3])
    assert merged and moved


@pytest.mark.slow
def test_loads_of_many_programs_read_what_they_read_before() -> None:
    merged, moved = check(range(100, 500))
    assert merged > 100 and moved > 100


@pytest.mark.parametrize(("stores", "merged"), [(32, 1), (33, 0)])
def test_of_many_stores_it_is_not_asked_what_they_write(stores: int, merged: int) -> None:
    view = "partition_view<tile=(64), tensor_view<?xf32, strides=[1]>>"
    numbers = "\n".join(f"%c{n} = constant <i32: {n}> : tile<i32>" for n in range(stores + 2))
    between = "\n".join(
        f"store_view_tko weak %x, %v[%c{n + 1}] : tile<64xf32>, {view}, tile<i32> -> token" for n in range(stores)
    )
    load = f"load_view_tko weak %v[%c0] : {view}, tile<i32> -> tile<64xf32>, token"
    module = libtile.parse(f"""cuda_tile.module @m {{ entry @k(%p: tile<ptr<f32>>, %n: tile<i32>) {{
        {numbers}
        %t = make_tensor_view %p, shape = [%n], strides = [1] : tile<i32> -> tensor_view<?xf32, strides=[1]>
        %v = make_partition_view %t : {view}
        %x, %a = {load}
        {between}
        %y, %b = {load}
        store_view_tko weak %y, %v[%c{stores + 1}] : tile<64xf32>, {view}, tile<i32> -> token
        return
    }} }}""")
    PassManager(parse_pipeline("cse")).run(module.op)
    assert sum(map(only_loads, module.op.walk())) == 2 - merged
