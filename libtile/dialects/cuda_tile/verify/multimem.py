# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Rules of the accesses to multicast objects over several devices.

No public text states them; they are what the reference disassembler of 13.5 accepts and refuses, in its order.
"""

from __future__ import annotations

from libtile.dialects.cuda_tile.forms import CudaTileOp, PartitionViewType, TileType
from libtile.dialects.cuda_tile.type_forms import NUMBER_NAMES, bit_width, is_integer
from libtile.dialects.cuda_tile.verify.memory import verify_ordering
from libtile.dialects.cuda_tile.verify.report import Report, fail, quoted, rule
from libtile.dialects.cuda_tile.verify.views import unit_strides, verify_access, verify_inbounds, view_type
from libtile.ir.forms import Attribute

_FLOATS = ("f16", "bf16", "f32", "f64")
_HALVES = ("f16", "bf16")


def _access(op: CudaTileOp, access_tile: Attribute, reduction: str | None = None) -> None:
    """What the three ops have in common."""
    verify_access(op, access_tile)
    tile = view_type(op).tile_type
    _element_type(op, tile)
    if reduction is not None:
        _reduction(op, NUMBER_NAMES[tile.element_type], reduction, op.spec.name == "multimem_reduce_view_tko")
    _multicast_view(op)
    verify_inbounds(op, op.operand_group("index"))


def _element_type(op: CudaTileOp, tile: TileType) -> None:
    element = tile.element_type
    bits = bit_width(element)
    if is_integer(element):
        if bits not in (32, 64):
            fail(op, f"multimem requires 32- or 64-bit integer/index element types; got {bits} bits")
        return
    if NUMBER_NAMES[element] not in _FLOATS:
        fail(op, "multimem supports only f16, bf16, f32, and f64 floating-point element types")
    total = bits * tile.num_elements
    if total % 32:
        fail(
            op,
            "multimem op requires tile total size to be a multiple of 4 bytes for float element types; "
            f"got {tile.num_elements} element(s) of {bits} bits (total {total} bits)",
        )


def _reduction(op: CudaTileOp, element: str, reduction: str, in_memory: bool) -> None:
    """A reduction in memory can only add floats; one that returns the value also has min and max of halves."""
    if element not in _FLOATS or reduction == "add":
        return
    if reduction not in ("min", "max"):
        fail(op, "and/or/xor/umin/umax reductions require integer element types")
    if in_memory:
        fail(op, "supports only add for floating-point element types")
    if element not in _HALVES:
        fail(op, f"min/max supports f16 and bf16 float types only; got '{element}'")


def _multicast_view(op: CudaTileOp) -> None:
    view = view_type(op)
    ptr_attr = view.tensor_view.ptr_attr or "none"
    if ptr_attr != "multicast":
        fail(op, f"expected a multicast pointer, but got {ptr_attr}")
    if not isinstance(view, PartitionViewType):
        fail(op, f"multimem view operations support only partition_view; got {quoted(view)}")
    units = unit_strides(view.tensor_view)
    if NUMBER_NAMES[view.tensor_view.element_type] in _HALVES and len(units) != 1:
        fail(
            op,
            "f16/bf16 multimem views must have exactly one element stride statically known to equal 1; "
            f"got {len(units)}",
        )


@rule("multimem_load_reduce_view_tko")
def load_reduce(op: CudaTileOp, report: Report) -> None:
    _access(op, op.results[0].type, op.attribute_value("reduction"))
    verify_ordering(op, "load")


@rule("multimem_reduce_view_tko")
def reduce(op: CudaTileOp, report: Report) -> None:
    _access(op, op.operand_group("tile")[0].type, op.attribute_value("reduction"))
    if op.attribute_value("memory_ordering_semantics") not in ("relaxed", "release"):
        fail(op, "memory ordering semantics must be one of: relaxed, release")


@rule("multimem_store_view_tko")
def store(op: CudaTileOp, report: Report) -> None:
    _access(op, op.operand_group("tile")[0].type)
    verify_ordering(op, "store")
