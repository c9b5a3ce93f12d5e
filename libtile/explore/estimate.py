# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`estimate`: what bounds a kernel, from counts of the simulator and the machine code, held against a GPU's peaks.

A resource's time is what it would take if it alone were busy, without a pause. The longest of these times bounds the
kernel from below: nothing is known of latencies. Of a GPU on which launches were measured, the shares of the peaks that
they reached give a likely time as well.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from xdsl.ir import Operation

from libtile.asm.disasm_names import Disassembler
from libtile.asm.module import Module, load, verify
from libtile.compiler.compile import compile_module
from libtile.compiler.options import Compiled, Options
from libtile.explore import sass
from libtile.explore.listings import of_ptx
from libtile.explore.quantities import duration, quantity
from libtile.explore.record import KernelFacts, Place, Source, kernel_facts, sources_of
from libtile.interpreter.address_space import Memory
from libtile.interpreter.entries import find_entry, titles
from libtile.interpreter.launch import normal_grid, prepare
from libtile.ptx.reader import Instruction, statements
from libtile.runtime.arguments import flat_arguments
from libtile.runtime.simulator import Simulation, as_given
from libtile.simulator.counters import Counters
from libtile.support.errors import LibtileError
from libtile.support.files import Bytes, Path
from libtile.support.records import dataclass, field
from libtile.support.signatures import checked
from libtile.targets import Machine, machine, target

BLOCKS = 8
"""Tile blocks that are simulated of a larger grid."""

_PRODUCTS = (("mma", "sync"), ("wgmma", "mma_async"), ("tcgen05", "mma"))
"""Instructions that multiply matrices: the opcode and the first modifier."""
_OPERANDS = {
    "f16": "f16", "bf16": "f16", "tf32": "tf32", "s8": "i8", "u8": "i8", "i8": "i8", "f64": "f64",
    "e4m3": "f8", "e5m2": "f8", "e3m2": "f8", "e2m3": "f8", "e2m1": "f8", "f8f6f4": "f8", "mxf8f6f4": "f8",
    "mxf4": "f4", "mxf4nvf4": "f4",
}  # fmt: skip
"""The kinds of operands by PTX's names of types and of `.kind::`. Elements of 4 bits go at the rate of 8 unless the
instruction is one for them."""
_WARPS_OF_WGMMA = 4

_FP32 = {"FFMA": 1, "FADD": 1, "FMUL": 1, "FFMA2": 2, "FADD2": 2, "FMUL2": 2}
"""Results of a lane."""
_FP64 = ("DFMA", "DADD", "DMUL")
_FUSED = ("FFMA", "FFMA2", "DFMA")


@dataclass(frozen=True)
class Share:
    """An op's part of what a resource does, from 0 to 1: its line in the disassembly, its name, and its place in the
    source where that is known."""

    line: int
    op: str
    part: float
    place: str = ""

    def __str__(self) -> str:
        return f"{self.place or f'line {self.line}'}, {self.op} ({self.part:.0%})"


@dataclass(frozen=True)
class Resource:
    """What a launch asks of a part of the GPU: an amount in units, and the seconds that it takes at the peak."""

    name: str
    amount: float
    unit: str
    seconds: float
    shares: tuple[Share, ...] = ()


@dataclass
class Estimate:
    """What bounds a launch of a kernel. `resources` are those that it uses, the nearest limit first.

    `operations` are floating-point and integer operations by what does them, two for a multiplication and its addition;
    `traffic` is bytes between SMs and L2, `memory` the bytes of device memory that are moved at least; `simulated` of
    `ctas` were counted, and counts of all are theirs in proportion.
    """

    kernel: str
    gpu_name: str
    machine: Machine
    grid: tuple[int, int, int]
    ctas: int
    simulated: int
    facts: KernelFacts
    resources: list[Resource]
    operations: dict[str, float]
    traffic: float
    memory: float
    sectors_per_request: float | None
    bank_conflicts: float
    notes: list[str] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        """The bound: the kernel takes at least so long."""
        return self.resources[0].seconds if self.resources else 0.0

    @property
    def sustained(self) -> dict[str, float]:
        """Seconds by resource, L2 among them, at the rates that measured launches kept up, the longest first; empty
        for a GPU on which none were measured."""
        known = self.machine.sustained
        if known is None:
            return {}
        times = {r.name: r.seconds / known.shares.get(r.name, 1.0) for r in self.resources}
        if self.traffic:
            times["L2"] = self.traffic / known.l2
        return dict(sorted(times.items(), key=lambda item: -item[1]))

    @property
    def likely_seconds(self) -> float | None:
        """About how long the kernel takes, if it does as launches that were measured; None where none were."""
        return next(iter(self.sustained.values()), None)

    @property
    def rank(self) -> tuple[float, ...]:
        """What estimates of one launch are ordered by: the times of the resources, the likely ones if they are known,
        the longest first."""
        return tuple(self.sustained.values()) or tuple(resource.seconds for resource in self.resources)

    @property
    def intensity(self) -> float:
        """Operations for each byte of device memory."""
        return sum(self.operations.values()) / self.memory if self.memory else 0.0

    @property
    def occupancy(self) -> float:
        """The part of an SM's warps that CTAs of the kernel can fill."""
        warps = -(-self.facts.threads // target(self.gpu_name).warp_size)
        return self.facts.ctas[self.facts.limit] * warps / target(self.gpu_name).warps_per_sm

    def as_data(self) -> dict[str, Any]:
        """Numbers and strings, as JSON takes them."""
        return {
            "kernel": self.kernel, "gpu_name": self.gpu_name, "machine": self.machine.name, "grid": list(self.grid),
            "ctas": self.ctas, "simulated": self.simulated, "seconds_at_least": self.seconds,
            "seconds_likely": self.likely_seconds, "seconds_sustained": self.sustained,
            "measured": None if (known := self.machine.sustained) is None else
            {"by": known.measured, "error": known.error, "worst": known.worst},
            "operations": self.operations, "traffic_bytes": self.traffic, "memory_bytes": self.memory,
            "sectors_per_request": self.sectors_per_request, "bank_conflicts": self.bank_conflicts,
            "registers": self.facts.registers, "spills": self.facts.spills, "shared": self.facts.shared,
            "ctas_per_sm": self.facts.ctas, "occupancy": self.occupancy,
            "resources": [
                {"name": r.name, "amount": r.amount, "unit": r.unit, "seconds": r.seconds,
                 "ops": [{"line": s.line, "op": s.op, "place": s.place, "part": s.part} for s in r.shares]}
                for r in self.resources
            ],
            "notes": self.notes,
        }  # fmt: skip

    def picture(self) -> str:
        """The roofline and the resources, as SVG."""
        from libtile.explore.estimate_picture import drawn

        return drawn(self)

    def __str__(self) -> str:
        return "\n".join(_lines(self)) + "\n"


@checked
def estimate(
    module: Module | Operation | Path | Bytes,
    kernel: str | None = None,
    *,
    grid: int | Sequence[int] = 1,
    args: Sequence[Any] = (),
    gpu_name: str = "sm_90",
    opt_level: int = 3,
    schedule: str = "",
    blocks: int = BLOCKS,
    source_folders: Sequence[Path] = (".",),
) -> Estimate:
    """What bounds a launch of a kernel on a target's GPU, without one.

    The kernel is compiled, and at most `blocks` of the tile blocks (or clusters), evenly spread over the grid, run in
    the simulator, on the arrays in `args`, which are changed; see `libtile.run` for `kernel`, `grid` and `args`. Blocks
    that wait for others cannot be sampled: give as many `blocks` as there are. Raises UnknownTargetError for a target
    of whose GPUs no peaks are known, and what `libtile.run` raises.
    """
    if blocks < 1:
        raise LibtileError(f"{blocks} blocks cannot be simulated: give at least 1")
    gpu = machine(gpu_name)
    op = load(module)
    verify(op)
    entry = find_entry(op, kernel)
    if entry.host or op.name != "cuda_tile.module":
        raise LibtileError("an estimate is of a kernel of Tile IR: this is a module of an inner dialect")
    flat = flat_arguments(entry, args)
    extents = normal_grid(grid)
    values = prepare(entry, flat, Memory())
    printer = Disassembler(op)
    printer.text()
    starts = printer.lines()
    # The PTX that runs is the one whose machine code is counted, under the one ABI that the simulator has.
    made = compile_module(op, Options(gpu_name, opt_level, True, launch_abi="simt", schedule=schedule), verify=False)
    simulation = Simulation(made, "counters", sample=blocks)
    simulation.run(entry.name, extents, as_given(flat, values), values)
    by_line = of_ptx(made.ptx)[1]
    code = sass.disassembled(made.cubin, {number: number for number in by_line})
    facts = kernel_facts(made, entry.name, titles(op)[entry.name], code, [])
    tally = _Tally(gpu, made.ptx.split("\n"), simulation.counters, facts, simulation.touched)
    names = {line: shown.name.removeprefix("cuda_tile.") for shown, line in starts.items()}
    ops = _Ops(by_line, names, *sources_of(starts, source_folders))
    total = extents[0] * extents[1] * extents[2]
    return tally.estimate(made, extents, total, code, ops)


class _Ops:
    """The ops that lines of PTX were made for."""

    def __init__(
        self, of_line: Mapping[int, int], names: Mapping[int, str], sources: list[Source], places: Mapping[int, Place]
    ):
        self.of_line, self.names, self.sources, self.places = of_line, names, sources, places

    def shares(self, amounts: Mapping[int, float], count: int = 3) -> tuple[Share, ...]:
        """The ops with the largest parts of amounts by line of PTX."""
        by_op: defaultdict[int, float] = defaultdict(float)
        for line, amount in amounts.items():
            by_op[self.of_line.get(line, 0)] += amount
        total = sum(by_op.values())
        largest = sorted(by_op, key=lambda op: by_op[op], reverse=True)[:count]
        return tuple(self._share(op, by_op[op] / total) for op in largest if op and by_op[op])

    def _share(self, op: int, part: float) -> Share:
        place = self.places.get(op)
        where = f"{self.sources[place.source].path}:{place.line}" if place is not None else ""
        return Share(op, self.names[op], part, where)


@dataclass
class _Tally:
    """Counts of the tile blocks that ran, and what they come to on a GPU."""

    gpu: Machine
    ptx: list[str]
    counters: Counters
    facts: KernelFacts
    touched: Sequence[tuple[int, int, int]]
    notes: list[str] = field(default_factory=list)

    def estimate(self, made: Compiled, grid: tuple[int, int, int], total: int, code: sass.Code, ops: _Ops) -> Estimate:
        counters, gpu = self.counters, self.gpu
        scale = total / counters.ctas
        rounds = -(-total // gpu.sms)
        """CTAs that the busiest SM runs, one after the other or side by side."""

        def on_sms(amounts: Mapping[int, float], a_clock: float) -> float:
            return sum(amounts.values()) / counters.ctas * rounds / (a_clock * gpu.clock)

        products, seconds, operations = self._products(scale, rounds)
        kinds = self._instructions(code)
        fused = kinds.pop("fused")
        traffic = counters.traffic * scale
        memory = sum(min(part * scale, size) for size, *parts in self.touched for part in parts)
        if memory < traffic:
            self.notes.append("what is asked for again is taken to come from caches")
        rows: list[tuple[str, float, str, float, Mapping[int, float]]] = [
            ("device memory", memory, "B", memory / gpu.bandwidth, counters.traffic_by_line),
            ("tensor cores", sum(operations.values()), "op", seconds, products),
        ]
        for name, unit, weights, rate in (
            ("issue slots", "warp instructions", kinds["issue"], float(gpu.partitions)),
            ("FP32 lanes", "results", kinds["fp32"], float(gpu.fp32)),
            ("FP64 lanes", "results", kinds["fp64"], float(gpu.fp64)),
            ("special functions", "results", kinds["special"], float(gpu.special)),
            ("shared memory", "passes", dict(counters.wavefronts_by_line), 1.0),
        ):
            rows.append((name, sum(weights.values()) * scale, unit, on_sms(weights, rate), weights))
        resources = [
            Resource(name, amount, unit, time, ops.shares(weights))
            for name, amount, unit, time, weights in rows
            if amount
        ]
        resources.sort(key=lambda resource: -resource.seconds)
        for name in ("fp32", "fp64"):
            if done := (sum(kinds[name].values()) + sum(fused[name].values())) * scale:
                operations[name] = done
        if counters.ctas < total:
            self.notes.insert(0, f"{counters.ctas} of {total} tile blocks were simulated; counts are in proportion")
        requests = counters.global_requests
        return Estimate(
            self.facts.name, made.gpu_name, gpu, grid, total, counters.ctas, self.facts, resources, operations,
            traffic, memory, counters.global_sectors / requests if requests else None,
            counters.bank_conflicts * scale, self.notes,
        )  # fmt: skip

    def _products(self, scale: float, rounds: int) -> tuple[dict[int, float], float, dict[str, float]]:
        """What tensor cores do: operations by line of what was simulated, seconds, and operations of all by kind."""
        by_line: dict[int, float] = {}
        operations: defaultdict[str, float] = defaultdict(float)
        seconds = 0.0
        unknown = set()
        for line, warps in self.counters.warps_by_line.items():
            found = [s for s in statements(self.ptx[line - 1]) if isinstance(s, Instruction)]
            products = [i for i in found if (i.opcode, *i.modifiers[:1]) in _PRODUCTS]
            if not products:
                continue
            product = products[0]  # several in one line are alike
            warps *= len(products)
            if product.shape is not None:
                m, n, k = product.shape
                done = 2.0 * m * n * k * warps / (_WARPS_OF_WGMMA if product.opcode == "wgmma" else 1)
            else:
                done = 2.0 * self.counters.multiplications_by_line[line]
            named = [part.removeprefix("kind::") for part in product.modifiers[1:]]
            kinds = [_OPERANDS[part] for part in named if part in _OPERANDS]
            results = next((part for part in named if part in ("f16", "f32", "s32", "f64")), "f32")
            operands = (
                ("f4" if "f4" in kinds else kinds[-1 if results != "f16" or len(kinds) < 3 else 1]) if kinds else ""
            )
            peak = self.gpu.products(operands, results if product.opcode == "mma" else "f32")
            if peak is None:
                unknown.add(".".join(named))
                continue
            by_line[line] = by_line.get(line, 0.0) + done
            operations[f"tensor {operands}"] += done * scale
            seconds += done / self.counters.ctas * rounds / (peak / self.gpu.sms)
        self.notes += [f"no peak is known of {name}, which is left out" for name in sorted(unknown)]
        return by_line, seconds, dict(operations)

    def _instructions(self, code: sass.Code) -> dict[str, Any]:
        """Executed instructions of warps, results of lanes, and how many of these are fused, by line of the PTX."""
        warps = self.counters.warps_by_line
        found: dict[str, dict[int, float]] = {name: {} for name in ("issue", "fp32", "fp64", "special")}
        fused: dict[str, dict[int, float]] = {"fp32": {}, "fp64": {}}
        if code.listing.note:
            self.notes.append(f"issue slots are those of the PTX, and lanes are not counted: {code.listing.note}")
            found["issue"] = {line: float(count) for line, count in warps.items()}
            return {**found, "fused": fused}
        once = self.counters.ctas * -(-self.facts.threads // 32)

        def add(to: dict[int, float], line: int, count: float) -> None:
            to[line] = to.get(line, 0.0) + count

        instructions = code.instructions.get(self.facts.name, ())
        if any(i.opcode == "CALL" for _, i in instructions):
            self.notes.append("what runs for unusual operands only, of divisions and roots, is not counted")
        for at, instruction in instructions:
            if at in code.apart:
                continue
            line, opcode = code.listing.ops[at], instruction.opcode
            count = float(warps.get(line, 0) if line else once)
            add(found["issue"], line, count)
            if opcode in _FP32:
                results = 32 * count * _FP32[opcode]
                add(found["fp32"], line, results)
                if opcode in _FUSED:
                    add(fused["fp32"], line, results)
            elif opcode in _FP64:
                add(found["fp64"], line, 32 * count)
                if opcode in _FUSED:
                    add(fused["fp64"], line, 32 * count)
            elif opcode == "MUFU":
                add(found["special"], line, 32 * count)
        return {**found, "fused": fused}


# -- as text ----------------------------------------------------------------------------------------------------------

_SYMBOLS = ("B", "op")
"""Units that a prefix goes with."""


def _lines(told: Estimate) -> Iterator[str]:
    facts = told.facts
    yield f"{told.facts.title} on {told.machine.name} ({told.gpu_name}), estimated: at least {duration(told.seconds)}"
    yield (
        f"  {told.ctas} tile blocks of {facts.threads} threads for {told.machine.sms} SMs, each of which holds "
        f"{facts.ctas[facts.limit]}, by its {facts.limit}: {told.occupancy:.0%} of its warps"
    )
    yield (
        f"  {facts.registers} registers, {facts.spills} bytes of spills, {facts.shared} bytes of shared memory; "
        f"{quantity(told.traffic)}B to and from L2"
        + (f", {told.sectors_per_request:.3g} sectors a request" if told.sectors_per_request else "")
        + f"; {quantity(told.bank_conflicts).strip()} bank conflicts"
    )
    known, sustained = told.machine.sustained, told.sustained
    if known is not None and sustained:
        name, seconds = next(iter(sustained.items()))
        yield (
            f"  likely about {duration(seconds)}, by {name}, at the rates that measured launches kept up: half of them "
            f"were within {known.error:.0%}, all within {known.worst:.0%}"
        )
    yield ""
    width = max((len(r.name) for r in told.resources), default=0)
    for resource in told.resources:
        part = resource.seconds / told.seconds if told.seconds else 0.0
        share = f"   {resource.shares[0]}" if resource.shares else ""
        amount = quantity(resource.amount)
        amount = f"{amount}{resource.unit}" if resource.unit in _SYMBOLS else f"{amount.strip()} {resource.unit}"
        yield f"  {resource.name:{width}}  {duration(resource.seconds):>8}  {part:>5.0%}  {amount:26}{share}".rstrip()
    yield ""
    if told.resources:
        yield f"Nearest its limit: {told.resources[0].name}" + "".join(
            f", at {s}" for s in told.resources[0].shares[:1]
        )
    yield from (f"note: {note}" for note in told.notes)
    if known is None:
        yield "note: a bound from peaks and counts; nothing was measured, and latencies are not in it"
    else:
        yield "note: a bound from peaks and counts, without latencies; this kernel was not measured"
        yield f"note: rates that are kept up are those of {known.measured}"
