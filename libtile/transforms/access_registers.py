# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How many registers of a thread masked accesses through pointers take at once.

An access of a tile through a view is made of turns or branches, one after the other; under masks all are under way
together, and each has what it loads and its address in registers. A thread accesses up to 16 bytes at a time, as far
as its part of the tile goes, and as it is known that rows start at and go on for a multiple of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd, prod

from xdsl.ir import SSAValue

from libtile.analysis import Facts
from libtile.dialects.cuda_tile.ops import CudaTileOp
from libtile.dialects.cuda_tile.types import DYNAMIC, NUMBER_NAMES, PartitionViewType, StridedViewType
from libtile.numerics.elements import STORAGE_BYTES
from libtile.support.records import dataclass

THREADS = 128
"""Of a tile block, where nobody asks for another number."""
_WIDEST = 16
"""Bytes that a thread accesses at a time."""
_WORD = 4
_MOST_TIMES = 32
_POINTER = 2
"""Registers of an address."""


@dataclass(frozen=True)
class MaskedAccess:
    """What a thread does for a masked access of a tile through pointers."""

    times: int
    """How often it accesses memory."""
    loaded: int
    """Registers that each time loads; 0 of a store."""
    address: int
    """Registers of each address."""
    whole: bool
    """Whether it accesses as much at a time as threads do at all."""

    @property
    def registers(self) -> int:
        """All that are taken while the access is under way."""
        return self.times * (self.loaded + self.address)

    @property
    def is_short(self) -> bool:
        """Whether assemblers write out access by access also of a view; of longer ones they make loops."""
        return self.times <= (_MOST_TIMES if self.address == 0 else _MOST_TIMES // 2 if self.whole else 0)


def masked_access(
    view: PartitionViewType | StridedViewType, tensor: CudaTileOp, facts: Facts, inside: Sequence[bool], load: bool
) -> MaskedAccess:
    """The access of a tile of a view of `make_tensor_view`, whose tiles are inside of the tensor along some
    dimensions."""
    size = STORAGE_BYTES[NUMBER_NAMES[view.tensor_view.element_type]]
    elements = -(-prod(view.tile_shape) // THREADS)
    together = gcd(_elements_together(view, tensor, facts, inside, size), elements)
    # Numbers of a byte are computed each in a register of its own.
    loaded = -(-together * size // _WORD) if size > 1 else together
    return MaskedAccess(elements // together, loaded if load else 0, _address(view), together * size == _WIDEST)


def _address(view: PartitionViewType | StridedViewType) -> int:
    """Registers of each address: none along one dimension with a known stride, where they differ by what is known."""
    dims = tuple(view.dim_map) or tuple(range(len(view.tile_shape)))
    wide = [dim for dim, extent in zip(dims, view.tile_shape) if extent > 1]
    known = len(wide) < 2 and all(view.tensor_view.strides[dim] != DYNAMIC for dim in wide)
    return 0 if known else _POINTER


def _elements_together(
    view: PartitionViewType | StridedViewType, tensor: CudaTileOp, facts: Facts, inside: Sequence[bool], size: int
) -> int:
    """The elements that a thread accesses at a time: 1, 2, 4, ..."""
    type_ = view.tensor_view
    dims = tuple(view.dim_map) or tuple(range(len(view.tile_shape)))
    steps = view.traversal_strides if isinstance(view, StridedViewType) else view.tile_shape
    rows = [number for number, dim in enumerate(dims) if type_.strides[dim] == 1 and view.tile_shape[number] > 1]
    if len(rows) != 1:
        return 1
    (row,) = rows
    multiple = gcd(_WIDEST // size, view.tile_shape[row], steps[row])
    multiple = gcd(multiple, _divisor(tensor.operand("base"), facts) // size)
    if not inside[row]:
        multiple = gcd(multiple, *_divisors(tensor, "Shape", type_.shape, facts, [dims[row]]))
    return gcd(multiple, *_divisors(tensor, "Strides", type_.strides, facts, [dim for dim in dims if dim != dims[row]]))


def _divisors(tensor: CudaTileOp, what: str, numbers: Sequence[int], facts: Facts, dims: Sequence[int]) -> list[int]:
    """What sizes or strides of a tensor are multiples of."""
    dynamic = iter(tensor.operand_group(f"dynamic{what}"))
    found = [number if number != DYNAMIC else _divisor(next(dynamic), facts) for number in numbers]
    return [found[dim] for dim in dims]


def _divisor(value: SSAValue, facts: Facts) -> int:
    return facts.of(value).divisor[0]
