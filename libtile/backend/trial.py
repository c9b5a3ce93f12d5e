# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""LLVM's work on code that somebody else has written, first in a process of its own.

LLVM ends the process for much that it has no code for: an operand of inline PTX that there is not, a conversion to 256
bits, a scope that it does not know. What the compiler makes keeps clear of that; what a program brings along may not.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from libtile.support.errors import LibtileError
from libtile.targets import Target, target

_REFUSED = 3
"""The exit status of a process in which LLVM has said what is wrong, in a proper way."""


class TrialError(LibtileError):
    """LLVM ended its process, or refused the module; the message holds its words on one line."""


def attempt(ir: str, gpu: Target, opt_level: int, libraries: Sequence[bytes]) -> None:
    """Make PTX of a module in another process, for nothing but to see whether that can be done. TrialError if not."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[2]), *filter(None, sys.path)]),
    }
    done = subprocess.run(
        [sys.executable, "-m", "libtile.backend.trial"],
        input=pickle.dumps((ir, gpu.name, opt_level, tuple(libraries))),
        capture_output=True,
        env=environment,
        check=False,
    )
    if done.returncode != 0:
        lines = done.stderr.decode(errors="backslashreplace").splitlines()
        # What LLVM's bug reports go on with is of no use to anybody else.
        said = " ".join(" ".join(line.split()) for line in lines[: 1 if done.returncode != _REFUSED else None])
        raise TrialError(said or f"its process ended with status {done.returncode}")


def main() -> int:
    """The life of the other process."""
    from libtile.backend.nvptx import to_ptx

    if os.name == "posix":
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    ir, name, opt_level, libraries = pickle.load(sys.stdin.buffer)
    try:
        to_ptx(ir, target(name), opt_level, libraries)
    except LibtileError as error:
        print(str(error), file=sys.stderr)
        return _REFUSED
    return 0


if __name__ == "__main__":
    sys.exit(main())
