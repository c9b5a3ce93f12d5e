# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Rules of `reduce` and `scan`: operands, identities and the body (Tile IR specification, group Core)."""

from __future__ import annotations

from libtile.dialects.cuda_tile.forms import CudaTileOp, TileType
from libtile.dialects.cuda_tile.source_location import source_location
from libtile.dialects.cuda_tile.type_forms import NUMBER_NAMES
from libtile.dialects.cuda_tile.verify.report import (
    Report,
    Violation,
    fail,
    op_name,
    quoted,
    quoted_list,
    region_rule,
    rule,
)
from libtile.dialects.cuda_tile.verify.tiles import tile
from libtile.ir.forms import ArrayAttr, Attribute, Block, Operation
from libtile.support.diagnostics import error

_HALVES = ("f16", "bf16")


@rule("reduce", "scan")
def aggregate(op: CudaTileOp, report: Report) -> None:
    count = len(op._operands)
    if not count:
        fail(op, "expect at least 1 operand")
    if count != len(op.results):
        fail(op, "expect same number of operands and results")
    _identities(op)
    dim, rank = op.attribute_value("dim"), tile(op._operands[0]).rank
    if not 0 <= dim < rank:
        fail(op, f"dimension ({dim}) is out of bound [0, {rank})")
    if op.spec.name == "scan":
        for index, (operand, result) in enumerate(zip(op._operands, op.results)):
            if operand.type != result.type:
                fail(op, f"expect same type for operand at index: {index} and result at index: {index}")


def _identities(op: CudaTileOp) -> None:
    identities = op.properties["identities"]
    values = identities.data if isinstance(identities, ArrayAttr) else ()
    if len(values) != len(op._operands):
        fail(
            op,
            "expect identities to match the number of operands but got: "
            f"{len(op._operands)} operands and {len(values)} identities",
        )
    for index, (operand, identity) in enumerate(zip(op._operands, values)):
        element, type_ = tile(operand).element_type, getattr(identity, "type", None)
        if not isinstance(type_, Attribute):
            fail(op, f"expect a typed identity at index: {index}")
        if type_ == element or all(NUMBER_NAMES.get(t) in _HALVES for t in (element, type_)):
            continue
        fail(
            op,
            f"expect same type for operand at index: {index} and identity at index: {index} "
            f"but got: {quoted(element)} and {quoted(type_)}",
        )


@region_rule("reduce", "scan")
def aggregate_body(op: CudaTileOp, report: Report) -> None:
    _inferred_results(op)
    block = op.regions[0].blocks[0]
    _arguments(op, block)
    _terminator(op, block)
    _only_pure_ops(op, block)


def _inferred_results(op: CudaTileOp) -> None:
    """The result types follow from the operands: a reduction drops the dimension."""
    dim = op.attribute_value("dim")
    inferred: list[Attribute] = []
    for operand in op._operands:
        type_ = tile(operand)
        if op.spec.name == "reduce":
            type_ = type(type_)((*type_.shape[:dim], *type_.shape[dim + 1 :]), type_.element_type)
        inferred.append(type_)
    results = [r.type for r in op.results]
    if inferred != results:
        message = (
            f"'{op_name(op)}' op inferred type(s) {quoted_list(inferred)} are incompatible with "
            f"return type(s) of operation {quoted_list(results)}"
        )
        violation = Violation(op, f"'{op_name(op)}' op failed to infer returned types")
        violation.preceding.append(error(source_location(op.location), message))
        raise violation


def _arguments(op: CudaTileOp, block: Block) -> None:
    """Two scalars per operand: the accumulated value and the next one."""
    count = 2 * len(op._operands)
    if len(block.args) != count:
        fail(op, f"expect {count} block arguments but got: {len(block.args)}")
    elements: list[Attribute] = []
    for index, arg in enumerate(block.args):
        if not isinstance(arg.type, TileType) or arg.type.rank:
            fail(op, f"expect 0-rank tile type at index: {index} but got: {quoted(arg.type)}")
        elements.append(arg.type.element_type)
    for index in range(0, count, 2):
        if elements[index] != elements[index + 1]:
            fail(
                op,
                f"expect same element type for block argument at index: {index} and {index + 1} "
                f"but got: {quoted(elements[index])} and {quoted(elements[index + 1])}",
            )
    for index, operand in enumerate(op._operands):
        element = tile(operand).element_type
        if element != elements[2 * index]:
            fail(
                op,
                f"expect same type for operand at index: {index} and block argument at index: {2 * index} "
                f"but got: {quoted(element)} and {quoted(elements[2 * index])}",
            )


def _terminator(op: CudaTileOp, block: Block) -> None:
    last = block.last_op
    yielded = last._operands if last is not None else ()
    if len(yielded) != len(op._operands):
        fail(
            op,
            f"expect number of terminators operands ({len(yielded)}) to match number of operands ({len(op._operands)})",
        )
    for index, (operand, value) in enumerate(zip(op._operands, yielded)):
        if not isinstance(value.type, TileType):
            fail(
                op,
                "expected TileType for operand and terminator types but got: "
                f"{quoted(operand.type)} and {quoted(value.type)}",
            )
        element, found = tile(operand).element_type, value.type.element_type
        if element != found:
            fail(
                op,
                f"expect same type for operand at index: {index} and terminator argument at index: {index} "
                f"but got: {quoted(element)} and {quoted(found)}",
            )


def _only_pure_ops(op: CudaTileOp, block: Block) -> None:
    for inner in block.ops:
        if inner is not block.last_op and not is_pure(inner):
            fail(inner, f"only pure operations are allowed inside '{op_name(op)}'")


def is_pure(op: Operation) -> bool:
    """Whether the op has no effect on memory. An op with regions has none when all ops inside have none.

    Integer division counts as pure here, as in the reference of 13.5: undefined behaviour is no effect on memory.
    """
    pending = [op]
    while pending:
        current = pending.pop()
        if not isinstance(current, CudaTileOp):
            return False
        spec = current.spec
        if spec.has_trait("recursive_memory_effects"):
            pending.extend(inner for region in current.regions for block in region.blocks for inner in block.ops)
        elif not (spec.has_trait("pure") or spec.has_trait("no_memory_effect")):
            return False
    return True
