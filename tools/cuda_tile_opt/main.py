# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`cuda-tile-opt`: reads Tile IR text, verifies it, runs passes, and prints it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from libtile.passes.registry import PASSES
from libtile.support.errors import LibtileError
from libtile.support.records import dataclass, field
from libtile_tools import cli, mlir_options, pass_options
from libtile_tools import command_line as click

if TYPE_CHECKING:
    from xdsl.ir import Operation

    from libtile.passes.instrumentation import Watch
    from libtile.passes.manager import PassManager
    from libtile.support.diagnostics import Diagnostic


@dataclass
class Options:
    """What the command line asks for. `passes` are pass items in the order given."""

    filename: str
    implicit_module: bool = True
    allow_unregistered: bool = False
    generic: bool = False
    debuginfo: bool = False
    local_scope: bool = False
    warn_hints: bool = False
    error_hints: bool = False
    verify_each: bool = True
    passes: Sequence[Any] = ()
    watch: Watch | None = None
    context: mlir_options.Context = field(default_factory=mlir_options.Context)
    verify_roundtrip: bool = False

    def text_of(self, op: Operation) -> str:
        """An op as it is to be printed."""
        from libtile.asm.printer import print_op

        return print_op(
            op, generic=self.generic, debuginfo=self.debuginfo, local_scope=self.local_scope,
            elide_above=self.context.elide_above,
        )  # fmt: skip


class Optimizer:
    """Reads, verifies, transforms and prints one input (or one of its parts); keeps its warnings."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.warnings: list[Diagnostic] = []

    def run(self, text: str) -> str:
        """The output for a text. DiagnosticError when it is malformed or does not verify, before or behind a pass."""
        return self.options.text_of(self.transformed(text))

    def bytecode(self, text: str) -> bytes:
        """The output for a text as bytecode of the newest version."""
        from libtile.dialects.cuda_tile.one_module import tile_module_in
        from libtile.dialects.cuda_tile.to_bytecode import write_bytecode
        from libtile.spec import default_spec

        module = tile_module_in(self.transformed(text))
        return write_bytecode(module, default_spec().current, allow_testing=True, warnings=self.warnings)

    def transformed(self, text: str) -> Operation:
        """The op for a text, behind the passes."""
        from libtile.asm.reading import parse
        from libtile.support import timing

        options = self.options
        with timing.stage("parse"):
            op = parse(
                text,
                options.filename,
                implicit_module=options.implicit_module,
                allow_unregistered=options.allow_unregistered,
            )
        self.warnings += self._verify(op)
        if options.verify_roundtrip:
            self._check_round_trip(op)
        if options.passes:
            self._run_passes(op)
        return op

    def _check_round_trip(self, op: Operation) -> None:
        """DiagnosticError where the text of an op, or its bytecode, is not that of the same op."""
        from libtile.asm.printer import print_op
        from libtile.asm.reading import parse
        from libtile.dialects.cuda_tile.bridge import from_bytecode
        from libtile.dialects.cuda_tile.ops import CudaTileOp
        from libtile.dialects.cuda_tile.to_bytecode import write_bytecode
        from libtile.ir.places import ops_of
        from libtile.spec import default_spec
        from libtile.support.diagnostics import DiagnosticError, error

        wanted = print_op(op, generic=True)
        for generic in (False, True):
            text = print_op(op, generic=generic)
            again = parse(
                text, self.options.filename, implicit_module=self.options.implicit_module,
                allow_unregistered=self.options.allow_unregistered,
            )  # fmt: skip
            if print_op(again, generic=True) != wanted:
                raise DiagnosticError([error(None, "the op is another one when its text is read back")])
        inner = [o for region in op.regions for block in region.blocks for o in block.ops]
        if len(inner) == 1 and isinstance(inner[0], CudaTileOp):
            from libtile import bytecode
            from libtile.debugging.structure import diff

            spec = default_spec()
            testing = any(isinstance(o, CudaTileOp) and spec.is_testing_op(o.spec) for o in ops_of(inner[0]))
            version = max(spec.testing_versions) if testing else spec.current
            data = write_bytecode(inner[0], version, allow_testing=True)
            read = from_bytecode(bytecode.read(data, allow_testing=True))
            if found := diff(inner[0], read):
                message = f"the op is another one when its bytecode is read back: {found[0]}"
                raise DiagnosticError([error(None, message)])

    def _run_passes(self, op: Operation) -> None:
        from libtile.support.diagnostics import DiagnosticError, LoweringError

        manager = self._manager()
        try:
            manager.run(op)
        except LoweringError as failure:
            raise DiagnosticError([failure.diagnostic()]) from None
        finally:
            self.warnings += manager.warnings

    def _verify(self, op: Operation) -> list[Diagnostic]:
        from libtile.asm.diagnosis import diagnose
        from libtile.support.diagnostics import DiagnosticError, has_errors

        found = diagnose(op, warn_hints=self.options.warn_hints, error_hints=self.options.error_hints)
        if has_errors(found):
            raise DiagnosticError(found)
        return found

    def _manager(self) -> PassManager:
        from libtile.passes.manager import PassManager

        watch = self.options.watch
        return PassManager(
            self.options.passes,
            verify_each=self.options.verify_each,
            instruments=watch.instruments if watch is not None else (),
        )


def _ordered(args: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Passes in the order of the command line, which click does not keep across options."""
    taken = ""
    for arg in args:
        if taken:
            yield taken, arg
            taken = ""
            continue
        name, equals, value = arg.lstrip("-").partition("=")
        if not arg.startswith("-"):
            continue
        if name in PASSES:
            yield name, value
        elif name in ("pass-pipeline", "p"):
            if equals:
                yield "", value
            else:
                taken = " "
    return


def _pass_items(ctx: click.Context) -> list[Any]:
    given = list(_ordered(ctx.meta["arguments"]))
    if not given:
        return []
    from libtile.passes.pipeline import PassItem, make_pass, parse_options, parse_pipeline

    items: list[Any] = []
    for name, text in given:
        if name.strip():
            item = PassItem(name, parse_options(text, name))
            make_pass(item)
            items.append(item)
        else:
            items += parse_pipeline(text)
    return items


@click.command(
    "cuda-tile-opt",
    examples=(
        "cuda-tile-opt kernel.mlir",
        "cuda-tile-opt -mlir-print-op-generic kernel.mlir -o generic.mlir",
        "cuda-tile-opt --canonicalize --cse kernel.mlir",
        "cuda-tile-opt --pass-pipeline='builtin.module(cuda_tile.module(cuda_tile.entry(loop-split)))' kernel.mlir",
        "cuda-tile-opt -split-input-file -verify-diagnostics invalid.mlir",
    ),
    statuses=(
        "0  done (with -verify-diagnostics: every diagnostic was as expected)",
        "1  the input, a pass or the command line is wrong; stderr says what and where",
    ),
)
@click.argument("input_", metavar="[INPUT]", default="-")
@click.option("-o", "output", metavar="FILE", default="-", help="Write to FILE ('-', the default, is stdout).")
@click.option(
    "-p", "--pass-pipeline", "pipeline", metavar="PIPELINE", multiple=True, help="Run the passes of a textual pipeline."
)
@click.option(
    "--verify-diagnostics", implied="all", type=click.Choice(["all", "only-expected"]),
    help="Check the diagnostics against the expected-* comments of the input.",
)  # fmt: skip
@click.option("--mlir-print-op-generic", "generic", is_flag=True, help="Print the generic form of ops.")
@click.option("--mlir-print-debuginfo", "debuginfo", is_flag=True, help="Print locations.")
@click.option("--mlir-print-local-scope", "local_scope", is_flag=True, help="Print locations without aliases.")
@click.option("--no-implicit-module", is_flag=True, help="Do not put a builtin.module around the top-level ops.")
@click.option(
    "--allow-unregistered-dialect", is_flag=True, help="Accept ops, types and attributes of unknown dialects."
)
@click.option("--dump-pass-pipeline", "dump_pipeline", is_flag=True, help="Print the pipeline that is run on stderr.")
@mlir_options.add
@click.option("--emit-bytecode", is_flag=True, help="Write bytecode, and not text.")
@click.option(
    "--verify-roundtrip", is_flag=True, help="Check that text and bytecode of the input are read back as the same op."
)
@pass_options.add
@pass_options.add_remarks
@click.option(
    "--run-reproducer", is_flag=True, help="Run the pipeline that the input, a reproducer of a failure, names."
)
@click.option("--Wunsupported-hints", "warn_hints", is_flag=True, help="Warn about unsupported optimization hints.")
@click.option("--Werr-hints", "error_hints", is_flag=True, help="Take unsupported optimization hints as errors.")
@cli.version_option("CUDA Tile IR optimizer and test driver")
@click.pass_context
def command(
    ctx: click.Context,
    /,
    input_: str,
    output: str,
    pipeline: tuple[str, ...],
    verify_diagnostics: str | None,
    generic: bool,
    debuginfo: bool,
    local_scope: bool,
    no_implicit_module: bool,
    allow_unregistered_dialect: bool,
    dump_pipeline: bool,
    emit_bytecode: bool,
    verify_roundtrip: bool,
    run_reproducer: bool,
    warn_hints: bool,
    error_hints: bool,
    **given: Any,
) -> None:
    """Read Tile IR text, verify it, run passes on it, and print it.

    INPUT is a file, or '-' (the default) for stdin. Passes run in the order in which they are given. Long options may
    be given with one dash or two.
    """
    options = Options(
        filename=input_,
        implicit_module=not no_implicit_module,
        allow_unregistered=allow_unregistered_dialect,
        generic=generic,
        debuginfo=debuginfo,
        local_scope=local_scope,
        warn_hints=warn_hints,
        error_hints=error_hints,
        verify_each=given["verify_each"] is not False,
        passes=_pass_items(ctx),
        context=mlir_options.context(given),
        verify_roundtrip=verify_roundtrip,
    )
    text = cli.decode_text(cli.read_input(input_))
    if run_reproducer:
        from libtile.passes.pipeline import parse_pipeline
        from libtile.passes.reproducer import recorded

        found = recorded(text)
        # Behind the pipeline of the failure run the passes that the command line names, as in mlir-opt.
        options.passes = [*parse_pipeline(found.pipeline), *options.passes]
        options.verify_each = found.verify_each
    if dump_pipeline:
        mlir_options.say_pipeline(options.passes)
    parts = options.context.parts(text, input_)
    if emit_bytecode and len(parts) > 1:
        raise cli.ToolError("error: several modules do not fit into one bytecode file: write them one by one")
    options.watch = pass_options.watch({**given, "verify_each": options.verify_each}, options.text_of)
    with pass_options.remarks_of_passes(given), pass_options.reports(given, options.watch):
        if verify_diagnostics is not None:
            _check_diagnostics(options, parts, verify_diagnostics == "only-expected")
        else:
            _process(options, parts, output, emit_bytecode)


for _name in PASSES:
    command.add_option(
        f"--{_name}", "pass_" + _name.replace("-", "_"), implied="", metavar="[=OPTIONS]", expose_value=False,
        multiple=True, help=f"Run pass {_name}; OPTIONS as 'name=value ...'.",
    )  # fmt: skip


def _process(options: Options, parts: Sequence[str], output: str, emit_bytecode: bool) -> None:
    """Write the output of all parts, if all were good; on stdout, as mlir-opt does, what the good ones gave else."""
    outputs: list[str] = []
    data = b""
    failed = False
    for part in parts:
        optimizer = Optimizer(options)
        try:
            if emit_bytecode:
                data = optimizer.bytecode(part)
            outputs.append("" if emit_bytecode else optimizer.run(part))
            if optimizer.warnings:
                options.context.report(optimizer.warnings, part.split("\n"), options.filename)
        except LibtileError as error:
            if optimizer.warnings:
                options.context.report(optimizer.warnings, part.split("\n"), options.filename)
            cli.say(cli.render_error(error, part.split("\n"), options.filename))
            outputs.append("")
            failed = True
    if not failed or (output == "-" and any(outputs)):
        cli.write_output(output, data if emit_bytecode else options.context.joined(outputs))
    if failed:
        raise cli.Failed


def _check_diagnostics(options: Options, parts: Sequence[str], only_expected: bool) -> None:
    """`-verify-diagnostics`: each part has to give just the diagnostics that its comments announce."""
    from libtile.support.diagnostics import DiagnosticError, error
    from libtile_tools import expected_diagnostics

    good = True
    for part in parts:
        optimizer = Optimizer(options)
        try:
            optimizer.run(part)
            found = optimizer.warnings
        except DiagnosticError as failure:
            found = [*optimizer.warnings, *failure.diagnostics]
        except LibtileError as failure:
            found = [*optimizer.warnings, error(None, str(failure))]
        problems = expected_diagnostics.check(part, options.filename, found, only_expected)
        cli.report(problems, part.split("\n"))
        good = good and not problems
    if not good:
        raise cli.Failed


def main() -> None:
    """The tool's entry point."""
    cli.run(command)
