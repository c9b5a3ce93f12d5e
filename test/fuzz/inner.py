# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Changed modules of the inner dialects: refused by the verifier or by the lowering, by op, target and place, or
compiled; and what runs without a fault in the interpreter does the same in the simulator."""

from __future__ import annotations

import random
import re
from typing import NamedTuple

import numpy as np

import libtile
from fuzz.framework import Fuzzer
from fuzz.text import check_rendered
from generators.attacks import Attack, attack
from generators.check import TARGETS
from libtile.support.diagnostics import DiagnosticError, LoweringError
from libtile.support.errors import LibtileError

FILE = "inner.mlir"
MOST_STEPS = 1_000_000
"""Of a tile block: a changed bound of a loop may have it go on for long, which both backends end with a fault."""
_PLACE = re.compile(rf"^{re.escape(FILE)}:\d+:\d+: ")


class Given(NamedTuple):
    """A changed module and the target to compile it for."""

    attack: Attack
    gpu_name: str


class InnerFuzzer(Fuzzer):
    """An input is a module and a target."""

    name = "inner"
    seconds = 60.0

    def make(self, rng: random.Random) -> Given:
        made = attack(rng)
        named = re.search(r"target=(sm_\d+)", made.text)
        return Given(made, named[1] if named is not None else rng.choice(TARGETS))

    def show(self, given: Given) -> bytes:
        return f"// {given.gpu_name}\n{given.attack.text}".encode()

    def check(self, given: Given) -> str:
        text, gpu = given.attack.text, given.gpu_name
        try:
            module = libtile.parse(text, filename=FILE)
        except DiagnosticError as refused:
            check_placed(refused)
            return "malformed"
        try:
            libtile.verify(module)
        except DiagnosticError as refused:
            check_placed(refused)
            return "invalid"
        try:
            libtile.compile(module, gpu, emit="ptx", launch_abi="simt")
        except DiagnosticError as refused:
            check_placed(refused)
            return "refused"
        except LoweringError as refused:
            check_reason(refused, text, gpu)
            return "refused"
        return "compiled" if given.attack.arguments is None else self._run(given)

    def _run(self, given: Given) -> str:
        """What a module that compiles does, if the interpreter finds no fault in it."""
        results = []
        for backend in ("interpreter", "simulator"):
            assert given.attack.arguments is not None
            args = given.attack.arguments()
            options = {} if backend == "interpreter" else {"gpu_name": given.gpu_name}
            module = libtile.parse(given.attack.text, filename=FILE)
            try:
                libtile.run(
                    module,
                    args=args,
                    grid=given.attack.grid,
                    backend=backend,
                    check="full",
                    max_steps=MOST_STEPS,
                    **options,
                )
            except LibtileError as fault:
                if backend == "interpreter":
                    return "faulty"
                raise AssertionError(f"the interpreter finds no fault, and the simulator: {fault}") from fault
            results.append([a for a in args if isinstance(a, np.ndarray)])
        for number, (want, got) in enumerate(zip(*results, strict=True)):
            if want.dtype.kind == "f":
                same = np.allclose(got.astype(np.float64), want.astype(np.float64), 1e-2, 1e-2, equal_nan=True)
            else:
                same = np.array_equal(want, got)
            assert same, f"array {number} differs on {given.gpu_name}"
        return "ran"


def check_placed(refused: DiagnosticError) -> None:
    """Each error has a place, and is a line."""
    assert refused.diagnostics
    assert all(d.location is not None for d in refused.diagnostics), str(refused)
    check_rendered(refused.diagnostics)


def check_reason(refused: LoweringError, text: str, gpu: str) -> None:
    """What a lowering cannot compile is said with the op, the target and the place."""
    said = str(refused)
    assert _PLACE.match(said), f"without a place: {said}"
    assert re.search(r"'[a-z_]+\.[\w.]+' op ", said), f"without an op: {said}"
    targets = {gpu, *re.findall(r"\bsm_\d+\b", text)}
    assert any(target in said for target in targets), f"without a target: {said}"
