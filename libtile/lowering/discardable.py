# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The discardable attributes of the lowering: what passes tell each other beside what the ops declare.

Each with the classes of the ops that may have it. The legality tables of the stages are made of these.
"""

from __future__ import annotations

from xdsl.ir import Operation

from libtile.analysis.alias_scopes import ALIAS_SCOPE
from libtile.dialects import scf
from libtile.dialects.nv_tileaa import memory
from libtile.dialects.nv_tileaa.arithmetic import ElementwiseOp
from libtile.dialects.nv_tileaa.functions import FuncOp
from libtile.dialects.nv_tileaa.pointers import MakeMemRefOp
from libtile.dialects.nv_tileas import async_products, products, tensor_memory, tiles
from libtile.dialects.nv_tileas import memory as tileas_memory
from libtile.dialects.nv_tileas import tma as async_memory
from libtile.dialects.nv_tileas.pipeline import AgentSwitchOp, CreatePipelineOp, ProducerCommitOp

Classes = tuple[type[Operation], ...]

OUTSIDE = "outside"
"""On an access through a view: the dimensions of the view along which the tile may lie outside of the tensor as a
whole, which no tile of a program does: it is a part of one, or was addressed by pointers under a mask."""
NOT_CLUSTERED, FEWER_BLOCKS = "not_clustered", "fewer_blocks"
"""On a kernel: why it is for fewer CTAs of a cluster, or fewer blocks of a multiprocessor, than its hints ask for."""
NOT_WIDE, NOT_TMA = "not_wide", "not_tma"
"""On an access: why it is narrower than 128 bits, and why TMA does not do it."""

_POINTERS: Classes = (memory.LoadOp, memory.StoreOp, tileas_memory.LoadOp, tileas_memory.StoreOp, async_memory.LoadOp)
_VIEWS: Classes = (
    memory.TiledLoadOp,
    memory.TiledStoreOp,
    memory.TiledAtomicRmwOp,
    memory.MultimemLoadReduceOp,
    memory.MultimemReduceOp,
    memory.MultimemStoreOp,
    tileas_memory.TiledLoadOp,
    tileas_memory.TiledStoreOp,
    tileas_memory.TiledAtomicRmwOp,
    tileas_memory.MultimemLoadReduceOp,
    tileas_memory.MultimemReduceOp,
    tileas_memory.MultimemStoreOp,
    async_memory.TiledLoadOp,
)

_BY_ADDRESS: Classes = (
    *_POINTERS,
    memory.AtomicRmwOp,
    memory.AtomicCasOp,
    tileas_memory.AtomicRmwOp,
    tileas_memory.AtomicCasOp,
)

FACTS: dict[str, Classes] = {
    ALIAS_SCOPE: _BY_ADDRESS,
    "contiguity": _POINTERS,
    "divisibility": (*_POINTERS, MakeMemRefOp),
    "mask_constancy": _POINTERS,
    "index_divisibility": _VIEWS,
    OUTSIDE: _VIEWS,
    **dict.fromkeys(("size_divisibility", "stride_divisibility", "size_bounds", "stride_bounds"), (MakeMemRefOp,)),
    "unsignedCmp": (scf.ForOp,),
    "same_in_cluster": (memory.TiledLoadOp, tileas_memory.TiledLoadOp, async_memory.TiledLoadOp),
    NOT_CLUSTERED: (FuncOp,),
    FEWER_BLOCKS: (FuncOp,),
    "warps_of_one_cta": (FuncOp,),
}
"""Discardable attributes that the conversion to nv_tileaa writes (see to_tileaa/memory.py), or `split-over-ctas`, and
nv_tileas keeps."""

DECISIONS: dict[str, Classes] = {
    "not_pipelined": (*_POINTERS, *_VIEWS),
    "not_specialized": (products.DotOp, products.ScaledDotOp),
    "not_native": (products.DotOp, products.ScaledDotOp),
    "executed": (products.DotOp, products.ScaledDotOp, async_products.AsyncDotOp, tensor_memory.AsyncDotIntoOp),
    "registers_shared": (AgentSwitchOp,),
    "in_pairs": (ElementwiseOp, tiles.ReduceOp),
    "in_threes": (tiles.ReduceOp,),
    "drained": (CreatePipelineOp,),
    "nv_tileas.host-code": (FuncOp,),
    "nv_tileas.num-device-tmas": (FuncOp,),
    "nv_tileas.num-host-tmas": (FuncOp,),
    "tensor_offset": (tiles.AllocTensorOp,),
    "tensor_columns": (tiles.AllocTensorOp,),
    "shared_offset": (CreatePipelineOp, tiles.AllocTensorOp, async_memory.CreateMBarrierOp),
    "barriers_offset": (CreatePipelineOp,),
    "drawing_offset": (CreatePipelineOp,),
    **dict.fromkeys(("full_arrivals", "empty_arrivals", "by_threads"), (CreatePipelineOp,)),
    "expected_bytes": (ProducerCommitOp,),
    "counted": (async_memory.TiledTmaLoadOp,),
    "shared_bytes": (FuncOp,),
    "shared_alignment": (FuncOp,),
    "exchanges": (Operation,),
    "ways": (Operation,),
    "staging": (tileas_memory.TiledStoreOp,),
    "steps_at_once": (products.DotOp,),
    "checks_access": (scf.IfOp,),
    NOT_WIDE: (*_POINTERS, *_VIEWS),
    NOT_TMA: (*_POINTERS, *_VIEWS),
    "offset_bits": (MakeMemRefOp,),
    "instruction_semantic": (memory.MemoryOp, tileas_memory.FenceOp),
}
"""Discardable attributes by which passes over nv_tileas tell later ones, emission and remarks what they decided."""

SCHEDULE: dict[str, Classes] = {
    "num_stages": (scf.ForOp,),
    **dict.fromkeys(("stage", "order"), (tileas_memory.LoadOp, tileas_memory.TiledLoadOp)),
}
"""Those between tileas-generate-schedule and tileas-materialize-schedule."""
