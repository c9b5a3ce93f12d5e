# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs a grid of tile blocks.

A tile block is a generator that stops in front of each op through which blocks communicate. The scheduler keeps a
window of blocks under way and resumes them in turn; a block that never communicates runs to its end at once. Blocks
that wait for others (spin on a flag) make progress therefore, whatever the order.

Deadlock: when all blocks have been started and every block of the window, in one whole turn, came back to the same
place with the same values while no memory changed, then nothing can ever change, since execution is deterministic.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import GeneratorType, TracebackType
from typing import Any, NoReturn, TextIO

import numpy as np
from xdsl.ir import Operation

from libtile.interpreter.address_space import Allocation, Memory
from libtile.interpreter.codegen import Program
from libtile.interpreter.faults import BlockId, Fault, FaultKind, InterpreterFault
from libtile.interpreter.location import source_location
from libtile.interpreter.races import RaceDetector, Token
from libtile.support.checks import INTERPRETER, Checks
from libtile.support.files import print_text
from libtile.support.limits import INTERPRETER_STEPS, PRINTED
from libtile.support.records import dataclass, field

SHUFFLED = 1 << 16
"""Tile blocks of which a random order is made at a time."""
WINDOW = 64
"""Tile blocks that are under way at a time when they communicate."""
QUIET_TURNS = 4
"""Turns without a change of memory after which values are compared for a deadlock."""


@dataclass
class RunResult:
    """What a launch did, with the same fields from each backend; None stands for what a backend does not count.

    `grid` and `blocks` are what ran, `seconds` how long that took here, without the compilation, and `output` what the
    kernel printed. `gpu_name` is the target that it was compiled for, None in the interpreter. `ops` are those of Tile
    IR that the interpreter ran for all tile blocks together, `warp_instructions` the simulator's, `bytes_read` and
    `bytes_written` those of global memory, `bank_conflicts` the passes over shared memory beyond the necessary ones.
    The simulator counts bytes and conflicts with the check `counters`, which is one of `full`. The tile blocks ran in
    so many `processes` of the host.
    """

    kernel: str
    grid: BlockId
    blocks: int = 0
    seconds: float = 0.0
    output: str = ""
    backend: str = "interpreter"
    gpu_name: str | None = None
    ops: int | None = None
    warp_instructions: int | None = None
    bytes_read: int | None = None
    bytes_written: int | None = None
    bank_conflicts: int | None = None
    processes: int | None = None

    def _repr_html_(self) -> str:
        """The fields that the backend has filled in, as notebooks show them."""
        from libtile.support.html import table

        given = {name: value for name, value in vars(self).items() if value is not None and name != "output"}
        return table(("", ""), list(given.items()), caption=f"@{self.kernel}")


@dataclass
class Launch:
    """One run of a program over a grid: what all tile blocks share."""

    program: Program
    grid: BlockId
    memory: Memory
    checks: Checks = INTERPRETER.basic
    out: TextIO | None = None
    races: RaceDetector | None = None
    printed: list[str] = field(default_factory=list)
    max_steps: int = INTERPRETER_STEPS
    """How many ops a tile block may run."""
    start: Callable[[str, BlockId, Sequence[Any]], None] | None = None
    """How a host function starts a kernel, by name, grid and flat arguments; None: it is interpreted."""
    written: int = 0
    """Characters that were printed."""

    def write(self, text: str) -> None:
        """What `print_tko` prints: kept, and written to the launch's stream if it has one. Fault for too much."""
        self.written += len(text)
        if self.written > PRINTED:
            raise Fault(FaultKind.OUTPUT, f"@{self.program.name} prints more than {PRINTED} characters")
        self.printed.append(text)
        if self.out is not None:
            print_text(self.out, text)


class TileBlock:
    """The state of one tile block, or of one of the CTAs that share it, as rules see it."""

    __slots__ = (
        "allocas", "at_end", "count", "grid", "groups", "id", "launch", "linear", "max_steps", "memory", "progress",
        "races", "rank", "sequence",
    )  # fmt: skip

    def __init__(self, launch: Launch, linear: int):
        width, height, _ = launch.grid
        self.launch = launch
        self.linear = linear
        block, self.rank = divmod(linear, launch.program.ctas)
        self.id: BlockId = (block % width, block // width % height, block // (width * height))
        self.grid = launch.grid
        self.memory = launch.memory
        self.races = launch.races
        self.count = [0]
        self.max_steps = launch.max_steps
        self.sequence = 0
        self.allocas: list[Allocation] = []
        self.groups: list[Any] = []
        """Groups of asynchronous copies that have not been waited for, in order (of the inner dialects)."""
        self.progress = 0
        """Counts what agents did that others may wait for."""
        self.at_end: list[tuple[Operation, Callable[[], str | None]]] = []
        """What is asked when the block has run: whether the object that an op made was left as it may not be."""

    def spent(self) -> NoReturn:
        """Called by a loop that goes on beyond the limit. Fault."""
        name, most = self.launch.program.name, self.max_steps
        raise Fault(FaultKind.STEPS, f"@{name} runs more than {most} ops in a tile block, the limit (max_steps)")

    def unwind(self, count: int) -> None:
        """End the lifetime of all allocations of the block but the first `count`."""
        while len(self.allocas) > count:
            self.memory.release(self.allocas.pop())


def run_grid(
    launch: Launch,
    arguments: Sequence[Any],
    *,
    order: int | str | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> RunResult:
    """Run every tile block of the launch.

    `order` is None (by increasing id, x fastest), "reverse", or a seed: blocks then start in a random order and are
    resumed in random turns. `progress` is called with (blocks done, blocks in all). Raises InterpreterFault.
    """
    started = time.perf_counter()
    scheduler = Scheduler(launch, arguments, order, progress)
    with np.errstate(all="ignore"):
        scheduler.run()
    return scheduler.result(started)


class Scheduler:
    """Runs tile blocks of a launch, and counts what they do."""

    def __init__(
        self,
        launch: Launch,
        arguments: Sequence[Any],
        order: int | str | None = None,
        progress: Callable[[int, int], None] | None = None,
    ):
        self.launch = launch
        self.total = launch.grid[0] * launch.grid[1] * launch.grid[2] * launch.program.ctas
        self.arguments = tuple(arguments)
        self.order = order
        self.random = random.Random(order) if isinstance(order, int) else None
        self.progress = progress
        self.ops = 0
        self.live: list[tuple[TileBlock, Iterator[None]]] = []
        self.done = 0

    def result(self, started: float) -> RunResult:
        """What has been done since a time of `time.perf_counter`."""
        launch = self.launch
        return RunResult(
            launch.program.name,
            launch.grid,
            self.total // launch.program.ctas,
            time.perf_counter() - started,
            "".join(launch.printed),
            ops=self.ops,
            bytes_read=launch.memory.bytes_read,
            bytes_written=launch.memory.bytes_written,
            processes=1,
        )

    def sequence(self) -> Iterator[int]:
        if self.order == "reverse":
            return iter(range(self.total - 1, -1, -1))
        if self.random is None:
            return iter(range(self.total))
        return self.shuffled()

    def shuffled(self) -> Iterator[int]:
        """The number of every block in a random order; of a huge grid, one part after the other."""
        assert self.random is not None
        for start in range(0, self.total, SHUFFLED):
            numbers = list(range(start, min(start + SHUFFLED, self.total)))
            self.random.shuffle(numbers)
            yield from numbers

    def run(self, numbers: Iterable[int] | None = None) -> None:
        """Run the blocks of these numbers; None: of all."""
        pending = self.sequence() if numbers is None else iter(numbers)
        window = WINDOW
        exhausted = False
        quiet, version, snapshots = 0, self.launch.memory.version, None
        while True:
            while not exhausted and len(self.live) < window:
                number = next(pending, None)
                if number is None:
                    exhausted = True
                else:
                    self.begin(number)
            if not self.live:
                return
            finished = self.turn()
            if finished or self.launch.memory.version != version:
                quiet, version, snapshots = 0, self.launch.memory.version, None
                continue
            quiet += 1
            if quiet < QUIET_TURNS:
                continue
            # Nothing changed for some turns: perhaps the blocks wait for one that has not been started.
            if not exhausted:
                window += WINDOW
                quiet = 0
                continue
            current = [state_of(generator) for _, generator in self.live]
            if current == snapshots:
                self.deadlock()
            snapshots = current

    def begin(self, number: int) -> None:
        block = TileBlock(self.launch, number)
        generator = self.launch.program.start(block, *self.arguments)
        if not self.resume(block, generator):
            self.live.append((block, generator))

    def turn(self) -> bool:
        """Resume every live block once; whether any of them ended."""
        blocks = list(self.live)
        if self.random is not None:
            self.random.shuffle(blocks)
        ended = {id(block) for block, generator in blocks if self.resume(block, generator)}
        self.live = [(b, g) for b, g in self.live if id(b) not in ended]
        return bool(ended)

    def resume(self, block: TileBlock, generator: Iterator[None]) -> bool:
        """Run a block up to its next stop; whether it ended."""
        try:
            next(generator)
        except StopIteration:
            block.unwind(0)
            self.check_end(block)
            self.done += 1
            self.ops += block.count[0]
            if self.progress is not None:
                self.progress(self.done, self.total)
            return True
        except Fault as fault:
            raise self.report(fault, block, fault.__traceback__) from None
        except MemoryError as error:
            lacking = Fault(FaultKind.MEMORY, f"this machine has not enough of it: {error}")
            raise self.report(lacking, block, error.__traceback__) from None
        return False

    def check_end(self, block: TileBlock) -> None:
        """InterpreterFault where a block leaves behind what it may not."""
        for op, problem in block.at_end:
            if (message := problem()) is not None:
                raise InterpreterFault(FaultKind.PIPELINE, message, op.name, source_location(op), block.id)

    def report(self, fault: Fault, block: TileBlock, traceback: TracebackType | None) -> InterpreterFault:
        """The fault with the place that the traceback shows: the innermost op of the program."""
        op = None
        while traceback is not None:
            found = self.launch.program.op_at(traceback.tb_frame.f_code.co_filename, traceback.tb_lineno)
            op = found or op
            traceback = traceback.tb_next
        location = None if op is None else source_location(op)
        return InterpreterFault(fault.kind, fault.message, op and op.name, location, block.id, fault.index)

    def deadlock(self) -> None:
        block, generator = self.live[0]
        op = None
        for frame_file, line in _places(generator):
            op = self.launch.program.op_at(frame_file, line) or op
        ids = ", ".join(str(b.id) for b, _ in self.live[:8]) + (", ..." if len(self.live) > 8 else "")
        raise InterpreterFault(
            FaultKind.DEADLOCK,
            f"{len(self.live)} tile block{'s wait' if len(self.live) > 1 else ' waits'} for a value that none will "
            f"write: {ids}",
            op and op.name,
            None if op is None else source_location(op),
            block.id,
        )


def _frames(generator: Any) -> Iterator[Any]:
    while isinstance(generator, GeneratorType) and generator.gi_frame is not None:
        yield generator
        generator = generator.gi_yieldfrom


def _places(generator: Any) -> list[tuple[str, int]]:
    """File and line of each frame of a suspended generator, outermost first."""
    return [(g.gi_frame.f_code.co_filename, g.gi_frame.f_lineno) for g in _frames(generator)]


def state_of(generator: Any) -> list[Any]:
    """Where a suspended tile block stands and all that it holds: equal states go on equally.

    Counters of the spin check are no state of the program, nor are tokens.
    """
    state: list[Any] = []
    for g in _frames(generator):
        state.append(g.gi_frame.f_lasti)
        for name, value in g.gi_frame.f_locals.items():
            if name.startswith("v") and not isinstance(value, Token) and value is not None:
                if isinstance(value, (np.ndarray, np.generic)):
                    state.append((name, value.tobytes()))
                else:
                    state.append((name, repr(value)))
            elif name.startswith("i") and isinstance(value, int):
                state.append((name, value))
    return state


def stdout() -> TextIO:
    """The stream that kernels print to by default."""
    return sys.stdout
