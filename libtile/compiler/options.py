# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a compilation is asked for, and what it gives: the same records for the library, the driver and the tools."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from libtile.passes.pipelines import SCHEDULES, compile_pipeline
from libtile.support.errors import LibtileError
from libtile.support.records import dataclass, field

if TYPE_CHECKING:
    from xdsl.ir import Operation

    from libtile.codegen.line_table import LineTable
    from libtile.ir.kernels import Parameter, TensorMapRecipe
    from libtile.support.remarks import Remark

STAGES = ("tileaa", "tileas", "llvm", "ptx", "cubin")
"""What a compilation can be stopped behind, in order."""

SANITIZERS = ("memcheck",)
"""What ptxas instruments code for."""
LAUNCH_ABIS = ("tileir", "simt")
"""How a kernel is launched: with block (1,1,1), as the driver does for Tile IR, or with its own block size."""

Observer = Callable[[str, "Operation"], None]
"""Called with a pass's name and the module behind it."""


class OptionsError(LibtileError):
    """An option's value is out of range, or options do not go together."""


def machine() -> str:
    """The architecture of this machine as host objects name it."""
    name = os.uname().machine.lower() if hasattr(os, "uname") else _machine_elsewhere()
    return {"amd64": "x86_64", "arm64": "aarch64"}.get(name, name)


def this_host() -> tuple[str, str]:
    """The architecture and the system of this machine, as of a host object."""
    return machine(), "windows" if sys.platform == "win32" else "linux"


def _machine_elsewhere() -> str:
    import platform  # takes long to import

    return platform.machine().lower()


@dataclass(frozen=True)
class Options:
    """What to compile for.

    `emit`, one of STAGES, is where to stop, `launch_abi` one of LAUNCH_ABIS, `sanitize` a tool that ptxas instruments
    for (`memcheck`), or empty. `host` is the architecture and the system of the host object, None for a cubin without
    one, unless a kernel takes tensor maps: then it is this machine's, which makes them. `dopt` lets `debug` be asked
    for with optimizations, of which it then keeps the lines. `keep_text` keeps the text of
    the inner dialects. `pipeline` is the text of a pipeline to run in place of the level's, `schedule` one of
    `SCHEDULES` (`libtile.passes.pipelines`) for the level's, or empty for its own. `libraries` are LLVM bitcode, whose
    functions `nv_tileaa.extern_elementwise` calls.
    """

    gpu_name: str = "sm_90"
    opt_level: int = 3
    line_info: bool = False
    debug: bool = False
    dopt: bool = False
    sanitize: str = ""
    host: tuple[str, str] | None = None
    launch_abi: str = "tileir"
    emit: str = "cubin"
    keep_text: bool = False
    pipeline: str = ""
    schedule: str = ""
    libraries: tuple[bytes, ...] = ()

    @property
    def passes(self) -> str:
        """The text of the pipeline that is run."""
        return self.pipeline or compile_pipeline(self.opt_level, self.schedule)

    @property
    def debug_sections(self) -> bool:
        """Whether the cubin gets all of the debug information: ptxas takes it for code that nothing optimizes."""
        return self.debug and not self.opt_level

    @property
    def lines(self) -> bool:
        """Whether the cubin gets line numbers, be it as a part of debug information."""
        return self.line_info or self.debug

    def check(self) -> None:
        """OptionsError for what no compilation can do."""
        if not isinstance(self.opt_level, int) or not 0 <= self.opt_level <= 3:
            raise OptionsError(f"invalid optimization level: {self.opt_level!r}")
        if self.debug and self.opt_level and not self.dopt:
            raise OptionsError(
                "optimized debugging is currently not supported, change the optimization level to 0 or disable "
                "full debug info"
            )
        for what, value, values in (
            ("stage", self.emit, STAGES),
            ("launch ABI", self.launch_abi, LAUNCH_ABIS),
            ("schedule", self.schedule, ("", *SCHEDULES)),
            ("sanitizer", self.sanitize, ("", *SANITIZERS)),
        ):
            if value not in values:
                raise OptionsError(f"there is no {what} {value!r}: use one of {', '.join(filter(None, values))}")
        if self.schedule and self.pipeline:
            raise OptionsError("a schedule is one of the level's passes, which a pipeline of your own replaces")


@dataclass(frozen=True)
class Kernel:
    """A compiled kernel. `smem` (bytes), `registers` and `spills` (bytes) are what ptxas reports; without a cubin
    `smem` is what the code asks for, and the others are 0."""

    name: str
    params: tuple[Parameter, ...]
    block_dim: tuple[int, int, int]
    cluster: tuple[int, int, int] = (1, 1, 1)
    smem: int = 0
    registers: int = 0
    spills: int = 0
    descriptors: tuple[TensorMapRecipe, ...] = ()
    """Tensor maps that a launch passes behind the parameters."""


@dataclass
class Compiled:
    """A compiled module; what belongs to stages that were not reached, and text that was not kept, is empty.

    `cubin` is what the driver loads, `ptx` and `llvm_ir` what it was made from, `tileaa` and `tileas` the inner
    dialects' text. `kernels` has, by name, parameters, `block_dim`, `cluster`, `smem` (bytes) and `registers`; `log` is
    what ptxas wrote. `cached` tells whether it comes from the cache.
    """

    gpu_name: str
    cubin: bytes = b""
    ptx: str = ""
    llvm_ir: str = ""
    tileaa: str = ""
    tileas: str = ""
    kernels: dict[str, Kernel] = field(default_factory=dict)
    remarks: list[Remark] = field(default_factory=list)
    log: str = ""
    cached: bool = False
    line_table: LineTable | None = field(default=None, repr=False)
    """What lines of LLVM IR and PTX lead to, where they have line information and do not come from the cache."""

    def stage(self, name: str) -> bytes | str:
        """The output of one of STAGES."""
        value: bytes | str = getattr(self, {"llvm": "llvm_ir"}.get(name, name))
        return value

    def _repr_html_(self) -> str:
        """The kernels as a table, as notebooks show it, and what was made."""
        from libtile.support.html import table

        rows = [
            (name, kernel.registers, kernel.smem, " x ".join(map(str, kernel.block_dim)), len(kernel.params))
            for name, kernel in self.kernels.items()
        ]
        columns = ("kernel", "registers", "shared memory (bytes)", "threads", "parameters")
        return table(columns, rows, caption=repr(self).strip("<>"))

    def __repr__(self) -> str:
        kernels = ", ".join(self.kernels) or "no kernel"
        made = [f"{name} ({len(self.stage(name))} {unit})" for name, unit in _UNITS.items() if self.stage(name)]
        return f"<Compiled for {self.gpu_name}: {kernels}; {', '.join(made) or 'nothing'}>"


_UNITS = {"tileaa": "characters", "tileas": "characters", "llvm": "characters", "ptx": "characters", "cubin": "bytes"}
