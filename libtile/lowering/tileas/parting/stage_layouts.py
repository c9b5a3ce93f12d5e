# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`tileas-assign-stage-layouts`: how the tiles of a pipeline's stages lie in shared memory, and who waits for whom.

The buffers of a stage that have no layout get one by what copies to them and from them: neither should meet bank
conflicts. A pipeline whose turns are those of agents gets barrier objects, by which agents wait for each other. What a
producer loads only to copy it to a stage is copied there without a detour where asynchronous copies can do it: by TMA
where tensor maps describe all that is put at its place (`stage_copies`), and else by cp.async.
"""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, TensorType, i64
from xdsl.ir import Attribute, Operation

from libtile.atoms.cp_async import operand_shared_layout, staged_layout
from libtile.atoms.shared_accesses import matrix_loads
from libtile.dialects.cuda_tile.types import NUMBER_NAMES
from libtile.dialects.nv_tileaa.functions import FuncOp
from libtile.dialects.nv_tileas.layout import LayoutAttr
from libtile.dialects.nv_tileas.memory import TiledLoadOp
from libtile.dialects.nv_tileas.pipeline import (
    ConsumerReadOp,
    ConsumerWaitOp,
    CreatePipelineOp,
    ProducerAcquireOp,
    ProducerWriteOp,
)
from libtile.dialects.nv_tileas.tiles import CopyOp
from libtile.dialects.nv_tileas.types import MBARRIER, BufferType, PipelineType
from libtile.ir.module_pass import ModulePass
from libtile.ir.places import ops_of
from libtile.ir.tile_form import erase
from libtile.layouts import LinearLayout
from libtile.lowering.agents import agent_of
from libtile.lowering.errors import unsupported
from libtile.lowering.product_reasons import explain_asynchronous
from libtile.lowering.tileas.inserter import Inserter
from libtile.lowering.tileas.pipelines.iterators import propagate_iterators, retype
from libtile.lowering.tileas.pipelines.loop_pipelines import start_copy
from libtile.lowering.tileas.pipelines.schedule import fastest_dim, not_copied, not_handed_on
from libtile.lowering.tileas.tensor_memory.stage_results import plan
from libtile.lowering.tileas.tma.legalize_tmem_copy import legalize_copies
from libtile.lowering.tileas.tma.stage_copies import ALIGNMENT as STAGE_COPY_ALIGNMENT
from libtile.lowering.tileas.tma.stage_copies import SIDES, StageCopy, buffers_of, stage_copies, written_buffers
from libtile.lowering.tileas.wgmma.stage_products import multiply_in_stages
from libtile.lowering.to_tileas.types import layout_of
from libtile.support.records import dataclass
from libtile.targets import Target, target


@dataclass(frozen=True)
class AssignStageLayoutsPass(ModulePass):
    """Choose how tiles lie in the stages of pipelines, which stages have barrier objects, and how they are filled."""

    name = "tileas-assign-stage-layouts"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for inner in op.body.block.ops:
            if isinstance(inner, FuncOp) and inner.kernel_spec is not None and inner.kernel_spec.target is not None:
                assign_stage_layouts(inner, target(inner.kernel_spec.target))


def assign_stage_layouts(function: FuncOp, gpu: Target) -> None:
    """Complete the pipelines of one function. LoweringError for stages that cannot lie in shared memory."""
    pipelines = ops_of(function, CreatePipelineOp)
    results = plan(function, gpu)
    for op in pipelines:
        turns = [use.operation for use in op.pipeline.uses]
        assert isinstance(op.pipeline.type, PipelineType)
        type_ = op.pipeline.type
        between_agents = any(isinstance(turn, SIDES) and agent_of(turn)[0] is not None for turn in turns)
        copies: list[StageCopy] = []
        filled: set[int] = set()
        elements: list[Attribute] = []
        for number, held in enumerate(type_.element_types):
            if isinstance(held, BufferType) and held.layout is None:
                by_tma = stage_copies(function, gpu, written_buffers(turns, number)) if between_agents else []
                copies += by_tma
                filled |= {number} if by_tma else set()
                held = by_tma[0].type if by_tma else _laid_out(op, number, held, turns, gpu)
            elements.append(held)
        synchronization = MBARRIER if between_agents else type_.synchronization
        wanted = PipelineType(type_.stages, elements, type_.consumers, synchronization)
        if wanted != type_:
            retype(op, wanted)
        if copies:
            op.properties["alignment"] = IntegerAttr(STAGE_COPY_ALIGNMENT, i64)
        for copy in copies:
            copy.make(function)
        if filled:
            multiply_in_stages(function, gpu, _reads(turns), filled)
        if wanted.has_barriers and gpu.has("cp_async"):
            _copy_directly(turns)
    if pipelines:
        propagate_iterators(function)
    for result in results:
        result.make()
    if results:
        legalize_copies(function)
        explain_asynchronous(function, gpu)


def _reads(turns: list[Operation]) -> list[ConsumerReadOp]:
    tokens = [turn.token for turn in turns if isinstance(turn, ConsumerWaitOp)]
    return [use.operation for token in tokens for use in token.uses if isinstance(use.operation, ConsumerReadOp)]


def _laid_out(op: CreatePipelineOp, number: int, held: BufferType, turns: list[Operation], gpu: Target) -> BufferType:
    """A buffer with a layout that suits what is copied to it and from it."""
    element = NUMBER_NAMES.get(held.element_type)
    if element is None or held.space != "shared" or not held.shape:
        raise unsupported(op, f"has stages that hold {held}, which cannot lie in shared memory", gpu.name)
    written: list[LinearLayout] = []
    read: list[LinearLayout] = []
    fastest = len(held.shape) - 1
    for _, buffer in buffers_of(turns, number):
        for use in buffer.uses:
            copy = use.operation
            if not isinstance(copy, CopyOp):
                continue
            if copy.result is not None:
                read.append(layout_of(copy.result))
            else:
                if isinstance(copy.source.owner, TiledLoadOp):
                    fastest = fastest_dim(copy.source.owner)
                written.append(layout_of(copy.source))
    if written and read:
        chosen = staged_layout(written[0], tuple(dict.fromkeys(read)), element, fastest, matrix_loads(gpu))
    else:
        chosen = operand_shared_layout(held.shape, element, fastest)
    return BufferType(held.shape, held.element_type, held.space, LayoutAttr(chosen))


def _copy_directly(turns: list[Operation]) -> None:
    """Copy to a stage without registers what is loaded for it, where asynchronous copies do what the load does."""
    writes = {token.operation for turn in turns if isinstance(turn, ProducerAcquireOp) for token in turn.token.uses}
    for write in writes:
        if not isinstance(write, ProducerWriteOp):
            continue
        for copy in [op for op in write.body.block.ops if isinstance(op, CopyOp)]:
            load = copy.source.owner
            if not isinstance(load, TiledLoadOp) or copy.destination is None or load.parent is not copy.parent:
                continue
            if not load.value.has_one_use() or not isinstance(load.value.type, TensorType):
                continue
            token = load.result_token
            reason = not_handed_on(load) or not_copied(load)
            if load.mem_scope is None and reason is None and (token is None or token.first_use is None):
                start_copy(Inserter(write.body.block, load, load.location), load, {}, copy.destination)
                erase(copy)
                erase(load)
