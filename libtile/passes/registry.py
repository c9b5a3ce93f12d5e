# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""All passes by the name that pipelines and command lines give them. Importing this module loads no pass."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from libtile.support.errors import LibtileError

if TYPE_CHECKING:
    from libtile.ir.module_pass import ModulePass

CUDA_TILE, INNER = "cuda_tile", "nv_tileaa"
"""The dialects of functions: those of Tile IR, and those of the two inner dialects, which share theirs."""


class Entry:
    """Where a pass is, and what is known of it before it is loaded.

    `path` is `module:Class`. `works_on` are the dialects whose functions the pass changes (none are named: all): a
    warning says that it leaves others as they are. A compilation cannot do without a `required` pass, which no
    bisection leaves out. Where no op is there of those that a pass is `about`, by their names, it does nothing and has
    nothing to say, so that it need not be loaded (none are named: it may have to do with any op). A pass that is
    `for_target` has the option `gpu-name`.
    """

    __slots__ = ("about", "for_target", "path", "required", "works_on")

    def __init__(
        self,
        path: str,
        *works_on: str,
        required: bool = False,
        about: tuple[str, ...] = (),
        for_target: bool = False,
    ):
        self.path = path
        self.works_on = works_on
        self.required = required
        self.about = about
        self.for_target = for_target


_COUNTED = ("cuda_tile.for",)
_TILE_LOOPS = (*_COUNTED, "cuda_tile.loop")
_INNER_LOOPS = ("scf.for", "scf.while")
_LOOPS = (*_TILE_LOOPS, *_INNER_LOOPS)
_TILE_PRODUCTS = ("cuda_tile.mmaf", "cuda_tile.mmai", "cuda_tile.mmaf_scaled")
_PRODUCTS = ("nv_tileas.dot", "nv_tileas.scaled_dot")
_INNER_PRODUCTS = ("nv_tileaa.dot", "nv_tileaa.scaled_dot")
_QUEUES = ("nv_tileaa.create_queue", "nv_tileaa.queue.put", "nv_tileaa.queue.get", "nv_tileaa.execute")
_PIPELINES = ("nv_tileas.async.pipeline.create_pipeline",)
_AGENTS = ("nv_tileas.async.pipeline.agent_switch",)
_SYMBOLS = ("cuda_tile.global", "nv_tileaa.global", "nv_tileaa.func")
_STORAGE = ("nv_tileas.alloc_tensor", "nv_tileas.dealloc_tensor")


PASSES: dict[str, Entry] = {
    "attach-tma-descriptor-args": Entry("libtile.lowering.tileas.tma.attach_args:AttachTmaDescriptorArgsPass", INNER),
    "canonicalize": Entry("libtile.transforms.canonicalize:CanonicalizePass", CUDA_TILE, INNER),
    "canonicalize-tileaa": Entry("libtile.transforms.canonicalize_tileaa:CanonicalizeTileaaPass", INNER),
    "convert-cuda-tile-to-tileaa": Entry(
        "libtile.lowering.to_tileaa.conversion:ConvertCudaTileToTileAAPass", CUDA_TILE, required=True, for_target=True
    ),
    "convert-tileaa-to-tileas": Entry(
        "libtile.lowering.tileas.parting.convert_pass:ConvertTileAAToTileASPass", INNER, required=True
    ),
    "cse": Entry("libtile.transforms.cse:CsePass", CUDA_TILE, INNER),
    "deduplicate-symbols": Entry("libtile.transforms.deduplicate_symbols:DeduplicateSymbolsPass", CUDA_TILE),
    "dce": Entry("libtile.transforms.dce:DcePass", CUDA_TILE, INNER),
    "eliminate-redundant-tokens": Entry("libtile.transforms.redundant_tokens:EliminateRedundantTokensPass", CUDA_TILE),
    "contract-views": Entry(
        "libtile.transforms.contract_views:ContractViewsPass",
        CUDA_TILE,
        about=("cuda_tile.load_ptr_tko", "cuda_tile.store_ptr_tko"),
    ),
    "expand-views": Entry("libtile.transforms.expand_views:ExpandViewsPass", CUDA_TILE),
    "flatten-kernel-parameters": Entry(
        "libtile.lowering.flatten_parameters:FlattenKernelParametersPass", INNER, required=True
    ),
    "view-operands": Entry(
        "libtile.transforms.view_operands:ViewOperandsPass", CUDA_TILE, about=_TILE_PRODUCTS, for_target=True
    ),
    "view-memref-accesses": Entry("libtile.lowering.view_accesses:ViewMemRefAccessesPass", INNER, required=True),
    "inline-calls": Entry("libtile.lowering.expand.calls:InlineCallsPass", INNER, required=True),
    "expand-tileaa-ops": Entry("libtile.lowering.expand.expand:ExpandTileaaOpsPass", INNER, required=True),
    "fit-registers": Entry("libtile.lowering.fit_registers:FitRegistersPass", INNER, about=("nv_tileaa.dot",)),
    "fuse-fma": Entry("libtile.transforms.fuse_fma:FuseFmaPass", CUDA_TILE),
    "if-to-select": Entry("libtile.transforms.if_to_select:IfToSelectPass", CUDA_TILE, about=("cuda_tile.if",)),
    "infer-assumptions": Entry("libtile.transforms.infer_assumptions:InferAssumptionsPass", CUDA_TILE),
    "infer-in-bounds": Entry("libtile.transforms.infer_in_bounds:InferInBoundsPass", CUDA_TILE),
    "inline": Entry("libtile.transforms.inline:InlinePass", CUDA_TILE),
    "licm": Entry("libtile.transforms.licm:LicmPass", CUDA_TILE, INNER, about=_LOOPS),
    "collapse-loops": Entry(
        "libtile.transforms.collapse_loops:CollapseLoopsPass", CUDA_TILE, about=_COUNTED, for_target=True
    ),
    "loop-interchange": Entry("libtile.transforms.loop_interchange:LoopInterchangePass", CUDA_TILE),
    "keep-tiles": Entry("libtile.transforms.keep_tiles:KeepTilesPass", CUDA_TILE, about=_COUNTED),
    "merge-loads": Entry("libtile.transforms.merge_loads:MergeLoadsPass", CUDA_TILE),
    "loop-once": Entry("libtile.transforms.loop_once:LoopOncePass", CUDA_TILE, about=_TILE_LOOPS),
    "loop-peel": Entry("libtile.transforms.loop_peel:LoopPeelPass", CUDA_TILE, about=_TILE_LOOPS),
    "loop-unroll": Entry("libtile.transforms.loop_unroll:LoopUnrollPass", CUDA_TILE, about=_TILE_LOOPS),
    "loop-split": Entry("libtile.transforms.loop_split:LoopSplitPass", CUDA_TILE, about=_COUNTED),
    "loop-unguard": Entry(
        "libtile.transforms.loop_unguard:LoopUnguardPass", CUDA_TILE, about=_COUNTED, for_target=True
    ),
    "loop-unsplit": Entry(
        "libtile.transforms.loop_unsplit:LoopUnsplitPass", CUDA_TILE, about=_COUNTED, for_target=True
    ),
    "lower-tileaa-queues": Entry(
        "libtile.lowering.to_tileas.queues:LowerTileAAQueuesPass", INNER, required=True, about=_QUEUES
    ),
    "lower-tma-load-store-to-async": Entry(
        "libtile.lowering.tileas.tma.lower_async:LowerTmaLoadStoreToAsyncPass", INNER
    ),
    "order-programs": Entry("libtile.lowering.order_programs:OrderProgramsPass", INNER, about=_INNER_PRODUCTS),
    "reorder-broadcast": Entry("libtile.transforms.reorder_broadcast:ReorderBroadcastPass", CUDA_TILE),
    "recover-views": Entry("libtile.transforms.recover_views:RecoverViewsPass", CUDA_TILE),
    "propagate-pipeline-iterators": Entry(
        "libtile.lowering.tileas.pipelines.iterators:PropagatePipelineIteratorsPass",
        INNER,
        required=True,
        about=_PIPELINES,
    ),
    "sccp": Entry("libtile.transforms.sccp:SccpPass", CUDA_TILE, INNER),
    "separate-host-tma": Entry("libtile.lowering.tileas.tma.separate_host:SeparateHostTmaPass", INNER),
    "simplify-integers": Entry("libtile.transforms.simplify_integers:SimplifyIntegersPass", CUDA_TILE),
    "strength-reduce": Entry("libtile.transforms.strength_reduce:StrengthReducePass", CUDA_TILE),
    "strip-debug-info": Entry("libtile.transforms.strip_debug_info:StripDebugInfoPass", CUDA_TILE, INNER),
    "symbol-dce": Entry("libtile.transforms.symbol_dce:SymbolDcePass", CUDA_TILE, INNER, about=_SYMBOLS),
    "split-over-ctas": Entry("libtile.lowering.split_over_ctas:SplitOverCtasPass", INNER, required=True),
    "strip-mine": Entry(
        "libtile.lowering.strip_mine.strip_mine:StripMinePass", CUDA_TILE, required=True, for_target=True
    ),
    "synthesize-debug-info-scopes": Entry(
        "libtile.transforms.debug_info_scopes:SynthesizeDebugInfoScopesPass", CUDA_TILE
    ),
    "tileas-compare-places": Entry(
        "libtile.lowering.tileas.tile_ops.compare_places:ComparePlacesPass", INNER, about=("arith.cmpi",)
    ),
    "tileas-materialize-convert-layout": Entry(
        "libtile.lowering.tileas.tile_ops.materialize_conversions:MaterializeConvertLayoutPass", INNER, required=True
    ),
    "tileas-select-collectives": Entry(
        "libtile.lowering.tileas.tile_ops.select_collectives:SelectCollectivesPass",
        INNER,
        required=True,
        about=("nv_tileas.reduce", "nv_tileas.scan"),
    ),
    "tileas-allocate-shared-memory": Entry(
        "libtile.lowering.tileas.memory.allocate:AllocateSharedMemoryPass", INNER, required=True
    ),
    "tileas-allocate-tensor-memory": Entry(
        "libtile.lowering.tileas.memory.allocate_tensor_memory:AllocateTensorMemoryPass",
        INNER,
        required=True,
        about=_STORAGE,
    ),
    "tileas-arrange-agents": Entry(
        "libtile.lowering.tileas.agents.arrange_agents:ArrangeAgentsPass", INNER, required=True, about=_AGENTS
    ),
    "tileas-assign-stage-layouts": Entry(
        "libtile.lowering.tileas.parting.stage_layouts:AssignStageLayoutsPass",
        INNER,
        required=True,
        about=(*_PIPELINES, *_AGENTS),
    ),
    "tileas-insert-shared-barriers": Entry(
        "libtile.lowering.tileas.memory.shared_barriers:InsertSharedBarriersPass", INNER, required=True
    ),
    "tileas-count-arrivals": Entry(
        "libtile.lowering.tileas.pipelines.count_arrivals:CountArrivalsPass",
        INNER,
        required=True,
        about=(*_PIPELINES, "nv_tileas.async.pipeline.producer_commit", "nv_tileas.async.tiled_tma_load"),
    ),
    "tileas-insert-barriers": Entry("libtile.lowering.tileas.memory.barriers:InsertBarriersPass", INNER, required=True),
    "tileas-widen-apart": Entry(
        "libtile.lowering.tileas.tile_ops.widen_apart:WidenApartPass", INNER, about=("nv_tileaa.fp_to_fp",)
    ),
    "tileas-insert-fences": Entry("libtile.lowering.tileas.memory.fences:InsertFencesPass", INNER, required=True),
    "tileas-hand-over-stores": Entry(
        "libtile.lowering.tileas.agents.storing_agents:HandOverStoresPass", INNER, about=_AGENTS
    ),
    "tileas-generate-schedule": Entry(
        "libtile.lowering.tileas.pipelines.schedule:GenerateSchedulePass", INNER, about=_INNER_LOOPS
    ),
    "tileas-select-tma-stores": Entry(
        "libtile.lowering.tileas.tma.select_tma_stores:SelectTmaStoresPass", INNER, about=_AGENTS
    ),
    "tileas-specialize": Entry("libtile.lowering.tileas.parting.specialize:SpecializePass", INNER, about=_PRODUCTS),
    "tileas-materialize-schedule": Entry(
        "libtile.lowering.tileas.pipelines.materialize:MaterializeSchedulePass", INNER
    ),
    "tileas-remove-layout-conversions": Entry("libtile.lowering.tileas.cleanup:RemoveLayoutConversionsPass", INNER),
    "tileas-select-copies": Entry(
        "libtile.lowering.tileas.copies.select_copies:SelectCopiesPass", INNER, required=True
    ),
    "test-debuginfo-update-symbol-name": Entry(
        "libtile.transforms.symbol_names:UpdateSymbolNamePass", CUDA_TILE, INNER
    ),
    "tileas-legalize-tmem-copy": Entry(
        "libtile.lowering.tileas.tma.legalize_tmem_copy:TileasLegalizeTmemCopyPass", INNER, about=("nv_tileas.copy",)
    ),
}
"""The passes by name. `libtile.passes.pipelines` says which of them a compilation runs, and in which order."""


def register(name: str, path: str, *works_on: str, for_target: bool = False) -> None:
    """Add a pass, whose class is at `module:Class`; LibtileError when the name is taken by another class."""
    if PASSES.setdefault(name, Entry(path, *works_on, for_target=for_target)).path != path:
        raise LibtileError(f"pass '{name}' is already registered as {PASSES[name].path}")


def pass_class(name: str) -> type[ModulePass]:
    """The class of a pass, loaded now; LibtileError for an unknown name."""
    entry = PASSES.get(name)
    if entry is None:
        raise LibtileError(f"'{name}' does not refer to a registered pass or pass pipeline")
    module, _, attribute = entry.path.partition(":")
    cls: type[ModulePass] = getattr(import_module(module), attribute)
    return cls
