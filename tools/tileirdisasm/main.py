# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`tileirdisasm`: the text of Tile IR bytecode, as NVIDIA's tool of this name prints it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from libtile.support.errors import LibtileError
from libtile_tools import cli
from libtile_tools import command_line as click

if TYPE_CHECKING:
    from libtile import bytecode

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

    if not bytecode.is_bytecode(data):
        note = f"\n{bytecode.IS_TEXT}" if bytecode.is_text(data) else ""
        message = f"error: input does not correspond to Tile IR bytecode{note}"
        raise cli.ToolError(message, status=_BAD_BYTECODE, several_lines=True)
    try:
        module = bytecode.read(data, preview=previews)
        if not debuginfo:
            from libtile.asm.record_text import disassembled

            text = disassembled(module)
            if text is not None:
                return text
            module = bytecode.read(data, preview=previews)
        return _converted(module, debuginfo)
    except bytecode.BytecodeError as error:
        raise _refused(error) from None


def _converted(module: bytecode.Module, debuginfo: bool) -> str:
    """The text of a module by way of all its ops, which takes longer."""
    from libtile.asm.diagnosis import diagnose
    from libtile.asm.disasm_names import disassembly
    from libtile.dialects.cuda_tile.bridge import light_ir
    from libtile.support.diagnostics import DiagnosticError, has_errors

    op = light_ir(module)
    problems = diagnose(op)
    if has_errors(problems):
        raise _refused(DiagnosticError(problems))
    return disassembly(op, debuginfo=debuginfo)


def _refused(error: LibtileError) -> cli.ToolError:
    lines = str(error).split("\n")
    text = "\n".join(line if line.startswith("error:") else f"error: {line}" for line in lines)
    text += "\nerror: failed to read provided Tile IR bytecode"
    return cli.ToolError(text, status=_BAD_BYTECODE, several_lines=True)


def main() -> None:
    """The tool's entry point."""
    cli.run(command)
