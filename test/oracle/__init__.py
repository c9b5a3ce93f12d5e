# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The reference tools as test oracles: where they are, and how to run them on bytes.

The tools come from the `nvidia-cuda-tileiras` and `nvidia-cuda-nvcc` wheels, which install into the
`nvidia/cu13/bin` namespace folder; `CUDA_HOME` and `PATH` are tried after it.  Tests that need a tool
skip with a reason when it is absent: use `require_tool`.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

import pytest

from patience import PATIENCE

_PACKAGE_OF_TOOL = {
    "tileiras": "nvidia-cuda-tileiras",
    "tileirdisasm": "nvidia-cuda-tileiras",
    "ptxas": "nvidia-cuda-nvcc",
    "nvcc": "nvidia-cuda-nvcc",
    "fatbinary": "nvidia-cuda-nvcc",
    "nvlink": "nvidia-cuda-nvcc",
    "cuobjdump": "nvidia-cuda-cuobjdump",
    "nvdisasm": "nvidia-cuda-nvdisasm",
}


class OracleError(RuntimeError):
    """A reference tool could not be run, refused its input, or took too long."""


def _bin_folders() -> list[Path]:
    """Folders that may hold the tools, in order of preference: wheels first, then CUDA_HOME."""
    folders = []
    try:
        spec = importlib.util.find_spec("nvidia.cu13")
    except ModuleNotFoundError:
        spec = None
    if spec is not None and spec.submodule_search_locations is not None:
        folders += [Path(location) / "bin" for location in spec.submodule_search_locations]
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if variable in os.environ:
            folders.append(Path(os.environ[variable]) / "bin")
    return folders


def find_tool(name: str) -> Path | None:
    """The path of a reference tool (`tileiras`, `tileirdisasm`, `ptxas`, `nvcc`, ...), or None."""
    for folder in _bin_folders():
        candidate = folder / name
        if candidate.is_file() and os.access(candidate, os.X_OK):
            return candidate
    # Nothing tells an original on PATH from another implementation of the same command line but its folder,
    # so the two names that this project installs itself are never taken from PATH.
    if name in ("tileiras", "tileirdisasm"):
        return None
    found = shutil.which(name)
    return None if found is None else Path(found)


def require_tool(name: str) -> Path:
    """`find_tool`, but skips the calling test, saying what to install, when the tool is absent."""
    path = find_tool(name)
    if path is None:
        pytest.skip(f"the reference tool {name} is not installed (pip install {_PACKAGE_OF_TOOL.get(name, name)})")
    return path


class Finished(NamedTuple):
    """A finished process: exit status, and what it printed."""

    rc: int
    stdout: str
    stderr: str


def run_tool(name: str, *arguments: str | Path, timeout: float = PATIENCE, cwd: Path | None = None) -> Finished:
    """Run a reference tool to its end.  Skips when it is absent; OracleError when it runs past `timeout` seconds."""
    command = [str(require_tool(name)), *map(str, arguments)]
    try:
        done = subprocess.run(command, capture_output=True, timeout=timeout, cwd=cwd, check=False)
    except subprocess.TimeoutExpired as error:
        raise OracleError(f"{name} did not finish in {timeout:g} s: {' '.join(command)}") from error
    return Finished(done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"))


def run_tileirdisasm(data: bytes, *options: str, timeout: float = PATIENCE) -> str:
    """The text that the reference disassembler prints for bytecode.  OracleError, with its words, if it refuses."""
    with tempfile.TemporaryDirectory(prefix="oracle-") as folder:
        source = Path(folder) / "input.bc"
        source.write_bytes(data)
        done = run_tool("tileirdisasm", *options, source, timeout=timeout)
    if done.rc != 0:
        raise OracleError(f"tileirdisasm refused the bytecode (exit status {done.rc}):\n{done.stderr}{done.stdout}")
    return done.stdout


class Assembled(NamedTuple):
    """What the reference assembler did: exit status, its messages, and the cubin if it made one."""

    rc: int
    stdout: str
    stderr: str
    cubin: bytes | None


def run_tileiras(data: bytes, gpu_name: str, *options: str, timeout: float = PATIENCE) -> Assembled:
    """Assemble bytecode with the reference assembler, for `gpu_name` such as "sm_90".

    A refusal is a result (rc != 0, its messages in `stderr`), not an exception.
    """
    with tempfile.TemporaryDirectory(prefix="oracle-") as folder:
        source, output = Path(folder) / "input.bc", Path(folder) / "output.cubin"
        source.write_bytes(data)
        done = run_tool("tileiras", f"--gpu-name={gpu_name}", *options, source, "-o", output, timeout=timeout)
        cubin = output.read_bytes() if done.rc == 0 and output.exists() else None
    return Assembled(done.rc, done.stdout, done.stderr, cubin)
