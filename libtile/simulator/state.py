# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the parts of the machine share: its threads, memories and checks.

The machine is built up in layers, each in its file: MachineState, Access (loads and stores), Atomics, MBarriers,
AsyncEngine, Scheduler, Calls, and on top Machine, which runs units. A layer calls only what is below it, and the three
methods declared here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from .errors import SimulationFault
from .ir import Instruction
from .memory import Arena

if TYPE_CHECKING:
    from .barriers import Barriers
    from .group import ThreadGroup
    from .launch_state import LaunchState
    from .products import ProductRegisters
    from .program import Code
    from .proxy import GlobalProxyTracker, ProxyTracker
    from .races import RaceDetector


class Frame:
    """Registers and frame base of one function at one call depth; each array has an element per thread."""

    def __init__(self, code: Code, threads: int) -> None:
        self.code = code
        self.base = np.zeros(threads, dtype=np.uint64)
        # Bytes that alloca has added to each thread's frame.
        self.extra = np.zeros(threads, dtype=np.uint64)
        self.carry = np.zeros(threads, dtype=bool)
        self.return_to = np.full(threads, -1, dtype=np.int64)
        # Made when a wgmma of this function first runs.
        self.products: ProductRegisters | None = None
        # Made when a tcgen05.ld of this function first runs: [register, warp], the PTX line of a load in flight, or 0.
        self.loading: np.ndarray | None = None
        self.registers: list[np.ndarray] = [np.zeros(threads, dtype=reg.type.dtype) for reg in code.function.registers]


class MachineState(ABC):
    """Threads and memories of the CTAs that are resident together.

    Thread t is lane t % 32 of warp t // 32; CTA slot s has the threads from s * cta_stride. `ctas` are the CTAs'
    indices by slot.
    """

    barriers: Barriers
    races: RaceDetector | None
    proxy: ProxyTracker | None
    global_proxy: GlobalProxyTracker | None
    specials: dict[str, np.ndarray]
    shared_arena: Arena
    local_arena: Arena
    guarded = False
    """Whether bytes between .local variables are closed."""
    shared_size: int
    shared_stride: int
    shared_base: np.ndarray
    local_stride: int
    local_base: np.ndarray
    cluster_rank: np.ndarray
    cluster_size: int
    key: np.ndarray
    warp_alive: np.ndarray
    executed: int
    progress: int

    def __init__(self, launch: LaunchState, ctas: list[tuple[int, int, int]]) -> None:
        self.launch = launch
        self.program = launch.program
        self.ctas = ctas
        block = launch.block
        self.block_threads = block[0] * block[1] * block[2]
        self.cta_warps = (self.block_threads + 31) // 32
        self.cta_stride = self.cta_warps * 32
        self.thread_count = len(ctas) * self.cta_stride
        self.all_threads: np.ndarray = np.arange(self.thread_count, dtype=np.int64)
        self.all_warps: np.ndarray = np.arange(self.thread_count // 32, dtype=np.int64)
        self.cta_of: np.ndarray = self.all_threads // self.cta_stride
        self.tid_of: np.ndarray = self.all_threads % self.cta_stride
        self.alive: np.ndarray = self.tid_of < self.block_threads
        self.global_arena = launch.global_arena
        self.const_arena = launch.const_arena
        self.param_arena = launch.param_arena
        self.checks = launch.checks
        # The finer checks look at the same shadow bytes, and come on top of those of bounds and alignment.
        self.check = bool(
            launch.checks
            - {"convergence", "mbarrier-init", "register-pool", "tcgen05", "tcgen05-fence", "tcgen05-load", "wgmma"}
        )
        self.counters = launch.counters
        self.frames: list[dict[int, Frame]] = []

    @abstractmethod
    def advance_async(self) -> bool:
        """Complete some asynchronous work; False when there is none."""

    @abstractmethod
    def dynamic_special(self, name: str, g: ThreadGroup) -> np.ndarray:
        """A special register whose value changes as the kernel runs."""

    @abstractmethod
    def end_group(self, g: ThreadGroup) -> None:
        """The threads of a group have exited."""

    def frame(self, depth: int, code: Code) -> Frame:
        """The register file of a function at a call depth, made on first use."""
        while len(self.frames) <= depth:
            self.frames.append({})
        frame = self.frames[depth].get(code.index)
        if frame is None:
            frame = self.frames[depth][code.index] = Frame(code, self.thread_count)
        return frame

    def fault(self, kind: str, message: str, ins: Instruction | None, threads: np.ndarray) -> NoReturn:
        """Raise a SimulationFault for the first warp among `threads`."""
        ctaid = warp = None
        lanes: list[int] = []
        if len(threads):
            first = int(threads[0])
            ctaid = self.ctas[first // self.cta_stride]
            warp = (first >> 5) % self.cta_warps
            lanes = [int(t) & 31 for t in threads if int(t) >> 5 == first >> 5]
        source = ins.source if ins is not None else None
        raise SimulationFault(
            kind,
            message,
            ctaid=ctaid,
            warp=warp,
            lanes=lanes,
            line=ins.line if ins is not None else None,
            source=(source.file, source.line) if source is not None else None,
            inlined_at=source.caller if source is not None else None,
            instruction=ins.text if ins is not None else "",
        )
