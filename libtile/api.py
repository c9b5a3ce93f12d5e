# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Functions of `import libtile`. Each loads the parts that it needs when it is called."""

from __future__ import annotations

from typing import TYPE_CHECKING

from libtile.support.collector import collector_paused
from libtile.support.errors import AttributesDroppedWarning, HintsDroppedWarning
from libtile.support.files import Bytes, Path, file_bytes
from libtile.support.signatures import checked

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.ir import Operation

    from libtile.asm.module import Module
    from libtile.compiler.options import Compiled, Observer
    from libtile.passes.manager import Instrument
    from libtile.spec import Version
    from libtile.support.diagnostics import Diagnostic


@checked
def write(module: Module | Operation, version: str | Version | None = None) -> bytes:
    """The module as bytecode.

    `version` is one of "13.1" to "13.5"; None stands for the oldest one that can hold it, but for none older than the
    one that the module was read from. Raises MigrationError, naming op, feature and version needed, when the version
    asked for cannot hold it, and DiagnosticError for what no version holds. Attributes that an op does not declare are
    left out, as the reference's writer does, with an AttributesDroppedWarning for each name.
    """
    import warnings

    from libtile.asm.module import Module, op_of
    from libtile.dialects.cuda_tile.to_bytecode import write_bytecode

    given = module if isinstance(module, Module) else Module(op_of(module))
    left_out: list[Diagnostic] = []
    result = write_bytecode(given.tile_module, version, since=given.version, warnings=left_out)
    for diagnostic in left_out:
        warnings.warn(diagnostic.text, AttributesDroppedWarning, stacklevel=3)  # the caller, behind `checked`
    return result


@checked
def migrate(data: Path | Bytes, to: str | Version, *, for_target: str | None = None, drop_hints: bool = False) -> bytes:
    """A bytecode file in another version.

    Upgrading always works. Downgrading drops what has its default, and raises MigrationError, naming op, feature and
    version needed, for anything else. Raises BytecodeError for a bad file.

    Optimization hints, which change no program, are what most files are refused for: 13.1 and 13.2 have none for
    `default`. `for_target` ("sm_90", ...) writes these for one target: a key that the file has for that target itself
    wins, and a value that the target does not take is left out. `drop_hints` leaves out the hints that the version
    cannot hold (those for `default` where no target is given, and newer keys), with a HintsDroppedWarning for each
    kind of them.
    """
    import warnings

    from libtile import bytecode

    dropped: list[str] = []
    result = bytecode.migrate(file_bytes(data), to, for_target=for_target, drop_hints=drop_hints, warnings=dropped)
    for message in dropped:
        warnings.warn(message, HintsDroppedWarning, stacklevel=3)  # the caller, behind `checked`
    return result


@checked
def optimize(
    source: Module | Operation | Path | Bytes,
    level: int = 3,
    *,
    fuse_fma: bool = False,
    before: str = "",
    after: str = "",
    verify: bool = True,
    instruments: Sequence[Instrument] = (),
) -> Module:
    """The module with the passes of an optimization level (0 to 3) run on a copy of it: cuda_tile in, cuda_tile out.

    `source` is a Module, a path, or the bytes of a file, bytecode or text; the result prints as text, and
    `libtile.write` makes bytecode of it. The levels are the pipelines `tile-O0` to `tile-O3` of
    `libtile.passes.pipelines`; `before` and `after` are texts of pipelines that run in front of it and behind it, and
    `fuse_fma` runs `fuse-fma`, which changes last bits, right before it. `verify` verifies the module first, and behind
    each pass; `instruments` watch the pass manager. Raises DiagnosticError for a module that breaks a rule of the
    dialect, PipelineError for a pipeline that is malformed, LibtileError for another level.
    """
    from libtile.asm.module import Module, load
    from libtile.asm.module import verify as verify_module
    from libtile.passes.manager import PassManager
    from libtile.passes.pipeline import parse_pipeline, unwrapped
    from libtile.passes.pipelines import tile_pipeline

    texts = [before, tile_pipeline(level, fuse_fma), after]
    items = [item for text in texts for item in unwrapped(parse_pipeline(text))]
    given = load(source)
    if verify:
        verify_module(given)
    optimized = Module(given.clone(), source.version if isinstance(source, Module) else None)
    with collector_paused():
        PassManager(items, verify_each=verify, instruments=instruments).run(optimized.op)
    return optimized


@checked
def compile(
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
    dopt: bool = False,
    sanitize: str = "",
    host: tuple[str, str] | None = None,
    observer: Observer | None = None,
    verify_each: bool | None = None,
    pipeline: str = "",
    schedule: str = "",
    libraries: Sequence[bytes] = (),
) -> Compiled:
    """Compile a Module, a path, or the bytes of a file (bytecode or text) for a target such as "sm_90".

    `opt_level` is 0 to 3. `debug` needs 0, or `dopt`, by which it means the lines of optimized code, as `line_info`
    does. `launch_abi` is "tileir" (the kernel is launched with block (1,1,1), as the
    driver does for Tile IR) or "simt" (the launcher gives `block_dim`). `emit`, "tileaa", "tileas", "llvm", "ptx" or
    "cubin", is where to stop; `keep_text` keeps the text of the inner dialects. `host` is architecture and system of
    the host object, ("x86_64", "linux"), none without it, unless a kernel takes tensor maps: then it is this machine's,
    which makes them. `observer` is called with the name of each pass and the module behind it; `verify_each` verifies
    that module. `verify` tells whether to verify the module itself. `pipeline` is the text of the passes to run in
    place of those of `opt_level`, as `tileiras --print-pipeline` prints it.
    `schedule` is "serial" (nothing is copied ahead of loops), "pipelined" (by the warps that compute) or "specialized"
    (by a producer agent, for the loops with a product that can be parted; a remark says why others are not), or empty
    for the level's own, which has producers on targets with TMA. `libraries` are the bytes of LLVM bitcode for NVPTX,
    whose functions `nv_tileaa.extern_elementwise` calls; libdevice is always there.

    The result has `cubin`, `ptx`, `llvm_ir`, `remarks`, and `kernels["name"]`: params, block_dim, cluster, smem,
    registers. Raises DiagnosticError for a module that breaks a rule of the dialect, OptionsError, UnknownTargetError,
    LoweringError for what the target cannot do, and PtxasError when ptxas fails.
    """
    from libtile.compiler.compile import compile_module
    from libtile.compiler.options import Options

    options = Options(
        gpu_name,
        opt_level,
        line_info,
        debug,
        dopt,
        sanitize,
        host,
        launch_abi,
        emit,
        keep_text,
        pipeline,
        schedule,
        tuple(libraries),
    )
    with collector_paused():
        return compile_module(module, options, verify=verify, observer=observer, verify_each=verify_each)
