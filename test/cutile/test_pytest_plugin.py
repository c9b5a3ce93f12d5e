# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`pytest --cutile-backend`: a project's tests, unchanged, with no GPU."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

NUMPY_TEST = """
import cuda.tile as ct
import numpy as np
from cuda.tile import launch


@ct.kernel
def double(a, b, n: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(b, i, ct.load(a, i, (n,)) * 2)


def test_double():
    a = np.arange(50, dtype=np.float32)
    b = np.zeros_like(a)
    launch(None, (4,), double, (a, b, 16))
    np.testing.assert_array_equal(b, 2 * a)


def test_script():
    import subprocess, sys
    script = f"import sys, cuda.tile as ct, numpy as np; sys.path.insert(0, {__file__.rpartition('/')[0]!r}); " \
        "from test_kernels import double; b = np.zeros(16); " \
        "ct.launch(None, (1,), double, (np.ones(16), b, 16)); assert (b == 2).all()"
    subprocess.run([sys.executable, "-c", script], check=True)


def test_the_step_of_compilation_is_cutiles(monkeypatch):
    seen, original = [], ct.kernel._compile
    monkeypatch.setattr(ct.kernel, "_compile", lambda self, *given: seen.append(given[2]) or original(self, *given))
    for _ in range(2):
        ct.launch(None, (1,), ct.kernel(double._pyfunc), (np.ones(16), np.zeros(16), 16))
    assert seen == [(9, 0)] * 2


def test_the_newest_bytecode_is_that_of_the_backends():
    from cuda.tile import _compile
    from libtile.cutile import launching
    assert _compile._get_max_supported_bytecode_version("/nowhere").name == launching.newest_version().name


def test_wrong():
    a = np.ones(16, np.float32)
    b = np.zeros_like(a)
    ct.launch(None, (1,), double, (a, b, 16))
    assert (b == 3).all()
"""

TORCH_TEST = """
import cuda.tile as ct
import torch


@ct.kernel
def double(a, b, n: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(b, i, ct.load(a, i, (n,)) * 2)


def test_double():
    assert torch.cuda.is_available() and torch.cuda.get_device_capability() == (8, 0)
    for device in ("cuda", "cuda:0", torch.device("cuda"), torch.device("cuda", 0)):
        a = torch.arange(50, dtype=torch.bfloat16, device=device)
        b = torch.zeros_like(a).cuda().to("cuda")
        with torch.cuda.stream(torch.cuda.Stream()):
            ct.launch(torch.cuda.current_stream(), (4,), double, (a, b, 16))
        torch.cuda.synchronize()
        torch.testing.assert_close(b, 2 * a)
        assert b.is_cuda


def test_events_tell_the_time_that_passed_here():
    a = torch.ones(16, device="cuda")
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    ct.launch(torch.cuda.current_stream(), (1,), double, (a, torch.zeros_like(a), 16))
    torch.cuda.current_stream().record_event(end)
    assert begin.elapsed_time(end) > 0


def test_products_may_be_wider_than_their_operands():
    a, b = torch.full((4, 8), 3.0, dtype=torch.float16), torch.full((8, 2), 1000.0, dtype=torch.float16)
    wide = torch.mm(a.cuda(), b.cuda(), out_dtype=torch.float32)
    assert wide.dtype == torch.float32 and (wide == 24000).all()
    assert torch.mm(a, b).dtype == torch.float16
    assert torch.bmm(a[None], b[None], out_dtype=torch.float32).shape == (1, 4, 2)


def test_seeds_and_attention():
    torch.manual_seed(3)
    first = torch.randn(4, device="cuda")
    torch.cuda.manual_seed_all(3)
    assert torch.equal(first, torch.randn(4, device="cuda"))
    from torch.nn.attention import SDPBackend, sdpa_kernel
    q = torch.ones(1, 2, 4, 8, device="cuda")
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        assert torch.nn.functional.scaled_dot_product_attention(q, q, q).shape == q.shape
    assert sdpa_kernel.__wrapped__.__name__ == "sdpa_kernel"  # read when torch's own compiler is imported


def test_what_a_program_reads_off_the_device():
    properties = torch.cuda.get_device_properties("cuda")
    assert (properties.major, properties.multi_processor_count, properties.warp_size) == (8, 108, 32)
    assert properties.shared_memory_per_block_optin == 166912
    torch.cuda.reset_peak_memory_stats()
    assert torch.cuda.max_memory_allocated() == torch.cuda.memory_stats()["allocated_bytes.all.peak"] == 0
"""


def run_pytest(folder: Path, text: str, *options: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_kernels.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, str(folder)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("backend", ["interpreter", "simulator"])
def test_a_projects_tests_run_with_no_gpu(tmp_path: Path, backend: str):
    done = run_pytest(tmp_path, NUMPY_TEST, f"--cutile-backend={backend}")
    assert done.returncode == 1 and "1 failed, 4 passed" in done.stdout, done.stdout
    assert "FAILED test_kernels.py::test_wrong - assert" in done.stdout


def test_without_the_option_nothing_is_replaced(tmp_path: Path):
    done = run_pytest(
        tmp_path, "import sys\ndef test_it():\n    assert 'libtile.cutile.launching' not in sys.modules\n"
    )
    assert done.returncode == 0, done.stdout


def test_torch_tensors_of_the_cpu_stand_for_those_of_cuda(tmp_path: Path):
    pytest.importorskip("torch")
    done = run_pytest(tmp_path, TORCH_TEST, "--cutile-backend=interpreter", "--cutile-gpu=sm_80")
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(("option", "problem"), [("--cutile-gpu=sm_42", "sm_42"), ("--cutile-check=x", "'x'")])
def test_a_wrong_option_is_one_line(tmp_path: Path, option: str, problem: str):
    done = run_pytest(tmp_path, NUMPY_TEST, "--cutile-backend=interpreter", option)
    assert done.returncode == 4 and done.stdout == "" and problem in done.stderr
    assert done.stderr.startswith("ERROR: --cutile-backend: ") and done.stderr.count("\n") <= 2, done.stderr
