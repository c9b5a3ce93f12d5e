# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How the products of a loop overlap with what else an iteration computes.

Of a loop in which products feed each other, those that come first need nothing that another product gives (`leading`),
and those that come last are only added to what the loop carries (`trailing`). An iteration is then

    early       loads of what lies in memory, whose latency passes under the products
    before      what the leading products need
    leading
    between     what depends on them, but on no trailing product of an earlier iteration
    after       what depends on a trailing product of an earlier iteration (an accumulator that is rescaled)
    late        what only makes the left operand of a trailing product narrower, at the very end
    trailing

and iterations can be turned, so that the leading products of one and the trailing ones of the iteration before are
under way together, and what is between is computed under the latter.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, Operation, SSAValue

from libtile.dialects import scf
from libtile.dialects.arith import ConstantOp
from libtile.dialects.nv_tileaa.collectives import Collective
from libtile.dialects.nv_tileaa.pointers import FpToFpOp
from libtile.dialects.nv_tileaa.shapes import BroadcastOp, SplatOp, ViewOp
from libtile.dialects.nv_tileas.memory import LoadOp, TiledLoadOp
from libtile.dialects.nv_tileas.products import DotOp
from libtile.dialects.nv_tileas.tiles import ConvertLayoutOp
from libtile.ir.places import is_of_block, op_of, uses_of
from libtile.ir.tile_form import element_of
from libtile.lowering.ranks import registers_of
from libtile.lowering.tileas.cleanup import is_pure
from libtile.lowering.to_tileas.accesses import element_bytes
from libtile.support.records import dataclass

FEW_WORDS = 4
"""Of a thread, that a pin takes which machine code computes in front of a wait, too."""
WORD_BYTES = 4
"""Of a register."""
_WITH_REGIONS = (scf.IfOp, Collective)
_COPIES = (ConstantOp, SplatOp, BroadcastOp, ViewOp)
"""Ops whose results are other registers' values."""


@dataclass(frozen=True)
class Parts:
    """The ops of a loop's body by their part in an iteration, each in the order of the program.

    `accumulators` are the numbers of the carried values that trailing products add to; `handed` what a turn gets from
    the one before for its late ops and trailing products; `pins` what is made between for that.
    """

    early: tuple[Operation, ...]
    before: tuple[Operation, ...]
    leading: tuple[DotOp, ...]
    between: tuple[Operation, ...]
    after: tuple[Operation, ...]
    late: tuple[Operation, ...]
    trailing: tuple[DotOp, ...]
    accumulators: tuple[int, ...]
    handed: tuple[SSAValue, ...]
    pins: tuple[SSAValue, ...]


def parts_of(
    body: Block, ops: Sequence[Operation], left: Collection[SSAValue], *, in_a_row: bool = False
) -> Parts | str:
    """The parts of a body's ops, which are without its terminator and without what brings operands from shared memory;
    or why its iterations cannot be turned. `left` are the left operands of products that are in registers. Leading
    products may add to each other's results where they are issued one behind the other (`in_a_row`)."""
    last = body.last_op
    assert last is not None
    products = [op for op in ops if isinstance(op, DotOp)]
    if any(_acts(op) for op in ops):
        return "the loop does more than compute"
    trailing = [p for p in products if [u.operation for u in p.result.uses] == [last]]
    leading = [p for p in products if p not in trailing]
    if not leading or not trailing:
        return "no product of an iteration feeds another one"
    accumulators = [next(iter(p.result.uses)).index for p in trailing]
    carried = {body.args[1 + n] for n in accumulators}
    before: set[Operation] = set()
    for product in leading:
        given = _in_registers(product, left)
        if in_a_row and product.c.owner in leading and product.c.has_one_use():
            given.remove(product.c)
        needed, arguments = _behind(given, body)
        if any(isinstance(op, DotOp) for op in needed):
            return "a product neither comes first in an iteration nor last"
        if arguments & carried:
            return "a product needs what another one gave in the iteration before"
        before |= needed
    late: list[Operation] = []
    for product in trailing:
        if product.a in left:
            late += _narrowing(product.a, body, before)
    rest = [op for op in ops if op not in before and op not in products and op not in late]
    after: list[Operation] = []
    reached: set[SSAValue] = set(carried)
    for op in rest:
        if any(v in reached for v in uses_of(op)):
            after.append(op)
            reached |= set(op.results)
    early = early_loads([op for op in rest if op not in after], body)
    between = [op for op in rest if op not in after and op not in early]
    made = {r for op in late for r in op.results}
    wanted = [*(v for op in late for v in op.operands), *(v for p in trailing for v in _in_registers(p, left))]
    handed = [v for v in wanted if v not in made and is_of_block(v, body)]
    pins = [v for v in handed if v.owner in between and isinstance(v.type, TensorType)]
    return Parts(
        tuple(early), tuple(op for op in ops if op in before), tuple(leading), tuple(between), tuple(after),
        tuple(op for op in ops if op in late), tuple(trailing), tuple(accumulators), tuple(dict.fromkeys(handed)),
        tuple(dict.fromkeys(pins)),
    )  # fmt: skip


def early_loads(ops: Sequence[Operation], body: Block) -> list[Operation]:
    """The loads among some ops of a body that come from no product of it, and what they need of these ops, in their
    order. Those whose places are loaded stay where they are."""
    found: set[Operation] = set()
    for op in ops:
        if isinstance(op, TiledLoadOp | LoadOp):
            needed, _ = _behind(uses_of(op), body)
            if all(is_pure(other) and not isinstance(other, DotOp) for other in needed):
                found |= {op, *needed}
    return [op for op in ops if op in found]


@dataclass(frozen=True)
class Readers:
    """What is between leading and trailing products and reads the results of leading ones, with all that it needs:
    what has to be computed before their registers are others'.

    `given` are the values that the rest of an iteration takes of it and that come from these results; `beside` those
    between that come from none, and are more than copies of others.
    """

    ops: tuple[Operation, ...]
    given: tuple[SSAValue, ...]
    beside: tuple[SSAValue, ...]


def readers(parts: Parts) -> Readers:
    """The readers of the leading products' results."""
    first: set[Operation] = set()
    results: set[SSAValue] = {p.result for p in parts.leading}
    made = set(results)
    body = parts.leading[0].parent
    assert body is not None
    for op in parts.between:
        taken = set(uses_of(op))
        if taken & results:
            first |= {op, *(o for o in _behind(taken, body)[0] if o in parts.between)}
            if isinstance(op, scf.IfOp):
                results |= set(op.results)  # in one of its branches they are the same values
        if taken & made:
            made |= set(op.results)
    others = [op for op in (*parts.between, *parts.after, *parts.late) if op not in first]
    wanted = {v for op in others for v in uses_of(op)} | set(parts.handed)
    ordered = [op for op in parts.between if op in first]
    given = [v for op in ordered for v in op.results if v in made and v in wanted]
    beside = [v for op in parts.between if not isinstance(op, _COPIES) for v in op.results if v not in made]
    return Readers(tuple(ordered), tuple(given), tuple(beside))


def held_pins(pins: Sequence[SSAValue]) -> list[int]:
    """The numbers of the pins that the assembler is kept from computing behind a wait: those of few words a thread."""
    words = [registers_of(v.type) * element_bytes(element_of(v.type)) // WORD_BYTES for v in pins]
    return [number for number, count in enumerate(words) if count <= FEW_WORDS]


def pinned(parts: Parts, most: int) -> SSAValue | None:
    """The value of at most so many elements in a row of a tile, made between leading and trailing products, that most
    of what is computed there leads to: what has to be there before a wait so that the rest is computed before it."""
    ops = parts.between
    best, behind = None, 0
    for op in ops:
        for value in op.results:
            if not isinstance(value.type, TensorType) or len(value.type.get_shape()) != 2:
                continue
            if value.type.get_shape()[-1] > most or element_bytes(value.type.element_type) != 4:
                continue
            count = len([x for x in _behind([value], op.parent)[0] if x in ops]) if op.parent is not None else 0
            if count >= behind:
                best, behind = value, count
    return best


def _in_registers(product: DotOp, left: Collection[SSAValue]) -> list[SSAValue]:
    """The operands of a product that threads have in registers."""
    return [*([product.a] if product.a in left else []), product.c]


def _behind(values: Iterable[SSAValue], body: Block) -> tuple[set[Operation], set[SSAValue]]:
    """The ops of a body that values come from, and the arguments of the body among what these use."""
    ops: set[Operation] = set()
    arguments: set[SSAValue] = set()
    work = list(values)
    while work:
        value = work.pop()
        owner = op_of(value)
        if value.owner is body:
            arguments.add(value)
        elif owner is not None and owner.parent is body and owner not in ops:
            ops.add(owner)
            work += uses_of(owner)
    return ops, arguments


def _narrowing(value: SSAValue, body: Block, taken: Collection[Operation]) -> list[Operation]:
    """The ops at the end of what an operand comes from, as far as the first that takes wider elements."""
    found: list[Operation] = []
    kept = 0
    while True:
        op = value.owner
        if not isinstance(op, FpToFpOp | ConvertLayoutOp | ViewOp) or op.parent is not body or op in taken:
            break
        if not op.results[0].has_one_use():
            break
        found.append(op)
        source, result = op.source.type, op.result.type
        assert isinstance(source, TensorType) and isinstance(result, TensorType)
        if element_bytes(source.element_type) > element_bytes(result.element_type):
            kept = len(found)
        value = op.source
    return found[:kept]


def _acts(op: Operation) -> bool:
    """Whether an op does more than compute a result, or read memory that nothing orders."""
    if isinstance(op, DotOp) or is_pure(op):
        return False
    if isinstance(op, TiledLoadOp | LoadOp):
        return op.mem_scope is not None
    if isinstance(op, _WITH_REGIONS):
        inner = (o for region in op.regions for block in region.blocks for o in block.ops if o is not block.last_op)
        return any(_acts(o) for o in inner)
    return True
