# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""NVIDIA's assembler beside ours: whether it compiles a module, what comes of it, and which ops it fails on."""

from __future__ import annotations

import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from libtile.asm.module import Module, parse
from libtile.backend.tools import installed_tools
from libtile.debugging.reduction import NotInterestingError, reduce
from libtile.dialects.cuda_tile.locations import source_location
from libtile.dialects.cuda_tile.ops import CudaTileOp
from libtile.dialects.cuda_tile.to_bytecode import write_bytecode
from libtile.explore.sass import amount, disassembled
from libtile.support.diagnostics import SourceLocation
from libtile.support.errors import LibtileError
from libtile.support.records import dataclass, field, replace

TIMEOUT = 120.0
"""Seconds that one compilation may take."""

_SHARE, _LEAST = 8, 5.0
"""Where it takes too long, a smaller program does so that takes longer than this part of the time for looking, and than
these seconds."""

_NOTHING = "cuda_tile.module @m { entry @k() { return } }"

_NOT_DONE = "it was not done after"

_FRAME = ("entry", "module", "return", "global")
"""Ops that say nothing about what fails."""


@dataclass(frozen=True)
class Outcome:
    """What came of a compilation: the first line of what went wrong, or by kernel the code in a few words."""

    failure: str = ""
    kernels: dict[str, str] = field(default_factory=dict)
    slow: bool = False
    """It was ended, as it took too long."""


@dataclass(frozen=True)
class Reference:
    """NVIDIA's `tileiras`."""

    path: Path
    timeout: float = TIMEOUT

    @staticmethod
    def find() -> Reference | None:
        """The assembler of the wheel nvidia-cuda-tileiras, or of CUDA_HOME; None where there is none.

        It is not looked for on PATH, where the name is this project's as well."""
        path = next(installed_tools("tileiras"), None)
        return Reference(Path(path)) if path is not None else None

    def compile(self, module: Module, gpu_name: str, *, code: bool = True) -> Outcome:
        """Compile a module; `code` looks at the machine code, where there is nvdisasm."""
        with tempfile.TemporaryDirectory(prefix="libtile-explain-") as folder:
            source, made = Path(folder) / "k.bc", Path(folder) / "k.cubin"
            try:
                source.write_bytes(write_bytecode(module.tile_module, since=module.version))
            except LibtileError as error:
                return Outcome(f"the module has no bytecode: {error}")
            command: list[str | Path] = [self.path, f"--gpu-name={gpu_name}", "--lineinfo", source, "-o", made]
            try:
                done = subprocess.run(
                    command,
                    capture_output=True,
                    timeout=self.timeout,
                    check=False,
                    cwd=folder,
                    stdin=subprocess.DEVNULL,
                )
            except subprocess.TimeoutExpired:
                return Outcome(f"{_NOT_DONE} {self.timeout:.0f} seconds", slow=True)
            if done.returncode or not made.is_file():
                return Outcome(_failure(done.returncode, done.stderr.decode(errors="replace"), folder))
            return Outcome(kernels=_described(made.read_bytes()) if code else {})


def _failure(status: int, said: str, folder: str) -> str:
    """The line that says most; the same for the same failure of a smaller program."""
    lines = [line.strip().replace(folder + "/", "") for line in said.splitlines() if line.strip()]
    errors = (line[line.index("error: ") + len("error: ") :] for line in lines if "error: " in line)
    chosen = next(errors, lines[0] if lines else "")
    if status < 0:
        try:
            name = signal.Signals(-status).name
        except ValueError:
            name = f"signal {-status}"
        return f"it ended by {name}" + (f" ({chosen})" if chosen else "")
    return chosen or f"it ended with status {status} and said nothing"


def _described(cubin: bytes) -> dict[str, str]:
    code = disassembled(cubin, {})
    found = {}
    for name, instructions in code.instructions.items():
        loops = ", ".join(str(loop.instructions) for loop in code.loops[name] if not loop.spins)
        spins = sum(loop.spins for loop in code.loops[name])
        found[name] = f"{len(instructions)} instructions" + (f", innermost loops of {loops}" if loops else "")
        if spins:
            found[name] += f", {amount(spins, 'waiting loops')}"
    return found


# -- which ops it fails on --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Blamed:
    """The ops without which a failure goes away, by name, and where the first of them stands; of `before` ops.

    `seconds` is the time that they take at least, where the failure is that. `anything` says that a program without any
    fails alike.
    """

    before: int
    ops: tuple[str, ...] = ()
    place: SourceLocation | None = None
    seconds: float = 0.0
    anything: bool = False


class _Enough(Exception):
    """The time is over; the best so far is good enough."""


def blamed(
    module: Module,
    gpu_name: str,
    reference: Reference,
    outcome: Outcome,
    seconds: float,
    clock: Callable[[], float] = time.monotonic,
) -> Blamed:
    """The ops that a failure needs, found by taking others away while it stays the same, for at most `seconds`."""
    if outcome.slow:
        reference = replace(reference, timeout=min(reference.timeout, max(_LEAST, seconds / _SHARE)))
    end, wanted = clock() + seconds, _kind_of(outcome.failure)
    if _kind_of(reference.compile(parse(_NOTHING), gpu_name, code=False).failure) == wanted:
        return Blamed(len(_ops(module)), anything=True)
    best = [module]
    places = {op: place for op, place in _places(module).items() if place is not None}

    def fails(candidate: Module) -> bool:
        if clock() > end:
            raise _Enough
        return _kind_of(reference.compile(candidate, gpu_name, code=False).failure) == wanted

    with suppress(_Enough, NotInterestingError):  # what was found until then is in `best`
        best.append(reduce(module, fails, progress=lambda _, better: best.append(better)))
    before, left = _ops(module), _ops(best[-1])
    if len(left) == len(before):
        return Blamed(len(before))
    first = next((place for op in left if (place := source_location(op.location)) is not None), None)
    if first is None and places:
        names = {op.name for op in left}
        first = next((place for name, place in places.items() if name in names), None)
    return Blamed(len(before), tuple(op.spec.name for op in left), first, reference.timeout if outcome.slow else 0.0)


def _ops(module: Module) -> list[CudaTileOp]:
    return [op for op in module.op.walk() if isinstance(op, CudaTileOp) and op.spec.name not in _FRAME]


def _places(module: Module) -> dict[str, SourceLocation | None]:
    """The first place of each kind of op, for programs that have lost their locations on the way."""
    found: dict[str, SourceLocation | None] = {}
    for op in _ops(module):
        found.setdefault(op.name, source_location(op.location))
    return found


_DETAIL = re.compile(r'loc\(.*?\)|"[^"]*"|%\w+|0x[0-9a-f]+|\d+')


def _kind_of(failure: str) -> str:
    """A failure without what differs between programs that fail alike: places, names and numbers."""
    return _DETAIL.sub("_", failure)
