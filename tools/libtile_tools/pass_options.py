# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The options that every tool which runs passes has: what is printed, counted, timed, left out and written down.

    @pass_options.add
    def command(..., **options): ...
        watch = pass_options.watch(options)
        with pass_options.reports(options, watch):
            ...  # a PassManager with `watch.instruments`

Each has a spelling of ours, and that of MLIR's tools where these have one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from libtile_tools import cli
from libtile_tools import command_line as click

if TYPE_CHECKING:
    from libtile.passes.instrumentation import Printer, Watch


def _names(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    """The names of passes, which commas may separate."""
    return tuple(name for text in value for name in text.split(",") if name)


def _boolean(ctx: click.Context, param: click.Parameter, value: str | None) -> bool | None:
    if value is None:
        return None
    if value.lower() in ("true", "1", "t", "yes", "y", "on"):
        return True
    if value.lower() in ("false", "0", "f", "no", "n", "off"):
        return False
    raise click.BadParameter(f"{value!r} is not a valid boolean.", ctx, param)


def _list_passes(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        from libtile.passes.listing import passes_text

        click.echo(passes_text(), nl=False)
        ctx.exit()


_OPTIONS: tuple[Callable[[Any], Any], ...] = (
    click.option(
        "--print-ir-before", "--mlir-print-ir-before", "print_before", multiple=True, metavar="PASS", callback=_names,
        help="Print the IR before this pass, on stderr.",
    ),
    click.option(
        "--print-ir-after", "--mlir-print-ir-after", "print_after", multiple=True, metavar="PASS", callback=_names,
        help="Print the IR after this pass, on stderr.",
    ),
    click.option(
        "--print-ir-before-all", "--mlir-print-ir-before-all", "print_before_all", is_flag=True,
        help="Print the IR before every pass.",
    ),
    click.option(
        "--print-ir-after-all", "--mlir-print-ir-after-all", "print_after_all", is_flag=True,
        help="Print the IR after every pass.",
    ),
    click.option(
        "--print-ir-after-change", "--mlir-print-ir-after-change", "print_after_change", is_flag=True,
        help="Print the IR after passes that changed it.",
    ),
    click.option(
        "--print-ir-after-failure", "--mlir-print-ir-after-failure", "print_after_failure", is_flag=True,
        help="Print the IR after a pass that failed.",
    ),
    click.option(
        "--mlir-print-ir-tree-dir", "tree_dir", metavar="DIR", default="",
        help="Write the IR that is printed to files in DIR.",
    ),
    click.option(
        "--verify-each", implied="true", metavar="BOOL", callback=_boolean,
        help="Verify after each pass.",
    ),
    click.option(
        "--time-report", "--mlir-timing", "time_report", is_flag=True, help="Print where the time went, on stderr."
    ),
    click.option(
        "--mlir-pass-statistics", "--pass-statistics", "statistics", is_flag=True,
        help="Print what passes counted, on stderr.",
    ),
    click.option(
        "--opt-bisect-limit", "bisect_limit", type=int, metavar="N",
        help="Run the first N optional passes only, and say which (-1: all).",
    ),
    click.option(
        "--mlir-pass-pipeline-crash-reproducer", "reproducer", metavar="FILE", default="",
        help="Where a pass fails, write FILE for cuda-tile-opt --run-reproducer.",
    ),
    click.option(
        "--mlir-pass-pipeline-local-reproducer", "local_reproducer", is_flag=True,
        help="With that: the module right before the pass, and that pass alone.",
    ),
    click.option(
        "--list-passes", is_flag=True, is_eager=True, expose_value=False, callback=_list_passes,
        help="List the passes with their options, and exit.",
    ),
)  # fmt: skip
_REMARKS: tuple[Callable[[Any], Any], ...] = (
    click.option(
        "--remarks", type=click.Choice(["none", "all", "passed", "missed"]), default="none", implied="all",
        help="Show what passes over cuda_tile did, what they missed and why, on stderr.",
    ),
    click.option(
        "--remark-format", type=click.Choice(["command-line", "yaml"]), default="command-line",
        help="How remarks are shown: for a reader, or as LLVM's YAML.",
    ),
)  # fmt: skip
NAMES = (
    "print_before", "print_after", "print_before_all", "print_after_all", "print_after_change", "print_after_failure",
    "tree_dir", "bisect_limit", "statistics", "reproducer", "local_reproducer",
)  # fmt: skip
"""The options that make a WatchOptions."""


def add(function: Any) -> Any:
    """Declare the options."""
    return cli.declared(function, _OPTIONS)


def add_remarks(function: Any) -> Any:
    """Declare the options about remarks of passes, for tools that run passes over cuda_tile and compile nothing."""
    return cli.declared(function, _REMARKS)


@contextmanager
def remarks_of_passes(given: dict[str, Any]) -> Iterator[None]:
    """Around runs of passes: shows the remarks that are asked for, also when the body fails."""
    from libtile.support import remarks

    if given["remarks"] == "none" or given.get("error_diagnostics_only"):
        yield
        return
    with remarks.collect() as reported:
        try:
            yield
        finally:
            # A pass that sweeps over a program several times says the same of an op each time.
            wanted = [r for r in dict.fromkeys(reported) if given["remarks"] in ("all", r.kind.value)]
            render = remarks.yaml_format if given["remark_format"] == "yaml" else remarks.command_line_format
            click.echo(render(wanted).encode(errors="surrogateescape"), nl=False, err=True)


def wanted(given: dict[str, Any]) -> bool:
    """Whether something is asked for that a pass manager's instruments do."""
    return any(given[name] for name in NAMES) or given["bisect_limit"] is not None


def watch(given: dict[str, Any], text_of: Printer | None = None) -> Watch:
    """The instruments for what is asked for; `text_of` is how ops are printed. ToolError for a wrong name of a pass."""
    from libtile.passes.instrumentation import Watch as PassWatch
    from libtile.passes.instrumentation import WatchOptions
    from libtile.passes.registry import PASSES

    for name in (*given["print_before"], *given["print_after"]):
        if name not in PASSES:
            raise cli.ToolError(f"error: there is no pass '{name}': --list-passes lists those that there are")
    return PassWatch(WatchOptions(**{name: given[name] for name in NAMES}), _say, text_of, bool(given["verify_each"]))


def _say(text: str) -> None:
    click.echo(text, err=True)


@contextmanager
def reports(given: dict[str, Any], watching: Watch) -> Iterator[None]:
    """Around all runs of passes: prints the tables that are asked for, also when the body fails. WatchError behind it
    for a pass that did not run."""
    try:
        with cli.time_report(given["time_report"]):
            yield
    finally:
        watching.report()
    watching.check()
