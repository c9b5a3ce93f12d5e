# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`propagate-pipeline-iterators`: what is derived from a pipeline has the type that the pipeline says.

An iterator holds its pipeline's type, and a token the types of its stages, wherever control flow takes them: through
what `scf.for` and `scf.while` carry, what `scf.if` gives, and what the regions of turns yield. A pass that changes a
pipeline's type (its stages get buffers, these get layouts, it gets barrier objects) has all of them follow.

Behind it all paths agree: what both arms of a branch yield has one type, and what a loop carries has the type that it
starts with.
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import Rewriter

from libtile.dialects.nv_tileaa.functions import FuncOp
from libtile.dialects.nv_tileas.pipeline import (
    ConsumerReadOp,
    ConsumerWaitOp,
    CreateIteratorOp,
    CreatePipelineOp,
    IncIterOp,
    ProducerAcquireOp,
    ProducerWriteOp,
)
from libtile.dialects.nv_tileas.turn_rules import handed_on
from libtile.dialects.nv_tileas.types import (
    ConsumerTokenType,
    PipelineIteratorType,
    PipelineType,
    ProducerTokenType,
)
from libtile.ir.module_pass import ModulePass
from libtile.ir.places import ops_of
from libtile.ir.tile_form import type_text
from libtile.lowering.errors import unsupported
from libtile.support.records import dataclass


@dataclass(frozen=True)
class PropagatePipelineIteratorsPass(ModulePass):
    """Give the iterators and tokens of each pipeline its type, through all control flow."""

    name = "propagate-pipeline-iterators"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for inner in op.body.block.ops:
            if isinstance(inner, FuncOp):
                propagate_iterators(inner)


def propagate_iterators(function: Operation) -> None:
    """Propagate the types of the pipelines of one function. LoweringError where paths that meet do not agree."""
    pipelines = ops_of(function, CreatePipelineOp)
    for op in pipelines:
        assert isinstance(op.pipeline.type, PipelineType)  # as its verifier says
        retype(op, op.pipeline.type)
    if pipelines:
        for inner in ops_of(function):
            _check_agreement(inner)


def retype(op: CreatePipelineOp, type_: PipelineType) -> None:
    """Give a pipeline a type, and what is derived from it those that follow from it."""
    seen: set[SSAValue] = set()
    work: list[tuple[SSAValue, Attribute]] = [(op.pipeline, type_)]
    while work:
        value, wanted = work.pop()
        if value in seen or not _is_current(value):
            continue
        seen.add(value)
        if value.type != wanted:
            value = Rewriter.replace_value_with_new_type(value, wanted)
            seen.add(value)
        for use in value.uses:
            work += _following(use.operation, use.index, wanted, type_)


def _is_current(value: SSAValue) -> bool:
    """Whether a value is still that of its op or block, and not one that has made room for another type."""
    owner = value.owner
    return value in (owner.results if isinstance(owner, Operation) else owner.args)


def _following(
    op: Operation, index: int, wanted: Attribute, pipeline: PipelineType
) -> Iterator[tuple[SSAValue, Attribute]]:
    """The values that an op makes of an operand of a type, or hands it on as, with their types."""
    match op:
        case CreateIteratorOp():
            yield op.iterator, PipelineIteratorType(pipeline)
        case IncIterOp():
            yield op.result, wanted
        case ProducerAcquireOp():
            yield op.token, ProducerTokenType(pipeline.element_types)
        case ConsumerWaitOp():
            yield op.token, ConsumerTokenType(pipeline.element_types)
        case ProducerWriteOp() | ConsumerReadOp() if index == 0:
            yield op.handed_on, wanted
            yield from zip(op.body.block.args, pipeline.element_types)
        case _:
            yield from ((value, wanted) for value in handed_on(op, index))


_DERIVED = (PipelineIteratorType, ProducerTokenType, ConsumerTokenType)


def _check_agreement(op: Operation) -> None:
    """LoweringError where an iterator or a token is handed on to a value of another type."""
    for index, value in enumerate(op.operands):
        for other in handed_on(op, index):
            derived = isinstance(value.type, _DERIVED) or isinstance(other.type, _DERIVED)
            if derived and value.type != other.type:
                problem = f"hands on {type_text(value.type)} where another path hands on {type_text(other.type)}"
                raise unsupported(op, problem)
