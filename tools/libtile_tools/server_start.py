# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The start of a compile server's process: by the file's path, so that a list of processes says what it is."""

from __future__ import annotations

import os
import sys


def _main() -> None:
    told = b""
    while part := os.read(0, 1 << 16):
        told += part
    name, idle, targets, *path = map(os.fsdecode, told.split(b"\0"))
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    sys.path[:] = path

    from libtile_tools import server

    server.main(name, [target for target in targets.split(",") if target], int(idle))


if __name__ == "__main__":
    _main()
