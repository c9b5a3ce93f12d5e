# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Same in, same out: in every process, whatever its hash seed, folders and history; in threads; after a fork."""

from __future__ import annotations

import gc
import hashlib
import importlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

import libtile
from libtile import support
from libtile.compiler import driver
from libtile.compiler.cache import Cache
from libtile.compiler.options import Options, machine
from libtile.support import threads
from patience import PATIENCE

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.bc"))

# What is compiled, by name: the file, and what `libtile.compile` is asked for.
JOBS = {
    **{f"{path.stem} -O3 --lineinfo": (path, {"line_info": True}) for path in EXAMPLES},
    "histogram -O0 -g": (ROOT / "examples" / "histogram.bc", {"opt_level": 0, "debug": True}),
    "layer_norm -O0 -g": (ROOT / "examples" / "layer_norm.bc", {"opt_level": 0, "debug": True}),
    "gemm for sm_80": (ROOT / "examples" / "gemm.bc", {"gpu_name": "sm_80"}),
    "softmax for sm_100": (ROOT / "examples" / "softmax.bc", {"gpu_name": "sm_100"}),
}


def compiled(name: str) -> str:
    path, options = JOBS[name]
    made = libtile.compile(path.read_bytes(), **{"gpu_name": "sm_90", "host": ("x86_64", "linux"), **options})
    return digest(made)


def digest(made: libtile.Compiled) -> str:
    """Of all but ptxas's log, which says how long it took."""
    parts = [made.cubin, made.ptx.encode(), made.llvm_ir.encode(), repr((made.remarks, made.kernels)).encode()]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def in_threads(work: Iterable[Callable[[], object]]) -> list[object]:
    """The results of functions that run at once, each in a thread; the first exception of any."""
    jobs = list(work)
    start = threading.Barrier(len(jobs))
    results: dict[int, object] = {}
    problems: list[BaseException] = []

    def run(number: int) -> None:
        try:
            start.wait(PATIENCE)
            results[number] = jobs[number]()
        except BaseException as problem:
            problems.append(problem)

    running = [threading.Thread(target=run, args=(n,), daemon=True) for n in range(len(jobs))]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join(PATIENCE)
    if problems:
        raise problems[0]
    return [results[n] for n in range(len(jobs))]


def main(mode: str) -> None:
    """In a process of its own: the digests of all jobs, one after the other or all at once."""
    sys.setswitchinterval(1e-5)
    if mode == "threads":
        found = dict(zip(JOBS, in_threads([lambda name=name: compiled(name) for name in JOBS]), strict=True))
    else:
        found = {name: compiled(name) for name in reversed(JOBS)}
    print(json.dumps(found))


def process(mode: str, folder: Path, seed: int, **environment: str) -> dict[str, str]:
    folder.mkdir()
    path = [str(ROOT), *map(str, Path(__file__).parents[:2])]
    code = f"import sys; sys.path[:0] = {path!r}; import test_same_output as t"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}; t.main({mode!r})"],
        env={**os.environ, "PYTHONHASHSEED": str(seed), "TMPDIR": str(folder), **environment},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def serial() -> dict[str, str]:
    """The digests in this process, which may have compiled anything before."""
    return {name: compiled(name) for name in JOBS}


def differing(found: dict[str, str], expected: dict[str, str]) -> list[str]:
    assert found.keys() == expected.keys()
    return [name for name in expected if found[name] != expected[name]]


def test_a_fresh_process_makes_the_same_cubins(tmp_path, serial):
    assert differing(process("serial", tmp_path / "another folder", 20261), serial) == []


def test_threads_of_a_fresh_process_make_the_same_cubins(tmp_path, serial):
    """They also load and define at once whatever is loaded and defined on demand."""
    assert differing(process("threads", tmp_path / "threads", 7), serial) == []


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["serial", "threads"])
@pytest.mark.parametrize("seed", range(6))
def test_more_fresh_processes_make_the_same_cubins(seed, mode, tmp_path, serial):
    assert differing(process(mode, tmp_path / "x", seed), serial) == []


SMALL = """cuda_tile.module @m {{ entry @kernel_{n}(%p: tile<ptr<f32>>) {{
    %i = iota : tile<{size}xi32>
    %f = itof %i signed : tile<{size}xi32> -> tile<{size}xf32>
    %e = {op} %f : tile<{size}xf32>
    %s = reduce %e dim=0 identities=[0.0 : f32] : tile<{size}xf32> -> tile<f32> (%a: tile<f32>, %b: tile<f32>) {{
      %c = {combine} %a, %b : tile<f32>
      yield %c : tile<f32>
    }}
    %k = constant <f32: {n}.5> : tile<f32>
    %r = addf %s, %k : tile<f32>
    %t = store_ptr_tko weak %p, %r : tile<ptr<f32>>, tile<f32> -> token
    return }} }}"""
OPS = ("exp", "sin", "sqrt", "negf", "tanh", "log2")


def small(n: int) -> str:
    return SMALL.format(n=n, size=64 << n % 3, op=OPS[n % len(OPS)], combine=("addf", "mulf")[n % 2])


def test_many_kernels_at_once_are_what_they_are_one_by_one():
    def ptx(n: int) -> tuple[str, str]:
        made = libtile.compile(libtile.parse(small(n)), "sm_90", emit="ptx")
        return made.ptx, libtile.print_module(libtile.parse(small(n)))

    expected = [ptx(n) for n in range(12)]
    assert in_threads([lambda n=n: ptx(n) for n in range(12)]) == expected


def test_threads_may_compile_one_module():
    module = libtile.read(EXAMPLES[0])
    expected = libtile.compile(module, "sm_90", emit="ptx").ptx
    found = in_threads([lambda: libtile.compile(module, "sm_90", emit="ptx").ptx] * 6)
    assert found == [expected] * 6


def test_threads_leave_the_recursion_limit_and_the_collector_as_they_were():
    depth = 60
    nested = "".join(f"%b{i} = if %c -> (tile<i32>) {{\n" for i in range(depth))
    nested += "%z = constant <i32: 1> : tile<i32>\nyield %z : tile<i32>\n"
    for i in reversed(range(depth)):
        nested += f"}} else {{\n%e{i} = constant <i32: 1> : tile<i32>\nyield %e{i} : tile<i32> }}\n"
        nested += f"yield %b{i} : tile<i32>\n" if i else "return\n"
    text = "cuda_tile.module @m { entry @k(%c: tile<i1>) {\n" + nested + "} }"
    before = sys.getrecursionlimit(), gc.isenabled()
    expected = libtile.print_module(libtile.parse(text))
    assert in_threads([lambda: libtile.print_module(libtile.parse(text))] * 8) == [expected] * 8
    assert (sys.getrecursionlimit(), gc.isenabled()) == before


def test_the_recursion_limit_falls_when_the_last_thread_needs_it_no_more():
    from libtile.asm.recursion import room_for_nesting

    before = sys.getrecursionlimit()
    inside, leave = threading.Event(), threading.Event()

    def deep(levels: int) -> int:
        return levels and 1 + deep(levels - 1)

    def first() -> None:
        with room_for_nesting():
            inside.set()
            leave.wait(PATIENCE)

    thread = threading.Thread(target=first)
    thread.start()
    inside.wait(PATIENCE)
    with room_for_nesting():
        leave.set()
        thread.join()
        assert deep(before + 200) == before + 200
    assert sys.getrecursionlimit() == before


def forked(work: Callable[[], str]) -> tuple[int, int]:
    """A child that writes what a function gives, and ends: its process id, and where to read it."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.write(writing, work().encode())
            status = 0
        finally:
            os._exit(status)
    os.close(writing)
    return child, reading


def result_of(child: int, reading: int, seconds: float = PATIENCE) -> str:
    limit = time.monotonic() + seconds
    while (done := os.waitpid(child, os.WNOHANG))[0] == 0:
        if time.monotonic() > limit:
            os.kill(child, 9)
            os.waitpid(child, 0)
            pytest.fail("a forked child hangs")
        time.sleep(0.02)
    with os.fdopen(reading) as file:
        text = file.read()
    assert done[1] == 0, f"a forked child ended with {done[1]}"
    return text


fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")


@pytest.mark.slow
@fork
def test_children_of_a_process_that_has_compiled_make_the_same_cubins(serial):
    names = list(JOBS)[:4]
    children = [forked(lambda name=name: compiled(name)) for name in names]
    assert [result_of(*child) for child in children] == [serial[name] for name in names]
    assert compiled(names[0]) == serial[names[0]]


@fork
def test_children_that_are_forked_while_threads_compile_do_too(serial):
    names = list(JOBS)[:3]
    stop = threading.Event()
    wrong: list[str] = []

    def keep_compiling(name: str) -> None:
        while not stop.is_set():
            if compiled(name) != serial[name]:
                wrong.append(name)

    running = [threading.Thread(target=keep_compiling, args=(name,), daemon=True) for name in names]
    for thread in running:
        thread.start()
    try:
        for name in names:
            time.sleep(0.1)
            assert result_of(*forked(lambda name=name: compiled(name))) == serial[name]
    finally:
        stop.set()
        for thread in running:
            thread.join(PATIENCE)
    assert not wrong


@fork
def test_a_fork_waits_until_shared_state_is_whole():
    holding, release = threading.Event(), threading.Event()

    def hold() -> None:
        with threads.LLVM, threads.SHARED:
            holding.set()
            release.wait(PATIENCE)

    thread = threading.Thread(target=hold)
    thread.start()
    holding.wait(PATIENCE)
    since = time.monotonic()  # before the timer, which may run at once, or late
    threading.Timer(0.2, release.set).start()

    def locked() -> str:
        with threads.LLVM, threads.SHARED:
            return "whole"

    assert result_of(*forked(locked)) == "whole"
    assert time.monotonic() - since >= 0.15
    thread.join()


@fork
def test_a_fork_waits_until_a_module_is_loaded(tmp_path, monkeypatch):
    (tmp_path / "slow_to_load.py").write_text(
        f"import pathlib, time\npathlib.Path({str(tmp_path / 'begun')!r}).touch()\ntime.sleep(0.3)\nstate = 'whole'\n"
    )
    monkeypatch.setattr(support, "__path__", [*support.__path__, str(tmp_path)])

    def load() -> str:
        return importlib.import_module("libtile.support.slow_to_load").state

    thread = threading.Thread(target=load)
    thread.start()
    while not (tmp_path / "begun").exists():
        time.sleep(0.001)
    assert result_of(*forked(load), seconds=60) == "whole"
    thread.join()
    assert result_of(*forked(load)) == load() == "whole"


def test_objects_made_once_are_one_for_all_threads():
    made = []

    @threads.once
    def slow() -> object:
        time.sleep(0.05)
        made.append(object())
        return made[-1]

    assert set(in_threads([slow] * 8)) == {made[0]} and len(made) == 1


def test_bytes_path_cache_and_command_line_give_the_same_cubin(tmp_path):
    path = ROOT / "examples" / "softmax.bc"
    data = path.read_bytes()
    host = machine(), "linux"
    options = Options("sm_90", line_info=True, host=host)
    cache = Cache(tmp_path / "cache")
    stored, loaded = (driver.compile_bytecode(data, options, cache=cache) for _ in range(2))
    assert (stored.cached, loaded.cached) == (False, True)
    given = [libtile.compile(source, "sm_90", line_info=True, host=host) for source in (data, path, str(path))]
    uncached = driver.compile_bytecode(data, options)
    copy = tmp_path / "another name.bc"
    copy.write_bytes(data)
    output = tmp_path / "out.cubin"
    command = [sys.executable, "-m", "tileiras", "--gpu-name=sm_90", "--lineinfo", str(copy)]
    environment = {**os.environ, "LIBTILE_CACHE": "0"}
    subprocess.run([*command, "-o", str(output)], check=True, cwd=tmp_path, env=environment, timeout=PATIENCE)
    cubins = {a.cubin for a in (stored, loaded, uncached, *given)} | {output.read_bytes()}
    assert len(cubins) == 1
    assert len({a.ptx for a in (stored, loaded, uncached, *given)}) == 1
