# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`tileas-compare-places`: a mask that compares places in a tile is one number of a thread's against constants.

The mask of causal attention compares a place in one dimension with a place in another, that of a ragged edge with an
end:

    a + i >= b + j        with a and b the same in all of the tile, i and j indices (or none)

Some bits of the indices tell a thread's registers apart, and are constants (`r`, `s`), the others tell threads apart
(`t`, `u`): where no bit is of both kinds, i = t + r and j = u + s, and the comparison is

    (a - b) + t - u >= s - r

Many of these constants are equal: on a diagonal, the tile of a product has half as many as registers. Sums must not
wrap around, which is known of a multiple of a power of two above all indices, and of an addition that says so. The
difference a - b may wrap around: it is halved, twice, where it is far from zero, which changes no comparison with an
index.

Where a mask only chooses between elements, as it mostly does, and has many constants, these have ranks on a grid, and a
thread counts how many places of the grid its number reaches (`lowering/ranks.py`). Steps of the grid divide a and b, so
that their difference in steps wraps around never.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.context import Context
from xdsl.dialects.builtin import IndexType, IntegerAttr, IntegerType, ModuleOp, TensorType, UnitAttr, i32
from xdsl.ir import Block, SSAValue

from libtile.codegen.compare import ALWAYS, NEVER
from libtile.dialects import arith, scf, tensor
from libtile.dialects.arith import ExtSIOp, IndexCastOp, SelectOp, TruncIOp
from libtile.dialects.nv_tileaa.assumptions import DivByAttr
from libtile.dialects.nv_tileaa.functions import FuncOp
from libtile.dialects.nv_tileaa.shapes import BroadcastOp, ConstantOp, MakeRangeOp, SplatOp, View
from libtile.dialects.nv_tileaa.tokens import AssumeOp
from libtile.dialects.nv_tileas.async_products import WaitDotOp
from libtile.dialects.nv_tileas.layout import LayoutAttr
from libtile.dialects.nv_tileas.tiles import Rearranging, ReinterpretOp
from libtile.ir.facts import MAX_DIVISOR, power_of_two_factor
from libtile.ir.module_pass import ModulePass
from libtile.ir.operands import set_operand
from libtile.ir.places import ops_around, ops_of
from libtile.ir.tile_form import erase, integer_of, shape_of
from libtile.layouts import REGISTER, LinearLayout
from libtile.layouts.collectives import is_unit
from libtile.lowering.agents import agent_of
from libtile.lowering.expand.maker import Maker, array_of
from libtile.lowering.ranks import RANKS, registers_of
from libtile.support import statistics
from libtile.support.records import dataclass, replace

LEAST_REGISTERS = 16
"""Registers of a thread that a mask takes, from which on it is worth some arithmetic on single numbers."""
MOST_INDEX = 1 << 20
"""Indices are below this, so that what is far from zero has quarters that are farther from it than all indices are."""
LEAST, GREATEST = -(1 << 31), (1 << 31) - 1
"""The least and the largest i32."""
NEAR = 1 << 28
"""A difference whose half is less far from zero than this is taken as it is."""
_PREDICATES = {2: "slt", 3: "sle", 4: "sgt", 5: "sge"}
"""Comparisons of signed numbers, by the number of their predicate."""
_STRICT, _AT_LEAST = ("sgt", "sle"), ("sge", "sgt")
"""Those of them that ask, or deny, that one number is more than the other; and those that ask, and do not deny."""
LEAST_RANKS = 16
"""Constants from which on it is worth counting how many of them are reached. Seven predicates at a time leave none for
others, which costs some instructions."""
MOST_PLACES = 2
"""Places that a grid has at most for each of them."""
MOST_HELD = 128
"""Elements of a mask and of what its loop carries, from which on a thread outside of agents has no room for ranks."""
_RENAMING = BroadcastOp | View | Rearranging | ReinterpretOp
"""Ops whose result has the elements of their source, at other places or in other threads."""
_KEEP_MULTIPLES = (
    *(SplatOp, BroadcastOp, View, Rearranging, ReinterpretOp, tensor.ExtractOp),
    *(arith.AddiOp, arith.SubiOp, arith.MinSIOp, arith.MaxSIOp, ExtSIOp, TruncIOp, IndexCastOp),
)
"""Ops whose result is a multiple of what all their operands are multiples of."""
_MOST_OPS = 16
"""Ops that are followed from a number to what it is computed of."""


@dataclass(frozen=True)
class ComparePlacesPass(ModulePass):
    """Compare what a thread has in common with constants of its registers."""

    name = "tileas-compare-places"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in op.body.block.ops:
            if isinstance(function, FuncOp):
                for inner in ops_of(function, arith.CmpiOp):
                    if _compare_places(inner):
                        statistics.count("comparisons of places")
                for wait in ops_of(function, WaitDotOp):
                    if wait.held_pins is not None and _has_mask_beside(wait):
                        wait.properties["apart"] = UnitAttr()


def _has_mask_beside(op: WaitDotOp) -> bool:
    """Whether a mask by ranks, which takes all predicates, lies in a branch beside a wait: the assembler would save
    there what holds pins, and compute it anew behind all the same."""
    block = op.parent
    return block is not None and any(RANKS in inner.attributes and inner.parent is not block for inner in ops_of(block))


@dataclass(frozen=True)
class _Place:
    """A number that is the same in all of a tile, plus the index along a dimension of it, if there is one."""

    number: SSAValue
    dim: int | None


def _compare_places(op: arith.CmpiOp) -> bool:
    """Do one comparison in another way, if that is a better one."""
    type_ = op.lhs.type
    if op.predicate.value.data not in _PREDICATES or not isinstance(type_, TensorType) or type_.element_type != i32:
        return False
    if not isinstance(type_.encoding, LayoutAttr) or max(shape_of(type_), default=1) > MOST_INDEX:
        return False
    layout = type_.encoding.layout
    if layout.in_size(REGISTER) < LEAST_REGISTERS or not is_unit(layout):
        return False
    left, right = _place(op.lhs), _place(op.rhs)
    if left is None or right is None or left.dim == right.dim:
        return False
    maker, shape = _Maker(op, layout), shape_of(type_)
    predicate = _PREDICATES[op.predicate.value.data]
    chosen, grid = _chosen_by(op), None
    if chosen is not None and _has_room(op):
        constants = [constant + (predicate in _STRICT) for constant in _constants(layout, left.dim, right.dim)]
        least, most = _numbers(layout, left, right)
        grid = best_grid(set(constants), min(_multiple(left.number), _multiple(right.number)), (least, most))
    if chosen is not None and grid is not None:
        made = maker.is_reached(left, right, grid, more=predicate in _STRICT)
        set_operand(chosen, "cond", made)
        ranks = [NEVER if constant > most else max(grid.rank(constant), ALWAYS) for constant in constants]
        chosen.attributes[RANKS] = array_of(ranks)
        if predicate not in _AT_LEAST:
            lhs, rhs = chosen.lhs, chosen.rhs
            set_operand(chosen, "lhs", rhs)
            set_operand(chosen, "rhs", lhs)
        statistics.count("choices by ranks")
        erase(op)
        return True
    difference = maker.splat(maker.difference(maker.scalar(left.number), maker.scalar(right.number)), shape)
    (t, r), (u, s) = (maker.thread_and_constant(place, shape) for place in (left, right))
    mine = maker.put(arith.SubiOp(maker.add(difference, t), u))
    made = maker.compare(mine, maker.put(arith.SubiOp(s, r)), predicate)
    op.result.replace_all_uses_with(made)
    erase(op)
    return True


def _chosen_by(op: arith.CmpiOp) -> SelectOp | None:
    """The op beside a comparison that chooses elements by it, if nothing else uses it."""
    uses = list(op.result.uses)
    user = uses[0].operation if len(uses) == 1 else None
    return user if isinstance(user, SelectOp) and user.cond is op.result and user.parent is op.parent else None


def _has_room(op: arith.CmpiOp) -> bool:
    """Whether predicates by bits fit beside what a thread holds: an agent's warps have the registers for what they do,
    and others are known to have them where little goes through a loop."""
    held = registers_of(op.result.type)
    loop = next((around for around in ops_around(op) if isinstance(around, scf.ForOp | scf.WhileOp | FuncOp)), None)
    if agent_of(op)[0] is not None or loop is None:
        return True
    return held + sum(registers_of(value.type) for value in loop.results) < MOST_HELD


def _constants(layout: LinearLayout, left: int | None, right: int | None) -> list[int]:
    """What the number of a thread is compared with for each register."""
    places = [layout(register=number) for number in range(layout.in_size(REGISTER))]
    r, s = ([0 if dim is None else place[layout.out_dims[dim]] for place in places] for dim in (left, right))
    return [b - a for a, b in zip(r, s, strict=True)]


def _numbers(layout: LinearLayout, left: _Place, right: _Place) -> tuple[int, int]:
    """The least and the largest number of a thread that is compared with constants."""
    if left.number is not right.number:
        return LEAST, GREATEST
    bits = [basis for name, all_ in layout.bases if name != REGISTER for basis in all_]
    t, u = (0 if dim is None else sum(basis[dim] for basis in bits) for dim in (left.dim, right.dim))
    return -u, t


# -- constants as places of a grid ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Grid:
    """Numbers from `first` on: steps of 2 to the power of `far`, of each of which the first 2 to the power of `near`
    are places. Places have ranks, in their order from 0 on."""

    first: int
    far: int
    near: int

    def rank(self, place: int) -> int:
        """How many places are below one."""
        offset = place - self.first
        return (offset >> self.far << self.near) + offset % (1 << self.far)


def best_grid(constants: set[int], multiple: int, numbers: tuple[int, int] = (LEAST, GREATEST)) -> Grid | None:
    """The grid with the fewest places that has all constants, if it has few others. The numbers of which a difference
    is compared with them are multiples of a power of two. It begins with the first constant that not all of the
    `numbers` from one to another reach."""
    asked = {constant for constant in constants if numbers[0] < constant <= numbers[1]}
    if len(asked) < LEAST_RANKS:
        return None
    first, found = min(asked), []
    for far in (0, *range(2, multiple.bit_length())):
        near = max((constant - first) % (1 << far) for constant in constants).bit_length()
        if not far or near <= far - 2:  # differences in steps, times the places of one, are below 2 ** 30
            found.append(Grid(first, far, near))
    best = min(found, key=lambda grid: grid.rank(max(asked)))
    return best if best.rank(max(asked)) + 1 <= MOST_PLACES * len(asked) else None


# -- what is compared -------------------------------------------------------------------------------------------------


def _place(value: SSAValue) -> _Place | None:
    """What a tile of numbers is, if it is the same everywhere or counts along one dimension."""
    if (number := _same_everywhere(value)) is not None:
        return _Place(number, None)
    op = value.owner
    if isinstance(op, _RENAMING):
        found = _place(op.source)
        return None if found is None else replace(found, dim=_renamed(found.dim, op))
    if not isinstance(op, arith.AddiOp):
        return None
    for number, index in (op.operands, reversed(op.operands)):
        base, dim = _same_everywhere(number), _index(index)
        if base is not None and dim is not None:
            is_exact = _never_wraps(op) or _multiple(base) >= shape_of(index.type)[dim]
            return _Place(base, dim) if is_exact else None
    return None


def _same_everywhere(value: SSAValue) -> SSAValue | None:
    """The scalar, the tile of rank 0 or the constant that all elements of a tile equal."""
    while isinstance(value.type, TensorType):
        op = value.owner
        if isinstance(op, SplatOp | _RENAMING):
            value = op.source
        elif not shape_of(value.type) or (isinstance(op, ConstantOp) and op.value.is_splat):
            return value
        else:
            return None
    return value


def _index(value: SSAValue) -> int | None:
    """The dimension whose index each element of a tile is."""
    op = value.owner
    if isinstance(op, MakeRangeOp):
        return 0 if integer_of(op.start) == 0 else None
    return _renamed(_index(op.source), op) if isinstance(op, _RENAMING) else None


def _renamed(dim: int | None, op: BroadcastOp | View | Rearranging | ReinterpretOp) -> int | None:
    """A dimension of an op's source in its result; None if it is split or joined."""
    source, result = shape_of(op.source.type), shape_of(op.result.type)
    if dim is None or not isinstance(op, View):
        return dim
    wide, dims = [size for size in source if size > 1], [d for d, size in enumerate(result) if size > 1]
    if wide != [result[d] for d in dims] or source[dim] == 1:
        return None
    return dims[sum(size > 1 for size in source[:dim])]


def _never_wraps(op: arith.AddiOp) -> bool:
    return arith.IntegerOverflowFlag.NSW in op.overflow_flags.data


def _multiple(value: SSAValue, depth: int = _MOST_OPS) -> int:
    """A power of two that divides a number."""
    op = value.owner
    if not depth:
        return 1
    if isinstance(op, Block):
        loop = op.parent_op()
        if not isinstance(loop, scf.ForOp) or value is not op.args[0]:
            return 1
        return min(_multiple(loop.lb, depth - 1), _multiple(loop.step, depth - 1))
    factors = [_multiple(v, depth - 1) for v in op.operands if isinstance(v.type, TensorType | IntegerType | IndexType)]
    match op:
        case ConstantOp() if op.value.is_splat:
            return power_of_two_factor(int.from_bytes(op.value.raw, "little"))
        case arith.ConstantOp(value=IntegerAttr() as number):
            return power_of_two_factor(number.value.data)
        case arith.MuliOp():
            return min(prod(factors), MAX_DIVISOR)
        case AssumeOp():
            stated = [p.divisor for p in op.predicates.data if isinstance(p, DivByAttr) and p.every is None]
            return max([factors[0], *map(power_of_two_factor, stated)])
        case _ if isinstance(op, _KEEP_MULTIPLES):
            return min(factors)
        case SelectOp():
            return min(factors[1:])
    return 1


# -- how it is compared -----------------------------------------------------------------------------------------------


class _Maker(Maker):
    """Puts what compares places in front of a comparison."""

    def thread_and_constant(self, place: _Place, shape: Sequence[int]) -> list[SSAValue]:
        """The part of an index that differs from thread to thread, and the one that differs from register to register:
        tiles of a shape."""
        assert self.layout is not None
        if place.dim is None:
            return [self.constant(0, shape, i32)] * 2
        ones = [size if dim == place.dim else 1 for dim, size in enumerate(shape)]
        positions = self.positions(ones, place.dim, i32)
        bits = sum(basis[place.dim] for basis in self.layout.basis(REGISTER))
        parts = [
            arith.AndIOp(positions, self.constant(mask, ones, i32)) for mask in (shape[place.dim] - 1 - bits, bits)
        ]
        type_ = self.type(shape, i32)
        return [self.put(BroadcastOp.make(self.put(part), results=[type_])) for part in parts]

    def scalar(self, value: SSAValue) -> SSAValue:
        """A number, as a scalar."""
        if not isinstance(value.type, TensorType):
            return value
        op = value.owner
        if isinstance(op, ConstantOp):
            return self.number(int.from_bytes(op.value.raw, "little", signed=True))
        return self.put(tensor.ExtractOp(value, [], i32))

    def number(self, number: int) -> SSAValue:
        return self.put(arith.ConstantOp(IntegerAttr(number, i32)))

    def is_reached(self, left: _Place, right: _Place, grid: Grid, *, more: bool) -> SSAValue:
        """Whether the place on the left is at least that on the right, or more: by ranks, which are compared with how
        many places of a grid a thread's number reaches."""
        assert self.layout is not None
        shape = self.layout.shape

        def const(number: int) -> SSAValue:
            return self.constant(number, shape, i32)

        (t, r), (u, s) = (self.thread_and_constant(place, shape) for place in (left, right))
        # A step has places that follow each other: of those that are behind the number only one step has a part.
        thread, behind = self.put(arith.SubiOp(t, u)), const(0)
        for place in range(1 << grid.near):
            ahead = self.add(thread, const((1 << grid.far) - grid.first - place))
            behind = self.add(behind, self.put(arith.ShRSIOp(ahead, const(grid.far))))
        if left.number is not right.number:
            behind = self.away(behind, self.scalar(left.number), self.scalar(right.number), grid)
        reached = self.put(arith.MaxSIOp(behind, const(0)))
        known = self.add(self.put(arith.SubiOp(s, r)), const(more - grid.first))
        step = self.put(arith.ShLIOp(self.put(arith.ShRSIOp(known, const(grid.far))), const(grid.near)))
        rank = self.add(step, self.put(arith.AndIOp(known, const((1 << grid.far) - 1))))
        return self.compare(reached, rank, "sgt")

    def away(self, behind: SSAValue, a: SSAValue, b: SSAValue, grid: Grid) -> SSAValue:
        """A number of places of a grid, and those between two numbers."""
        shape = shape_of(behind.type)
        if not grid.far:
            return self.add(self.splat(self.difference(a, b), shape), behind)
        places = self.number(grid.far - grid.near)  # both are whole steps
        left_places, right_places = (self.splat(self.put(arith.ShRSIOp(v, places)), shape) for v in (a, b))
        return self.put(arith.SubiOp(self.add(behind, left_places), right_places))

    def difference(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """a - b where it is near zero; elsewhere something of its sign that is far from it, too."""
        one = self.number(1)
        half = self.put(arith.SubiOp(self.put(arith.ShRSIOp(a, one)), self.put(arith.ShRSIOp(b, one))))
        shifted = self.add(half, self.number(NEAR))
        is_near = self.compare(shifted, self.number(2 * NEAR), "ult")
        return self.select(is_near, self.put(arith.SubiOp(a, b)), self.put(arith.ShRSIOp(half, one)))
