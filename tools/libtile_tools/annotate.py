# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`python -m libtile.bytecode.annotate`: an annotated hex dump of a bytecode file."""

from __future__ import annotations

from libtile.bytecode import BytecodeError
from libtile.bytecode.annotate import annotate
from libtile.support.errors import visible
from libtile_tools import cli
from libtile_tools import command_line as click

_BAD_BYTECODE = 1
_NO_INPUT = 2


@click.command(
    "python -m libtile.bytecode.annotate",
    examples=("python -m libtile.bytecode.annotate kernel.bc | less",),
    statuses=(
        "0  done",
        f"{_BAD_BYTECODE}  the input is not valid Tile IR bytecode",
        f"{_NO_INPUT}  the command line is wrong, or the input cannot be read",
    ),
)
@click.argument("file")
@click.option("--allow-testing", is_flag=True, help="Accept the testing versions.")
@cli.preview_option
def command(file: str, allow_testing: bool, previews: frozenset[str]) -> None:
    """Print a hex dump of a bytecode FILE ('-' for stdin) that says what each byte means."""
    try:
        data = cli.read_input(file)
    except cli.ToolError as error:
        raise cli.ToolError(f"error: {error}", _NO_INPUT) from None
    try:
        dump = annotate(data, allow_testing=allow_testing, preview=tuple(previews))
    except BytecodeError as error:
        raise cli.ToolError(f"error: {visible(file)}: {error}", _BAD_BYTECODE) from None
    cli.write_output("-", dump)


def main() -> None:
    """The tool's entry point."""
    cli.run(command, misuse=_NO_INPUT)


if __name__ == "__main__":
    main()
