# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`fit-registers`: kernels whose products read registers get blocks and tiles that fit these.

Accumulators of mma.sync lie in registers, and so does what products make in a step. Where a loop of a kernel has more
such tiles than a thread has registers, most of a step would be spent on moving them to local memory and back. There are
two ways out, tried in this order:

    fewer blocks    a kernel that asks for several blocks of a multiprocessor is for one, with the warps that one has:
                    `fewer_blocks` says so
    halves in turn  a kernel computes one half of its tiles after the other (`halves_in_turn`), or quarters

Halves load what both of them need twice, and are made only where tiles do not fit by far.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Operation, SSAValue

from libtile.dialects import scf
from libtile.dialects.nv_tileaa.attributes import KernelSpecAttr
from libtile.dialects.nv_tileaa.collectives import DotOp, ReduceOp, ScaledDotOp
from libtile.dialects.nv_tileaa.functions import FuncOp
from libtile.ir.module_pass import ModulePass
from libtile.ir.places import ops_of
from libtile.ir.tile_form import is_tile, shape_of
from libtile.lowering.discardable import FEWER_BLOCKS, WORKER_WARPS
from libtile.lowering.tile_registers import WARP, tensor_words
from libtile.lowering.tileas.cleanup import is_pure
from libtile.support.records import dataclass
from libtile.targets import Target, target

PRODUCTS = (DotOp, ScaledDotOp)
ACCUMULATOR = 2
"""The operand of a product that it adds to."""
OTHER_REGISTERS, OTHER_PART = 48, 5
"""Of a thread, beside those tiles: fragments that are read, and addresses; of few that are given, a fifth."""
WARPS, WARP_ROWS = 8, 16
"""Warps of a block that has a multiprocessor for itself, if each of them has so many rows of products: rows that warps
share meet in shared memory."""
READ_AHEAD = 4
"""Which part of an operand that lies in shared memory waits in registers."""
MOST_HALVINGS = 2
"""As often tiles are halved."""


@dataclass(frozen=True)
class FitRegistersPass(ModulePass):
    """Fewer blocks, or one half of a kernel's tiles after the other, where products read registers that are too few."""

    name = "fit-registers"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for inner in op.body.block.ops:
            if isinstance(inner, FuncOp) and (spec := inner.kernel_spec) is not None and spec.target is not None:
                gpu = target(spec.target)
                if spec.num_ctas == 1 and not (gpu.has("wgmma") or gpu.has("tcgen05")) and ops_of(inner, *PRODUCTS):
                    fit(inner, gpu)


def fit(function: FuncOp, gpu: Target) -> None:
    """Have one kernel's tiles fit its threads' registers, as far as they can be made to."""
    spec = function.kernel_spec
    assert spec is not None
    if _taken(function, spec.num_warps) <= _for_tiles(spec.num_warps, spec.occupancy or 1, gpu):
        return
    if (spec.occupancy or 1) > 1:
        _for_one_block(function, gpu)
    _halve(function, gpu)


def _for_one_block(function: FuncOp, gpu: Target) -> None:
    """Have a multiprocessor hold one block of a kernel, of more warps if its products have rows for these: where it
    holds as many warps then, or those of several blocks have no registers for the tiles alone."""
    spec = function.kernel_spec
    assert spec is not None
    more = WORKER_WARPS not in function.attributes and _rows(function) >= WARP_ROWS * WARPS > WARP_ROWS * spec.num_warps
    warps, blocks = WARPS if more else spec.num_warps, spec.occupancy or 1
    taken, given = _taken(function, spec.num_warps), _given(spec.num_warps, blocks, gpu)
    if warps < blocks * spec.num_warps and taken <= given:
        return
    function.properties["kernel_spec"] = KernelSpecAttr(spec.entry, warps, spec.num_ctas, 1, spec.target)
    function.attributes[FEWER_BLOCKS] = StringAttr(
        f"tiles of a loop with products take {taken} registers of a thread, of {given} that so many blocks leave"
    )


def _halve(function: FuncOp, gpu: Target) -> None:
    """Have a kernel compute halves of its tiles, in halves again if need be."""
    spec = function.kernel_spec
    assert spec is not None
    given = _for_tiles(spec.num_warps, spec.occupancy or 1, gpu)
    for _ in range(MOST_HALVINGS):
        taken = _taken(function, spec.num_warps)
        if taken <= given:
            return
        from libtile.lowering.halves_in_turn import halves_in_turn
        from libtile.lowering.tile_halves import Unsplit

        try:
            made = min(halves_in_turn(function), key=lambda half: _taken(half, spec.num_warps))
        except Unsplit:
            return
        if _taken(made, spec.num_warps) >= taken or _shares_rows(made) > _shares_rows(function):
            return
        function.body.detach_block(function.body.block)
        function.body.add_block(made.body.detach_block(made.body.block))


def _rows(function: FuncOp) -> int:
    """Of the product that has fewest."""
    return min(shape_of(op.result.type)[-2] for op in ops_of(function, *PRODUCTS))


def _shares_rows(function: FuncOp) -> bool:
    """Whether several warps have parts of the rows of products, and sums of rows meet in shared memory."""
    spec = function.kernel_spec
    assert spec is not None
    return _rows(function) < WARP_ROWS * spec.num_warps and bool(ops_of(function, ReduceOp))


def _given(warps: int, blocks: int, gpu: Target) -> int:
    """Registers of a thread of a kernel with so many warps and blocks of a multiprocessor, beside a producer."""
    from libtile.lowering.tileas.mma_sync.fed_kernels import given_beside_producer

    return given_beside_producer(warps, blocks, gpu)


def _for_tiles(warps: int, blocks: int, gpu: Target) -> int:
    """Those of them that tiles may take."""
    given = _given(warps, blocks, gpu)
    return given - min(OTHER_REGISTERS, given // OTHER_PART)


def _taken(function: FuncOp, warps: int) -> int:
    """Registers of a thread that the loop with products takes which has most tiles at a time."""
    return max((_held(loop, warps) for loop in _innermost(function)), default=0)


def _innermost(function: FuncOp) -> Iterator[Operation]:
    """The loops with products in which no other one is."""
    for loop in ops_of(function, scf.ForOp, scf.WhileOp):
        inner = (op for op in ops_of(loop, scf.ForOp, scf.WhileOp) if op is not loop)
        if ops_of(loop, *PRODUCTS) and not any(ops_of(op, *PRODUCTS) for op in inner):
            yield loop


def _held(loop: Operation, warps: int) -> int:
    """Registers of a thread for what a loop carries, what its products make, and right operands that it computes of
    such tiles, which each row of warps reads as a whole, a quarter at a time. Operands from before the loop may lie in
    shared memory (`held_operands`)."""
    products = ops_of(loop, *PRODUCTS)
    inside = {op for op in ops_of(loop) if op is not loop}
    held: dict[SSAValue, None] = dict.fromkeys(loop.regions[-1].block.args)
    held |= dict.fromkeys(op.result for op in products if not _is_added_to(op))
    words = sum(tensor_words(value.type) for value in held)
    columns = max(warps * WARP_ROWS // min(shape_of(op.result.type)[-2] for op in products), 1)
    shared = sum(tensor_words(op.b.type) for op in products if _comes_of_sums(op.b, inside))
    return words // (warps * WARP) + shared // (columns * WARP) // READ_AHEAD


def _comes_of_sums(value: SSAValue, inside: Collection[Operation]) -> bool:
    """Whether an operand is computed in a loop, and not of what is loaded alone: element by element, of something else
    that lies where products have it, and not where all rows of them read it."""
    owner = value.owner
    if not isinstance(owner, Operation):
        return True
    if owner not in inside or not is_pure(owner) or isinstance(owner, PRODUCTS):
        return isinstance(owner, PRODUCTS) and owner in inside
    return any(_comes_of_sums(v, inside) for v in owner.operands if is_tile(v))


def _is_added_to(product: DotOp | ScaledDotOp) -> bool:
    """Whether a product's result is nothing but what the next one, or the next turn, adds to."""
    uses = list(product.result.uses)
    return all(
        isinstance(use.operation, scf.YieldOp) or (isinstance(use.operation, PRODUCTS) and use.index == ACCUMULATOR)
        for use in uses
    )
