# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`infer-in-bounds`: accesses through views say along which dimensions no element of their tile lies outside.

Two reasons are found, dimension by dimension, of partition and strided views:

- the range of the index: its last tile ends within a size that the view's type states, or within the least that a
  size of run time is known to be;
- divisibility: the size that the type states is a multiple of the tile's, the tiles of a partition touch, and an index
  outside of the index space would be undefined: so a tile of the space is whole. Loads are left out here, and so are
  sizes of run time, since programs do read beyond the space, whatever they do with what they get, and are launched
  with more tile blocks than a tensor that they do not know has tiles.

A compiler needs no checks there. Bytecode says so from 13.4 on: a module with such a flag is written in no older
version.
"""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import DenseArrayBase, ModuleOp, i1
from xdsl.ir import Operation, SSAValue

from libtile.analysis import Facts
from libtile.dialects.cuda_tile.ops import CudaTileOp
from libtile.dialects.cuda_tile.types import DYNAMIC, PartitionViewType, StridedViewType
from libtile.ir.module_pass import ModulePass
from libtile.ir.places import ops_of
from libtile.support import statistics
from libtile.support.records import dataclass
from libtile.transforms import reporting
from libtile.transforms.canonical_values import defining, is_op
from libtile.transforms.greedy import functions_in

_ACCESSES = ("load_view_tko", "store_view_tko")


@dataclass(frozen=True)
class InferInBoundsPass(ModulePass):
    """Set `inbounds` where ranges or sizes show it."""

    name = "infer-in-bounds"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        infer_in_bounds(op)


def infer_in_bounds(root: Operation) -> bool:
    """Infer in every function in `root` (or in `root` itself, when it is one); returns whether anything was found."""
    changed = False
    for function in functions_in(root):
        facts: Facts | None = None
        for op in ops_of(function, CudaTileOp):
            if is_op(op, *_ACCESSES):
                facts = facts or Facts(function)
                changed |= _infer(op, facts)
    return changed


def dimensions_in_bounds(op: CudaTileOp, facts: Facts, by_space: bool = True) -> list[bool]:
    """For each dimension of the tile that an access through a view takes, whether no element lies outside along it.

    `by_space`: an index outside of the index space is undefined, and does not happen.
    """
    (view,), index = op.operand_group("view"), op.operand_group("index")
    type_ = view.type
    found = list(op.attribute_value("inbounds") or ()) or [False] * len(index)
    if not isinstance(type_, PartitionViewType | StridedViewType):
        return found
    steps = type_.traversal_strides if isinstance(type_, StridedViewType) else type_.tile_shape
    dims = tuple(type_.dim_map) or tuple(range(len(index)))
    sizes = _least_sizes(view, type_, facts)
    for number, (value, tile, step, dim) in enumerate(zip(index, type_.tile_shape, steps, dims)):
        if found[number]:
            continue
        size, least = type_.tensor_view.shape[dim], sizes[dim]
        fact = facts.of(value)
        if least is not None and fact.lower is not None and fact.lower >= 0 and fact.upper is not None:
            found[number] = fact.upper * step + tile <= least
        if not found[number] and by_space and is_op(op, "store_view_tko") and isinstance(type_, PartitionViewType):
            found[number] = size != DYNAMIC and size % tile == 0
    return found


def _least_sizes(view: SSAValue, type_: PartitionViewType | StridedViewType, facts: Facts) -> list[int | None]:
    """What the sizes of a view's tensor are at least; None where nothing is known."""
    tiles = defining(view, "make_partition_view") or defining(view, "make_strided_view")
    tensor = defining(tiles.operand("tensor_view"), "make_tensor_view") if tiles is not None else None
    dynamic = iter(tensor.operand_group("dynamicShape") if tensor is not None else ())
    least: list[int | None] = []
    for size in type_.tensor_view.shape:
        value = next(dynamic, None) if size == DYNAMIC else None
        least.append(size if size != DYNAMIC else None if value is None else facts.of(value).lower)
    return least


def _infer(op: CudaTileOp, facts: Facts) -> bool:
    (view,) = op.operand_group("view")
    if not isinstance(view.type, PartitionViewType | StridedViewType):
        return False
    found = dimensions_in_bounds(op, facts)
    known = list(op.attribute_value("inbounds") or ()) or [False] * len(found)
    if not all(found):
        reporting.missed(
            op, "InBounds", "Access is not known to be in bounds",
            "the index ends beyond what is known of the size, or the size is no multiple of the tile's",
            Dimensions=", ".join(str(number) for number, flag in enumerate(found) if not flag),
        )  # fmt: skip
    if found == known:
        return False
    new = ", ".join(str(number) for number, flag in enumerate(found) if flag and not known[number])
    reporting.done(op, "InBounds", "Access is in bounds", Dimensions=new)
    statistics.count("dimensions in bounds", sum(found) - sum(known))
    op.properties["inbounds"] = DenseArrayBase.from_list(i1, [int(flag) for flag in found])
    return True
