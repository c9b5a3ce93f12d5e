# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`cuda-tile-translate`: between Tile IR text and bytecode."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from libtile.support.errors import LibtileError, visible
from libtile.support.records import dataclass
from libtile_tools import cli, mlir_options
from libtile_tools import command_line as click

if TYPE_CHECKING:
    from xdsl.ir import Operation

    from libtile.bytecode import MigrationError
    from libtile.spec import Version
    from libtile.support.diagnostics import Diagnostic, SourceLocation


def _list_versions(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    """The versions of the open dialect and of its tests, as its tool lists them; then the later ones."""
    if not value or ctx.resilient_parsing:
        return
    from libtile.spec import default_spec

    spec = default_spec()
    later = [v for v in spec.released_versions if v > spec.open_dialect]
    for version in [*(v for v in spec.versions if v not in later), *later]:
        click.echo(str(version))
    ctx.exit()


def _parse_version(ctx: click.Context, param: click.Parameter, value: str | None) -> Version | None:
    if value is None:
        return None
    from libtile.spec import Version, default_spec

    spec = default_spec()
    try:
        version = Version.parse(value)
    except ValueError:
        raise click.ClickException(f"for the --bytecode-version option: Invalid argument '{value}'") from None
    if version not in spec.versions:
        raise click.ClickException(
            f"for the --bytecode-version option: Invalid argument '{value}': the supported versions are "
            f"{spec.version_ranges}"
        )
    return version


@dataclass(frozen=True)
class Options:
    """What the command line asks for; `translation` is one of the methods of `Translator`."""

    translation: str
    filename: str
    version: Version | None
    for_target: str | None
    drop_hints: bool
    implicit_module: bool
    allow_unregistered: bool
    generic: bool
    debuginfo: bool
    warn_hints: bool
    error_hints: bool
    previews: frozenset[str]
    local_scope: bool
    context: mlir_options.Context


class Translator:
    """One translation of one input (or one of its parts). Warnings and remarks are kept for the caller to print."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.warnings: list[Diagnostic] = []

    def text_to_bytecode(self, text: str) -> bytes:
        from libtile.dialects.cuda_tile.one_module import tile_module_in
        from libtile.dialects.cuda_tile.to_bytecode import write_bytecode

        options = self.options
        return write_bytecode(
            tile_module_in(self._parse(text)), self._version_written(), allow_testing=True,
            for_target=options.for_target, drop_hints=options.drop_hints, warnings=self.warnings,
        )  # fmt: skip

    def bytecode_to_bytecode(self, data: bytes) -> bytes:
        from libtile import bytecode

        options, dropped = self.options, list[str]()
        module = bytecode.read(data, allow_testing=True, preview=options.previews)
        self._warn(module.warnings)
        migrated = bytecode.write(
            module, self._version_written(), allow_testing=True,
            for_target=options.for_target, drop_hints=options.drop_hints, warnings=dropped,
        )  # fmt: skip
        self._warn(dropped)
        return migrated

    def bytecode_to_text(self, data: bytes) -> str:
        from libtile import bytecode
        from libtile.dialects.cuda_tile.bridge import light_ir

        module = bytecode.read(data, allow_testing=True, preview=self.options.previews)
        self._warn(module.warnings)
        op = light_ir(module)
        self._verify(op)
        return self._print(op)

    def round_trip(self, text: str) -> str:
        return self.bytecode_to_text(self.text_to_bytecode(text))

    def _version_written(self) -> Version:
        from libtile.spec import default_spec

        # The open tool writes the newest version unless told otherwise.
        return self.options.version or default_spec().current

    def _warn(self, messages: list[str]) -> None:
        from libtile.support.diagnostics import warning

        self.warnings += [warning(None, message) for message in messages]

    def _parse(self, text: str) -> Operation:
        from libtile import asm

        options = self.options
        op: Operation = asm.parse(
            text,
            options.filename,
            implicit_module=options.implicit_module,
            allow_unregistered=options.allow_unregistered,
        )
        self._verify(op)
        return op

    def _verify(self, op: Operation) -> None:
        from libtile.asm.diagnosis import diagnose
        from libtile.support.diagnostics import DiagnosticError, has_errors

        found = diagnose(op, warn_hints=self.options.warn_hints, error_hints=self.options.error_hints)
        if has_errors(found):
            raise DiagnosticError(found)
        self.warnings += found

    def _print(self, op: Operation) -> str:
        from libtile import asm

        text: str = asm.print_op(
            op, generic=self.options.generic, debuginfo=self.options.debuginfo, local_scope=self.options.local_scope,
            elide_above=self.options.context.elide_above,
        )  # fmt: skip
        return text if text.endswith("\n") else text + "\n"


_TRANSLATIONS: dict[str, tuple[str, bool]] = {
    "mlir-to-cudatilebc": ("text_to_bytecode", True),
    "cudatilebc-to-mlir": ("bytecode_to_text", False),
    "cudatilebc-to-cudatilebc": ("bytecode_to_bytecode", False),
    "test-cudatile-roundtrip": ("round_trip", True),
}
"""By option: the translator's method, and whether its input is text."""


@click.command(
    "cuda-tile-translate",
    examples=(
        "cuda-tile-translate -mlir-to-cudatilebc kernel.mlir -o kernel.bc",
        "cuda-tile-translate -mlir-to-cudatilebc -bytecode-version=13.1 kernel.mlir -o kernel.bc",
        "cuda-tile-translate -cudatilebc-to-mlir kernel.bc",
        "cuda-tile-translate -cudatilebc-to-mlir -mlir-print-debuginfo < kernel.bc",
        "cuda-tile-translate -cudatilebc-to-cudatilebc -bytecode-version=13.1 -for-target=sm_90 new.bc -o old.bc",
    ),
)
@click.argument("input_", metavar="[INPUT]", default="-")
@click.option("-o", "output", metavar="FILE", default="-", help="Write to FILE ('-', the default, is stdout).")
@click.option("--mlir-to-cudatilebc", is_flag=True, help="Translate text to bytecode.")
@click.option("--cudatilebc-to-mlir", is_flag=True, help="Translate bytecode to text.")
@click.option("--cudatilebc-to-cudatilebc", is_flag=True, help="Translate bytecode to another version of it.")
@click.option("--test-cudatile-roundtrip", is_flag=True, help="Translate text to bytecode and back.")
@click.option(
    "--bytecode-version",
    callback=_parse_version,
    metavar="X.Y",
    help="Version of the bytecode written (default: newest).",
)
@click.option(
    "--for-target", metavar="SM",
    help="Write optimization hints for 'default' for this target (such as sm_90) where the version has no 'default'.",
)  # fmt: skip
@click.option(
    "--drop-hints", is_flag=True,
    help="Leave out, with a warning, the optimization hints that the version written cannot hold.",
)  # fmt: skip
@click.option(
    "--list-versions", is_flag=True, is_eager=True, expose_value=False, callback=_list_versions,
    help="List the supported bytecode versions and exit.",
)  # fmt: skip
@click.option("--no-implicit-module", is_flag=True, help="Do not put a builtin.module around the top-level ops.")
@click.option(
    "--allow-unregistered-dialect", is_flag=True, help="Accept ops, types and attributes of unknown dialects."
)
@mlir_options.add
@click.option("--mlir-timing", "--time-report", "timing", is_flag=True, help="Print where the time went, on stderr.")
@click.option(
    "--verify-diagnostics", implied="all", type=click.Choice(["all", "only-expected"]),
    help="Check the diagnostics against the expected-* comments of the input.",
)  # fmt: skip
@click.option("--mlir-print-debuginfo", "debuginfo", is_flag=True, help="Print locations.")
@click.option("--mlir-print-local-scope", "local_scope", is_flag=True, help="Print locations without aliases.")
@click.option("--mlir-print-op-generic", "generic", is_flag=True, help="Print the generic form of ops.")
@click.option("--generic-form", is_flag=True, help="The same as --mlir-print-op-generic.")
@click.option("--Wunsupported-hints", "warn_hints", is_flag=True, help="Warn about unsupported optimization hints.")
@click.option("--Werr-hints", "error_hints", is_flag=True, help="Take unsupported optimization hints as errors.")
@cli.preview_option
@cli.version_option("CUDA Tile IR translation tool")
def command(
    input_: str,
    output: str,
    bytecode_version: Version | None,
    for_target: str | None,
    drop_hints: bool,
    no_implicit_module: bool,
    allow_unregistered_dialect: bool,
    timing: bool,
    local_scope: bool,
    verify_diagnostics: str | None,
    debuginfo: bool,
    generic: bool,
    generic_form: bool,
    warn_hints: bool,
    error_hints: bool,
    previews: frozenset[str],
    **given: Any,
) -> None:
    """Translate Tile IR between text and bytecode.

    INPUT is a file, or '-' (the default) for stdin. Exactly one translation has to be chosen. Long options may be
    given with one dash or two.
    """
    chosen = [name for name in _TRANSLATIONS if given[name.replace("-", "_")]]
    if len(chosen) != 1:
        names = ", ".join(f"--{name}" for name in _TRANSLATIONS)
        raise click.UsageError(f"choose exactly one translation: {names}")
    method, is_text = _TRANSLATIONS[chosen[0]]
    if method == "bytecode_to_text" and (for_target is not None or drop_hints):
        raise click.UsageError("--for-target and --drop-hints are about the bytecode written, and none is")
    options = Options(
        translation=method,
        filename="<stdin>" if input_ == "-" else input_,
        version=bytecode_version,
        for_target=for_target,
        drop_hints=drop_hints,
        implicit_module=not no_implicit_module,
        allow_unregistered=allow_unregistered_dialect,
        generic=generic or generic_form,
        debuginfo=debuginfo,
        warn_hints=warn_hints,
        error_hints=error_hints,
        previews=previews,
        local_scope=local_scope,
        context=mlir_options.context(given),
    )
    data = cli.read_input(input_)
    parts: list[Any] = [cli.decode_text(data)] if is_text else [data]
    if is_text:
        parts = options.context.parts(parts[0], input_)
    if verify_diagnostics is not None:
        _check_diagnostics(options, parts, verify_diagnostics == "only-expected")
        return
    with cli.time_report(timing):
        outputs = [done for part in parts if (done := _translate(options, part)) is not None]
    if len(outputs) < len(parts):
        raise cli.Failed
    cli.write_output(output, _joined(outputs, options.context))


def _joined(outputs: list[bytes | str], context: mlir_options.Context) -> bytes | str:
    """The one output of several parts."""
    if len(outputs) == 1:
        return outputs[0]
    texts = [output for output in outputs if isinstance(output, str)]
    if len(texts) < len(outputs):
        raise cli.ToolError("error: several modules do not fit into one bytecode file: translate them one by one")
    return context.joined(texts)


def _translate(options: Options, part: Any) -> bytes | str | None:
    """The translation of one part; None when it failed, with its errors printed."""
    from libtile.support import timing

    translator = Translator(options)
    method: Callable[[Any], bytes | str] = getattr(translator, options.translation)
    source = part.split("\n") if isinstance(part, str) else None
    try:
        with timing.stage(options.translation.replace("_", " ")):
            result = method(part)
    except LibtileError as error:
        options.context.report(translator.warnings, source, options.filename)
        cli.say(_render(error, options, source))
        return None
    options.context.report(translator.warnings, source, options.filename)
    return result


def _render(error: LibtileError, options: Options, source: list[str] | None) -> str:
    from libtile.bytecode import BytecodeError, MigrationError

    if isinstance(error, MigrationError):
        diagnostic = _migration_diagnostic(error)
        if error.required is not None and str(error.required) not in error.message:
            diagnostic.note(None, f"it needs bytecode version {error.required}")
        if error.feature == "optimization_hints.default":
            diagnostic.note(None, "hints change no program: --for-target=SM writes them for one target")
        if error.feature.startswith("optimization_hints."):
            diagnostic.note(None, "--drop-hints leaves out the hints that the version cannot hold")
        return diagnostic.render(source, options.filename)
    if isinstance(error, BytecodeError) and error.offset is not None:
        return f"{visible(options.filename)}: {error}"
    return cli.render_error(error, source, options.filename)


def _migration_diagnostic(failure: MigrationError) -> Diagnostic:
    """The open tool's words; where they name neither the op nor its place, the op's name behind them."""
    from libtile.support.diagnostics import error

    named = failure.location is not None or failure.op is None or failure.op in failure.message
    message = failure.message if named else f"{failure.message} (op '{failure.op}')"
    return error(_located(failure.location), message)


def _located(location: str | None) -> SourceLocation | None:
    """The position that `file:line:column` stands for."""
    from libtile.support.diagnostics import SourceLocation

    if location is None:
        return None
    filename, line, column = location.rsplit(":", 2)
    return SourceLocation(filename, int(line), int(column))


def _check_diagnostics(options: Options, parts: list[Any], only_expected: bool) -> None:
    """`--verify-diagnostics`: the run succeeds when each part's diagnostics are those that its comments announce."""
    from libtile_tools import expected_diagnostics

    good = True
    for part in parts:
        text = part if isinstance(part, str) else ""
        problems = expected_diagnostics.check(text, options.filename, _diagnostics(options, part), only_expected)
        cli.report(problems, text.split("\n"))
        good = good and not problems
    if not good:
        raise cli.Failed


def _diagnostics(options: Options, part: Any) -> list[Diagnostic]:
    from libtile.bytecode import BytecodeError, MigrationError
    from libtile.support.diagnostics import DiagnosticError, error

    translator = Translator(options)
    try:
        getattr(translator, options.translation)(part)
    except DiagnosticError as failure:
        return [*translator.warnings, *failure.diagnostics]
    except MigrationError as failure:
        return [*translator.warnings, _migration_diagnostic(failure)]
    except LibtileError as failure:
        message = failure.message if isinstance(failure, BytecodeError) else str(failure)
        return [*translator.warnings, error(None, message)]
    return translator.warnings


def main() -> None:
    """The tool's entry point."""
    cli.run(command)
