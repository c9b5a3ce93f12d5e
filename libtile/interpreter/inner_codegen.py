# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Turns a kernel of the inner dialects into a Python generator function, as `libtile.interpreter.codegen` does for Tile
IR, whose emitter this one is but for control flow, which is scf's, and for regions:

- those of turns of pipelines and queues are run in place, with what the stage holds as their arguments;
- agents are generator functions of their own, which take turns whenever one has to wait (`run_agents`);
- a called function is run in place.

A line that has to wait for another agent gives WAIT, and is run again when others had their turn.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import Any

from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.irdl import ResultDef, VariadicDef
from xdsl.irdl.operations import OptionalDef, VarResultDef

from libtile.dialects import scf
from libtile.dialects.nv_tileaa.functions import CallOp, FuncOp, GetCtaRankOp, PluginOp, find_symbol
from libtile.dialects.nv_tileaa.kernels import launched_parameters
from libtile.dialects.nv_tileaa.types import DYNAMIC, MemRefType
from libtile.dialects.nv_tileas.types import TmaDescType
from libtile.interpreter.codegen import Emitter, Frame, Program, counted
from libtile.interpreter.faults import Fault, FaultKind, InterpreterFault
from libtile.interpreter.formats import element
from libtile.interpreter.host_descriptors import hidden_descriptors, named_descriptor
from libtile.interpreter.inner_rules import WAIT, Rule, Site, python_value
from libtile.interpreter.inner_table import RULES
from libtile.interpreter.location import source_location
from libtile.interpreter.machine import state_of
from libtile.interpreter.nv_tileaa import queues
from libtile.interpreter.rings import Turn
from libtile.interpreter.views import TensorView
from libtile.ir.operands import source_of
from libtile.ir.tile_form import TileOp
from libtile.support.checks import Checks
from libtile.support.records import dataclass, field

PIPELINE = "nv_tileas.async.pipeline."
WITH_BODY = frozenset(
    f"{dialect}.{name}" for dialect in ("nv_tileaa", "nv_tileas") for name in ("reduce", "scan", "generate")
)
"""Ops whose region is a function of numbers."""
TERMINATORS = (
    "nv_tileaa.yield", "nv_tileaa.queue.yield", PIPELINE + "yield", "scf.yield", "nv_tileaa.return",
)  # fmt: skip
MAX_CALLS = 64
"""Functions that call one another."""

_Handler = Callable[["InnerEmitter", Operation], None]


@dataclass
class InnerEmitter(Emitter):
    """The text of one kernel."""

    calls: list[str] = field(default_factory=list)
    made: int = 0

    # -- names and ops ----------------------------------------------------------------------------------------------

    def define(self, value: SSAValue) -> str:
        """A fresh name: the ops of a function that is called twice are emitted twice."""
        name = self.names[value] = f"v{self.made}"
        self.made += 1
        return name

    def op(self, op: Operation) -> None:
        handler = STRUCTURE.get(op.name)
        if handler is not None:
            handler(self, op)
            return
        rule = RULES.get(op.name)
        if rule is None:
            raise InterpreterFault(
                FaultKind.UNSUPPORTED, "the interpreter has no rule for it", op.name, source_location(op)
            )
        self.run_rule(op, rule)

    def run_rule(self, op: Operation, rule: Rule) -> None:
        """Call the function of an op's rule, and take its results."""
        function = self.bind("f", self.make(op, rule))
        first = ["B"] if rule.effect else [self.body_function(op)] if op.name in WITH_BODY else []
        text = f"{function}({', '.join([*first, *self.groups(op)])})"
        self.stop(op, rule.synchronises(op))
        targets = [self.define(r) for r in op.results]
        if rule.waits:
            self.waiting(op, targets[0] if targets else self.fresh("w"), text)
        elif not targets:
            self.line(text, op)
        else:
            self.line(f"{', '.join(targets)}{'' if _gives_one(op) else ','} = {text}", op)
        self.traced(op, targets)

    def make(self, op: Operation, rule: Rule) -> Callable[..., Any]:
        """The function of an op's rule, made for its place in the program."""
        elementwise = op.name in WITH_BODY and all(self.is_elementwise(o) for o in op.walk() if o is not op)
        try:
            return rule.make(
                Site(op, self.checks, self.compiled_beside, self.globals, rule.given, rule.names, elementwise)
            )
        except Fault as fault:
            raise InterpreterFault(fault.kind, fault.message, op.name, source_location(op)) from None

    def compiled_beside(self, kernel: Operation) -> Program:
        """Another kernel of the module, which this one launches."""
        return compile_kernel(kernel, self.checks, self.globals)

    def waiting(self, op: Operation, target: str, text: str) -> None:
        """A line that is run until it need not wait any more."""
        self.line(f"{target} = {text}", op)
        self.line(f"while {target} is WAIT:", op)
        self.depth += 1
        self.line("yield WAIT", op)
        self.line(f"{target} = {text}", op)
        self.depth -= 1
        self.line("B.progress += 1")

    def groups(self, op: Operation) -> list[str]:
        """The operands as a rule takes them."""
        if not isinstance(op, TileOp):
            return [self.names[v] for v in op.operands]
        texts = []
        for name, definition in op.get_irdl_definition().operands:
            names = [self.names[v] for v in op.group(name)]
            if isinstance(definition, OptionalDef):
                texts.append(names[0] if names else "None")
            elif isinstance(definition, VariadicDef):
                texts.append("(" + "".join(n + ", " for n in names) + ")")
            else:
                texts.append(names[0])
        return texts

    def is_elementwise(self, op: Operation) -> bool:
        if op.name in TERMINATORS:
            return True
        rule = RULES.get(op.name)
        return not op.regions and rule is not None and rule.elementwise

    def communicates(self, op: Operation) -> bool:
        rule = RULES.get(op.name)
        return rule is not None and (rule.synchronises(op) or rule.waits)

    def has_effect(self, op: Operation) -> bool:
        rule = RULES.get(op.name)
        return rule is not None and rule.effect

    # -- regions in place -------------------------------------------------------------------------------------------

    def in_place(self, op: Operation, region: Region, arguments: Sequence[str]) -> list[str]:
        """Run a region where it stands, with values for its arguments; what it yields."""
        for argument, given in zip(region.block.args, arguments, strict=True):
            self.line(f"{self.define(argument)} = {given}")
        last = region.block.last_op
        results = [self.fresh("r") for _ in last.operands] if last is not None else []
        self.frames.append(Frame("if", results))
        self.block(region.block)
        self.frames.pop()
        return results

    def take(self, op: Operation, values: Sequence[str], first: int = 0) -> None:
        """Name what a region yielded as an op's results from number `first` on."""
        targets = [self.define(r) for r in op.results[first:]]
        self.assign(targets, values)

    def yield_(self, op: Operation) -> None:
        frame = self.frames[-1]
        names = [self.names[v] for v in op.operands]
        if frame.kind == "body":
            self.line(f"return ({''.join(n + ', ' for n in names)})", op)
        else:
            self.assign(frame.carried if frame.is_loop else frame.results, names)

    def return_(self, op: Operation) -> None:
        if self.frames:
            self.yield_(op)  # of a function that is run in place
        else:
            self.line("return", op)

    def return_if(self, op: Operation) -> None:
        self.line(f"if {self.names[source_of(op)]}: return", op)

    def condition_(self, op: Operation) -> None:
        frame = self.frames[-1]
        go_on, *given = (self.names[v] for v in op.operands)
        self.assign(frame.results, given)
        self.line(f"if not {go_on}: break", op)

    def if_op(self, op: Operation) -> None:
        self.branch(op, lambda: self.names[source_of(op)])

    def for_op(self, op: Operation) -> None:
        assert isinstance(op, scf.ForOp)
        unsigned = "unsignedCmp" in op.properties or "unsignedCmp" in op.attributes
        elem = element(op.lb.type)
        bounds = [self.names[v] for v in (op.lb, op.ub, op.step)]
        self.counted_loop(op, bounds, op.iter_args, elem, counted(elem, unsigned))

    def while_op(self, op: Operation) -> None:
        before, after = (region.block for region in op.regions)
        unwind = self.allocation_mark(op)
        frame, close = self.open_loop(op, list(before.args), op.operands)
        self.spinning_loop(op)
        if unwind:
            self.line(unwind)
        self.block(before)  # which its condition leaves, with the results set
        for argument, result in zip(after.args, frame.results):
            self.line(f"{self.define(argument)} = {result}")
        self.block(after)
        self.depth -= 1
        close()
        if unwind:
            self.line(unwind)

    # -- turns, agents, calls ---------------------------------------------------------------------------------------

    def turn(self, op: Operation) -> None:
        """A whole turn of a pipeline, or directives around code: the region, in place."""
        self.take(op, self.in_place(op, op.regions[0], []) if op.regions[0].blocks else [])

    def pragma(self, op: Operation) -> None:
        if op.regions and op.regions[0].blocks:
            self.in_place(op, op.regions[0], [])

    def on_stage(self, op: Operation) -> None:
        """A stage is written or read: the region gets what the stage holds, if it is given something to hold. What a
        write yields first, of the types of what a stage holds, the stage then holds."""
        token, iterator = (self.names[v] for v in op.operands)
        body = op.regions[0]
        used = any(a.first_use is not None for a in body.block.args)
        writes = op.name.endswith("producer_write")
        self.line(f"{token}.use(*{iterator})", op)
        contents = self.fresh("c")
        if used:
            self.line(f"{contents} = {self.bind('h', _contents)}({token}, {writes})", op)
        arguments = [f"{contents}[{n}]" if used else "None" for n in range(len(body.block.args))]
        yielded = self.in_place(op, body, arguments)
        self.line(f"{self.define(op.results[0])} = {token}")
        types = [a.type for a in body.block.args]
        if writes and types and [r.type for r in op.results[1 : 1 + len(types)]] == types:
            held = yielded[: len(types)]
            self.line(f"{self.bind('h', _fill)}({token}, ({''.join(n + ', ' for n in held)}))", op)
        self.take(op, yielded, 1)
        self.traced(op, [self.names[result] for result in op.results])

    def put(self, op: Operation) -> None:
        queue, turn = self.names[source_of(op)], self.fresh("t")
        self.waiting(op, turn, f"{self.bind('h', queues.begin_put)}({queue})")
        values = self.in_place(op, op.regions[0], [])
        self.line(f"{self.bind('h', queues.end_put)}({queue}, {turn}, ({''.join(v + ', ' for v in values)}))", op)
        self.line("B.progress += 1")

    def get(self, op: Operation) -> None:
        queue, turn, contents = self.names[source_of(op)], self.fresh("t"), self.fresh("c")
        consumer = python_value(op.properties.get("consumer_idx")) or 0
        self.waiting(op, turn, f"{self.bind('h', queues.begin_get)}({queue}, {consumer})")
        self.line(f"{contents} = {queue}.ring.contents({turn})", op)
        arguments = [f"{contents}[{n}]" for n in range(len(op.regions[0].block.args))]
        values = self.in_place(op, op.regions[0], arguments)
        self.line(f"{self.bind('h', queues.end_get)}({queue}, {turn}, {consumer})", op)
        self.line("B.progress += 1")
        self.take(op, values)

    def agents(self, op: Operation) -> None:
        """Each region is a generator of its own; they take turns until all have ended. What the first one yields are
        the first results."""
        names, results = [], []
        given = [self.names[v] for v in op.operands]
        for region in op.regions:
            names.append(self.fresh("a"))
            yielded = [self.fresh("r") for _ in region.block.last_op.operands] if region.block.last_op else []
            held = self.fresh("h")
            self.line(f"{held} = []", op)
            self.line(f"def {names[-1]}():", op)
            self.depth += 1
            for argument, name in zip(region.block.args, given, strict=True):
                self.line(f"{self.define(argument)} = {name}")
            outer, self.frames = self.frames, [Frame("if", yielded)]
            self.block(region.block)
            self.frames = outer
            self.line(f"{held}.extend([{', '.join(yielded)}])")
            self.line("return")
            self.line("yield")  # makes it a generator whatever it holds
            self.depth -= 1
            results += [f"{held}[{number}]" for number in range(len(yielded))]
        started = "".join(f"{name}(), " for name in names)
        self.line(f"yield from {self.bind('h', run_agents)}(B, ({started}))", op)
        self.take(op, results)

    def call_op(self, op: Operation) -> None:
        assert isinstance(op, CallOp | PluginOp)
        name = op.called.root_reference.data
        function = find_symbol(op, name)
        problem = None
        if name in self.calls:
            problem = f"@{name} calls itself"
        elif not isinstance(function, FuncOp) or function.body.first_block is None:
            problem = f"@{name} has no body"
        if problem is not None:
            raise InterpreterFault(FaultKind.UNSUPPORTED, problem, op.name, source_location(op))
        assert isinstance(function, FuncOp)
        self.calls.append(name)
        values = self.in_place(op, function.body, [self.names[v] for v in op.operands])
        self.calls.pop()
        self.take(op, values)

    def body_function(self, op: Operation) -> str:
        """Define the region of a reduction, scan or generation as a Python function in place; its name."""
        trace, self.trace = self.trace, None
        block, name = op.regions[0].block, self.fresh("b")
        self.line(f"def {name}({', '.join(self.define(a) for a in block.args)}):", op)
        self.depth += 1
        self.frames.append(Frame("body", []))
        for inner in block.ops:
            self.op(inner)
        self.frames.pop()
        self.depth -= 1
        self.trace = trace
        return name


def _gives_one(op: Operation) -> bool:
    """Whether a rule gives the one result of an op itself, and not a tuple of results."""
    if not isinstance(op, TileOp):
        return len(op.results) == 1
    results = op.get_irdl_definition().results
    return len(results) == 1 and not isinstance(results[0][1], VarResultDef) and isinstance(results[0][1], ResultDef)


def _contents(token: Turn, writes: bool) -> tuple[Any, ...]:
    return token.ring.contents(token.number)


def _fill(token: Turn, values: tuple[Any, ...]) -> None:
    token.ring.fill(token.number, values)


STRUCTURE: dict[str, _Handler] = {
    "scf.if": InnerEmitter.if_op,
    "scf.for": InnerEmitter.for_op,
    "scf.while": InnerEmitter.while_op,
    "scf.condition": InnerEmitter.condition_,
    "scf.yield": InnerEmitter.yield_,
    "nv_tileaa.yield": InnerEmitter.yield_,
    "nv_tileaa.queue.yield": InnerEmitter.yield_,
    "nv_tileaa.return": InnerEmitter.return_,
    "nv_tileaa.return_if": InnerEmitter.return_if,
    "nv_tileaa.call": InnerEmitter.call_op,
    "nv_tileaa.plugin": InnerEmitter.call_op,
    "nv_tileaa.pragma": InnerEmitter.pragma,
    "nv_tileas.pragma": InnerEmitter.pragma,
    "nv_tileaa.queue.put": InnerEmitter.put,
    "nv_tileaa.queue.get": InnerEmitter.get,
    "nv_tileaa.execute": InnerEmitter.agents,
    PIPELINE + "agent_switch": InnerEmitter.agents,
    PIPELINE + "yield": InnerEmitter.yield_,
    PIPELINE + "produce_one": InnerEmitter.turn,
    PIPELINE + "consume_one": InnerEmitter.turn,
    PIPELINE + "producer_write": InnerEmitter.on_stage,
    PIPELINE + "consumer_read": InnerEmitter.on_stage,
    "nv_tileas.get_tma_desc": named_descriptor,
}
"""Ops that are control flow."""


def run_agents(block: Any, agents: Sequence[Iterator[Any]]) -> Generator[Any, None, None]:
    """Resume agents in turn until all have ended. When all that are left wait for one another, nothing can ever change:
    a fault. When some wait for other tile blocks, those get a turn."""
    live = list(agents)
    while live:
        before, waiting, ended = block.progress, 0, []
        for agent in live:
            try:
                waiting += next(agent) is WAIT
            except StopIteration:
                ended.append(agent)
        if ended:
            live = [agent for agent in live if agent not in ended]
        elif waiting == len(live) and block.progress == before:
            raise Fault(FaultKind.DEADLOCK, f"{waiting} agent{'s wait' if waiting > 1 else ' waits'} for one another")
        elif waiting < len(live):
            v_agents = [state_of(agent) for agent in live]  # what a search for a deadlock compares
            yield
            del v_agents


def compile_kernel(
    kernel: Operation,
    checks: Checks,
    globals: Mapping[str, Any] | None = None,
    trace: Callable[..., None] | None = None,
) -> Program:
    """Translate a kernel, whose flat parameters are what it starts with: see `codegen.compile_entry`.

    InterpreterFault when it holds an op that cannot run."""
    assert isinstance(kernel, FuncOp)
    if kernel.body.first_block is None:
        raise InterpreterFault(FaultKind.UNSUPPORTED, "a kernel without a body", kernel.name, source_location(kernel))
    files: dict[str, list[Operation | None]] = {}
    emitter = InnerEmitter(checks, globals or {}, trace, files)
    emitter.namespace |= {"T": trace, "WAIT": WAIT}
    given = [f"p{number}" for number, _ in enumerate(launched_parameters(kernel))]
    emitter.line(f"def kernel({', '.join(['B', *given])}):", kernel)
    emitter.depth = 1
    emitter.line("C, S = B.count, B.max_steps")
    _parameters(emitter, kernel, kernel.body.block, iter(given))
    emitter.block(kernel.body.block)
    emitter.line("return")
    emitter.line("yield")
    start = emitter.compiled("kernel")
    return Program(kernel.sym_name.data, start, "\n".join(emitter.text), files, emitter.shares, runs_of(kernel))


def runs_of(kernel: FuncOp) -> int:
    """How often a program runs: once for each CTA of its cluster where it says what each of them does, by its rank or
    in nv_tileas, and once where it is a program of nv_tileaa that is still to be split."""
    if kernel.kernel_spec is None:
        return 1
    of_each = any(isinstance(op, GetCtaRankOp) or op.name.startswith("nv_tileas.") for op in kernel.walk())
    return kernel.kernel_spec.num_ctas if of_each else 1


def _parameters(emitter: InnerEmitter, kernel: FuncOp, block: Block, given: Iterator[str]) -> None:
    """Name the arguments of a kernel, and make memrefs of their parts, and the descriptors of the host."""
    for argument in block.args:
        if isinstance(argument.type, TmaDescType):
            continue
        name, type_ = emitter.define(argument), argument.type
        if not isinstance(type_, MemRefType):
            emitter.line(f"{name} = {next(given)}")
            continue
        base = next(given)
        shape, strides = (
            "".join(f"int({next(given)}), " if number == DYNAMIC else f"{number}, " for number in numbers)
            for numbers in (type_.shape, type_.strides)
        )
        emitter.line(f"{name} = {emitter.bind('h', TensorView)}(int({base}), ({shape}), ({strides}))")
    hidden_descriptors(emitter, kernel)
