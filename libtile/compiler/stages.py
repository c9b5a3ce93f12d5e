# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The whole way down: cuda_tile -> nv_tileaa -> nv_tileas -> LLVM IR -> PTX -> cubin, each stage at hand."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from xdsl.context import Context as XdslContext
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from libtile.compiler.entry import entered
from libtile.compiler.options import Compiled, Kernel, Observer, Options
from libtile.dialects.nv_tileaa.kernels import TILEAS, stage_of
from libtile.lowering.strip_mine.strip_mine import StripMinePass, needs_strip_mining, strip_mine
from libtile.lowering.tile_registers import check_registers
from libtile.lowering.tileas.barriers import InsertBarriersPass
from libtile.lowering.tileas.cleanup import RemoveLayoutConversionsPass
from libtile.lowering.tileas.materialize import MaterializeSchedulePass
from libtile.lowering.tileas.schedule import GenerateSchedulePass
from libtile.lowering.to_llvm.conversion import LlvmModule
from libtile.lowering.to_llvm.conversion import convert_module as to_llvm
from libtile.lowering.to_tileaa.conversion import convert_module as to_tileaa
from libtile.lowering.to_tileas.conversion import convert_module as to_tileas
from libtile.support import timing
from libtile.support.diagnostics import LoweringError
from libtile.targets import Target, target

if TYPE_CHECKING:
    from libtile.codegen.line_table import LineTable

TILEAS_PASSES: tuple[type[ModulePass], ...] = (
    RemoveLayoutConversionsPass,
    GenerateSchedulePass,
    MaterializeSchedulePass,
    InsertBarriersPass,
)
"""The passes between the conversion to nv_tileas and that to LLVM IR, in order."""


VERIFY_EACH = "LIBTILE_VERIFY_EACH"
"""The environment variable that makes the verifier run after each pass."""


def _verifying(then: Observer | None) -> Observer:
    """An observer that verifies the module behind each pass, and then tells another."""
    from libtile.asm.module import diagnose
    from libtile.support.diagnostics import has_errors

    def observe(name: str, op: Operation) -> None:
        with timing.stage("verify"):
            diagnostics = diagnose(op)
        if has_errors(diagnostics):
            found = "\n".join(d.render() for d in diagnostics)
            raise LoweringError(f"the compiler made invalid IR in {name}:\n{found}", diagnostics[0].location)
        if then is not None:
            then(name, op)

    return observe


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
    module: Operation, options: Options, *, observer: Observer | None = None, verify_each: bool | None = None
) -> Compiled:
    """Lower a verified `cuda_tile.module`, or a verified module of an inner dialect from its own stage on.

    `observer` sees the module behind each pass. With `verify_each` the inner dialects' verifier runs there (default: as
    the environment's LIBTILE_VERIFY_EACH says, off without it); what it finds is a LoweringError that names the pass.
    Raises LoweringError for what cannot be compiled, LlvmError and PtxasError for what a later tool refuses.
    """
    if verify_each is None:
        verify_each = os.environ.get(VERIFY_EACH, "0") not in ("", "0")
    if verify_each:
        observer = _verifying(observer)
    gpu = target(options.gpu_name)
    result = Compiled(options.gpu_name)
    whole = module
    source = None
    if stage_of(module) is None:
        module = _in_pieces(module, gpu, observer)
        source = SourceText.of(module) if options.line_info or options.debug else None
    inner = _lower_dialects(module, gpu, options, source, result, observer)
    if options.emit in ("tileaa", "tileas"):
        return result
    from libtile.compiler.remarking import collect
    from libtile.lowering.hints import hint_remarks
    from libtile.lowering.to_llvm.debug_info import DebugInfo

    # One remark for what is said twice of one place, as of the three arrays of a view.
    result.remarks = list(dict.fromkeys([*hint_remarks(whole, gpu), *collect(inner, gpu)]))
    with timing.stage("convert-tileas-to-llvm"):
        information = DebugInfo(full=options.debug) if options.line_info or options.debug else None
        llvm = to_llvm(inner, gpu, information)
    with timing.stage("print LLVM IR"):
        result.llvm_ir = llvm.text(information.text() if information is not None else "")
    result.kernels = {
        k.name: Kernel(k.name, tuple(k.parameters), (k.builder.cta_threads, 1, 1), smem=k.shared) for k in llvm.kernels
    }
    if options.emit == "llvm":
        return result
    lines = None
    if information is not None and source is not None and information.text():
        lines = replace(information.lines, source=source.text, entries=source.entries)
    _to_ptx(llvm, result, options, lines)
    if options.emit == "cubin":
        _assemble(result, gpu, options)
    return result


def _lower_dialects(
    module: Operation,
    gpu: Target,
    options: Options,
    source: SourceText | None,
    result: Compiled,
    observer: Observer | None,
) -> ModuleOp:
    stage = stage_of(module)
    if stage is None:
        inner = to_tileaa(module, gpu, source.lines if source is not None else None)
        _observe(observer, "convert-cuda-tile-to-tileaa", inner)
    else:
        assert isinstance(module, ModuleOp)  # which has a stage
        inner = entered(module, stage, gpu, options.emit)
        _observe(observer, "flatten-kernel-parameters", inner)
    if stage != TILEAS:
        if options.keep_text or options.emit == "tileaa":
            result.tileaa = _text(inner)
        if options.emit == "tileaa":
            return inner
        to_tileas(inner)
        _observe(observer, "convert-tileaa-to-tileas", inner)
    for pass_ in TILEAS_PASSES:
        pass_().apply(XdslContext(), inner)
        _observe(observer, pass_.name, inner)
    if options.keep_text or options.emit == "tileas":
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
            observer(StripMinePass.name, module)
    check_registers(module, gpu, reasons)
    return module


def _text(module: ModuleOp) -> str:
    from libtile.asm import print_op

    return print_op(module).rstrip("\n") + "\n"


def _observe(observer: Observer | None, name: str, module: ModuleOp) -> None:
    if observer is not None:
        observer(name, module)


def _to_ptx(llvm: LlvmModule, result: Compiled, options: Options, lines: LineTable | None) -> None:
    from libtile.backend import nvptx, ptx, ptx_lines

    language = ptx.TILE_LANGUAGE if options.launch_abi == "tileir" else None
    entries = {
        k.name: ptx.EntryDirectives(k.builder.cta_threads, min_ctas_per_sm=k.occupancy or 1, language=language)
        for k in llvm.kernels
    }
    with timing.stage("LLVM"):
        text = nvptx.to_ptx(result.llvm_ir, llvm.target, options.opt_level)
    version = ptx_lines.PTX_VERSION if lines is not None else ptx.PTX_VERSION
    result.ptx = ptx.finish(text, llvm.target, entries, launch_meta_data=language is not None, ptx_version=version)
    if lines is not None:
        result.ptx = ptx_lines.finish_lines(result.ptx, lines, inlined=not options.debug)


def _assemble(result: Compiled, gpu: Target, options: Options) -> None:
    from libtile.backend.host_object import host_object
    from libtile.backend.ptxas import assemble

    needed = max((k.smem for k in result.kernels.values()), default=0)
    host = options.host if options.launch_abi == "tileir" and result.kernels else None
    made = assemble(
        result.ptx,
        gpu.ptx_target,
        opt_level=options.opt_level,
        line_info=options.line_info,
        debug=options.debug,
        host_object=host_object(list(result.kernels), *host) if host is not None else None,
        options=[
            *([f"--sanitize={options.sanitize}"] if options.sanitize else []),
            *(["--enable-extended-smem=true"] if needed > STATIC_SHARED else []),
        ],
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
