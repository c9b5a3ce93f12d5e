# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What `convert-tileaa-to-tileas` takes, and what it gives. All else is refused before anything is rebuilt.

An op without regions is rebuilt with a layout on every tile, whatever it means; an op with regions needs a rule that
knows when these run and with what. Which ops can be compiled is for the emission of LLVM IR to say.
"""

from __future__ import annotations

from functools import cache

from xdsl.dialects.builtin import IndexType, IntegerType, TensorType
from xdsl.ir import Attribute, Operation

from libtile.dialects import scf
from libtile.dialects.cuda_tile.types import NUMBER_NAMES
from libtile.dialects.nv_tileaa import NAME as TILEAA
from libtile.dialects.nv_tileaa.attributes import KernelSpecAttr
from libtile.dialects.nv_tileaa.collectives import DotOp, ReduceOp, ScanOp
from libtile.dialects.nv_tileaa.functions import CallOp, FuncOp
from libtile.dialects.nv_tileaa.pointers import BlockTileOp
from libtile.dialects.nv_tileaa.tokens import PragmaOp
from libtile.dialects.nv_tileaa.types import (
    MemRefType,
    MemTokenType,
    ProgramIdType,
    PtrType,
    QueueType,
    TileAAType,
    TiledViewType,
)
from libtile.dialects.nv_tileas import NAME as TILEAS
from libtile.dialects.nv_tileas.pipeline import CreatePipelineOp
from libtile.dialects.nv_tileas.types import (
    ConsumerTokenType,
    PipelineIteratorType,
    PipelineType,
    ProducerTokenType,
    TileASType,
)
from libtile.ir.classes import is_subclass
from libtile.ir.tile_form import TileOp, type_text
from libtile.lowering.discardable import DECISIONS, FACTS, SCHEDULE
from libtile.lowering.errors import unsupported
from libtile.lowering.legality import NUMBERS, Stage, check
from libtile.lowering.to_tileas.accesses import ACCESSES, POINTER_ACCESSES, TILED_ACCESSES
from libtile.lowering.to_tileas.stages import PIPELINE_OPS
from libtile.numerics.elements import PACKED
from libtile.support.records import replace

REGIONS = (ReduceOp, ScanOp, PragmaOp, scf.ForOp, scf.WhileOp, scf.IfOp)
"""The ops whose regions are rebuilt, beside those of pipelines."""


def check_convertible(function: FuncOp) -> KernelSpecAttr:
    """What the function is compiled as.

    LoweringError, with the op's location, types and target, for the first op that the pass cannot convert.
    """
    spec = function.kernel_spec
    if spec is None or spec.target is None:
        raise unsupported(function, "has no kernel_spec with a target, for which its tiles could get layouts")
    if not spec.entry:
        raise unsupported(function, "is no kernel, and functions are not called in nv_tileas", spec.target)
    check(TAKEN, function, spec.target)
    return spec


def _problem(op: Operation) -> str | None:
    """What keeps an op from being converted; None when nothing does."""
    cls = type(op)
    if not op.regions and not _is_asked(cls):
        for value in op._operands:
            if isinstance(value._type, QueueType) and _holds_tiles(value._type):
                return _HOLDS_TILES
        for value in op.results:
            if isinstance(value._type, QueueType) and _holds_tiles(value._type):
                return _HOLDS_TILES
        return None
    if is_subclass(cls, PIPELINE_OPS):
        return _pipeline_problem(op)
    if op.regions:
        if not is_subclass(cls, _WITH_REGIONS):
            return "has a region, which cannot be converted to nv_tileas"
        for region in op.regions:
            if len(region.blocks) != 1 and (region.blocks or not is_subclass(cls, _WITH_EMPTY_REGIONS)):
                return "has a region that is not one block, which cannot be converted to nv_tileas"
            for argument in (argument for block in region.blocks for argument in block.args):
                if _holds_tiles(argument.type):
                    return _HOLDS_TILES
    if cls is CallOp:
        return "cannot be converted: functions are not called in nv_tileas"
    for value in (*op._operands, *op.results):
        if _holds_tiles(value._type):
            return _HOLDS_TILES
    if is_subclass(cls, _ACCESSES):
        return _access_problem(op)
    return _product_problem(op)


@cache
def _is_asked(cls: type[Operation]) -> bool:
    """Whether there is more to ask of the ops of a class than for the types of their values."""
    return issubclass(cls, (*PIPELINE_OPS, CallOp, *_ACCESSES, DotOp))


def _pipeline_problem(op: Operation) -> str | None:
    """Stages hold tiles of what there is memory of."""
    if not isinstance(op, CreatePipelineOp) or not isinstance(op.pipeline.type, PipelineType):
        return None
    for held in op.pipeline.type.element_types:
        if isinstance(held, TensorType) and NUMBER_NAMES.get(held.element_type, "") in ("", *PACKED):
            return f"makes stages that hold {type_text(held)}, whose elements have no bytes of their own"
    return None


def _access_problem(op: Operation) -> str | None:
    if isinstance(op, TILED_ACCESSES) and not isinstance(op.accessed.type, TiledViewType):
        return "goes to memory without a tiled view (nv_tileaa.block_tile), by which its tile could get a layout"
    if isinstance(op, TILED_ACCESSES) and "mask" in _groups(op) and op.group("mask"):
        return "has a mask, which accesses through views have not in nv_tileas"
    if isinstance(op, BlockTileOp):
        return _blocking_problem(op)
    if isinstance(op, POINTER_ACCESSES):
        base = op.accessed.type
        if not isinstance(base, TensorType) or not isinstance(base.element_type, PtrType):
            return "goes to memory without a tile of pointers, by which its tile could get a layout"
    return None


def _groups(op: TileOp) -> list[str]:
    return [name for name, _ in op.get_irdl_definition().operands]


def _blocking_problem(op: BlockTileOp) -> str | None:
    """Tiles that run over groups of dimensions are no boxes of memory."""
    result = op.result.type
    if not isinstance(result, TiledViewType) or not result.is_merged:
        return None
    return "has dimGroups of several dims, which only loads, stores and atomics of its own view can go through"


def _product_problem(op: Operation) -> str | None:
    if isinstance(op, DotOp) and (op.sfa is not None or op.sfb is not None):
        return "has scale factors: the block-scaled product that can be converted is nv_tileaa.scaled_dot"
    return None


_WITH_REGIONS = (FuncOp, *REGIONS)
_WITH_EMPTY_REGIONS = (scf.IfOp, PragmaOp)
"""Whose regions may have no block."""
_ACCESSES = (*ACCESSES, BlockTileOp)
_HOLDS_TILES = "has a type that hands on tiles, which would get no layout"


def _holds_tiles(type_: Attribute) -> bool:
    """Whether a type that is no tile itself says of what type the tiles are that a value hands on."""
    return isinstance(type_, QueueType) and any(isinstance(t, TensorType) for t in type_.result_types)


GIVEN = Stage(
    TILEAA,
    types=(
        TensorType,
        IntegerType,
        IndexType,
        *NUMBERS,
        PtrType,
        MemRefType,
        TiledViewType,
        MemTokenType,
        ProgramIdType,
        QueueType,
    ),
    elements=(*NUMBERS, IndexType, PtrType),
    dialects=frozenset({TILEAA, "arith", "math", "scf", "tensor"}),
    later=TILEAS,
    attributes=FACTS,
)
"""What the conversion to nv_tileaa gives, and the passes over nv_tileaa take and leave."""

PIPELINED = replace(
    GIVEN,
    types=(*GIVEN.types, PipelineType, PipelineIteratorType, ProducerTokenType, ConsumerTokenType),
    ops=frozenset(PIPELINE_OPS),
)
"""What lower-tileaa-queues leaves of it: pipelines, whose stages hold tiles, and their turns."""

TAKEN = replace(PIPELINED, problem=_problem)
"""What the conversion to nv_tileas takes of that."""

STAGE = Stage(
    TILEAS,
    types=(TensorType, IntegerType, IndexType, *NUMBERS, TileAAType, TileASType),
    dialects=frozenset({TILEAA, TILEAS, "arith", "math", "scf", "tensor"}),
    layouts=True,
    attributes={**FACTS, **DECISIONS, **SCHEDULE},
)
"""What the conversion gives, and the passes behind it take: nothing chooses a layout any more."""
