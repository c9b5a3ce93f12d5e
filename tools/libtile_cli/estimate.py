# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`libtile estimate`: what bounds a launch of a kernel, without a GPU."""

from __future__ import annotations

import json
import os

from libtile_cli import scripts
from libtile_tools import cli, launching
from libtile_tools import command_line as click

_MISUSE = 2


@click.command("libtile estimate", examples=(
    "libtile estimate add.bc --grid 256 --arg zeros:f32:65536 --arg zeros:f32:65536 --arg zeros:f32:65536",
    "libtile estimate gemm.bc --gpu-name=sm_100 --grid 16,16 --arg a.npy --arg b.npy --arg c.npy --picture gemm.svg",
    "libtile estimate rows.py:scale --grid 64 --arg zeros:f16:64x512 --arg zeros:f16:64x512 --arg 128",
), statuses=(
    "0  done",
    "1  the module or an argument is wrong, or no peaks are known for the target",
    f"{_MISUSE}  the command line is wrong",
))  # fmt: skip
@click.argument("file", metavar=scripts.DEFINED)
@launching.kernel_option("The entry; may be left out when the module has one only.")
@launching.grid_option
@launching.arguments_option(scripts.ARGUMENT)
@click.option("--gpu-name", metavar="sm_NN", default="sm_90", show_default=True, help="The target.")
@click.option(
    "--opt-level",
    "-O",
    metavar="N",
    type=click.IntRange(0, 3),
    default=3,
    show_default=True,
    help="As of `libtile compile`.",
)
@click.option(
    "--blocks", type=click.IntRange(1), metavar="N", help="Simulate N tile blocks of a larger grid (default: 8)."
)
@click.option("--picture", metavar="FILE.svg", help="Draw the roofline and the resources.")
@click.option("--json", "as_json", is_flag=True, help="Print numbers for programs.")
@cli.version_option("CUDA Tile IR kernels, estimated")
def command(
    file: str, kernel: str | None, grid: tuple[int, ...], arguments: tuple[str, ...], gpu_name: str, opt_level: int,
    blocks: int | None, picture: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Say what bounds a launch of a kernel of FILE, and at which op: of bytecode or text of Tile IR, or a @ct.kernel of
    cuTile in a Python file.

    Some of the tile blocks run in the simulator. What they ask of device memory, tensor cores, issue slots, lanes and
    shared memory is held against the peaks of the target's GPU. This is an estimate: nothing is measured.
    """
    from libtile.asm.module import load
    from libtile.explore.estimate import BLOCKS, estimate
    from libtile.interpreter.entries import find_entry

    path, name = scripts.split(file)
    if path.endswith(".py"):
        from libtile.cutile.launching import flat_launch
        from libtile.cutile.scripts import kernel_in

        data, kernel, args = flat_launch(kernel_in(path, name), launching.python_arguments(arguments), gpu_name)
        module = load(data)
    else:
        module = load(cli.read_input("-") if file == "-" else file)
        args = launching.arguments_for(find_entry(module, kernel), arguments)
    told = estimate(
        module, kernel, grid=grid, args=args, gpu_name=gpu_name, opt_level=opt_level, blocks=blocks or BLOCKS,
        source_folders=[os.curdir],
    )  # fmt: skip
    if picture is not None:
        cli.write_output(picture, told.picture())
    cli.show(json.dumps(told.as_data(), indent=1) + "\n" if as_json else str(told))


def main() -> None:
    """The tool's entry point."""
    cli.run(command, misuse=_MISUSE)
