# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`tileas-pipeline-loops`: loads that feed products run ahead of them, through shared memory.

A loop whose products read tiles that only depend on the loop's counter can start those loads some iterations early:
each iteration copies the tiles of a later one to shared memory (cp.async), and takes its own from there. The pass
decides which loads and how many stages, and says so with attributes that code generation follows: `num_stages` on the
loop, `async_copy` on the loads.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, TensorType, UnitAttr, i64
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.traits import Pure

from libtile.dialects.nv_tileaa.functions import FuncOp
from libtile.dialects.nv_tileaa.types import MemTokenType, TiledViewType
from libtile.lowering.tileaa_to_tileas.accesses import element_bytes
from libtile.targets import Target, target

LOAD, CONVERT, DOT = "nv_tileas.tiled_load", "nv_tileas.convert_layout", "nv_tileas.dot"
RESERVED_SHARED = 24 << 10
"""Bytes of shared memory that are left for exchanges between threads."""
MIN_ROW_BYTES = 16


@dataclass(frozen=True)
class PipelineLoopsPass(ModulePass):
    """Mark the loops and loads that are pipelined, with at most `num_stages` tiles of each load in flight."""

    name = "tileas-pipeline-loops"
    num_stages: int = 4

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for inner in op.body.block.ops:
            if isinstance(inner, FuncOp) and inner.kernel_spec is not None and inner.kernel_spec.target is not None:
                pipeline_loops(inner, target(inner.kernel_spec.target), self.num_stages)


def pipeline_loops(function: FuncOp, gpu: Target, most: int) -> None:
    """Mark the innermost loops of a function that can be pipelined on a target."""
    if not gpu.has("cp_async"):
        return
    free = gpu.shared_per_block - RESERVED_SHARED
    for op in function.walk():
        if op.name != "scf.for":
            continue
        loads = [load for load in op.regions[0].block.ops if _is_eligible(load, op.regions[0].block)]
        size = sum(tile_bytes(load) for load in loads)
        stages = min(most, free // size) if size else 0
        if stages < 2:
            continue
        free -= stages * size
        op.attributes["num_stages"] = IntegerAttr(stages, i64)
        for load in loads:
            load.attributes["async_copy"] = UnitAttr()


def tile_bytes(load: Operation) -> int:
    """Bytes of the tile that a load reads."""
    type_ = load.results[0].type
    assert isinstance(type_, TensorType)
    return prod(type_.get_shape()) * element_bytes(type_.element_type)


def _is_eligible(op: Operation, body: Block) -> bool:
    """A weak load of a matrix that depends on nothing but the counter, and goes into products only."""
    if op.name != LOAD or "mem_scope" in op.properties:
        return False
    view, type_ = op.operands[0].type, op.results[0].type
    assert isinstance(type_, TensorType)
    shape = type_.get_shape()
    if not isinstance(view, TiledViewType) or len(shape) != 2 or view.layout.sparse_dim is not None:
        return False
    if view.layout.padding not in (None, "zero") or min(shape) * element_bytes(type_.element_type) < MIN_ROW_BYTES:
        return False
    if any(isinstance(v.type, MemTokenType) and _is_inside(v, body) for v in op.operands):
        return False
    users = [use.operation for use in op.results[0].uses]
    if not users or any(user.name != CONVERT or user.parent is not body for user in users):
        return False
    fed = [use.operation.name for user in users for use in user.results[0].uses]
    return DOT in fed and counter_slice(op, body) is not None


def _is_inside(value: SSAValue, body: Block) -> bool:
    """Whether a value is made in a loop's body, or carried by the loop."""
    return value.owner is body or (isinstance(value.owner, Operation) and value.owner.parent is body)


def counter_slice(op: Operation, body: Block) -> list[Operation] | None:
    """The ops of the body that an op's view and indices are computed by, in order; None when they are more than pure
    functions of the counter."""
    needed: set[Operation] = set()
    work = [v for v in op.operands if not isinstance(v.type, MemTokenType)]
    while work:
        value = work.pop()
        owner = value.owner
        if owner is body:
            if value is not body.args[0]:
                return None
        elif isinstance(owner, Operation) and owner.parent is body and owner not in needed:
            if owner.regions or not (owner.has_trait(Pure) or owner.name in ("tensor.extract",)):
                return None
            needed.add(owner)
            work += owner.operands
    return [inner for inner in body.ops if inner in needed]
