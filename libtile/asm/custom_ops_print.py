# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Custom forms that are written by hand: ops whose format in the spec is `custom`.

`PRINTERS` is the table; a printer writes what follows the op's name. How such ops are read is in `custom_ops`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from libtile.asm.custom_directives_print import IMPLICIT, print_control_flow_region
from libtile.asm.custom_views_print import VIEW_PRINTERS
from libtile.dialects.cuda_tile.forms import (
    OptimizationHintsAttr,
    PointerType,
    TensorViewType,
    TileType,
)
from libtile.dialects.cuda_tile.op_forms import SEGMENTS
from libtile.dialects.cuda_tile.type_forms import DYNAMIC, signature_text
from libtile.ir.forms import Attribute, FunctionType, SSAValue, StringAttr
from libtile.ir.strings import symbol_text

if TYPE_CHECKING:
    from libtile.asm.printer import Printer
    from libtile.dialects.cuda_tile.forms import CudaTileOp


PrintOp = Callable[["Printer", "CudaTileOp"], None]


def _print_function(p: Printer, op: CudaTileOp, *, hints: bool) -> None:
    name, function_type = op.properties["sym_name"], op.properties["function_type"]
    assert isinstance(name, StringAttr) and isinstance(function_type, FunctionType)  # `printable` has checked it
    p.write(f" {symbol_text(name.data)}")
    body = op.regions[0]
    p.argument_list(body.block.args)
    results = [p.type(t) for t in function_type.outputs.data]
    if results:
        p.write(" -> " + (results[0] if len(results) == 1 else f"({', '.join(results)})"))
    hint = op.properties.get("optimization_hints")
    if hints and isinstance(hint, OptimizationHintsAttr) and hint.data:
        p.write(" optimization_hints=" + hint.body())
    p.write(" ")
    p.region(body, arguments=False, empty_block=False)
    elided = {"sym_name", "function_type", "arg_attrs", "res_attrs", *(("optimization_hints",) if hints else ())}
    p.attribute_dict(op, elided)


def _iter_values(p: Printer, arguments: Sequence[SSAValue[Any]], values: Sequence[SSAValue[Any]]) -> str:
    pairs = (f"{p.value(a)} = {p.value(v)}" for a, v in zip(arguments, values))
    return f"iter_values({', '.join(pairs)})"


def _print_for(p: Printer, op: CudaTileOp) -> None:
    region = op.regions[0]
    induction, *carried = region.block.args
    lower, upper, step, *initial = op.operands
    unsigned = " unsigned" if "unsignedCmp" in op.properties else ""
    p.write(
        f"{unsigned} {p.value(induction)} in ({p.value(lower)} to {p.value(upper)}, step {p.value(step)}) : "
        f"{p.type(induction.type)} "
    )
    if initial:
        p.write(f"{_iter_values(p, carried, initial)} -> ({p.types(initial)}) ")
    print_control_flow_region(p, region, IMPLICIT["for"])
    p.attribute_dict(op, {"unsignedCmp"})


def _print_loop(p: Printer, op: CudaTileOp) -> None:
    region = op.regions[0]
    initial = tuple(op.operands)
    results = op.results
    p.write(" ")
    if initial:
        p.write(_iter_values(p, region.block.args, initial) + " ")
    if initial or results:
        p.write(": ")
    if initial:
        p.write(p.types(initial) + " " + ("-> " if results else ""))
    if results:
        p.write(p.types(results) + " ")
    print_control_flow_region(p, region, IMPLICIT["loop"])
    p.attribute_dict(op, set())


def _print_shape_query(p: Printer, op: CudaTileOp) -> None:
    source = op.operand("src")
    result = op.results[0].type  # there is one: see `printable`
    p.write(f" {p.value(source)} : {p.type(source.type)} -> {p.type(result)}")


def _is_plain_pointer(type_: Attribute, pointee: Attribute) -> bool:
    """Whether a type is that of one address of such elements, without more said of it."""
    if not isinstance(type_, TileType) or type_.rank or not isinstance(type_.element_type, PointerType):
        return False
    return type_.element_type.pointee == pointee and type_.element_type.ptr_attr is None


def _print_make_tensor_view(p: Printer, op: CudaTileOp) -> None:
    view = op.results[0].type
    assert isinstance(view, TensorViewType)  # `printable` has checked it
    base, *_ = op.operands
    shape_values, stride_values = op.operand_group("dynamicShape"), op.operand_group("dynamicStrides")

    def mixed(extents: Sequence[int], values: Sequence[SSAValue[Any]]) -> str:
        rest = iter(values)
        return ", ".join(p.value(next(rest)) if e == DYNAMIC else str(e) for e in extents)

    p.write(
        f" {p.value(base)}, shape = [{mixed(view.shape, shape_values)}], "
        f"strides = [{mixed(view.strides, stride_values)}]"
    )
    p.attribute_dict(op, {SEGMENTS})
    types = []
    if not _is_plain_pointer(base.type, view.element_type):
        types.append(p.type(base.type))
    if shape_values or stride_values:
        types.append(p.type((*shape_values, *stride_values)[0].type))
    p.write(" : " + (", ".join(types) + " -> " if types else "") + p.type(view))


def _print_make_view(p: Printer, op: CudaTileOp) -> None:
    p.write(f" {p.value(op.operand('tensor_view'))}")
    p.attribute_dict(op, set())
    p.write(f" : {p.type(op.results[0].type)}")


def _print_call(p: Printer, op: CudaTileOp) -> None:
    p.write(f" {p.attribute(op.properties['callee'])}({', '.join(map(p.value, op.operands))})")
    p.attribute_dict(op, {"callee", "const_args"})
    p.write(f" : {signature_text([v.type for v in op.operands], [v.type for v in op.results])}")


PRINTERS: dict[str, PrintOp] = {
    "entry": partial(_print_function, hints=True),
    "testing$func": partial(_print_function, hints=False),
    "for": _print_for,
    "loop": _print_loop,
    "get_index_space_shape": _print_shape_query,
    "get_tensor_shape": _print_shape_query,
    "make_tensor_view": _print_make_tensor_view,
    "make_partition_view": _print_make_view,
    "make_strided_view": _print_make_view,
    "make_gather_scatter_view": _print_make_view,
    "preview$call": _print_call,
    **VIEW_PRINTERS,
}
