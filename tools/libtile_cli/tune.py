# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`libtile tune`: every way of compiling a kernel that the options allow, ranked."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from libtile_cli import scripts
from libtile_tools import cli, launching
from libtile_tools import command_line as click

if TYPE_CHECKING:
    from libtile.tuning import Outcome

_MISUSE = 2


def _choices(ctx: click.Context, param: click.Parameter, given: tuple[str, ...]) -> dict[str, list[int]]:
    """`NAME=VALUE,VALUE...`, each name once."""
    found: dict[str, list[int]] = {}
    for text in given:
        name, equals, values = text.partition("=")
        try:
            numbers = [int(value, 0) for value in values.split(",")]
        except ValueError:
            numbers = []
        if not equals or not numbers or name in found:
            raise click.BadParameter(f"'{text}' is not NAME=NUMBER,NUMBER... of a name that has none yet", ctx, param)
        found[name] = numbers
    return found


def _bar(enabled: bool) -> Callable[[int, int, Outcome], None] | None:
    """A bar on stderr with what is done, what is left, and the best so far."""
    if not enabled:
        return None
    started, first, best = time.monotonic(), -1, None

    def show(done: int, total: int, outcome: Outcome) -> None:
        nonlocal best, first
        first = done - 1 if first < 0 else first
        if not outcome.error and (best is None or outcome.rank < best.rank):
            best = outcome
        filled = 30 * done // total
        left = (time.monotonic() - started) / (done - first) * (total - done)
        said = f", best: {best.configuration}" if best is not None else ""
        end = "\n" if done == total else ""
        line = f"[{'#' * filled}{'.' * (30 - filled)}] {done} of {total}, {left:.0f} s left{said}"
        sys.stderr.write(f"\r{line:100}{end}")
        sys.stderr.flush()

    return show


@click.command("libtile tune", examples=(
    "libtile tune gemm.bc --grid 256 --arg a.npy --arg b.npy --arg c.npy --hint occupancy=1,2,4 -O 2 -O 3",
    'libtile tune gemm.py:gemm --grid "cdiv(1024, tm) * cdiv(1024, tn)" --arg a.npy --arg b.npy --arg c.npy '
    '--arg 64 --arg 64 --arg 32 --arg 4 --constant tm=64,128 --constant tn=64,128 --where "tm * tn <= 8192"',
), statuses=(
    "0  done, also where some configurations cannot be compiled",
    "1  nothing could be measured, or an input is wrong",
    f"{_MISUSE}  the command line is wrong",
))  # fmt: skip
@click.argument("source", metavar=scripts.DEFINED)
@launching.kernel_option("The entry of a module; may be left out when it has one only.")
@click.option(
    "--grid",
    metavar="EXPRESSION",
    default="1",
    show_default=True,
    help="Tile blocks by axis, X or X,Y or X,Y,Z, of numbers, names of what is tuned, and cdiv, min and max.",
)
@launching.arguments_option(scripts.ARGUMENT)
@click.option(
    "--hint",
    "hints",
    multiple=True,
    metavar="NAME=N,N...",
    callback=_choices,
    help="Values of an optimization hint, for every op that takes it.",
)
@click.option(
    "--constant",
    "constants",
    multiple=True,
    metavar="NAME=N,N...",
    callback=_choices,
    help="Values of a constant argument of a @ct.kernel.",
)
@click.option(
    "--opt-level",
    "-O",
    "levels",
    metavar="N",
    type=click.IntRange(0, 3),
    multiple=True,
    help="A level: 0 to 3 (default: 3).",
)
@click.option("--schedule", "schedules", multiple=True, metavar="NAME", help="A schedule (default: the level's own).")
@click.option(
    "--where",
    multiple=True,
    metavar="EXPRESSION",
    help="What has to hold of a configuration, as in 'tm * tn <= 8192 and opt_level == 3'.",
)
@click.option("--gpu-name", metavar="sm_NN", help="The target: this machine's GPU, or sm_90 where there is none.")
@click.option("--measure", type=click.Choice(["gpu", "estimate"]), help="How (default: the GPU where there is one).")
@click.option(
    "--blocks", type=click.IntRange(1), metavar="N", help="Tile blocks that an estimate simulates (default: 8)."
)
@click.option(
    "--processes", type=click.IntRange(1), metavar="N", help="Estimate in N processes (default: all processors)."
)
@click.option("--scheduler", metavar="ADDRESS", help="Estimate on the Dask cluster at ADDRESS, as tcp://host:8786.")
@click.option("--results", metavar="FILE", help="Keep outcomes in FILE, and take those that it has.")
@click.option("--json", "as_json", is_flag=True, help="Print numbers for programs.")
@click.option("--quiet", is_flag=True, help="No progress.")
@cli.version_option("CUDA Tile IR kernels, tuned")
@click.pass_context
def command(
    ctx: click.Context, source: str, kernel: str | None, grid: str, arguments: tuple[str, ...],
    hints: dict[str, list[int]], constants: dict[str, list[int]], levels: tuple[int, ...], schedules: tuple[str, ...],
    where: tuple[str, ...], gpu_name: str | None, measure: str | None, blocks: int | None, processes: int | None,
    scheduler: str | None, results: str | None, as_json: bool, quiet: bool,
) -> None:  # fmt: skip
    """Compile a kernel in every way that the options make together, measure each on this machine's GPU, or estimate
    each where there is none, and print a table, the best first.

    The kernel is in a file of bytecode or text of Tile IR, or a @ct.kernel of cuTile in a Python file.
    """
    from libtile.asm.module import load
    from libtile.explore.estimate import BLOCKS
    from libtile.interpreter.entries import find_entry
    from libtile.tuning import Space, tune
    from libtile.tuning.space import expression

    kernel_source: Any
    path, name = scripts.split(source)
    if path.endswith(".py"):
        from libtile.cutile.scripts import kernel_in

        kernel_source, given = kernel_in(path, name), launching.python_arguments(arguments)
    else:
        kernel_source = load(cli.read_input("-") if source == "-" else source)
        given = launching.arguments_for(find_entry(kernel_source, kernel), arguments)
    extents = expression(grid)

    def grid_of(values: Mapping[str, Any]) -> Any:
        return extents(values)

    sweep = tune(
        kernel_source, Space(levels or (3,), schedules or ("",), hints, constants, where),
        grid=grid_of, args=given, kernel=kernel, gpu_name=gpu_name, measure=measure, blocks=blocks or BLOCKS,
        processes=processes, scheduler=scheduler, results=results, progress=_bar(not quiet and sys.stderr.isatty()),
    )  # fmt: skip
    cli.show(json.dumps(sweep.as_data(), indent=1) + "\n" if as_json else str(sweep))
    if all(outcome.error for outcome in sweep.outcomes):
        ctx.exit(1)


def main() -> None:
    """The tool's entry point."""
    cli.run(command, misuse=_MISUSE)
