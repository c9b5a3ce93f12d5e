# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A cubin of ours lies as the reference's for the driver: parameters (EIATTR_KPARAM_INFO) and where they begin, hidden
parameters behind them, and the host object that fills those.
"""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest

pytest.importorskip("cuda.tile", reason="the kernels are exported by cuTile Python (pip install cuda-tile)")

import libtile
from kernels import corpus
from libtile.backend.cubin import CubinKernel, read_cubin
from oracle.host_objects import reference_compilation

pytestmark = pytest.mark.oracle

HIDDEN = 128
"""Bytes of a hidden parameter, which begins at a multiple of 64 in the constant bank."""
SAMPLE = {
    "sm_90": ("gemm", "attention", "layer_norm", "spin_lock"),
    "sm_100": ("gemm_bf16", "mma_chained"),
    "sm_120": ("gemm_persistent",),
}
"""Kernels that are compared by default: of copies by TMA in and out, of none, and with scalars of several sizes."""


def _cases() -> list[object]:
    return [
        pytest.param(gpu_name, name, marks=() if name in sample else pytest.mark.slow)
        for gpu_name, sample in SAMPLE.items()
        for name, kernel in corpus.KERNELS.items()
        if int(kernel.gpu_code[3:]) <= int(gpu_name[3:]) and (name in sample or "gemm" in name or "attention" in name)
    ]


def _hidden(ptx: str, name: str) -> int:
    header = re.search(r"\.entry\s+" + re.escape(name) + r"\((.*?)\)", ptx, re.DOTALL)
    assert header is not None
    return header[1].count(".hidden")


def _exports(host_object: bytes) -> dict[str, int | None]:
    """The symbols of the two that the driver looks for, with the size of the one that is data."""
    elf = pytest.importorskip("elftools.elf.elffile").ELFFile(io.BytesIO(host_object))
    found = {s.name: s["st_size"] for s in elf.get_section_by_name(".symtab").iter_symbols() if "TILEIR" in s.name}
    return {name: size if name.endswith("CALLBACKS") else None for name, size in found.items()}


def _check_bank(kernel: CubinKernel, sections: dict[str, int], hidden: int) -> None:
    """The constant bank ends behind the last hidden parameter."""
    last = max(kernel.parameters, key=lambda p: p.offset)
    end = kernel.parameters_at + last.offset + last.size
    if hidden:
        end = -(-end // 64) * 64 + HIDDEN * hidden
    assert sections[f".nv.constant0.{kernel.name}"] == end


@pytest.mark.parametrize(("gpu_name", "name"), _cases())
def test_a_cubin_lies_as_the_references(gpu_name: str, name: str, tmp_path: Path) -> None:
    kernel = corpus.KERNELS[name]
    data = corpus.export(kernel, max(version for version in kernel.versions if version <= "13.4"), gpu_name)
    reference = reference_compilation(data, gpu_name, tmp_path)
    made = libtile.compile(data, gpu_name=gpu_name)
    ours, theirs = read_cubin(made.cubin), read_cubin((tmp_path / "k.cubin").read_bytes())
    own, other = ours.kernels[name], theirs.kernels[name]
    assert own.parameters == other.parameters and own.parameters_at == other.parameters_at
    _check_bank(own, ours.sections, _hidden(made.ptx, name))
    _check_bank(other, theirs.sections, _hidden(reference.ptx, name))
    if ours.host_object:
        assert _exports(ours.host_object) == _exports(theirs.host_object)
    assert bool(ours.host_object) == bool(_hidden(made.ptx, name))
