# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`strength-reduce`: addresses of tiles in loops become a scalar pointer that moves, and distances that stay.

    pointer[i, j] = base + start + i * step + j * step'

of an affine tile of pointers (`analysis.affine`) is the pointer of its first element, computed from scalars, and the
tile `i * step + j * step'`, which does not change with the iteration and is computed in front of the loop. Products and
sums of whole tiles in 64 bits become such of scalars, and one addition is left.

The pointer of the first element is one of those that the program computes where the tile is, so nothing overflows that
did not before; steps have to be known not to be negative.
"""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from libtile.analysis import Facts
from libtile.analysis.affine import Forms
from libtile.analysis.polynomials import ZERO, Form, NotAffineError, Polynomial
from libtile.dialects.cuda_tile.elementwise import is_elementwise
from libtile.dialects.cuda_tile.ops import CudaTileOp
from libtile.dialects.cuda_tile.types import NUMBER_TYPES, TileType, tile_shape
from libtile.dialects.interfaces import StatesFact, exit_of, loop_around
from libtile.ir.module_pass import ModulePass
from libtile.ir.places import is_within, ops_of
from libtile.support import statistics
from libtile.support.records import dataclass
from libtile.transforms import reporting
from libtile.transforms.canonical_values import is_op
from libtile.transforms.greedy import functions_in
from libtile.transforms.polynomial_scalars import ScalarWriter

_REMARK = "StrengthReduce"
_LARGEST = 1 << 60
"""Distances beyond this are not looked at: their bytes need 64 bits."""


@dataclass(frozen=True)
class StrengthReducePass(ModulePass):
    """Hoist the arithmetic of affine addresses out of loops, and do the rest of it on scalars.

    `min_ops`: how many ops on all elements the addresses have to take in the loop.
    """

    name = "strength-reduce"

    min_ops: int = 2

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        reduce_strength(op, self.min_ops)


def reduce_strength(root: Operation, min_ops: int = 2) -> bool:
    """Do so in every function in `root` (or in `root` itself, when it is one); returns whether anything changed."""
    changed = False
    for function in functions_in(root):
        found = [(op, loop) for op in ops_of(function) if is_op(op, "offset") and (loop := loop_around(op)) is not None]
        forms = Forms(Facts(function)) if found else None
        plans = []
        for op, loop in found:
            assert forms is not None
            if isinstance(op, CudaTileOp) and _is_address(op) and _ops_in(op, loop) >= min_ops:
                plans.append((op, loop, _form_or_reason(op, loop, forms)))
        for op, loop, form in plans:
            if isinstance(form, str):
                reporting.missed(op, _REMARK, "Addresses are computed for all elements", form)
                continue
            assert forms is not None
            reporting.done(op, _REMARK, "Addresses are a scalar pointer and distances that stay")
            statistics.count("tiles of addresses reduced")
            _write(op, loop, form, forms)
            changed = True
    return changed


def _is_address(op: CudaTileOp) -> bool:
    """Whether the op makes the pointers that something else than address arithmetic uses in its iteration."""
    type_ = op.results[0].type
    assert isinstance(type_, TileType)
    return type_.num_elements > 1 and any(
        not is_op(use.operation, "offset") and exit_of(use.operation) is None for use in op.results[0].uses
    )


def _slice(op: Operation, loop: Operation) -> list[Operation]:
    """The ops in the loop that compute tiles for the op, and the op."""
    found: dict[Operation, None] = {op: None}
    work = [op]
    while work:
        for operand in work.pop().operands:
            maker = operand.owner
            small = not isinstance(operand.type, TileType) or operand.type.num_elements == 1
            if small or not isinstance(maker, Operation) or maker in found or not is_within(operand, loop):
                continue
            found[maker] = None
            work.append(maker)
    return list(found)


def _ops_in(op: CudaTileOp, loop: Operation) -> int:
    """The elementwise ops on as many elements as the addresses have that compute them in the loop."""
    type_ = op.results[0].type
    assert isinstance(type_, TileType)
    return sum(1 for inner in _slice(op, loop) if is_elementwise(inner) and tile_shape(inner.results[0]) == type_.shape)


def _form_or_reason(op: CudaTileOp, loop: Operation, forms: Forms) -> Form | str:
    if any(inner.has_trait(StatesFact) for inner in _slice(op, loop)):
        return "something is assumed of a tile on the way to them"
    try:
        form = forms.of(op.results[0])
        last = _last(form)
        if last.value == 0:
            return "all of them are the same address"
        if form.base is None or is_within(form.base, loop):
            return "the pointer that they count from changes in the loop"
        high = forms.bounds(last)[1]
    except NotAffineError as error:
        return str(error)
    if any(forms.bounds(step)[0] < 0 for step in form.steps):
        return "a stride is not known to be positive"
    if any(is_within(forms.unknowns[unknown], loop) for step in form.steps for unknown in step.unknowns):
        return "a stride changes in the loop"
    start = forms.bounds(form.start)
    if max(high, start[1], -start[0]) > _LARGEST:
        return "a distance may need more than 64 bits"
    return form


def _last(form: Form) -> Polynomial:
    """How far the last element is from the first one."""
    total = ZERO
    for extent, step in zip(form.shape, form.steps, strict=True):
        total += step * Polynomial.constant(extent - 1)
    return total


def _write(op: CudaTileOp, loop: Operation, form: Form, forms: Forms) -> None:
    pointers = op.results[0].type
    assert isinstance(pointers, TileType) and form.base is not None
    scalars = ScalarWriter(op, forms)
    first = form.base
    if form.start != ZERO:
        first = scalars.create("offset", {"ptr": first, "offset": _start(scalars, loop, form.start)}, first.type)
    ones = TileType((1,) * pointers.rank, pointers.element_type)
    spread = scalars.create("reshape", {"source": first}, ones)
    spread = scalars.create("broadcast", {"source": spread}, pointers)
    operands = {"ptr": spread, "offset": _distances(op, loop, form, forms)}
    op.results[0].replace_all_uses_with(scalars.create("offset", operands, pointers))


def _start(scalars: ScalarWriter, loop: Operation, start: Polynomial) -> SSAValue:
    """How far the first element is from the base; what does not change is a sum of its own, for `licm` to find."""
    changing = {monomial: factor for monomial, factor in start.terms if _changes(monomial, loop, scalars.forms)}
    kept = Polynomial.of({monomial: factor for monomial, factor in start.terms if monomial not in changing})
    bits = scalars.bits([start, kept])
    parts = [scalars.number(part, bits) for part in (kept, Polynomial.of(changing)) if part != ZERO]
    if len(parts) == 1:
        return parts[0]
    return scalars.create("addi", {"lhs": parts[0], "rhs": parts[1]}, parts[0].type)


def _changes(monomial: tuple[int, ...], loop: Operation, forms: Forms) -> bool:
    return any(is_within(forms.unknowns[unknown], loop) for unknown in monomial)


def _distances(op: CudaTileOp, loop: Operation, form: Form, forms: Forms) -> SSAValue:
    """The tile of distances from the first element, in front of the loop."""
    scalars = ScalarWriter(loop, forms)
    bits = scalars.bits([_last(form), *form.steps])
    element = NUMBER_TYPES[f"i{bits}"]
    total: SSAValue | None = None
    for number, (extent, step) in enumerate(zip(form.shape, form.steps, strict=True)):
        if step == ZERO:
            continue
        line = TileType([extent if dim == number else 1 for dim in range(len(form.shape))], element)
        value = scalars.create("iota", {}, TileType((extent,), element))
        if len(form.shape) > 1:
            value = scalars.create("reshape", {"source": value}, line)
        if step.value != 1:
            factor = scalars.number(step, bits)
            factor = scalars.create("reshape", {"source": factor}, TileType((1,) * len(form.shape), element))
            factor = scalars.create("broadcast", {"source": factor}, line)
            value = scalars.create("muli", {"lhs": value, "rhs": factor}, line)
        whole = TileType(form.shape, element)
        if line != whole:
            value = scalars.create("broadcast", {"source": value}, whole)
        total = value if total is None else scalars.create("addi", {"lhs": total, "rhs": value}, whole)
    assert total is not None  # some step is not zero
    return total
