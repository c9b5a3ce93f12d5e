# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the host code of a module says about the tensor maps of its kernels: a recipe for each of them.

`separate-host-tma` leaves a function that makes the descriptors from the kernel's parameters. It is read here: sizes
and strides are constants, or parameters behind conversions.
"""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerAttr, ModuleOp
from xdsl.ir import BlockArgument, Operation, SSAValue

from libtile.atoms import tma as atoms
from libtile.dialects import arith, tensor
from libtile.dialects.cuda_tile.types import NUMBER_NAMES
from libtile.dialects.nv_tileaa.functions import FuncOp
from libtile.dialects.nv_tileaa.pointers import MakeMemRefOp
from libtile.dialects.nv_tileaa.shapes import SplatOp
from libtile.dialects.nv_tileaa.types import DYNAMIC, MemRefType
from libtile.dialects.nv_tileas.attributes import BY_ROWS
from libtile.dialects.nv_tileas.tma import MakeTiledTmaDescOp
from libtile.dialects.nv_tileas.types import TmaDescType
from libtile.ir.kernels import FromParameter, Number, TensorMapRecipe
from libtile.ir.operands import source_of
from libtile.ir.places import ops_of
from libtile.lowering.errors import unsupported
from libtile.lowering.tileas.copies.common import HOST_CODE, index_of
from libtile.numerics.elements import STORAGE_BYTES

_CONVERSIONS = (tensor.ExtractOp, arith.ExtUIOp, arith.ExtSIOp, arith.IndexCastOp, SplatOp)
"""Ops that give the same number in another type."""


def recipes(module: ModuleOp) -> dict[str, tuple[TensorMapRecipe, ...]]:
    """The tensor maps of each kernel, by its name, in the order of the kernel's hidden parameters. LoweringError for
    host code that computes more than a launch does."""
    found = {}
    for op in module.body.block.ops:
        if isinstance(op, ModuleOp) and HOST_CODE in op.attributes and op.sym_name is not None:
            made = ops_of(op, MakeTiledTmaDescOp)
            made.sort(key=lambda inner: index_of(inner) or 0)
            function = next(iter(ops_of(op, FuncOp)))
            kernel = function.sym_name.data.removesuffix("_descriptors")
            found[kernel] = tuple(_recipe(inner) for inner in made)
    return found


def host_tensors(module: ModuleOp) -> dict[str, list[MakeMemRefOp]]:
    """The tensors that the host code of a module describes, by kernel."""
    return {
        op.sym_name.data.removesuffix("_host"): ops_of(op, MakeMemRefOp)
        for op in module.body.block.ops
        if isinstance(op, ModuleOp) and HOST_CODE in op.attributes and op.sym_name is not None
    }


def _recipe(op: MakeTiledTmaDescOp) -> TensorMapRecipe:
    memref, made = op.tensor.type, op.tensor.owner
    if not isinstance(memref, MemRefType) or not isinstance(made, MakeMemRefOp):
        raise unsupported(op, "describes a tensor that the host does not know by its base, sizes and strides")
    base, *rest = made.operands
    numbers = iter(rest)
    sizes = [launched_number(op, next(numbers)) if n == DYNAMIC else n for n in memref.shape]
    strides = [launched_number(op, next(numbers)) if n == DYNAMIC else n for n in memref.strides]
    address = launched_number(op, base)
    element = NUMBER_NAMES[memref.element_type]
    boxes = boxes_of(op)
    if isinstance(boxes, str):
        raise unsupported(op, boxes)
    if not isinstance(address, FromParameter) or address.below:
        raise unsupported(op, "is of a tensor whose address is no parameter of the kernel")
    return TensorMapRecipe(
        address.number,
        atoms.map_element(element, NUMBER_NAMES[op.tma_internal_type or memref.element_type]),
        tuple(sizes[d] for d in boxes.order),
        tuple(strides[d] for d in boxes.order[1:]),
        boxes.box,
        boxes.swizzle.name,
        STORAGE_BYTES[element],
    )


def boxes_of(op: MakeTiledTmaDescOp) -> atoms.Boxes | str:
    """The boxes that a descriptor is for; or why there are none."""
    described = op.result.type
    assert isinstance(described, TmaDescType) and isinstance(described.memref, MemRefType)  # by the verifier
    memref, element = described.memref, NUMBER_NAMES[described.memref.element_type]
    dense = atoms.contiguous_dim(memref.strides)
    if dense is None or op.layout is None or element not in atoms.MAP_ELEMENTS:
        return "has no layout in shared memory, or is of a tensor that no tensor map describes"
    layout, size = op.layout.layout, STORAGE_BYTES[element]
    if op.atom.mode in BY_ROWS:
        boxes = atoms.row_boxes(layout, dense, size)
    else:
        boxes = atoms.boxes(layout, dense, size, atoms.rows_of(described.box))
    if isinstance(boxes, str) or boxes.box != described.box:
        return f"has boxes of {list(op.atom.box)}, which its layout in shared memory is not made of"
    return boxes


def launched_number(op: Operation, value: SSAValue) -> Number | FromParameter:
    """A constant, a parameter of the kernel, or a constant less a parameter; LoweringError for what else is computed of
    them."""
    while isinstance(value.owner, _CONVERSIONS):
        value = source_of(value.owner)
    if isinstance(value, BlockArgument):
        return FromParameter(value.index)
    if isinstance(value.owner, arith.ConstantOp) and isinstance(value.owner.value, IntegerAttr):
        return value.owner.value.value.data
    if isinstance(value.owner, arith.SubiOp):
        whole, less = (launched_number(op, v) for v in value.owner.operands)
        if isinstance(whole, int) and whole > 0 and isinstance(less, FromParameter) and not less.below:
            return FromParameter(less.number, whole)
    raise unsupported(op, "depends on what is computed of the kernel's parameters, which a launch does not do")
