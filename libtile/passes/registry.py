# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""All passes by the name that pipelines and command lines give them. Importing this module loads no pass."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from libtile.support.errors import LibtileError

if TYPE_CHECKING:
    from xdsl.passes import ModulePass

PASSES: dict[str, str] = {
    "attach-tma-descriptor-args": "libtile.lowering.tileas.tma.attach_args:AttachTmaDescriptorArgsPass",
    "canonicalize": "libtile.transforms.canonicalize:CanonicalizePass",
    "canonicalize-tileaa": "libtile.transforms.canonicalize_tileaa:CanonicalizeTileaaPass",
    "convert-cuda-tile-to-tileaa": "libtile.lowering.to_tileaa.conversion:ConvertCudaTileToTileAAPass",
    "convert-tileaa-to-tileas": "libtile.lowering.to_tileas.conversion:ConvertTileAAToTileASPass",
    "cse": "libtile.transforms.cse:CsePass",
    "dce": "libtile.transforms.dce:DcePass",
    "flatten-kernel-parameters": "libtile.lowering.flatten_parameters:FlattenKernelParametersPass",
    "fuse-fma": "libtile.transforms.fuse_fma:FuseFmaPass",
    "licm": "libtile.transforms.licm:LicmPass",
    "loop-split": "libtile.transforms.loop_split:LoopSplitPass",
    "lower-tma-load-store-to-async": "libtile.lowering.tileas.tma.lower_async:LowerTmaLoadStoreToAsyncPass",
    "separate-host-tma": "libtile.lowering.tileas.tma.separate_host:SeparateHostTmaPass",
    "strip-mine": "libtile.lowering.strip_mine.strip_mine:StripMinePass",
    "synthesize-debug-info-scopes": "libtile.transforms.debug_info_scopes:SynthesizeDebugInfoScopesPass",
    "tileas-insert-barriers": "libtile.lowering.tileas.barriers:InsertBarriersPass",
    "tileas-generate-schedule": "libtile.lowering.tileas.schedule:GenerateSchedulePass",
    "tileas-materialize-schedule": "libtile.lowering.tileas.materialize:MaterializeSchedulePass",
    "tileas-remove-layout-conversions": "libtile.lowering.tileas.cleanup:RemoveLayoutConversionsPass",
    "test-debuginfo-update-symbol-name": "libtile.transforms.symbol_names:UpdateSymbolNamePass",
    "tileas-legalize-tmem-copy": "libtile.lowering.tileas.tma.legalize_tmem_copy:TileasLegalizeTmemCopyPass",
}
"""Where the class of each pass is: `module:Class`."""


CUDA_TILE, INNER = "cuda_tile", "nv_tileaa"
"""The dialects of functions: those of Tile IR, and those of the two inner dialects, which share theirs."""

WORKS_ON: dict[str, frozenset[str]] = {
    "attach-tma-descriptor-args": frozenset({INNER}),
    "canonicalize": frozenset({CUDA_TILE, INNER}),
    "canonicalize-tileaa": frozenset({INNER}),
    "convert-cuda-tile-to-tileaa": frozenset({CUDA_TILE}),
    "convert-tileaa-to-tileas": frozenset({INNER}),
    "cse": frozenset({CUDA_TILE, INNER}),
    "dce": frozenset({CUDA_TILE, INNER}),
    "flatten-kernel-parameters": frozenset({INNER}),
    "fuse-fma": frozenset({CUDA_TILE}),
    "licm": frozenset({CUDA_TILE, INNER}),
    "loop-split": frozenset({CUDA_TILE}),
    "lower-tma-load-store-to-async": frozenset({INNER}),
    "separate-host-tma": frozenset({INNER}),
    "strip-mine": frozenset({CUDA_TILE}),
    "synthesize-debug-info-scopes": frozenset({CUDA_TILE}),
    "tileas-insert-barriers": frozenset({INNER}),
    "tileas-generate-schedule": frozenset({INNER}),
    "tileas-materialize-schedule": frozenset({INNER}),
    "tileas-remove-layout-conversions": frozenset({INNER}),
    "test-debuginfo-update-symbol-name": frozenset({CUDA_TILE, INNER}),
    "tileas-legalize-tmem-copy": frozenset({INNER}),
}
"""Whose functions a pass changes: a warning says that it leaves the others as they are."""


def register(name: str, path: str) -> None:
    """Add a pass, whose class is at `module:Class`; LibtileError when the name is taken by another class."""
    if PASSES.setdefault(name, path) != path:
        raise LibtileError(f"pass '{name}' is already registered as {PASSES[name]}")


def pass_class(name: str) -> type[ModulePass]:
    """The class of a pass, loaded now; LibtileError for an unknown name."""
    path = PASSES.get(name)
    if path is None:
        raise LibtileError(f"'{name}' does not refer to a registered pass or pass pipeline")
    module, _, attribute = path.partition(":")
    cls: type[ModulePass] = getattr(import_module(module), attribute)
    return cls
