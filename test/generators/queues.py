# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random programs of nv_tileaa whose agents hand tiles and numbers on through queues: `queue_program(seed)`.

A program begins as a skeleton: loops, conditions, puts and gets in an order in which one thread could run them, so that
no queue overflows and nobody gets what is not there. Each agent is the part of the skeleton that is its own, and since
queues keep their order, agents that run side by side come to the end, and to the same memory. Between turns agents
compute, load from an array that nobody writes, and store to places of their own, each once.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import prod

from generators.core import Parameter, Program
from generators.values import powers

ELEMENTS = ("i8", "i16", "i32", "i64", "f16", "f32")
OUTPUT, INPUT = 4096, 512
"""Elements of the arrays of each element type that a program writes and reads."""
LARGEST = 128
"""Elements of the largest tile."""
WARPS = (1, 1, 2, 4)
COUNTS = (0, 3, 2)
"""The arguments %n0, %n1, ... by which loops are counted and conditions asked."""


@dataclass(frozen=True)
class Type:
    """A tile, or (without a shape) a number: index or i32."""

    element: str
    shape: tuple[int, ...] | None

    @property
    def size(self) -> int:
        return prod(self.shape or ())

    def _text(self, word: str) -> str:
        if self.shape is None:
            return self.element
        return f"{word}<{''.join(f'{n}x' for n in self.shape)}{self.element}>"

    def __str__(self) -> str:
        return self._text("tensor")

    @property
    def tile(self) -> str:
        return self._text("tile")

    @property
    def is_float(self) -> bool:
        return self.element.startswith("f")


INDEX = Type("index", None)
I32 = Type("i32", None)


@dataclass(frozen=True)
class Value:
    """An SSA value."""

    name: str
    type: Type


@dataclass(frozen=True)
class Queue:
    """A queue: what an entry holds, how many there may be, which agent puts and which ones get."""

    name: str
    depth: int
    types: tuple[Type, ...]
    producer: int
    consumers: tuple[int, ...]
    isolated: bool

    @property
    def type(self) -> str:
        return f"!nv_tileaa.queue<({', '.join(t.tile for t in self.types)}){', isolated' if self.isolated else ''}>"


@dataclass(eq=False)
class Node:
    """A piece of the skeleton: a turn (of the producer where `consumer` is None), a loop, or a condition."""

    queue: Queue | None = None
    consumer: int | None = None
    count: int | None = None
    """The number of the argument that counts a loop; None for a condition or a turn."""
    condition: int = 0
    bodies: list[list[Node]] = field(default_factory=list)

    @property
    def agent(self) -> int | None:
        if self.queue is None:
            return None
        return self.queue.producer if self.consumer is None else self.queue.consumers[self.consumer]

    def concerns(self, agent: int) -> bool:
        """Whether an agent has a turn in it."""
        return self.agent == agent or any(node.concerns(agent) for body in self.bodies for node in body)


def queue_program(seed: int) -> Program:
    """A random program; the same for the same seed. A memref is two arguments: an array, and its size."""
    return _Skeleton(seed).program()


def _parameters() -> list[Parameter]:
    """The arrays to read, those to write, and numbers."""
    made = []
    for kind, size in (("in", INPUT), ("out", OUTPUT)):
        for element in ELEMENTS:
            bounds = (-100, 99) if kind == "in" else (0, 0)
            made.append(Parameter(f"{kind}_{element}", element, size, bounds, written=kind == "out"))
            made.append(Parameter(f"size_of_{kind}_{element}", "i64", bounds=(size, size)))
    return [*made, *(Parameter(f"n{n}", "i64", bounds=(count, count)) for n, count in enumerate(COUNTS))]


class _Skeleton:
    """The queues and the order of turns."""

    def __init__(self, seed: int):
        self.seed = seed
        self.random = random.Random(seed)
        self.agents = self.random.choice([1, 2, 2, 3, 3, 4])
        self.queues = [self._queue(n) for n in range(self.random.randint(1, 3))]
        self.waiting = {(q, c): 0 for q in self.queues for c in range(len(q.consumers))}
        """How many entries are there for a consumer."""
        self.left = self.random.choice([6, 12, 24])
        """About how many turns there may be."""
        self.open: list[Queue] = []
        """The queues one of whose turns the skeleton is in."""

    def _queue(self, number: int) -> Queue:
        pick = self.random
        types = [self._type() for _ in range(pick.choice([1, 1, 2, 3]))]
        producer = pick.randrange(self.agents)
        consumers = tuple(pick.randrange(self.agents) for _ in range(pick.choice([1, 1, 2])))
        return Queue(f"%q{number}", pick.randint(1, 4), tuple(types), producer, consumers, pick.random() < 0.15)

    def _type(self) -> Type:
        if self.random.random() < 0.15:
            return self.random.choice([INDEX, I32])
        size = self.random.randint(0, LARGEST.bit_length() - 1)
        return Type(self.random.choice([*ELEMENTS]), powers(size, self.random.randint(1, 3), self.random))

    # -- turns in an order ------------------------------------------------------------------------------------------

    def body(self, depth: int) -> list[Node]:
        """Pieces behind which as many entries wait as before."""
        before, nodes = dict(self.waiting), []
        for _ in range(self.random.randint(2, 6)):
            if self.left <= 0:
                break
            if depth < 3 and self.random.random() < 0.35:
                nodes.append(self._branch(depth))
            elif turns := [*self._puts(), *self._gets(before)]:
                nodes.append(self._turn(*self.random.choice(turns), before))
        while left := [*self._gets(before)]:
            nodes.append(self._turn(*self.random.choice(left), before))
        assert self.waiting == before
        return nodes

    def _branch(self, depth: int) -> Node:
        if self.random.random() < 0.6:
            return Node(count=self.random.randrange(len(COUNTS)), bodies=[self.body(depth + 1)])
        arms = [self.body(depth + 1), self.body(depth + 1) if self.random.random() < 0.6 else []]
        return Node(condition=self.random.randrange(1, 4), bodies=arms)

    def _puts(self) -> Iterator[tuple[Queue, int | None]]:
        for queue in self.queues:
            full = max(self.waiting[queue, c] for c in range(len(queue.consumers))) >= queue.depth
            if queue not in self.open and not full:
                yield queue, None

    def _gets(self, before: dict[tuple[Queue, int], int]) -> Iterator[tuple[Queue, int | None]]:
        for (queue, consumer), count in self.waiting.items():
            if queue not in self.open and count > before[queue, consumer]:
                yield queue, consumer

    def _turn(self, queue: Queue, consumer: int | None, before: dict[tuple[Queue, int], int]) -> Node:
        """A turn, at times with one of another queue in it that is the same agent's."""
        node = Node(queue, consumer)
        self.left -= 1
        self.open.append(queue)
        agent = node.agent
        inner = [t for t in [*self._puts(), *self._gets(before)] if Node(*t).agent == agent]
        if inner and not queue.isolated and self.random.random() < 0.2:
            node.bodies = [[self._turn(*self.random.choice(inner), before)]]
        self.open.pop()
        if consumer is not None:
            self.waiting[queue, consumer] -= 1
        else:
            for number in range(len(queue.consumers)):
                self.waiting[queue, number] += 1
        return node

    # -- the program ------------------------------------------------------------------------------------------------

    def program(self) -> Program:
        nodes = self.body(0)
        # Everybody who may put or get does: a queue that somebody never gets from fills up.
        for queue in self.queues:
            nodes += [Node(queue), *(Node(queue, c) for c in range(len(queue.consumers)))]
        warps = [self.random.choice(WARPS) for _ in range(self.agents)]
        agents = [_Agent(self, number).code(nodes) for number in range(self.agents)]
        parameters = [f"%{kind}_{e}: {_memref(e)}" for kind in ("in", "out") for e in ELEMENTS]
        parameters += [f"%n{n}: index" for n in range(len(COUNTS))]
        lines = [
            f"nv_tileaa.func @kernel({', '.join(parameters)}) attributes {{kernel_spec = "
            "#nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1>} {",
            *(f"  %c{n} = arith.constant {n} : index" for n in range(4)),
        ]
        for queue in self.queues:
            consumers = f", num_consumers = {len(queue.consumers)}" if len(queue.consumers) > 1 else ""
            lines.append(f"  {queue.name} = nv_tileaa.create_queue {{depth = {queue.depth}{consumers}}} : {queue.type}")
        if self.agents == 1:
            lines += agents[0]
        else:
            lines.append(f"  nv_tileaa.execute {{agent_warps = {warps}}} ({{")
            lines += "\n  }, {\n".join("\n".join([*code, "    nv_tileaa.yield"]) for code in agents).splitlines()
            lines.append("  })")
        text = "\n".join([*lines, "  nv_tileaa.return", "}", ""])
        return Program(self.seed, text, _parameters(), (1, 1, 1), ("queues",))


def _memref(element: str) -> str:
    return f"!nv_tileaa.memref<?x{element}, strides=[1], 1>"


class _Agent:
    """The code of one agent."""

    def __init__(self, skeleton: _Skeleton, number: int):
        self.skeleton, self.number = skeleton, number
        self.random = random.Random(f"{skeleton.seed} {number}")
        self.lines: list[str] = []
        self.depth = 2
        self.count = 0
        self.counters: list[Value] = []
        """The numbers of the loops around."""
        self.times = 1
        """How often they run what is being written."""
        self.room = OUTPUT // skeleton.agents
        """Elements that are left of the agent's places."""

    def code(self, nodes: Sequence[Node]) -> list[str]:
        """The lines of the agent. It carries the number of its next store, and a few values."""
        first = self.number * (OUTPUT // self.skeleton.agents)
        state = [self.let(f"arith.constant {first} : index", INDEX)]
        state += [self.constant(self.skeleton._type()) for _ in range(self.random.randint(1, 3))]
        state = self.run(nodes, state)
        for value in state[1:]:
            state = self.store(value, state)
        return self.lines

    # -- writing ----------------------------------------------------------------------------------------------------

    def name(self) -> str:
        self.count += 1
        return f"%a{self.number}_{self.count}"

    def line(self, text: str) -> None:
        self.lines.append("  " * self.depth + text)

    def let(self, text: str, type_: Type) -> Value:
        value = Value(self.name(), type_)
        self.line(f"{value.name} = {text}")
        return value

    def constant(self, type_: Type) -> Value:
        number = self.random.randint(-3, 5)
        if type_.shape is None:
            return self.let(f"arith.constant {number if type_ == I32 else abs(number)} : {type_}", type_)
        shown = f"{number}.0" if type_.is_float else number
        text = f"nv_tileaa.constant {{value = dense<{shown}> : !cuda_tile.{type_.tile}}} : {type_.tile}"
        return self.let(text, type_)

    def binary(self, x: Value, y: Value) -> Value:
        """Both together, exactly as on every machine."""
        type_ = x.type
        if type_.is_float:
            op = self.random.choice(["addf", "subf", "maxf", "minf"])
            return self.let(f"nv_tileaa.{op} {x.name}, {y.name} : {type_.tile}, {type_.tile} -> {type_.tile}", type_)
        op = self.random.choice(["addi", "subi", "muli", "xori", "andi"]) if type_ != INDEX else "addi"
        return self.let(f"arith.{op} {x.name}, {y.name} : {type_}", type_)

    def converted(self, value: Value, type_: Type) -> Value:
        """A value of another type, of the same number of elements where it is a tile."""
        if value.type.shape is None:
            return self._of_number(value, type_)
        if type_.shape is None or value.type.size != type_.size or value.type.is_float != type_.is_float:
            return self.constant(type_)
        if value.type.shape != type_.shape:
            shaped = Type(value.type.element, type_.shape)
            value = self.let(f"nv_tileaa.view {value.name} : {value.type.tile} -> {shaped.tile}", shaped)
        return self._of_bits(value, type_)

    def _of_bits(self, value: Value, type_: Type) -> Value:
        if value.type.element == type_.element:
            return value
        if type_.is_float:
            text = f"nv_tileaa.fp_to_fp {value.name} : {value.type.tile} -> {type_.tile}"
        else:
            wider = int(type_.element[1:]) > int(value.type.element[1:])
            text = f"arith.{'extsi' if wider else 'trunci'} {value.name} : {value.type} to {type_}"
        return self.let(text, type_)

    def _of_number(self, value: Value, type_: Type) -> Value:
        if type_ == value.type:
            return value
        if type_ == INDEX:  # a number that is none too large
            small = self.let("arith.constant 7 : i32", I32)
            value = self.let(f"arith.andi {value.name}, {small.name} : i32", I32)
            return self.let(f"arith.index_cast {value.name} : i32 to index", INDEX)
        if value.type == INDEX:
            value = self.let(f"arith.index_cast {value.name} : index to i32", I32)
        if type_ == I32:
            return value
        if type_.is_float:
            return self.constant(type_)
        tile = Type("i32", type_.shape)
        return self._of_bits(self.let(f"nv_tileaa.splat {value.name} : i32 -> {tile.tile}", tile), type_)

    def load(self, type_: Type) -> Value:
        """A tile of the array that nobody writes."""
        flat = Type(type_.element, (type_.size,))
        at = self.let(f"arith.constant {self.random.randrange(INPUT - type_.size)} : index", INDEX)
        text = f"nv_tileaa.tiled_load %in_{type_.element}[{at.name}] : {_memref(type_.element)}, index -> {flat.tile}"
        return self.converted(self.let(text, flat), type_)

    def swapped(self, value: Value) -> Value:
        """A tile of rank 2 and its transposed tile's columns summed up, along with it: elements cross threads."""
        rows, columns = value.type.shape or ()
        element = value.type.element
        turned, sums = Type(element, (columns, rows)), Type(element, (rows,))
        x = self.let(
            f"nv_tileaa.permute {value.name} {{permutation = array<i64: 1, 0>}} : {value.type.tile} -> {turned.tile}",
            turned,
        )
        u, v, w = self.name(), self.name(), self.name()
        s = Value(self.name(), sums)
        self.line(f"{s.name} = nv_tileaa.reduce {x.name} {{dim = 0, identities = [0 : {element}]}} ({{")
        self.line(f"^bb0({u}: tensor<{element}>, {v}: tensor<{element}>):")
        self.line(f"  {w} = arith.addi {u}, {v} : tensor<{element}>")
        self.line(f"  nv_tileaa.yield {w} : tile<{element}>")
        self.line(f"}}) : {turned.tile} -> {sums.tile}")
        column = Type(element, (rows, 1))
        y = self.let(f"nv_tileaa.view {s.name} : {sums.tile} -> {column.tile}", column)
        z = self.let(f"nv_tileaa.broadcast {y.name} : {column.tile} -> {value.type.tile}", value.type)
        return self.binary(value, z)

    def made(self, type_: Type, among: Sequence[Value], captures: bool = True) -> Value:
        """A value of a type, of some of these."""
        sources = self.random.sample(among, min(len(among), self.random.randint(1, 2)))
        value = self.constant(type_)
        if captures and type_.shape is not None and self.random.random() < 0.5:
            value = self.load(type_)
        for source in sources:
            value = self.binary(value, self.converted(source, type_))
        if type_.shape is not None and len(type_.shape) == 2 and not type_.is_float and self.random.random() < 0.3:
            value = self.swapped(value)
        return value

    def store(self, value: Value, state: list[Value]) -> list[Value]:
        """A tile at the agent's next place, if there is room for one each time; the state behind it."""
        type_, at = value.type, state[0]
        if self.times * type_.size > self.room:
            return state
        self.room -= self.times * type_.size
        if type_.shape is None:
            value = self._of_number(value, Type("i32", (1,)))
            type_ = value.type
        flat = self.converted(value, Type(type_.element, (type_.size,)))
        self.line(
            f"nv_tileaa.tiled_store %out_{type_.element}[{at.name}], {flat.name} : {_memref(type_.element)}, "
            f"{flat.type.tile}, index"
        )
        size = self.let(f"arith.constant {type_.size} : index", INDEX)
        return [self.let(f"arith.addi {at.name}, {size.name} : index", INDEX), *state[1:]]

    # -- the skeleton -----------------------------------------------------------------------------------------------

    def run(self, nodes: Sequence[Node], state: list[Value]) -> list[Value]:
        """The agent's part of some pieces; the state behind them."""
        for node in nodes:
            if not node.concerns(self.number):
                continue
            if node.queue is not None:
                state = self.turn(node, state)
            elif node.count is None:
                state = self.condition(node, state)
            elif self.random.random() < 0.75:
                state = self.loop(node, state)
            else:
                state = self.while_loop(node, state)
            if self.random.random() < 0.3 and len(state) > 1:
                number = self.random.randrange(1, len(state))
                state[number] = self.made(state[number].type, [*state[1:], *self.counters])
        return state

    def _results(self, state: Sequence[Value], head: str) -> list[Value]:
        """Begin an op with a result for each value of the state."""
        name = self.name()
        self.line(f"{name}:{len(state)} = {head}")
        return [Value(f"{name}#{n}", v.type) for n, v in enumerate(state)]

    def _region(self, nodes: Sequence[Node], state: list[Value], end: str) -> None:
        self.depth += 1
        given = self.run(nodes, state)
        self.line(f"{end} {', '.join(v.name for v in given)} : {', '.join(str(v.type) for v in given)}")
        self.depth -= 1

    @contextmanager
    def _repeated(self, node: Node, counter: Value) -> Iterator[None]:
        """Write what a loop runs, of which `counter` is the number."""
        assert node.count is not None
        times = self.times
        self.times *= COUNTS[node.count]
        self.counters.append(counter)
        yield
        self.counters.pop()
        self.times = times

    def loop(self, node: Node, state: list[Value]) -> list[Value]:
        counter, inside = Value(self.name(), INDEX), [Value(self.name(), v.type) for v in state]
        carried = ", ".join(f"{a.name} = {v.name}" for a, v in zip(inside, state))
        types = ", ".join(str(v.type) for v in state)
        results = self._results(
            state, f"scf.for {counter.name} = %c0 to %n{node.count} step %c1 iter_args({carried}) -> ({types}) {{"
        )
        with self._repeated(node, counter):
            self._region(node.bodies[0], inside, "scf.yield")
        self.line("}")
        return results

    def while_loop(self, node: Node, state: list[Value]) -> list[Value]:
        types = ", ".join(["index", *(str(v.type) for v in state)])
        before = [Value(self.name(), t) for t in (INDEX, *(v.type for v in state))]
        after = [Value(self.name(), v.type) for v in before]
        carried = ", ".join(f"{a.name} = {v}" for a, v in zip(before, ["%c0", *(v.name for v in state)]))
        results = self._results(before, f"scf.while ({carried}) : ({types}) -> ({types}) {{")
        more = self.name()
        self.line(f"  {more} = arith.cmpi ult, {before[0].name}, %n{node.count} : index")
        self.line(f"  scf.condition({more}) {', '.join(v.name for v in before)} : {types}")
        self.line("} do {")
        self.line(f"^bb0({', '.join(f'{v.name}: {v.type}' for v in after)}):")
        self.depth += 1
        with self._repeated(node, after[0]):
            given = self.run(node.bodies[0], after[1:])
        following = self.let(f"arith.addi {after[0].name}, %c1 : index", INDEX)
        self.line(f"scf.yield {', '.join(v.name for v in (following, *given))} : {types}")
        self.depth -= 1
        self.line("}")
        return results[1:]

    def condition(self, node: Node, state: list[Value]) -> list[Value]:
        """Asked of the innermost loop's number, or of an argument: all agents find the same."""
        asked = self.counters[-1].name if self.counters else f"%n{node.condition - 1}"
        rest = self.let(f"arith.remui {asked}, %c{node.condition} : index", INDEX)
        held = self.name()
        self.line(f"{held} = arith.cmpi eq, {rest.name}, %c{min(node.condition - 1, 1)} : index")
        results = self._results(state, f"scf.if {held} -> ({', '.join(str(v.type) for v in state)}) {{")
        self._region(node.bodies[0], [*state], "scf.yield")
        self.line("} else {")
        self._region(node.bodies[1], [*state], "scf.yield")
        self.line("}")
        return results

    def turn(self, node: Node, state: list[Value]) -> list[Value]:
        queue, inner = node.queue, node.bodies[0] if node.bodies else []
        assert queue is not None
        if node.consumer is None:
            return self._put(queue, inner, state)
        arguments = [Value(self.name(), t) for t in queue.types]
        picked = self.random.choice(arguments)
        # What the region gives: new values of the state, or what was got.
        kept = self.random.randrange(1, len(state)) if self.random.random() < 0.7 else None
        type_ = picked.type if kept is None else state[kept].type
        result = Value(self.name(), type_)
        index = f" {{consumer_idx = {node.consumer}}}" if node.consumer else ""
        self.line(f"{result.name} = nv_tileaa.queue.get {queue.name}{index} ({{")
        self.line(f"^bb0({', '.join(f'{a.name}: {a.type}' for a in arguments)}):")
        self.depth += 1
        # The state that turns inside change is that of the turn alone: an op hands on what its region yields.
        around = [] if queue.isolated else state[1:]
        if inner:
            self.run_inside(inner, state)
        value = picked if kept is None else self.made(type_, [*arguments, *around], not queue.isolated)
        self.line(f"nv_tileaa.queue.yield {value.name} : {value.type.tile}")
        self.depth -= 1
        self.line(f"}}) : {queue.type} -> {type_.tile}")
        state = [*state]
        if kept is not None:
            state[kept] = result
            return state
        return self.store(result, state) if not self.inside else state

    inside = 0
    """How many turns the agent is in: what they store would have to be counted outside of them."""

    def run_inside(self, nodes: Sequence[Node], state: Sequence[Value]) -> None:
        self.inside += 1
        self.run(nodes, [*state])
        self.inside -= 1

    def _put(self, queue: Queue, inner: Sequence[Node], state: list[Value]) -> list[Value]:
        self.line(f"nv_tileaa.queue.put {queue.name} ({{")
        self.depth += 1
        if inner:
            self.run_inside(inner, state)
        around = [] if queue.isolated else [*state[1:], *self.counters]
        given = [self.made(t, around, not queue.isolated) for t in queue.types]
        self.line(f"nv_tileaa.queue.yield {', '.join(v.name for v in given)} : {', '.join(v.type.tile for v in given)}")
        self.depth -= 1
        self.line(f"}}) : {queue.type}")
        return state
