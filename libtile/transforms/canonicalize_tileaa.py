# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`canonicalize-tileaa`: simpler equivalent forms of nv_tileaa ops, and dead ops gone.

What is computed of constants is a constant (by the folding interface, arith's ops too), chains of pointer additions
become one, shape ops on splats become splats, shape ops on shape ops become one, masks that are constant go away, joins
of tokens are flattened, loops do not carry what they never change (`handed_on`), and accesses of different alias scopes
do not wait for each other. Types keep their layouts, so the pass works in nv_tileas too.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import (
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    IntegerAttr,
    IntegerType,
    ModuleOp,
    TensorType,
    i32,
    i64,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.traits import IsTerminator

from libtile.analysis.alias_scopes import is_weak_access
from libtile.analysis.tokens import is_fresh
from libtile.dialects import arith
from libtile.dialects.arith import ExtSIOp, like
from libtile.dialects.constant_ops import constant_op
from libtile.dialects.constants import constant_elements
from libtile.dialects.cuda_tile.attributes import DenseElementsAttr
from libtile.dialects.cuda_tile.types import NUMBER_NAMES, TileType
from libtile.dialects.effect_traits import only_loads
from libtile.dialects.folding import computes, fold
from libtile.dialects.interfaces import JoinsTokens
from libtile.dialects.nv_tileaa.arithmetic import OPS
from libtile.dialects.nv_tileaa.memory import AtomicCas, AtomicRmw, Load, Store
from libtile.dialects.nv_tileaa.pointers import (
    AddPtrOp,
    BitcastOp,
    GetDimSizeOp,
    IntToPtrOp,
    MakeMemRefOp,
    PtrToIntOp,
)
from libtile.dialects.nv_tileaa.shapes import (
    BroadcastOp,
    CatOp,
    ConstantOp,
    ExpandDims,
    ExtractOp,
    ExtractSliceOp,
    PermuteOp,
    SplatOp,
    Unary,
    View,
    integers_of,
)
from libtile.dialects.nv_tileaa.tokens import AssumeOp, CreateMemTokenOp, JoinMemTokenOp
from libtile.dialects.nv_tileaa.types import DYNAMIC, MemRefType
from libtile.dialects.nv_tileas.tiles import ConvertLayoutOp
from libtile.dialects.nv_tileas.tiles import ExtractSliceOp as TileasExtractSliceOp
from libtile.ir.grouped_op import SEGMENTS
from libtile.ir.module_pass import ModulePass
from libtile.ir.operands import source_of
from libtile.ir.places import ops_of
from libtile.ir.tile_form import TileOp, element_of, erase
from libtile.numerics.elements import ELEMENTS
from libtile.support import statistics
from libtile.support.records import dataclass
from libtile.transforms import reporting
from libtile.transforms.effects import is_dead_when_unused
from libtile.transforms.greedy import inner_functions_in
from libtile.transforms.handed_on import drop_handed_on
from libtile.transforms.masked_additions import select_addend
from libtile.transforms.scoped_tokens import drop_order_between_scopes
from libtile.transforms.single_numbers import load_number

MAX_SWEEPS = 10

Pattern = Callable[[Any], "list[SSAValue] | bool"]
"""Gives what replaces the op's results, or whether it changed the op in place. It takes the class that it stands
behind in `PATTERNS`."""


@dataclass(frozen=True)
class CanonicalizeTileaaPass(ModulePass):
    """Bring nv_tileaa ops into canonical form."""

    name = "canonicalize-tileaa"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        canonicalize_inner(op)
        for function in inner_functions_in(op):
            if drop_order_between_scopes(function):
                canonicalize_inner(function)


def canonicalize_inner(root: Operation, max_iterations: int = MAX_SWEEPS) -> bool:
    """Canonicalize the ops of the inner dialects inside of `root`; returns whether anything changed.

    Gives up, with valid IR, after `max_iterations` sweeps; -1 stands for no limit.
    """
    sweeps = 0
    changed = False
    while max_iterations < 0 or sweeps < max_iterations:
        sweeps += 1
        now = [_rewrite(found) for found in ops_of(root) if found.parent is not None]
        if not (True in now) | drop_handed_on(root) | _erase_dead(root):
            break
        changed = True
    return changed


def _rewrite(op: Operation) -> bool:
    if _fold(op):
        return True
    if not isinstance(op, TileOp) or not (patterns := _patterns(type(op))):
        return False
    name, place = op.name, reporting.place_of(op)
    for pattern in patterns:
        found = pattern(op)
        if found is False:
            continue
        form = pattern.__name__.strip("_").replace("_", "-")
        reporting.done(place, "Canonicalize", "Op brought into canonical form", Op=name, Pattern=form)
        statistics.count("patterns applied")
        if found is not True:
            for result, value in zip(op.results, found, strict=True):
                result.replace_all_uses_with(value)
            erase(op)
        return True
    return False


@cache
def _patterns(cls: type[Operation]) -> tuple[Pattern, ...]:
    """Those of the nearest base that has some."""
    return next((PATTERNS[base] for base in cls.__mro__ if base in PATTERNS), ())


def _fold(op: Operation) -> bool:
    """Put a constant in the place of an op that computes one number, or one for each element of a tile."""
    elements = fold(op, [constant_elements(value) for value in op._operands]) if computes(op) else None
    if elements is None or op.results[0].first_use is None:
        return False
    made = constant_op(elements, op.results[0].type)
    if not made or any(type(last) is type(op) for last in made):  # a splat of a constant is one
        return False
    place = reporting.place_of(op)
    for constant in made:
        _put(op, constant)
    reporting.done(place, "Canonicalize", "Op brought into canonical form", Op=op.name, Pattern="fold")
    statistics.count("patterns applied")
    op.results[0].replace_all_uses_with(made[-1].results[0])
    erase(op)
    return True


def _erase_dead(root: Operation) -> bool:
    changed = False
    for op in reversed(ops_of(root)):
        used = any(result.first_use is not None for result in op.results)
        if op is root or op.parent is None or used or not op.results:
            continue
        if not op.has_trait(IsTerminator) and is_dead_when_unused(op):
            erase(op)
            changed = True
    return changed


# -- helpers ----------------------------------------------------------------------------------------------------------


def _put(op: Operation, made: Operation) -> SSAValue:
    """Insert an op in front of another; its result."""
    block = op.parent
    assert block is not None  # the sweep visits ops in blocks only
    made.location = op.location
    block.insert_op_before(made, op)
    return made.results[0]


def _again(op: TileOp, cls: type[TileOp], source: SSAValue, **attributes: Any) -> list[SSAValue]:
    """An op of a class on another source, with the result type of this one."""
    return [_put(op, cls.make(source, results=[op.results[0].type], **attributes))]


def _constant_elements(value: SSAValue) -> set[int] | None:
    """The numbers that a constant holds, as bits; None for what is no constant of integers."""
    owner = value.owner
    if isinstance(owner, SplatOp):
        return _constant_elements(owner.source)
    attr = owner.properties.get("value") if isinstance(owner, Operation) else None
    if isinstance(attr, IntegerAttr):
        return {attr.value.data}
    if isinstance(attr, DenseElementsAttr):
        return set(attr.elements())
    if isinstance(attr, DenseIntOrFPElementsAttr) and isinstance(owner, arith.ConstantOp):
        return {int(v) for v in attr.get_values()}
    return None


def constant_bool(value: SSAValue) -> bool | None:
    """The value of an i1 (tile) that is one constant everywhere; None when it is not known to be."""
    elements = _constant_elements(value)
    return bool(elements.pop() & 1) if elements is not None and len(elements) == 1 else None


def constant_zero(value: SSAValue) -> bool:
    """Whether an integer (tile) is 0 everywhere."""
    return _constant_elements(value) == {0}


# -- shapes -----------------------------------------------------------------------------------------------------------


def same_type(op: TileOp) -> list[SSAValue] | bool:
    """A change of shape (or layout) that changes nothing."""
    source = source_of(op)
    return [source] if source.type == op.results[0].type else False


def of_splat(op: TileOp) -> list[SSAValue] | bool:
    """Any shape of a splat is a splat."""
    splat = source_of(op).owner
    return _again(op, SplatOp, splat.source) if isinstance(splat, SplatOp) else False


def of_same_op(op: Unary) -> list[SSAValue] | bool:
    """`view (view x)` is a view of x; so with broadcasts and conversions of layouts."""
    inner = op.source.owner
    if not isinstance(inner, type(op)):
        return False
    return _again(op, type(op), inner.source, **dict(op.properties))


def permute_identity(op: PermuteOp) -> list[SSAValue] | bool:
    order = integers_of(op.permutation)
    return [op.source] if order == tuple(range(len(order))) and same_type(op) else False


def permute_twice(op: PermuteOp) -> list[SSAValue] | bool:
    """Axis i of the outer result is axis inner[outer[i]] of the source."""
    inner = op.source.owner
    if not isinstance(inner, PermuteOp):
        return False
    first, second = (integers_of(o.permutation) for o in (inner, op))
    order = DenseArrayBase.from_list(i64, [first[axis] for axis in second])
    return _again(op, PermuteOp, inner.source, permutation=order)


def cat_of_splats(op: CatOp) -> list[SSAValue] | bool:
    lhs, rhs = op.lhs.owner, op.rhs.owner
    if not isinstance(lhs, SplatOp) or not isinstance(rhs, SplatOp) or lhs.source is not rhs.source:
        return False
    return _again(op, SplatOp, lhs.source)


def size_of_memref(op: GetDimSizeOp) -> list[SSAValue] | bool:
    """The size along a dimension that the type has, or that the memref was made with."""
    type_, dim = op.source.type, op.dim.value.data
    if not isinstance(type_, MemRefType):
        return False
    if type_.shape[dim] == DYNAMIC:
        made = op.source.owner
        if not isinstance(made, MakeMemRefOp):
            return False
        size: SSAValue = made.sizes[type_.shape[:dim].count(DYNAMIC)]
        return [size] if size.type == op.result.type else False
    constant = constant_op((type_.shape[dim],), op.result.type)
    return [[_put(op, one) for one in constant][-1]] if constant else False


# -- pointers ---------------------------------------------------------------------------------------------------------


def addptr_zero(op: AddPtrOp) -> list[SSAValue] | bool:
    return [op.base] if constant_zero(op.offset) and same_type(op) else False


def addptr_twice(op: AddPtrOp) -> list[SSAValue] | bool:
    """`addptr (addptr p, a), b` is `addptr p, a + b` where both offsets have one type.

    Offsets are signed; narrow ones are added as 64-bit numbers, whose sum is the one of the addresses.
    """
    inner = op.base.owner
    if not isinstance(inner, AddPtrOp) or inner.offset.type != op.offset.type:
        return False
    first: SSAValue = inner.offset
    second: SSAValue = op.offset
    element = element_of(op.offset.type)
    if isinstance(element, IntegerType) and element.width.data < i64.width.data:
        wide = like(op.offset.type, i64)
        first, second = (_put(op, ExtSIOp.create(operands=[v], result_types=[wide])) for v in (first, second))
    total = _put(op, arith.AddiOp(first, second))
    return [_put(op, AddPtrOp.make(inner.base, total, results=[op.result.type]))]


def round_trip(inverse: type[Unary]) -> Pattern:
    """A conversion of what its inverse made."""

    def pattern(op: Unary) -> list[SSAValue] | bool:
        inner = op.source.owner
        if not isinstance(inner, inverse) or inner.source.type != op.result.type:
            return False
        return [inner.source]

    return pattern


# -- memory -----------------------------------------------------------------------------------------------------------


def load_of_nothing(op: Load) -> list[SSAValue] | bool:
    """A load whose mask is false gives `other` (zeros, where nothing is said), and its token as it was."""
    if op.mask is None or constant_bool(op.mask) is not False or not only_loads(op):
        return False
    if op.other is not None:
        return [op.other, *_token(op)] if op.other.type == op.value.type else False
    zeros = _zeros(op.value.type)
    return False if zeros is None else [_put(op, zeros), *_token(op)]


def _zeros(type_: Attribute) -> Operation | None:
    """A tile of zeros; None for what there are no constants of."""
    element = element_of(type_)
    if not isinstance(type_, TensorType) or element not in NUMBER_NAMES:
        return None
    size = ELEMENTS[NUMBER_NAMES[element]].storage_bytes
    return ConstantOp.make(results=[type_], value=DenseElementsAttr(TileType(type_.get_shape(), element), bytes(size)))


def store_of_nothing(op: Store) -> list[SSAValue] | bool:
    """A store whose mask is false does nothing."""
    if op.mask is None or constant_bool(op.mask) is not False or not is_weak_access(op):
        return False
    return _token(op)


def atomic_of_nothing(op: AtomicRmw | AtomicCas) -> list[SSAValue] | bool:
    """An atomic whose mask is false, and whose result nobody wants, does nothing."""
    if op.mask is None or constant_bool(op.mask) is not False or op.result.first_use is not None:
        return False
    if op.semantic not in ("weak", "relaxed") or op.is_volatile is not None:
        return False
    return [op.value if isinstance(op, AtomicRmw) else op.compare, *_token(op)]


def _token(op: Load | Store | AtomicRmw | AtomicCas) -> list[SSAValue]:
    """The token behind an access that is gone, if it has one."""
    if op.result_token is None:
        return []
    return [op.token if op.token is not None else _put(op, CreateMemTokenOp.make(results=[op.result_token.type]))]


def drop_true_mask(op: Load | Store | AtomicRmw | AtomicCas) -> bool:
    """A mask that is true everywhere says nothing, and nor does what stands for masked elements, unless that it stands
    for those outside of what is viewed as well."""
    if op.mask is None or constant_bool(op.mask) is not True:
        return False
    kept, sizes = [], []
    needless = ("mask",) if isinstance(op, Load) and op.LEAVES else ("mask", "other")
    for (name, _), size in zip(op.get_irdl_definition().operands, op.segment_sizes(), strict=True):
        gone = name in needless
        sizes.append(0 if gone else size)
        kept += [] if gone else list(op.group(name))
    op.operands = kept
    op.properties[SEGMENTS] = DenseArrayBase.from_list(i32, sizes)
    return True


# -- tokens -----------------------------------------------------------------------------------------------------------


def flatten_join(op: JoinMemTokenOp) -> list[SSAValue] | bool:
    """Joined tokens of joins are joined at once; repeated ones and those that order nothing are left out."""
    flat: dict[SSAValue, None] = {}
    for token in op.tokens:
        inner = token.owner
        if isinstance(inner, Operation) and inner.has_trait(JoinsTokens):
            flat.update(dict.fromkeys(inner.operands))
        else:
            flat[token] = None
    kept = [t for t in flat if not is_fresh(t)]
    if len(kept) == 1:
        return [kept[0]]
    if not kept:
        return [_put(op, CreateMemTokenOp.make(results=[op.result.type]))]
    if kept == list(op.operands):
        return False
    op.operands = kept
    return True


def assume_again(op: AssumeOp) -> list[SSAValue] | bool:
    """The same facts, stated twice."""
    inner = op.value.owner
    if not isinstance(inner, AssumeOp) or inner.predicates != op.predicates:
        return False
    return [inner.result]


_VIEWS: tuple[Pattern, ...] = (same_type, of_splat, of_same_op)
_LOADS: tuple[Pattern, ...] = (load_of_nothing, drop_true_mask)
_STORES: tuple[Pattern, ...] = (store_of_nothing, drop_true_mask)
_ATOMICS: tuple[Pattern, ...] = (atomic_of_nothing, drop_true_mask)

PATTERNS: dict[type[TileOp], tuple[Pattern, ...]] = {
    View: _VIEWS,
    BroadcastOp: _VIEWS,
    ExpandDims: (of_splat,),
    PermuteOp: (of_splat, permute_identity, permute_twice),
    ExtractOp: (same_type, of_splat, load_number),
    ExtractSliceOp: (same_type, of_splat),
    TileasExtractSliceOp: (same_type, of_splat),
    CatOp: (cat_of_splats,),
    ConvertLayoutOp: (same_type, of_same_op),
    GetDimSizeOp: (size_of_memref,),
    AddPtrOp: (addptr_zero, addptr_twice),
    IntToPtrOp: (round_trip(PtrToIntOp),),
    PtrToIntOp: (round_trip(IntToPtrOp),),
    BitcastOp: (same_type, round_trip(BitcastOp)),
    Load: _LOADS,
    Store: _STORES,
    AtomicRmw: _ATOMICS,
    AtomicCas: _ATOMICS,
    JoinMemTokenOp: (flatten_join,),
    AssumeOp: (assume_again,),
    OPS["addf"]: (select_addend,),
}
"""Patterns by class (a base stands for the ops of both dialects), in the order in which they are tried."""
