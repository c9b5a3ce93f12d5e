# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the command-line tools share: LLVM-style options, input and output, errors and exit statuses.

A tool declares its command by `command_line` and ends with `run(command)`. Long options are declared with two dashes
and may be given with one; a flag may be given as `--flag=true` or `--flag=false`; `--option VALUE` and `--option=VALUE`
are the same.

Exit statuses: 0 done, 1 the input or the command line was wrong (one or more `error:` lines on stderr). Ctrl-C and
SIGTERM end a tool by that signal, which a shell shows as 130 and 143, after its temporary files have gone.
"""

from __future__ import annotations

import contextlib
import errno
import gc
import io
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, TextIO

from libtile.support.errors import LibtileError, reason, visible
from libtile_tools import command_line as click
from libtile_tools import startup, stopping

if TYPE_CHECKING:
    import click as real_click

    from libtile.support.diagnostics import Diagnostic
    from libtile_tools.click_command import Command as Command
    from libtile_tools.click_command import OptionalValue as OptionalValue

OK = 0
FAILED = 1
INTERRUPTED = 128 + stopping.SIGINT


def __getattr__(name: str) -> Any:
    if name not in ("Command", "OptionalValue", "SeveralLines"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from libtile_tools import click_command

    return getattr(click_command, name)


class ToolError(LibtileError):
    """An error of the tool itself, such as a file that cannot be opened, and the exit status that it ends with."""

    def __init__(self, message: str, status: int = FAILED, *, several_lines: bool = False) -> None:
        super().__init__(message)
        self.status = status
        self.several_lines = several_lines


class Failed(LibtileError):
    """Ends a tool with status 1 when its errors have been printed already."""


def run(
    command: click.Command | real_click.Command,
    argv: Sequence[str] | None = None,
    *,
    misuse: int = FAILED,
    failure: int = FAILED,
) -> NoReturn:
    """Run a tool and end the process with its exit status; errors become lines on stderr, never tracebacks.

    `misuse` is the status for a wrong command line, `failure` that of every other error.
    """
    global _owns_process
    _owns_process = True
    gc.disable()  # the process ends before what cycles hold could matter
    # One thread of BLAS is enough for tiles, and does not fight over cores with other processes; where memory is short,
    # its own threads end the process with a page of advice.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        stopping.take_signals()
        status = call(command, argv, misuse=misuse, failure=failure)
        stopping.block_signals()
    except stopping.Stopped as stopped:
        if stopped.number == stopping.SIGINT:
            _fail(f"{command.name or 'libtile'}: interrupted")
        stopping.end_by(stopped.number)
    startup.finish()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # nobody reads it: `call` has said so
            if stream is not None:  # as it is where the process was started without it
                stream.flush()
    # Python's own way out frees every object, one by one, which takes longer than many a compilation.
    os._exit(status)


def owns_process() -> bool:
    """Whether the process is a tool's, which may fork it; not where a tool is run inside of another program."""
    return _owns_process


_owns_process = False
served_by = 0
"""The number of the compile server whose child this process is; 0 where it is none."""


def call(
    command: click.Command | real_click.Command,
    argv: Sequence[str] | None = None,
    *,
    misuse: int = FAILED,
    failure: int = FAILED,
) -> int:
    """Run a tool inside this process; returns its exit status: `misuse` for a wrong command line, `failure` for every
    other error that does not say its own."""
    program = command.name or "libtile"
    if not isinstance(command, click.Command):
        _complete(command)
    try:
        left = command.main(args=list(argv) if argv is not None else None, prog_name=program, standalone_mode=False)
        if sys.stdout is not None:  # as it is for a stream that was closed from the start
            sys.stdout.flush()
        return left if isinstance(left, int) else OK  # what `Context.exit` was given
    except Failed:
        return failure
    except click.Exit as exit_:
        return exit_.status
    except KeyboardInterrupt:
        return _fail(f"{program}: interrupted", INTERRUPTED)
    except LibtileError as error:
        return _fail(
            render_error(error), error.status if isinstance(error, ToolError) and error.status != FAILED else failure
        )
    except BrokenPipeError:
        # The interpreter flushes stdout once more at its end; give it somewhere to go.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return failure
    except RecursionError:
        return _fail(f"{program}: error: the input is nested too deeply", failure)
    except MemoryError:
        return _fail(f"{program}: error: out of memory", failure)
    except OSError as error:
        name = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, str | bytes) else ""
        return _fail(f"{program}: error: {visible(name)}{reason(error)}", failure)
    except Exception as error:
        if "click" in sys.modules:
            from libtile_tools import click_command

            if (said := click_command.misuse(program, error)) is not None:
                return _fail(said, misuse)
        from libtile.support.internal_errors import internal_error

        return _fail(f"{program}: error: {internal_error(error, 'tool')}", failure)


def _complete(command: real_click.Command) -> None:
    """Give a command that is declared with click itself the options of this module that were declared for it."""
    missing = getattr(command.callback, "declarations", [])
    command.params += [declaration.made() for declaration in reversed(missing)]
    missing.clear()


def say(message: str) -> None:
    """Print the lines of diagnostics on stderr: the one place that does, so that nothing gets to a terminal raw."""
    click.echo(visible(message, keep="\n\t"), err=True)


def _fail(message: str, status: int = FAILED) -> int:
    with contextlib.suppress(OSError):  # nobody can be told: stderr is closed, or its disk is full
        say(message)
    return status


def render_error(error: LibtileError, source: Sequence[str] | None = None, filename: str | None = None) -> str:
    """The `error: ...` lines of an exception, with source lines when `source`, the lines of the file, is given."""
    from libtile.support.diagnostics import DiagnosticError

    if isinstance(error, DiagnosticError):
        return "\n".join(d.render(source, filename) for d in error.diagnostics)
    text = str(error) if error.several_lines else visible(str(error))
    return text if isinstance(error, ToolError) else f"error: {text}"


def report(diagnostics: Sequence[Diagnostic], source: Sequence[str] | None = None, filename: str | None = None) -> None:
    """Print diagnostics on stderr, each with its source line when `source` (the file's lines) is given."""
    for diagnostic in diagnostics:
        say(diagnostic.render(source, filename))


# -- input and output -------------------------------------------------------------------------------------------------


def read_input(path: str) -> bytes:
    """The bytes of a file, or of stdin for `-`. ToolError when it cannot be read, or is longer than any input."""
    from libtile.support.files import read_bounded

    try:
        if path == "-":
            if sys.stdin is None:  # the process was started without it
                raise OSError(errno.EBADF, os.strerror(errno.EBADF))
            return read_bounded(sys.stdin.buffer)
        with open(path, "rb") as file:
            return read_bounded(file)
    except (OSError, ValueError) as error:  # ValueError: a name with a NUL
        raise ToolError(f"cannot open input file '{visible(path)}': {reason(error)}") from None


def decode_text(data: bytes) -> str:
    """Source text of any bytes: what is not UTF-8 is kept as surrogate escapes, and refused where it matters.

    ToolError for bytecode, which somebody gave in place of its text, and for what is longer than any text.
    """
    from libtile.spec.model import BYTECODE_MAGIC
    from libtile.support.limits import TEXT_BYTES

    if data.startswith(BYTECODE_MAGIC):
        raise ToolError(
            "error: the input is Tile IR bytecode, not text: 'cuda-tile-translate -cudatilebc-to-mlir' makes text of it"
        )
    if len(data) > TEXT_BYTES:
        raise ToolError(f"error: the input has {len(data)} bytes, and a text has {TEXT_BYTES} at most")
    return data.decode("utf-8", errors="surrogateescape")


def stdout_for_kernels() -> TextIO | None:
    """stdout for what kernels print: in UTF-8, like all that tools write, with the bytes of a text that is none."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", errors="surrogateescape")
    return sys.stdout


def show(text: str) -> None:
    """Print a text for people on stdout. ToolError when that fails."""
    write_output("-", visible(text, keep="\n\t"))


def write_output(path: str, data: bytes | str) -> None:
    """Write to a file, or to stdout for `-`; a file appears whole or not at all. ToolError when that fails."""
    raw = data.encode("utf-8", errors="surrogateescape") if isinstance(data, str) else data
    if path == "-":
        if sys.stdout is None:
            raise ToolError(f"cannot open output file '-': {os.strerror(errno.EBADF)}")
        sys.stdout.flush()
        sys.stdout.buffer.write(raw)
        sys.stdout.buffer.flush()
        return
    try:
        if not path:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        if _names_folder(path):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if os.path.exists(path) and not os.path.isfile(path):
            # A device or a pipe (/dev/null, /dev/stdout) is written to, not replaced.
            with open(path, "wb") as file:
                file.write(raw)
        else:
            _write_whole(os.path.realpath(path), raw)
    except (OSError, ValueError) as error:
        full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
        verb = "write" if full else "open"
        raise ToolError(f"cannot {verb} output file '{visible(path)}': {reason(error)}") from None


def _names_folder(path: str) -> bool:
    """Whether a path can be that of a folder only, by its last character."""
    return path.endswith(tuple(filter(None, (os.sep, os.altsep))))


def same_file(one: str, other: str) -> bool:
    """Whether two paths are those of one regular file, or of one that is still to be made."""
    if "-" in (one, other):  # a stream of this process
        return False
    real = os.path.realpath(one)
    return real == os.path.realpath(other) and (os.path.isfile(real) or not os.path.exists(real))


def check_output(path: str) -> None:
    """ToolError where surely nothing can be written to a path, for tools that run long before they do."""
    folder = os.path.dirname(path) or os.curdir
    why = None
    if os.path.isdir(path) or _names_folder(path):
        why = errno.EISDIR
    elif not os.path.isdir(folder):
        why = errno.ENOTDIR if os.path.exists(folder) else errno.ENOENT
    elif os.path.exists(path) and not os.access(path, os.W_OK):
        why = errno.EACCES
    elif not os.access(folder, os.W_OK) and (os.path.isfile(path) or not os.path.exists(path)):
        why = errno.EACCES  # where a file of another name is made first
    if why is not None and path != "-":
        raise ToolError(f"cannot open output file '{visible(path)}': {os.strerror(why)}")


_TEMPORARY_NAME = 100
"""Characters of the output's name that its temporary file begins with: with more, a long name would become too long."""


def _write_whole(path: str, raw: bytes) -> None:
    if os.path.islink(path):  # resolved as far as that goes: a circle
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    if os.path.exists(path) and not os.access(path, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    start = os.path.basename(path)[:_TEMPORARY_NAME]
    if len(os.fsencode(start)) > 2 * _TEMPORARY_NAME:  # characters of several bytes; file systems count bytes
        start = ""
    temporary = os.path.join(os.path.dirname(path), f"{start}.{os.urandom(8).hex()}")
    with stopping.signals_wait():
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(raw)
            os.chmod(temporary, _mode(path))
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise


def _mode(path: str) -> int:
    """The mode of the file being replaced, or what `open` would have given a new one."""
    if os.path.exists(path):
        return os.stat(path).st_mode & 0o7777
    umask = os.umask(0)
    os.umask(umask)
    return 0o666 & ~umask


# -- input with several parts -----------------------------------------------------------------------------------------

SPLIT_MARKER = "// -----"


def split_input(text: str, marker: str = SPLIT_MARKER) -> list[str]:
    """The parts of a text between lines that start with the split marker.

    Each part but the first begins with as many empty lines as the lines before it, so that positions in a part are
    positions in the file.
    """
    parts: list[str] = []
    current: list[str] = []
    for number, line in enumerate(text.split("\n")):
        if line.startswith(marker):
            parts.append("\n".join(current))
            current = [""] * (number + 1)
        else:
            current.append(line)
    parts.append("\n".join(current))
    return parts


def _previews(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> frozenset[str]:
    names = [name for text in value for name in text.split(",")]
    if not names:
        return frozenset()
    from libtile.spec import default_spec

    known = sorted({op.preview for op in default_spec().ops.values() if op.preview is not None})
    for name in names:
        if name not in known:
            raise click.ClickException(
                f"for the --preview option: unknown preview feature '{name}'; supported features: {', '.join(known)}"
            )
    return frozenset(names)


def declared(function: Any, options: Sequence[Callable[[Any], Any]]) -> Any:
    """A command's function with these options declared, in this order."""
    for option in reversed(options):
        function = option(function)
    return function


def preview_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """`--preview`: the preview features that a bytecode file may use, passed on as `previews`, a frozenset."""
    return click.option(
        "--preview",
        "previews",
        multiple=True,
        metavar="FEATURE[,FEATURE...]",
        callback=_previews,
        help="Enable one or more named preview features.",
    )(function)


@contextlib.contextmanager
def time_report(wanted: bool) -> Iterator[None]:
    """Print where the time of the body went on stderr, if that is wanted, also when the body fails."""
    if not wanted:
        yield
        return
    from libtile.support import timing

    try:
        with timing.collect() as report:
            yield
    finally:
        served = f"served by compile server {served_by}\n" if served_by else ""
        click.echo(report.table() + served, nl=False, err=True)


def show_help(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    """The callback of options that print the help text, and end."""
    if value and not ctx.resilient_parsing:
        click.echo(ctx.get_help())
        ctx.exit()


def version_option(description: str) -> Callable[[Any], Any]:
    """`--version`: the tool, what it is a part of, and the bytecode versions are not loaded for it."""

    def show(ctx: click.Context, param: click.Parameter, value: bool) -> None:
        if value and not ctx.resilient_parsing:
            from libtile import __version__

            click.echo(f"{ctx.info_name}: {description}\nlibtile {__version__}")
            ctx.exit()

    return click.option(
        "--version", is_flag=True, expose_value=False, is_eager=True, callback=show, help="Show the version and exit."
    )
