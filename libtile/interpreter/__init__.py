# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The reference interpreter of Tile IR: the specification's semantics on numpy arrays, with checks.

`run` executes one entry of a module over a grid; see `libtile.runtime` for the face that takes files and names.
"""

from libtile.interpreter.faults import FaultKind, InterpreterFault
from libtile.interpreter.launch import prepare, run
from libtile.interpreter.machine import RunResult

__all__ = ["FaultKind", "InterpreterFault", "RunResult", "prepare", "run"]
