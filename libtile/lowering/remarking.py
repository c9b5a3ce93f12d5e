# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The remarks of a compilation, read off the module in nv_tileas: which instructions products and accesses became."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from libtile import remarks
from libtile.diagnostics import SourceLocation
from libtile.dialects.cuda_tile.locations import source_location
from libtile.dialects.nv_tileaa.functions import FuncOp
from libtile.lowering.index_width import NARROW, index_bits
from libtile.lowering.tileaa_to_tileas.products import Products
from libtile.targets import Target


def collect(module: ModuleOp, target: Target) -> list[remarks.Remark]:
    """The remarks of all kernels of a module, in the order of the program."""
    found: list[remarks.Remark] = []
    for op in module.body.block.ops:
        if isinstance(op, FuncOp) and op.kernel_spec is not None:
            products = Products(target, op.kernel_spec.num_warps)
            for inner in op.walk():
                found += _of(inner, op.sym_name.data, products)
    return found


def _of(op: Operation, function: str, products: Products) -> Iterator[remarks.Remark]:
    place: SourceLocation | None = source_location(op.location)
    match op.name:
        case "nv_tileas.dot":
            atom = products.atom(op)
            if atom is None:
                yield remarks.mma_fma(function, place)
            else:
                yield remarks.mma_tensor_core(function, place, "Tensor-core SM80", (atom.m, atom.n, atom.k))
        case "nv_tileas.tiled_load":
            yield remarks.load_selected(function, place)
        case "nv_tileas.tiled_store":
            yield remarks.store_selected(function, place)
        case "nv_tileaa.make_memref":
            if (bits := index_bits(op)) > NARROW:
                yield remarks.index_not_narrowed(function, place, bits)
