# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`libtile explore`: a page that shows every stage of a compilation."""

from __future__ import annotations

import os
from functools import partial
from itertools import count
from typing import TYPE_CHECKING

import click

from libtile.support.errors import reason
from libtile_cli import scripts
from libtile_tools import cli

if TYPE_CHECKING:
    from http.server import ThreadingHTTPServer

_MISUSE = 2
_HOST = "127.0.0.1"
_POLL = 0.5
"""Seconds between two looks at a file that is served."""


@click.command("libtile explore", cls=cli.Command, examples=(
    "libtile explore kernel.bc -o kernel.html",
    "libtile explore --gpu-name=sm_80 --gpu-name=sm_90 kernel.bc -o both.html",
    "libtile explore -O0 -O3 --source=src kernel.mlir -o levels.html",
    "libtile explore --serve=8000 kernel.py",
), statuses=(
    "0  done",
    "1  the input is wrong, or it cannot be compiled; stderr says where and why",
    f"{_MISUSE}  the command line is wrong",
))  # fmt: skip
@click.argument("file", metavar=scripts.METAVAR)
@click.option("--gpu-name", "gpu_names", multiple=True, metavar="sm_NN", help="The GPU to compile for; default sm_90.")
@click.option("-O", "--opt-level", "opt_levels", multiple=True, metavar="N", type=click.IntRange(0, 3),
              help="0 to 3; default 3.")  # fmt: skip
@click.option("--pass-pipeline", "pipelines", multiple=True, metavar="PIPELINE",
              help="Passes in place of those of the level, as tileiras takes them.")  # fmt: skip
@click.option("--source", "folders", multiple=True, metavar="FOLDER",
              type=click.Path(exists=True, file_okay=False),
              help="Where to look for sources that are not in their place; default the working folder.")  # fmt: skip
@click.option("-o", "--output", metavar="FILE", help="The page; default the input's name with .html.")
@click.option("--serve", metavar="PORT", type=click.IntRange(0, 65535),
              help=f"Serve the page at {_HOST}:PORT, anew whenever the file changes, until Ctrl-C.")  # fmt: skip
@cli.version_option("CUDA Tile IR compilations, stage by stage")
def command(
    file: str,
    gpu_names: tuple[str, ...],
    opt_levels: tuple[int, ...],
    pipelines: tuple[str, ...],
    folders: tuple[str, ...],
    output: str | None,
    serve: int | None,
) -> None:
    """Compile a kernel, and write a page that shows it.

    FILE is bytecode or text of Tile IR, '-' for stdin, or a Python script: it is run, with the interpreter in place of
    a GPU, and what it launches by ct.launch is shown; KERNEL says which, where it launches several.

    Source, Tile IR, nv_tileaa, nv_tileas, LLVM IR, PTX and machine code stand side by side, linked line by line, with
    remarks, numbers, layouts and the map of shared memory. The page is one file and needs no network.

    Options that are given several times make several compilations, which the page compares.
    """
    make = partial(
        _page, file, gpu_names or ("sm_90",), opt_levels or (3,), pipelines or ("",), folders or (os.curdir,)
    )
    if serve is None:
        page = _page_of(file) if output is None else output
        if cli.same_file(page, scripts.split(file)[0]):
            raise cli.ToolError(f"libtile explore: error: the page would overwrite '{page}', of which it is")
        cli.check_output(page)
        cli.write_output(page, make())
    elif output is not None:
        raise click.UsageError("--output and --serve do not go together")
    elif file == "-":
        raise click.UsageError("stdin cannot be looked at again: --serve needs a file")
    else:
        _serve(file, serve, make)


def _page(
    file: str,
    gpu_names: tuple[str, ...],
    opt_levels: tuple[int, ...],
    pipelines: tuple[str, ...],
    folders: tuple[str, ...],
) -> str:
    from libtile.explore import explore, page

    source = scripts.kernel_source(file, gpu_names[0])
    name = "stdin" if file == "-" else file
    return page(explore(source, gpu_names, opt_levels, pipelines, source_folders=folders, name=name))


def _page_of(file: str) -> str:
    return "-" if file == "-" else os.path.splitext(scripts.split(file)[0])[0] + ".html"


# -- serving ----------------------------------------------------------------------------------------------------------

_RELOAD = """<script>
setInterval(async () => {
  const found = await fetch("/version").then((r) => r.text(), () => "");
  if (found && found !== "%d") location.reload();
}, 500);
</script>
"""


class _Served:
    """The newest page of a file. A file that cannot be compiled has one that says why."""

    def __init__(self, file: str, make: partial[str]):
        self.file = file
        self.make = make
        self.stamp: object = None
        self.versions = count(1)
        self.version = 0
        self.text = ""

    def refresh(self) -> bool:
        """Make the page anew if the file is another one; whether it is."""
        stamp = self._stamp()
        if stamp == self.stamp:
            return False
        self.stamp = stamp
        self.version = next(self.versions)
        self.text = self._made() + _RELOAD % self.version
        return True

    def _stamp(self) -> object:
        try:
            found = os.stat(scripts.split(self.file)[0])
        except OSError as error:
            return error.errno
        return found.st_mtime_ns, found.st_size, found.st_ino

    def _made(self) -> str:
        from html import escape

        from libtile.support.errors import LibtileError

        try:
            return self.make()
        except LibtileError as error:
            message = escape(cli.render_error(error))
            return f"<!doctype html><title>{escape(self.file)}</title><pre>{message}</pre>"


def _server(served: _Served, port: int) -> ThreadingHTTPServer:
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            bodies = {"/": served.text, "/version": str(served.version)}
            body = bodies.get(self.path, "").encode()
            self.send_response(200 if self.path in bodies else 404)
            self.send_header("Content-Type", ("text/html" if self.path == "/" else "text/plain") + "; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Requests are nobody's concern."""

    try:
        return ThreadingHTTPServer((_HOST, port), Handler)
    except OSError as error:
        raise cli.ToolError(f"libtile explore: error: cannot serve at {_HOST}:{port}: {reason(error)}") from None


def _serve(file: str, port: int, make: partial[str]) -> None:
    import threading
    import time

    cli.read_input(scripts.split(file)[0])  # a file that is not there is an error, not a page
    served = _Served(file, make)
    with _server(served, port) as server:
        served.refresh()
        threading.Thread(target=server.serve_forever, daemon=True).start()
        cli.say(f"http://{_HOST}:{server.server_port}/ shows {file}; Ctrl-C ends this")
        while True:
            time.sleep(_POLL)
            if served.refresh():
                cli.say(f"{file} was compiled anew")


def main() -> None:
    """The tool's entry point."""
    cli.run(command, misuse=_MISUSE)
