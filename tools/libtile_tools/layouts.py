# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`python -m libtile.layouts show ...`: pictures of layouts."""

from __future__ import annotations

import sys

import click

from libtile.layouts import builders, show
from libtile.layouts.linear import LinearLayout
from libtile.layouts.row_swizzles import RowSwizzle
from libtile_tools import cli

_MISUSE = 2


def _ints(text: str, what: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.replace("x", ",").split(","))
    except ValueError:
        raise click.BadParameter(f"{what} must be numbers like 16x8, got {text!r}") from None


@click.group("python -m libtile.layouts", context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """Draw linear layouts."""


@command.command(
    "show",
    epilog="Examples:\n\n"
    "  python -m libtile.layouts show mma-c 16x8\n\n"
    "  python -m libtile.layouts show blocked 16x16 --size-per-thread 1x4 --threads 8x4 --warps 1x1 -o layout.svg\n\n"
    "  python -m libtile.layouts show shared 8x64 --bits 16 --swizzle 128\n\n"
    "Exit status: 0, or 2 when the options do not describe a layout.",
)
@click.argument("kind", type=click.Choice(["blocked", "mma-a", "mma-b", "mma-c", "wgmma-c", "shared"]))
@click.argument("shape")
@click.option(
    "--size-per-thread",
    metavar="NxN",
    show_default=True,
    default="1x1",
    help="Elements that a thread holds side by side (blocked).",
)
@click.option(
    "--threads", metavar="NxN", show_default=True, default="8x4", help="Threads of a warp by dimension (blocked)."
)
@click.option("--warps", metavar="NxN", show_default=True, default="1x1", help="Warps by dimension.")
@click.option(
    "--order",
    metavar="D,D",
    show_default=True,
    default="1,0",
    help="Dimensions from the fastest-moving (blocked, shared).",
)
@click.option(
    "--bits", metavar="N", show_default=True, default=16, help="Element width in bits (mma-a, mma-b, shared)."
)
@click.option(
    "--swizzle", metavar="BYTES", show_default=True, default=0, help="Swizzle in bytes: 0, 32, 64 or 128 (shared)."
)
@click.option("-o", "--output", metavar="FILE", help="Write SVG to this file instead of text.")
def show_command(
    kind: str,
    shape: str,
    size_per_thread: str,
    threads: str,
    warps: str,
    order: str,
    bits: int,
    swizzle: int,
    output: str | None,
) -> None:
    """Show the layout KIND of a tile of SHAPE (such as 16x8)."""
    try:
        layout = _layout(kind, _ints(shape, "SHAPE"), size_per_thread, threads, warps, order, bits, swizzle)
        if output is None:
            color = sys.stdout is not None and sys.stdout.isatty()
            click.echo(show.terminal(layout, color=color), nl=False, color=True)
        else:
            cli.write_output(output, show.svg(layout, f"{kind} {shape}"))
    except (ValueError, IndexError) as problem:
        raise click.UsageError(str(problem)) from None


def _layout(
    kind: str,
    shape: tuple[int, ...],
    size_per_thread: str,
    threads: str,
    warps: str,
    order: str,
    bits: int,
    swizzle: int,
) -> LinearLayout:
    warp_grid = _ints(warps, "--warps")
    if len(shape) != 2:
        raise ValueError("SHAPE must have two dimensions")
    match kind:
        case "blocked":
            return builders.blocked(
                shape,
                _ints(size_per_thread, "--size-per-thread"),
                _ints(threads, "--threads"),
                warp_grid,
                _ints(order, "--order"),
            )
        case "mma-c":
            return builders.mma_result(shape, warp_grid)
        case "mma-a" | "mma-b":
            return builders.mma_operand(shape, warp_grid, bits, kind[-1])
        case "wgmma-c":
            if shape[0] != 64:
                raise ValueError("wgmma accumulators have 64 rows")
            return builders.wgmma_accumulator(shape[1])
        case _:
            return builders.nvmma_shared(shape, bits, RowSwizzle(swizzle), _ints(order, "--order"))


def main() -> None:
    """The tool's entry point."""
    cli.run(command, misuse=_MISUSE)


if __name__ == "__main__":
    main()
