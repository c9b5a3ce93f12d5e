# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The whole way down: cuda_tile -> nv_tileaa -> nv_tileas -> LLVM IR -> PTX -> cubin, each stage at hand."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

from xdsl.context import Context as XdslContext
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from libtile import timing
from libtile.diagnostics import LoweringError
from libtile.lowering.cuda_tile_to_tileaa.conversion import convert_module as to_tileaa
from libtile.lowering.strip_mine.strip_mine import StripMinePass, needs_strip_mining, strip_mine
from libtile.lowering.tile_registers import check_registers
from libtile.lowering.tileaa_to_tileas.barriers import InsertBarriersPass
from libtile.lowering.tileaa_to_tileas.cleanup import RemoveLayoutConversionsPass
from libtile.lowering.tileaa_to_tileas.conversion import convert_module as to_tileas
from libtile.lowering.tileaa_to_tileas.materialize import MaterializeSchedulePass
from libtile.lowering.tileaa_to_tileas.schedule import GenerateSchedulePass
from libtile.lowering.tileas_to_llvm.conversion import LlvmModule, Parameter
from libtile.lowering.tileas_to_llvm.conversion import convert_module as to_llvm
from libtile.targets import Target, target

if TYPE_CHECKING:
    from libtile.backend.ptx_lines import LineTable
    from libtile.remarks import Remark

STAGES = ("tileaa", "tileas", "llvm", "ptx", "cubin")

TILEAS_PASSES: tuple[type[ModulePass], ...] = (
    RemoveLayoutConversionsPass,
    GenerateSchedulePass,
    MaterializeSchedulePass,
    InsertBarriersPass,
)
"""The passes between the conversion to nv_tileas and that to LLVM IR, in order."""


class Observer(Protocol):
    """Sees what happens: the module after each pass, and how long each stage took."""

    def after_pass(self, name: str, op: Operation) -> None:
        """Called with a pass's name and the module behind it."""

    def stage(self, name: str, seconds: float) -> None:
        """Called with a stage's name and the time that it took."""


VERIFY_EACH = "LIBTILE_VERIFY_EACH"
"""The environment variable that makes the verifier run after each pass."""


@dataclass
class _VerifyingObserver:
    """Verifies the module after each pass, then tells another observer."""

    next: Observer | None

    def after_pass(self, name: str, op: Operation) -> None:
        from libtile.asm.module import diagnose
        from libtile.diagnostics import has_errors

        with timing.stage("verify"):
            diagnostics = diagnose(op)
        if has_errors(diagnostics):
            found = "\n".join(d.render() for d in diagnostics)
            raise LoweringError(f"the compiler made invalid IR in {name}:\n{found}", diagnostics[0].location)
        if self.next is not None:
            self.next.after_pass(name, op)

    def stage(self, name: str, seconds: float) -> None:
        if self.next is not None:
            self.next.stage(name, seconds)


@dataclass(frozen=True)
class Kernel:
    """A compiled kernel. `shared` and `registers` are what ptxas reports; `registers` is 0 without a cubin."""

    name: str
    params: tuple[Parameter, ...]
    block_dim: tuple[int, int, int]
    cluster: tuple[int, int, int] = (1, 1, 1)
    smem: int = 0
    registers: int = 0
    spills: int = 0


@dataclass
class Lowered:
    """What a lowering made; fields of stages that were not reached are empty."""

    target: Target
    tileaa: str = ""
    tileas: str = ""
    llvm_ir: str = ""
    ptx: str = ""
    cubin: bytes = b""
    kernels: dict[str, Kernel] = field(default_factory=dict)
    remarks: list[Remark] = field(default_factory=list)
    log: str = ""


@dataclass(frozen=True)
class SourceText:
    """The text of a module that is lowered, as the disassembler prints it, with the lines of its ops and kernels."""

    text: str
    lines: dict[Operation, int]
    entries: dict[str, int]

    @staticmethod
    def of(module: Operation) -> SourceText:
        """The text of a `cuda_tile.module`."""
        from libtile.asm.disasm_names import Disassembler

        with timing.stage("print Tile IR"):
            printer = Disassembler(module)
            text, lines = printer.text(), printer.lines()
        names = ((op, op.properties.get("sym_name")) for op in lines if op.name == "cuda_tile.entry")
        return SourceText(text, lines, {name.data: lines[op] for op, name in names if isinstance(name, StringAttr)})


def lower(
    module: Operation,
    gpu_name: str = "sm_90",
    opt_level: int = 3,
    *,
    emit: str = "cubin",
    keep_text: bool = False,
    observer: Observer | None = None,
    launch_abi: str = "tileir",
    line_info: bool = False,
    debug: bool = False,
    sanitize: str = "",
    host: tuple[str, str] | None = None,
    verify_each: bool | None = None,
) -> Lowered:
    """Lower a verified `cuda_tile.module` for a target.

    `emit` is one of STAGES. `keep_text` keeps the text of the inner dialects; `observer` sees the module after
    each pass. `launch_abi` is `tileir` (launched with block (1,1,1)) or `simt`. Raises LoweringError for what cannot
    be compiled, LlvmError and PtxasError for what a later tool refuses. `sanitize` is a tool that ptxas instruments
    for (`memcheck`); `host` the architecture and system of the host object, none without it. With `verify_each` the
    inner dialects' verifier runs after each pass (default: as the environment's LIBTILE_VERIFY_EACH says, off without
    it); what it finds is a LoweringError that names the pass.
    """
    if verify_each is None:
        verify_each = os.environ.get(VERIFY_EACH, "0") not in ("", "0")
    if verify_each:
        observer = _VerifyingObserver(observer)
    gpu = target(gpu_name)
    result = Lowered(gpu)
    whole = module
    module = _in_pieces(module, gpu, observer)
    source = SourceText.of(module) if line_info or debug else None
    inner = _lower_dialects(module, gpu, source, result, emit, keep_text, observer)
    if emit in ("tileaa", "tileas"):
        return result
    from libtile.lowering.hints import hint_remarks
    from libtile.lowering.llvm.debug_info import DebugInfo
    from libtile.lowering.remarking import collect

    result.remarks = [*dict.fromkeys(hint_remarks(whole, gpu)), *collect(inner, gpu)]
    with timing.stage("convert-tileas-to-llvm"):
        information = DebugInfo(full=debug) if line_info or debug else None
        llvm = to_llvm(inner, gpu, information)
    with timing.stage("print LLVM IR"):
        result.llvm_ir = llvm.text(information.text() if information is not None else "")
    result.kernels = {
        k.name: Kernel(k.name, tuple(k.parameters), (k.builder.threads, 1, 1), smem=k.shared) for k in llvm.kernels
    }
    if emit == "llvm":
        return result
    lines = None
    if information is not None and source is not None and information.text():
        lines = replace(information.lines, source=source.text, entries=source.entries)
    _to_ptx(llvm, result, opt_level, launch_abi, lines, inlined=not debug)
    if emit == "cubin":
        options = [f"--sanitize={sanitize}"] if sanitize else []
        _assemble(result, opt_level, line_info, debug, options, host if launch_abi == "tileir" else None)
    return result


def _lower_dialects(
    module: Operation,
    gpu: Target,
    source: SourceText | None,
    result: Lowered,
    emit: str,
    keep_text: bool,
    observer: Observer | None,
) -> ModuleOp:
    inner = to_tileaa(module, gpu, source.lines if source is not None else None)
    _observe(observer, "convert-cuda-tile-to-tileaa", inner)
    if keep_text or emit == "tileaa":
        result.tileaa = _text(inner)
    if emit == "tileaa":
        return inner
    to_tileas(inner)
    _observe(observer, "convert-tileaa-to-tileas", inner)
    for pass_ in TILEAS_PASSES:
        pass_().apply(XdslContext(), inner)
        _observe(observer, pass_.name, inner)
    if keep_text or emit == "tileas":
        result.tileas = _text(inner)
    return inner


def _in_pieces(module: Operation, gpu: Target, observer: Observer | None) -> Operation:
    """The module, its large tiles worked through in pieces; LoweringError for what is too large and cannot be cut."""
    reasons: dict[Operation, str] = {}
    if needs_strip_mining(module, gpu):
        module = module.clone()
        with timing.stage(StripMinePass.name):
            reasons = strip_mine(module, gpu)
        if observer is not None:
            observer.after_pass(StripMinePass.name, module)
    check_registers(module, gpu, reasons)
    return module


def _text(module: ModuleOp) -> str:
    from libtile.asm import print_op

    return print_op(module).rstrip("\n") + "\n"


def _observe(observer: Observer | None, name: str, module: ModuleOp) -> None:
    if observer is not None:
        observer.after_pass(name, module)


def _to_ptx(
    llvm: LlvmModule, result: Lowered, opt_level: int, launch_abi: str, lines: LineTable | None, *, inlined: bool
) -> None:
    from libtile.backend import nvptx, ptx, ptx_lines

    language = ptx.TILE_LANGUAGE if launch_abi == "tileir" else None
    entries = {
        k.name: ptx.EntryDirectives(k.builder.threads, min_ctas_per_sm=k.occupancy or 1, language=language)
        for k in llvm.kernels
    }
    with timing.stage("LLVM"):
        text = nvptx.to_ptx(result.llvm_ir, llvm.target, opt_level)
    version = ptx_lines.PTX_VERSION if lines is not None else ptx.PTX_VERSION
    result.ptx = ptx.finish(text, llvm.target, entries, launch_meta_data=language is not None, ptx_version=version)
    if lines is not None:
        result.ptx = ptx_lines.finish_lines(result.ptx, lines, inlined=inlined)


def _assemble(
    result: Lowered, opt_level: int, line_info: bool, debug: bool, options: list[str], host: tuple[str, str] | None
) -> None:

    from libtile.backend.host_object import host_object
    from libtile.backend.ptxas import assemble

    gpu = result.target
    needed = max((k.smem for k in result.kernels.values()), default=0)
    if needed > STATIC_SHARED:
        options = [*options, "--enable-extended-smem=true"]
    made = assemble(
        result.ptx,
        gpu.ptx_target,
        opt_level=opt_level,
        line_info=line_info,
        debug=debug,
        host_object=host_object(list(result.kernels), *host) if host is not None and result.kernels else None,
        options=options,
    )
    result.cubin, result.log = made.cubin, made.log
    for name, report in made.kernels.items():
        if name in result.kernels:
            result.kernels[name] = replace(
                result.kernels[name],
                smem=report.shared,
                registers=report.registers,
                spills=report.spill_stores + report.spill_loads,
            )


STATIC_SHARED = 48 << 10
"""Static shared memory that ptxas grants without being asked."""
