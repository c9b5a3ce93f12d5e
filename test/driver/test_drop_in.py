# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""cuTile Python with this `tileiras` in place of the original: compilation, and how its errors arrive."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from libtile.backend.cubin import read_cubin

pytest.importorskip("cuda.tile", reason="the frontend is not installed (pip install cuda-tile)")

ROOT = Path(__file__).resolve().parents[2]

FRONTEND = """
import importlib.metadata, io, json, sys

version = importlib.metadata.version
def hidden(name):
    if name == "nvidia-cuda-tileiras":  # the frontend asks for this package, and else searches PATH
        raise importlib.metadata.PackageNotFoundError(name)
    return version(name)
importlib.metadata.version = hidden

from cuda.tile.compilation import CallingConvention, KernelSignature, export_kernel
from cuda.tile._exception import TileCompilerError
from cuda.tile._compile import _find_compiler_bin
from kernels import corpus

def export(kernel, name, parameters):
    output = io.BytesIO()
    signature = KernelSignature(parameters, CallingConvention.cutile_python_v1(), symbol=name)
    export_kernel(kernel, [signature], output, gpu_code=sys.argv[1], output_format="cubin")
    return output.getvalue().hex()

result = {"compiler": _find_compiler_bin().path, "cubins": {}}
for name in sys.argv[2:]:
    module = __import__(f"examples.{name}", fromlist=["KERNEL"])
    result["cubins"][name] = export(module.KERNEL, name, module.PARAMETERS)
refused, _ = corpus.REFUSED["unsigned_floor_division"]
try:
    export(refused.function, refused.name, refused.parameters)
except TileCompilerError as error:
    result["file"], result["line"], result["message"] = error.loc.filename, error.loc.line, error.message
print(json.dumps(result))
"""


EXAMPLES = ["attention", "gemm", "histogram", "layer_norm", "prefix_sum", "softmax", "transpose", "vector_add"]
CASES = [("sm_80", ["vector_add"]), ("sm_90", EXAMPLES), ("sm_120", ["vector_add"])]


@pytest.fixture(scope="module", params=CASES, ids=lambda case: case[0])
def exported(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("bin")
    tool = folder / "tileiras"
    tool.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m libtile.tools.tileiras "$@"\n')
    tool.chmod(0o755)
    env = {
        **os.environ,
        "PATH": f"{folder}:/usr/bin:/bin",
        "PYTHONPATH": f"{ROOT}:{ROOT / 'test'}",
        "LIBTILE_CACHE": "0",
    }
    gpu, kernels = request.param
    command = [sys.executable, "-c", FRONTEND, gpu, *kernels]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["compiler"] == str(tool)
    assert sorted(result["cubins"]) == kernels
    return gpu, result


def test_the_frontend_compiles_with_it(exported):
    gpu, result = exported
    for name, data in result["cubins"].items():
        read = read_cubin(bytes.fromhex(data))
        assert set(read.kernels) == {name}
        assert read.architecture == int(gpu.removeprefix("sm_"))
        assert ".debug_line" in read.sections
        assert read.host_object.startswith(b"\x7fELF")


def test_an_error_arrives_with_its_message_and_line(exported):
    _, result = exported
    assert result["file"].endswith("refused.py")
    assert "rounding mode 'negative_inf' is not allowed with 'unsigned' flag" in result["message"]
    source = (ROOT / "test" / "kernels" / "refused.py").read_text().splitlines()
    assert "a // b" in source[result["line"] - 1]
