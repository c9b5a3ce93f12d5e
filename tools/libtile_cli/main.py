# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`libtile COMMAND ...`: all tools under one name, those with names of their own included."""

from __future__ import annotations

import importlib
import sys
from typing import NamedTuple

import click

from libtile_tools import cli

_MISUSE = 2


class Tool(NamedTuple):
    """A command: the module whose `command` it is, and what it does in a line."""

    module: str
    summary: str


TOOLS = {
    "explore": Tool("libtile_cli.explore", "A page that shows every stage of a compilation, side by side."),
    "explain": Tool("libtile_cli.explain", "What is wrong, slow or unusual about a kernel, in words."),
    "estimate": Tool("libtile_cli.estimate", "What bounds a launch of a kernel, with no GPU."),
    "tune": Tool("libtile_cli.tune", "Hints, levels, schedules and constants, ranked."),
    "compile": Tool("tileiras.main", "Bytecode to a cubin, or to a stage before it (tileiras)."),
    "run": Tool("cuda_tile_run.main", "Run a kernel, with a GPU or without (cuda-tile-run)."),
    "opt": Tool("cuda_tile_opt.main", "Run passes on text (cuda-tile-opt)."),
    "optimize": Tool("cuda_tile_optimize.main", "Optimize bytecode or text (cuda-tile-optimize)."),
    "translate": Tool("cuda_tile_translate.main", "Between text and bytecode (cuda-tile-translate)."),
    "disasm": Tool("tileirdisasm.main", "The text of a bytecode file (tileirdisasm)."),
    "diff": Tool("cuda_tile_diff.main", "Whether two files hold the same program (cuda-tile-diff)."),
    "reduce": Tool("cuda_tile_reduce.main", "The smallest program that still fails (cuda-tile-reduce)."),
    "annotate": Tool("libtile_tools.annotate", "A hex dump of a bytecode file that says what each byte means."),
    "layouts": Tool("libtile_tools.layouts", "Draw a layout."),
    "simulate": Tool("libtile_tools.simulator", "Run PTX in the simulator."),
    "server": Tool("libtile_cli.server", "Keep the compiler loaded, for tools to ask."),
    "completion": Tool("libtile_cli.completion", "The script that completes all these in bash, zsh and fish."),
}
"""By name, in the order in which they are listed."""


class Tools(click.Group):
    """The group of all tools, none of which is loaded for the list of them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(TOOLS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        tool = TOOLS.get(cmd_name)
        return click.Command(cmd_name, help=tool.summary, add_help_option=False) if tool is not None else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in TOOLS:
            from difflib import get_close_matches

            near = get_close_matches(args[0], TOOLS, 1)
            raise click.UsageError(
                f"there is no command '{args[0]}'"
                + (f"; did you mean '{near[0]}'?" if near else "; 'libtile --help' lists those that there are")
            )
        return super().resolve_command(ctx, args)


@click.group("libtile", cls=Tools, context_settings={"help_option_names": ["-h", "--help"]})
@cli.version_option("CUDA Tile IR tools")
def command() -> None:
    """All tools of libtile. 'libtile COMMAND --help' says more about each."""


def main() -> None:
    """The tool's entry point."""
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    if name not in TOOLS:
        cli.run(command, misuse=_MISUSE)
    del sys.argv[1]
    module = importlib.import_module(TOOLS[name].module)
    module.command.name = f"libtile {name}"  # as which it was called, and so calls itself
    module.main()
