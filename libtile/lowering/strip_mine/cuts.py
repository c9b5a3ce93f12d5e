# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Through which dimensions of its operands a cut of an op goes.

A tile that is cut along dimension d into n pieces is n tiles, each `1/n` as long along d. An op can be cut along a
dimension of its domain when a piece of its results is computed from pieces, along one dimension each, of some of its
operands, and from all of the others. The domain is the shape of the result; that of a store is what it stores, that of
a reduction or scan its operand.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from xdsl.ir import Operation, OpResult, SSAValue

from libtile.dialects.cuda_tile.attributes import DenseElementsAttr
from libtile.dialects.cuda_tile.elementwise import is_elementwise
from libtile.dialects.cuda_tile.ops import CudaTileOp
from libtile.dialects.cuda_tile.types import (
    GatherScatterViewType,
    PartitionViewType,
    StridedViewType,
    TileType,
    TileViewType,
    tile_shape,
)
from libtile.ir.operands import source_of, sources_of

Dim = int | None
"""A dimension that is cut, or None: what the op takes whole, or no tile at all."""

LOADS = ("load_ptr_tko", "load_view_tko")
STORES = ("store_ptr_tko", "store_view_tko")
ATOMICS = ("atomic_rmw_tko", "atomic_cas_tko", "atomic_red_view_tko")
WRITES = (*STORES, *ATOMICS)
ACCESSES = (*LOADS, *WRITES)
UNORDERED = ("weak", "relaxed")
"""Orderings of an access that say nothing of other memory."""
VIEW_MAKERS = ("make_partition_view", "make_strided_view", "make_gather_scatter_view")


class Uncut(Exception):
    """An op cannot be cut (or not so); `reason` says why, in the words of an error message."""

    def __init__(self, op: Operation, reason: str):
        super().__init__(reason)
        self.op = op
        self.reason = reason


def mnemonic(op: object) -> str:
    """The op's name in the dialect; empty for what is no op of it."""
    return op.spec.name if isinstance(op, CudaTileOp) else ""


def domain_of(op: CudaTileOp) -> tuple[int, ...]:
    """The shape whose dimensions the op can be cut along."""
    name = mnemonic(op)
    if name in ("reduce", "scan", "store_ptr_tko"):
        return tile_shape(sources_of(op)[0])
    if name == "store_view_tko":
        return tile_shape(op.operand_group("tile")[0])
    if name == "atomic_red_view_tko":
        return tile_shape(op.operand_group("value")[0])
    return tile_shape(op.results[0]) if op.results else ()


def domain_dim(op: CudaTileOp, dim: int) -> int:
    """The dimension of the domain that dimension `dim` of a result belongs to."""
    if mnemonic(op) == "reduce":
        return dim + (dim >= op.attribute_value("dim"))
    return dim


def result_dims(op: CudaTileOp, dim: int) -> list[Dim]:
    """For a cut along a dimension of the domain, along which dimension each result is cut."""
    if mnemonic(op) == "reduce":
        reduced = op.attribute_value("dim")
        return [None if dim == reduced else dim - (dim > reduced)] * len(op.results)
    return [dim if isinstance(r.type, TileType) and r.type.shape else None for r in op.results]


def operand_dims(op: CudaTileOp, dim: int) -> list[Dim]:
    """For a cut along a dimension of the domain, along which dimension each operand is cut; Uncut when it cannot be."""
    rule = _RULES.get(mnemonic(op))
    if rule is not None:
        return rule(op, dim)
    if mnemonic(op) in ACCESSES or is_elementwise(op):
        domain = domain_of(op)
        return [dim if domain and tile_shape(v) == domain else None for v in op.operands]
    raise Uncut(op, "a large tile is needed whole")


# -- rules ------------------------------------------------------------------------------------------------------------


def _broadcast(op: CudaTileOp, dim: int) -> list[Dim]:
    source, result = tile_shape(op.operand("source")), tile_shape(op.results[0])
    return [dim if source and source[dim] == result[dim] else None]


def reshaped_dim(shape: tuple[int, ...], dim: int, other: tuple[int, ...]) -> Dim:
    """The dimension of `other` whose pieces hold the elements of pieces along `dim`, in row-major order; None if none.

    The pieces are told apart by the highest bits of the index along the dimension, which must be the highest of one
    there, too.
    """
    stride = prod(shape[dim:])
    return next((e for e, size in enumerate(other) if size > 1 and prod(other[e:]) == stride), None)


def _reshape(op: CudaTileOp, dim: int) -> list[Dim]:
    source = reshaped_dim(tile_shape(op.results[0]), dim, tile_shape(op.operand("source")))
    if source is None:
        raise Uncut(op, "a reshape takes its elements from all over the operand")
    return [source]


def _permute(op: CudaTileOp, dim: int) -> list[Dim]:
    return [op.attribute_value("permutation")[dim]]


def _collective(op: CudaTileOp, dim: int) -> list[Dim]:
    return [dim] * len(op.operands)


def _cat(op: CudaTileOp, dim: int) -> list[Dim]:
    if dim == op.attribute_value("dim"):
        raise Uncut(op, "tiles are joined along the dimension that is cut")
    return [dim, dim]


def _same_length(op: CudaTileOp, dim: int) -> list[Dim]:
    """Parts of a tile (extract, insert): cut along a dimension that they have all of."""
    tiles = [v for v in (*op.operands, *op.results) if tile_shape(v)]
    if len({tile_shape(v)[dim] for v in tiles}) > 1:
        raise Uncut(op, "a part is selected along the dimension that is cut")
    return [dim if tile_shape(v) else None for v in op.operands]


def _constant(op: CudaTileOp, dim: int) -> list[Dim]:
    value = op.properties.get("value")
    if not isinstance(value, DenseElementsAttr) or not value.is_splat:
        raise Uncut(op, "a constant has many different elements")
    return []


def _view_access(op: CudaTileOp, dim: int) -> list[Dim]:
    view = op.operand_group("view")[0]
    type_ = view.type
    if not isinstance(type_, PartitionViewType | StridedViewType | GatherScatterViewType):
        raise Uncut(op, "its view is of an unknown kind")
    if mnemonic(view.owner) not in VIEW_MAKERS:
        raise Uncut(op, "its view is not made in the kernel")
    sparse = type_.sparse_dim if isinstance(type_, GatherScatterViewType) else None
    dims: list[Dim] = []
    indices = op.operand_group("index")
    for value in op.operands:
        if isinstance(value.type, TileType) and value.type.shape == type_.tile_shape:
            dims.append(dim)
        elif any(value is v for v in indices) and tile_shape(value):
            dims.append(0 if dim == sparse else None)
        else:
            dims.append(None)
    if sparse is not None and len(type_.tile_shape) == 1:
        raise Uncut(op, "a view of rank 1 gathers")
    return dims


_RULES: dict[str, Callable[[CudaTileOp, int], list[Dim]]] = {
    "broadcast": _broadcast,
    "reshape": _reshape,
    "permute": _permute,
    "reduce": _collective,
    "scan": _collective,
    "cat": _cat,
    "extract": _same_length,
    "insert": _same_length,
    "constant": _constant,
    "iota": lambda op, dim: [],
    "assume": lambda op, dim: [dim],
    "pack": lambda op, dim: [dim],
    "unpack": lambda op, dim: [dim],
    "load_view_tko": _view_access,
    "store_view_tko": _view_access,
    "atomic_red_view_tko": _view_access,
}


def check_body(op: CudaTileOp, shape: tuple[int, ...]) -> None:
    """Uncut unless the body of a reduction or scan can be run on tiles of a shape, too."""
    if not shape:
        return
    for inner in op.regions[0].block.ops:
        if mnemonic(inner) not in ("yield", "constant") and not is_elementwise(inner):
            raise Uncut(op, f"its body has '{inner.name}', which takes scalars only")


# -- what accesses touch ----------------------------------------------------------------------------------------------


def same_value(a: SSAValue, b: SSAValue, depth: int = 16) -> bool:
    """Whether two values are equal in every run: they are one, or equal ops without effects make them of equal ones."""
    if a is b:
        return True
    x, y = a.owner, b.owner
    if not isinstance(a, OpResult) or not isinstance(b, OpResult) or depth == 0:
        return False
    if not isinstance(x, CudaTileOp) or not isinstance(y, CudaTileOp) or x.regions or type(x) is not type(y):
        return False
    if not (x.spec.has_trait("pure") or x.spec.has_trait("no_memory_effect") or mnemonic(x) == "assume"):
        return False
    if x.properties != y.properties or a.type != b.type or len(x.operands) != len(y.operands):
        return False
    if a.index != b.index:
        return False
    return all(same_value(v, w, depth - 1) for v, w in zip(x.operands, y.operands))


def piecewise_apart(a: CudaTileOp, dim_a: int, b: CudaTileOp, dim_b: int) -> bool:
    """Whether piece i of one access never touches what piece k of another one does, for i other than k.

    It is so for tiles of one view that never overlap (two of them are the same, or have nothing in common), and for
    accesses through one tile of pointers, as it is for `tileas-insert-barriers`; and for two loads.
    """
    if mnemonic(a) in LOADS and mnemonic(b) in LOADS:
        return True
    if dim_a != dim_b or domain_of(a) != domain_of(b):
        return False
    views = [op.operand_group("view")[0] for op in (a, b) if any(v.name == "view" for v in op.spec.operands)]
    if len(views) == 1:
        return False
    if not views:
        return same_value(source_of(a), source_of(b))
    return _never_overlapping(views[0], views[1])


def _never_overlapping(a: SSAValue, b: SSAValue) -> bool:
    type_, other = a.type, b.type
    if not isinstance(type_, PartitionViewType | StridedViewType) or not isinstance(other, TileViewType):
        return False
    if (type_.tile_shape, type_.tensor_view) != (other.tile_shape, other.tensor_view) or type(type_) is not type(other):
        return False
    if isinstance(other, PartitionViewType | StridedViewType) and type_.dim_map != other.dim_map:
        return False
    if isinstance(type_, StridedViewType) and isinstance(other, StridedViewType):
        if type_.traversal_strides != other.traversal_strides:
            return False
        if any(step < size for step, size in zip(type_.traversal_strides, type_.tile_shape)):
            return False
    x, y = a.owner, b.owner
    return isinstance(x, Operation) and isinstance(y, Operation) and same_value(source_of(x), source_of(y))
