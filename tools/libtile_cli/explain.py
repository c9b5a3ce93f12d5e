# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`libtile explain`: what is wrong, slow or unusual about a kernel, in words."""

from __future__ import annotations

import os

import click

from libtile_cli import scripts
from libtile_tools import cli
from libtile_tools.click_command import Seconds

_MISUSE = 2


@click.command("libtile explain", cls=cli.Command, examples=(
    "libtile explain kernel.bc",
    "libtile explain --gpu-name=sm_100 --reference kernel.bc",
    "libtile explain script.py:matmul",
), statuses=(
    "0  nothing is wrong; what is slow or unusual does not count",
    "1  something is wrong, here or in NVIDIA's assembler, or the input is no module",
    f"{_MISUSE}  the command line is wrong",
))  # fmt: skip
@click.argument("file", metavar=scripts.METAVAR)
@click.option("--gpu-name", metavar="sm_NN", default="sm_90", show_default=True, help="The GPU to compile for.")
@click.option("--reference", is_flag=True,
              help="Compile with NVIDIA's tileiras as well; if it fails, find the ops that it fails on.")  # fmt: skip
@click.option("--seconds", metavar="N", type=Seconds(min=0), default=60.0, show_default=True,
              help="How long to look for these ops.")  # fmt: skip
@cli.version_option("CUDA Tile IR kernels, explained")
@click.pass_context
def command(ctx: click.Context, file: str, gpu_name: str, reference: bool, seconds: float) -> None:
    """Say what is wrong with a kernel, what makes it slow, and what is unusual, line by line.

    FILE is bytecode or text of Tile IR, '-' for stdin, or a Python script: it is run, with the interpreter in place of
    a GPU, and what it launches by ct.launch is explained; KERNEL says which, where it launches several.

    It is verified and compiled; remarks that something can be done about come with what that is, and the machine code
    is looked at for spills (with the ops that they are there for), loops that wait, and the warps that an SM holds.
    """
    from libtile.explore import explain
    from libtile.explore.explain import Weight
    from libtile.explore.reference import Reference

    found = Reference.find() if reference else None
    if reference and found is None:
        raise cli.ToolError(
            "libtile explain: error: NVIDIA's tileiras was not found: pip install nvidia-cuda-tileiras brings it"
        )
    told = explain(
        scripts.kernel_source(file, gpu_name), gpu_name, reference=found, source_folders=[os.curdir], seconds=seconds
    )
    cli.show(str(told))
    if any(finding.weight is Weight.WRONG for finding in told.findings):
        ctx.exit(1)


def main() -> None:
    """The tool's entry point."""
    cli.run(command, misuse=_MISUSE)
