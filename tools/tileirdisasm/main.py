# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`tileirdisasm`: the text of Tile IR bytecode, as NVIDIA's tool of this name prints it."""

from __future__ import annotations

from libtile_tools import cli
from libtile_tools import command_line as click

_NO_INPUT = 2
_BAD_BYTECODE = 3


@click.command(
    "tileirdisasm",
    examples=(
        "tileirdisasm kernel.bc",
        "tileirdisasm -g kernel.bc > kernel.mlir",
        "tileirdisasm --preview=simt kernel.bc",
    ),
    statuses=(
        "0  done",
        "1  the command line is wrong",
        f"{_NO_INPUT}  there is no input, or it cannot be read",
        f"{_BAD_BYTECODE}  the input is not valid Tile IR bytecode",
    ),
)
@click.argument("input_", metavar="TILE_BYTECODE_FILE", required=False)
@click.option("-g", "--print-debug-info", "debuginfo", is_flag=True, help="Print locations and debug information.")
@cli.preview_option
@cli.version_option("CUDA Tile IR disassembler")
@click.pass_context
def command(ctx: click.Context, input_: str | None, debuginfo: bool, previews: frozenset[str]) -> None:
    """Print the text of Tile IR bytecode on stdout.

    '-' stands for stdin. Long options may be given with one dash or two.
    """
    if input_ is None:
        click.echo(ctx.get_help())
        raise cli.ToolError("error: no input file provided", status=_NO_INPUT)
    text = _disassemble(_read(input_), debuginfo, previews)
    cli.write_output("-", text)


for _name in ("--help-list", "--help-hidden", "--help-list-hidden"):
    command.add_option(_name, is_flag=True, is_eager=True, expose_value=False, hidden=True, callback=cli.show_help)
for _name in ("--print-options", "--print-all-options"):  # the original takes them, and prints nothing more for them
    command.add_option(_name, is_flag=True, expose_value=False, hidden=True)


def _read(path: str) -> bytes:
    try:
        return cli.read_input(path)
    except cli.ToolError as error:
        reason = str(error).rpartition("': ")[2]
        raise cli.ToolError(f"error: unable to read input file '{path}': {reason}", status=_NO_INPUT) from None


def _disassemble(data: bytes, debuginfo: bool, previews: frozenset[str]) -> str:
    from libtile import bytecode
    from libtile.asm.module import diagnose
    from libtile.asm.record_text import disassembled
    from libtile.dialects.cuda_tile.bridge import from_bytecode
    from libtile.support.diagnostics import DiagnosticError, has_errors

    if not bytecode.is_bytecode(data):
        raise cli.ToolError("error: input does not correspond to Tile IR bytecode", status=_BAD_BYTECODE)
    try:
        text = None if debuginfo else disassembled(bytecode.read(data, preview=previews))
        if text is not None:
            return text
        op = from_bytecode(bytecode.read(data, preview=previews))
        problems = diagnose(op)
        if has_errors(problems):
            raise DiagnosticError(problems)
    except (bytecode.BytecodeError, DiagnosticError) as error:
        lines = str(error).split("\n")
        text = "\n".join(line if line.startswith("error:") else f"error: {line}" for line in lines)
        message = f"{text}\nerror: failed to read provided Tile IR bytecode"
        raise cli.ToolError(message, status=_BAD_BYTECODE) from None
    from libtile.asm.disasm_names import disassembly

    return disassembly(op, debuginfo=debuginfo)


def main() -> None:
    """The tool's entry point."""
    cli.run(command)
