# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How the ops that access memory through a view are written. See `custom_views` for how they are read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from libtile.dialects.cuda_tile.attribute_text import dense_array_values
from libtile.dialects.cuda_tile.forms import EnumAttr, OptimizationHintsAttr
from libtile.dialects.cuda_tile.op_forms import SEGMENTS
from libtile.ir.forms import Attribute, DenseArrayBase, SSAValue

if TYPE_CHECKING:
    from libtile.asm.printer import Printer
    from libtile.dialects.cuda_tile.forms import CudaTileOp


def _memory_text(op: CudaTileOp) -> str:
    ordering = op.attribute_value("memory_ordering_semantics")
    scope = op.attribute_value("memory_scope")
    return f" {ordering}" + (f" {scope}" if scope else "")


def _group(op: CudaTileOp, name: str) -> tuple[SSAValue[Any], ...]:
    return op.operand_group(name)


def _indices(p: Printer, op: CudaTileOp) -> str:
    return f"[{', '.join(map(p.value, _group(op, 'index')))}]"


def _inbounds_text(op: CudaTileOp) -> str:
    """The flags, unless all are false (which is the default)."""
    flags = op.properties.get("inbounds")
    if isinstance(flags, DenseArrayBase) and any(flags.get_values()):
        return f"inbounds = [{dense_array_values(flags)}]"
    return ""


def _token_text(p: Printer, op: CudaTileOp) -> str:
    token = _group(op, "token")
    return f" token = {p.value(token[0])}" if token else ""


def _options_text(p: Printer, op: CudaTileOp) -> str:
    text = _token_text(p, op)
    hints = op.properties.get("optimization_hints")
    if isinstance(hints, OptimizationHintsAttr):
        text += f" optimization_hints = {hints.body()}"
    inbounds = _inbounds_text(op)
    return text + (f" {inbounds}" if inbounds else "")


_WRITTEN = frozenset({"memory_ordering_semantics", "memory_scope", "optimization_hints", "inbounds", "mode", SEGMENTS})


def _index_types_text(p: Printer, op: CudaTileOp) -> str:
    types = [v.type for v in _group(op, "index")]
    if types and all(t == types[0] for t in types):
        types = types[:1]
    return "".join(f", {p.type(t)}" for t in types)


def _result_types(p: Printer, op: CudaTileOp) -> str:
    return " -> " + p.types(op.results)


def _print_load(p: Printer, op: CudaTileOp) -> None:
    (view,) = _group(op, "view")
    p.write(f"{_memory_text(op)} {p.value(view)}{_indices(p, op)}{_options_text(p, op)}")
    p.attribute_dict(op, _WRITTEN, keyword=True)
    p.write(f" : {p.type(view.type)}{_index_types_text(p, op)}{_result_types(p, op)}")


def _print_store(p: Printer, op: CudaTileOp) -> None:
    (tile,), (view,) = _group(op, "tile"), _group(op, "view")
    p.write(f"{_memory_text(op)} {p.value(tile)}, {p.value(view)}{_indices(p, op)}{_options_text(p, op)}")
    p.attribute_dict(op, _WRITTEN, keyword=True)
    p.write(f" : {p.type(tile.type)}, {p.type(view.type)}{_index_types_text(p, op)}{_result_types(p, op)}")


def _print_atomic(p: Printer, op: CudaTileOp) -> None:
    (view,), (value,) = _group(op, "view"), _group(op, "value")
    mode = op.attribute_value("mode")
    p.write(f"{_memory_text(op)} {p.value(view)}{_indices(p, op)}, {mode}, {p.value(value)}{_options_text(p, op)}")
    p.attribute_dict(op, _WRITTEN, keyword=True)
    p.write(f" : {p.type(value.type)}, {p.type(view.type)}{_index_types_text(p, op)}{_result_types(p, op)}")


def _multimem_tail(p: Printer, op: CudaTileOp, types: Sequence[Attribute]) -> None:
    """Options and types; the flags are a directive of their own, which leaves its space when it writes nothing."""
    p.write(f"{_token_text(p, op)} {_inbounds_text(op)}")
    reduction = op.properties.get("reduction")
    plain = isinstance(reduction, EnumAttr) and reduction.keyword == "add"
    p.attribute_dict(op, _WRITTEN | {"reduction"} if plain else _WRITTEN, keyword=True)
    written = "".join(f"{p.type(t)}, " for t in types)[:-2]
    token = ", token" if _group(op, "token") else ""
    p.write(f" : {written}{_index_types_text(p, op)}{token}{_result_types(p, op)}")


def _print_multimem_load(p: Printer, op: CudaTileOp) -> None:
    (view,) = _group(op, "view")
    p.write(f"{_memory_text(op)} {p.value(view)}{_indices(p, op)}")
    _multimem_tail(p, op, (view.type,))


def _print_multimem_store(p: Printer, op: CudaTileOp) -> None:
    (view,), (tile,) = _group(op, "view"), _group(op, "tile")
    p.write(f"{_memory_text(op)} {p.value(view)}, {p.value(tile)}{_indices(p, op)}")
    _multimem_tail(p, op, (view.type, tile.type))


VIEW_PRINTERS: dict[str, Callable[[Printer, CudaTileOp], None]] = {
    "load_view_tko": _print_load,
    "store_view_tko": _print_store,
    "atomic_red_view_tko": _print_atomic,
    "multimem_load_reduce_view_tko": _print_multimem_load,
    "multimem_reduce_view_tko": _print_multimem_store,
    "multimem_store_view_tko": _print_multimem_store,
}
