# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Builds one LLVM kernel as text: SSA names, blocks, declarations, inline assembly, shared memory, debug locations.

The builder knows LLVM's syntax and nothing of tiles. Values carry their LLVM type; constants are values too, and the
few foldings here (on integer constants) only keep the text small: LLVM does the optimizing.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby

from libtile.codegen.blocks import Block, Line
from libtile.codegen.exchange import Exchange, Exchanges
from libtile.codegen.llvm_text import quoted, symbol
from libtile.codegen.llvm_types import (
    DOUBLE,
    FLOAT,
    GLOBAL,
    I1,
    I8,
    I32,
    I64,
    SHARED,
    SHARED_POINTER,
    VOID,
    IntType,
    LlvmType,
    PointerType,
    VectorType,
)
from libtile.codegen.sizes import BARRIER, CHAINED, LOOPS, FunctionSize
from libtile.codegen.symbols import own_name
from libtile.support.records import dataclass
from libtile.targets import DATA_LAYOUT, TRIPLE, Target

AXES = "xyz"
"""The dimensions of a grid."""


@dataclass(slots=True)
class Value:
    """An LLVM value: its type and how it is written (`%12`, `i32 7` without the type, `undef`).

    It is not changed once it is made. `frozen` would see to that, but takes twice as long to make one, and a kernel has
    thousands.
    """

    type: LlvmType
    text: str
    constant: int | None = None
    """The value of an integer constant (signed, but for an i1), else None."""
    behind: tuple[Value, int] | None = None
    """An integer that it is so much more than, without wrapping around, where that is known of it."""

    def __hash__(self) -> int:
        return hash((self.type, self.text))

    @property
    def typed(self) -> str:
        return f"{self.type.text} {self.text}"


_PARTIAL = ("div", "rem")
"""How operations end that are not defined for all operands."""

_PURE = tuple(
    f"llvm.{name}."
    for name in ("abs", "ctpop", "fabs", "smax", "smin", "ssub.sat", "umax", "umin", "usub.sat", "nvvm.bmsk")
)
"""How the names of intrinsics begin that compute with numbers, have no effect and are defined for all of them."""


@dataclass(slots=True)
class SharedBuffer:
    """A region of shared memory: its byte offset in the kernel's one array, and its size."""

    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class Agent:
    """Some consecutive warps of a CTA that run code of their own, and meet at a named barrier (1 and up)."""

    first_warp: int
    warps: int
    barrier: int


def integer(type_: LlvmType, value: int) -> Value:
    """An integer constant, of the value's low bits; i1 is written as LLVM does. ValueError for other types."""
    if type_ is I1:
        return Value(I1, "true" if value & 1 else "false", value & 1)
    if not isinstance(type_, IntType):
        raise ValueError(f"{type_} is not an integer type")
    bits = type_.bits
    value &= (1 << bits) - 1
    if value >> (bits - 1):
        value -= 1 << bits
    return Value(type_, str(value), value)


def float_constant(type_: LlvmType, value: float) -> Value:
    """A float or double constant, written by its bits so that nothing is rounded on the way. ValueError for others."""
    if type_ is DOUBLE:
        return Value(type_, f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}")
    if type_ is FLOAT:
        single = struct.unpack("<f", struct.pack("<f", value))[0] if abs(value) != float("inf") else value
        return Value(type_, f"0x{struct.unpack('<Q', struct.pack('<d', single))[0]:016X}")
    raise ValueError(f"write {type_} constants by their bits")


class KernelBuilder:
    """One kernel under construction. `emit` appends an instruction to the current block and returns its result."""

    def __init__(self, name: str, target: Target, threads: int):
        self.name = name
        self.target = target
        self.threads = threads
        """Threads that run what is being emitted: all of the CTA's, or an agent's."""
        self.cta_threads = threads
        self.agent: Agent | None = None
        self.own: Block | None = None
        """Where `thread_value` computes: the block in which an agent is at its own level, in no branch, and in no loop
        but those around its products."""
        self._turns = False
        """Whether that is in a loop, at whose turns it is computed again."""
        self.parameters: list[Value] = []
        self._parameter_attributes: list[str] = []
        self._declarations: dict[str, str] = {}
        self._globals: dict[str, str] = {}
        self._blocks: list[Block] = []
        self._loops: tuple[Block, ...] = ()
        self._depths: dict[str, int] = {}
        """In how many of the loops around it a register is computed, where it is in any."""
        self._names = 0
        self._labels = 0
        self._location: str = ""
        self.places = False
        """Whether `compute` chooses places, and words that are taken apart are found again: where LLVM does neither."""
        self.full_debug = False
        """Whether ptxas will be asked for full debug information."""
        self.subprogram = ""
        """Debug metadata of the kernel itself (`!N`); empty for none."""
        self.shared_name = own_name("shared", name)
        self.shared_size = 0
        self.shared_align = 128
        self.exchanges = Exchanges()
        """The places of the exchanges of what is being emitted."""
        self.programs: Value | None = None
        """Where a counter hands out programs (`program_counter`): the address of the grid's."""
        self.program: list[Value] | None = None
        """What it gave this tile block to run first, as indices along x, y and z."""
        self.block = self.new_block("entry")
        self._blocks.append(self.block)
        self._special: dict[tuple[str, Agent | None], Value] = {}
        self._of_threads: dict[tuple[str, Agent | None], Value] = {}
        self._pieces: dict[str, tuple[Value, int]] = {}
        """Registers that are pieces of a word: that word, and which one of its pieces."""
        self._moved: dict[str, tuple[Value, tuple[tuple[Value, LlvmType], ...], int]] = {}
        """Pointers that lie behind another one: by so many units each, and so many bytes."""
        self._chains: dict[str, int] = {}
        self._sums: dict[str, tuple[Value, Value]] = {}
        """Sums of 64 bits of what different loops change: their terms, first what the fewest do."""
        self._computed: dict[str, tuple[Block, Value]] = {}
        """What `compute` has put where, by the text of the instruction: of several the last one."""
        self._barriers = 0
        self._functions: set[str] = set()

    # -- structure ----------------------------------------------------------------------------------------------

    def add_parameter(self, type_: LlvmType, attributes: str = "") -> Value:
        """A kernel parameter; `attributes` such as `noundef align 16`."""
        value = Value(type_, f"%arg{len(self.parameters)}")
        self.parameters.append(value)
        self._parameter_attributes.append(attributes)
        return value

    def new_block(self, hint: str, *, behind: bool = False) -> Block:
        """A block that is not part of the function until `start` is called on it; `behind` the loop, if asked for."""
        self._labels += 1
        return Block(
            f"{hint}.{self._labels}" if hint != "entry" else "entry",
            hint,
            loops=self._loops[:-1] if behind else self._loops,
            behind=behind,
        )

    @contextmanager
    def loop(self) -> Iterator[None]:
        """New blocks are those of a loop that the current block enters."""
        outer = self._loops
        self._loops = (*outer, self.block)
        yield
        self._loops = outer

    def start(self, block: Block) -> None:
        """Continue in this block."""
        self._blocks.append(block)
        self.block = block

    @property
    def location(self) -> str:
        """The debug location in force; empty for none."""
        return self._location

    def set_location(self, metadata: str) -> None:
        """Debug location (`!dbg !N` without the keyword) of what is emitted from now on; empty for none."""
        self._location = metadata

    def line(self, text: str) -> None:
        """Append an instruction without a result."""
        if self.block.terminated:
            raise RuntimeError(f"block {self.block.name} of {self.name} is terminated already")
        self.block.lines.append((f"  {text}", self._location))

    def emit(self, type_: LlvmType, text: str) -> Value:
        """Append an instruction with a result of the given type."""
        self._names += 1
        value = Value(type_, f"%v{self._names}")
        self.line(f"{value.text} = {text}")
        if self.block.loops:
            self._depths[value.text] = len(self.block.loops)
        return value

    def compute(self, type_: LlvmType, text: str, operands: Sequence[Value]) -> Value:
        """An instruction that has no effect and is defined for all operands; with `places`, in front of the loops
        around it that do not change these.

        It is there once for all that need it, in the blocks that its own dominates; but not in a register through a
        loop that does not need it."""
        if not self.places:
            return self.emit(type_, text)
        loops, depths = self.block.loops, self._depths
        depth = max(depths.get(operand.text, 0) for operand in operands) if loops else 0
        block = loops[depth] if depth < len(loops) else self.block
        known = self._computed.get(text)
        if known is not None:
            there, value = known
            if there is block or (there.passed == self.block.passed and there.dominates(self.block)):
                return value
        value = self._emit_in(block, type_, text)
        self._computed[text] = block, value
        return value

    def by_depth(self, values: Iterable[Value]) -> list[list[Value]]:
        """Values that are to be joined, in groups in the order in which to do so: with `places`, those first that the
        fewest loops change, as `compute` joins them in front of the others. Without, they are one group."""
        if not self.places:
            return [list(values)]
        depth = self._depth
        return [list(group) for _, group in groupby(sorted(values, key=depth), depth)]

    def _depth(self, value: Value) -> int:
        return self._depths.get(value.text, 0)

    def _emit_in(self, block: Block, type_: LlvmType, text: str) -> Value:
        if block is self.block:
            return self.emit(type_, text)
        self._names += 1
        value = Value(type_, f"%v{self._names}")
        block.lines.insert(len(block.lines) - block.terminated, (f"  {value.text} = {text}", self._location))
        if block.loops:
            self._depths[value.text] = len(block.loops)
        return value

    def branch(self, target: Block) -> None:
        self.line(f"br label %{target.name}")
        self._end(target)

    def conditional_branch(self, condition: Value, then: Block, otherwise: Block) -> None:
        self.line(f"br i1 {condition.text}, label %{then.name}, label %{otherwise.name}")
        self._end(then, otherwise)

    def _end(self, *following: Block) -> None:
        for block in following:
            block.entered_from(self.block)
        self.block.terminated = True

    def phi(self, type_: LlvmType, block: Block) -> tuple[Value, Callable[[Value, Block], None]]:
        """A phi at the head of `block` and the function that adds an incoming value from a block."""
        self._names += 1
        value = Value(type_, f"%v{self._names}")
        incoming: list[str] = []
        position = len(block.lines)
        block.lines.append(("", ""))
        if block.loops:
            self._depths[value.text] = len(block.loops)

        def add(source: Value, origin: Block) -> None:
            incoming.append(f"[ {source.text}, %{origin.name} ]")
            block.lines[position] = f"  {value.text} = phi {type_} {', '.join(incoming)}", ""

        return value, add

    @contextmanager
    def when(self, condition: Value | None) -> Iterator[None]:
        """Emit the body under a condition (None: always); the body must leave through its end."""
        if condition is None or condition.constant == 1:
            yield
            return
        then, after = self.new_block("then"), self.new_block("after")
        self.conditional_branch(condition, then, after)
        self.start(then)
        yield
        self.branch(after)
        self.start(after)

    def return_(self) -> None:
        self.line("ret void")
        self.block.terminated = True

    # -- module level -------------------------------------------------------------------------------------------

    def declare(self, name: str, result: LlvmType, arguments: Sequence[LlvmType], attributes: str = "") -> str:
        """Declare a function once; returns its name with `@`."""
        named = symbol(name)
        if name not in self._declarations:
            taken = ", ".join(a.text for a in arguments)
            self._declarations[name] = f"declare {result} {named}({taken}){' ' + attributes if attributes else ''}"
        return named

    def add_global(
        self, name: str, contents: str, align: int, *, space: int = GLOBAL, constant: bool = False, private: bool = True
    ) -> Value:
        """A module-level variable with its type and value (`[4 x i8] zeroinitializer`), a private one being internal
        to the module; returns a pointer to it."""
        kind = "constant" if constant else "global"
        place = f"{'internal ' if private else ''}addrspace({space}) {kind}"
        self._globals[name] = f"{symbol(name)} = {place} {contents}, align {align}"
        return Value(PointerType(space), symbol(name))

    def add_function(self, name: str, definition: str) -> str:
        """A function that the module defines, once; returns its name with `@`."""
        self._functions.add(name)
        self._globals[name] = definition
        return symbol(name)

    def call(self, name: str, result: LlvmType, arguments: Sequence[Value], attributes: str = "") -> Value:
        """Call a declared-on-demand function; for `void` the value returned has no meaning."""
        callee = self.declare(name, result, [a.type for a in arguments], attributes)
        text = f"call {result} {callee}({', '.join(a.typed for a in arguments)})"
        if result is VOID:
            self._barriers += name.startswith(BARRIER)
            self.line(text)
            return Value(VOID, "")
        return self.compute(result, text, arguments) if name.startswith(_PURE) else self.emit(result, text)

    def asm(
        self,
        template: str,
        constraints: str,
        result: LlvmType,
        arguments: Sequence[Value] = (),
        *,
        side_effects: bool = False,
        memory: bool = False,
        convergent: bool = False,
    ) -> Value:
        """Inline PTX. `memory` says that it reads or writes memory (it then keeps its place among other such),
        `convergent` that threads execute it together."""
        clobber = ("," if constraints else "") + "~{memory}" if memory else ""
        effect = " sideeffect" if side_effects or memory else ""
        operands = ", ".join(a.typed for a in arguments)
        text = f"call {result} asm{effect} {quoted(template)}, {quoted(constraints + clobber)}({operands})"
        if convergent:
            text += " convergent nounwind"
        if result is VOID:
            self.line(text)
            return Value(VOID, "")
        return self.emit(result, text)

    # -- shared memory ------------------------------------------------------------------------------------------

    def shared_buffer(self, size: int, align: int = 16) -> SharedBuffer:
        """Reserve shared memory for the whole kernel."""
        offset = (self.shared_size + align - 1) // align * align
        self.shared_size = offset + size
        return SharedBuffer(offset, size)

    def shared_pointer(self, buffer: SharedBuffer, byte_offset: Value | None = None) -> Value:
        """The address of a byte in a buffer (a shared-memory pointer)."""
        base = Value(SHARED_POINTER, symbol(self.shared_name))
        start = self.offset(base, integer(I32, buffer.offset))
        return start if byte_offset is None else self.offset(start, byte_offset)

    def exchange(self, size: int) -> Exchange:
        """The next place for an exchange of `size` bytes, behind a barrier where its writes need one. The caller
        writes, calls `barrier`, and reads."""
        place = self.exchanges.take(size)
        if place.meet:
            self.barrier()
        return place

    def exchange_pointer(self, place: Exchange, byte_offset: int = 0) -> Value:
        """The address of a byte in the place of an exchange."""
        return self.shared_pointer(SharedBuffer(place.offset + byte_offset, place.size - byte_offset))

    def barrier(self) -> None:
        """The threads that run this code meet, and see each other's earlier writes to shared and global memory."""
        if self.agent is None:
            self.call("llvm.nvvm.barrier.cta.sync.aligned.all", VOID, [integer(I32, 0)])
        else:
            self.named_barrier(self.agent.barrier, self.threads)

    def named_barrier(self, number: int, threads: int) -> None:
        """So many threads meet at a barrier of their own, 1 and up; 0 is that of all."""
        self.wait_at_barrier(integer(I32, number), threads)

    def wait_at_barrier(self, number: Value, threads: int) -> None:
        """Wait at a barrier until so many threads, these included, have come there or arrived."""
        self.call("llvm.nvvm.barrier.cta.sync.aligned.count", VOID, [number, integer(I32, threads)])

    def arrive_at_barrier(self, number: Value, threads: int) -> None:
        """Arrive at a barrier where others of so many threads wait, and go on."""
        self.call("llvm.nvvm.barrier.cta.arrive.aligned.count", VOID, [number, integer(I32, threads)])

    @contextmanager
    def as_agent(self, agent: Agent) -> Iterator[None]:
        """What is emitted inside is run by an agent's warps: threads, warps and barriers are its own."""
        before = self.agent, self.threads, self.own, self._turns
        self.agent, self.threads, self.own, self._turns = agent, agent.warps * self.target.warp_size, None, False
        yield
        self.agent, self.threads, self.own, self._turns = before

    @contextmanager
    def each_turn(self) -> Iterator[None]:
        """What is emitted inside is a turn of a loop around products: what its threads need once in a turn is computed
        in it (`thread_value`), as products have the registers in which it would be held through them."""
        before = self.own, self._turns, self._of_threads
        self._turns, self._of_threads = True, {}
        yield
        self.own, self._turns, self._of_threads = before

    # -- special values, computed once in the entry block -------------------------------------------------------

    def special(self, name: str, make: Callable[[], Value]) -> Value:
        """A value that is computed once, at the head of the kernel (thread ids and what follows from them)."""
        return self._once(self._special, name, make, self._blocks[0])

    def thread_value(self, name: str, make: Callable[[], Value]) -> Value:
        """As `special`, a value that an agent computes in front of that op of its own which is the first one to need
        it: what is computed in front of a loop takes a register through all of it."""

        def make_here() -> Value:
            return self.kept_here(make()) if self._turns else make()

        return self._once(self._of_threads, name, make_here, self.own or self._blocks[0])

    def kept_here(self, value: Value) -> Value:
        """A number that LLVM does not compute elsewhere, ahead of a loop, though nothing in the loop changes it."""
        if value.constant is not None:
            return value
        return self.asm("mov.b32 $0, $1;", "=r,r", I32, [value], side_effects=True)

    def _once(
        self, made: dict[tuple[str, Agent | None], Value], name: str, make: Callable[[], Value], block: Block
    ) -> Value:
        """A value that is computed once, at the end of a block."""
        key = name, self.agent
        if key not in made:
            current, location = self.block, self._location
            tail = block.lines.pop() if block.terminated else None
            was_terminated, block.terminated = block.terminated, False
            self.block, self._location = block, ""
            made[key] = make()
            if tail is not None:
                block.lines.append(tail)
            block.terminated = was_terminated
            self.block, self._location = current, location
        return made[key]

    def thread_id(self) -> Value:
        """The thread's number among those that run this code, 0 to threads - 1."""

        def make() -> Value:
            first = self.agent.first_warp * self.target.warp_size if self.agent is not None else 0
            name = self.declare("llvm.nvvm.read.ptx.sreg.tid.x", I32, [])
            number = self.emit(I32, f"call range(i32 {first}, {first + self.threads}) i32 {name}()")
            return self.add(number, integer(I32, -first))

        return self.special("tid", make)

    def lane(self) -> Value:
        return self.special("lane", lambda: self.and_(self.thread_id(), integer(I32, self.target.warp_size - 1)))

    def warp(self) -> Value:
        def make() -> Value:
            if self.threads <= self.target.warp_size:
                return integer(I32, 0)
            return self.binary("lshr", self.thread_id(), integer(I32, self.target.warp_size.bit_length() - 1))

        return self.special("warp", make)

    def block_id(self, axis: str) -> Value:
        """The tile block's index along x, y or z: the cluster's, where there are clusters, and that of the program that
        a counter gave it, where one does."""
        if self.program is not None:
            return self.program["xyz".index(axis)]
        register = "clusterid" if self.target.has("cluster") else "ctaid"
        return self.special(f"block.{axis}", lambda: self.call(f"llvm.nvvm.read.ptx.sreg.{register}.{axis}", I32, []))

    def num_blocks(self, axis: str) -> Value:
        register = "nclusterid" if self.target.has("cluster") else "nctaid"
        return self.special(f"blocks.{axis}", lambda: self.call(f"llvm.nvvm.read.ptx.sreg.{register}.{axis}", I32, []))

    def cta_rank(self) -> Value:
        """The number of this CTA among those of its cluster."""
        return self.special("rank", lambda: self.call("llvm.nvvm.read.ptx.sreg.cluster.ctarank", I32, []))

    # -- small instructions -------------------------------------------------------------------------------------

    def binary(self, operation: str, a: Value, b: Value) -> Value:
        """An instruction of two operands of one type, e.g. `add nuw`."""
        text = f"{operation} {a.typed}, {b.text}"
        value = self.emit(a.type, text) if operation.endswith(_PARTIAL) else self.compute(a.type, text, (a, b))
        if isinstance(a.type, IntType) and operation.startswith(CHAINED):
            known = self._chains
            known[value.text] = 1 + max(known.get(a.text, 0), known.get(b.text, 0))
            if self.places and operation == "add" and a.type is I64 and self._depth(a) != self._depth(b):
                self._sums[value.text] = (a, b) if self._depth(a) < self._depth(b) else (b, a)
        return value

    def add(self, a: Value, b: Value) -> Value:
        if a.constant == 0:
            return b
        if b.constant == 0:
            return a
        return self.binary("add", a, b)

    def mul(self, a: Value, b: Value) -> Value:
        for x, y in ((a, b), (b, a)):
            if x.constant == 1:
                return y
            if x.constant == 0:
                return x
        return self.binary("mul", a, b)

    def and_(self, a: Value, b: Value) -> Value:
        if a.type is I1:
            for x, y in ((a, b), (b, a)):
                if x.constant is not None:
                    return y if x.constant else x
        return self.binary("and", a, b)

    def or_(self, a: Value, b: Value) -> Value:
        if a.constant == 0:
            return b
        if b.constant == 0:
            return a
        return self.binary("or", a, b)

    def xor(self, a: Value, b: Value) -> Value:
        if a.constant == 0:
            return b
        if b.constant == 0:
            return a
        return self.binary("xor", a, b)

    def not_(self, a: Value) -> Value:
        return self.binary("xor", a, integer(I1, 1))

    def compare(self, predicate: str, a: Value, b: Value) -> Value:
        """`icmp` with one of LLVM's predicates (eq, ult, slt, ...)."""
        return self.compute(I1, f"icmp {predicate} {a.typed}, {b.text}", (a, b))

    def select(self, condition: Value, a: Value, b: Value) -> Value:
        if condition.constant is not None:
            return a if condition.constant else b
        return self.compute(a.type, f"select i1 {condition.text}, {a.typed}, {b.typed}", (condition, a, b))

    def offset(self, base: Value, by: Value, unit: LlvmType = I8) -> Value:
        """A pointer moved by a number of units; with `places`, last by constants, which accesses add by themselves. In
        shared memory it is first by what the fewest loops change; in global memory that would take two registers for
        each address of a thread."""
        if not self.places:
            return self._element(base, by, unit)
        start, terms, more = self._moved.get(base.text, (base, (), 0))
        if by.constant is not None:
            more += by.constant * unit.bits // 8
        else:
            terms = (*terms, *((term, unit) for term in self._sums.get(by.text, (by,))))
            if base.type is SHARED_POINTER:
                terms = tuple(sorted(terms, key=lambda term: self._depth(term[0])))
        made = start
        for term in terms:
            made = self._element(made, *term)
        if more:
            made = self._element(made, integer(I64, more), I8)
        self._moved[made.text] = start, terms, more
        return made

    def _element(self, base: Value, by: Value, unit: LlvmType) -> Value:
        return self.compute(base.type, f"getelementptr {unit}, {base.typed}, {by.typed}", (base, by))

    def cast(self, operation: str, value: Value, type_: LlvmType) -> Value:
        """A cast instruction (zext, trunc, bitcast, ptrtoint, ...); nothing when the type is already right."""
        if value.type is type_:
            return value
        if value.constant is not None and operation in ("zext", "trunc", "sext") and type_ is not I1:
            number = value.constant
            if operation == "zext":
                number &= (1 << value.type.bits) - 1
            elif operation == "sext" and value.type is I1:
                number = -number  # the one bit is the sign
            return integer(type_, number)
        made = self.compute(type_, f"{operation} {value.typed} to {type_}", (value,))
        if self.places and operation == "bitcast" and (piece := self._pieces.get(value.text)) is not None:
            self._pieces[made.text] = piece
        return made

    def extract(self, aggregate: Value, index: int, type_: LlvmType) -> Value:
        """A member of a struct or an element of a vector."""
        if isinstance(aggregate.type, VectorType):
            return self.compute(type_, f"extractelement {aggregate.typed}, i32 {index}", (aggregate,))
        return self.compute(type_, f"extractvalue {aggregate.typed}, {index}", (aggregate,))

    def vector(self, values: Sequence[Value]) -> Value:
        """A vector of equal-typed values."""
        type_ = VectorType(len(values), values[0].type)
        if self.places and values[0].text in self._pieces and (word := self.as_word(values)) is not None:
            return self.cast("bitcast", word, type_)
        result = Value(type_, "poison")
        for i, value in enumerate(values):
            result = self.compute(type_, f"insertelement {result.typed}, {value.typed}, i32 {i}", (result, value))
        return result

    def pieces(self, word: Value, type_: LlvmType) -> list[Value]:
        """A word's bits as values of a narrower type, the lowest first; `as_word` finds the word again."""
        return self._parts(self.cast("bitcast", word, VectorType(word.type.bits // type_.bits, type_)), word, type_)

    def elements(self, vector: Value, type_: LlvmType) -> list[Value]:
        """A vector's elements; with `places`, `as_word` finds it again, as a word."""
        if not self.places:
            return [self.extract(vector, i, type_) for i in range(vector.type.bits // type_.bits)]
        return self._parts(vector, vector, type_)

    def _parts(self, vector: Value, word: Value, type_: LlvmType) -> list[Value]:
        found = [self.extract(vector, i, type_) for i in range(vector.type.bits // type_.bits)]
        self._pieces |= {piece.text: (word, i) for i, piece in enumerate(found)}
        return found

    def as_word(self, values: Sequence[Value]) -> Value | None:
        """The word of 32 bits of which values are the pieces, in their order; None where they are none, or not all."""
        bits = values[0].type.bits
        if bits * len(values) != I32.bits:
            return None
        if all(v.constant is not None and isinstance(v.type, IntType) for v in values):
            return integer(I32, sum((v.constant or 0) % (1 << bits) << bits * i for i, v in enumerate(values)))
        found = [self._pieces.get(v.text) for v in values]
        if found[0] is None or any(f is None or f != (found[0][0], i) for i, f in enumerate(found)):
            return None
        word = found[0][0]
        return self.cast("bitcast", word, I32) if word.type.bits == I32.bits else None

    # -- the whole ----------------------------------------------------------------------------------------------

    @property
    def declarations(self) -> dict[str, str]:
        """The functions that the kernel calls, declared, by name."""
        return self._declarations

    @property
    def globals(self) -> dict[str, str]:
        """The module-level variables and functions that the kernel uses, defined, by name."""
        return self._globals

    @property
    def size(self) -> FunctionSize:
        """How much there is for LLVM and ptxas to do."""
        loops = sum(block.hint in LOOPS for block in self._blocks)
        chain, lines = max(self._chains.values(), default=0), sum(len(block.lines) for block in self._blocks)
        return FunctionSize(self.name, len(self._blocks), loops, self._barriers, chain, lines)

    @property
    def variables(self) -> set[str]:
        """The names of the module-level variables that the kernel uses."""
        shared = {self.shared_name} if self.shared_size else set()
        return shared | (self._globals.keys() - self._functions)

    @property
    def shared_definition(self) -> str:
        """The definition of the kernel's one array in shared memory."""
        array = f"[{self.shared_size} x i8]"
        return (
            f"{symbol(self.shared_name)} = internal addrspace({SHARED}) global {array} undef, align {self.shared_align}"
        )

    def function_text(self, attributes: int = 0) -> str:
        """The kernel's definition alone, with attribute group `#attributes`."""
        debug = f" !dbg {self.subprogram}" if self.subprogram else ""
        out = [f"{self.head(attributes)}{debug} {{"]
        for block in self._blocks:
            out.append(f"{block.name}:")
            out += [f"{text}, !dbg {location}" if location else text for text, location in block.lines if text]
        return "\n".join([*out, "}\n"])

    def head(self, attributes: int = 0) -> str:
        """How the kernel's definition begins, up to its debug information."""
        parameters = ", ".join(
            f"{p.type}{' ' + a if a else ''} {p.text}" for p, a in zip(self.parameters, self._parameter_attributes)
        )
        return f"define ptx_kernel void {symbol(self.name)}({parameters}) #{attributes}"

    def body(self) -> Iterator[Line]:
        """The labels and instructions of the kernel."""
        for block in self._blocks:
            yield f"{block.name}:", ""
            yield from (line for line in block.lines if line[0])

    def module_text(self, extra: str = "") -> str:
        """An LLVM module that holds the kernel; `extra` is appended (metadata)."""
        out = [f'target triple = "{TRIPLE}"', f'target datalayout = "{DATA_LAYOUT}"', ""]
        if self.shared_size:
            out.append(self.shared_definition)
        out += [*self._globals.values(), "", *self._declarations.values(), "", self.function_text()]
        out.append(f'attributes #0 = {{ "nvvm.reqntid"="{self.cta_threads},1,1" }}')
        return "\n".join(out) + ("\n" + extra if extra else "") + "\n"
