# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The discardable attributes of the lowering: what passes tell each other beside what the ops declare.

Each with the classes of the ops that may have it, and the form of its value. The legality tables of the stages are made
of these.
"""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, IntegerAttr, IntegerType, ModuleOp, StringAttr, UnitAttr
from xdsl.ir import Attribute, Operation

from libtile.analysis.alias_scopes import ALIAS_SCOPE
from libtile.dialects import arith, scf
from libtile.dialects.nv_tileaa import memory
from libtile.dialects.nv_tileaa.arithmetic import ElementwiseOp
from libtile.dialects.nv_tileaa.attributes import MemSemanticAttr
from libtile.dialects.nv_tileaa.functions import FuncOp
from libtile.dialects.nv_tileaa.pointers import FpToFpOp, MakeMemRefOp
from libtile.dialects.nv_tileaa.types import MemRefType, TiledViewType
from libtile.dialects.nv_tileas import async_products, products, tensor_memory, tiles
from libtile.dialects.nv_tileas import memory as tileas_memory
from libtile.dialects.nv_tileas import tma as async_memory
from libtile.dialects.nv_tileas.attributes import ConversionAttr, ExchangesAttr, ExecutedAttr
from libtile.dialects.nv_tileas.pipeline import AgentSwitchOp, CreatePipelineOp, ProducerCommitOp
from libtile.ir.operands import source_of
from libtile.ir.tile_form import operand_group, shape_of
from libtile.lowering.apart import APART, is_apart
from libtile.lowering.ranks import RANKS, are_ranks
from libtile.support.records import dataclass

Classes = tuple[type[Operation], ...]


@dataclass(frozen=True)
class Form:
    """What the value of an attribute is, in words that follow "which is", and whether one is of the form on an op."""

    words: str
    fits: Callable[[Operation, Attribute], bool]


@dataclass(frozen=True)
class Declared:
    """A discardable attribute: the classes of the ops that may have it, and the form of its value."""

    ops: Classes
    form: Form


def _of(words: str, cls: type[Attribute]) -> Form:
    return Form(words, lambda op, attr: isinstance(attr, cls))


def _between(least: int, most: int) -> Form:
    def fits(op: Operation, attr: Attribute) -> bool:
        return isinstance(attr, IntegerAttr) and least <= attr.value.data <= most

    return Form(f"a number from {least} to {most}", fits)


def _integers(attr: Attribute) -> tuple[int, ...] | None:
    """The integers of an array; None for anything else."""
    if not isinstance(attr, DenseArrayBase) or not isinstance(attr.elt_type, IntegerType):
        return None
    return tuple(int(value) for value in attr.get_values())


def _each(of: str, least: int, count: Callable[[Operation], int]) -> Form:
    def fits(op: Operation, attr: Attribute) -> bool:
        found = _integers(attr)
        return found is not None and len(found) == count(op) and min(found, default=least) >= least

    return Form(f"an array of one number for each {of}, none below {least}", fits)


def _pointer_facts(op: Operation) -> int:
    """A pointer alone has facts like a tile of one."""
    return max(1, len(shape_of(source_of(op).type)))


def _view_rank(op: Operation) -> int:
    type_ = (op.result if isinstance(op, MakeMemRefOp) else source_of(op)).type
    return type_.rank if isinstance(type_, MemRefType | TiledViewType) else 0


def _is_outside(op: Operation, attr: Attribute) -> bool:
    found = _integers(attr)
    return found is not None and all(0 <= dimension < _view_rank(op) for dimension in found)


def _is_divisibility(op: Operation, attr: Attribute) -> bool:
    return (DIVISOR if isinstance(op, MakeMemRefOp) else OF_POINTERS).fits(op, attr)


def _is_staging(op: Operation, attr: Attribute) -> bool:
    found = _integers(attr)
    return found is not None and len(found) > 1 and min(found) > 0


def _is_axis_and_end(op: Operation, attr: Attribute) -> bool:
    found = _integers(attr)
    return found is not None and len(found) == 2 and found[0] in range(3) and found[1] in (0, 1)


def _are_ways(op: Operation, attr: Attribute) -> bool:
    return isinstance(attr, ArrayAttr) and all(isinstance(way, ConversionAttr) for way in attr.data)


OWN = frozenset({"cuda_tile", "nv_tileaa", "nv_tileas"})


def is_foreign(name: str) -> bool:
    """Whether an attribute bears the name of a dialect that is none of ours, for whose passes it is."""
    dialect, dot, _ = name.partition(".")
    return bool(dot) and dialect not in OWN


LARGEST = (1 << 31) - 1
"""The largest count, or place in memory, that is looked at at all."""

TEXT, FLAG = _of("a text", StringAttr), _of("no more than its name", UnitAttr)
INTEGER = _of("an integer", IntegerAttr)
COUNT, POSITIVE, BITS = _between(0, LARGEST), _between(1, LARGEST), _between(1, 64)
OF_POINTERS = _each("dimension of the tile", 1, _pointer_facts)
OF_INDICES = _each("index", 1, lambda op: len(operand_group(op, "indices")))
OF_SIZES, BOUNDS = _each("dimension", 1, _view_rank), _each("dimension", -1, _view_rank)
DIVISOR = _each("base", 1, lambda op: 1)
DIVISORS = Form("an array of one number for each dimension of a tile, or of one for a base", _is_divisibility)
DIMENSIONS = Form("an array of dimensions of the view", _is_outside)
OUTSIDE_DIMENSIONS = Form("an array of dimensions", lambda op, attr: _integers(attr) is not None)
AXIS_AND_END = Form("an axis of the grid, and 0 or 1", _is_axis_and_end)
STAGED = Form("an array of how many buffers there are and the shape of one", _is_staging)
WAYS = Form("an array of conversions", _are_ways)

OUTSIDE = "outside"
"""On an access through a view: the dimensions of the view along which the tile may lie outside of the tensor as a
whole, which no tile of a program does: it is a part of one, or was addressed by pointers under a mask."""
NOT_CLUSTERED, FEWER_BLOCKS = "not_clustered", "fewer_blocks"
"""On a kernel: why it is for fewer CTAs of a cluster, or fewer blocks of a multiprocessor, than its hints ask for."""
WORKER_WARPS = "worker_warps"
"""On a kernel: how many warps a hint asks for; agents may be made of others."""
PROGRAMS_TOGETHER = "programs_together"
"""On a kernel: in groups of how many along the first axis of the grid its blocks take programs; or along the others."""
LONG_PROGRAMS = "long_programs"
"""On a kernel whose blocks take long programs first: the axis of the grid along which programs are longer or shorter,
and 1 if the last ones are the longest."""
ROTATED = "rotated"
"""On a loop: whether there is another turn is asked once in front of it, and behind each turn."""
NOT_WIDE, NOT_TMA = "not_wide", "not_tma"
STAGES, STAGE, ORDER, NOT_PIPELINED = "num_stages", "stage", "order", "not_pipelined"
NOT_SPECIALIZED = "not_specialized"
"""On a product: why its loop has no producer agent (`tileas-specialize`)."""
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

FACTS: dict[str, Declared] = {
    ALIAS_SCOPE: Declared(_BY_ADDRESS, INTEGER),
    "contiguity": Declared(_POINTERS, OF_POINTERS),
    "divisibility": Declared((*_POINTERS, MakeMemRefOp), DIVISORS),
    "mask_constancy": Declared(_POINTERS, OF_POINTERS),
    "index_divisibility": Declared(_VIEWS, OF_INDICES),
    OUTSIDE: Declared(_VIEWS, DIMENSIONS),
    **dict.fromkeys(("size_divisibility", "stride_divisibility"), Declared((MakeMemRefOp,), OF_SIZES)),
    **dict.fromkeys(("size_bounds", "stride_bounds"), Declared((MakeMemRefOp,), BOUNDS)),
    "unsignedCmp": Declared((scf.ForOp,), FLAG),
    "same_in_cluster": Declared((memory.TiledLoadOp, tileas_memory.TiledLoadOp, async_memory.TiledLoadOp), FLAG),
    NOT_CLUSTERED: Declared((FuncOp,), TEXT),
    FEWER_BLOCKS: Declared((FuncOp,), TEXT),
    "warps_of_one_cta": Declared((FuncOp,), POSITIVE),
    "cluster_of_its_own": Declared((FuncOp,), FLAG),
    WORKER_WARPS: Declared((FuncOp,), POSITIVE),
    PROGRAMS_TOGETHER: Declared((FuncOp,), POSITIVE),
    LONG_PROGRAMS: Declared((FuncOp,), AXIS_AND_END),
}
"""Discardable attributes that the conversion to nv_tileaa writes (see to_tileaa/memory.py), or passes over that, and
nv_tileas keeps."""

_PRODUCTS: Classes = (products.DotOp, products.ScaledDotOp)
_ANY_PRODUCT: Classes = (*_PRODUCTS, async_products.AsyncDotOp, tensor_memory.AsyncDotIntoOp)

DECISIONS: dict[str, Declared] = {
    NOT_PIPELINED: Declared((*_POINTERS, *_VIEWS), TEXT),
    NOT_SPECIALIZED: Declared(_PRODUCTS, TEXT),
    "not_native": Declared(_PRODUCTS, TEXT),
    "executed": Declared(_ANY_PRODUCT, _of("an #nv_tileas.executed", ExecutedAttr)),
    "step_parts": Declared(_ANY_PRODUCT, POSITIVE),
    "registers_shared": Declared((AgentSwitchOp,), TEXT),
    APART: Declared((FpToFpOp,), Form("no more than its name, where a thread's elements fill words", is_apart)),
    "in_pairs": Declared((ElementwiseOp, tiles.ReduceOp), FLAG),
    "in_threes": Declared((tiles.ReduceOp,), FLAG),
    RANKS: Declared((arith.SelectOp,), Form("an array of numbers that a number is more than, by registers", are_ranks)),
    ROTATED: Declared((scf.ForOp,), FLAG),
    "drained": Declared((CreatePipelineOp,), FLAG),
    "nv_tileas.host-code": Declared((FuncOp, ModuleOp), FLAG),
    "nv_tileas.num-device-tmas": Declared((FuncOp,), COUNT),
    "nv_tileas.num-host-tmas": Declared((FuncOp,), COUNT),
    **dict.fromkeys(("tensor_offset", "tensor_lane"), Declared((tiles.AllocTensorOp,), COUNT)),
    "tensor_columns": Declared((tiles.AllocTensorOp,), POSITIVE),
    "shared_offset": Declared((CreatePipelineOp, tiles.AllocTensorOp, async_memory.CreateMBarrierOp), COUNT),
    "barriers_offset": Declared((CreatePipelineOp,), COUNT),
    "drawing_offset": Declared((CreatePipelineOp,), COUNT),
    **dict.fromkeys(("full_arrivals", "empty_arrivals"), Declared((CreatePipelineOp,), COUNT)),
    "by_threads": Declared((CreatePipelineOp,), FLAG),
    "expected_bytes": Declared((ProducerCommitOp,), COUNT),
    "counted": Declared((async_memory.TiledTmaLoadOp,), FLAG),
    "shared_bytes": Declared((FuncOp,), COUNT),
    "shared_alignment": Declared((FuncOp,), POSITIVE),
    "exchanges": Declared((Operation,), _of("an #nv_tileas.exchanges", ExchangesAttr)),
    "ways": Declared((Operation,), WAYS),
    "staging": Declared((tileas_memory.TiledStoreOp,), STAGED),
    "steps_at_once": Declared((products.DotOp,), POSITIVE),
    "checks_access": Declared((scf.IfOp,), FLAG),
    NOT_WIDE: Declared((*_POINTERS, *_VIEWS), TEXT),
    NOT_TMA: Declared((*_POINTERS, *_VIEWS), TEXT),
    "offset_bits": Declared((MakeMemRefOp,), BITS),
    "instruction_semantic": Declared(
        (memory.MemoryOp, tileas_memory.FenceOp), _of("an #nv_tileaa.mem_semantic", MemSemanticAttr)
    ),
}
"""Discardable attributes by which passes over nv_tileas tell later ones, emission and remarks what they decided."""

_SCHEDULED: Classes = (tileas_memory.LoadOp, tileas_memory.TiledLoadOp)
SCHEDULE: dict[str, Declared] = {
    STAGES: Declared((scf.ForOp,), POSITIVE),
    **dict.fromkeys((STAGE, ORDER), Declared(_SCHEDULED, COUNT)),
}
"""Those between tileas-generate-schedule and tileas-materialize-schedule."""
