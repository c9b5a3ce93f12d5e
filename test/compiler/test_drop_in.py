# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""cuTile Python with this `tileiras` in place of the original: compilation, and how its errors arrive."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from libtile.backend.cubin import read_cubin
from patience import PATIENCE

pytest.importorskip("cuda.tile", reason="the frontend is not installed (pip install cuda-tile)")

ROOT = Path(__file__).resolve().parents[2]

FRONTEND = """
import importlib.metadata, io, json, sys, tempfile

version = importlib.metadata.version
def hidden(name):
    if name == "nvidia-cuda-tileiras":  # the frontend asks for this package, and else searches PATH
        raise importlib.metadata.PackageNotFoundError(name)
    return version(name)
importlib.metadata.version = hidden

import cuda.tile
from cuda.tile.compilation import CallingConvention, KernelSignature, export_kernel
from cuda.tile._exception import TileCompilerError
from cuda.tile._compile import _find_compiler_bin, _get_max_supported_bytecode_version
from kernels import corpus, crash_reports

CONVENTIONS = {1: CallingConvention.cutile_python_v1, 2: CallingConvention.cutile_python_v2}
KERNELS = {**corpus.KERNELS, **crash_reports.KERNELS}

def export(kernel, gpu_code=sys.argv[1]):
    output = io.BytesIO()
    signature = KernelSignature(kernel.parameters, CONVENTIONS[kernel.calling_convention](), symbol=kernel.name)
    export_kernel(kernel.function, [signature], output, gpu_code=gpu_code, output_format="cubin")
    return output.getvalue()

def failure(name, gpu_code=sys.argv[1]):
    try:
        export(corpus.REFUSED[name][0], gpu_code)
    except TileCompilerError as e:
        kinds = ("TileCompilerExecutionError", "TileCompilerTimeoutError")
        kind = next(k for k in kinds if isinstance(e, getattr(cuda.tile, k)))
        place = {"file": e.loc.filename, "line": e.loc.line}
        return {"type": kind, "message": e.message, "version": e.compiler_version, **place}

"""

CASE = """
result = {"compiler": _find_compiler_bin().path, "cubins": {name: export(KERNELS[name]).hex() for name in sys.argv[2:]}}
result["newest"] = _get_max_supported_bytecode_version(tempfile.gettempdir(), True).name
result["refused"] = failure("unsigned_floor_division")
from cuda.tile import compiler_timeout
with compiler_timeout(0.02):
    result["timeout"] = failure("unsigned_floor_division")
print(json.dumps(result))
"""

WHOLE = """
from cuda.tile import TileUnsupportedFeatureError
result = {}
for name in sys.argv[2:]:
    try:
        result[name] = export(KERNELS[name])[:4].decode("latin-1")
    except TileUnsupportedFeatureError as error:  # the frontend knows that the target lacks it
        result[name] = f"unsupported: {error}"
print(json.dumps(result))
"""


EXAMPLES = ["attention", "gemm", "histogram", "layer_norm", "prefix_sum", "softmax", "transpose", "vector_add"]
CASES = [("sm_80", ["vector_add"]), ("sm_90", EXAMPLES), ("sm_120", ["vector_add"])]


def frontend(code: str, folder: Path, gpu: str, kernels: list[str], timeout: float = PATIENCE) -> Any:
    """What a program in the frontend prints, with this `tileiras` on PATH, in `folder`."""
    tool = folder / "tileiras"
    tool.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m tileiras "$@"\n')
    tool.chmod(0o755)
    env = {
        **os.environ,
        "PATH": f"{folder}:/usr/bin:/bin",
        "PYTHONPATH": f"{ROOT}:{ROOT / 'test'}",
        "LIBTILE_CACHE": "0",
    }
    command = [sys.executable, "-W", "ignore", "-c", FRONTEND + code, gpu, *kernels]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=timeout, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module", params=CASES, ids=lambda case: case[0])
def exported(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("bin")
    gpu, kernels = request.param
    result = frontend(CASE, folder, gpu, kernels)
    assert result["compiler"] == str(folder / "tileiras")
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


def test_the_frontend_finds_that_it_reads_the_newest_version(exported):
    assert exported[1]["newest"] == "V_13_5"


def test_an_error_arrives_with_its_message_and_line(exported):
    error = exported[1]["refused"]
    assert error["type"] == "TileCompilerExecutionError"
    assert error["file"].endswith("refused.py")
    assert "rounding mode 'negative_inf' is not allowed with 'unsigned' flag" in error["message"]
    source = (ROOT / "test" / "kernels" / "refused.py").read_text().splitlines()
    assert "a // b" in source[error["line"] - 1]
    assert error["version"].startswith("tileiras: open CUDA Tile IR assembler\nlibtile ")


def test_a_timeout_arrives_as_one(exported):
    assert exported[1]["timeout"]["type"] == "TileCompilerTimeoutError"


@pytest.mark.slow
@pytest.mark.parametrize(("part", "gpu"), list(enumerate(["sm_80", "sm_90", "sm_100", "sm_120"])))
def test_every_kernel_of_the_corpus_compiles_or_is_refused_by_the_frontend(part, gpu, tmp_path):
    """Each kernel for one of the targets."""
    from kernels import corpus, crash_reports

    names = [*corpus.KERNELS, *crash_reports.KERNELS][part::4]
    result = frontend(WHOLE, tmp_path, gpu, names, timeout=900)
    wrong = {name: text for name, text in result.items() if text != "\x7fELF" and "unsupported: " not in text}
    assert list(result) == names and not wrong
