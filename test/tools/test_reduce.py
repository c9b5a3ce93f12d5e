# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""cuda-tile-reduce as a process: how it judges, what it writes, and that it can be interrupted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

import libtile
from patience import PATIENCE
from tools.process import ROOT, run

TOOL = "cuda_tile_reduce"
KERNEL = ROOT / "examples" / "gemm.bc"
SHELL = pytest.mark.skipif(os.name != "posix", reason="needs a POSIX shell")


def test_help_has_examples_and_statuses() -> None:
    done = run(TOOL, "--help")
    assert done.status == 0
    for part in ("--test CMD", "--crash", "--timeout", "Examples:", "Exit status:"):
        assert part in done.text


@SHELL
def test_the_smallest_program_goes_to_stdout_and_progress_to_stderr() -> None:
    done = run(TOOL, "--text", "--test", "grep -q mmaf", KERNEL)
    assert done.status == 0
    assert "mmaf" in done.text and len(done.text.splitlines()) <= 8
    assert "warning" not in done.err
    assert done.err.splitlines()[-1].endswith((", ops", ", types", ", attributes", ", arguments"))


@SHELL
@pytest.mark.parametrize("name", ["small.bc", "small.mlir", "small"])
def test_the_output_is_of_the_form_that_its_name_says(tmp_path: Path, name: str) -> None:
    """The command gets what the input is, wherever the braces stand."""
    test = "test `head -c 5 {} | tail -c 4` = Tile && test -s {}"
    done = run(TOOL, "-q", "--test", test, "-o", tmp_path / name, KERNEL)
    assert (done.status, done.err, done.out) == (0, "", b"")
    module = libtile.parse((tmp_path / name).read_text()) if name.endswith("mlir") else libtile.read(tmp_path / name)
    assert str(module) == "cuda_tile.module @kernels {\n}\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == [name]


@SHELL
def test_a_pipe_gets_the_smallest_program_alone(tmp_path: Path) -> None:
    """Who reads a pipe has gone when it was closed once."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE) as reader:
        done = run(TOOL, "-q", "--test", "true", "-o", pipe, KERNEL)
        assert (done.status, done.err) == (0, "")
        assert reader.communicate(timeout=PATIENCE)[0] == libtile.write(
            libtile.parse("cuda_tile.module @kernels {}"), "13.1"
        )


@SHELL
def test_a_command_that_changes_its_mind_is_told_of(tmp_path: Path) -> None:
    """The result is tried once more at the end."""
    program = tmp_path / "k.mlir"
    program.write_text("cuda_tile.module @m { entry @a() { return } entry @b() { return } }")
    test = f"echo >> {tmp_path}/runs; test `wc -l < {tmp_path}/runs` -lt 3 && test -s"
    done = run(TOOL, "-q", "--test", test, program)
    assert done.status == 0 and done.text
    assert done.err.endswith("of the result what it said of it before: it may decide by chance\n")


@SHELL
def test_a_crash_is_a_signal_or_its_status(tmp_path: Path) -> None:
    script = tmp_path / "crash.sh"
    script.write_text('grep -q mmaf "$1" && kill -SEGV $$\nexit 1\n')
    done = run(TOOL, "-q", "--text", "--crash", "--test", f"sh {script}", KERNEL)
    assert done.status == 0 and "mmaf" in done.text
    done = run(TOOL, "-q", "--text", "--crash", "--test", "false", KERNEL)
    assert (done.status, done.out) == (1, b"") and "it does not crash" in done.err


@SHELL
def test_what_a_command_prints_can_be_what_matters() -> None:
    done = run(TOOL, "-q", "--text", "--output", "mmaf", "--test", "cat {}; exit 3", KERNEL)
    assert done.status == 0 and "mmaf" in done.text
    done = run(TOOL, "-q", "--output", "no such words", "--test", "true", KERNEL)
    assert done.status == 1 and "it prints something else" in done.err


@SHELL
def test_a_command_that_takes_too_long_says_no() -> None:
    done = run(TOOL, "-q", "--timeout", "0.5", "--test", "sleep 30 #", KERNEL)
    assert done.status == 1 and "it does not exit with 0" in done.err


@SHELL
def test_a_command_that_prints_without_end_says_no() -> None:
    done = run(TOOL, "-q", "--timeout", "3600", "--output", "such words", "--test", "yes such words #", KERNEL)
    assert done.status == 1 and "it prints something else" in done.err


def _running() -> str:
    """The arguments of all processes."""
    return subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout


def _wait_until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.05)


@SHELL
@pytest.mark.parametrize("printing", ["", "> /dev/null 2>&1"])
def test_what_a_command_leaves_running_ends_with_it_and_is_not_waited_for(tmp_path: Path, printing: str) -> None:
    """Whether or not it has the command's output open."""
    left = f'(trap "" HUP TERM; echo x >> {tmp_path}/begun; sleep 3600; echo x >> {tmp_path}/ended) {printing} &'
    done = run(
        TOOL, "-q", "--text", "--timeout", "3600", "--output", "no such words",
        "--test", f"{left} while ! test -e {tmp_path}/begun; do sleep 0.05; done; cat {{}}", KERNEL,
    )  # fmt: skip
    assert done.status == 1 and "it prints something else" in done.err
    assert (tmp_path / "begun").exists()
    _wait_until(lambda: str(tmp_path) not in _running())  # who is killed ends when it has a turn


@SHELL
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("output", ["-", "best.mlir"])
def test_an_interrupted_reduction_leaves_the_best_so_far(tmp_path: Path, number: int, output: str) -> None:
    """The command judges a while, and then it hangs."""
    script = tmp_path / "judge.sh"
    script.write_text(
        f'cd "{tmp_path}"; echo x >> count\n[ $(wc -l < count) -gt 12 ] && touch hangs && sleep 3600\n'
        'grep -q mmaf "$1"\n'
    )
    options = ["--text", "--timeout", "3600", "--test", f"sh {script}"]
    process = subprocess.Popen(
        [sys.executable, "-m", TOOL, *options, str(KERNEL), "-o", output],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tools'}", "TMPDIR": str(tmp_path)},
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),  # ignored by what a shell runs behind
    )  # fmt: skip
    _wait_until(lambda: (tmp_path / "hangs").exists())
    process.send_signal(number)
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == -number and "Traceback" not in err
    best = out if output == "-" else (tmp_path / output).read_text()
    assert "mmaf" in best and len(best.splitlines()) < 60
    left = {path.name for path in tmp_path.iterdir()} - {"judge.sh", "count", "hangs", output}
    assert not left


@SHELL
def test_a_reduction_that_is_interrupted_in_its_last_judgement_gives_its_result(tmp_path: Path) -> None:
    """The command hangs where it is given once more what it said yes to."""
    script, kernel = tmp_path / "judge.sh", tmp_path / "k.mlir"
    kernel.write_text("cuda_tile.module @m { entry @k(%x: tile<i32>) {\n%y = muli %x, %x : tile<i32>\nreturn } }")
    script.write_text(
        f'cd "{tmp_path}"; grep -q muli "$1" || exit 1\ncmp -s "$1" last && touch hangs && sleep 3600\ncp "$1" last\n'
    )
    process = subprocess.Popen(
        [sys.executable, "-m", TOOL, "-q", "--timeout", "3600", "--test", f"sh {script}", str(kernel)],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tools'}", "TMPDIR": str(tmp_path)},
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    _wait_until(lambda: (tmp_path / "hangs").exists())
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE)
    assert "muli" in out and "Traceback" not in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([KERNEL], "Missing option '--test'"),
        (["--test", "true", "missing.bc"], "cannot open input file 'missing.bc'"),
        (["--test", "true", "--text", "--bytecode", KERNEL], "exclude each other"),
        (["--test", "false", KERNEL], "it does not exit with 0"),
        (["--test", "true", "-o", "no/such/folder/x.bc", KERNEL], "cannot open output file 'no/such/folder/x.bc'"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(arguments: list[str | Path], message: str) -> None:
    done = run(TOOL, *arguments)
    assert (done.status, done.out) == (1, b"")
    assert message in done.err
