# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the backend is given and what it makes.

Whoever reads them need not load what makes them: LLVM, ptxas, the finishing of PTX.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from libtile.codegen.sizes import ModuleSize
from libtile.ir.kernels import Launch
from libtile.support.records import dataclass, field

if TYPE_CHECKING:
    from libtile.backend.effort import Excess
    from libtile.codegen.line_table import LineTable

TILE_LANGUAGE = 7
"""The `.language` of a kernel that is launched as Tile IR."""


@dataclass(frozen=True)
class EntryDirectives:
    """What an entry's header gets. `hidden_parameters` are extra 128-byte descriptors, by name, after the others; so
    many of the parameters that it has, the last ones, are `hidden` as well."""

    threads: int
    min_ctas_per_sm: int | None = None
    cluster: tuple[int, int, int] | None = None
    language: int | None = TILE_LANGUAGE
    hidden_parameters: Sequence[str] = ()
    hidden: int = 0
    directives: Mapping[str, str] = field(default_factory=dict)
    """Other performance directives by name, with their argument text."""


@dataclass(frozen=True)
class KernelReport:
    """What ptxas -v says of a kernel; memory in bytes."""

    registers: int
    stack_frame: int
    spill_stores: int
    spill_loads: int
    shared: int
    barriers: int


@dataclass(frozen=True)
class Assembled:
    """A cubin, ptxas's report by kernel, and its words (warnings among them)."""

    cubin: bytes
    kernels: dict[str, KernelReport]
    log: str


@dataclass(frozen=True)
class Assembly:
    """How PTX is assembled: ptxas's options, and the architecture and system of the host object, if there is one, with
    what it has to know of the `launches` of each kernel."""

    line_info: bool = False
    debug: bool = False
    options: tuple[str, ...] = ()
    host: tuple[str, str] | None = None
    launches: dict[str, Launch] = field(default_factory=dict)


@dataclass(frozen=True)
class Work:
    """A module of LLVM IR, as text, and what is to become of it: PTX, and a cubin if there is an `assembly`.

    `entries` has every kernel, `size` says how much there is to do.
    `lines` is for a module with lines; `inlined` tells whether they name inlined calls.
    """

    llvm_ir: str
    gpu_name: str
    opt_level: int
    entries: dict[str, EntryDirectives]
    launch_meta_data: bool
    size: ModuleSize = field(default_factory=ModuleSize)
    lines: LineTable | None = None
    inlined: bool = False
    assembly: Assembly | None = None
    libraries: tuple[bytes, ...] = ()
    """LLVM bitcode that kernels call functions of."""


@dataclass(frozen=True)
class Made:
    """Finished PTX, what ptxas made of it if that was wanted, and for which of its kernels they were asked for less."""

    ptx: str
    assembled: Assembled | None = None
    excesses: tuple[Excess, ...] = ()


Backend = Callable[[Work], Made]
"""Does work: `here.here`, or what has LLVM work in another thread (`beside.LlvmThread`)."""

BackendStart = Callable[[], AbstractContextManager[Backend]]
"""Called when it is certain that there is something to compile, and before it is read."""
