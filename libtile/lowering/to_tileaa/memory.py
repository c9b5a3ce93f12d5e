# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Pointers, views, accesses and tokens.

What `assume` and arithmetic tell of addresses is written on the accesses, as discardable attributes with one entry per
dimension of the tile: `contiguity` (elements in a row at adjacent addresses), `divisibility` (of the address of the
first of such a row, in bytes), `mask_constancy` (elements in a row with one mask bit). On memrefs, `divisibility` is
that of the base address, and `size_divisibility` and `stride_divisibility` are those of sizes and strides, in elements;
`size_bounds` and `stride_bounds` are the largest values of these.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, DictionaryAttr, IntegerType, TensorType, i1, i64
from xdsl.ir import SSAValue

from libtile.dialects.cuda_tile.attributes import OUTSIDE_ATTRIBUTE
from libtile.dialects.cuda_tile.ops import CudaTileOp
from libtile.dialects.cuda_tile.types import DYNAMIC, TensorViewType
from libtile.dialects.nv_tileaa.memory import (
    AtomicCasOp,
    AtomicRmwOp,
    LoadOp,
    MultimemLoadReduceOp,
    MultimemReduceOp,
    MultimemStoreOp,
    StoreOp,
    TiledAtomicRmwOp,
    TiledLoadOp,
    TiledStoreOp,
)
from libtile.dialects.nv_tileaa.pointers import AddPtrOp, BlockTileOp, GetDimSizeOp, MakeMemRefOp
from libtile.dialects.nv_tileaa.tokens import CreateMemTokenOp, JoinMemTokenOp
from libtile.dialects.nv_tileaa.types import MemTokenType, TiledViewType
from libtile.ir.facts import MAX_DIVISOR, Fact, power_of_two_factor
from libtile.ir.numbers import integers
from libtile.ir.tile_form import shape_of
from libtile.lowering.discardable import OUTSIDE
from libtile.lowering.hints import chosen_hints
from libtile.lowering.to_tileaa.context import Context, convert_type, rule
from libtile.targets import Target

SEMANTICS = {"weak": "weak", "relaxed": "relaxed", "acquire": "acquire", "release": "release", "acq_rel": "acq_rel"}
SCOPES = {"tl_blk": "tl_blk", "device": "gpu", "sys": "sys"}


def _numbers(values: Sequence[int]) -> DenseArrayBase:
    return integers([min(v, MAX_DIVISOR) for v in values], i64)


def ordering(op: CudaTileOp) -> dict[str, Any]:
    """The memory semantics and scope of an access, as nv_tileaa names them."""
    semantic = SEMANTICS[op.attribute_value("memory_ordering_semantics")]
    scope = op.attribute_value("memory_scope")
    return {"mem_semantic": semantic, "mem_scope": SCOPES[scope] if scope and semantic != "weak" else None}


def hints(op: CudaTileOp, target: Target) -> dict[str, Any]:
    """The optimization hints for a target, as discardable attributes."""
    chosen = {hint.key: hint.attribute for hint in chosen_hints(op, target) if hint.value is not None}
    return {"hints": DictionaryAttr(chosen)} if chosen else {}


def _address_facts(pointers: Fact, mask: Fact | None) -> dict[str, Any]:
    facts = {"contiguity": _numbers(pointers.contiguity), "divisibility": _numbers(pointers.divisor)}
    if mask is not None:
        facts["mask_constancy"] = _numbers(mask.constancy)
    return facts


def _access_facts(c: Context, pointers: SSAValue, mask: SSAValue | None) -> dict[str, Any]:
    return _address_facts(c.facts.of(pointers), None if mask is None else c.facts.of(mask))


@rule("load_ptr_tko")
def _load(c: Context, op: CudaTileOp) -> None:
    mask = c.optional(op, "mask")
    padding = c.optional(op, "paddingValue") if mask is not None else None  # it stands where a mask is false
    made = c.make(
        LoadOp,
        [c.operand(op, "source"), [], mask, padding, c.optional(op, "token")],
        [convert_type(r.type) for r in op.results],
        **ordering(op),
        **_access_facts(c, op.operand("source"), op.optional_operand("mask")),
        **hints(op, c.target),
    )
    c.bind_all(op, made.results)


@rule("store_ptr_tko")
def _store(c: Context, op: CudaTileOp) -> None:
    made = c.make(
        StoreOp,
        [c.operand(op, "destination"), c.operand(op, "value"), [], c.optional(op, "mask"), c.optional(op, "token")],
        [MemTokenType()],
        **ordering(op),
        **_access_facts(c, op.operand("destination"), op.optional_operand("mask")),
        **hints(op, c.target),
    )
    c.bind_all(op, made.results)


@rule("atomic_rmw_tko")
def _atomic_rmw(c: Context, op: CudaTileOp) -> None:
    made = c.make(
        AtomicRmwOp,
        [c.operand(op, "pointers"), c.operand(op, "arg"), [], c.optional(op, "mask"), c.optional(op, "token")],
        [convert_type(r.type) for r in op.results],
        rmw_mode=op.attribute_value("mode"),
        **ordering(op),
    )
    c.bind_all(op, made.results)


@rule("atomic_cas_tko")
def _atomic_cas(c: Context, op: CudaTileOp) -> None:
    made = c.make(
        AtomicCasOp,
        [
            c.operand(op, "pointers"),
            c.operand(op, "cmp"),
            c.operand(op, "val"),
            [],
            c.optional(op, "mask"),
            c.optional(op, "token"),
        ],
        [convert_type(r.type) for r in op.results],
        **ordering(op),
    )
    c.bind_all(op, made.results)


@rule("offset")
def _offset(c: Context, op: CudaTileOp) -> None:
    c.bind(op.results[0], c.one(AddPtrOp, c.all(op.operands), convert_type(op.results[0].type)))


@rule("assume")
def _assume(c: Context, op: CudaTileOp) -> None:
    """The promise is in the facts; the value is the operand."""
    c.values[op.results[0]] = c.get(op.operand("value"))


# -- views ------------------------------------------------------------------------------------------------------------


def _divisors(c: Context, static: Sequence[int], dynamic: Sequence[SSAValue]) -> list[int]:
    values = iter(dynamic)
    return [
        c.facts.of(next(values)).scalar_divisor if size == DYNAMIC else power_of_two_factor(size) for size in static
    ]


def _bounds(c: Context, static: Sequence[int], dynamic: Sequence[SSAValue]) -> list[int]:
    """The largest value of each size or stride: what is assumed of it, or that of its type (i32 for narrower ones)."""
    values = iter(dynamic)
    return [_bound(c, next(values)) if size == DYNAMIC else size for size in static]


def _bound(c: Context, value: SSAValue) -> int:
    type_ = convert_type(value.type)
    assert isinstance(type_, TensorType) and isinstance(type_.element_type, IntegerType)
    upper = c.facts.of(value).upper
    return upper if upper is not None else (1 << max(type_.element_type.width.data, 32) - 1) - 1


@rule("make_tensor_view")
def _make_tensor_view(c: Context, op: CudaTileOp) -> None:
    type_ = op.results[0].type
    assert isinstance(type_, TensorViewType)
    sizes, strides = op.operand_group("dynamicShape"), op.operand_group("dynamicStrides")
    memref = c.one(
        MakeMemRefOp,
        [
            c.scalar(c.operand(op, "base")),
            None,
            [c.index(c.get(v)) for v in sizes],
            [c.index(c.get(v)) for v in strides],
        ],
        convert_type(type_),
        divisibility=_numbers([c.facts.of(op.operand("base")).scalar_divisor]),
        size_divisibility=_numbers(_divisors(c, type_.shape, sizes)),
        stride_divisibility=_numbers(_divisors(c, type_.strides, strides)),
        size_bounds=_numbers(_bounds(c, type_.shape, sizes)),
        stride_bounds=_numbers(_bounds(c, type_.strides, strides)),
    )
    c.bind(op.results[0], memref)


@rule("make_partition_view", "make_strided_view", "make_gather_scatter_view")
def _make_tile_view(c: Context, op: CudaTileOp) -> None:
    type_ = convert_type(op.results[0].type)
    assert isinstance(type_, TiledViewType)
    groups = ArrayAttr([_numbers([d]) for d in type_.dim_map])
    view = c.one(BlockTileOp, c.all(op.operands), type_, tileSizes=_numbers(type_.shape), dimGroups=groups)
    c.bind(op.results[0], view)


def _indices(c: Context, values: Sequence[SSAValue]) -> list[SSAValue]:
    """Scalars as `index`; a tile of indices (of a gather-scatter view) as it is."""
    converted = c.all(values)
    return [c.index(v) if not shape_of(v.type) else v for v in converted]


def _view_facts(c: Context, op: CudaTileOp) -> dict[str, Any]:
    inbounds = list(op.attribute_value("inbounds") or ())
    outside = op.attributes.get(OUTSIDE_ATTRIBUTE)
    return {
        **({} if outside is None else {OUTSIDE: outside}),
        "in_bounds": DenseArrayBase.from_list(i1, [int(b) for b in inbounds]) if any(inbounds) else None,
        "index_divisibility": _numbers([c.facts.of(v).scalar_divisor for v in op.operand_group("index")]),
    }


@rule("load_view_tko")
def _load_view(c: Context, op: CudaTileOp) -> None:
    made = c.make(
        TiledLoadOp,
        [c.operand(op, "view"), _indices(c, op.operand_group("index")), None, None, c.optional(op, "token")],
        [convert_type(r.type) for r in op.results],
        **ordering(op),
        **_view_facts(c, op),
        **hints(op, c.target),
    )
    c.bind_all(op, made.results)


@rule("store_view_tko")
def _store_view(c: Context, op: CudaTileOp) -> None:
    made = c.make(
        TiledStoreOp,
        [
            c.operand(op, "view"),
            c.operand(op, "tile"),
            _indices(c, op.operand_group("index")),
            None,
            c.optional(op, "token"),
        ],
        [MemTokenType()],
        **ordering(op),
        **_view_facts(c, op),
        **hints(op, c.target),
    )
    c.bind_all(op, made.results)


@rule("atomic_red_view_tko")
def _atomic_red_view(c: Context, op: CudaTileOp) -> None:
    made = c.make(
        TiledAtomicRmwOp,
        [
            c.operand(op, "view"),
            c.operand(op, "value"),
            _indices(c, op.operand_group("index")),
            None,
            c.optional(op, "token"),
        ],
        [convert_type(op.operand("value").type), MemTokenType()],
        rmw_mode=op.attribute_value("mode"),
        **ordering(op),
        **_view_facts(c, op),
    )
    c.bind_all(op, [made.results[-1]])


@rule("get_tensor_shape", "get_index_space_shape")
def _sizes(c: Context, op: CudaTileOp) -> None:
    from xdsl.dialects.builtin import IndexType

    from libtile.dialects import arith

    for dim, result in enumerate(op.results):
        size = c.one(GetDimSizeOp, [c.get(op.operand("src"))], IndexType(), dim=dim)
        type_ = convert_type(result.type)
        assert isinstance(type_, TensorType)
        element = type_.element_type
        assert isinstance(element, IntegerType)
        wide = c.builtin(arith.IndexCastOp, [size], i64)
        scalar = wide if element.width.data == 64 else c.builtin(arith.TruncIOp, [wide], element)
        c.bind(result, c.tile(scalar))


# -- tokens -----------------------------------------------------------------------------------------------------------


@rule("make_token")
def _make_token(c: Context, op: CudaTileOp) -> None:
    c.bind(op.results[0], c.one(CreateMemTokenOp, [], MemTokenType()))


@rule("join_tokens")
def _join_tokens(c: Context, op: CudaTileOp) -> None:
    c.bind(op.results[0], c.one(JoinMemTokenOp, [c.all(op.operands)], MemTokenType()))


# -- replicated memory ------------------------------------------------------------------------------------------------


@rule("multimem_load_reduce_view_tko")
def _multimem_load_reduce(c: Context, op: CudaTileOp) -> None:
    made = c.make(
        MultimemLoadReduceOp,
        [c.operand(op, "view"), _indices(c, op.operand_group("index")), c.optional(op, "token")],
        [convert_type(r.type) for r in op.results],
        reduction=op.attribute_value("reduction"),
        **ordering(op),
        **_view_facts(c, op),
    )
    c.bind_all(op, made.results)


@rule("multimem_store_view_tko", "multimem_reduce_view_tko")
def _multimem_write(c: Context, op: CudaTileOp) -> None:
    is_reduction = op.spec.name == "multimem_reduce_view_tko"
    made = c.make(
        MultimemReduceOp if is_reduction else MultimemStoreOp,
        [c.operand(op, "view"), c.operand(op, "tile"), _indices(c, op.operand_group("index")), c.optional(op, "token")],
        [MemTokenType()],
        **({"reduction": op.attribute_value("reduction")} if is_reduction else {}),
        **ordering(op),
        **_view_facts(c, op),
    )
    c.bind_all(op, made.results)
