# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`run_ptx`: place arguments in simulated memory, run the grid, and bring the results back."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from libtile.support.checks import SIMULATOR
from libtile.support.limits import SIMULATOR_STEPS
from libtile.support.records import dataclass, field

from .arguments import LaunchMemory, uses_heap
from .counters import SECTOR, Counters, Footprint
from .errors import LaunchError, SimulationFault
from .ir import Function, Module
from .launch_state import LaunchState, TraceCallback
from .limits import MAX_BLOCK, MAX_BYTES, MAX_CLUSTER, MAX_GRID
from .memory import (
    align_up,
)
from .parallel import processes_for, run_batches
from .parser import parse_ptx
from .program import Program

if TYPE_CHECKING:
    from .machine import Machine

Dim3 = Sequence[int] | int
Dim = tuple[int, int, int]

RESIDENT_THREADS = 4096
RECURSION_STACK = 16 << 10
MAX_SHARED = MAX_BYTES["shared"]


@dataclass
class RunResult:
    """What a launch printed and did. Array arguments hold the memory contents after it.

    `touched` has for each allocation of global memory its bytes, and those of its sectors that were read and written;
    it is empty unless memory is counted. The CTAs ran in so many `processes`.
    """

    output: str
    counters: Counters
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    touched: list[tuple[int, int, int]] = field(default_factory=list)
    processes: int = 1

    def summary(self) -> str:
        """Counters as a table for people."""
        return self.counters.summary()


def run_ptx(
    ptx: str | Module,
    entry: str,
    *,
    grid: Dim3 = (1, 1, 1),
    block: Dim3 = (1, 1, 1),
    args: Sequence[Any] = (),
    cluster: Dim3 = (1, 1, 1),
    dynamic_shared: int = 0,
    checks: str = "full",
    order: int | None = None,
    trace: TraceCallback | None = None,
    processes: int | None = 1,
    max_instructions: int | None = None,
    sample: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    variables: dict[str, np.ndarray] | None = None,
) -> RunResult:
    """Run one kernel of a PTX module on the CPU.

    `args` are the entry's parameters in order: a C-contiguous numpy array for a pointer (it is the memory, and is
    modified in place), a list of such arrays for a pointer to a table of them (64-bit words: each array's address,
    sizes, and strides in elements), a Python number or numpy scalar for a scalar, bytes for a by-value structure.
    `checks` is "full" (bounds, alignment, initialisation, races, memory counters), "basic" (bounds and alignment),
    "off", or a list of these and of single checks, see `libtile.support.checks`. `order` is None for the converged
    schedule or a seed for a random one. `trace` is called as trace(ctaid, warp, lane_mask, instruction) before each
    instruction of each warp. `processes` runs CTAs in that many processes; None is one for each processor on a large
    grid whose CTAs cannot wait for each other; more than one are refused for a kernel that uses the device's heap
    (malloc). `max_instructions` is how many instructions the warps of a CTA may execute together. `progress` is called
    now and then with the CTAs that are done, and all of them. `sample` runs only so many clusters of a larger grid,
    evenly spread over it, unless those that run may take over others. `variables` has the bytes of the module's
    variables in global memory from launch to launch, by name: those of a name that it has are what the kernel finds in
    place of the initial ones, and it has all of them afterwards. Raises PtxError, LaunchError, CheckError or
    SimulationFault; after a fault the arrays hold what memory held.
    """
    chosen = SIMULATOR.choose(checks)
    order = None if order is None else _whole(order, "order")
    module = parse_ptx(ptx) if isinstance(ptx, str) else ptx
    key = (order is not None, trace is not None)
    program = module.cache.get(key)
    if program is None:
        program = module.cache[key] = Program(module, fine=order is not None, trace=trace is not None)
    function = _entry(module, entry)
    dims = _Dims(function, _dim3(grid, "grid"), _dim3(block, "block"), _dim3(cluster, "cluster"))
    dynamic_shared = _whole(dynamic_shared, "dynamic_shared")
    limit = SIMULATOR_STEPS if max_instructions is None else _whole(max_instructions, "max_instructions")
    if program.static_shared > MAX_SHARED:
        raise LaunchError(f"{program.static_shared} bytes of shared variables do not fit")
    if not 0 <= dynamic_shared <= MAX_SHARED - program.static_shared:
        raise LaunchError(f"{dynamic_shared} bytes of dynamic shared memory do not fit")
    batches = Batches(dims, _stack_size(program, entry), program.uses("clusterlaunchcontrol"))
    if processes is None:
        alone = order is not None or trace is not None or sample is not None or batches.taken_over or uses_heap(program)
        processes = 1 if alone else processes_for(program, len(batches))
    elif processes > 1 and len(batches) > 1 and uses_heap(program):
        raise LaunchError("the kernel allocates memory of the device's heap, which processes do not share: give one")
    try:
        memory = LaunchMemory(program, function, args, share=processes > 1, kept=variables)
    except MemoryError as error:
        raise LaunchError(f"this machine has not enough memory: {error}") from None
    code = program.code(entry)
    launch = LaunchState(
        program=program,
        entry_code=code,
        grid=dims.grid,
        block=dims.block,
        cluster=dims.cluster,
        explicit_cluster=dims.explicit,
        dynamic_shared=dynamic_shared,
        checks=chosen,
        order=order,
        trace=trace,
        instruction_limit=limit or SIMULATOR_STEPS,
        stack_size=_stack_size(program, entry),
        max_call_depth=1000,
        global_arena=memory.arena,
        const_arena=memory.const,
        param_arena=memory.params,
        uses_async_proxy=program.uses("cp", "bulk") or program.uses("wgmma") or program.uses("tcgen05"),
        loads_by_copies=program.uses("cp", "bulk"),
        uses_tensor_memory=program.uses("tcgen05"),
        heap_start=memory.heap_start,
        heap_end=memory.arena.size,
    )
    if "counters" in chosen:
        launch.counters.footprint = Footprint(memory.arena.size)
    for unit in program.units:
        unit.runs = unit.threads = unit.warps = 0
    try:
        if processes > 1 and (len(batches) == 1 or sample is not None):
            processes = 1
        if processes > 1:
            run_batches(launch, batches, processes, progress)
        else:
            _run_batches(launch, batches, sample, progress)
        _collect(launch)
    except SimulationFault as fault:
        fault.printed("".join(launch.output))
        raise
    finally:
        memory.write_back()
    return RunResult("".join(launch.output), launch.counters, dims.grid, dims.block, _touched(launch), processes)


def sampled(total: int, count: int) -> list[int]:
    """So many of all clusters, in order: one of each of equal parts, further on in each than in the one before. At the
    same place in all, they would be those of one column where a row divides a part."""
    starts = [index * total // count for index in range(count + 1)]
    return [
        start + (end - start) * (2 * index + 1) // (2 * count)
        for index, (start, end) in enumerate(itertools.pairwise(starts))
    ]


def _run_batches(
    launch: LaunchState, batches: Batches, sample: int | None, progress: Callable[[int, int], None] | None
) -> None:
    """One batch after the other. Clusters that wait may be taken over by those that run, and start no more."""
    at = batches.dims.cluster_at
    if not batches.taken_over:
        if sample is not None and sample < batches.total:
            numbers = sampled(batches.total, sample)
            chosen = [numbers[start : start + batches.per] for start in range(0, sample, batches.per)]
            launch.counters.ctas = sample * math.prod(batches.dims.cluster)
            for part in chosen:
                _machine(launch, [cta for number in part for cta in at(number)]).run()
            return
        done, total = 0, math.prod(launch.grid)
        for batch in batches:
            _machine(launch, batch).run()
            done += len(batch)
            if progress is not None:
                progress(done, total)
        return
    launch.waiting_clusters = {number: at(number)[0] for number in range(batches.total)}
    for index in range(len(batches)):
        here = [n for n in batches.numbers(index) if launch.waiting_clusters.pop(n, None) is not None]
        if here:
            _machine(launch, [cta for number in here for cta in at(number)]).run()


def _machine(launch: LaunchState, batch: list[Dim]) -> Machine:
    """A machine for some CTAs. LaunchError when this computer has not the memory for their threads."""
    from .machine import Machine

    try:
        return Machine(launch, batch)
    except MemoryError as error:
        raise LaunchError(f"this machine has not enough memory for {len(batch)} CTAs: {error}") from None


def _collect(launch: LaunchState) -> None:
    """Turn the run counts of units into instruction counters."""
    counters = launch.counters
    counters.instructions.update(launch.program.counts())
    for unit in launch.program.units:
        length = len(unit.instructions) + (unit.terminator is not None)
        counters.warp_instructions += unit.warps * length
        counters.thread_instructions += unit.threads * length
        if unit.warps:
            for ins in (*unit.instructions, *([unit.terminator] if unit.terminator else ())):
                counters.warps_by_line[ins.line] = max(unit.warps, counters.warps_by_line[ins.line])
    counters.ctas = counters.ctas or math.prod(launch.grid)


def _touched(launch: LaunchState) -> list[tuple[int, int, int]]:
    footprint = launch.counters.footprint
    if footprint is None:
        return []
    found = []
    for allocation in launch.global_arena.allocations:
        sectors = slice(allocation.offset // SECTOR, -(-(allocation.offset + allocation.size) // SECTOR))
        read, written = (int(np.count_nonzero(part[sectors])) * SECTOR for part in (footprint.read, footprint.written))
        found.append((allocation.size, read, written))
    return found


def _entry(module: Module, name: str) -> Function:
    function = module.functions.get(name)
    if function is None or not function.entry:
        known = ", ".join(f.name for f in module.functions.values() if f.entry) or "none"
        raise LaunchError(f"there is no entry {name}; the module has: {known}")
    return function


def _dim3(value: Dim3, name: str) -> tuple[int, int, int]:
    try:
        items = [operator.index(v) for v in (value if isinstance(value, Iterable) else [value])]
    except TypeError:
        raise LaunchError(f"{name} {value!r} is not one to three whole numbers") from None
    if not 1 <= len(items) <= 3 or any(v < 1 for v in items):
        raise LaunchError(f"{name} {value!r} is not one to three positive numbers")
    x, y, z = [*items, 1, 1][:3]
    return x, y, z


def _whole(value: Any, name: str) -> int:
    """A whole number that is not negative. LaunchError for anything else."""
    try:
        number = operator.index(value)
    except TypeError:
        raise LaunchError(f"{name} {value!r} is not a whole number") from None
    if number < 0:
        raise LaunchError(f"{name} {number} is negative")
    return number


def _three(sizes: Sequence[int]) -> tuple[int, int, int]:
    """One to three sizes of a directive, as three."""
    x, y, z = [*sizes, 1, 1][:3]
    return x, y, z


class _Dims:
    """Grid, block and cluster, checked against each other and the entry's directives."""

    def __init__(
        self, function: Function, grid: tuple[int, int, int], block: tuple[int, int, int], cluster: tuple[int, int, int]
    ) -> None:
        if math.prod(block) > MAX_BLOCK:
            raise LaunchError(f"a block of {block} has more than {MAX_BLOCK} threads")
        directives = function.directives
        required = directives.get("reqntid")
        if required:
            wanted = _three(required)
            if "language" in directives and block == (1, 1, 1):
                # Tile IR kernels are launched with one "thread" per tile block.
                block = wanted
            if block != wanted and math.prod(block) != math.prod(wanted):
                raise LaunchError(f"{function.name} needs a block of {wanted} (.reqntid), not {block}")
        most = directives.get("maxntid")
        if most and math.prod(block) > math.prod(most):
            raise LaunchError(f"{function.name} allows {math.prod(most)} threads (.maxntid), not {block}")
        fixed = directives.get("reqnctapercluster")
        if fixed and cluster == (1, 1, 1):
            cluster = _three(fixed)
            if "blocksareclusters" in directives:
                # The grid is that of tile blocks, each of which is a cluster.
                x, y, z = (g * c for g, c in zip(grid, cluster, strict=True))
                grid = x, y, z
        if any(c < 1 for c in cluster):
            raise LaunchError(f"{function.name} asks for clusters of {cluster}")
        if fixed and cluster != _three(fixed):
            raise LaunchError(f"{function.name} needs clusters of {_three(fixed)} (.reqnctapercluster), not {cluster}")
        rank = directives.get("maxclusterrank")
        if rank and math.prod(cluster) > rank[0]:
            raise LaunchError(f"{function.name} allows clusters of {rank[0]} CTAs (.maxclusterrank), not {cluster}")
        if any(g > most for g, most in zip(grid, MAX_GRID, strict=True)):
            raise LaunchError(f"grid {grid} is larger than {MAX_GRID}")
        if math.prod(cluster) > MAX_CLUSTER:
            raise LaunchError(f"a cluster of {cluster} has more than {MAX_CLUSTER} CTAs")
        if any(g % c for g, c in zip(grid, cluster, strict=True)):
            raise LaunchError(f"grid {grid} is not a multiple of cluster {cluster}")
        self.explicit = cluster != (1, 1, 1) or "explicitcluster" in directives
        self.grid, self.block, self.cluster = grid, block, cluster

    def cluster_at(self, number: int) -> list[Dim]:
        """CTA indices of a cluster, x fastest; clusters are counted in that order, too."""
        cx, cy, cz = self.cluster
        across, down, _ = self.counts
        x, y, z = number % across * cx, number // across % down * cy, number // (across * down) * cz
        return [(x + i, y + j, z + k) for k, j, i in itertools.product(range(cz), range(cy), range(cx))]

    @property
    def counts(self) -> Dim:
        """How many clusters there are along each dimension."""
        (gx, gy, gz), (cx, cy, cz) = self.grid, self.cluster
        return gx // cx, gy // cy, gz // cz


class Batches(Sequence[list[Dim]]):
    """CTAs that are resident together: whole clusters, up to about RESIDENT_THREADS threads or 16 MiB of stack."""

    def __init__(self, dims: _Dims, stack_size: int, taken_over: bool = False) -> None:
        self.dims = dims
        # Half of the clusters wait where the program can take them over.
        self.taken_over = taken_over
        self.total = math.prod(dims.counts)
        threads = (math.prod(dims.block) + 31) // 32 * 32 * math.prod(dims.cluster)
        fit = min(RESIDENT_THREADS // threads, (16 << 20) // (threads * max(16, stack_size)))
        self.per = max(1, min(fit, self.total // 2) if taken_over else fit)

    def __len__(self) -> int:
        return -(-self.total // self.per)

    @overload
    def __getitem__(self, index: int) -> list[Dim]: ...
    @overload
    def __getitem__(self, index: slice) -> list[list[Dim]]: ...
    def __getitem__(self, index: int | slice) -> list[Dim] | list[list[Dim]]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if not 0 <= index < len(self):
            raise IndexError(index)
        return list(itertools.chain.from_iterable(map(self.dims.cluster_at, self.numbers(index))))

    def numbers(self, index: int) -> range:
        """The clusters of a batch."""
        first = index * self.per
        return range(first, min(first + self.per, self.total))


def _stack_size(program: Program, entry: str) -> int:
    """Bytes of local memory per thread: the deepest chain of frames, with room to recurse where calls are
    cyclic or indirect.
    """
    best: dict[str, int] = {}
    active: set[str] = set()
    open_ended = False

    def depth(name: str) -> int:
        nonlocal open_ended
        if name in active:
            open_ended = True
            return 0
        if name in best:
            return best[name]
        function = program.module.functions.get(name)
        if function is None or function.body is None:
            return 0
        active.add(name)
        code = program.code(name)
        deepest = 0
        for site in code.sites.values():
            if site.name is None:
                open_ended = True
            else:
                deepest = max(deepest, depth(site.name))
        active.discard(name)
        best[name] = code.frame_size + deepest
        return best[name]

    size = depth(entry)
    open_ended = open_ended or program.uses("alloca")
    return align_up(size + (RECURSION_STACK if open_ended else 0), 16)
