# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What is said when LLVM aborts the process, in the library and in the tool."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from patience import PATIENCE

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.skipif(os.name != "posix", reason="an abort is a signal only on POSIX systems")

FATAL = r"""
IR = '''target triple = "nvptx64-nvidia-cuda"
define ptx_kernel void @vector_add(ptr %p) {
  %v = load fp128, ptr %p
  %w = fadd fp128 %v, %v
  store fp128 %w, ptr %p
  ret void
}
'''
"""

LIBRARY = (
    FATAL
    + """
from libtile.backend import nvptx
from libtile.targets import target
nvptx.to_ptx(IR, target("sm_90"), kernels=["vector_add"])
"""
)

TOOL = (
    FATAL
    + """
import sys
from libtile.lowering.to_llvm import conversion
from tileiras import main as tileiras
conversion.LlvmModule.text = lambda self, extra="": IR
sys.argv = ["tileiras", "--gpu-name=sm_90", "--no-cache", "examples/vector_add.bc", "-o", sys.argv[1]]
tileiras.main()
"""
)

SAID = (
    "error: LLVM gave up on 'vector_add' for sm_90; its words are above. This is a fault of libtile: please report it"
)


def python(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments[1:], "-c", code, *arguments[:1]],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True,
        timeout=PATIENCE, check=False,
    )  # fmt: skip


def test_the_library_says_what_it_was_about_and_the_process_still_aborts():
    done = python(LIBRARY)
    assert done.returncode == -signal.SIGABRT
    assert [line[:40] for line in done.stderr.splitlines()] == ["LLVM ERROR: unsupported library call ope", SAID[:40]]


def test_a_handler_of_the_process_still_gets_its_turn():
    done = python(LIBRARY, "", "-X", "faulthandler")
    assert done.returncode == -signal.SIGABRT
    assert SAID in done.stderr and "Fatal Python error: Aborted" in done.stderr


def test_the_tool_ends_with_its_status_and_leaves_no_file(tmp_path):
    done = python(TOOL, str(tmp_path / "k"))
    assert done.returncode == 5
    lines = done.stderr.splitlines()
    assert lines[1].startswith(SAID) and lines[2] == "error: failed to compile Tile IR program"
    assert not list(tmp_path.iterdir())


FAULTS = """
import ctypes, threading
from libtile.backend import fatal
def work():
    with fatal.explained(lambda: "error: this is too much for LLVM"):
        {fault}
fatal.end_with(5, "error: failed to compile")
threading.stack_size(1 << 20)
thread = threading.Thread(target=work)
thread.start()
thread.join()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the signal's stack is Linux's")
@pytest.mark.parametrize(
    "fault",
    [
        "ctypes.string_at(0)",
        # A function of the C library that calls itself for each parenthesis.
        'ctypes.CDLL(None).regcomp(ctypes.create_string_buffer(256), b"(" * 200000 + b"a" + b")" * 200000, 1)',
    ],
    ids=["no memory", "no stack"],
)
def test_a_fault_in_foreign_code_ends_the_process_with_its_status_and_two_lines(fault: str) -> None:
    done = python(FAULTS.format(fault=fault))
    assert (done.returncode, done.stderr) == (5, "error: this is too much for LLVM\nerror: failed to compile\n")
