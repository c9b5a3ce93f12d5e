# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The backend in a process of its own: what it makes, what it says of errors, and how both processes end."""

import os
import pickle
import signal
import time
from pathlib import Path

import pytest

from libtile.backend import build
from libtile.backend.nvptx import LlvmError
from libtile.backend.process import BackendFaultError, BackendProcess
from libtile.backend.ptxas import PtxasError
from libtile.backend.work import Assembly, BackendEndedError, EntryDirectives, Made, Work
from libtile.ir.kernels import Launch
from libtile.support import timing

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork processes")

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


def ended(process: int) -> bool:
    """Whether a process that is no child of this one any more ends."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.01)
    return False


def test_it_makes_what_this_process_would_and_tells_how_long_it_took():
    with timing.collect() as report, BackendProcess() as backend:
        made = backend(work())
    here = build.build(work())
    assert made.ptx == here.ptx and made.assembled is not None and here.assembled is not None
    assert made.assembled.cubin == here.assembled.cubin and made.assembled.kernels == here.assembled.kernels
    assert {"LLVM", "optimize LLVM IR", "print PTX", "ptxas"} <= report.stages.keys()
    assert sum(report.stages.values()) <= report.total


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        (work("define void @k( {"), LlvmError, "LLVM refuses the module"),
        (work(options=("--no-such-option",)), PtxasError, "no-such-option"),
    ],
    ids=["LLVM", "ptxas"],
)
def test_its_errors_are_errors_here(given, error, said):
    with pytest.raises(error, match=said), BackendProcess() as backend:
        backend(given)


def test_a_fault_is_one_line_with_its_place(monkeypatch):
    def fault(work: Work) -> Made:
        raise ZeroDivisionError("a fault")

    monkeypatch.setattr(build, "build", fault)
    with pytest.raises(BackendFaultError, match=r"at test_process.py:\d+: ZeroDivisionError: a fault"):  # noqa: SIM117
        with BackendProcess() as backend:
            backend(work())


def test_a_process_that_is_killed_is_an_error(monkeypatch):
    monkeypatch.setattr(build, "build", lambda work: os.kill(os.getpid(), signal.SIGKILL))
    with pytest.raises(BackendEndedError, match="the process that runs LLVM has ended by SIGKILL"):  # noqa: SIM117
        with BackendProcess() as backend:
            backend(work())


def test_an_answer_that_is_cut_off_is_an_error(monkeypatch, capfd):
    whole = pickle.dumps

    def cut(*given: object) -> bytes:
        return whole(*given)[:-5]

    monkeypatch.setattr(pickle, "dumps", cut)
    with pytest.raises(BackendEndedError, match="the process that runs LLVM has ended with exit status 0"):  # noqa: SIM117
        with BackendProcess() as backend:
            backend(work())
    assert capfd.readouterr().err == ""


def test_an_answer_that_cannot_be_given_is_an_error_without_a_traceback(monkeypatch, capfd):
    def unanswerable(*given: object) -> bytes:
        raise MemoryError

    monkeypatch.setattr(pickle, "dumps", unanswerable)
    with pytest.raises(BackendEndedError, match="the process that runs LLVM has ended with exit status 1"):  # noqa: SIM117
        with BackendProcess() as backend:
            backend(work())
    assert capfd.readouterr().err == ""


def test_without_work_it_ends_with_the_block(tmp_path: Path):
    ends = tmp_path / "ended"
    with pytest.raises(ZeroDivisionError), BackendProcess(ends.touch) as backend:
        process = backend.__self__._process  # type: ignore[attr-defined]
        raise ZeroDivisionError
    assert ended(process) and not ends.exists()
