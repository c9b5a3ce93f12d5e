# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Entries, globals, and the ops that speak of the grid, of messages and of memory that is not an operand."""

from __future__ import annotations

from collections import Counter
from math import prod

from xdsl.dialects.builtin import IntegerAttr, UnitAttr, i64
from xdsl.ir import Block, BlockArgument, Operation, Region, SSAValue

from libtile.analysis import Facts
from libtile.codegen.symbols import kernel_problem
from libtile.dialects.cuda_tile.ops import OPS, CudaTileOp
from libtile.dialects.cuda_tile.types import PointerType, TileType, bit_width
from libtile.dialects.nv_tileaa.attributes import KernelSpecAttr
from libtile.dialects.nv_tileaa.functions import FuncOp, GetNumProgramsOp, GetProgramIdOp, GlobalOp
from libtile.dialects.nv_tileaa.memory import AllocaOp
from libtile.dialects.nv_tileaa.pointers import GetGlobalOp
from libtile.dialects.nv_tileaa.terminators import ReturnOp
from libtile.dialects.nv_tileaa.tokens import (
    AssertOp,
    GdcLaunchDependentsOp,
    GdcWaitOp,
    MemoryFenceAliasOp,
    PrintOp,
    TokenStep,
)
from libtile.dialects.nv_tileaa.types import MemTokenType, PtrType
from libtile.ir import tile_form
from libtile.ir.places import ops_of
from libtile.lowering.clusters import CTAS, UNASKED, WARPS_OF_ONE
from libtile.lowering.discardable import WORKER_WARPS
from libtile.lowering.errors import unsupported
from libtile.lowering.hints import CLUSTER, WORKERS, chosen_hints
from libtile.lowering.to_tileaa.arithmetic import declared_attributes
from libtile.lowering.to_tileaa.context import Context, convert_type, rule
from libtile.lowering.to_tileaa.control_flow import Exits, lower_ops
from libtile.targets import Target
from libtile.transforms.early_returns import early_returns

DEFAULT_WARPS = 4
BIG_WARPS = 8
BIG_ACCUMULATORS = 24 << 10
"""32-bit words of the accumulators of a kernel (192 registers of a thread of four warps) from which there are eight."""
BIG_BESIDE_OPERANDS = 20 << 10
"""The same where a thread's operands lie in registers, too (160 for accumulators)."""
MOST_ACCUMULATORS = 32 << 10
"""32-bit words of accumulators that eight warps hold: half of the registers of their threads."""
TILE_WORDS = 2 << 10
"""32-bit words of the largest tile for each warp (64 registers of a thread), in a kernel without products."""
MAX_WARPS = 16
SHOWN_NAME = 80
"""Characters of a kernel's name that an error about it shows."""
SCALED_PRODUCT = OPS["mmaf_scaled"]
PRODUCTS = (OPS["mmaf"], OPS["mmai"], SCALED_PRODUCT)
PROMOTED_WEIGHT = 2
"""Products of 8-bit floats that wgmma sums with fewer bits than f32 has are summed in registers of their own."""
SUMS = (OPS["addf"], OPS["subf"], OPS["addi"], OPS["fma"])
MOST_FACTORS = 8
"""Ops between a product and the sum that it is added to which are looked at."""
SCALED_WEIGHT = 3
"""A scaled product takes more registers than its accumulator: factors, and bytes of operands, one in each."""
ACCUMULATOR = 2
"""The operand of a product that it adds to."""


def entry_hint(op: CudaTileOp, key: str, target: Target) -> int | None:
    """The value of an integer hint of an entry for a target; None when there is none, or none of use."""
    return next((hint.value for hint in chosen_hints(op, target) if hint.key == key), None)


def number_of_warps(op: CudaTileOp, target: Target, ctas: int = 1) -> int:
    """Warps per CTA, of so many that share a tile block: what the hint asks for, else more of them when large products
    or tiles need the registers."""
    hinted = entry_hint(op, WORKERS, target)
    if hinted is not None:
        return hinted
    if ops_of(op, *PRODUCTS):
        reads_shared = target.has("wgmma") or target.has("tcgen05")
        big = BIG_ACCUMULATORS if reads_shared else BIG_BESIDE_OPERANDS
        if not reads_shared and not _have_more_registers(op, target):
            return DEFAULT_WARPS
        return BIG_WARPS if _accumulator_words(op, target) // ctas >= big else DEFAULT_WARPS
    warps = min(_largest_tile_words(op) // ctas // TILE_WORDS, MAX_WARPS)
    resident = target.warps_per_sm // (entry_hint(op, "occupancy", target) or 1)
    while warps > resident:
        warps //= 2
    return max(warps, DEFAULT_WARPS)


def _needed_ctas(op: CudaTileOp, target: Target) -> int:
    """The CTAs that a tile block needs whose hints leave them open: two where what a loop sums of products does not fit
    the registers of one, and fits those of two."""
    if not target.has("wgmma") or target.has("tcgen05") or entry_hint(op, "occupancy", target) not in (None, 1):
        return 1
    return CTAS if MOST_ACCUMULATORS < _carried_words(op) <= CTAS * MOST_ACCUMULATORS else 1


def _carried_words(op: CudaTileOp) -> int:
    """32-bit words of what one loop carries and products add to: of the loop that has most."""
    summed = dict.fromkeys(product.operands[ACCUMULATOR] for product in ops_of(op, *PRODUCTS))
    words: Counter[Block] = Counter()
    for value in summed:
        if isinstance(value, BlockArgument) and isinstance(type_ := value.type, TileType):
            words[value.block] += prod(type_.shape) * bit_width(type_.element_type) // 32
    return max(words.values(), default=0)


def _have_more_registers(op: CudaTileOp, target: Target) -> bool:
    """Whether eight warps have more registers than four, of those that each of the blocks on a multiprocessor has."""
    share = target.registers_per_sm // (entry_hint(op, "occupancy", target) or 1)
    return share > DEFAULT_WARPS * target.warp_size * (target.registers_per_thread + 1)


def _largest_tile_words(op: CudaTileOp) -> int:
    """32-bit words of the largest tile of numbers; elements of less than 16 bits take as much as those of 16."""
    types = {result._type for inner in ops_of(op) for result in inner.results}
    tiles = (t for t in types if isinstance(t, TileType) and not isinstance(t.element_type, PointerType))
    return max((prod(t.shape) * max(bit_width(t.element_type), 16) // 32 for t in tiles), default=0)


def _accumulator_words(op: CudaTileOp, target: Target) -> int:
    """32-bit words of the results of all products, but of those that only the next product adds to."""
    total = 0
    for inner in ops_of(op, *PRODUCTS):
        result = inner.results[0]
        if result.first_use and all(isinstance(u.operation, PRODUCTS) and u.index == ACCUMULATOR for u in result.uses):
            continue
        type_ = result.type
        assert isinstance(type_, TileType)
        words = prod(type_.shape) * bit_width(type_.element_type) // 32
        total += words * (SCALED_WEIGHT if isinstance(inner, SCALED_PRODUCT) else _weight(inner, target))
    return total


def _weight(product: CudaTileOp, target: Target) -> int:
    """How often a product's accumulator lies in registers."""
    type_ = product.operand("lhs").type
    assert isinstance(type_, TileType)
    promoted = (
        product.spec.name == "mmaf"
        and bit_width(type_.element_type) == 8
        and not product.attribute_value("fast_acc")
        and target.has("wgmma")
    )
    apart = not target.has("tcgen05") and _added_to_carried(product)
    return PROMOTED_WEIGHT if promoted or apart else 1


def _added_to_carried(product: CudaTileOp) -> bool:
    """Whether what a product gives is added, as a tile of its own, to one that a loop carries (products of which each
    has a factor): both lie in registers then."""
    value: SSAValue = product.results[0]
    for _ in range(MOST_FACTORS):
        use = value.get_user_of_unique_use()
        if not isinstance(use, CudaTileOp) or len(use.results) != 1 or use.results[0].type != value.type:
            return False
        if isinstance(use, SUMS) and any(
            isinstance(v, BlockArgument) and isinstance(v.owner.parent_op(), OPS["for"])
            for v in use.operands
            if v is not value and v.type == value.type
        ):
            return True
        value = use.results[0]
    return False


def convert_entry(op: CudaTileOp, target: Target) -> Operation:
    """The nv_tileaa.func of an entry; LoweringError, before anything is made, for a name that no cubin can have."""
    name = str(op.attribute_value("sym_name"))
    if problem := kernel_problem(name):
        shown = name if len(name) <= SHOWN_NAME else f"{name[:SHOWN_NAME]}..."
        raise unsupported(op, f"has the name {shown!r}, which {problem}: no kernel can have it", target.name)
    old = op.regions[0].block
    types = [convert_type(a.type) for a in old.args]
    block = Block(arg_types=types)
    context = Context(Facts(op), target, block)
    for before, after in zip(old.args, block.args, strict=True):
        context.bind(before, after)
    context.early_returns = early_returns(op)
    exits = Exits([], return_=list)
    lower_ops(context, list(old.ops), exits, lambda values: values)
    context.location = (op.regions[0].block.last_op or op).location
    context.make(ReturnOp, [[]])
    cluster = entry_hint(op, CLUSTER, target)
    ctas = _needed_ctas(op, target) if cluster is None else cluster
    warps = number_of_warps(op, target, min(ctas, CTAS))
    spec = KernelSpecAttr(True, warps, ctas, entry_hint(op, "occupancy", target), target.name)
    made = FuncOp.of(name, types, body=Region(block), kernel_spec=spec, location=op.location)
    if (asked := entry_hint(op, WORKERS, target)) is not None:
        made.attributes[WORKER_WARPS] = IntegerAttr(asked, i64)
    if ctas > 1:
        made.attributes[WARPS_OF_ONE] = IntegerAttr(number_of_warps(op, target), i64)
        if cluster is None:
            made.attributes[UNASKED] = UnitAttr()
    return made


def convert_global(op: CudaTileOp) -> Operation:
    """The nv_tileaa.global of a global."""
    attributes = declared_attributes(op)
    visibility = str(attributes.pop("symbol_visibility"))
    attributes |= {"sym_name": str(op.attribute_value("sym_name")), "sym_visibility": visibility}
    return GlobalOp.make(**attributes, location=op.location)


@rule("get_tile_block_id", "get_num_tile_blocks")
def _grid(c: Context, op: CudaTileOp) -> None:
    cls = GetProgramIdOp if op.spec.name == "get_tile_block_id" else GetNumProgramsOp
    for axis, result in enumerate(op.results):
        c.bind(result, c.one(cls, [], convert_type(result.type), axis=axis))


@rule("get_global")
def _get_global(c: Context, op: CudaTileOp) -> None:
    pointer = tile_form.element_of(convert_type(op.results[0].type))
    assert isinstance(pointer, PtrType)
    made = GetGlobalOp.make(results=[pointer], name=op.properties["name"])
    c.bind(op.results[0], c.tile(c.emit(made).results[0]))


@rule("assert")
def _assert(c: Context, op: CudaTileOp) -> None:
    c.make(AssertOp, c.all(op.operands), message=op.attribute_value("message"))


@rule("print_tko")
def _print(c: Context, op: CudaTileOp) -> None:
    made = c.make(
        PrintOp,
        [c.all(op.operand_group("args")), c.optional(op, "token")],
        [MemTokenType()],
        format=op.attribute_value("str"),
    )
    c.bind_all(op, made.results[: len(op.results)])


@rule("alloca")
def _alloca(c: Context, op: CudaTileOp) -> None:
    attributes = declared_attributes(op)
    attributes["count"] = attributes.pop("num_elem")
    c.bind(op.results[0], c.one(AllocaOp, [], convert_type(op.results[0].type), **attributes))


_STEPS: dict[str, type[TokenStep]] = {
    "gdc_launch_dependents_tko": GdcLaunchDependentsOp,
    "gdc_wait_tko": GdcWaitOp,
    "memory_fence_alias_tko": MemoryFenceAliasOp,
}


@rule(*_STEPS)
def _fence(c: Context, op: CudaTileOp) -> None:
    made = c.make(_STEPS[op.spec.name], [c.optional(op, "token")], [MemTokenType()])
    c.bind_all(op, made.results)
