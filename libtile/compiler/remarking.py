# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The remarks of a compilation, read off the module in nv_tileas: which instructions products and accesses became."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Operation, SSAValue

from libtile.atoms.mma_layouts import ptx_type
from libtile.codegen.shared_tiles import WORD_BYTES
from libtile.compiler.access_remarks import load_remarks, width_remarks
from libtile.compiler.tensor_map_remarks import REDUCTION, tensor_map_remarks
from libtile.dialects.cuda_tile.locations import source_location, without_source_line
from libtile.dialects.nv_tileaa.functions import FuncOp
from libtile.layouts import REGISTER
from libtile.lowering.index_width import NARROW, index_bits
from libtile.lowering.tileas.schedule import NOT_PIPELINED
from libtile.lowering.to_tileas.products import SCALED_DOT, Products, element_of
from libtile.lowering.to_tileas.types import layout_of
from libtile.numerics.elements import STORAGE_BYTES
from libtile.support import remarks
from libtile.support.diagnostics import SourceLocation
from libtile.targets import MmaAtom, Target

LOADS = ("nv_tileas.tiled_load", "nv_tileas.load")
ASYNCHRONOUS_LOADS = ("nv_tileas.async.tiled_load", "nv_tileas.async.load")
DOT = "nv_tileas.dot"
STORES = ("nv_tileas.tiled_store", "nv_tileas.store")


def collect(module: ModuleOp, target: Target) -> list[remarks.Remark]:
    """The remarks of all kernels of a module, in the order of the program; each once, however many copies an op has."""
    found: dict[remarks.Remark, None] = {}
    for op in module.body.block.ops:
        if isinstance(op, FuncOp) and op.kernel_spec is not None:
            products = Products(target, op.kernel_spec.num_warps)
            if _holds_too_much(op, target):
                found[remarks.register_pressure(op.sym_name.data, source_location(op.location))] = None
            for inner in op.walk():
                place = source_location(inner.location)
                found.update(dict.fromkeys(_of(inner, op.sym_name.data, place, products)))
    return list(found)


def _holds_too_much(function: FuncOp, target: Target) -> bool:
    """Whether the accumulator of some product alone takes more registers than a thread can have."""
    for op in function.walk():
        if op.name in (DOT, SCALED_DOT):
            registers = layout_of(op.operands[2]).in_size(REGISTER)
            if registers * STORAGE_BYTES[element_of(op.operands[2])] // WORD_BYTES > target.registers_per_thread:
                return True
    return False


def _of(op: Operation, function: str, place: SourceLocation | None, products: Products) -> Iterator[remarks.Remark]:
    if op.name in (*LOADS, *ASYNCHRONOUS_LOADS, *STORES, REDUCTION) and products.gpu.has("tma"):
        yield from tensor_map_remarks(op, function, place, store=op.name in (*STORES, REDUCTION))
    if op.name in LOADS:
        yield from load_remarks(op, function, place)
        if isinstance(reason := op.attributes.get(NOT_PIPELINED), StringAttr):
            yield remarks.load_not_pipelined(function, place, reason.data)
    elif op.name in ASYNCHRONOUS_LOADS:
        yield from load_remarks(op, function, place)
    elif op.name in STORES:
        yield remarks.store_selected(function, place)
        yield from width_remarks(op, function, place)
    elif op.name in (DOT, SCALED_DOT):
        yield from _of_product(op, function, place, products)
    elif op.name == "nv_tileaa.make_memref" and (bits := index_bits(op)) > NARROW:
        yield remarks.index_not_narrowed(function, place, bits)


def _of_product(
    op: Operation, function: str, place: SourceLocation | None, products: Products
) -> Iterator[remarks.Remark]:
    layouts, gpu, scaled = products.emitted(op), products.gpu, op.name == SCALED_DOT
    a, b, c = (_given_element(v, op) for v in op.operands[:3])
    if layouts.atom is None:
        yield remarks.mma_fma(function, place)
        yield remarks.mma_not_native(function, place, f"{gpu.name} has none for {a} and {b} into {c}")
        return
    executed = gpu.executed(layouts.atom)
    shape = (executed.m, executed.n, executed.k)
    yield remarks.mma_tensor_core(function, place, f"Tensor-core SM{executed.since}", shape)
    element = layouts.a_element if (layouts.a_element, layouts.b_element) != (a, b) else ""
    if converted := _converted_to(layouts.atom, executed, element):
        yield remarks.mma_not_native(function, place, f"{_lacking(gpu, a, b, scaled)}: {converted}")
    if layouts.busy_warps < products.warps:
        yield remarks.mma_idle_warps(function, place, layouts.busy_warps, products.warps)


def _converted_to(atom: MmaAtom, executed: MmaAtom, element: str) -> str:
    """What becomes of operands that are not multiplied as they are: `element`, if that is given, or by ptxas."""
    if not element and (executed.a, executed.b) == (atom.a, atom.b):
        return ""
    return f"they are converted to {element or executed.a} first"


def _lacking(gpu: Target, a: str, b: str, scaled: bool) -> str:
    """That a product has no instruction, or only one that is not generated."""
    unused = gpu.unused_tensor_core(ptx_type(a, signed=True), ptx_type(b, signed=True), scaled=scaled)
    what = f"{a} and {b}{' with scale factors' if scaled else ''}"
    if unused is None:
        return f"{gpu.name} has none for {what}"
    return f"{gpu.name} multiplies {what} by {unused}, which this version of the compiler does not generate"


def _given_element(value: SSAValue, product: Operation) -> str:
    """The element type of a product's operand, before what the compiler converted it to (at the product's location)."""
    source = value.owner
    while isinstance(source, Operation) and source.name in ("nv_tileas.convert_layout", "nv_tileaa.fp_to_fp"):
        if source.name == "nv_tileaa.fp_to_fp":
            if without_source_line(source.location) != without_source_line(product.location):
                break
            value = source.operands[0]
        source = source.operands[0].owner
    return element_of(value)
