# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A fixed, small number of seeds of each fuzzer; docs/fuzzing.md says how to run more."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
import tracemalloc
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from fuzz import FUZZERS, bytecode, framework, fuzzer
from fuzz.framework import MEMORY, Failure, Fuzzer, bounded, run, run_here
from fuzz.mutate import tokens
from libtile.bytecode import BytecodeError, validate
from libtile.compiler.options import STAGES
from patience import PATIENCE

SEEDS = {"bytecode": 1500, "text": 600, "compile": 20, "ptx": 50, "inner": 100}
OUTCOMES = {
    "bytecode": {"verified", "invalid", "MalformedError", "InvalidError", "InvalidError of the dialect"},
    "text": {"malformed", "invalid", "verified", "written", "not for bytecode"},
    "compile": {"ptx", "InputError"},
    "ptx": {"ran", "PtxError", "SimulationFault"},
    "inner": {"malformed", "invalid", "refused", "compiled", "ran"},
}
"""What must be among the outcomes, or the mutations are not what they say."""


@pytest.mark.parametrize("kind", FUZZERS)
def test_inputs_are_taken_or_refused(kind: str, capfd: pytest.CaptureFixture[str]) -> None:
    report = run_here(fuzzer(kind), range(SEEDS[kind]))
    assert not report.failures, "\n".join(f"python -m fuzz {kind} --seeds {f.seed}: {f.text}" for f in report.failures)
    assert set(report.outcomes) >= OUTCOMES[kind]
    assert capfd.readouterr() == ("", ""), "something was printed"


@pytest.mark.slow
@pytest.mark.parametrize("part", range(8))
@pytest.mark.parametrize("kind", FUZZERS)
def test_many_inputs_are_taken_or_refused(kind: str, part: int) -> None:
    count = 5 * SEEDS[kind]
    report = run_here(fuzzer(kind), range(SEEDS[kind] + part * count, SEEDS[kind] + (part + 1) * count))
    assert not report.failures, "\n".join(f"python -m fuzz {kind} --seeds {f.seed}: {f.text}" for f in report.failures)


@pytest.mark.parametrize("kind", FUZZERS)
def test_a_seed_is_the_same_input_every_time(kind: str) -> None:
    assert fuzzer(kind).show(fuzzer(kind).input(7)) == fuzzer(kind).show(fuzzer(kind).input(7))


def test_every_truncation_of_a_file_is_refused() -> None:
    for data in bytecode.seeds()[4::40]:
        for length in range(len(data)):
            with pytest.raises(BytecodeError):
                validate(data[:length], allow_testing=True, preview=bytecode.PREVIEW)


def test_memory_stays_a_small_multiple_of_the_input() -> None:
    tracemalloc.start()
    try:
        for kind in ("bytecode", "text"):
            chosen = fuzzer(kind)
            for seed in range(25):
                given = chosen.input(seed)
                tracemalloc.reset_peak()
                before = tracemalloc.get_traced_memory()[0]
                chosen.check(given)
                used = tracemalloc.get_traced_memory()[1] - before
                assert used < (64 << 20) + 20 * len(chosen.show(given)), f"{kind} {seed}"
    finally:
        tracemalloc.stop()


class Bad(Fuzzer):
    """Fails in each of the ways that there are, by seed."""

    name = "bad"
    seconds = 0.2

    def make(self, rng: random.Random) -> int:
        return rng.randrange(100)

    def input(self, seed: int) -> int:
        return seed

    def show(self, given: Any) -> bytes:
        return str(given).encode()

    def check(self, given: int) -> str:
        if given == 1:
            raise KeyError("foreign")
        if given == 2:
            while True:
                pass
        if given == 3:
            bytearray(2 * MEMORY)
        if given == 4:
            import os

            os._exit(9)
        return "fine"


def test_the_framework_finds_exceptions_hangs_memory_and_dead_processes() -> None:
    found: list[Failure] = []
    report = run(Bad(), range(7), jobs=2, notify=found.append)
    assert report.outcomes == {"fine": 3} and report.count == 7
    assert {f.seed: f.kind.partition(" at ")[0] for f in report.failures} == {
        1: "KeyError", 2: "Hang", 3: "MemoryError", 4: "death"
    }  # fmt: skip
    assert len(found) == 4
    assert run_here(Bad(), range(4)).summary().startswith("4 inputs: 1 fine; 3 failed; slowest ")


def test_bounds_are_lifted_behind_the_block() -> None:
    with bounded(5.0):
        pass
    start = time.process_time()
    while time.process_time() - start < 0.01:
        pass
    assert len(bytearray(MEMORY + 1)) > MEMORY


def test_tokens_are_the_text() -> None:
    text = 'a.b(%x, "s\\"t\n") -> !t<4x?xf32> // é\n\x00'
    assert "".join(tokens(text)) == text
    assert '"s\\"t\n"' not in tokens(text)


def test_inputs_compile_for_every_stage_that_is_asked_for() -> None:
    chosen = fuzzer("compile")
    stages = {chosen.input(seed).options.emit for seed in range(40)}
    assert stages == set(STAGES) - {"cubin"}


def test_an_interrupt_counts_while_workers_start(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[framework._Worker] = []

    class Interrupted(framework._Worker):
        def __init__(self, fuzzer: Fuzzer, seeds: range) -> None:
            if started:
                raise KeyboardInterrupt
            super().__init__(fuzzer, seeds)
            started.append(self)

    monkeypatch.setattr(framework, "_Worker", Interrupted)
    assert run(fuzzer("bytecode"), range(100_000_000), jobs=2).interrupted
    started[0].process.join(PATIENCE)
    assert started[0].process.exitcode == -signal.SIGKILL


def test_a_run_that_is_interrupted_reports_what_it_has():
    command = [sys.executable, "-m", "fuzz", "bytecode", "--seeds", "0:100000000"]
    with subprocess.Popen(
        command,
        cwd=Path(__file__).parents[1],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),  # ignored by what a shell runs behind
    ) as process:
        try:
            _wait_for_child(process.pid)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=PATIENCE)
        finally:
            process.kill()
    assert process.returncode == 130 and err == "" and " inputs: " in out


def _wait_for_child(pid: int) -> None:
    """Wait until a process has started one of its own."""
    children = Path(f"/proc/{pid}/task/{pid}/children")
    end = time.monotonic() + PATIENCE
    while not children.read_text():
        assert time.monotonic() < end, "no worker was started"
        time.sleep(0.05)
