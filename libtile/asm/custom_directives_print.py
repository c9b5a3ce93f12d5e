# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The `custom<Name>(...)` directives of formats: for each name how it is written. See `custom_directives`.

A name that is not in the table is that of a subset of an enum in the spec.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from libtile.asm.format import Custom, custom_attribute, custom_region
from libtile.dialects.cuda_tile.attribute_text import elements_text
from libtile.dialects.cuda_tile.forms import CudaTileAttribute, DenseElementsAttr, EnumAttr
from libtile.dialects.cuda_tile.type_forms import NUMBER_NAMES, type_text
from libtile.ir.forms import Operation, Region
from libtile.spec import OpSpec

if TYPE_CHECKING:
    from libtile.asm.format_print import Groups
    from libtile.asm.printer import Printer
    from libtile.dialects.cuda_tile.forms import CudaTileOp


PrintStep = Callable[["Printer", "CudaTileOp", "Groups"], None]


def _keyword_printer(element: Custom, op: OpSpec) -> PrintStep:
    name = custom_attribute(element).spec.name

    def write(p: Printer, o: CudaTileOp, g: Groups) -> None:
        p.write(str(o.attribute_value(name)))

    return write


def subset_printer(element: Custom, op: OpSpec) -> PrintStep:
    """The other way round; what is left out is told by the attribute's own declaration."""
    name = custom_attribute(element).spec.name

    def write(p: Printer, o: CudaTileOp, g: Groups) -> None:
        found = o.properties.get(name)
        if isinstance(found, EnumAttr) and found.keyword != found.spec.subsets[element.name].default:
            p.write(found.text())

    return write


def _print_predicate(element: Custom, op: OpSpec) -> PrintStep:
    name = custom_attribute(element).spec.name

    def write(p: Printer, o: CudaTileOp, g: Groups) -> None:
        predicate = o.properties[name]
        p.write(predicate.text() if isinstance(predicate, CudaTileAttribute) else p.attribute(predicate))

    return write


def _print_visibility(element: Custom, op: OpSpec) -> PrintStep:
    name = custom_attribute(element).spec.name

    def write(p: Printer, o: CudaTileOp, g: Groups) -> None:
        visibility = o.attribute_value(name)
        if visibility != "public":
            p.write(f"{visibility} ")

    return write


def _print_constant(element: Custom, op: OpSpec) -> PrintStep:
    name = custom_attribute(element).spec.name

    def write(p: Printer, o: CudaTileOp, g: Groups) -> None:
        value = o.properties[name]
        assert isinstance(value, DenseElementsAttr)  # `printable` has checked it
        element_name = NUMBER_NAMES[value.type.element_type]
        p.write(f"<{element_name}: {elements_text(value)}> : {type_text(value.type)}")

    return write


def print_control_flow_region(p: Printer, region: Region, implicit: str) -> None:
    """A region without its arguments, and without a terminator that text may leave out."""
    p.region(region, arguments=False, terminators=implied_terminator(region, implicit) is None)


def implied_terminator(region: Region, implicit: str) -> Operation | None:
    """The terminator of a region's last block, if text that leaves it out means just this op."""
    last = region.last_block.last_op if region.last_block is not None else None
    if last is None or last.name != "cuda_tile." + implicit or last.operands or last.attributes:
        return None
    return last


IMPLICIT = {"if": "yield", "for": "continue", "loop": "continue"}
"""The terminator that text may leave out, by op."""


def _print_if_region(element: Custom, op: OpSpec) -> PrintStep:
    index = op.regions.index(custom_region(element).name)

    def write(p: Printer, o: CudaTileOp, g: Groups) -> None:
        print_control_flow_region(p, o.regions[index], IMPLICIT["if"])

    return write


def _print_argument_region(element: Custom, op: OpSpec) -> PrintStep:
    index = op.regions.index(custom_region(element).name)

    def write(p: Printer, o: CudaTileOp, g: Groups) -> None:
        region = o.regions[index]
        p.newline()
        p.argument_list(region.block.args)
        p.write(" ")
        p.region(region, arguments=False)

    return write


PRINTERS: dict[str, Callable[[Custom, OpSpec], PrintStep]] = {
    "Signedness": _keyword_printer,
    "ComparisonPredicate": _keyword_printer,
    "ComparisonOrdering": _keyword_printer,
    "AssumePredicate": _print_predicate,
    "SymbolVisibility": _print_visibility,
    "DenseTypedElementsAttr": _print_constant,
    "DenseTypedElementsAttrNoResult": _print_constant,
    "IfOpRegion": _print_if_region,
    "ArgumentRegion": _print_argument_region,
}
