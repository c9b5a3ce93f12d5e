# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The options that users of mlir-opt and mlir-translate type: what both of our tools of that kind take, and what the
tools take whose passes can be watched.

@mlir_options.add
def command(..., **given): ...
    context = mlir_options.context(given)
    parts = context.split(text)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from libtile.support.records import dataclass
from libtile_tools import cli
from libtile_tools import command_line as click

if TYPE_CHECKING:
    from libtile.passes.instrumentation import Printer
    from libtile.passes.pipeline import Item
    from libtile.support.diagnostics import Diagnostic

DIALECTS = ("builtin", "cuda_tile", "nv_tileaa", "nv_tileas")
"""The dialects that are known by name. Beside nv_tileaa and nv_tileas, functions have ops of arith, scf and others."""


def _show_dialects(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        click.echo(f"Available Dialects: {','.join(DIALECTS)}")
        ctx.exit()


def _whole_number(ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:
    if value is None:
        return None
    if not value.isdecimal() or len(value) > 18:
        raise click.BadParameter(f"{value!r} is not a whole number.", ctx, param)
    return int(value)


_ELIDE = click.option(
    "--mlir-elide-elementsattrs-if-larger", "elide_above", metavar="N", callback=_whole_number,
    help="Print __elided__ in place of constants of more than N different elements; such text is for readers only.",
)  # fmt: skip
_THREADING = click.option(
    "--mlir-disable-threading", is_flag=True, expose_value=False, help="Accepted: one thread works."
)
_ERRORS = click.option("--error-diagnostics-only", is_flag=True, help="Print errors, and neither warnings nor remarks.")
_OPTIONS: tuple[Callable[[Any], Any], ...] = (
    click.option(
        "--split-input-file", "split_marker", implied=cli.SPLIT_MARKER, metavar="[=MARK]",
        help=f"Process the parts between lines that start with MARK ('{cli.SPLIT_MARKER}') one by one.",
    ),
    click.option(
        "--output-split-marker", metavar="MARK", default=cli.SPLIT_MARKER, help="The line between parts of the output."
    ),
    _ERRORS,
    _ELIDE,
    _THREADING,
)  # fmt: skip
_HELP: tuple[Callable[[Any], Any], ...] = (
    click.option(
        "--show-dialects", is_flag=True, is_eager=True, expose_value=False, callback=_show_dialects,
        help="List the dialects, and exit.",
    ),
    click.option(
        "--help-list", is_flag=True, is_eager=True, expose_value=False, callback=cli.show_help,
        help="The same as --help.",
    ),
    click.option(
        "--help-hidden", is_flag=True, is_eager=True, expose_value=False, callback=cli.show_help,
        help="The same as --help: no option is hidden.",
    ),
)  # fmt: skip
_WATCHING: tuple[Callable[[Any], Any], ...] = (
    click.option(
        "--dump-pass-pipeline", "dump_pipeline", is_flag=True, help="Print the pipeline that is run on stderr."
    ),
    _ELIDE,
    click.option("--mlir-print-local-scope", "local_scope", is_flag=True, help="Print locations without aliases."),
    _ERRORS,
    _THREADING,
)
NAMES = ("split_marker", "output_split_marker", "error_diagnostics_only", "elide_above")


def add(function: Any) -> Any:
    """Declare the options."""
    return cli.declared(function, (*_OPTIONS, *_HELP))


def add_help(function: Any) -> Any:
    """Declare the options that print something, and end the tool."""
    return cli.declared(function, _HELP)


def add_watching(function: Any) -> Any:
    """Declare the options about pipelines, how the IR between passes is printed, and what is said beside it."""
    return cli.declared(function, _WATCHING)


def printer(given: dict[str, Any]) -> Printer:
    """How those options ask for ops to be printed."""
    from libtile.asm.printer import print_op

    return partial(print_op, local_scope=given["local_scope"], elide_above=given["elide_above"])


def say_pipeline(items: Sequence[Item]) -> None:
    """Print the passes that are run, as --dump-pass-pipeline asks for: those of a module, as mlir-opt has them."""
    from libtile.passes.pipeline import MODULE, Nest, pipeline_text, unwrapped

    inner = tuple(one for item in items for one in unwrapped([item]))
    cli.say(f"Pass Manager with {len(inner)} passes:\n{pipeline_text([Nest(MODULE, inner)])}")


_MAY_LACK = 2
"""Characters that a line may lack of the mark between parts, and still look like one."""


@dataclass(frozen=True)
class Context:
    """What is asked for. `split_marker` is None where the input is one part."""

    split_marker: str | None = None
    output_split_marker: str = cli.SPLIT_MARKER
    error_diagnostics_only: bool = False
    elide_above: int | None = None

    def parts(self, text: str, name: str) -> list[str]:
        """The parts of the text of an input that are processed one by one.

        A line that only looks like the mark, as it ends early, splits nothing, and has a warning as in MLIR.
        """
        if self.split_marker is None:
            return [text]
        nearly = self.split_marker[:-_MAY_LACK]
        if nearly and nearly in text:
            from libtile.support.diagnostics import SourceLocation, warning

            lines = text.split("\n")
            missed = [n for n, line in enumerate(lines, 1) if line.startswith(nearly) and not self._is_mark(line)]
            said = "near miss with file split marker"
            self.report([warning(SourceLocation(name, line, 1), said) for line in missed], lines)
        return cli.split_input(text, self.split_marker)

    def _is_mark(self, line: str) -> bool:
        return self.split_marker is not None and line.startswith(self.split_marker)

    def joined(self, texts: Sequence[str]) -> str:
        """The texts of all parts as one."""
        return f"{self.output_split_marker}\n".join(texts)

    def report(
        self, diagnostics: Sequence[Diagnostic], source: Sequence[str] | None, filename: str | None = None
    ) -> None:
        """Print diagnostics that are no errors, if they are wanted."""
        if not self.error_diagnostics_only:
            cli.report(diagnostics, source, filename)


def context(given: dict[str, Any]) -> Context:
    """What is asked for; takes the options out of `given`."""
    values = {name: given.pop(name) for name in NAMES}
    given["error_diagnostics_only"] = values["error_diagnostics_only"]  # passes' remarks ask for it as well
    if values["split_marker"] in click.FALSE:  # the option was a flag in MLIR before it took a marker
        values["split_marker"] = None
    elif values["split_marker"] == "" or values["split_marker"] in click.TRUE:
        values["split_marker"] = cli.SPLIT_MARKER  # no marker is MLIR's own, also behind a '='
    return Context(**values)
