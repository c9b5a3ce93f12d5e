# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The remarks of a compilation, read off the module in nv_tileas: which instructions products and accesses became."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects.builtin import ModuleOp, StringAttr, TensorType
from xdsl.ir import Operation, SSAValue

from libtile import remarks
from libtile.diagnostics import SourceLocation
from libtile.dialects.cuda_tile.locations import source_location
from libtile.dialects.cuda_tile.types import NUMBER_NAMES
from libtile.dialects.nv_tileaa.functions import FuncOp
from libtile.lowering.access_remarks import width_remarks
from libtile.lowering.index_width import NARROW, index_bits
from libtile.lowering.tensor_map_remarks import REDUCTION, tensor_map_remarks
from libtile.lowering.tileaa_to_tileas.products import SCALED_DOT, Products
from libtile.lowering.tileaa_to_tileas.schedule import NOT_PIPELINED
from libtile.targets import Target

LOADS = ("nv_tileas.tiled_load", "nv_tileas.load")
ASYNCHRONOUS_LOADS = ("nv_tileas.async.tiled_load", "nv_tileas.async.load")
STORES = ("nv_tileas.tiled_store", "nv_tileas.store")


def collect(module: ModuleOp, target: Target) -> list[remarks.Remark]:
    """The remarks of all kernels of a module, in the order of the program; each once, however many copies an op has."""
    found: dict[remarks.Remark, None] = {}
    for op in module.body.block.ops:
        if isinstance(op, FuncOp) and op.kernel_spec is not None:
            products = Products(target, op.kernel_spec.num_warps)
            for inner in op.walk():
                place = source_location(inner.location)
                found.update(dict.fromkeys(_of(inner, op.sym_name.data, place, products)))
    return list(found)


def _of(op: Operation, function: str, place: SourceLocation | None, products: Products) -> Iterator[remarks.Remark]:
    if op.name in (*LOADS, *ASYNCHRONOUS_LOADS, *STORES, REDUCTION) and products.gpu.has("tma"):
        yield from tensor_map_remarks(op, function, place, store=op.name in (*STORES, REDUCTION))
    if op.name in LOADS:
        yield remarks.load_selected(function, place)
        yield from width_remarks(op, function, place)
        if isinstance(reason := op.attributes.get(NOT_PIPELINED), StringAttr):
            yield remarks.load_not_pipelined(function, place, reason.data)
    elif op.name in ASYNCHRONOUS_LOADS:
        yield remarks.load_selected(function, place, remarks.ASYNC_COPY)
        yield from width_remarks(op, function, place)
    elif op.name in STORES:
        yield remarks.store_selected(function, place)
        yield from width_remarks(op, function, place)
    elif op.name in ("nv_tileas.dot", SCALED_DOT):
        yield from _of_product(op, function, place, products)
    elif op.name == "nv_tileaa.make_memref" and (bits := index_bits(op)) > NARROW:
        yield remarks.index_not_narrowed(function, place, bits)


def _of_product(
    op: Operation, function: str, place: SourceLocation | None, products: Products
) -> Iterator[remarks.Remark]:
    layouts = products.of(op)
    a, b, c = (_given_element(v, op) for v in op.operands[:3])
    atom = layouts.atom
    if atom is None:
        yield remarks.mma_fma(function, place)
        reason = f"{products.gpu.name} has none for {a} and {b} into {c}"
        yield remarks.mma_not_native(function, place, reason)
        return
    generation = "SM89" if layouts.a_element in ("f8E4M3FN", "f8E5M2") else "SM80"
    yield remarks.mma_tensor_core(function, place, f"Tensor-core {generation}", (atom.m, atom.n, atom.k))
    if (layouts.a_element, layouts.b_element) != (a, b):
        reason = f"{products.gpu.name} has none for {a} and {b}: they are converted to {layouts.a_element} first"
        yield remarks.mma_not_native(function, place, reason)
    if layouts.busy_warps < products.warps:
        yield remarks.mma_idle_warps(function, place, layouts.busy_warps, products.warps)


def _given_element(value: SSAValue, product: Operation) -> str:
    """The element type of a product's operand, before what the compiler converted it to (at the product's location)."""
    source = value.owner
    while isinstance(source, Operation) and source.name in ("nv_tileas.convert_layout", "nv_tileaa.fp_to_fp"):
        if source.name == "nv_tileaa.fp_to_fp":
            if source.location != product.location:
                break
            value = source.operands[0]
        source = source.operands[0].owner
    assert isinstance(value.type, TensorType)
    return NUMBER_NAMES[value.type.element_type]
