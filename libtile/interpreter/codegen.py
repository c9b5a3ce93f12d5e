# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Turns an entry into one Python generator function.

Tile IR's control flow is structured as Python's is: `for`, `loop`, `if`, `break`, `continue` and `return` become the
same statements, and an op becomes a call of its rule's function, bound once. One line stands for one op, so that the
line number in a traceback says which op failed. For

    %r = for %i in (%a to %b, step %s) : tile<i32> iter_values(%x = %y) -> (tile<f32>) {
      %z = addf %x, %y rounding<nearest_even> : tile<f32>
      continue %z : tile<f32>
    }

the text is

    v4 = v3
    for i in range(*h0(v0, v1, v2)):
     v5 = h1(i)
     v6 = f3(v4, v3)
     v4 = v6
     continue
    v7 = v4

The generator yields in front of each op through which tile blocks can communicate, so that the scheduler may let
others run. With the check for uninitialised elements a value `vN` has a companion `uN`, the mask of those, or None.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from xdsl.ir import Block, Operation, Region, SSAValue

from libtile.dialects.cuda_tile.ops import CudaTileOp
from libtile.dialects.cuda_tile.types import TileType
from libtile.interpreter import nans
from libtile.interpreter.faults import Fault, FaultKind, InterpreterFault
from libtile.interpreter.formats import Element, constant_values, element
from libtile.interpreter.location import source_location
from libtile.interpreter.rules import (
    Rule,
    Site,
    combine_masks,
    flatten,
    require_initialised,
)
from libtile.interpreter.table import RULES
from libtile.support.checks import INTERPRETER, Checks
from libtile.support.records import dataclass, field

MAX_LOOP_DEPTH = 15
"""Loops nested deeper move into a function of their own: CPython allows 20 nested blocks in one."""
MAX_NESTING = 90
"""CPython's limit on indentation is 100."""
_WITH_BODY = ("reduce", "scan")
_ALLOCATES = ("cuda_tile.alloca", "nv_tileaa.alloca")
SPIN_LENGTH = 1 << 14
"""Iterations after which a loop without any synchronising op lets the scheduler look for a deadlock."""


@dataclass
class Program:
    """An entry, ready to run: `start(block, *arguments)` gives the generator of one tile block."""

    name: str
    start: Callable[..., Iterator[None]]
    source: str
    files: dict[str, list[Operation | None]]
    shares: Operation | None = None
    """An op by which a tile block may depend on others that run beside it; None: each runs as if alone."""
    ctas: int = 1
    """How many run each tile block together."""

    def op_at(self, file: str, line: int) -> Operation | None:
        """The op that a line (from 1) of a generated file stands for."""
        ops = self.files.get(file, [])
        return ops[line - 1] if 0 < line <= len(ops) else None


@dataclass
class Frame:
    """A construct that terminators leave: the names that `continue` (carried), `break` and `yield` (results) set."""

    kind: Literal["for", "loop", "if", "body"]
    results: list[str]
    carried: list[str] = field(default_factory=list)

    @property
    def is_loop(self) -> bool:
        return self.kind in ("for", "loop")


@dataclass
class Emitter:
    checks: Checks
    globals: Mapping[str, Any]
    trace: Callable[..., None] | None
    files: dict[str, list[Operation | None]]
    text: list[str] = field(default_factory=list)
    ops: list[Operation | None] = field(default_factory=list)
    namespace: dict[str, Any] = field(default_factory=dict)
    names: dict[SSAValue, str] = field(default_factory=dict)
    frames: list[Frame] = field(default_factory=list)
    depth: int = 0
    bound: int = 0
    shares: Operation | None = None
    """See `Program.shares`."""

    # -- text -----------------------------------------------------------------------------------------------------

    @property
    def full(self) -> bool:
        return "uninitialized" in self.checks

    def line(self, text: str, op: Operation | None = None) -> None:
        if self.depth > MAX_NESTING:
            raise InterpreterFault(FaultKind.UNSUPPORTED, f"control flow is nested more than {MAX_NESTING} deep")
        self.text.append(" " * self.depth + text)
        self.ops.append(op)

    def fresh(self, prefix: str) -> str:
        self.bound += 1
        return f"{prefix}{self.bound}"

    def bind(self, prefix: str, value: Any) -> str:
        """A fresh name for a Python object that the text uses."""
        name = self.fresh(prefix)
        self.namespace[name] = value
        return name

    def define(self, value: SSAValue) -> str:
        name = self.names[value] = f"v{len(self.names)}"
        return name

    def mask(self, name: str) -> str:
        """The companion of a value's name: a constant (k...) has none."""
        return "u" + name[1:] if name.startswith("v") else "None"

    def assign(self, targets: Sequence[str], sources: Sequence[str]) -> None:
        """Simultaneous assignment of values and, with the check for uninitialised elements, of their masks."""
        if not targets:
            return
        left, right = list(targets), list(sources)
        if self.full:
            left += [self.mask(t) for t in targets]
            right += [self.mask(s) for s in sources]
        self.line(f"{', '.join(left)} = {', '.join(right)}")

    # -- structure ------------------------------------------------------------------------------------------------

    def block(self, block: Block) -> None:
        """The ops of a block; one line at least."""
        count = sum(1 for _ in block.ops)
        self.line(f"C[0] += {count}")
        if self.frames and self.frames[-1].is_loop:
            self.line("if C[0] > S: B.spent()", block.parent_op())
        for op in block.ops:
            self.op(op)

    def region(self, region: Region) -> None:
        self.depth += 1
        self.block(region.block)
        self.depth -= 1

    def op(self, op: Operation) -> None:
        if not isinstance(op, CudaTileOp):
            raise InterpreterFault(FaultKind.UNSUPPORTED, "not an op of Tile IR", op.name, source_location(op))
        handler = _STRUCTURE.get(op.spec.name)
        if handler is not None:
            handler(self, op)
            return
        if op.spec.name == "constant":
            self.constant(op)
            return
        rule = RULES.get(op.spec.name)
        if rule is None:
            raise InterpreterFault(
                FaultKind.UNSUPPORTED, "the interpreter has no rule for it", op.name, source_location(op)
            )
        self.call(op, rule)

    def constant(self, op: CudaTileOp) -> None:
        value = constant_of(op)
        name = self.names[op.results[0]] = self.bind("k", value)
        self.traced(op, [name])

    def call(self, op: CudaTileOp, rule: Rule) -> None:
        try:
            run = rule.make(self.site(op))
        except Fault as fault:
            raise InterpreterFault(fault.kind, fault.message, op.name, source_location(op)) from None
        function = self.bind("f", run)
        groups = [self.operand_text(op, spec.name, "value") for spec in op.spec.operands]
        masks = [self.operand_text(op, spec.name, "mask") for spec in op.spec.operands] if self.full else []
        first = ["B"] if rule.effect else [self.body_function(op)] if op.spec.name in _WITH_BODY else []
        arguments = [*first, *groups]
        self.stop(op, rule.synchronises(op))
        targets = [self.define(r) for r in op.results]
        variadic = any(s.is_variadic for s in op.spec.results)
        left = list(targets)
        if self.full and rule.effect:
            self.guard(op, rule, masks, arguments)
        if rule.yields_mask:
            left.append(self.mask(targets[0]) if self.full else "_")
        text = f"{function}({', '.join(arguments)})"
        if not left:
            self.line(text, op)
        elif variadic or len(left) > 1:
            self.line(f"{', '.join(left)}, = {text}", op)
        else:
            self.line(f"{left[0]} = {text}", op)
        if self.full:
            self.result_masks(op, rule, groups, masks, targets)
        if nans.CHECK in self.checks:
            self.watch_for_nan(op, rule)
        self.traced(op, targets)

    def watch_for_nan(self, op: CudaTileOp, rule: Rule) -> None:
        """Look at the floats that an op gives, once it has run."""
        operands, results = (
            "".join(f"{self.names[v]}, " for v in group if nans.holds_floats(v)) for group in (op.operands, op.results)
        )
        if results:
            self.line(f"{self.bind('n', nans.watch(rule))}(({operands}), ({results}))", op)

    def stop(self, op: Operation, synchronises: bool) -> None:
        """In front of an op by which tile blocks communicate, the others may run."""
        if synchronises:
            self.line("yield", op)
        if synchronises or op.name in _ALLOCATES:  # addresses are numbers that a program can see
            self.shares = self.shares or op

    def site(self, op: CudaTileOp) -> Site:
        elementwise = op.spec.name in _WITH_BODY and all(self.is_elementwise(o) for o in op.walk() if o is not op)
        return Site(op, self.checks, self.globals, elementwise)

    def guard(self, op: CudaTileOp, rule: Rule, masks: list[str], arguments: list[str]) -> None:
        """Operands of an effect must be initialised, but for those whose masks it takes itself."""
        checked = [
            m
            for m, s in zip(masks, op.spec.operands)
            if s.name not in rule.accepts_undefined and m not in ("None", "()")
        ]
        if checked:
            self.line(f"require_initialised(({', '.join(checked)},), 'an operand')", op)
        if rule.accepts_undefined:
            passed = [m for m, s in zip(masks, op.spec.operands) if s.name in rule.accepts_undefined]
            arguments.append(f"undefined=({', '.join(passed)},)")

    def result_masks(self, op: CudaTileOp, rule: Rule, groups: list[str], masks: list[str], targets: list[str]) -> None:
        rest = targets[1:] if rule.yields_mask else targets
        live = [m for m in masks if m not in ("None", "()")]
        if rule.effect or not live:
            for t in rest:
                self.line(f"{self.mask(t)} = None")
            return
        function = self.bind("q", mask_function(self.site(op), rule))
        self.line(f"{self.mask(rest[0])} = {function}(({', '.join(groups)},), ({', '.join(masks)},))", op)
        for t in rest[1:]:
            self.line(f"{self.mask(t)} = {self.mask(rest[0])}")

    def traced(self, op: Operation, names: Sequence[str]) -> None:
        if self.trace is not None:
            self.line(f"T(B, {self.bind('o', op)}, ({''.join(n + ', ' for n in names)}))", op)

    def operand_text(self, op: CudaTileOp, group: str, what: str) -> str:
        spec = next(s for s in op.spec.operands if s.name == group)
        names = [self.names[v] for v in op.operand_group(group)]
        if what == "mask":
            names = [self.mask(n) for n in names]
        if spec.is_variadic:
            return "(" + "".join(n + ", " for n in names) + ")"
        return names[0] if names else "None"

    # -- control flow ---------------------------------------------------------------------------------------------

    def condition(self, value: SSAValue, op: Operation) -> str:
        name = self.names[value]
        if self.full and name.startswith("v"):
            self.line(f"require_initialised(({self.mask(name)},), 'the condition')", op)
        return name

    def allocation_mark(self, op: Operation) -> str | None:
        """Text that ends the lifetime of what the op's regions allocate: an alloca lives until its region ends."""
        if not any(o.name in _ALLOCATES for o in op.walk()):
            return None
        mark = self.fresh("m")
        self.line(f"{mark} = len(B.allocas)")
        return f"B.unwind({mark})"

    def if_(self, op: CudaTileOp) -> None:
        self.branch(op, lambda: self.condition(op.operand_group("condition")[0], op))

    def branch(self, op: Operation, condition: Callable[[], str]) -> None:
        """Two regions, one of which runs and gives the results; `condition` may emit lines of its own."""
        results = [self.define(r) for r in op.results]
        unwind = self.allocation_mark(op)
        self.frames.append(Frame("if", results))
        self.line(f"if {condition()}:", op)
        self.region(op.regions[0])
        if op.regions[1].blocks:
            self.line("else:")
            self.region(op.regions[1])
        self.frames.pop()
        if unwind:
            self.line(unwind)
        self.traced(op, results)

    def for_(self, op: CudaTileOp) -> None:
        bounds = [self.condition(op.operand_group(n)[0], op) for n in ("lowerBound", "upperBound", "step")]
        elem = element(op.operand_group("lowerBound")[0].type)
        self.counted_loop(op, bounds, op.operand_group("initValues"), elem, loop_range(op))

    def counted_loop(
        self, op: Operation, bounds: Sequence[str], initial: Sequence[SSAValue], elem: Element, numbers: Any
    ) -> None:
        """A loop over what `numbers` gives for the bounds, each as an element."""
        body = op.regions[0].block
        unwind = self.allocation_mark(op)
        frame, close = self.open_loop(op, list(body.args[1:]), initial, "for")
        prepare, convert = self.bind("h", numbers), self.bind("h", elem.dtype.type)
        counter = self.fresh("i")
        self.line(f"for {counter} in {prepare}({', '.join(bounds)}):", op)
        self.depth += 1
        variable = self.define(body.args[0])
        self.line(f"{variable} = {convert}({counter})")
        if self.full:
            self.line(f"{self.mask(variable)} = None")
        if unwind:
            self.line(unwind)
        self.block(body)
        self.depth -= 1
        self.assign(frame.results, frame.carried)
        close()
        if unwind:
            self.line(unwind)

    def loop_(self, op: CudaTileOp) -> None:
        body = op.regions[0].block
        unwind = self.allocation_mark(op)
        _, close = self.open_loop(op, list(body.args), op.operand_group("initValues"))
        self.spinning_loop(op)
        if unwind:
            self.line(unwind)
        self.block(body)
        self.depth -= 1
        close()
        if unwind:
            self.line(unwind)

    def spinning_loop(self, op: Operation) -> None:
        """Begin a loop that goes round until something leaves it."""
        spins = not any(self.communicates(inner) for inner in op.walk() if inner is not op)
        counter = self.fresh("n")
        if spins:
            self.line(f"{counter} = 0")
            self.shares = self.shares or next(filter(self.has_effect, op.walk()), None)  # it may wait, if by a race
        self.line("while True:", op)
        self.depth += 1
        if spins:
            self.line(f"{counter} += 1")
            self.line(f"if not {counter} & {SPIN_LENGTH - 1}: yield", op)

    def communicates(self, op: Operation) -> bool:
        if not isinstance(op, CudaTileOp):
            return False
        rule = RULES.get(op.spec.name)
        return rule is not None and rule.synchronises(op)

    def has_effect(self, op: Operation) -> bool:
        rule = RULES.get(op.spec.name) if isinstance(op, CudaTileOp) else None
        return rule is not None and rule.effect

    def open_loop(
        self,
        op: Operation,
        arguments: list[SSAValue],
        values: Sequence[SSAValue],
        kind: Literal["for", "loop"] = "loop",
    ) -> tuple[Frame, Callable[[], None]]:
        """Start a loop whose block has these arguments, with their first values: its carried names are set; the
        returned function ends it."""
        results = [self.define(r) for r in op.results]
        initial = [self.names[v] for v in values]
        depth = sum(f.is_loop for f in self.frames)
        function = self.fresh("g") if depth and depth % MAX_LOOP_DEPTH == 0 else None
        if function:
            self.line(f"def {function}():")
            self.depth += 1
        carried = [self.define(a) for a in arguments]
        self.assign(carried, initial)
        frame = Frame(kind, results, carried)
        self.frames.append(frame)

        def close() -> None:
            self.frames.pop()
            if function:
                self.close_function(function, results)
            self.traced(op, results)

        return frame, close

    def close_function(self, function: str, results: list[str]) -> None:
        """End an outlined loop: it returns its results, or None when the entry has returned."""
        values = [*results, *([self.mask(r) for r in results] if self.full else [])]
        packed = f"({''.join(v + ', ' for v in values)})"
        self.line(f"return {packed}")
        self.line("yield")  # makes it a generator whatever it holds
        self.depth -= 1
        self.line(f"{function} = yield from {function}()")
        self.line(f"if {function} is None: return")
        if values:
            self.line(f"{packed} = {function}")

    def innermost_loop(self) -> Frame:
        return next(f for f in reversed(self.frames) if f.is_loop)

    def continue_(self, op: CudaTileOp) -> None:
        self.assign(self.innermost_loop().carried, [self.names[v] for v in op.operands])
        self.line("continue", op)

    def break_(self, op: CudaTileOp) -> None:
        self.assign(self.innermost_loop().results, [self.names[v] for v in op.operands])
        self.line("break", op)

    def yield_(self, op: CudaTileOp) -> None:
        frame = self.frames[-1]
        names = [self.names[v] for v in op.operands]
        if frame.kind == "body":
            self.line(f"return ({''.join(n + ', ' for n in names)})", op)
        else:
            self.assign(frame.results, names)

    def return_(self, op: CudaTileOp) -> None:
        self.line("return", op)

    # -- bodies of reduce and scan --------------------------------------------------------------------------------

    def body_function(self, op: CudaTileOp) -> str:
        """Define the region of a reduce or scan as a Python function in place; its name."""
        block = op.regions[0].block
        outer, self.checks = self.checks, self.checks - {"uninitialized", "race", nans.CHECK}
        trace, self.trace = self.trace, None
        name = self.fresh("b")
        names = [self.define(a) for a in block.args]
        self.line(f"def {name}({', '.join(names)}):", op)
        self.depth += 1
        self.frames.append(Frame("body", []))
        for inner in block.ops:
            self.op(inner)
        self.frames.pop()
        self.depth -= 1
        self.checks, self.trace = outer, trace
        return name

    def is_elementwise(self, op: Operation) -> bool:
        if not isinstance(op, CudaTileOp) or op.regions:
            return False
        rule = RULES.get(op.spec.name)
        return op.spec.name in ("constant", "yield") or (rule is not None and rule.elementwise)

    def compiled(self, name: str) -> Callable[..., Any]:
        """Run the text, and give the function that it defines."""
        file = f"<tile kernel, part {len(self.files)}>"
        self.files[file] = self.ops
        exec(compile("\n".join(self.text) + "\n", file, "exec"), self.namespace)
        return self.namespace[name]


_STRUCTURE: dict[str, Callable[[Emitter, CudaTileOp], None]] = {
    "if": Emitter.if_,
    "for": Emitter.for_,
    "loop": Emitter.loop_,
    "continue": Emitter.continue_,
    "break": Emitter.break_,
    "yield": Emitter.yield_,
    "return": Emitter.return_,
}


def loop_range(op: CudaTileOp) -> Callable[[Any, Any, Any], Any]:
    """The values of a `for`'s induction variable, as the numbers that a tile holds.

    The range is the mathematical one: signed, or of unsigned numbers with `unsignedCmp`.
    """
    return counted(element(op.operand_group("lowerBound")[0].type), bool(op.attribute_value("unsignedCmp")))


def counted(elem: Element, unsigned: bool) -> Callable[[Any, Any, Any], Any]:
    """The values of a counter of a type, from lower bound, upper bound and step."""
    modulus = 1 << elem.width

    def number(value: Any) -> int:
        whole = int(value)
        if unsigned:
            return whole % modulus
        return -whole if elem.width == 1 else whole

    def prepare(lower: Any, upper: Any, step: Any) -> Any:
        stride = number(step)
        if stride <= 0:
            raise Fault(FaultKind.LOOP, f"the step must be positive, it is {stride}")
        values = range(number(lower), number(upper), stride)
        if unsigned and values and values[-1] > elem.largest:
            return (v if v <= elem.largest else v - modulus for v in values)
        return values

    return prepare


def constant_of(op: CudaTileOp) -> Any:
    """The value of a `constant`, read-only: every user may share it."""
    dense = op.attribute_value("value")
    type_ = op.results[0].type
    assert isinstance(type_, TileType)  # the verifier has seen to it
    values, shape = constant_values(dense.raw, element(type_)), type_.shape
    value = np.broadcast_to(values.reshape(()), shape) if dense.is_splat else values.reshape(shape)
    return value[()]


def mask_function(site: Site, rule: Rule) -> Callable[[tuple, tuple], Any]:
    """How a rule's result is uninitialised: a function of the operands' values and masks, one of them not None."""
    if callable(rule.undefined):
        special = rule.undefined(site)
    elif rule.undefined == "structural":
        move = rule.make(site)
        shapes = [v.type.shape if isinstance(v.type, TileType) else () for v in site.op.operands]

        def special(values: tuple, masks: tuple) -> Any:
            given = iter(shapes)
            moved: list[Any] = []
            for spec, mask in zip(site.op.spec.operands, masks):
                if spec.is_variadic:
                    require_initialised((mask,), "an index")
                    moved.append(values[len(moved)])
                    continue
                shape = next(given)
                moved.append(np.zeros(shape, bool) if mask is None else mask)
            result = np.asarray(move(*moved))
            return result if result.any() else None
    else:
        types = [r.type for r in site.op.results]
        shape = types[0].shape if types and isinstance(types[0], TileType) else ()

        def special(values: tuple, masks: tuple) -> Any:
            return combine_masks(flatten(masks), shape)

    def function(values: tuple, masks: tuple) -> Any:
        if all(m is None for m in flatten(masks)):
            return None
        return special(values, masks)

    return function


def compile_entry(
    entry: Operation,
    checks: Checks = INTERPRETER.basic,
    globals: Mapping[str, Any] | None = None,
    trace: Callable[..., None] | None = None,
) -> Program:
    """Translate an entry. `globals` maps the module's global symbols to addresses; `trace` is called after each op
    with (block, op, results). InterpreterFault when the entry holds an op that cannot run.
    """
    files: dict[str, list[Operation | None]] = {}
    emitter = Emitter(checks, globals or {}, trace, files)
    body = entry.regions[0].block
    names = [emitter.define(a) for a in body.args]
    emitter.namespace["T"] = trace
    emitter.namespace["require_initialised"] = require_initialised
    emitter.line(f"def kernel(B, {', '.join(names)}):" if names else "def kernel(B):", entry)
    emitter.depth = 1
    emitter.line("C, S = B.count, B.max_steps")
    if emitter.full:
        for name in names:
            emitter.line(f"{emitter.mask(name)} = None")
    emitter.block(body)
    emitter.line("return")
    emitter.line("yield")
    start = emitter.compiled("kernel")
    assert isinstance(entry, CudaTileOp)  # an entry of Tile IR
    name = entry.attribute_value("sym_name")
    return Program(name, start, "\n".join(emitter.text), files, emitter.shares)
