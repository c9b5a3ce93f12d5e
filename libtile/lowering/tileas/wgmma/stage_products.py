# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Products of what TMA has copied to a stage: a consumer of one or two warpgroups multiplies from shared memory by
wgmma, and waits for the products before it leaves the stage, or, where its turns do nothing else, in the next turn."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from xdsl.ir import Block, BlockArgument, SSAValue

from libtile.atoms import wgmma
from libtile.dialects.nv_tileaa.functions import FuncOp
from libtile.dialects.nv_tileas.async_products import AsyncDotOp, WaitDotOp
from libtile.dialects.nv_tileas.attributes import MmaAtomAttr
from libtile.dialects.nv_tileas.pipeline import AgentSwitchOp, ConsumerReadOp
from libtile.dialects.nv_tileas.products import DotOp
from libtile.dialects.nv_tileas.tiles import CopyOp
from libtile.dialects.nv_tileas.types import BufferType
from libtile.ir.tile_form import erase, shape_of
from libtile.lowering.agents import agent_of
from libtile.lowering.product_reasons import explain_asynchronous
from libtile.lowering.tileas.agents.consumers import (
    MAX_ACCUMULATORS,
    check_accumulator,
    instruction,
    launched_registers,
)
from libtile.lowering.tileas.copies.tma_operands import Unfit, read_operand
from libtile.lowering.tileas.inserter import Inserter
from libtile.lowering.tileas.wgmma.descriptors import rematerialize_descriptors
from libtile.lowering.tileas.wgmma.overlap_turns import overlap_turns
from libtile.lowering.to_tileas.stage_products import WARPS
from libtile.lowering.to_tileas.types import element_of
from libtile.numerics.elements import STORAGE_BYTES
from libtile.targets import Target


def multiply_in_stages(function: FuncOp, gpu: Target, reads: Iterable[ConsumerReadOp], filled: Collection[int]) -> None:
    """Have warpgroups multiply the buffers of stages, where both operands of a product are at places that TMA fills."""
    made = 0
    for read in reads:
        warps = _warps(read)
        if not gpu.has("wgmma") or warps not in WARPS:
            continue
        for product in [op for op in read.body.block.ops if isinstance(op, DotOp)]:
            operands = [_buffer(value, read.body.block, filled) for value in (product.a, product.b)]
            a, b = operands
            if a is None or b is None:
                continue
            try:
                atom = _atom(product, gpu, warps, _launched(read, function, gpu), (a, b))
            except Unfit:
                continue
            _multiply(product, atom, a, b)
            made += 1
        overlap_turns(read)
    if made:
        rematerialize_descriptors(function)
        explain_asynchronous(function, gpu)


def _warps(read: ConsumerReadOp) -> int:
    """The warps of the agent that reads; 0 where its warps are not those of whole warpgroups."""
    switch, number = agent_of(read)
    if not isinstance(switch, AgentSwitchOp) or sum(switch.warps[:number]) % wgmma.GROUP_WARPS:
        return 0
    return switch.warps[number]


def _buffer(value: SSAValue, stage: Block, filled: Collection[int]) -> BlockArgument | None:
    """The buffer of a stage that an operand is copied from as it is, for nobody else, if TMA fills it."""
    copy = value.owner
    source = copy.source if isinstance(copy, CopyOp) else None
    fits = isinstance(source, BlockArgument) and source.block is stage and source.index in filled
    return source if fits and isinstance(source, BlockArgument) and value.has_one_use() else None


def _launched(read: ConsumerReadOp, function: FuncOp, gpu: Target) -> int:
    """Registers that threads of written agents are launched with."""
    (switch, _), spec = agent_of(read), function.kernel_spec
    assert isinstance(switch, AgentSwitchOp)
    return launched_registers(sum(switch.warps), (spec.occupancy if spec is not None else None) or 1, gpu)


def _atom(
    product: DotOp, gpu: Target, warps: int, launched: int, buffers: tuple[BlockArgument, BlockArgument]
) -> MmaAtomAttr:  # fmt: skip
    """The instruction of a product; Unfit where there is none that reads these buffers, or too little room for its
    result."""
    atom = instruction(product, gpu, launched)
    check_accumulator(product, warps)
    m, n = shape_of(product.result.type)
    words = m * n // (warps * gpu.warp_size) * STORAGE_BYTES[element_of(product.c)] // 4
    if words > MAX_ACCUMULATORS:
        raise Unfit(f"accumulators of {m}x{n} do not fit the registers of {warps} warps")
    for side, buffer in zip("ab", buffers):
        type_ = buffer.type
        assert isinstance(type_, BufferType)
        read = read_operand(gpu, atom.instruction, side, type_)
        if isinstance(read, str):
            raise Unfit(f"#{side.upper()} cannot be read from shared memory: {read}")
    return atom


def _multiply(product: DotOp, atom: MmaAtomAttr, a: SSAValue, b: SSAValue) -> None:
    """Issue the products of two buffers in place of an op, and wait for them."""
    block, copies = product.parent, [v.owner for v in (product.a, product.b)]
    assert block is not None
    at = Inserter(block, product, product.location)
    issued = at.value(
        AsyncDotOp.make(
            a, b, product.c, results=[product.result.type], atom=atom, signedness_a=product.signedness_a,
            signedness_b=product.signedness_b, fast_acc=product.fast_acc is not None,
        )
    )  # fmt: skip
    waited = at.value(WaitDotOp.make([issued], results=[[product.result.type]], pending=0))
    waited.name_hint = product.result.name_hint
    product.result.replace_all_uses_with(waited)
    erase(product)
    for copy in copies:
        assert isinstance(copy, CopyOp)
        erase(copy)
