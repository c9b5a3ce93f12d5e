# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the numbers among a kernel's parameters are: the size or the stride of an array along a dimension.

A view says so: `make_tensor_view` has the base, and the sizes and strides that its type leaves open. Each is followed
to the parameter that it comes from, through the ops that keep a value. What a view's type states, cuTile passes all
the same: where the parameters behind a base are its sizes and strides, as cuTile passes them, so are those that no view
uses.
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue

from libtile.dialects.cuda_tile.ops import OPS, CudaTileOp
from libtile.dialects.cuda_tile.types import DYNAMIC, TensorViewType, TileType, i32, i64
from libtile.ir.operands import source_of
from libtile.support.records import dataclass

_KEEPS_VALUE = (OPS["assume"], OPS["exti"], OPS["trunci"])


@dataclass(frozen=True)
class Role:
    """A parameter that is the size ("size") or the stride in elements ("stride") of dimension `dim` of the array that
    is parameter `array`."""

    kind: str
    array: int
    dim: int

    def __str__(self) -> str:
        return f"{self.kind} {self.dim} of parameter {self.array}"


def roles(entry: Operation) -> dict[int, list[Role]]:
    """The roles of an entry's parameters, by position, in the order of the views; none for a base or a number."""
    found: dict[int, list[Role]] = {}
    ranks: dict[int, int] = {}
    for base, op, view in _views(entry):
        ranks[base] = max(view.rank, ranks.get(base, 0))
        for position, role in _of_view(op, view, base, entry.regions[0].block):
            listed = found.setdefault(position, [])
            if role not in listed:
                listed.append(role)
    for base, rank in ranks.items():
        block = entry.regions[0].block
        places = {place: [role] for place, role in convention(base, rank)}
        if all(place < len(block.args) and _is_index(block.args[place].type) for place in places) and all(
            found.get(place, stated) == stated for place, stated in places.items()
        ):
            found |= places
    return found


def views_of(entry: Operation) -> dict[int, list[TensorViewType]]:
    """The types of the views of each parameter that is an address."""
    found: dict[int, list[TensorViewType]] = {}
    for base, _, view in _views(entry):
        if view not in found.setdefault(base, []):
            found[base].append(view)
    return found


def _views(entry: Operation) -> Iterator[tuple[int, CudaTileOp, TensorViewType]]:
    """Each view of a parameter, and its type, with the parameter's position."""
    if not isinstance(entry, CudaTileOp) or not entry.regions:
        return
    for op in entry.walk():
        if isinstance(op, OPS["make_tensor_view"]):
            view, base = op.results[0].type, _parameter(op.operand("base"), entry.regions[0].block)
            if base is not None and isinstance(view, TensorViewType):
                yield base, op, view


def convention(base: int, rank: int) -> Iterator[tuple[int, Role]]:
    """The parameters behind an array's address as cuTile passes them: its sizes, then its strides."""
    for number, kind in enumerate(("size", "stride")):
        for dim in range(rank):
            yield base + 1 + number * rank + dim, Role(kind, base, dim)


def _is_index(type_: Attribute) -> bool:
    """Whether a parameter is a number that cuTile passes sizes and strides as."""
    return isinstance(type_, TileType) and not type_.shape and type_.element_type in (i32, i64)


def _of_view(op: CudaTileOp, view: TensorViewType, base: int, block: Block) -> Iterator[tuple[int, Role]]:
    for kind, extents, group in (
        ("size", view.shape, op.operand_group("dynamicShape")),
        ("stride", view.strides, op.operand_group("dynamicStrides")),
    ):
        dims = [dim for dim, extent in enumerate(extents) if extent == DYNAMIC]
        for dim, value in zip(dims, group):
            position = _parameter(value, block)
            if position is not None:
                yield position, Role(kind, base, dim)


def _parameter(value: SSAValue, block: Block) -> int | None:
    """The position of the parameter that a value is."""
    while isinstance(value.owner, _KEEPS_VALUE):
        value = source_of(value.owner)
    return value.index if isinstance(value, BlockArgument) and value.block is block else None
