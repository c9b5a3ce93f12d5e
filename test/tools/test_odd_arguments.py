# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Odd values of options, and odd files that options name: each is one line of what is wrong, before anything long."""

from __future__ import annotations

import os
import shutil
import zipfile
from pathlib import Path

import pytest

import libtile
from libtile.compiler import cache
from libtile.support.errors import LibtileError, reason
from libtile.support.internal_errors import internal_error
from libtile.tuning import Space, tune
from libtile.tuning.space import expression
from tools.process import ROOT, run

EXAMPLE = ROOT / "examples" / "vector_add.bc"
KERNEL = "cuda_tile.module @m { entry @k(%p: tile<ptr<f32>>) { return } }"


def npy(shape: str, data: bytes = b"") -> bytes:
    """A file of an array of f32 that says to have a shape."""
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + data


ARRAYS = {
    "no archive": b"PK\x03\x04garbage",
    "a number of elements of 90 bits": npy("(999999999999999999999999999,)"),
    "more than any memory": npy("(1000000000000000,)"),
    "cut short": npy("(1024,)", b"abc"),
    "a shape of no numbers": npy("('a',)"),
    "a version to come": b"\x93NUMPY\x09\x00aaaa",
    "empty": b"",
    "text": b"hello",
}


@pytest.mark.parametrize("kind", ARRAYS)
def test_a_file_that_holds_no_array_is_named(kind: str, tmp_path: Path) -> None:
    path, kernel = tmp_path / "x.npy", tmp_path / "k.mlir"
    path.write_bytes(ARRAYS[kind])
    kernel.write_text(KERNEL)
    done = run("cuda_tile_run", kernel, "--arg", path)
    assert done.status == 1
    assert len(done.err.splitlines()) == 1
    assert done.err.startswith(f"error: '{path}' is not a .npy file")


def test_an_archive_of_arrays_is_no_array(tmp_path: Path) -> None:
    kernel, path = tmp_path / "k.mlir", tmp_path / "x.npy"
    kernel.write_text(KERNEL)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.npy", npy("(1,)", bytes(4)))
    done = run("cuda_tile_run", kernel, "--arg", path)
    assert (done.status, done.err.count("\n")) == (1, 1)
    assert f"'{path}' is not a .npy file" in done.err


def test_two_programs_do_not_both_come_from_stdin() -> None:
    done = run("cuda_tile_diff", "-", "-", stdin=KERNEL.encode())
    assert (done.status, done.err) == (2, "cuda-tile-diff: error: only one of A and B can be stdin\n")


@pytest.mark.parametrize("output", ["folder", "nowhere/x", "new/"])
def test_what_cannot_be_written_is_said_before_anything_runs(output: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    shutil.copy(EXAMPLE, tmp_path / "k.bc")
    output = f"{tmp_path}/{output}"  # a Path has no slash at its end
    (tmp_path / "k.mlir").write_text(KERNEL)
    started = f"touch {tmp_path / 'started'}"
    done = run("cuda_tile_reduce", "--test", started, tmp_path / "k.bc", "-o", output)
    assert (done.status, done.err.count("\n")) == (1, 1) and "cannot open output file" in done.err
    assert not (tmp_path / "started").exists()
    done = run("cuda_tile_run", tmp_path / "k.mlir", "--arg", "zeros:f32:8", "--out", f"0:{output}")
    assert (done.status, done.err.count("\n")) == (1, 1) and "cannot open output file" in done.err


@pytest.mark.parametrize(
    "command", [("cuda_tile_reduce", "--test", "true", "--timeout"), ("libtile_cli", "explain", "--seconds")]
)
def test_no_number_of_seconds_is_refused(command: tuple[str, ...]) -> None:
    done = run(*command, "nan", EXAMPLE)
    assert done.status != 0
    assert "nan is no number of seconds" in done.err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("-" * 990 + "1", "nested too deeply"), ("(" * 500, "is no expression"), ("1" * 2000, "2000 characters"),
        ("1\0", "is no expression"), ("not " * 240 + "1", ""),
    ],
)  # fmt: skip
def test_an_expression_that_is_too_much_is_refused(text: str, said: str) -> None:
    try:
        expression(text)({})
    except LibtileError as error:
        assert said in str(error)
    else:
        assert not said


RESULTS = {
    "a number": "3", "a list": "[1]", "no configuration": "{}", "nested": "[" * 100_000,
    "a rank of texts": '{"key": "a", "configuration": {}, "measure": "estimate", "rank": ["a"]}',
    "hints of a number": '{"key": "a", "configuration": {"hints": 3}, "measure": "estimate", "rank": [1]}',
    "an error of a list": '{"key": "a", "configuration": {}, "measure": "estimate", "rank": [1], "error": [1]}',
}  # fmt: skip


@pytest.mark.parametrize("kind", RESULTS)
def test_lines_that_are_no_outcomes_are_refused(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "results"
    path.write_text('{"libtile tuning results": 1}\n' + RESULTS[kind] + "\n")
    with pytest.raises(LibtileError, match="is no file of tuning results"):
        tune(libtile.parse(KERNEL), Space(), args=[0], measure="estimate", results=path)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs devices and FIFOs")
def test_results_are_in_a_regular_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for path in (Path("/dev/full"), tmp_path / "fifo"):  # the one has no end, the other waits for a writer
        with pytest.raises(LibtileError, match="it is no regular file"):
            tune(libtile.parse(KERNEL), Space(), args=[0], measure="estimate", results=path)


def test_no_file_is_written_twice_or_over_the_program(tmp_path: Path) -> None:
    kernel, page = tmp_path / "k.mlir", tmp_path / "k.bc"
    kernel.write_text(KERNEL)
    shutil.copy(EXAMPLE, page)
    for outputs in (("--out", f"0:{kernel}"), ("--out", f"0:{tmp_path / 'x'}", "--out", f"0:{tmp_path / '.' / 'x'}")):
        done = run("cuda_tile_run", kernel, "--arg", "zeros:f32:8", *outputs)
        assert (done.status, done.err.count("\n")) == (1, 1)
        assert "the file is the kernel's, or another output's" in done.err
    done = run("libtile_cli", "explore", page, "-o", page)
    assert (done.status, done.err) == (
        1,
        f"libtile explore: error: the page would overwrite '{page}', of which it is\n",
    )
    assert kernel.read_text() == KERNEL and page.read_bytes() == EXAMPLE.read_bytes()


def test_an_exception_of_no_usual_class_is_a_scripts_error(tmp_path: Path) -> None:
    pytest.importorskip("cuda.tile", reason="scripts are cuTile Python's")
    (tmp_path / "s.py").write_text("class E(BaseException): pass\nraise E('x\\ny')\n")
    for command in ("explain", "tune"):
        done = run("libtile_cli", command, tmp_path / "s.py:k")
        assert (done.status, done.err) == (1, f"error: {tmp_path / 's.py'}:2: E: x y\n")


def test_a_relative_place_of_caches_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LIBTILE_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache.default_folder() == tmp_path / ".cache" / "libtile"


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (MemoryError(), "out of memory"),
        (ImportError("libx.so: failed to map segment"), "a library cannot be loaded: libx.so: failed to map segment"),
        (ImportError("no name 'x'", name="libtile.x"), "internal error of the tool at "),
    ],
)
def test_what_the_machine_lacks_is_no_fault_of_the_tool(error: Exception, said: str) -> None:
    try:
        raise error
    except Exception as caught:
        assert internal_error(caught, "tool").startswith(said)
    assert reason(OSError("libx.so: failed to map segment")) == "libx.so: failed to map segment"
