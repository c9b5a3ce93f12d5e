# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Valid but odd modules under random options and passes: compiled to PTX, or refused in lines of the one shape."""

from __future__ import annotations

import random
from functools import cached_property
from typing import NamedTuple

import libtile
from fuzz import bytecode as files
from fuzz.framework import Fuzzer
from fuzz.mutate import tokens
from generators.programs import PROFILES, program
from libtile.compiler import driver
from libtile.compiler.options import Options
from libtile.passes.pipeline import PassItem, parse_pipeline, pipeline_text
from libtile.passes.pipelines import PIPELINES, SCHEDULES
from libtile.passes.registry import PASSES
from libtile.targets import targets

STAGES = ("tileaa", "tileas", "llvm", "ptx", "ptx", "ptx")
NAMES = ("vprintf", "_", "WARP_SZ", "__nv_expf", "k_param_0", "x" * 250, "a b", "q\\22", "n\\0Al", "\\FF", "$", "ü")
SCALARS = ("0", "1", "-1", "2", "7", "64", "127", "128", "255", "2147483647")


class Given(NamedTuple):
    """A file and the options to compile it with."""

    data: bytes
    options: Options


class CompileFuzzer(Fuzzer):
    """An input is a file that verifies more often than not, and options."""

    name = "compile"
    seconds = 60.0

    @cached_property
    def files(self) -> list[bytes]:
        return [path.read_bytes() for path in files.EXAMPLES] + files.seeds()

    @cached_property
    def passes(self) -> list[str]:
        return sorted(PASSES)

    def make(self, rng: random.Random) -> Given:
        level = rng.choice((0, 1, 2, 3, 3))
        options = Options(
            rng.choice(list(targets())),
            opt_level=level,
            line_info=rng.random() < 0.3,
            debug=rng.random() < (0.5 if level == 0 else 0.05),
            sanitize=rng.choice(("", "", "", "memcheck")),
            host=rng.choice((None, ("x86_64", "linux"), ("aarch64", "linux"), ("x86_64", "windows"))),
            launch_abi=rng.choice(("tileir", "simt")),
            emit=rng.choice(STAGES),
            keep_text=rng.random() < 0.2,
            **self._passes(rng, level),
        )
        if rng.random() < 0.5:
            data = files.mutate(rng, rng.choice(self.files), rng.choice(self.files))
        else:
            data = self._odd(rng)
        return Given(data, options)

    def _passes(self, rng: random.Random, level: int) -> dict[str, str]:
        """What runs: mostly the level's own, else a schedule, or its passes with some gone, twice, moved, or added."""
        kind = rng.random()
        if kind > 0.3:
            return {"schedule": rng.choice(list(SCHEDULES))} if kind < 0.5 else {}
        items = list(parse_pipeline(PIPELINES[f"O{level}"]))
        for _ in range(rng.choice((1, 1, 2, 4))):
            at, item = rng.randrange(len(items)), rng.choice(items)
            change = rng.randrange(4)
            if change == 0 and len(items) > 1:
                del items[at]
            elif change == 1:
                items.insert(at, item)
            elif change == 2:
                items.remove(item)
                items.insert(at, item)
            else:
                items.insert(at, PassItem(rng.choice(self.passes)))
        return {"pipeline": pipeline_text(items)}

    def _odd(self, rng: random.Random) -> bytes:
        """A random program with another name, other constants, or another order of independent lines."""
        text = program(rng.randrange(100_000), rng.choice(list(PROFILES))).text
        words = tokens(text)
        for _ in range(rng.randrange(4)):
            numbers = [i for i, word in enumerate(words) if word.isdigit()]
            if numbers:
                words[rng.choice(numbers)] = rng.choice(SCALARS)
        changed = "".join(words)
        if rng.random() < 0.3:
            changed = changed.replace("@kernel", f'@"{rng.choice(NAMES)}"')
        for candidate in (changed, text):
            try:
                module = libtile.parse(candidate)
                libtile.verify(module)
                return libtile.write(module)
            except libtile.LibtileError:
                continue
        raise AssertionError("a generated program does not verify")

    def show(self, given: Given) -> bytes:
        return given.data

    def check(self, given: Given) -> str:
        try:
            driver.compile_bytecode(given.data, given.options)
        except driver.DriverError as error:
            for line in str(error).split("\n"):
                assert line.isprintable(), f"not a line: {line!r}"
                assert any(word in line for word in ("error: ", "note: ", "warning: ")), f"no diagnostic: {line}"
                assert "internal error" not in line and "LLVM refuses" not in line, f"{given.options}: {line}"
            return type(error).__name__
        return given.options.emit
