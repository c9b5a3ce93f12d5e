# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Consumer agents that multiply by wgmma: which instruction a product takes, and how many registers a thread has."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue

from libtile.atoms import wgmma
from libtile.dialects.nv_tileaa.attributes import KernelSpecAttr
from libtile.dialects.nv_tileas.attributes import TCGEN05, MmaAtomAttr
from libtile.dialects.nv_tileas.products import DotOp, ScaledDotOp
from libtile.ir.tile_form import shape_of
from libtile.layouts import REGISTER, LinearLayout
from libtile.lowering.tileas.copies.tma_operands import Unfit
from libtile.lowering.to_tileas.accesses import element_bytes
from libtile.lowering.to_tileas.types import layout_of
from libtile.targets import MMA_SYNC, MmaAtom, Target

MAX_ACCUMULATORS = 128
"""Registers of a thread for the accumulators, beside which the rest of a kernel has room."""
OTHER_REGISTERS = 48
"""Of a consumer's thread, beside those of products under way, that a loop of products takes at least."""
INSTRUCTION_REGISTERS = 32
"""Of a thread, beside its result, that ptxas wants for one wgmma: 26, and those of a left operand."""
REGISTER_STEP = 8
"""What registers of a thread are given in (`setmaxnreg`, and at a launch)."""
PRODUCER_WARPS = 4
"""A warpgroup, so that it can give registers away."""


FEWER_BITS = frozenset({"e4m3", "e5m2"})
"""Types whose products wgmma sums with fewer bits than an f32 has."""


def is_promoted(product: DotOp) -> bool:
    """Whether the sums of a product have to have more bits than wgmma gives them."""
    return bool({*product.atom.types[:2]} & FEWER_BITS) and product.fast_acc is None


def sizes(product: DotOp) -> tuple[int, int, int]:
    """Rows, columns and depth of a product of matrices by tensor cores; Unfit for another one."""
    shape = shape_of(product.result.type)
    if len(shape) != 2:
        raise Unfit("it has batches")
    if product.atom.kind not in (MMA_SYNC, TCGEN05):
        raise Unfit("it is computed by fused multiply-adds")
    m, n = shape
    return m, n, shape_of(product.a.type)[1]


def instruction(
    product: DotOp, gpu: Target, registers: int, *, promotes: bool = False, shares: int = 1
) -> MmaAtomAttr:  # fmt: skip
    """The widest wgmma of a product for a thread that is launched with so many registers, of which so many warpgroups
    share the columns; Unfit where there is none, or where its sums have too few bits, unless who asks `promotes`
    them."""
    m, n, depth = sizes(product)
    a, b, d = product.atom.types
    found = wgmma.find(gpu, a, b, d, m, n // shares, depth)
    if found is None:
        raise Unfit(f"wgmma does not multiply {a} and {b} into {d} in tiles of {m}x{n}x{depth}")
    if is_promoted(product) and not promotes:
        raise Unfit("wgmma accumulates products of 8-bit floats with lower precision, which 'fast_acc' does not allow")
    found = compiled(found, gpu, registers)
    return MmaAtomAttr("wgmma", (found.m, found.n, found.k), a, b, d)


def compiled(atom: MmaAtom, gpu: Target, registers: int) -> MmaAtom:
    """A wgmma, or the widest one of fewer columns that ptxas compiles: it takes an instruction for one with the
    registers that a thread is launched with, whatever agents give each other."""
    columns = atom.n
    while wgmma.accumulator_registers(atom) + INSTRUCTION_REGISTERS > registers and columns > 1:
        columns //= 2
        atom = wgmma.find(gpu, atom.a, atom.b, atom.d, atom.m, columns, atom.k) or atom
    return atom


def launched_registers(warps: int, blocks: int, gpu: Target) -> int:
    """Registers of a thread at the launch of so many warps, beside as many blocks on a multiprocessor."""
    each = gpu.registers_per_sm // blocks // gpu.warp_size // warps // REGISTER_STEP * REGISTER_STEP
    return min(each, gpu.registers_per_thread)


def consumer_registers(
    spec: KernelSpecAttr, gpu: Target, budget: tuple[int, int] | None, *, produced: bool = True
) -> int:
    """Registers of a consumer's thread, with as many blocks on a multiprocessor as the kernel asks for; `budget` are
    those of a consumer and of a producer, where they share unequally. Unfit where that is too many. There is a producer
    if tiles are `produced`."""
    blocks = spec.occupancy or 1
    share = gpu.registers_per_sm // blocks // gpu.warp_size
    if budget is None:
        return launched_registers(spec.num_warps + (PRODUCER_WARPS if produced else 0), blocks, gpu)
    if budget[0] * spec.num_warps + budget[1] * PRODUCER_WARPS > share:
        raise Unfit(f"{blocks} blocks do not fit a multiprocessor with {budget[0]} registers for each consumer")
    return budget[0]


def check_warps(spec: KernelSpecAttr) -> None:
    """Unfit for a number of warps that is not one or two warpgroups."""
    if spec.num_warps % wgmma.GROUP_WARPS or spec.num_warps // wgmma.GROUP_WARPS > 2:
        raise Unfit(f"{spec.num_warps} warps are not one or two warpgroups")


def check_accumulator(product: DotOp, warps: int) -> None:
    """Unfit for an accumulator that does not lie as wgmma has it."""
    check_lies(product, wgmma.accumulator_layout, warps, "in whole rows of warps")


def lies_as_left(value: SSAValue, atom: MmaAtomAttr, warps: int) -> bool:
    """Whether a left operand is in registers as an instruction of warpgroups reads it."""
    shape = shape_of(value.type)
    if wgmma.column_groups(shape[0], warps) > 1:
        return False  # each warpgroup has a part of what it would read as a whole
    return layout_of(value) == wgmma.a_layout(shape, warps, 256 // atom.instruction.k)


def check_lies(
    product: DotOp | ScaledDotOp, layout: Callable[[tuple[int, ...], int], LinearLayout], warps: int, how: str
) -> None:
    """Unfit for an accumulator in another layout than so many warps have of its shape, or of a shape that has none."""
    try:
        wanted = layout(shape_of(product.c.type), warps)
    except ValueError as problem:
        raise Unfit(str(problem)) from None
    if layout_of(product.c) != wanted:
        raise Unfit(f"its accumulator does not lie {how}")


def tile_registers(value: SSAValue) -> int:
    """32-bit registers of a thread that a tile takes; 0 for what is none."""
    if not isinstance(value.type, TensorType) or not value.type.get_shape():
        return 0
    return layout_of(value).in_size(REGISTER) * element_bytes(value.type.element_type) // 4
