# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Finding nvcc, and saying what is missing when it cannot be used."""

from __future__ import annotations

from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from . import nvcc
from .cuda_cases.table import Source


@pytest.fixture(autouse=True)
def forget_the_toolchain() -> None:
    nvcc.find_toolchain.cache_clear()


def wheel_root(monkeypatch: pytest.MonkeyPatch, place: Path) -> Path:
    """Make `place` the `nvidia` namespace package."""
    spec = ModuleSpec("nvidia", None, is_package=True)
    spec.submodule_search_locations = [str(place)]
    monkeypatch.setattr(nvcc, "find_spec", lambda name: spec)
    return place / "cu13"


def test_without_the_wheels_it_names_the_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvcc, "find_spec", lambda name: None)
    with pytest.raises(nvcc.CompilerMissing, match="install the nvidia-cuda-nvcc wheel"):
        nvcc.find_toolchain()


def test_without_a_header_it_names_the_wheel_that_has_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    root = wheel_root(monkeypatch, tmp_path)
    for name in ("bin/nvcc", "include/cuda_runtime.h", "include/crt/host_config.h"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    with pytest.raises(nvcc.CompilerMissing, match="nv/target: install the nvidia-cuda-cccl wheel"):
        nvcc.find_toolchain()


def test_a_source_that_does_not_compile_leaves_no_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    try:
        nvcc.find_toolchain()
    except nvcc.CompilerMissing as missing:
        pytest.skip(str(missing))
    (tmp_path / "broken.cu").write_text("not CUDA")
    (tmp_path / "common.cuh").write_text("")
    monkeypatch.setattr(nvcc, "CUDA_DIR", tmp_path)
    cache = tmp_path / "cache"
    with pytest.raises(nvcc.CompileError, match=r"broken\.cu for sm_80 at O3"):
        nvcc.compile_ptx(Source("broken"), "sm_80", "O3", cache)
    assert list(cache.iterdir()) == []


def test_the_name_of_the_ptx_changes_with_a_header_it_includes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        nvcc.find_toolchain()
    except nvcc.CompilerMissing as missing:
        pytest.skip(str(missing))
    (tmp_path / "tiny.cu").write_text('#include "common.cuh"\nextern "C" __global__ void k(T *p) { *p = 1; }\n')
    monkeypatch.setattr(nvcc, "CUDA_DIR", tmp_path)
    names = []
    for text in ("typedef int T;", "typedef double T;"):
        (tmp_path / "common.cuh").write_text(text)
        path = nvcc.compile_ptx(Source("tiny"), "sm_80", "O3", tmp_path / "cache")
        assert path == nvcc.compile_ptx(Source("tiny"), "sm_80", "O3", tmp_path / "cache")
        names.append(path.name)
    assert names[0] != names[1]
