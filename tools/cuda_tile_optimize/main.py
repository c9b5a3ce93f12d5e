# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`cuda-tile-optimize`: Tile IR in, the same program optimized out, for any consumer of Tile IR."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from libtile.support.errors import LibtileError
from libtile_tools import cli, mlir_options, pass_options
from libtile_tools import command_line as click

if TYPE_CHECKING:
    from libtile.asm.module import Module
    from libtile.support.diagnostics import Diagnostic


@click.command(
    "cuda-tile-optimize",
    examples=(
        "cuda-tile-optimize kernel.bc",
        "cuda-tile-optimize -O2 --emit-bytecode kernel.bc -o optimized.bc",
        "cuda-tile-optimize --before='loop-split{split-threshold=4}' --after=dce kernel.mlir -o optimized.mlir",
        "cuda-tile-optimize --remarks=missed --pass-statistics -q kernel.bc",
        "cuda-tile-optimize --fuse-fma --emit-bytecode kernel.bc -o - | cuda-tile-diff --run kernel.bc -",
    ),
)
@click.argument("input_", metavar="INPUT")
@click.option("-o", "--output-file", "output", metavar="FILE", help="Write to FILE ('-' is stdout).")
@click.option("-q", "--quiet", is_flag=True, help="Print nothing where no FILE is named.")
@click.option("--emit-bytecode", is_flag=True, help="Write bytecode to FILE, and not text.")
@click.option("--run-before-default-pipeline", "--before", "before", metavar="PIPELINE", default="",
              help="Run a textual pipeline in front of the level's.")  # fmt: skip
@click.option("--run-after-default-pipeline", "--after", "after", metavar="PIPELINE", default="",
              help="Run a textual pipeline behind the level's.")  # fmt: skip
@click.option("--fuse-fma", is_flag=True, help="Fuse products and sums first, which changes last bits.")
@click.option("-O", "--opt-level", "level", metavar="N", type=click.IntRange(0, 3), default=3, show_default=True,
              help="The optimization level.")  # fmt: skip
@click.option("-v", "--verbose", is_flag=True, help="Show the pipeline on stderr, and the text also beside FILE.")
@click.option("--enable-multithread", is_flag=True, help="Accepted: one thread works.")
@mlir_options.add_watching
@mlir_options.add_help
@pass_options.add
@pass_options.add_remarks
@cli.version_option("CUDA Tile IR -> CUDA Tile IR optimizer")
def command(
    input_: str,
    output: str | None,
    quiet: bool,
    emit_bytecode: bool,
    before: str,
    after: str,
    fuse_fma: bool,
    level: int,
    verbose: bool,
    enable_multithread: bool,
    **given: Any,
) -> None:
    """Optimize a program of cuda_tile, and write it as cuda_tile again.

    INPUT is bytecode or text, or '-' for stdin. What the program does stays the same to the bit, but for --fuse-fma.
    The output is text unless --emit-bytecode asks for bytecode, which goes to a FILE only.
    """
    from libtile.api import optimize
    from libtile.asm.module import print_module
    from libtile.passes.pipeline import parse_pipeline
    from libtile.passes.pipelines import tile_pipeline

    if emit_bytecode and output is None and not quiet:
        raise cli.ToolError("cuda-tile-optimize: error: --emit-bytecode needs an output file: -o FILE")
    module, source = _read(input_)
    pipeline = ", ".join(filter(None, (before, tile_pipeline(level, fuse_fma), after)))
    if verbose:
        cli.say(f"Pipeline: {pipeline}")
    watch = pass_options.watch(given, mlir_options.printer(given))
    try:
        if given["dump_pipeline"]:
            mlir_options.say_pipeline(parse_pipeline(pipeline))
        with pass_options.remarks_of_passes(given), pass_options.reports(given, watch):
            verify = given["verify_each"] is not False
            optimized = optimize(
                module, level, fuse_fma=fuse_fma, before=before, after=after, verify=verify,
                instruments=watch.instruments,
            )  # fmt: skip
    except LibtileError as error:
        raise cli.ToolError(cli.render_error(error, source, input_), several_lines=True) from None
    if output is not None:
        cli.write_output(
            output, _bytecode(optimized, source, input_, given) if emit_bytecode else print_module(optimized)
        )
    if (verbose and output not in (None, "-")) or (output is None and not quiet):
        cli.write_output("-", print_module(optimized))


def _bytecode(module: Module, source: list[str] | None, filename: str, given: dict[str, Any]) -> bytes:
    """The module as `libtile.write` writes it; what that leaves out is said, if warnings are wanted."""
    from libtile.dialects.cuda_tile.to_bytecode import write_bytecode

    left_out: list[Diagnostic] = []
    data = write_bytecode(module.tile_module, since=module.version, warnings=left_out)
    if not given["error_diagnostics_only"]:
        cli.report(left_out, source, filename)
    return data


def _read(path: str) -> tuple[Module, list[str] | None]:
    """The module of a file or of stdin, and the lines of its text."""
    from libtile.asm.module import parse, read
    from libtile.spec.model import BYTECODE_MAGIC

    data = cli.read_input(path)
    if data.startswith(BYTECODE_MAGIC):
        return read(data), None
    text = cli.decode_text(data)
    return parse(text, filename=path), text.split("\n")


def main() -> None:
    """The tool's entry point."""
    cli.run(command)
