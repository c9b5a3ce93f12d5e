# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`cuda-tile-diff`: whether two files hold the same program, or programs that do the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

from libtile.support.limits import COMPARED_RUNS
from libtile_tools import cli
from libtile_tools import command_line as click

if TYPE_CHECKING:
    from libtile.asm.module import Module

_DIFFERENT = 1
_TROUBLE = 2


@click.command(
    "cuda-tile-diff",
    examples=(
        "cuda-tile-diff before.bc after.mlir",
        "cuda-tile-diff --locations a.bc b.bc",
        "cuda-tile-opt --canonicalize k.mlir | cuda-tile-diff --run k.mlir -",
        "cuda-tile-diff --run --runs=20 --seed=7 --kernel=gemm --grid=4,2 before.bc after.bc",
    ),
    statuses=(
        "0  they are the same (with --run: they did the same)",
        "1  they differ; stdout says where",
        "2  an input or the command line is wrong, or no run came to an end; stderr says what and where",
    ),
)
@click.argument("left", metavar="A")
@click.argument("right", metavar="B")
@click.option("--locations", is_flag=True, help="Compare the locations of ops as well.")
@click.option("--run", "run_", is_flag=True, help="Compare what programs that differ do, on random arguments.")
@click.option(
    "--runs", metavar="N", type=click.IntRange(1, COMPARED_RUNS), default=3, show_default=True,
    help="Runs of each kernel.",
)  # fmt: skip
@click.option(
    "--seed", metavar="N", type=click.IntRange(0), default=0, show_default=True, help="Seed of the arguments."
)
@click.option("--kernel", metavar="NAME", help="Run this kernel only.")
@click.option("--grid", metavar="X[,Y[,Z]]", help="The grid of each run (without it, small ones).")
@click.option("-q", "--quiet", is_flag=True, help="Print nothing; the exit status tells.")
@cli.version_option("CUDA Tile IR comparison")
@click.pass_context
def command(
    ctx: click.Context,
    left: str,
    right: str,
    locations: bool,
    run_: bool,
    runs: int,
    seed: int,
    kernel: str | None,
    grid: str | None,
    quiet: bool,
) -> None:
    """Tell whether A and B, each bytecode or text of any dialect, are the same program.

    Names of values, the order of functions and of the tables of a file, and locations do not count. Of each function
    that differs the first difference is printed, with its place on either side.

    With --run, programs that differ are run in the interpreter (cuda_tile only) on the same random arguments, and it
    counts whether they leave the same bytes in memory and print the same lines. Sizes and strides of views, bounds and
    divisors that 'assume' states are respected; arguments on which A faults are replaced by others. In every second
    run zeros with a sign, infinities and NaNs are among the floats; the bits of a NaN do not count.
    """
    from libtile.debugging.structure import diff

    launch = _grid(grid)
    for option, value in (("--grid", grid), ("--kernel", kernel)):
        if value is not None and not run_:
            raise cli.ToolError(f"cuda-tile-diff: error: {option} says what --run runs, and is of no use without it")
    if left == right == "-":
        raise cli.ToolError("cuda-tile-diff: error: only one of A and B can be stdin")
    ours, theirs = _module(left), _module(right)
    if kernel is not None:
        from libtile.interpreter.entries import find_entry

        find_entry(ours.op, kernel)
    found = diff(ours, theirs, locations=locations)
    if not found:
        return
    if not run_:
        if not quiet:
            cli.show("".join(f"{difference}\n" for difference in found))
        ctx.exit(_DIFFERENT)
    from libtile.debugging.behaviour import compare_runs

    outcome = compare_runs(ours, theirs, kernel=kernel, runs=runs, seed=seed, grid=launch)
    if outcome.difference is not None:
        if not quiet:
            cli.show(f"{outcome.difference}\n")
        ctx.exit(_DIFFERENT)
    if not quiet:
        cli.say(f"the same in {outcome.runs} run{'' if outcome.runs == 1 else 's'}")


def _module(path: str) -> Module:
    """The module of a file, or of stdin for '-'."""
    from libtile.asm.module import parse, read
    from libtile.spec.model import BYTECODE_MAGIC

    data = cli.read_input(path)
    if data.startswith(BYTECODE_MAGIC):
        return read(data)
    module: Module = parse(cli.decode_text(data), filename=path)
    return module


def _grid(text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    from libtile.interpreter.entries import LaunchError
    from libtile.interpreter.launch import normal_grid

    try:
        return normal_grid([int(part) for part in text.split(",")])
    except ValueError:
        raise cli.ToolError(f"cuda-tile-diff: error: '{text}' is no grid: one to three whole numbers") from None
    except LaunchError as error:
        raise cli.ToolError(f"cuda-tile-diff: error: '{text}' is no grid: {error}") from None


def main() -> None:
    """The tool's entry point."""
    cli.run(command, misuse=_TROUBLE, failure=_TROUBLE)
