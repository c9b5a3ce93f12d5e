# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`canonicalize-tileaa`: simpler equivalent forms of nv_tileaa ops, and dead ops gone.

Chains of pointer additions become one, shape ops on splats become splats, shape ops on shape ops become one, masks that
are constant go away, and joins of tokens are flattened. Types keep their layouts, so the pass works in nv_tileas too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import DenseArrayBase, DenseIntOrFPElementsAttr, IntegerAttr, IntegerType, ModuleOp, i32, i64
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.traits import IsTerminator
from xdsl.transforms.dead_code_elimination import would_be_trivially_dead

from libtile.dialects.cuda_tile.attributes import DenseElementsAttr
from libtile.dialects.nv_tileaa.memory import Load, Store
from libtile.dialects.nv_tileaa.shapes import integers_of
from libtile.dialects.tile_arith import ExtSIOp, like
from libtile.ir.tile_form import SEGMENTS, TileOp, build, element_of
from libtile.support import statistics

MAX_SWEEPS = 10

Pattern = Callable[[TileOp], "list[SSAValue] | bool"]
"""Gives what replaces the op's results, or whether it changed the op in place."""


@dataclass(frozen=True)
class CanonicalizeTileaaPass(ModulePass):
    """Bring nv_tileaa ops into canonical form."""

    name = "canonicalize-tileaa"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        canonicalize_inner(op)


def canonicalize_inner(root: Operation, max_iterations: int = MAX_SWEEPS) -> bool:
    """Canonicalize the ops of the inner dialects inside of `root`; returns whether anything changed.

    Gives up, with valid IR, after `max_iterations` sweeps; -1 stands for no limit.
    """
    sweeps = 0
    changed = False
    while max_iterations < 0 or sweeps < max_iterations:
        sweeps += 1
        now = [_rewrite(found) for found in list(root.walk()) if isinstance(found, TileOp) and found.parent]
        if not (True in now) | _erase_dead(root):
            break
        changed = True
    return changed


def _rewrite(op: TileOp) -> bool:
    for pattern in PATTERNS.get(op.name.partition(".")[2], ()):
        found = pattern(op)
        if isinstance(found, bool):
            if found:
                statistics.count("patterns applied")
                return True
            continue
        for result, value in zip(op.results, found, strict=True):
            result.replace_all_uses_with(value)
        _erase(op)
        statistics.count("patterns applied")
        return True
    return False


def _erase(op: Operation) -> None:
    op.detach()
    op.erase()


def _erase_dead(root: Operation) -> bool:
    changed = False
    for op in reversed(list(root.walk())):
        used = any(result.first_use is not None for result in op.results)
        if op is root or op.parent is None or used or not op.results:
            continue
        if not op.has_trait(IsTerminator) and would_be_trivially_dead(op):
            _erase(op)
            changed = True
    return changed


# -- helpers ----------------------------------------------------------------------------------------------------------


def _producer(value: SSAValue, mnemonic: str) -> TileOp | None:
    """The op of that mnemonic (in either dialect) that makes a value."""
    owner = value.owner
    return owner if isinstance(owner, TileOp) and owner.name.partition(".")[2] == mnemonic else None


def _put(op: TileOp, made: Operation) -> SSAValue:
    """Insert an op in front of another; its result."""
    block = op.parent
    assert block is not None  # the sweep visits ops in blocks only
    made.location = op.location
    block.insert_op_before(made, op)
    return made.results[0]


def _again(op: TileOp, name: str, source: SSAValue, **attributes: object) -> list[SSAValue]:
    """An op of the same dialect and result type on another source."""
    dialect = op.name.partition(".")[0]
    full = f"{dialect}.{name}" if name != "splat" else "nv_tileaa.splat"
    return [_put(op, build(full, [source], [op.results[0].type], attributes))]


def _constant_elements(value: SSAValue) -> set[int] | None:
    """The numbers that a constant holds, as bits; None for what is no constant of integers."""
    owner = value.owner
    splat = _producer(value, "splat")
    if splat is not None:
        return _constant_elements(splat.operands[0])
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
    return [op.operands[0]] if op.operands[0].type == op.results[0].type else False


def of_splat(op: TileOp) -> list[SSAValue] | bool:
    """Any shape of a splat is a splat."""
    splat = _producer(op.operands[0], "splat")
    return _again(op, "splat", splat.operands[0]) if splat is not None else False


def of_same_op(op: TileOp) -> list[SSAValue] | bool:
    """`view (view x)` is a view of x; so with broadcasts and conversions of layouts."""
    mnemonic = op.name.partition(".")[2]
    inner = _producer(op.operands[0], mnemonic)
    return _again(op, mnemonic, inner.operands[0], **dict(op.properties)) if inner is not None else False


def permute_identity(op: TileOp) -> list[SSAValue] | bool:
    order = integers_of(op.properties["permutation"])
    return [op.operands[0]] if order == tuple(range(len(order))) and same_type(op) else False


def permute_twice(op: TileOp) -> list[SSAValue] | bool:
    """Axis i of the outer result is axis inner[outer[i]] of the source."""
    inner = _producer(op.operands[0], "permute")
    if inner is None:
        return False
    first, second = (integers_of(o.properties["permutation"]) for o in (inner, op))
    order = DenseArrayBase.from_list(i64, [first[axis] for axis in second])
    return _again(op, "permute", inner.operands[0], permutation=order)


def cat_of_splats(op: TileOp) -> list[SSAValue] | bool:
    lhs, rhs = (_producer(v, "splat") for v in op.operands)
    if lhs is None or rhs is None or lhs.operands[0] is not rhs.operands[0]:
        return False
    return _again(op, "splat", lhs.operands[0])


# -- pointers ---------------------------------------------------------------------------------------------------------


def addptr_zero(op: TileOp) -> list[SSAValue] | bool:
    return [op.operands[0]] if constant_zero(op.operands[1]) and same_type(op) else False


def addptr_twice(op: TileOp) -> list[SSAValue] | bool:
    """`addptr (addptr p, a), b` is `addptr p, a + b` where both offsets have one type.

    Offsets are signed; narrow ones are added as 64-bit numbers, whose sum is the one of the addresses.
    """
    inner = _producer(op.operands[0], "addptr")
    if inner is None or inner.operands[1].type != op.operands[1].type:
        return False
    first, second = inner.operands[1], op.operands[1]
    element = element_of(op.operands[1].type)
    if isinstance(element, IntegerType) and element.width.data < i64.width.data:
        wide = like(op.operands[1].type, i64)
        first, second = (_put(op, ExtSIOp.create(operands=[v], result_types=[wide])) for v in (first, second))
    total = _put(op, arith.AddiOp(first, second))
    return [_put(op, build(op.name, [inner.operands[0], total], [op.results[0].type]))]


def round_trip(inverse: str) -> Pattern:
    """A conversion of what its inverse made."""

    def pattern(op: TileOp) -> list[SSAValue] | bool:
        inner = _producer(op.operands[0], inverse)
        if inner is None or inner.operands[0].type != op.results[0].type:
            return False
        return [inner.operands[0]]

    return pattern


# -- memory -----------------------------------------------------------------------------------------------------------


def load_of_nothing(op: TileOp) -> list[SSAValue] | bool:
    """A load whose mask is false gives `other`, and its token as it was."""
    mask, other = op.group("mask"), op.group("other")
    if not isinstance(op, Load) or not mask or not other or constant_bool(mask[0]) is not False:
        return False
    if op.semantic != "weak" or other[0].type != op.results[0].type:
        return False
    return [other[0], *_token(op)] if len(op.results) == 2 else [other[0]]


def store_of_nothing(op: TileOp) -> list[SSAValue] | bool:
    """A store whose mask is false does nothing."""
    mask = op.group("mask")
    if not isinstance(op, Store) or not mask or constant_bool(mask[0]) is not False or op.semantic != "weak":
        return False
    return _token(op) if op.results else []


def _token(op: TileOp) -> list[SSAValue]:
    """The token behind an access that is gone."""
    given = op.group("token")
    return [given[0] if given else _put(op, build("nv_tileaa.create_mem_token", [], [op.results[-1].type]))]


def drop_true_mask(op: TileOp) -> bool:
    """A mask that is true everywhere says nothing, and nor does what stands for masked elements."""
    mask = op.group("mask")
    if not mask or constant_bool(mask[0]) is not True:
        return False
    kept, sizes = [], []
    for (name, _), size in zip(op.get_irdl_definition().operands, op.segment_sizes(), strict=True):
        gone = name in ("mask", "other")
        sizes.append(0 if gone else size)
        kept += [] if gone else list(op.group(name))
    op.operands = kept
    op.properties[SEGMENTS] = DenseArrayBase.from_list(i32, sizes)
    return True


# -- tokens -----------------------------------------------------------------------------------------------------------


def flatten_join(op: TileOp) -> list[SSAValue] | bool:
    """Joined tokens of joins are joined at once; repeated ones and those that order nothing are left out."""
    flat: dict[SSAValue, None] = {}
    for token in op.operands:
        inner = _producer(token, "join_mem_token")
        flat.update(dict.fromkeys(inner.operands if inner is not None else [token]))
    kept = [t for t in flat if _producer(t, "create_mem_token") is None]
    if len(kept) == 1:
        return [kept[0]]
    if not kept:
        return [_put(op, build("nv_tileaa.create_mem_token", [], [op.results[0].type]))]
    if kept == list(op.operands):
        return False
    op.operands = kept
    return True


def assume_again(op: TileOp) -> list[SSAValue] | bool:
    """The same facts, stated twice."""
    inner = _producer(op.operands[0], "assume")
    if inner is None or inner.properties["predicates"] != op.properties["predicates"]:
        return False
    return [inner.results[0]]


PATTERNS: dict[str, tuple[Pattern, ...]] = {
    "view": (same_type, of_splat, of_same_op),
    "broadcast": (same_type, of_splat, of_same_op),
    "expand_dims": (of_splat,),
    "permute": (of_splat, permute_identity, permute_twice),
    "extract": (same_type, of_splat),
    "extract_slice": (same_type, of_splat),
    "cat": (cat_of_splats,),
    "convert_layout": (same_type, of_same_op),
    "addptr": (addptr_zero, addptr_twice),
    "int_to_ptr": (round_trip("ptr_to_int"),),
    "ptr_to_int": (round_trip("int_to_ptr"),),
    "bitcast": (same_type, round_trip("bitcast")),
    "load": (load_of_nothing, drop_true_mask),
    "store": (store_of_nothing, drop_true_mask),
    "gather_load": (load_of_nothing, drop_true_mask),
    "scatter_store": (store_of_nothing, drop_true_mask),
    "join_mem_token": (flatten_join,),
    "assume": (assume_again,),
}
"""Patterns by mnemonic, in the order in which they are tried; those of both dialects."""
