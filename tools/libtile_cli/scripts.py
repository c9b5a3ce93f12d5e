# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What commands take for a kernel: a file of Tile IR, stdin, or a script of cuTile and a kernel that it launches."""

from __future__ import annotations

from libtile_tools import cli, launching

METAVAR = "FILE|FILE.py[:KERNEL]"
DEFINED = "FILE|FILE.py:KERNEL"
"""Where the kernel of a script need not be launched by it, and arguments are given."""
ARGUMENT = f"{launching.ARGUMENT} Of a @ct.kernel the next argument, constants included."


def split(file: str) -> tuple[str, str | None]:
    """The path, and the name of the kernel in it where one is given."""
    path, _, name = file.rpartition(":")
    return (path, name) if path.endswith(".py") else (file, None)


def kernel_source(file: str, gpu_name: str) -> str | bytes:
    """What the library takes for a file: its path, or the bytes of stdin and of a kernel that a script launches.

    `gpu_name` is the GPU that the script finds. LibtileError for a script that fails, or launches no such kernel.
    """
    path, name = split(file)
    if path == "-":
        return cli.read_input(path)
    if not path.endswith(".py"):
        return path
    from libtile.cutile.scripts import chosen, launched_kernels

    return chosen(launched_kernels(path, gpu_name=gpu_name), name).bytecode
