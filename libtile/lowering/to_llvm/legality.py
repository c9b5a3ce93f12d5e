# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which attributes and operands of the inner dialects' ops code is made of. An op that says more is refused.

An attribute of an op that has an emission rule is one of three: `HONOURED` (the rule reads it), `INFORMATION` (it
permits, states or repeats something, and code that does not use it is right), or refused where it is given, unless it
says what holds without it (`_NEUTRAL`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from xdsl.dialects.builtin import IndexType, IntegerAttr, IntegerType, StringAttr, TensorType, i8
from xdsl.ir import Attribute, Operation, SSAValue

from libtile.dialects import scf
from libtile.dialects.cuda_tile.types import NUMBER_NAMES
from libtile.dialects.nv_tileaa import functions as tileaa_functions
from libtile.dialects.nv_tileaa import memory as tileaa_memory
from libtile.dialects.nv_tileaa import pointers as tileaa_pointers
from libtile.dialects.nv_tileaa import shapes as tileaa_shapes
from libtile.dialects.nv_tileaa import tokens as tileaa_tokens
from libtile.dialects.nv_tileaa.attributes import KeywordAttr, PaddingValueAttr
from libtile.dialects.nv_tileaa.element_types import bit_width, is_float
from libtile.dialects.nv_tileaa.memory import pointee_of
from libtile.dialects.nv_tileaa.shapes import integers_of
from libtile.dialects.nv_tileaa.terminators import YieldOp
from libtile.dialects.nv_tileaa.types import MemRefType, MemTokenType, ProgramIdType, PtrType, TiledViewType
from libtile.dialects.nv_tileas import async_products, tensor_memory
from libtile.dialects.nv_tileas import memory as tileas_memory
from libtile.dialects.nv_tileas import pipeline as tileas_pipeline
from libtile.dialects.nv_tileas import products as tileas_products
from libtile.dialects.nv_tileas import tiles as tileas_tiles
from libtile.dialects.nv_tileas import tma as tileas_tma
from libtile.dialects.nv_tileas.attributes import ATOMIC_KINDS, FMA, CopyAtomAttr, MmaAtomAttr
from libtile.dialects.nv_tileas.iterator_rules import roots
from libtile.dialects.nv_tileas.types import (
    AsyncTokenType,
    BufferType,
    ConsumerTokenType,
    PipelineIteratorType,
    PipelineType,
    ProducerTokenType,
    TileASType,
)
from libtile.ir.grouped_op import SEGMENTS
from libtile.ir.operands import source_of
from libtile.ir.tile_form import TileOp, operand_group, type_text
from libtile.lowering.discardable import DECISIONS, FACTS
from libtile.lowering.legality import NUMBERS, Stage
from libtile.lowering.tileas.memory.fences import ACQUIRES, INSTRUCTION_SEMANTIC, RELEASES
from libtile.lowering.to_llvm import elementwise
from libtile.lowering.to_llvm.emitter import RULES
from libtile.targets import MMA_BLOCK_SCALE, MMA_SYNC, mma_families

_ORDER = frozenset({"mem_semantic", "mem_scope"})
_CACHE = frozenset({"cache_modifier", "eviction_policy"})
_BOUNDS = frozenset({"in_bounds", "masked"})
"""`in_bounds` by way of `masked`, which tileas-select-copies makes of it."""


def _reads(*names: str) -> frozenset[str]:
    return frozenset(names)


HONOURED: dict[type[TileOp], frozenset[str]] = {
    **elementwise.HONOURED,
    tileaa_pointers.FpToFpOp: _reads("rounding_mode"),
    tileaa_pointers.EmulatedFpToFpOp: _reads("rounding_mode"),
    tileaa_pointers.IntToFpOp: _reads("unsigned", "rounding_mode"),
    tileaa_pointers.FpToIntOp: _reads("unsigned", "saturating"),
    tileaa_functions.FuncOp: _reads("sym_name", "function_type", "kernel_spec", "compute_capability"),
    tileaa_functions.GetProgramIdOp: _reads("axis"),
    tileaa_functions.GetNumProgramsOp: _reads("axis"),
    tileaa_tokens.PrintOp: _reads("format"),
    tileaa_tokens.AssertOp: _reads("message"),
    tileaa_pointers.GetDimSizeOp: _reads("dim"),
    tileaa_pointers.GetGlobalOp: _reads("name"),
    tileaa_memory.AllocaOp: _reads("count", "alignment"),
    tileaa_shapes.ConstantOp: _reads("value"),
    tileaa_shapes.MakeRangeOp: _reads("start"),
    tileaa_pointers.BitcastOp: _reads("packed"),
    tileaa_shapes.CatOp: _reads("dim"),
    tileaa_shapes.PermuteOp: _reads("permutation"),
    tileaa_pointers.ElementwiseInlineAsmOp: _reads("asm_string", "constraints", "packed_element", "pure"),
    tileaa_pointers.CallElementwiseIntrinsicOp: _reads("intrinsic"),
    tileaa_pointers.ExternElementwiseOp: _reads("symbol"),
    tileaa_functions.InjectIrOp: _reads("ir"),
    tileas_memory.LoadOp: _ORDER | _CACHE,
    tileas_memory.StoreOp: _ORDER | _CACHE,
    tileas_memory.TiledLoadOp: _ORDER | _CACHE | _BOUNDS,
    tileas_memory.TiledStoreOp: _ORDER | _CACHE | _BOUNDS,
    tileas_memory.TiledAtomicRmwOp: _ORDER | _BOUNDS | _reads("rmw_mode"),
    tileas_memory.FenceOp: _ORDER,
    tileas_memory.AtomicRmwOp: _ORDER | _reads("rmw_mode"),
    tileas_memory.AtomicCasOp: _ORDER,
    tileas_memory.MultimemLoadReduceOp: _ORDER | _BOUNDS | _reads("reduction"),
    tileas_memory.MultimemReduceOp: _ORDER | _BOUNDS | _reads("reduction"),
    tileas_memory.MultimemStoreOp: _ORDER | _BOUNDS,
    tileas_tma.TiledLoadOp: _BOUNDS | _reads("layout", "cut"),
    **{
        slice_: _reads("offsets", "strides")
        for slice_ in (tileaa_shapes.ExtractSliceOp, tileas_tiles.ExtractSliceOp, tileas_tiles.InsertSliceOp)
    },
    tileas_tiles.ConvertLayoutOp: _reads("way"),
    tileas_tiles.CopyOp: _reads("offsets"),
    tileas_tiles.ReduceOp: _reads("dim", "steps"),
    tileas_tiles.ScanOp: _reads("dim", "steps", "reverse"),
    tileas_products.DotOp: _reads("signedness_a", "signedness_b"),
    tileas_products.ScaledDotOp: _reads("packed"),
    async_products.AsyncDotOp: _reads(
        "atom",
        "first_column",
        "first_row",
        "first_depth",
        "signedness_a",
        "signedness_b",
        "fenced",
        "rematerialized_a",
        "rematerialized_b",
    ),
    async_products.WaitDotOp: _reads("pending", "held", "held_pins", "apart"),
    tensor_memory.AsyncDotIntoOp: _reads("atom", "signedness_a", "signedness_b"),
    tileas_pipeline.ProducerCommitOp: _reads("after_products"),
    tileas_pipeline.ConsumerReleaseOp: _reads("after_products"),
    tileas_tma.TiledTmaLoadOp: _reads("atom", "tx_count", "dim_map", "multicast", "num_multicast"),
    tileas_tma.TiledTmaStoreOp: _reads("atom", "dim_map"),
    tileas_tma.CommitGroupOp: _reads("stores"),
    tileas_tma.GatherTmaLoadOp: _reads("atom", "tx_count", "dim_map"),
    tileas_tma.ScatterTmaStoreOp: _reads("atom", "dim_map"),
    tileas_tma.TiledAtomicRmwOp: _reads("atom", "dim_map", "rmw_mode"),
    tileas_tma.FenceProxyOp: _reads("proxy", "mem_scope"),
    tileas_tma.TensormapReplaceOp: _reads("field", "ordinal"),
    tileas_tma.MakeTiledTmaDescOp: _reads("atom", "on_device", "layout"),
    tileas_tma.CreateMBarrierOp: _reads("arrivals"),
    tileas_tma.MBarrierArriveOp: _reads("tx_count"),
    tileas_tiles.BarrierOp: _reads("id", "num_warps"),
    tileas_tiles.TakeTurnOp: _reads("id", "groups", "last"),
    tileas_tiles.HandOnTurnOp: _reads("id", "groups", "first"),
    tileas_tiles.AllocTensorOp: _reads("alignment", "pair"),
    tileas_pipeline.WaitOp: _reads("pending", "read"),
    tileas_pipeline.CreatePipelineOp: _reads("alignment", "ctas", "pair"),
    tileas_pipeline.AgentSwitchOp: _reads("agent_warps", "agent_registers", "agent_elected"),
    tileas_pipeline.CreateIteratorOp: _reads("drawn", "consumer_idx"),
    tileas_pipeline.IncIterOp: _reads("within"),
    tileas_pipeline.ConsumerWaitOp: _reads("pending"),
}
"""By op, the attributes that its emission rule reads, or that its atom, which the rule reads, has to agree with."""

INFORMATION: dict[str, str] = {
    "arg_attrs": "a remark says what is not followed; of descriptors they repeat what their types say",
    "hints": "latency has done its work in tileas-generate-schedule; remarks speak of the others",
    "vector": "a fact: how many neighbouring elements may be accessed at once",
    "allow_tma": "permits TMA, which copies for producer agents",
    "alias_scope": "a fact, by which tileas-insert-barriers needs fewer barriers",
    "tileSizes": "repeats the shape of the result's type",
    "dimGroups": "repeats the tiling of the result's type, as the verifier has it",
    "axes": "repeats what the types say",
    "global": "permits other tile blocks to use the address; all scratch memory is global",
    "identities": "leave what a body combines unchanged, and nothing but elements is combined",
    "warps": "repeats what the layouts of a product's operands say",
    "fast_acc": "permits an accumulation of lower precision",
    "pure": "permits to leave out code whose results nobody uses",
    "libname": "libraries are given to the compilation",
    "libpath": "libraries are given to the compilation",
    "predicates": "facts, which code need not use",
    "text": "is a remark",
    "ocgEnterDirectives": "a remark says that they are not followed",
    "ocgLeaveDirectives": "a remark says that they are not followed",
    "tmaIdx": "has done its work in attach-tma-descriptor-args",
    "delay_wait": "permits a later wait",
    "descriptor_alignment": "a fact; descriptors are aligned to 128 bytes anyhow",
    "element_strides": "are ones, as the verifier has it",
    "agent_ids": "a name, by which the groups of pipelines mean agents",
    "producer_group": "repeats which agent's turns produce",
    "consumer_group": "repeats which agent's turns consume",
    "propagate_nan": "products always hand NaNs on",
}
"""Attributes that code need not be made of, with the reason, where the op does not honour them."""


def left_out(op: TileOp) -> str | None:
    """What an op says that code generation would leave out; None when there is nothing."""
    honoured = HONOURED.get(type(op), frozenset())
    for name, attr in op.properties.items():
        if name in honoured or name == SEGMENTS:
            continue
        if name in _CHECKED:
            if (found := _CHECKED[name](op, attr)) is not None:
                return found
        elif name not in INFORMATION:
            return f"has the attribute '{name}' ({attr}), which code generation does not honour"
    for problem in _problems(type(op)):
        if (found := problem(op)) is not None:
            return found
    return _result_problem(op)


@cache
def _problems(cls: type[TileOp]) -> tuple[Callable[[TileOp], str | None], ...]:
    """What else is asked of the ops of a class."""
    asked = {
        _width_problem: cls in _WIDE,
        _steps_problem: issubclass(cls, tileas_tiles.ReduceOp | tileas_tiles.ScanOp),
        _fence_problem: issubclass(cls, tileaa_memory.MemoryOp | tileas_memory.FenceOp),
        _turn_problem: issubclass(cls, tileas_pipeline.ProducerCommitOp | tileas_pipeline.ConsumerReleaseOp),
        _operand_problem: cls in _UNREAD_OPERANDS,
    }
    return tuple(problem for problem, is_asked in asked.items() if is_asked)


def _operand_problem(op: TileOp) -> str | None:
    for name in _UNREAD_OPERANDS[type(op)]:
        if any(not _in_tensor_memory(value) for value in operand_group(op, name)):
            return f"has the operand '{name}', which code generation does not honour"
    return None


def _result_problem(op: TileOp) -> str | None:
    for result in op.results:
        type_ = result._type
        if isinstance(type_, PipelineType) and type_.consumers != 1 and not type_.has_barriers:
            return f"has {type_.consumers} consumers, and a pipeline without barrier objects has one"
    return None


def _in_tensor_memory(value: SSAValue) -> bool:
    """Whether a value is storage in tensor memory, which a pipeline's stages may lie in."""
    return isinstance(value.type, BufferType) and value.type.space == "tmem"


_UNREAD_OPERANDS: dict[type[TileOp], tuple[str, ...]] = {
    tileas_memory.TiledLoadOp: ("offsets", "other"),
    tileas_memory.TiledStoreOp: ("offsets",),
    tileas_memory.TiledAtomicRmwOp: ("offsets",),
    tileas_pipeline.CreatePipelineOp: ("storage",),
}
"""Optional operands that an emission rule does not read."""

Check = Callable[[TileOp, Attribute], "str | None"]


def _refuse(name: str, value: object) -> str:
    return f"has the attribute '{name}' ({value}), which code generation does not honour"


def _keyword(name: str, *neutral: str) -> Check:
    """Keywords that say what holds without the attribute are let through."""

    def check(op: TileOp, attr: Attribute) -> str | None:
        same = isinstance(attr, KeywordAttr) and attr.keyword in neutral
        return None if same else _refuse(name, attr)

    return check


def _padding(op: TileOp, attr: Attribute) -> str | None:
    """What is read out of bounds is up to the view; of a store it says that not all may be inside."""
    if isinstance(op, tileas_memory.TiledStoreOp):
        return None
    view = source_of(op).type
    given = attr.keyword if isinstance(attr, PaddingValueAttr) else attr
    same = isinstance(view, TiledViewType) and view.layout.padding == given
    return None if same else f"{_refuse('padding_value', attr)} but where its view pads with the same"


_ATOMS: dict[type[TileOp], tuple[str, ...]] = {
    tileas_products.DotOp: (FMA, *mma_families()),
    tileas_products.ScaledDotOp: (MMA_SYNC, MMA_BLOCK_SCALE),
    tileas_memory.LoadOp: ("ldg",),
    tileas_memory.TiledLoadOp: ("ldg",),
    tileas_memory.StoreOp: ("stg",),
    tileas_memory.TiledStoreOp: ("stg",),
    tileas_tma.LoadOp: ("ldgsts",),
    tileas_tma.TiledLoadOp: ("ldgsts",),
    tileas_memory.AtomicRmwOp: ATOMIC_KINDS,
    tileas_memory.AtomicCasOp: ("atom",),
    tileas_memory.TiledAtomicRmwOp: ATOMIC_KINDS,
    tileas_memory.MultimemLoadReduceOp: ("multimem",),
    tileas_memory.MultimemReduceOp: ("multimem",),
    tileas_memory.MultimemStoreOp: ("multimem",),
    tileas_tiles.CopyOp: ("lds", "sts", "ldmatrix", "stmatrix", "tcgen05_ld", "tcgen05_st", "tcgen05_cp"),
}
"""The kinds of atoms that the rule of an op spells."""


_WIDE = frozenset(_ATOMS) - {tileas_products.DotOp, tileas_products.ScaledDotOp}
"""Ops whose atoms say how wide one instruction is."""
_WIDTHS = (4, 8, 16, 32, 64, 128)


def _atom(op: TileOp, attr: Attribute) -> str | None:
    if isinstance(attr, CopyAtomAttr | MmaAtomAttr) and attr.kind in _ATOMS.get(type(op), ()):
        return None
    return _refuse("atom", attr)


def _width_problem(op: TileOp) -> str | None:
    """An access says how wide it is."""
    atom = op.properties.get("atom")
    if isinstance(atom, CopyAtomAttr) and (atom.bits in _WIDTHS or atom.kind in ("tcgen05_ld", "tcgen05_st")):
        return None
    return "has no atom with the bits of one instruction, which tileas-select-copies gives it"


def _steps_problem(op: TileOp) -> str | None:
    """A reduction or a scan says its steps."""
    assert isinstance(op, tileas_tiles.ReduceOp | tileas_tiles.ScanOp)
    return "has no 'steps', which tileas-select-collectives gives it" if op.steps is None else None


def _fence_problem(op: TileOp) -> str | None:
    """What acquires or releases says how."""
    assert isinstance(op, tileaa_memory.MemoryOp | tileas_memory.FenceOp)
    semantic = None if INSTRUCTION_SEMANTIC in op.attributes else op.mem_semantic
    if semantic is not None and semantic.keyword in (*ACQUIRES, *RELEASES):
        return f"has no '{INSTRUCTION_SEMANTIC}', which tileas-insert-fences gives it"
    return None


def _turn_problem(op: TileOp) -> str | None:
    """Products arrive at barrier objects, where there are some."""
    if "after_products" not in op.properties:
        return None
    begins = (root.owner for value in op.operands for root in roots(value))
    for type_ in (value.type for begin in begins if isinstance(begin, TileOp) for value in begin.operands):
        pipeline = type_.pipeline if isinstance(type_, PipelineIteratorType) else type_
        if isinstance(pipeline, PipelineType) and not pipeline.has_barriers:
            return "has the attribute 'after_products', and its pipeline has no barrier objects"
    return None


def _consumer(op: TileOp, attr: Attribute) -> str | None:
    """Barrier objects count the arrivals of all consumers; without them there is one."""
    type_ = source_of(op).type
    counted = isinstance(type_, PipelineType) and type_.has_barriers
    same = counted or (isinstance(attr, IntegerAttr) and attr.value.data == 0)
    return None if same else _refuse("consumer_idx", attr)


def _no_bounds(op: TileOp, attr: Attribute) -> str | None:
    return _refuse("in_bounds", attr) if integers_of(attr) else None


def _scope(op: TileOp, attr: Attribute) -> str | None:
    """Of a change of a descriptor tileas-insert-fences reads it."""
    return None if isinstance(op, tileas_tma.TensormapReplaceOp) else _refuse("mem_scope", attr)


def _internal_type(op: TileOp, attr: Attribute) -> str | None:
    """Tensor maps round f32 to tf32, and have bytes for floats of 8 bits."""
    assert isinstance(op, tileas_tma.MakeTiledTmaDescOp)
    element = pointee_of(op.tensor.type)
    if element is None or attr == element or (NUMBER_NAMES.get(element), NUMBER_NAMES.get(attr)) == ("f32", "tf32"):
        return None
    is_byte = attr == i8 and is_float(element) and bit_width(element) == bit_width(i8)
    return None if is_byte else f"{_refuse('tma_internal_type', attr)} for elements {type_text(element)}"


def _visibility(op: TileOp, attr: Attribute) -> str | None:
    """Kernels are launched by the host, which sees public symbols alone."""
    if not (isinstance(attr, StringAttr) and tileaa_functions.is_hidden(attr)):
        return None
    return f"is {attr}, and a kernel that nothing in its module launches is for the host, which sees public ones alone"


_CHECKED: dict[str, Check] = {
    "sym_visibility": _visibility,
    "tma_internal_type": _internal_type,
    "mem_scope": _scope,
    "cache_modifier": _keyword("cache_modifier", "none"),
    "eviction_policy": _keyword("eviction_policy", "none", "normal"),
    "rounding_mode": _keyword("rounding_mode", "nearest_int_to_zero"),
    "padding_value": _padding,
    "atom": _atom,
    "consumer_idx": _consumer,
    "in_bounds": _no_bounds,
}
"""Attributes that some ops do not honour, and that may say what holds without them."""


# -- the table --------------------------------------------------------------------------------------------------------

STRUCTURE: frozenset[type[Operation]] = frozenset(
    {tileaa_functions.FuncOp, YieldOp, tileas_pipeline.PipelineYieldOp, scf.ConditionOp, scf.YieldOp}
)
"""Ops that stand for no code of their own: the function, and the ends of regions, which the ops around them read."""


def _problem(op: Operation) -> str | None:
    return left_out(op) if isinstance(op, TileOp) else None


STAGE = Stage(
    "nv_tileas for LLVM IR",
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
        BufferType,
        PipelineType,
        PipelineIteratorType,
        ProducerTokenType,
        ConsumerTokenType,
        AsyncTokenType,
        TileASType,
    ),
    elements=(*NUMBERS, PtrType),
    ops=STRUCTURE,
    rules=RULES,
    layouts=True,
    problem=_problem,
    attributes={**FACTS, **DECISIONS},
)
"""What LLVM IR is emitted from."""
