# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""LLVM in a thread of its own: what it makes, what it says of errors, and who can interrupt it."""

import _thread
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from libtile.backend import build, libllvm, nvptx
from libtile.backend.beside import LlvmThread
from libtile.backend.nvptx import LlvmError
from libtile.backend.ptxas import PtxasError
from libtile.backend.work import Assembly, EntryDirectives, Work
from libtile.ir.kernels import Launch
from libtile.support import timing
from patience import PATIENCE

ROOT = Path(__file__).resolve().parents[2]

IR = """target triple = "nvptx64-nvidia-cuda"
define ptx_kernel void @k(ptr addrspace(1) %p) {
  store i32 7, ptr addrspace(1) %p
  ret void
}
"""


def work(ir: str = IR, **options: object) -> Work:
    return Work(
        ir,
        "sm_90",
        3,
        {"k": EntryDirectives(32)},
        True,
        assembly=Assembly(host=("x86_64", "linux"), launches={"k": Launch()}, **options),
    )


def test_it_makes_what_this_thread_would_and_tells_how_long_it_took():
    with timing.collect() as report, LlvmThread() as backend:
        made = backend(work())
    here = build.build(work())
    assert made.ptx == here.ptx and made.assembled is not None and here.assembled is not None
    assert made.assembled.cubin == here.assembled.cubin and made.assembled.kernels == here.assembled.kernels
    assert {"LLVM", "optimize LLVM IR", "print PTX", "ptxas"} <= report.stages.keys()
    assert sum(report.stages.values()) <= report.total


def test_llvm_works_in_the_thread_and_everything_else_here(monkeypatch):
    threads = []
    monkeypatch.setattr(nvptx, "to_ptx", lambda *given: threads.append(threading.get_ident()) or "")
    monkeypatch.setattr(build.ptx, "finish", lambda *given, **named: threads.append(threading.get_ident()) or "")
    with LlvmThread() as backend:
        backend(Work(IR, "sm_90", 3, {}, False))
    assert threads[0] != threads[1] == threading.get_ident()


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        (work("define void @k( {"), LlvmError, "LLVM refuses the module"),
        (work(options=("--no-such-option",)), PtxasError, "no-such-option"),
    ],
    ids=["LLVM", "ptxas"],
)
def test_its_errors_are_errors_here(given, error, said):
    with pytest.raises(error, match=said), LlvmThread() as backend:
        backend(given)


def test_without_threads_the_work_is_done_here(monkeypatch):
    def refuse(*given: object) -> int:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("libtile.backend.beside.start_new_thread", refuse)
    before = _thread.stack_size()
    with LlvmThread() as backend:
        assert backend(work()).ptx == build.build(work()).ptx
    assert _thread.stack_size() == before


@pytest.mark.parametrize("path", [None, "/no/such/library.so"])
def test_a_library_that_cannot_be_opened_ahead_is_opened_with_the_work(monkeypatch, path):
    monkeypatch.setattr(libllvm, "library_path", lambda: path)
    with LlvmThread() as backend:
        assert ".visible .entry k" in backend(work()).ptx


def test_the_thread_ends_with_the_block():
    before = _thread._count()
    with pytest.raises(ZeroDivisionError), LlvmThread():
        raise ZeroDivisionError
    deadline = time.monotonic() + PATIENCE
    while _thread._count() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert _thread._count() == before


@pytest.mark.skipif(not libllvm.CAN_OPEN_AHEAD, reason="libraries are opened in another way")
def test_a_library_opened_ahead_is_the_one_that_is_loaded():
    code = (
        "from libtile.backend import libllvm; libllvm.open_ahead(libllvm.library_path());"
        "maps = open('/proc/self/maps').read() if __import__('os').path.exists('/proc/self/maps') else 'llvmlite';"
        "assert 'llvmlite' in maps; assert libllvm.load().Target.from_triple('nvptx64-nvidia-cuda')"
    )
    subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True)


SLOW = """
import sys, time
from libtile.backend import beside, nvptx
from libtile_tools import cli
beside.is_useful = lambda: True

def to_ptx(*given):
    print("LLVM works", flush=True)
    time.sleep(60)

nvptx.to_ptx = to_ptx
from tileiras import main as tileiras
sys.argv = ["tileiras", "--gpu-name=sm_90", "--no-cache", "examples/vector_add.bc", "-o", sys.argv[1]]
tileiras.main()
"""


@pytest.mark.skipif(os.name != "posix", reason="signals as POSIX systems have them")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_tool_while_llvm_works(tmp_path, number):
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW, str(tmp_path / "k")], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tools")])},
    )  # fmt: skip
    assert process.stdout is not None and process.stdout.readline() == b"LLVM works\n"
    process.send_signal(number)
    process.communicate(timeout=PATIENCE)
    assert process.returncode == -number
    assert not list(tmp_path.iterdir())
