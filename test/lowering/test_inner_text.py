# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What each step of the lowering leaves verifies, and reads as it is printed: cuda-tile-opt can be given any of it."""

from __future__ import annotations

import numpy as np
import pytest

import libtile

pytest.importorskip("cuda.tile", reason="the cuTile frontend (cuda-tile) is not installed")

from kernels import corpus
from libtile.asm import parse, print_op
from libtile.asm.module import Module, diagnose, load
from libtile.compiler.options import Options
from libtile.compiler.stages import lower

FEW = (
    "atomic_view_add_f16", "atomic_view_add_f32", "cast_f32_to_f8e5m3fnu", "gather_rows", "matmul_f16", "mma_chained",
    "mma_scaled_f4_f8e8m0fnu_16", "ordered_views", "scatter_rows", "softmax", "vector_add",
)  # fmt: skip
"""Kernels with ops of every family: view accesses of all kinds, products, loops, reductions, conversions."""


class Texts:
    """Keeps what each pass left behind."""

    def __init__(self) -> None:
        self.found: dict[str, str] = {}

    def __call__(self, name: str, module: object) -> None:
        self.found[name] = print_op(module)


def check(kernel: corpus.Kernel) -> None:
    texts = Texts()
    module = Module(load(corpus.export(kernel, kernel.versions[-1]))).tile_module
    lower(module, Options(kernel.gpu_code, emit="tileas"), observer=texts)
    several = {text: name for name, text in reversed(texts.found.items())}  # the first pass behind which it is so
    for text, name in several.items():
        module = parse(text)
        assert diagnose(module) == [], f"behind {name}"
        assert print_op(module) == text, f"behind {name}"
        assert print_op(parse(print_op(module, generic=True))) == text, f"behind {name}, by the generic form"


@pytest.mark.parametrize("name", [name for name in FEW if name in corpus.KERNELS])
def test_every_step_leaves_valid_text(name: str) -> None:
    check(corpus.KERNELS[name])


@pytest.mark.slow
@pytest.mark.parametrize("kernel", corpus.KERNELS.values(), ids=lambda k: k.name)
def test_every_step_leaves_valid_text_of_every_kernel(kernel: corpus.Kernel) -> None:
    check(kernel)


@pytest.mark.parametrize("stage", ["tileaa", "tileas"])
def test_memory_of_no_elements_is_allowed_at_each_stage(stage):
    """`alloca` of Tile IR takes a count of 0; what its lowering prints is read again."""
    text = """cuda_tile.module @m { entry @k(%o: tile<ptr<i64>>) {
      %p = alloca num_elem = 0, alignment = 16 : tile<ptr<f32>>
      %q = ptr_to_int %p : tile<ptr<f32>> -> tile<i64>
      %t = store_ptr_tko weak %o, %q : tile<ptr<i64>>, tile<i64> -> token
      return } }"""
    made = libtile.parse(getattr(libtile.compile(text.encode(), emit=stage), stage))
    libtile.verify(made)
    out = np.zeros(1, np.int64)
    libtile.run(made, "k", args=[out])
    assert out[0]


def test_storage_of_indices_is_that_of_64_bits():
    text = """nv_tileaa.func @k() attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1>} {
      %t = nv_tileas.alloc_tensor : !nv_tileas.buffer<1x128x16xELEMENT, tmem>
      nv_tileas.dealloc_tensor %t : !nv_tileas.buffer<1x128x16xELEMENT, tmem>
      nv_tileaa.return }"""
    made = [
        libtile.compile(libtile.parse(text.replace("ELEMENT", e)), "sm_100", emit="ptx").ptx for e in ("index", "i64")
    ]
    assert made[0] == made[1] and "tcgen05.alloc" in made[0]


def test_an_atom_of_indices_is_looked_at_as_one_of_64_bits():
    text = """nv_tileaa.func @k(%i: index, %v: !nv_tileaa.tiled_view<!nv_tileaa.memref<?xindex, 1>, 8>) {
      %x = nv_tileas.tiled_load %v[%i] {atom = #nv_tileas.copy_atom<ldg, bits=32, dim=0>}
        : !nv_tileaa.tiled_view<!nv_tileaa.memref<?xindex, 1>, 8>, index -> tile<8xindex>
      nv_tileaa.return }"""
    with pytest.raises(libtile.LibtileError, match="elements of 64 bits"):
        libtile.verify(libtile.parse(text))
