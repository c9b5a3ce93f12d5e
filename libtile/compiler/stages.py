# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The whole way down: cuda_tile -> nv_tileaa -> nv_tileas -> LLVM IR -> PTX -> cubin, each stage at hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Operation

from libtile.backend.here import here
from libtile.backend.work import TILE_LANGUAGE, Assembled, Assembly, Backend, EntryDirectives, Work
from libtile.compiler.entry import entered
from libtile.compiler.options import Compiled, Kernel, Observer, Options, OptionsError, this_host
from libtile.dialects.cuda_tile.locations import with_source_line
from libtile.dialects.nv_tileaa.kernels import TILEAA, TILEAS, stage_of
from libtile.ir.kernels import Launch
from libtile.ir.locations import set_location
from libtile.lowering.tileas.copies.recipes import recipes
from libtile.lowering.to_llvm.conversion import LlvmModule
from libtile.lowering.to_llvm.conversion import convert_module as to_llvm
from libtile.passes.manager import Instrument, InvalidIrError, PassManager, PassRun
from libtile.passes.pipeline import (
    PassItem,
    PipelineError,
    after_pass,
    before_pass,
    for_target,
    parse_pipeline,
    unwrapped,
)
from libtile.passes.pipelines import schedule_at
from libtile.support import environment, timing
from libtile.support.diagnostics import LoweringError
from libtile.support.records import dataclass, replace
from libtile.targets import Target, target

if TYPE_CHECKING:
    from libtile.codegen.line_table import LineTable
    from libtile.compiler.boundaries import Boundaries
    from libtile.compiler.remarking import Decisions
    from libtile.lowering.to_llvm.debug_info import DebugInfo
    from libtile.passes.pipeline import Item

TO_TILEAA, TO_TILEAS = "convert-cuda-tile-to-tileaa", "convert-tileaa-to-tileas"
"""The passes between the stages."""
LOWER_QUEUES = "lower-tileaa-queues"
"""The first pass behind which a module is no longer in nv_tileaa alone: what `--emit=tileaa` gives is before it."""
MADE_BY = {TILEAA: TO_TILEAA, TILEAS: TO_TILEAS}
FIRST = {
    TILEAA: ("inline-calls", "flatten-kernel-parameters", "expand-tileaa-ops", "view-memref-accesses"),
    TILEAS: ("flatten-kernel-parameters", "expand-tileaa-ops"),
}
"""The first passes of a module that is at a later stage from the start."""


@dataclass(frozen=True)
class SourceText:
    """The text of a module that is lowered, as the disassembler prints it, with the lines of its kernels."""

    text: str
    entries: dict[str, int]

    @staticmethod
    def of(module: Operation) -> SourceText:
        """The text of a `cuda_tile.module`, the locations of whose ops get to know their lines of it."""
        from libtile.asm.disasm_names import Disassembler

        with timing.stage("print Tile IR"):
            printer = Disassembler(module)
            text, lines = printer.text(), printer.lines()
        entries: dict[str, int] = {}
        for op, line in lines.items():
            name = op.properties.get("sym_name")
            if not isinstance(name, StringAttr):
                set_location(op, with_source_line(op.location, line))
            elif op.name == "cuda_tile.entry":
                entries[name.data] = line
        return SourceText(text, entries)


def lower(
    module: Operation,
    options: Options,
    *,
    owned: bool = False,
    observer: Observer | None = None,
    verify_each: bool | None = None,
    instruments: Sequence[Instrument] = (),
    backend: Backend = here,
) -> Compiled:
    """Lower a verified `cuda_tile.module`, which nobody else needs any more if it is `owned`, or one of an inner
    dialect from its own stage on.

    `observer` sees the module behind each pass. With `verify_each` the verifier runs there (default: as the
    environment's LIBTILE_VERIFY_EACH says); what it finds is a LoweringError that names the pass.
    `instruments` watch the pass manager. `backend` makes PTX and a cubin of LLVM IR. Raises OptionsError for a pipeline
    that cannot be read, LoweringError for what cannot be compiled, LlvmError and PtxasError for what a later tool
    refuses.
    """
    environment.settings()  # those of passes that are not reached, too
    if verify_each is None:
        verify_each = environment.VERIFY_EACH.on()
    gpu = target(options.gpu_name)
    items = pipeline_of(options, module)
    result = Compiled(options.gpu_name)
    emits = options.emit not in ("tileaa", "tileas")
    source = None
    stage = stage_of(module)
    if stage is None:
        if not owned:
            module = module.clone()
        if options.lines:
            source = SourceText.of(module)
        if emits:
            from libtile.lowering.hints import hint_remarks
            from libtile.lowering.register_warning import register_warnings

            schedule = schedule_at(options.opt_level, options.schedule)
            result.remarks = [*register_warnings(module, gpu), *hint_remarks(module, gpu, schedule)]
        inner = _in_builtin_module(module)
    else:
        assert isinstance(module, ModuleOp)  # which has a stage
        inner = entered(module, stage, gpu, options.emit)
        if emits:
            from libtile.lowering.hints import inner_hint_remarks

            schedule = schedule_at(options.opt_level, options.schedule)
            result.remarks = list(inner_hint_remarks(inner, gpu, schedule))
    given = _decisions_in(inner) if stage == TILEAS else []
    snapshot = _TileaaText(options)
    boundaries = _boundaries(gpu) if verify_each else None
    watching = [snapshot, *([boundaries] if boundaries is not None else []), *instruments]
    try:
        manager = PassManager(items, verify_each=verify_each, after=observer, instruments=watching)
    except PipelineError as error:
        raise OptionsError(str(error)) from None
    try:
        manager.run(inner)
    except InvalidIrError as failure:
        found = "\n".join(d.render() for d in failure.diagnostics)
        raise LoweringError(
            f"the compiler made invalid IR in {failure.name}:\n{found}", failure.diagnostics[0].location
        ) from None
    if given:
        from libtile.compiler.remarking import replaced

        result.remarks = replaced(given)
    result.tileaa = snapshot.text
    if options.emit == "tileaa":
        result.tileaa = _text(inner)
        return result
    if options.keep_text or options.emit == "tileas":
        result.tileas = _text(inner)
    if emits:
        if boundaries is not None:
            boundaries.emitted(inner)
        if stage is not None:
            from libtile.compiler.libraries import check_fragments, check_symbols

            check_symbols(inner, gpu, options.libraries)
            check_fragments(inner, gpu)
        _emit(
            inner, gpu, options, source, result, backend,
            trusted=stage is None and not options.pipeline and not verify_each, foreign=stage is not None,
        )  # fmt: skip
    return result


def _decisions_in(module: ModuleOp) -> Decisions:
    from libtile.compiler.remarking import decisions_in

    return decisions_in(module)


def _boundaries(gpu: Target) -> Boundaries:
    from libtile.compiler.boundaries import Boundaries

    return Boundaries(gpu.name, MADE_BY)


def pipeline_of(options: Options, module: Operation) -> tuple[Item, ...]:
    """The passes of a compilation of a module, for its target: from the module's stage on, and up to the one that it is
    stopped behind.

    OptionsError when the options' own pipeline cannot be read.
    """
    try:
        items = for_target(unwrapped(parse_pipeline(options.passes)), options.gpu_name)
    except PipelineError as error:
        raise OptionsError(str(error)) from None
    if (stage := stage_of(module)) is not None:
        items = (*map(PassItem, FIRST[stage]), *after_pass(items, MADE_BY[stage]))
    return before_pass(before_pass(items, TO_TILEAS), LOWER_QUEUES) if options.emit == "tileaa" else items


class _TileaaText(Instrument):
    """Keeps the text of the module in nv_tileaa."""

    def __init__(self, options: Options):
        self.wanted = options.keep_text
        self.text = ""

    def before(self, run: PassRun, op: Operation) -> None:
        if self.wanted and not self.text and run.name in (LOWER_QUEUES, TO_TILEAS) and isinstance(op, ModuleOp):
            self.text = _text(op)


def _in_builtin_module(module: Operation) -> ModuleOp:
    """The `builtin.module` around a `cuda_tile.module`, its own one if it has one already."""
    outer = module.parent_op()
    if isinstance(outer, ModuleOp):
        return outer
    outer = ModuleOp([module])
    outer.location = module.location
    return outer


def _emit(
    inner: ModuleOp,
    gpu: Target,
    options: Options,
    source: SourceText | None,
    result: Compiled,
    backend: Backend,
    *,
    trusted: bool,
    foreign: bool,
) -> None:
    """LLVM IR, PTX and a cubin of a module in nv_tileas, as far as the options ask for.

    `trusted` is what went through a level's own passes; `foreign`, what may bring LLVM IR and PTX along.
    """
    from libtile.compiler.remarking import collect, limited
    from libtile.lowering.hints import without_unmet
    from libtile.lowering.tileas.memory.missing_barriers import check_barriers

    with timing.stage("convert-tileas-to-llvm"):
        information = _debug_information(options)
        llvm = to_llvm(inner, gpu, information, places=options.opt_level > 0, trusted=trusted)
    if not trusted:
        check_barriers(inner, gpu)
    # One remark for what is said twice of one place, as of the three arrays of a view.
    hints = without_unmet(result.remarks, inner)
    result.remarks = list(dict.fromkeys([*hints, *collect(inner, gpu)]))
    with timing.stage("print LLVM IR"):
        result.llvm_ir = llvm.text(information.text() if information is not None else "")
    made = recipes(inner)
    result.kernels = {
        k.name: Kernel(
            k.name,
            tuple(k.parameters),
            (k.builder.cta_threads, 1, 1),
            cluster=(k.ctas, 1, 1),
            smem=k.shared,
            descriptors=made.get(k.name, ()),
        )
        for k in llvm.kernels
    }
    if options.emit == "llvm":
        return
    if foreign:
        from libtile.compiler.libraries import try_foreign_code

        try_foreign_code(inner, gpu, result.llvm_ir, options)
    lines = None
    if information is not None and source is not None and information.text():
        lines = replace(information.lines, source=source.text, entries=source.entries)
        result.line_table = replace(lines, llvm=[(t, information.numbers.get(at, 0)) for t, at in llvm.lines()])
    finished = backend(_work(llvm, result, options, lines))
    result.ptx = finished.ptx
    result.remarks += limited(inner, finished.excesses)
    if finished.assembled is not None:
        _report(finished.assembled, result)


def _debug_information(options: Options) -> DebugInfo | None:
    """What collects lines and names on the way to LLVM IR, where the options ask for any."""
    if not options.lines:
        return None
    from libtile.lowering.to_llvm.debug_info import DebugInfo

    return DebugInfo(full=options.debug_sections)


def _text(module: ModuleOp) -> str:
    from libtile.asm import print_op

    return print_op(module).rstrip("\n") + "\n"


def _work(llvm: LlvmModule, result: Compiled, options: Options, lines: LineTable | None) -> Work:
    """What the backend is to do."""
    language = TILE_LANGUAGE if options.launch_abi == "tileir" else None
    entries = {
        k.name: EntryDirectives(
            k.builder.cta_threads,
            min_ctas_per_sm=k.occupancy or 1,
            cluster=(k.ctas, 1, 1) if k.ctas > 1 else None,
            language=language,
            hidden=k.descriptors if language is not None else 0,
        )
        for k in llvm.kernels
    }
    return Work(
        result.llvm_ir,
        llvm.target.name,
        options.opt_level,
        entries,
        launch_meta_data=language is not None,
        lines=lines,
        inlined=not options.debug_sections,
        size=llvm.size,
        assembly=None if options.emit == "ptx" else _assembly(result, options),
        libraries=options.libraries,
    )


def _assembly(result: Compiled, options: Options) -> Assembly:
    host = options.host
    if host is None and any(kernel.descriptors for kernel in result.kernels.values()):
        host = this_host()  # no launch can do without what makes the tensor maps
    needed = max((k.smem for k in result.kernels.values()), default=0)
    return Assembly(
        line_info=options.lines and not options.debug_sections,
        debug=options.debug_sections,
        options=(
            *([f"--sanitize={options.sanitize}"] if options.sanitize else []),
            *(["--enable-extended-smem=true"] if needed > STATIC_SHARED else []),
        ),
        host=host if options.launch_abi == "tileir" and result.kernels else None,
        launches={k.name: Launch(k.params, k.descriptors) for k in result.kernels.values()},
    )


def _report(made: Assembled, result: Compiled) -> None:
    """Put what ptxas made and said where it belongs."""
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
