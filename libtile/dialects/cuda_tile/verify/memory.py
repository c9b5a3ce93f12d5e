# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Rules of the pointer-based memory ops and atomics.

Tile IR specification, sections Memory Model (orderings and scopes) and Operations, groups Memory and Atomics.
"""

from __future__ import annotations

from libtile.dialects.cuda_tile.forms import CudaTileOp, PointerType
from libtile.dialects.cuda_tile.type_forms import NUMBER_NAMES, bit_width, is_float, is_integer
from libtile.dialects.cuda_tile.verify.hints import verify_hints
from libtile.dialects.cuda_tile.verify.report import Report, fail, quoted, rule
from libtile.dialects.cuda_tile.verify.tiles import tile
from libtile.ir.forms import Attribute

_SYNCHRONIZING = {"load": "acquire", "store": "release"}


def verify_ordering(op: CudaTileOp, kind: str) -> None:
    """Orderings that a load or a store may have, and the scope that goes with each.

    A load is weak, relaxed or acquire, a store weak, relaxed or release; a weak access has no scope, others need one.
    """
    ordering, scope = op.attribute_value("memory_ordering_semantics"), op.attribute_value("memory_scope")
    synchronizing = _SYNCHRONIZING[kind]
    if ordering not in ("weak", "relaxed", synchronizing):
        fail(op, f"expect one of: weak, relaxed, or {synchronizing}, but got: {ordering}")
    if ordering == "weak" and scope is not None:
        fail(op, f"weak {kind} must not have memory scope")
    if ordering != "weak" and scope is None:
        fail(op, f"memory scope is required for {ordering} {kind}")


def pointer_element(op: CudaTileOp, index: int = 0) -> PointerType:
    """The pointer type of an operand that is declared as a tile of pointers."""
    element = tile(op._operands[index]).element_type
    if not isinstance(element, PointerType):
        fail(op, f"expected pointer element type, got {quoted(element)}")
    return element


def _no_multicast(op: CudaTileOp) -> None:
    """A multicast address is only accessed through a view, by the multimem ops."""
    if pointer_element(op).ptr_attr == "multicast":
        fail(op, "multicast pointer is not allowed")


@rule("load_ptr_tko")
def load_ptr(op: CudaTileOp, report: Report) -> None:
    verify_hints(op, report)
    _no_multicast(op)
    verify_ordering(op, "load")


@rule("store_ptr_tko")
def store_ptr(op: CudaTileOp, report: Report) -> None:
    verify_hints(op, report)
    _no_multicast(op)
    verify_ordering(op, "store")


@rule("join_tokens")
def join_tokens(op: CudaTileOp, report: Report) -> None:
    if len(op._operands) < 2:
        fail(op, "expect two or more tokens")


@rule("alloca")
def alloca(op: CudaTileOp, report: Report) -> None:
    alignment = op.attribute_value("alignment")
    if alignment <= 0 or alignment & (alignment - 1):
        fail(op, "'alignment' must be power of two")
    element = tile(op.results[0]).element_type
    pointee = element.pointee if isinstance(element, PointerType) else element
    width = bit_width(pointee)
    size = (width + 7) // 8
    if alignment < size:
        fail(
            op,
            f"'alignment' ({alignment}) must be at least the natural size ({size} bytes) "
            f"for element type {quoted(pointee)}",
        )


# -- atomics --------------------------------------------------------------------------------------------------------


def verify_rmw_mode(op: CudaTileOp, element: Attribute) -> None:
    """Element types that each modification works on."""
    mode = op.attribute_value("mode")
    name = NUMBER_NAMES.get(element, "")
    if mode == "addf":
        if name not in ("f16", "bf16", "f32", "f64"):
            fail(op, f"'{mode}' works only with floats f16, bf16, f32, and f64")
    elif mode == "xchg":
        if not name or bit_width(element) not in (32, 64):
            fail(op, f"'{mode}' works only with integers or float of 32 or 64 bitwidth")
    elif name not in ("i32", "i64"):
        fail(op, f"'{mode}' works only with integers i32 and i64")


def _atomic_ordering(op: CudaTileOp) -> None:
    if op.attribute_value("memory_ordering_semantics") == "weak":
        fail(op, "memory ordering semantics must be one of: relaxed, acquire, release, acq_rel")


def _mask_shape(op: CudaTileOp, value: str, message: str) -> None:
    mask = next(iter(op.operand_group("mask")), None)
    if mask is not None and tile(mask).shape != tile(op.operand_group(value)[0]).shape:
        fail(op, f"failed to verify that all of {{{message}}} have same shape")


def _pointee(op: CudaTileOp, value: str) -> Attribute:
    """The element type of operand `value`, which the pointers must point to."""
    pointee = pointer_element(op).pointee
    element = tile(op.operand_group(value)[0]).element_type
    if pointee != element:
        fail(op, f"expected pointee type ({quoted(pointee)}) to match element type of '{value}' ({quoted(element)})")
    return element


@rule("atomic_rmw_tko")
def atomic_rmw(op: CudaTileOp, report: Report) -> None:
    if pointer_element(op).ptr_attr == "multicast":
        fail(op, "multicast pointer is not supported for atomic_rmw")
    element = _pointee(op, "arg")
    _mask_shape(op, "arg", "pointers, arg, mask")
    verify_rmw_mode(op, element)
    _atomic_ordering(op)


@rule("atomic_cas_tko")
def atomic_cas(op: CudaTileOp, report: Report) -> None:
    if pointer_element(op).ptr_attr == "multicast":
        fail(op, "multicast pointer is not supported for atomic_cas")
    element = _pointee(op, "val")
    if not (is_float(element) or is_integer(element)) or bit_width(element) not in (32, 64):
        fail(op, "expect only float or integer types with 32 or 64 bit")
    _mask_shape(op, "val", "pointers, val, cmp and mask")
    _atomic_ordering(op)
