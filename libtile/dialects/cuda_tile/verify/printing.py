# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The rule of `print_tko`: as many operands as its format string asks for."""

from __future__ import annotations

import re

from libtile.dialects.cuda_tile.forms import CudaTileOp
from libtile.dialects.cuda_tile.verify.report import Report, fail, rule

_CONVERSION = r"%[^diuoxXeEfFgGaAcsSpn%]*([diuoxXeEfFgGaAcsSpn%]?)"
"""A format expression: everything from the `%` to the first conversion character (printf's, and CUDA's `S`)."""


def conversions(text: str) -> list[str]:
    """The format expressions of a string, escaped percent signs left out; ValueError for an unterminated one."""
    found = []
    position = text.find("%")
    while position >= 0:
        match = re.compile(_CONVERSION).match(text, position)
        if match is None or not match[1]:
            raise ValueError("found unterminated format expression")
        if match[0] == "%%":
            position = text.find("%", match.end())
            continue
        found.append(match[0])
        # An expression that ends with a percent sign is not an escape: its last character starts the next one.
        position = text.find("%", match.end() - (match[1] == "%"))
    return found


@rule("print_tko")
def print_(op: CudaTileOp, report: Report) -> None:
    try:
        expected = len(conversions(op.attribute_value("str")))
    except ValueError as problem:
        fail(op, str(problem))
    found = len(op.operand_group("args"))
    if expected != found:
        fail(op, f"incorrect number of operands: expected {expected}, found {found}")
