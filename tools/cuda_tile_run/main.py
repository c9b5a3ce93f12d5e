# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""cuda-tile-run: run a kernel with no GPU."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from libtile.support.limits import INTERPRETER_STEPS, SIMULATOR_STEPS
from libtile_tools import cli, launching
from libtile_tools import command_line as click

if TYPE_CHECKING:
    from libtile.interpreter import RunResult

EXAMPLES = (
    "cuda-tile-run add.bc --grid 64 --arg x.npy --arg y.npy --arg zeros:f32:65536 --out 2:z.npy",
    "cuda-tile-run gemm.bc --kernel gemm --grid 8,8 --arg a.npy --arg b.npy --arg zeros:f32:512x512 --out 2:c.npy",
    "cuda-tile-run kernel.mlir --describe                    what parameters each kernel takes",
    "cuda-tile-run kernel.bc --check=full --block-order=7 ... look for data races and order dependence",
)
STATUSES = (
    "0  the kernel ran",
    "1  the command line, the module or an argument is wrong, or the kernel had a fault; stderr says what and where",
)


def save_outputs(outputs: list[tuple[int, str]], args: list[Any]) -> None:
    """Write arrays to .npy files, whole or not at all."""
    import io

    import numpy as np

    for position, path in outputs:
        buffer = io.BytesIO()
        np.save(buffer, args[position])
        cli.write_output(path, buffer.getvalue())


def parse_outputs(texts: tuple[str, ...], args: list[Any], kernel_file: str) -> list[tuple[int, str]]:
    """`N:FILE` pairs; argument N must be an array, and no FILE another one's, or the kernel's."""
    outputs: list[tuple[int, str]] = []
    for text in texts:
        head, _, path = text.partition(":")
        if not launching.is_count(head) or not path:
            raise cli.ToolError(f"error: '{text}' is not an output: give N:FILE.npy, N being the number of an argument")
        if int(head) >= len(args) or not hasattr(args[int(head)], "dtype"):
            raise cli.ToolError(f"error: '{text}': argument {head} is not an array")
        if cli.same_file(path, kernel_file) or any(cli.same_file(path, other) for _, other in outputs):
            raise cli.ToolError(f"error: '{text}': the file is the kernel's, or another output's")
        cli.check_output(path)
        outputs.append((int(head), path))
    return outputs


def progress_line(enabled: bool) -> Callable[[int, int], None] | None:
    """A counter on stderr that appears after a second and is redrawn ten times a second."""
    if not enabled:
        return None
    started = last = time.monotonic()

    def show(done: int, total: int) -> None:
        nonlocal last
        now = time.monotonic()
        if now - started > 1 and (now - last > 0.1 or done == total):
            last = now
            end = "\n" if done == total else ""
            sys.stderr.write(f"\r{done} of {total} tile blocks, {now - started:.0f} s{end}")
            sys.stderr.flush()

    return show


def summary(result: RunResult) -> str:
    """One line on what a run did: what its backend counts."""
    grid = " x ".join(map(str, result.grid))
    counts = [
        f"{number} {what}"
        for number, what in (
            (result.ops, "ops"),
            (result.warp_instructions, "warp instructions"),
            (result.bytes_read, "bytes read"),
            (result.bytes_written, "bytes written"),
            (result.bank_conflicts, "bank conflicts"),
        )
        if number is not None
    ]
    blocks = f"{result.blocks} tile block{'' if result.blocks == 1 else 's'}"
    if (result.processes or 1) > 1:
        counts.append(f"{result.processes} processes")
    return f"@{result.kernel}: {', '.join([f'{blocks} ({grid})', *counts])}, {result.seconds:.3f} s"


@click.command(
    name="cuda-tile-run",
    short_help="Run a Tile IR kernel.",
    examples=EXAMPLES,
    statuses=STATUSES,
)
@click.argument("kernel_file", metavar="KERNEL_FILE")
@launching.kernel_option("The entry to run; may be left out when the module has one only.")
@launching.grid_option
@launching.arguments_option(launching.ARGUMENT)
@click.option("--out", "outputs", multiple=True, metavar="N:FILE", help="Write argument N to FILE after the run.")
@click.option(
    "--backend",
    type=click.Choice(["interpreter", "simulator", "gpu"]),
    default="interpreter",
    show_default=True,
    help="What runs the kernel.",
)
@click.option("--gpu-name", metavar="SM", help="The target to compile for (simulator and gpu).")
@click.option(
    "--launch-abi",
    type=click.Choice(["tileir", "simt"]),
    help="How the gpu is to launch it: as Tile IR, or as an ordinary kernel; default: what the driver can do.",
)
@click.option(
    "--check",
    metavar="CHECKS",
    default="basic",
    show_default=True,
    help="Undefined behaviour to look for: off, basic, full (adds data races, uninitialised elements and loads of "
    "padding alone), and single checks, with commas; a minus takes one away, as in full,-view-range. nan, in none of "
    "these, finds where the first NaN comes from.",
)
@click.option(
    "--block-order",
    metavar="ORDER",
    default=None,
    help="Run tile blocks in 'reverse' order, or in a random one that this seed gives.",
)
@click.option(
    "--processes",
    type=int,
    default=None,
    metavar="N",
    help="Processes of the interpreter or the simulator; default: one for each processor, on a large grid whose blocks "
    "cannot depend on each other.",
)
@click.option(
    "--max-steps",
    type=int,
    default=None,
    metavar="N",
    help="Ops of a tile block in the interpreter, or instructions of its warps in the simulator, after which a loop is "
    f"taken for an endless one; default: {INTERPRETER_STEPS} and {SIMULATOR_STEPS}.",
)
@click.option("--trace", is_flag=True, help="Print a line on stderr for each op, with a summary of its results.")
@click.option("--trace-limit", type=int, default=None, metavar="N", help="Stop tracing after N lines.")
@click.option("--describe", is_flag=True, help="Print what parameters the kernels take, and exit.")
@click.option("--quiet", is_flag=True, help="No summary and no progress.")
@cli.version_option("runs Tile IR kernels")
def command(
    kernel_file: str,
    kernel: str | None,
    grid: tuple[int, ...],
    arguments: tuple[str, ...],
    outputs: tuple[str, ...],
    backend: str,
    gpu_name: str | None,
    launch_abi: str | None,
    check: str,
    block_order: str | None,
    processes: int | None,
    max_steps: int | None,
    trace: bool,
    trace_limit: int | None,
    describe: bool,
    quiet: bool,
) -> None:
    """Run a kernel of KERNEL_FILE (bytecode or text, - for stdin) on numpy arrays, with no GPU or on one.

    The file may also be a module of nv_tileaa or nv_tileas.
    Arguments are the entry's parameters in order; sizes and strides that are left out are the arrays' own. Arrays are
    the kernel's memory: --out saves what it wrote.
    """
    from libtile.asm.module import load
    from libtile.interpreter.entries import entries, find_entry
    from libtile.interpreter.faults import InterpreterFault
    from libtile.interpreter.trace import Tracer
    from libtile.runtime.run import run

    if trace_limit is not None and (trace_limit < 0 or not trace):
        why = "there is no --trace" if not trace else "give 0 or more"
        raise cli.ToolError(f"error: '--trace-limit {trace_limit}': {why}")
    module = load(cli.read_input("-") if kernel_file == "-" else kernel_file)
    if describe:
        chosen = list(entries(module)) if kernel is None else [find_entry(module, kernel)]
        cli.write_output("-", "".join(f"{e.describe()}\n" for e in chosen))
        return
    entry = find_entry(module, kernel)
    args = launching.arguments_for(entry, arguments)
    destinations = parse_outputs(outputs, args, kernel_file)
    try:
        result = run(
            module,
            entry.name,
            grid=grid,
            args=args,
            backend=backend,
            gpu_name=gpu_name,
            launch_abi=launch_abi,
            check=check,
            block_order=_order(block_order),
            trace=Tracer(sys.stderr, trace_limit) if trace else None,
            progress=progress_line(backend != "gpu" and not quiet and sys.stderr.isatty()),
            processes=processes,
            max_steps=max_steps,
            out=cli.stdout_for_kernels(),
        )
    except InterpreterFault as fault:
        raise cli.ToolError(str(fault)) from None  # it has the form of a diagnostic already
    save_outputs(destinations, args)
    if not quiet:
        click.echo(summary(result), err=True)


def _order(text: str | None) -> int | str | None:
    if text is None or text == "reverse":
        return text
    if not launching.is_count(text):
        raise cli.ToolError(f"error: '{text}' is not a block order: give 'reverse' or a number, the seed")
    return int(text)


def main() -> None:
    """Entry point of the installed script."""
    cli.run(command)
