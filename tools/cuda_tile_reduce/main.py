# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`cuda-tile-reduce`: the smallest program found on which a command still does what it is tested for."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import tempfile
import time
from typing import IO, TYPE_CHECKING

from libtile.support.records import dataclass
from libtile_tools import cli, stopping
from libtile_tools import command_line as click
from libtile_tools.click_command import Seconds

if TYPE_CHECKING:
    from libtile.asm.module import Module
    from libtile.debugging.reduction import Progress

_PLACE = "{}"
_MOST_PRINTED = 1 << 26
"""Bytes that a command may print where what it prints matters."""
_GLANCE = 0.1
"""Seconds between looks at how much it has printed."""


@dataclass(frozen=True)
class Test:
    """A command that candidates are given to, and what it has to do for them to be of interest."""

    command: str
    crash: bool
    output: tuple[str, ...]
    timeout: float
    folder: str
    bytecode: bool

    def holds(self, module: Module) -> bool:
        """Whether the command does with the module what is asked for. LibtileError: it cannot be written."""
        path = os.path.join(self.folder, "candidate.bc" if self.bytecode else "candidate.mlir")
        with open(path, "wb") as file:
            file.write(written(module, self.bytecode))
        name = shlex.quote(path)
        line = self.command.replace(_PLACE, name) if _PLACE in self.command else f"{self.command} {name}"
        status, text = self._run(line)
        if status is None:
            return False
        right = status < 0 or status >= 128 if self.crash else status == 0 or bool(self.output)
        return right and all(part in text for part in self.output)

    def _run(self, line: str) -> tuple[int | None, str]:
        """Exit status of the command (None: it took too long, or printed too much) and what was printed, where somebody
        asks for that.

        The command's own end counts, whatever it has left running: that is ended with it.
        """
        with tempfile.TemporaryFile(dir=self.folder) as printed:
            process = subprocess.Popen(
                line,
                shell=True,
                stdin=subprocess.DEVNULL,
                stdout=printed if self.output else subprocess.DEVNULL,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            end = time.monotonic() + self.timeout
            try:
                while process.poll() is None:
                    left = end - time.monotonic()
                    if left <= 0 or self._printed_too_much(printed):
                        return None, ""
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        process.wait(min(left, _GLANCE) if self.output else left)
            finally:
                with contextlib.suppress(ProcessLookupError, PermissionError):  # nobody is left
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            if self._printed_too_much(printed):
                return None, ""
            printed.seek(0)
            return process.returncode, printed.read().decode(errors="replace")

    def _printed_too_much(self, printed: IO[bytes]) -> bool:
        return bool(self.output) and os.fstat(printed.fileno()).st_size > _MOST_PRINTED


def written(module: Module, bytecode: bool) -> bytes:
    """The module in either form."""
    if not bytecode:
        from libtile.asm.module import print_module

        return print_module(module, debuginfo=_has_debug_info(module)).encode("utf-8", errors="surrogateescape")
    from libtile.dialects.cuda_tile.to_bytecode import write_bytecode

    return write_bytecode(module.tile_module, since=module.version)


def _has_debug_info(module: Module) -> bool:
    from libtile.dialects.cuda_tile.attributes import DILocAttr

    return any(isinstance(op.location, DILocAttr) for op in module.op.walk())


@click.command(
    "cuda-tile-reduce",
    examples=(
        "cuda-tile-reduce --test ./still-fails.sh kernel.bc -o small.mlir",
        "cuda-tile-reduce --crash --test 'tileiras --gpu-name=sm_100 {} -o /dev/null' kernel.bc -o small.bc",
        "cuda-tile-reduce --output 'operand #1' --test 'cuda-tile-opt --licm {}' kernel.mlir",
        "cuda-tile-reduce --test 'cuda-tile-opt --cse {} | cuda-tile-diff -q --run {} -; test $? = 1' kernel.mlir",
    ),
    statuses=(
        "0  done",
        "1  the input or the command line is wrong, or the command does not do with the input what is asked for",
    ),
)
@click.argument("input_", metavar="INPUT", default="-")
@click.option("--test", "test_", metavar="CMD", required=True, help="The shell command that judges candidates.")
@click.option("-o", "output", metavar="FILE", default="-", help="Write to FILE ('-', the default, is stdout).")
@click.option("--crash", is_flag=True, help="CMD has to end by a signal, or with a status of 128 and more.")
@click.option(
    "--output",
    "text",
    metavar="TEXT",
    multiple=True,
    help="CMD has to print TEXT, whatever its status: in no more than 64 MiB.",
)
@click.option("--timeout", metavar="SECONDS", type=Seconds(min=0, min_open=True), default=60.0,
              show_default=True, help="A command that runs longer says no.")  # fmt: skip
@click.option("--text", "as_text", is_flag=True, help="Give CMD text also where INPUT is bytecode.")
@click.option("--bytecode", "as_bytecode", is_flag=True, help="Give CMD bytecode also where INPUT is text.")
@click.option("-q", "--quiet", is_flag=True, help="Do not show progress on stderr.")
@cli.version_option("CUDA Tile IR reducer")
def command(
    input_: str,
    test_: str,
    output: str,
    crash: bool,
    text: tuple[str, ...],
    timeout: float,
    as_text: bool,
    as_bytecode: bool,
    quiet: bool,
) -> None:
    """Make a program smaller as long as CMD says that it is still of interest, by exiting with 0.

    INPUT is bytecode or text of any of the three dialects. CMD is run by the shell, with the path of a candidate in
    place of each '{}', or at its end. Functions, ops, regions, values, arguments, sizes, types, attributes and debug
    information are taken out or made simpler; candidates verify if INPUT does.

    FILE is written with every improvement, so that an interrupted reduction leaves the best that it had; stdout, a
    pipe or a device gets it at the end. A FILE whose name ends in .bc is bytecode, one in .mlir is text; others are
    what INPUT is.
    """
    from libtile.debugging.reduction import NotInterestingError, reduce

    cli.check_output(output)
    module, is_bytecode = _read(input_)
    if as_text and as_bytecode:
        raise cli.ToolError("cuda-tile-reduce: error: --text and --bytecode exclude each other")
    given_bytecode = as_bytecode or (is_bytecode and not as_text)
    result_bytecode = output.endswith(".bc") or (is_bytecode and not output.endswith(".mlir") and output != "-")
    once = output == "-" or (os.path.exists(output) and not os.path.isfile(output))
    best: list[Module] = []
    if given_bytecode or result_bytecode:
        from libtile.dialects.cuda_tile.to_bytecode import left_out

        cli.report(left_out(module.tile_module))

    def improved(progress: Progress, better: Module) -> None:
        best[:] = [better]
        if not once:
            cli.write_output(output, written(better, result_bytecode))
        if not quiet:
            cli.say(f"{progress.ops} ops, {progress.tried} candidates, {progress.step}")

    with tempfile.TemporaryDirectory(prefix="cuda-tile-reduce.") as folder:
        test = Test(test_, crash, text, timeout, folder, given_bytecode)
        try:
            smallest = reduce(module, test.holds, progress=improved)
            best[:] = [smallest]
            decided = test.holds(smallest)
        except NotInterestingError:
            raise cli.ToolError(
                "cuda-tile-reduce: error: the command does not do with the input what is asked for: "
                + (
                    "it does not crash"
                    if crash
                    else "it does not exit with 0"
                    if not text
                    else "it prints something else"
                )
            ) from None
        except (stopping.Stopped, KeyboardInterrupt):
            if best:  # also into a file, whose last improvement may not have got there
                cli.write_output(output, written(best[0], result_bytecode))
            raise
        if not decided:
            cli.say(
                "cuda-tile-reduce: warning: the command does not say of the result what it said of it before: "
                "it may decide by chance"
            )
    cli.write_output(output, written(smallest, result_bytecode))


def _read(path: str) -> tuple[Module, bool]:
    """The module of a file or of stdin, and whether it was bytecode."""
    from libtile.asm.module import parse, read
    from libtile.spec.model import BYTECODE_MAGIC

    data = cli.read_input(path)
    if data.startswith(BYTECODE_MAGIC):
        return read(data), True
    return parse(cli.decode_text(data), filename=path), False


def main() -> None:
    """The tool's entry point."""
    cli.run(command)
