# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What shortens a tool's start changes nothing else, and a compilation loads only what it needs."""

import dataclasses
import os
import subprocess
import sys

import pytest

import libtile
from libtile_tools import startup
from tools.process import ROOT


def test_the_library_leaves_dataclasses_and_xdsl_as_they_are():
    assert not hasattr(dataclasses, "exec")
    from xdsl.irdl.declarative_assembly_format import FormatProgram

    assert FormatProgram.from_str is not startup._FormatOnDemand


def test_a_tool_prints_what_the_library_prints(tmp_path):
    source = ROOT / "examples" / "softmax.bc"
    in_process = libtile.compile(source, "sm_90", emit="tileas", keep_text=True).tileas
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(tmp_path), "PYTHONPATH": str(ROOT)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    for _ in range(2):  # at first the code is made, then it is found
        command = [sys.executable, "-m", "tileiras", "--gpu-name=sm_90", "--emit=tileas", str(source)]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment, timeout=120)
        assert done.stdout == in_process
    assert [path.name.partition(".")[0] for path in tmp_path.rglob("*.bundle")] == ["tools"]


@pytest.mark.parametrize(
    ("tool", "arguments", "unwanted"),
    [
        (
            "tileiras",
            ["--gpu-name=sm_90", "--no-cache", "examples/vector_add.bc", "-o", os.devnull],
            ["numpy", "ml_dtypes", "libtile.interpreter", "libtile.simulator", "xdsl.dialects.math", "llvmlite.ir"],
        ),
        (
            "tileirdisasm",
            ["examples/vector_add.bc"],
            ["numpy", "llvmlite", "libtile.lowering", "xdsl.dialects.arith", "xdsl.dialects.scf"],
        ),
    ],
)
def test_a_tool_loads_only_what_it_needs(tool, arguments, unwanted):
    code = (
        f"import sys; from libtile_tools import cli; from {tool}.main import command; cli.call(command, {arguments!r});"
        f"print('loaded', *({set(unwanted)!r} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.splitlines()[-1] == "loaded"
