# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Fixtures of the simulator's tests: the CUDA corpus as parsed PTX."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from .cuda_cases.table import Source
from .nvcc import CompilerMissing, compile_ptx, find_toolchain


@pytest.fixture(scope="session")
def corpus_ptx(request: pytest.FixtureRequest) -> Callable[[Source, str, str], Path]:
    """Compiles (source, arch, level) to a PTX file, kept in pytest's cache directory between runs."""
    try:
        find_toolchain()
    except CompilerMissing as missing:
        pytest.skip(f"the CUDA corpus needs nvcc: {missing}")
    folder = Path(cache.mkdir("cuda_corpus")) if (cache := getattr(request.config, "cache", None)) else None
    if folder is None:
        pytest.skip("pytest's cache is off (-p no:cacheprovider); the CUDA corpus keeps its PTX there")
    return lambda source, arch, level: compile_ptx(source, arch, level, folder)


@pytest.fixture(scope="session")
def corpus_module(corpus_ptx: Callable[[Source, str, str], Path]) -> Callable[[Source, str, str], object]:
    """Parsed modules of the corpus, one per (source, arch, level)."""
    from libtile.simulator import parse_ptx

    @cache
    def parsed(source: Source, arch: str, level: str) -> object:
        return parse_ptx(corpus_ptx(source, arch, level).read_text())

    return parsed
