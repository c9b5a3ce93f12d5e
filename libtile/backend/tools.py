# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Finds NVIDIA's tools and files: in the wheels first, then in CUDA_HOME, then on PATH."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import sys
from collections.abc import Iterator
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from libtile.support.errors import LibtileError

if TYPE_CHECKING:
    from pathlib import Path


class ToolNotFoundError(LibtileError):
    """A tool or file of the CUDA toolkit is nowhere to be found; the message says where it was looked for."""


_PACKAGES = {"nvdisasm": "nvidia-cuda-nvdisasm", "cuobjdump": "nvidia-cuda-cuobjdump", "libdevice": "nvidia-nvvm"}
"""What brings a tool or file where that is not nvidia-cuda-nvcc."""


def how_to_get(name: str, system: str = sys.platform) -> str:
    """Where a tool or file comes from, for an error's text."""
    if system == "darwin":
        return "NVIDIA has no build of it for macOS"
    return f"pip install {_PACKAGES.get(name, 'nvidia-cuda-nvcc')} brings it"


def _wheel_roots() -> list[str]:
    spec = importlib.util.find_spec("nvidia")
    if spec is None or spec.submodule_search_locations is None:
        return []
    found = []
    for root in spec.submodule_search_locations:
        with contextlib.suppress(OSError):
            names = (name for name in os.listdir(root) if name.startswith("cu") and name[2:3].isdigit())
            found += [os.path.join(root, name) for name in sorted(names, reverse=True)]
    return found


def _roots() -> list[str]:
    homes = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH")]
    return [*_wheel_roots(), *filter(None, homes)]


def installed_tools(name: str) -> Iterator[str]:
    """The programs of a name in NVIDIA's wheels and in CUDA_HOME, the first choice first."""
    file = program_name(name)
    return (path for root in _roots() if os.access(path := os.path.join(root, "bin", file), os.X_OK))


def program_name(name: str, system: str = sys.platform) -> str:
    """The name of a program's file."""
    return f"{name}.exe" if system == "win32" else name


def find_tool(name: str) -> Path:
    """The path of a program such as `ptxas`; ToolNotFoundError when there is none."""
    from pathlib import Path  # which takes as long to import as reading a kernel

    return Path(tool_path(name))


@cache
def tool_path(name: str) -> str:
    """The path of a program as a text; ToolNotFoundError when there is none."""
    installed = next(installed_tools(name), None)
    if installed is not None:
        return installed
    import shutil  # which takes a while to import, with what compresses files

    found = shutil.which(name)
    if found is None:
        roots = _roots()
        places = ", ".join([*(os.path.join(r, "bin") for r in roots), "PATH"])
        raise ToolNotFoundError(f"{name} was not found in {places}; {how_to_get(name)}")
    return found


@lru_cache(maxsize=1)
def libdevice_path() -> str:
    """The path of libdevice.10.bc, the library of math functions; ToolNotFoundError when there is none."""
    roots = _roots()
    for root in roots:
        path = os.path.join(root, "nvvm", "libdevice", "libdevice.10.bc")
        if os.path.isfile(path):
            return path
    places = "in " + ", ".join(os.path.join(r, "nvvm") for r in roots) if roots else "(there is no CUDA installation)"
    raise ToolNotFoundError(f"libdevice.10.bc was not found {places}; {how_to_get('libdevice')}")


def find_libdevice() -> Path:
    """`libdevice_path` as a path."""
    from pathlib import Path

    return Path(libdevice_path())
