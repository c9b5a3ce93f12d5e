# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Finds NVIDIA's tools and files: in the wheels first, then in CUDA_HOME, then on PATH."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator
from functools import cache, lru_cache
from pathlib import Path

from libtile.support.errors import LibtileError


class ToolNotFoundError(LibtileError):
    """A tool or file of the CUDA toolkit is nowhere to be found; the message says where it was looked for."""


_PACKAGES = {"nvdisasm": "nvidia-cuda-nvdisasm", "cuobjdump": "nvidia-cuda-cuobjdump", "libdevice": "nvidia-nvvm"}
"""What brings a tool or file where that is not nvidia-cuda-nvcc."""


def how_to_get(name: str, system: str = sys.platform) -> str:
    """Where a tool or file comes from, for an error's text."""
    if system == "darwin":
        return "NVIDIA has no build of it for macOS"
    return f"pip install {_PACKAGES.get(name, 'nvidia-cuda-nvcc')} brings it"


def _wheel_roots() -> list[Path]:
    spec = importlib.util.find_spec("nvidia")
    if spec is None or spec.submodule_search_locations is None:
        return []
    return [p for root in spec.submodule_search_locations for p in sorted(Path(root).glob("cu[0-9]*"), reverse=True)]


def _roots() -> list[Path]:
    homes = [Path(v) for v in (os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH")) if v]
    return [*_wheel_roots(), *homes]


def installed_tools(name: str) -> Iterator[Path]:
    """The programs of a name in NVIDIA's wheels and in CUDA_HOME, the first choice first."""
    file = program_name(name)
    return (path for root in _roots() if os.access(path := root / "bin" / file, os.X_OK))


def program_name(name: str, system: str = sys.platform) -> str:
    """The name of a program's file."""
    return f"{name}.exe" if system == "win32" else name


@cache
def find_tool(name: str) -> Path:
    """The path of a program such as `ptxas`; ToolNotFoundError when there is none."""
    installed = next(installed_tools(name), None)
    if installed is not None:
        return installed
    import shutil  # which takes a while to import, with what compresses files

    found = shutil.which(name)
    if found is None:
        roots = _roots()
        places = ", ".join([*(str(r / "bin") for r in roots), "PATH"])
        raise ToolNotFoundError(f"{name} was not found in {places}; {how_to_get(name)}")
    return Path(found)


@lru_cache(maxsize=1)
def find_libdevice() -> Path:
    """The path of libdevice.10.bc, the library of math functions; ToolNotFoundError when there is none."""
    roots = _roots()
    for root in roots:
        path = root / "nvvm" / "libdevice" / "libdevice.10.bc"
        if path.is_file():
            return path
    places = "in " + ", ".join(str(r / "nvvm") for r in roots) if roots else "(there is no CUDA installation)"
    raise ToolNotFoundError(f"libdevice.10.bc was not found {places}; {how_to_get('libdevice')}")
