# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs a fuzzer by hand: `python -m fuzz text --seeds 0:10000 --jobs 2`, in `test/`."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import click

from fuzz import FUZZERS, fuzzer
from fuzz.framework import Failure, run


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("kind", type=click.Choice(list(FUZZERS)))
@click.option("--seeds", default="0:1000", metavar="FIRST:END", help="The seeds to run, or one seed.")
@click.option("--jobs", type=click.IntRange(1), default=1, help="Processes.")
@click.option("--seconds", type=float, default=float("inf"), help="Stop after so many seconds.")
@click.option("--show", is_flag=True, help="Write the input of the first seed to stdout, and run nothing.")
@click.option("--keep", type=click.Path(path_type=Path), help="Write the inputs that fail into this folder.")
def main(kind: str, seeds: str, jobs: int, seconds: float, show: bool, keep: Path | None) -> None:
    """Run the inputs of a range of seeds, and report those that fail: by cause, with the first seeds of each."""
    first, _, end = seeds.partition(":")
    chosen = fuzzer(kind)
    if show:
        sys.stdout.buffer.write(chosen.show(chosen.input(int(first))))
        return
    shown: Counter[str] = Counter()

    def notify(failure: Failure) -> None:
        shown[failure.kind] += 1
        if shown[failure.kind] <= 3:
            click.echo(f"seed {failure.seed}: {failure.text}")
        if keep is not None:
            keep.mkdir(parents=True, exist_ok=True)
            (keep / f"{kind}-{failure.seed}").write_bytes(chosen.show(chosen.input(failure.seed)))

    report = run(chosen, range(int(first), int(end or int(first) + 1)), jobs, seconds, notify)
    for name, count in shown.most_common():
        click.echo(f"{count} times {name}")
    click.echo(report.summary())
    raise SystemExit(130 if report.interrupted else bool(report.failures))


if __name__ == "__main__":
    main()
