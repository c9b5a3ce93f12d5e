# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Invariants of types, with the wording of each."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import IndexType, IntegerType, NoneType, TensorType
from xdsl.ir import Attribute

from dialects.building import element, tile, view
from libtile.dialects.cuda_tile.types import (
    DYNAMIC,
    GatherScatterViewType,
    PartitionViewType,
    PointerType,
    StridedViewType,
    TileType,
    TokenType,
    f32,
    i32,
)
from libtile.dialects.cuda_tile.verify import verify_type
from libtile.dialects.nv_tileaa.types import MemRefType, PtrType

NUMBERS = (
    "f16 or bf16 or f32 or tf32 or f64 or f8E4M3FN or f8E5M2 or f8E8M0FNU or f4E2M1FN or i1 or i8 or i16 or i32 or i64"
)
VIEW = view("f32", [64, 64], [64, 1])


@pytest.mark.parametrize(
    "type_",
    [
        tile("f32"),
        tile("i4", 2),
        tile("f4E2M1FN", 1, 2),
        tile("ptr<f4E2M1FN>"),
        tile("ptr<f32,multicast>", 4),
        TileType((4096, 4096), f32),
        view("f32", [], []),
        view("i1", [DYNAMIC, 3], [1, DYNAMIC]),
        PartitionViewType((4, 2), VIEW, (1, 0), "nan"),
        PartitionViewType((4, 2), view("i32", [64, 64], [64, 1]), (0, 1), "zero"),
        StridedViewType((4, 2), (3, 5), VIEW, (0, 1)),
        GatherScatterViewType((4, 2), VIEW, 1),
        TokenType(),
        TensorType(f32, [4]),
        TensorType(IndexType(), []),
        TensorType(PtrType(f32), [2, 8]),
        MemRefType(f32, (DYNAMIC, 3)),
    ],
    ids=str,
)
def test_a_valid_type_has_no_message(type_: Attribute) -> None:
    assert verify_type(type_) is None


@pytest.mark.parametrize(
    ("type_", "message"),
    [
        (PointerType(tile("f32", 2, 2)), f"failed to verify 'pointeeType': {NUMBERS}"),
        (PointerType(element("i4")), f"failed to verify 'pointeeType': {NUMBERS}"),
        (
            PointerType(f32, "local"),
            "expected ptr_attr to be a valid pointer classification but got invalid enum value local",
        ),
        (TileType((8, 4), IntegerType(28)), f"failed to verify 'elementType': {NUMBERS} or Pointer type or i4"),
        (TileType((2,), PointerType(TokenType())), f"failed to verify 'pointeeType': {NUMBERS}"),
        (tile("f32", 1, 0, 2), "all dimensions must be positive constants, got 1, 0, 2"),
        (tile("f32", 4, -4), "all dimensions must be positive constants, got 4, -4"),
        (tile("f32", 3, 5, 9), "all dimensions must be powers of two, got 3, 5, 9"),
        (tile("f32", 1024, 1024, 1024), "tile would exceed the maximum of 16777216 elements"),
        (tile("f4E2M1FN"), "F4E2M1FN tiles must have an even number of elements"),
        (tile("f4E2M1FN", 1, 1), "F4E2M1FN tiles must have an even number of elements"),
        (
            tile("ptr<f4E2M1FN>", 2),
            "tiles of ptr<f4E2M1FN> must have rank 0; use an f4 tile view for memory accesses",
        ),
        (
            view("f32", [4], [1, 2]),
            "expected shape and stride to be of same rank but got shape of rank 1 and stride of rank 2",
        ),
        (view("f32", [0], [1]), "dimensions must have strictly positive constant sizes but got [0]"),
        (
            view("f32", [DYNAMIC, 2], [DYNAMIC, -1]),
            "dimensions must have strictly positive constant strides but got [?, -1]",
        ),
        (PartitionViewType((), VIEW, ()), "0-dimension tile shape is not supported"),
        (
            PartitionViewType((4,), VIEW, (0,)),
            "expected tensor_view rank and tile rank to match, got tensor_view of rank 2 and tiles of rank 1",
        ),
        (
            PartitionViewType((4, 4), VIEW, (0,)),
            "expected dim_map to map exactly all 2 dimensions of the tile, got 1 mappings",
        ),
        (
            PartitionViewType((4, 0), VIEW, (0, 1)),
            "tile shape dimensions must have positive length but got [4, 0]",
        ),
        (
            PartitionViewType((5, 1024), VIEW, (0, 1)),
            "tile shape dimensions must have power of two length but got [5, 1024]",
        ),
        (PartitionViewType((4, 4), VIEW, (-1, 0)), "target dimension must not be negative, got -1"),
        (
            PartitionViewType((4, 4), VIEW, (0, 2)),
            "target dimension is outside of tensor view dimensions, expected strictly less than 2, got 2",
        ),
        (
            PartitionViewType((4, 4), VIEW, (0, 0)),
            "target dimension 0 mapped at least twice (for tile dimensions 0 and 1)",
        ),
        (
            PartitionViewType((8192, 8192), VIEW, (0, 1)),
            "tile would exceed the maximum of 16777216 elements",
        ),
        (
            PartitionViewType((4, 4), view("i32", [64, 64], [64, 1]), (0, 1), "nan"),
            "padding_value nan can only be used with floating point element types, got 'i32'",
        ),
        (StridedViewType((4, 4), (4,), VIEW, (0, 1)), "expected 2 traversal strides, got 1"),
        (
            StridedViewType((4, 4), (4, 0), VIEW, (0, 1)),
            "traversal strides must be strictly positive but got [4, 0]",
        ),
        (
            GatherScatterViewType((4, 4), VIEW, 2),
            "gather dimension is outside of tensor view dimensions, expected strictly less than 2, got 2",
        ),
        (
            GatherScatterViewType((4, 4), view("i32", [64, 64], [64, 1]), 0, "pos_inf"),
            "padding_value pos_inf can only be used with floating point element types, got 'i32'",
        ),
        (PartitionViewType((4, 4), i32, (0, 1)), "expected 'tensor_view' type, but got 'i32'"),  # type: ignore[arg-type]
        (TensorType(f32, [3]), "all dimensions must be powers of two, got [3]"),
        (TensorType(f32, [0, 4]), "all dimensions must be positive constants, got [0, 4]"),
        (TensorType(f32, [-1]), "all dimensions must be positive constants, got [?]"),
        (TensorType(f32, [1 << 25]), "tile would exceed the maximum of 16777216 elements"),
        (TensorType(IntegerType(7), [4]), "expects tiles of numbers, indices or pointers, but got tile<4xi7>"),
        (TensorType(NoneType(), [4]), "expects tiles of numbers, indices or pointers, but got tile<4xnone>"),
        (
            TensorType(PtrType(IndexType()), [4]),
            "expects memory of numbers or pointers, but got !nv_tileaa.ptr<index, 1>",
        ),
        (
            TensorType(PtrType(IntegerType(4)), [4]),  # a number of Tile IR that has no address
            "expects memory of numbers or pointers, but got !nv_tileaa.ptr<i4, 1>",
        ),
        (
            MemRefType(IntegerType(128), (4,), (1,)),
            "expects memory of numbers or pointers, but got !nv_tileaa.memref<4xi128, strides=[1], 1>",
        ),
        (
            MemRefType(f32, (1 << 63,), (1,)),
            "expects sizes and strides of 64 bits, but got !nv_tileaa.memref<9223372036854775808xf32, strides=[1], 1>",
        ),
    ],
    ids=str,
)
def test_an_invalid_type_has_its_message(type_: Attribute, message: str) -> None:
    assert verify_type(type_) == message


def test_types_nested_in_a_dialect_type_have_no_prefix() -> None:
    assert str(tile("ptr<f32>", 2)) == "!cuda_tile.tile<2xptr<f32>>"
    assert str(PartitionViewType((4, 4), VIEW, (0, 1))) == (
        "!cuda_tile.partition_view<tile=(4x4), tensor_view<64x64xf32, strides=[64,1]>>"
    )
