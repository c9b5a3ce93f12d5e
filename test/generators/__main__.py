# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs random programs by hand: `python -m generators 0:1000`, in `test/`."""

from __future__ import annotations

import time
from pathlib import Path

import click

import libtile
from generators import saved
from generators.check import (
    TARGETS,
    failure,
    failure_behind_pipelines,
    failure_in_pieces,
    failure_of_a_pass,
    parsed,
)
from generators.core import Program
from generators.pipelines import every
from generators.programs import PROFILES, QUEUES, TENSORS, program
from libtile.support.collector import collector_paused


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("seeds")
@click.option(
    "--profile", type=click.Choice([*PROFILES, QUEUES, TENSORS]), default="all", help="What kind of programs."
)
@click.option("--target", "targets", multiple=True, default=TARGETS, help="Targets to compile for (default: all four).")
@click.option("--print", "print_", is_flag=True, help="Print the programs, and run nothing.")
@click.option("--save", type=click.Path(path_type=Path), help="Write the program to a file, and run nothing.")
@click.option("--reduce", "reduce_", is_flag=True, help="Make each program that fails smaller, and print it.")
@click.option("--pieces", is_flag=True, help="Work through tiles of more than eight words in pieces.")
@click.option(
    "--pipeline", "pipelines", multiple=True,
    help="Run the program again behind such passes, and in no simulator; 'all' are those of generators/pipelines.py.",
)  # fmt: skip
@click.option(
    "--passes", is_flag=True, help="Run the program behind each pass of the lowering for one of the targets, in turn."
)
@click.option("--seconds", type=float, default=float("inf"), help="Stop after so many seconds.")
def main(
    seeds: str,
    profile: str,
    targets: tuple[str, ...],
    print_: bool,
    save: Path | None,
    reduce_: bool,
    pieces: bool,
    pipelines: tuple[str, ...],
    passes: bool,
    seconds: float,
) -> None:
    """Run the random programs of SEEDS (a number, or FIRST:END) on the interpreter and in the simulator."""
    chosen = [each for name in pipelines for each in (every() if name == "all" else [name])]
    first, _, end = seeds.partition(":")
    started, failed, seed = time.monotonic(), 0, int(first)
    for seed in range(int(first), int(end or int(first) + 1)):
        made = program(seed, profile)
        if save is not None:
            saved.save(made, save)
            continue
        if print_:
            click.echo(made.text)
            continue
        if chosen:
            with collector_paused():
                problems = failure_behind_pipelines(made, chosen)
            for found in problems:
                failed += 1
                click.echo(f"seed {seed}, {found}")
            if (seed - int(first)) % 50 == 49:
                click.echo(f"{seed - int(first) + 1} programs, {time.monotonic() - started:.0f} s", err=True)
            if time.monotonic() - started > seconds:
                break
            continue
        run = failure_of_a_pass if passes else failure_in_pieces if pieces else failure
        for target in (targets[seed % len(targets)],) if passes else targets:
            found = run(made, target)
            if found is not None:
                failed += 1
                click.echo(f"seed {seed}, {target}: {found}")
                if reduce_ and not passes:
                    click.echo(reduced(made, target, found))
                break
        if time.monotonic() - started > seconds:
            break
    if not print_ and save is None:
        click.echo(f"{seed - int(first) + 1} programs, {failed} failed")
    raise SystemExit(failed > 0)


def reduced(made: Program, target: str, found: str) -> str:
    """A small program that fails in the same manner."""
    kind = found.partition(":")[0]
    small = libtile.reduce(
        parsed(made),
        lambda module: (failure(made, target, text=str(module)) or "").partition(":")[0] == kind,
        progress=lambda progress, _: click.echo(f"{progress.ops} ops", err=True),
    )
    return str(small)


if __name__ == "__main__":
    main()
