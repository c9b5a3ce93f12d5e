# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`libtile.compile`: a module in, all that a compilation makes out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from libtile.asm.module import Module, load
from libtile.asm.module import verify as verify_module
from libtile.files import Bytes, Path
from libtile.lowering.pipeline import Kernel, Lowered, Observer, lower

if TYPE_CHECKING:
    from xdsl.ir import Operation

    from libtile.remarks import Remark


@dataclass
class Compiled:
    """A compiled module.

    `cubin` is what the driver loads, `ptx` and `llvm_ir` what it was made from, `tileaa` and `tileas` the inner
    dialects' text (when asked for). `kernels` has, by name, parameters, `block_dim`, `cluster`, `smem` (bytes) and
    `registers`; `log` is what ptxas wrote.
    """

    gpu_name: str
    cubin: bytes
    ptx: str
    llvm_ir: str
    tileaa: str = ""
    tileas: str = ""
    kernels: dict[str, Kernel] = field(default_factory=dict)
    remarks: list[Remark] = field(default_factory=list)
    log: str = ""


def compile_module(
    module: Module | Operation | Path | Bytes,
    gpu_name: str = "sm_90",
    opt_level: int = 3,
    *,
    verify: bool = True,
    launch_abi: str = "tileir",
    emit: str = "cubin",
    keep_text: bool = False,
    line_info: bool = False,
    debug: bool = False,
    sanitize: str = "",
    host: tuple[str, str] | None = None,
    observer: Observer | None = None,
    verify_each: bool | None = None,
) -> Compiled:
    """Compile a Module, a path, or the bytes of a file (bytecode or text) for a target such as "sm_90".

    `opt_level` is 0 to 3. `launch_abi` is "tileir" (the kernel is launched with block (1,1,1), as the driver does for
    Tile IR) or "simt" (the launcher gives `block_dim`). `emit`, "tileaa", "tileas", "llvm", "ptx" or "cubin", is where
    to stop. For `sanitize`, `host`, `observer` and `verify_each` see `libtile.lowering.pipeline.lower`.
    Raises DiagnosticError for a module that breaks a rule of the dialect, UnknownTargetError, LoweringError for what
    the target cannot do, and PtxasError when ptxas fails.
    """
    op = load(module)
    if verify:
        verify_module(op)
    made: Lowered = lower(
        Module(op).tile_module,
        gpu_name,
        opt_level,
        emit=emit,
        keep_text=keep_text,
        observer=observer,
        launch_abi=launch_abi,
        line_info=line_info,
        debug=debug,
        sanitize=sanitize,
        host=host,
        verify_each=verify_each,
    )
    return Compiled(
        gpu_name, made.cubin, made.ptx, made.llvm_ir, made.tileaa, made.tileas, made.kernels, made.remarks, made.log
    )
