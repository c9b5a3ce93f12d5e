# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Finds NVIDIA's compiler in its Python wheels and compiles the CUDA corpus to PTX, once per content."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from .cuda_cases.table import Source

CUDA_DIR = Path(__file__).parent / "cuda"

#: nvcc's flags for each optimisation level. -G is its only way to leave device code unoptimised, and adds debug
#: sections and .loc to the PTX; -lineinfo keeps .loc in the optimised one.
LEVELS = {"O0": ("-G",), "O3": ("-O3", "-lineinfo")}


class CompilerMissing(Exception):
    """nvcc, its headers or a host compiler cannot be found; the message says which."""


class CompileError(Exception):
    """nvcc refused a source; the message is its own."""


@dataclass(frozen=True)
class Toolchain:
    nvcc: Path
    ptxas: Path
    version: str


@cache
def find_toolchain() -> Toolchain:
    """nvcc and ptxas of the `nvidia-cuda-nvcc` wheel, whose headers come from three more wheels.

    Raises CompilerMissing when anything that a compilation needs is absent.
    """
    spec = find_spec("nvidia")
    roots = [Path(place) / "cu13" for place in (spec.submodule_search_locations or [])] if spec else []
    root = next((place for place in roots if (place / "bin" / "nvcc").is_file()), None)
    if root is None:
        raise CompilerMissing("no nvcc: install the nvidia-cuda-nvcc wheel")
    headers = {
        "cuda_runtime.h": "nvidia-cuda-runtime",
        "crt/host_config.h": "nvidia-cuda-crt",
        "nv/target": "nvidia-cuda-cccl",
    }
    for header, wheel in headers.items():
        if not (root / "include" / header).is_file():
            raise CompilerMissing(f"no {header}: install the {wheel} wheel")
    if shutil.which("g++") is None:
        raise CompilerMissing("no host compiler: nvcc preprocesses with g++")
    nvcc = root / "bin" / "nvcc"
    version = subprocess.run([nvcc, "--version"], capture_output=True, text=True, check=True).stdout
    return Toolchain(nvcc, root / "bin" / "ptxas", version.strip().splitlines()[-1])


def compile_ptx(source: Source, arch: str, level: str, cache_dir: Path) -> Path:
    """The PTX of one source for one architecture and level, from `cache_dir` when it is there.

    The file's name holds a digest of everything the PTX depends on. Concurrent callers may compile twice; each
    writes its own temporary file and renames it into place.
    """
    tools = find_toolchain()
    path = CUDA_DIR / f"{source.stem}.cu"
    flags = [f"-arch={arch}", *LEVELS[level], *source.flags]
    digest = hashlib.sha256("\0".join([tools.version, *flags]).encode())
    for part in (path, *sorted(CUDA_DIR.glob("*.cuh"))):
        digest.update(part.read_bytes())
    target = cache_dir / f"{source.stem}.{arch}.{level}.{digest.hexdigest()[:16]}.ptx"
    if not target.is_file():
        cache_dir.mkdir(parents=True, exist_ok=True)
        handle, scratch = tempfile.mkstemp(suffix=".ptx", dir=cache_dir)
        os.close(handle)
        command: list[str | Path] = [tools.nvcc, "-ptx", *flags, path, "-o", scratch]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            os.unlink(scratch)
            raise CompileError(f"{path.name} for {arch} at {level}:\n{done.stdout}{done.stderr}")
        os.replace(scratch, target)
    return target


def assemble(ptx: Path, arch: str, cubin: Path) -> None:
    """Assemble PTX into a cubin with ptxas. Raises CompileError with its message."""
    command: list[str | Path] = [find_toolchain().ptxas, f"-arch={arch}", ptx, "-o", cubin]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CompileError(f"{ptx.name} for {arch}:\n{done.stdout}{done.stderr}")
