# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`python -m libtile.simulator`: run a kernel of a PTX file from .npy files and numbers."""

from __future__ import annotations

import io
import re
from typing import Any

import click
import numpy as np

from libtile.simulator import PtxError, parse_ptx, run_ptx
from libtile.simulator.ir import Instruction
from libtile.support.errors import visible
from libtile.support.limits import SIMULATOR_STEPS
from libtile_tools import cli
from libtile_tools.launching import load_array

_SCALARS = {
    "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
    "u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64,
    "f16": np.float16, "f32": np.float32, "f64": np.float64,
}  # fmt: skip

_EPILOG = """
\b
Arguments, in the order of the entry's parameters:
  FILE.npy          a pointer to the array in the file
  zeros:f32:16x16   a pointer to a fresh array of zeros (any type below, any shape)
  i32:7  f32:1.5    a scalar: i8 i16 i32 i64 u8 u16 u32 u64 f16 f32 f64
  hex:0a0b0c0d      the bytes of a by-value structure
"""
_EXAMPLES = (
    "python -m libtile.simulator add.ptx --entry add --grid 4 --block 256 \\",
    "    --arg a.npy --arg b.npy --arg zeros:f32:1000 --arg i32:1000 --out 2:c.npy",
    "python -m libtile.simulator k.ptx --entry k --block 32 --arg a.npy --trace --seed 7",
)
_MISUSE = 2
_STATUSES = ("0  done", "1  the kernel failed, or the PTX is wrong", f"{_MISUSE}  the command line is wrong")


class _Dim3(click.ParamType):
    name = "X[,Y[,Z]]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        if isinstance(value, tuple):
            return value
        try:
            sizes = tuple(int(part) for part in str(value).split(","))
        except ValueError:
            self.fail(f"{value!r} is not one to three numbers", param, ctx)
        if not 1 <= len(sizes) <= 3 or min(sizes) < 1:
            self.fail(f"{value!r} is not one to three positive numbers", param, ctx)
        return sizes


def parse_argument(text: str) -> Any:
    """One --arg as a value for run_ptx. Raises click.UsageError."""
    kind, _, value = text.partition(":")
    try:
        if text.endswith(".npy"):
            return load_array(text)
        if kind == "hex":
            return bytes.fromhex(value)
        if kind == "zeros":
            name, _, shape = value.partition(":")
            return np.zeros([int(n) for n in re.split("[x,]", shape)], dtype=_SCALARS[name])
        if kind in _SCALARS:
            number = float(value) if kind[0] == "f" else int(value, 0)
            return np.array(number, dtype=_SCALARS[kind])[()]
    except KeyError:
        raise click.UsageError(f"--arg {text}: the type is none of {', '.join(_SCALARS)}") from None
    except cli.ToolError as error:
        raise click.UsageError(str(error).removeprefix("error: ")) from None
    except (ValueError, OverflowError, MemoryError) as error:
        raise click.UsageError(f"--arg {text}: {error}") from None
    raise click.UsageError(f"--arg {text}: expected FILE.npy, TYPE:VALUE, zeros:TYPE:SHAPE or hex:BYTES")


def _print_trace(ctaid: tuple[int, int, int], warp: int, mask: int, ins: Instruction) -> None:
    place = ",".join(str(x) for x in ctaid)
    click.echo(f"({place}) w{warp:<2} {mask:08x} {ins.line:5}: {ins.text}", err=True)


def _destinations(outputs: tuple[str, ...], arguments: list[Any], file: str) -> list[tuple[np.ndarray, str]]:
    """The arrays to save, and where: each in a file of its own."""
    found: list[tuple[np.ndarray, str]] = []
    for text in outputs:
        index, _, path = text.partition(":")
        if not (index.isascii() and index.isdigit()) or len(index) > 9 or not path or int(index) >= len(arguments):
            raise click.UsageError(f"--out {text}: expected INDEX:FILE.npy with the index of an argument")
        array = arguments[int(index)]
        if not isinstance(array, np.ndarray):
            raise click.UsageError(f"--out {text}: argument {index} is not an array")
        if cli.same_file(path, file) or any(cli.same_file(path, other) for _, other in found):
            raise click.UsageError(f"--out {text}: the file is the kernel's, or another output's")
        cli.check_output(path)
        found.append((array, path))
    return found


def _save(destinations: list[tuple[np.ndarray, str]]) -> None:
    for array, path in destinations:
        buffer = io.BytesIO()
        np.save(buffer, array)
        cli.write_output(path, buffer.getvalue())


@click.command("python -m libtile.simulator", cls=cli.Command, epilog=_EPILOG, examples=_EXAMPLES, statuses=_STATUSES)
@click.argument("file")
@click.option("--entry", metavar="NAME", required=True, help="Name of the kernel.")
@click.option("--grid", type=_Dim3(), default=(1,), help="CTAs in each direction.")
@click.option("--block", type=_Dim3(), default=(1,), help="Threads of a CTA in each direction.")
@click.option("--cluster", type=_Dim3(), default=(1,), help="CTAs of a cluster in each direction.")
@click.option("--arg", "arguments", multiple=True, metavar="ARG", help="The next argument (see below).")
@click.option("--out", "outputs", multiple=True, metavar="INDEX:FILE", help="Save an array argument afterwards.")
@click.option("--dynamic-shared", metavar="BYTES", type=click.IntRange(0), default=0, help="Dynamic shared memory.")
@click.option(
    "--checks",
    metavar="CHECKS",
    default="full",
    show_default=True,
    help="What to check: off, basic, full, and single checks, with commas; a minus takes one away.",
)
@click.option(
    "--seed", metavar="N", type=int, default=None, help="Run warps in a random order that this number decides."
)
@click.option(
    "--processes", metavar="N", type=click.IntRange(1), default=1, show_default=True, help="Run CTAs in parallel."
)
@click.option(
    "--max-instructions",
    metavar="N",
    type=click.IntRange(1),
    default=None,
    help=f"Stop when the warps of a CTA have executed so many instructions together (default: {SIMULATOR_STEPS}).",
)
@click.option("--trace", is_flag=True, help="Print each instruction of each warp to stderr.")
@click.option("--stats/--no-stats", default=False, help="Print counters afterwards.")
def command(
    file: str,
    entry: str,
    grid: tuple[int, ...],
    block: tuple[int, ...],
    cluster: tuple[int, ...],
    arguments: tuple[str, ...],
    outputs: tuple[str, ...],
    dynamic_shared: int,
    checks: str,
    seed: int | None,
    processes: int,
    max_instructions: int | None,
    trace: bool,
    stats: bool,
) -> None:
    """Run a kernel of a PTX FILE ('-' for stdin) on the CPU, with checks."""
    values = [parse_argument(text) for text in arguments]
    destinations = _destinations(outputs, values, file)
    text = cli.read_input(file).decode("utf-8", errors="replace")
    try:
        result = run_ptx(
            parse_ptx(text, file),
            entry,
            grid=grid,
            block=block,
            cluster=cluster,
            args=values,
            dynamic_shared=dynamic_shared,
            checks=checks,
            order=seed,
            trace=_print_trace if trace else None,
            processes=processes,
            max_instructions=max_instructions,
        )
    except PtxError as error:
        raise cli.ToolError(visible(str(error))) from None  # it has the form of a diagnostic already
    if result.output:
        cli.write_output("-", result.output)
    _save(destinations)
    if stats:
        click.echo(result.summary(), err=True)


def main() -> None:
    """The tool's entry point."""
    cli.run(command, misuse=_MISUSE)


if __name__ == "__main__":
    main()
