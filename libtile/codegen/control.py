# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Structured control flow: loops and conditionals over tiles and scalars.

Conditions and bounds are scalars, which all threads of the tile block hold alike, so that a branch is uniform and
barriers and shuffles may stand in either arm. What a loop carries or a conditional yields is a tile, all of whose
registers become phis, or a single value.

The shapes are MLIR's `scf.for`, `scf.while` and `scf.if`, and Tile IR's `loop`, whose body leaves from anywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from libtile.codegen.blocks import Block
from libtile.codegen.builder import KernelBuilder, Value
from libtile.codegen.llvm_types import I32, I64, LlvmType
from libtile.codegen.tile import Tile
from libtile.support.records import dataclass, field

Carried = Tile | Value
"""What flows along the edges of control: a tile or a single LLVM value."""


def _flatten(values: Sequence[Carried]) -> list[Value]:
    return [r for v in values for r in (v.registers if isinstance(v, Tile) else (v,))]


def _rebuild(like: Sequence[Carried], flat: Sequence[Value]) -> list[Carried]:
    """Values of the same tiles' layouts, made of other registers."""
    result: list[Carried] = []
    position = 0
    for v in like:
        if isinstance(v, Tile):
            result.append(v.with_registers(flat[position : position + len(v.registers)]))
            position += len(v.registers)
        else:
            result.append(flat[position])
            position += 1
    return result


def _signature(values: Sequence[Carried]) -> list[object]:
    return [(v.element, v.layout) if isinstance(v, Tile) else v.type for v in values]


@dataclass
class Join:
    """A block that several edges lead to, each with values: their phis are `values`, of the kinds of `like`."""

    b: KernelBuilder
    block: Block
    like: Sequence[Carried]
    values: list[Carried] = field(init=False)
    edges: int = 0

    def __post_init__(self) -> None:
        made = [self.b.phi(v.type, self.block) for v in _flatten(self.like)]
        self._add = [add for _, add in made]
        self.values = _rebuild(self.like, [value for value, _ in made])

    def record(self, values: Sequence[Carried]) -> None:
        """Give the values of an edge from the current block, whose branch the caller emits.

        ValueError when they are not of the join's kinds.
        """
        if _signature(values) != _signature(self.like):
            raise ValueError("the values of an edge have other types or layouts than what the block expects")
        for add, value in zip(self._add, _flatten(values)):
            add(value, self.b.block)
        self.edges += 1

    def enter_from_here(self, values: Sequence[Carried]) -> None:
        """Branch here from the current block with these values."""
        self.record(values)
        self.b.branch(self.block)


def _open(b: KernelBuilder, hint: str, like: Sequence[Carried], *, behind: bool = False) -> Join:
    return Join(b, b.new_block(hint, behind=behind), like)


def for_loop(
    b: KernelBuilder,
    lower: Value,
    upper: Value,
    step: Value,
    initial: Sequence[Carried],
    body: Callable[[Value, list[Carried]], Sequence[Carried]],
    *,
    unsigned: bool = False,
    rotated: bool = False,
) -> list[Carried]:
    """Run `body(induction value, carried)` for lower, lower + step, ... below upper; it returns what to carry on.

    The step is positive. The bounds have one integer type; `unsigned` is how they compare. The range is that of whole
    numbers (Tile IR, "for"): it ends even where the counter would wrap around before it reached the bound. Whether
    there is another turn is asked in front of each one, or, of a `rotated` loop, once in front of all and at the end of
    each.
    """
    below, exact = ("ult", "add nuw") if unsigned else ("slt", "add nsw")
    start, last = [lower, *initial], None
    if not _stays_in_range(upper, step, unsigned):
        # There is another iteration where counter + step < upper, which is compared without the sum.
        last = b.call(f"llvm.{'u' if unsigned else 's'}sub.sat.{upper.type}", upper.type, [upper, step])
        start.append(b.compare(below, lower, upper))
    with b.loop():
        header = _open(b, "for", start)
        after = b.new_block("done", behind=True)
        left = Join(b, after, initial) if rotated else None
        if left is not None:
            _goes_on(b, start[-1] if last is not None else b.compare(below, lower, upper), header, start, left, initial)
        else:
            header.enter_from_here(start)
        b.start(header.block)
        counter, carried = header.values[0], header.values[1 : 1 + len(initial)]
        if not isinstance(counter, Value):
            raise TypeError("a loop counts with a scalar")
        if left is None:
            inside = b.new_block("body")
            enters = b.compare(below, counter, upper) if last is None else header.values[-1]
            assert isinstance(enters, Value)
            b.conditional_branch(enters, inside, after)
            b.start(inside)
        results = list(body(counter, list(carried)))
        # Behind the last iteration the sum may wrap around and be poison, but then nobody reads it.
        following = b.binary(exact, counter, step)
        more = b.compare(below, counter, last) if last is not None else None
        onward = [following, *results, *([more] if more is not None else [])]
        if left is None:
            header.enter_from_here(onward)
        else:
            _goes_on(b, b.compare(below, following, upper) if more is None else more, header, onward, left, results)
            carried = left.values
    b.start(after)
    return carried


def _goes_on(
    b: KernelBuilder, more: Carried, to: Join, onward: Sequence[Carried], left: Join, results: Sequence[Carried]
) -> None:  # fmt: skip
    """Branch into a turn of a loop if there is one more, or behind the loop."""
    assert isinstance(more, Value)
    to.record(onward)
    left.record(results)
    b.conditional_branch(more, to.block, left.block)


def as_it_is(b: KernelBuilder, value: Value) -> Value:
    """A number that a turn of a loop begins with, so that LLVM does not see of what other one it is the next. It would
    carry the address of each access from turn to turn in registers of its own, which it takes to be many; so what moves
    with the number is added to what stays the same."""
    if value.constant is not None or value.type not in _WORDS:
        return value
    bits, register = _WORDS[value.type]
    return b.asm(f"mov.b{bits} $0, $1;", f"={register},{register}", value.type, [value])


_WORDS: dict[LlvmType, tuple[int, str]] = {I32: (32, "r"), I64: (64, "l")}
UNROLLED = 16
"""Turns of a loop that LLVM may unroll, where it computes with their numbers."""


def has_few_turns(lower: Value, upper: Value, step: Value) -> bool:
    """Whether constants say that a loop has so few turns that it may be unrolled."""
    if lower.constant is None or upper.constant is None or not step.constant:
        return False
    return (upper.constant - lower.constant) / step.constant <= UNROLLED


def _stays_in_range(upper: Value, step: Value, unsigned: bool) -> bool:
    """Whether constants show that counting by `step` up to the first number that is not below `upper` cannot wrap."""
    bits = upper.type.bits
    largest = (1 << bits if unsigned else 1 << bits - 1) - 1

    def number(constant: int) -> int:
        return constant % (1 << bits) if unsigned else constant

    if step.constant is None:
        return False
    highest = largest if upper.constant is None else number(upper.constant)
    return highest - 1 + number(step.constant) <= largest


def while_loop(
    b: KernelBuilder,
    initial: Sequence[Carried],
    before: Callable[[list[Carried]], tuple[Value, Sequence[Carried]]],
    after: Callable[[list[Carried]], Sequence[Carried]],
) -> list[Carried]:
    """`scf.while`: `before(carried)` gives the condition to go on and the values to hand to `after` or, at the end,
    to the code behind the loop; `after(those)` gives what `before` gets next."""
    with b.loop():
        header = _open(b, "while", initial)
        inside, done = b.new_block("body"), b.new_block("done", behind=True)
        header.enter_from_here(initial)
        b.start(header.block)
        condition, forwarded = before(list(header.values))
        forwarded = list(forwarded)
        b.conditional_branch(condition, inside, done)
        b.start(inside)
        header.enter_from_here(list(after(list(forwarded))))
    b.start(done)
    return forwarded


def if_else(
    b: KernelBuilder,
    condition: Value,
    then: Callable[[], Sequence[Carried]],
    otherwise: Callable[[], Sequence[Carried]] | None = None,
) -> list[Carried]:
    """`scf.if`: what the arm that runs yields. Without `otherwise` the first arm must yield nothing.

    An arm that ends in `break_` or `continue_` of an enclosing loop takes no part in the results; when neither arm
    comes to its end, the code behind is unreachable, and the caller sees that by `b.block.terminated`.
    """
    first, second = b.new_block("then"), b.new_block("else")
    b.conditional_branch(condition, first, second)
    join: Join | None = None
    for block, arm in ((first, then), (second, otherwise)):
        b.start(block)
        results = list(arm()) if arm is not None else []
        if b.block.terminated:
            continue
        if join is None:
            join = _open(b, "endif", results)
        join.enter_from_here(results)
    if join is None:
        return []
    b.start(join.block)
    return list(join.values)


@dataclass(frozen=True, slots=True)
class LoopExit:
    """The two ways out of a `breaking_loop`'s body; each ends the current block."""

    header: Join
    done: Join

    def break_(self, values: Sequence[Carried]) -> None:
        """Leave the loop with these results."""
        self.done.enter_from_here(values)

    def continue_(self, values: Sequence[Carried]) -> None:
        """Go on with the next iteration, which carries these values."""
        self.header.enter_from_here(values)


def breaking_loop(
    b: KernelBuilder,
    initial: Sequence[Carried],
    results: Sequence[Carried],
    body: Callable[[list[Carried], LoopExit], None],
) -> list[Carried]:
    """Tile IR's `loop`: runs `body(carried, exit)` until it breaks. Every path through the body ends in `exit.break_`
    or `exit.continue_`; `results` shows the kinds of what a break yields (its values do not matter).

    A loop without any break never ends: the code behind it is unreachable.
    """
    with b.loop():
        header, done = _open(b, "loop", initial), _open(b, "done", results, behind=True)
        header.enter_from_here(initial)
        b.start(header.block)
        body(list(header.values), LoopExit(header, done))
    if not b.block.terminated:
        raise ValueError("a path through the loop's body ends in neither break nor continue")
    b.start(done.block)
    if not done.edges:
        for line in range(len(done.block.lines)):
            done.block.lines[line] = "", ""
        b.line("unreachable")
        done.block.terminated = True
    return list(done.values)
