# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What `explain` says, and whether it is so."""

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import libtile
from libtile.backend.tools import ToolNotFoundError
from libtile.explore import explain
from libtile.explore.explain import Weight
from libtile.explore.reference import Outcome, Reference, _failure
from oracle import require_tool
from oracle.test_reduce_reference import REFUSAL, SCALED

from .conftest import GEMM, ROOT

BODY = """cuda_tile.module @m {{
  entry @k(%p: tile<ptr<f32>>, %n: tile<i32>) {{
    %i = iota : tile<{size}xi32>
    %p1 = reshape %p : tile<ptr<f32>> -> tile<1xptr<f32>>
    %ps = broadcast %p1 : tile<1xptr<f32>> -> tile<{size}xptr<f32>>
    %at = offset %ps, %i : tile<{size}xptr<f32>>, tile<{size}xi32> -> tile<{size}xptr<f32>>
    %x, %t = load_ptr_tko weak %at : tile<{size}xptr<f32>> -> tile<{size}xf32>, token
    %y = {op} %x : tile<{size}xf32>
    %u = store_ptr_tko weak %at, %y : tile<{size}xptr<f32>>, tile<{size}xf32> -> token
    return
  }}
}}
"""

HELD = """cuda_tile.module @m {
  entry @k(%p: tile<ptr<f32>>, %n: tile<i32>) {
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %start = constant <f32: 1.0> : tile<128x256xf32>
    %view = make_tensor_view %p, shape = [128, 256], strides = [256, 1] : tensor_view<128x256xf32, strides=[256,1]>
    %pv = make_partition_view %view : partition_view<tile=(128x256), tensor_view<128x256xf32, strides=[256,1]>>
    %r = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%a = %start) -> (tile<128x256xf32>) {
      %x, %t = load_view_tko weak %pv[%zero, %zero] : partition_view<tile=(128x256), tensor_view<128x256xf32, strides=[256,1]>>, tile<i32> -> tile<128x256xf32>, token
      %y = exp %x : tile<128x256xf32>
      %b = addf %a, %y : tile<128x256xf32>
      continue %b : tile<128x256xf32>
    }
    %u = store_view_tko weak %r, %pv[%zero, %zero] : tile<128x256xf32>, partition_view<tile=(128x256), tensor_view<128x256xf32, strides=[256,1]>>, tile<i32> -> token
    return
  }
}
"""  # noqa: E501 - types of views are long
"""A loop that carries more than registers hold."""


def test_a_kernel_in_order_has_little_to_be_said_of():
    told = explain(GEMM, "sm_90", source_folders=[ROOT])
    assert all(finding.weight is not Weight.WRONG for finding in told.findings)
    text = str(told)
    assert text.startswith("gemm on sm_90: ") and "an SM holds 3 CTAs of 256 threads, by its shared memory" in text
    assert "2 matrix products" in text and "wait for other threads" not in text
    assert text.count("  a loop of ") == text.count(" instructions, mainly for examples/gemm.py:32: ") == 2
    assert "  3 waiting loops, at barriers in shared memory\n" in text


def test_a_narrow_access_comes_with_what_to_do():
    told = explain(libtile.parse(BODY.format(size=512, op="negf"), filename="k.mlir"))
    said = [f for f in told.findings if "narrower than 128 bits" in f.message]
    assert [f.place.line for f in said] == [7, 9]
    assert all(f.weight is Weight.SLOW and "assume div_by" in f.advice for f in said)
    (line,) = [line for line in str(told).splitlines() if "narrower" in line]
    assert line.startswith("slow: k.mlir:7:14 and 9:10: Global-memory access"), "what is the same is said once"


def test_spills_are_told_with_the_ops_that_they_are_there_for():
    require_tool("nvdisasm")
    told = explain(libtile.parse(HELD, filename="k.mlir"))
    kernel, listing = told.record.compilations[0].kernels[0], told.record.compilations[0].listings["sass"]
    assert kernel.spills
    local = re.compile(r"  [0-9a-f]{4,}  (@!?U?P\w+ )?(LDL|STL)\b")
    counts = Counter(op for line, op in zip(listing.lines, listing.ops) if local.match(line))
    said = [f for f in told.findings if "local memory" in f.message]
    assert said and all(f.weight is Weight.SLOW and f.place.filename == "k.mlir" for f in said)
    assert int(said[0].message.split()[0]) == max(count for op, count in counts.items() if op)


def test_what_does_not_verify_is_wrong_at_its_line():
    told = explain(libtile.parse(BODY.format(size=128, op="absi"), filename="k.mlir"))
    (finding,) = told.findings
    assert finding.weight is Weight.WRONG and finding.place.line == 8 and told.record is None


def test_what_cannot_be_compiled_is_wrong():
    text = HELD.replace("128x256", "4096x4096").replace("[128, 256]", "[4096, 4096]").replace("256", "4096")
    told = explain(libtile.parse(text, filename="k.mlir"))
    (finding,) = told.findings
    assert finding.weight is Weight.WRONG and "registers" in finding.message and finding.place.filename == "k.mlir"


def test_a_tool_that_is_not_installed_is_no_fault_of_the_kernel(monkeypatch):
    def missing(name):
        raise ToolNotFoundError(f"{name} was not found")

    monkeypatch.setattr("libtile.backend.ptxas.tool_path", missing)
    with pytest.raises(ToolNotFoundError, match="ptxas was not found"):
        explain(GEMM, "sm_90")


def test_without_nvdisasm_it_is_said_that_machine_code_was_not_looked_at(monkeypatch):
    def missing(name):
        raise ToolNotFoundError(f"{name} was not found")

    monkeypatch.setattr("libtile.backend.nvdisasm.find_tool", missing)
    told = str(explain(GEMM, "sm_90"))
    assert "  the machine code was not looked at: nvdisasm was not found: pip install" in told


# -- NVIDIA's assembler -----------------------------------------------------------------------------------------------


class Failing(Reference):
    """An assembler that fails on each program with an `exp`."""

    def compile(self, module, gpu_name, *, code=True):
        fails = any(op.name == "cuda_tile.exp" for op in module.op.walk())
        return Outcome("it ended by SIGABRT" if fails else "")


def test_the_op_that_a_crash_needs_is_found():
    module = libtile.parse(BODY.format(size=16, op="exp"), filename="k.mlir")
    told = explain(module, reference=Failing(Path("tileiras")))
    (finding,) = [f for f in told.findings if f.weight is Weight.WRONG]
    assert finding.message == "NVIDIA's tileiras fails: it ended by SIGABRT"
    assert re.fullmatch(r"of 7 ops these \d are enough for that: .*\bexp\b.*", finding.advice)
    assert finding.place is not None and str(told).count("wrong: ") == 1


def test_an_assembler_that_ends_by_a_signal_has_failed(tmp_path: Path):
    path = tmp_path / "tileiras"
    path.write_text("#!/bin/sh\nkill -ABRT $$\n")
    path.chmod(0o755)
    module = libtile.parse(BODY.format(size=16, op="exp"))
    assert Reference(path).compile(module, "sm_90").failure == "it ended by SIGABRT"
    path.write_text("#!/bin/sh\nwhile [ $# -gt 1 ]; do shift; done; : > $1\n")
    assert Reference(path).compile(module, "sm_90", code=False) == Outcome()


def test_failures_are_told_in_a_line():
    assert _failure(-11, "", "/t") == "it ended by SIGSEGV"
    assert _failure(1, "note\n/t/k.bc: error: no\n", "/t") == "no"
    assert _failure(3, "", "/t") == "it ended with status 3 and said nothing"


@pytest.mark.oracle
def test_a_refusal_of_the_real_one_is_explained():
    require_tool("tileiras")
    reference = Reference.find()
    assert reference is not None
    told = explain(libtile.write(libtile.parse(SCALED), "13.3"), "sm_80", reference=reference, seconds=5)
    (finding,) = [f for f in told.findings if f.weight is Weight.WRONG]
    assert REFUSAL in finding.message and "enough for that" in finding.advice


@pytest.mark.oracle
def test_the_machine_code_of_the_real_one_is_told_in_a_line():
    require_tool("tileiras")
    require_tool("nvdisasm")
    told = explain(GEMM, "sm_90", reference=Reference.find())
    (line,) = [line for line in str(told).splitlines() if "by NVIDIA's tileiras" in line]
    assert re.fullmatch(
        r"  by NVIDIA's tileiras: \d+ instructions, innermost loops of \d+(, \d+)*, \d+ waiting loops", line
    )


def test_the_command_says_it_and_fails_for_what_is_wrong(tmp_path):
    (tmp_path / "k.mlir").write_text(BODY.format(size=128, op="absi"))
    done = subprocess.run(
        [sys.executable, "-m", "libtile_cli", "explain", "k.mlir"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1 and "wrong: k.mlir:8:" in done.stdout + done.stderr
