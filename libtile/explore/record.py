# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`explore`: compiles a module and keeps every stage of it, with what links them."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from itertools import product
from pathlib import Path as FilePath

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Operation

from libtile.asm.disasm_names import Disassembler
from libtile.asm.module import Module, load, verify
from libtile.codegen.line_table import LineTable
from libtile.compiler.compile import compile_module
from libtile.compiler.options import Compiled, Options
from libtile.compiler.stages import TO_TILEAS
from libtile.dialects.cuda_tile.locations import source_line, source_location
from libtile.dialects.cuda_tile.one_module import tile_module_in
from libtile.dialects.nv_tileaa.functions import FuncOp
from libtile.dialects.nv_tileas.attributes import ExchangesAttr
from libtile.explore import listings, sass
from libtile.explore.agents import Timeline, timeline
from libtile.explore.listings import Layout, Layouts, Listing
from libtile.explore.sass import LOCAL
from libtile.interpreter.entries import titles
from libtile.lowering.tileas.memory.storage_lives import EXCHANGES, Lives, Storage
from libtile.passes.manager import Instrument, PassRun
from libtile.passes.pipeline import Item, passes_in
from libtile.support.errors import LibtileError
from libtile.support.files import Bytes, Path, file_bytes
from libtile.support.records import dataclass, field
from libtile.support.remarks import Remark
from libtile.support.signatures import checked
from libtile.targets import target

RESERVED_SHARED = 1024
"""Bytes of shared memory that the system takes of each CTA from sm_80 on (CUDA C++ Programming Guide, "Compute
Capabilities")."""
REGISTER_UNIT = 256
"""Registers are given to warps in multiples of this many (CUDA occupancy calculator)."""


@dataclass(frozen=True)
class Source:
    """A source file that ops name; `lines` is None where it is not at hand."""

    path: str
    lines: list[str] | None


@dataclass(frozen=True)
class Place:
    """Where in the sources an op stands: the number of the source, line and column from 1."""

    source: int
    line: int
    column: int


@dataclass(frozen=True)
class Room:
    """What lies in shared memory: bytes from `offset` on, while lines `first` to `last` of the nv_tileas listing run.
    `op` is the op of Tile IR that it is there for."""

    what: str
    offset: int
    size: int
    first: int
    last: int
    op: int


@dataclass(frozen=True)
class KernelFacts:
    """A kernel in numbers. Sizes are bytes; `ctas` is how many CTAs an SM holds by each resource alone; `loops` are
    lines of the sass listing. `title` is what its source calls it, `name` what it is called in code."""

    name: str
    registers: int
    spills: int
    shared: int
    threads: int
    cluster: tuple[int, int, int]
    instructions: int
    ctas: dict[str, int]
    loops: list[sass.Loop]
    rooms: list[Room]
    timeline: Timeline | None = None
    """What its agents do, where the stages are known."""
    local: dict[int, int] = field(default_factory=dict)
    """How many accesses to local memory each op has: registers that are spilled."""
    title: str = ""

    @property
    def limit(self) -> str:
        """The resource of which an SM has the fewest CTAs' worth."""
        return min(self.ctas, key=lambda resource: self.ctas[resource])


@dataclass(frozen=True)
class Compilation:
    """One way of compiling the module: its listings by name, and what is known of the outcome."""

    gpu_name: str
    opt_level: int
    pipeline: str
    listings: dict[str, Listing]
    kernels: list[KernelFacts]
    remarks: list[Remark]

    @property
    def title(self) -> str:
        return f"{self.gpu_name} -O{self.opt_level}" + (f" {self.pipeline}" if self.pipeline else "")


@dataclass
class Record:
    """A module, its sources, and its compilations, which are linked by the ops of `tile_ir`: by its lines, from 1."""

    name: str
    tile_ir: Listing
    sources: list[Source]
    places: dict[int, Place]
    layouts: list[Layout]
    compilations: list[Compilation] = field(default_factory=list)


@checked
def explore(
    module: Module | Path | Bytes,
    gpu_names: Sequence[str] = ("sm_90",),
    opt_levels: Sequence[int] = (3,),
    pipelines: Sequence[str] = ("",),
    *,
    source_folders: Sequence[Path] = (".",),
    name: str = "",
) -> Record:
    """Compile a module of Tile IR, bytecode or text, in each way that the options make together, and keep the stages.

    Sources that ops name by paths that are no file are looked for below `source_folders`, by as much of the path's end
    as there is. `name` is the record's title, by default the file's. Raises what `libtile.compile` raises.
    """
    op = load(module)
    verify(op)
    given = tile_module_in(op).clone()
    printer = Disassembler(given)
    text, starts = printer.text(), printer.lines()
    tile_ir = Listing("cuda_tile", text.rstrip("\n").split("\n"))
    tile_ir.ops = [listings.NONE] * len(tile_ir.lines)
    for line in starts.values():
        tile_ir.ops[line - 1] = line
    sources, places = sources_of(starts, source_folders)
    layouts = Layouts()
    title = name or ("kernel" if isinstance(module, Module | bytes | bytearray | memoryview) else os.fspath(module))
    record = Record(title, tile_ir, sources, places, [])
    for gpu_name, opt_level, pipeline in product(gpu_names, opt_levels, pipelines):
        record.compilations.append(_compilation(given, Options(gpu_name, opt_level, True, pipeline=pipeline), layouts))
    record.layouts = list(layouts.found.values())
    return record


def sources_of(starts: dict[Operation, int], folders: Sequence[Path]) -> tuple[list[Source], dict[int, Place]]:
    """The sources that ops name, and where in them the op of each line stands."""
    found: dict[str, int] = {}
    places: dict[int, Place] = {}
    for op, line in starts.items():
        location = source_location(op.location)
        if location is not None and location.line:
            number = found.setdefault(location.filename, len(found))
            places[line] = Place(number, location.line, location.column)
    return [Source(path, _text_of(path, folders)) for path in found], places


def _text_of(path: str, folders: Sequence[Path]) -> list[str] | None:
    """The lines of a source file, or None: found by its path, or by the longest end of it below one of the folders."""
    parts = FilePath(path).parts
    ends = [FilePath(*parts[start:]) for start in range(len(parts)) if parts[start] != os.sep]
    for candidate in [FilePath(path), *(FilePath(folder) / end for end in ends for folder in folders)]:
        try:
            if candidate.is_file():
                return file_bytes(candidate).decode("utf-8", errors="replace").splitlines()
        except (LibtileError, OSError, ValueError):  # a path that no system takes, or a file larger than any source
            continue
    return None


class _Stages(Instrument):
    """Keeps the modules of the inner dialects as text: as nv_tileas gets them, and as it leaves them."""

    def __init__(self, layouts: Layouts):
        self.layouts = layouts
        self.listings: dict[str, Listing] = {}
        self.rooms: dict[str, list[Room]] = {}
        self.timelines: dict[str, Timeline] = {}
        self.last = 0

    def begin(self, items: Sequence[Item], op: Operation) -> None:
        self.last = len(list(passes_in(items)))

    def before(self, run: PassRun, op: Operation) -> None:
        if run.name == TO_TILEAS:
            self.listings["nv_tileaa"], _ = listings.of_module("nv_tileaa", op, self.layouts)

    def after(self, run: PassRun, op: Operation) -> None:
        if run.number == self.last:
            self.listings["nv_tileas"], places = listings.of_module("nv_tileas", op, self.layouts)
            functions = {f.sym_name.data: f for f in op.walk() if isinstance(f, FuncOp)}
            self.rooms = {name: _rooms(f, places) for name, f in functions.items()}
            self.timelines = {name: timeline(f) for name, f in functions.items()}


def _rooms(function: FuncOp, places: dict[Operation, int]) -> list[Room]:
    """What a kernel has in shared memory, as the ops say."""
    lives = Lives(function)
    ops = list(lives.first)
    storages: dict[Operation, list[Storage]] = {}
    for storage in (*lives.storages(), *(of for of, _ in lives.within())):
        storages.setdefault(storage.op, []).append(storage)
    rooms = []
    for op in ops:
        first = places.get(op)  # None for a terminator that its op's form leaves out
        if first is None:
            continue
        made_for = source_line(op.location)
        for storage in storages.get(op, ()):
            offset = op.attributes.get(storage.attribute)
            if isinstance(offset, IntegerAttr):
                last = _last_line(ops[storage.start : storage.end + 1], places)
                rooms.append(Room(op.name, offset.value.data, storage.size, first, last, made_for))
        given = op.attributes.get(EXCHANGES)
        if isinstance(given, ExchangesAttr):
            last = _last_line(ops[lives.first[op] : lives.last[op] + 1], places)
            rooms += [Room(op.name, at, size, first, last, made_for) for at, size, _ in given.places]
    return rooms


def _last_line(ops: Sequence[Operation], places: dict[Operation, int]) -> int:
    return max(places[op] for op in ops if op in places)


def _compilation(module: Operation, options: Options, layouts: Layouts) -> Compilation:
    stages = _Stages(layouts)
    made = compile_module(module, options, verify=False, instruments=[stages])
    table = made.line_table or LineTable(llvm=[(line, 0) for line in made.llvm_ir.split("\n")])
    found = dict(stages.listings)
    found["llvm"] = listings.of_llvm(table)
    found["ptx"], by_line = listings.of_ptx(made.ptx)
    code = sass.disassembled(made.cubin, by_line, listings.warpgroup_products(made.ptx, by_line))
    found["sass"] = code.listing
    called = titles(module)
    kernels = [
        kernel_facts(made, name, called[name], code, stages.rooms.get(name, []), stages.timelines.get(name))
        for name in made.kernels
    ]
    return Compilation(options.gpu_name, options.opt_level, options.pipeline, found, kernels, list(made.remarks))


def kernel_facts(
    made: Compiled, name: str, title: str, code: sass.Code, rooms: list[Room], agents: Timeline | None = None
) -> KernelFacts:
    """A kernel of a compilation in numbers. `title` is what its source calls it."""
    kernel, gpu = made.kernels[name], target(made.gpu_name)
    threads = kernel.block_dim[0] * kernel.block_dim[1] * kernel.block_dim[2]
    warps = -(-threads // gpu.warp_size)
    per_warp = -(-kernel.registers * gpu.warp_size // REGISTER_UNIT) * REGISTER_UNIT
    ctas = {"warps": gpu.warps_per_sm // warps, "shared memory": gpu.shared_per_sm // (kernel.smem + RESERVED_SHARED)}
    if per_warp:
        ctas["registers"] = gpu.registers_per_sm // per_warp // warps
    local = Counter(
        op for at, i in code.instructions.get(name, ()) if (op := code.listing.ops[at]) and sass.kind_of(i) == LOCAL
    )
    return KernelFacts(
        name, kernel.registers, kernel.spills, kernel.smem, threads, kernel.cluster,
        len(code.instructions.get(name, ())), ctas, code.loops.get(name, []), rooms, agents, local, title,
    )  # fmt: skip
