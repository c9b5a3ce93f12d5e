# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Optimization hints: what an unusable one is reported as.

Hints never change what a program means, so a bad one is silently ignored unless the caller asks for warnings, or for
errors. Which keys an op takes, and which values, is data in the spec.
"""

from __future__ import annotations

from libtile.dialects.cuda_tile.forms import CudaTileOp, OptimizationHintsAttr
from libtile.dialects.cuda_tile.type_forms import is_number
from libtile.dialects.cuda_tile.verify.report import Report, fail
from libtile.ir.forms import Attribute, IntegerAttr
from libtile.spec import default_spec


def verify_hints(op: CudaTileOp, report: Report) -> None:
    """Check the op's `optimization_hints`; raises Violation when the report's options make bad hints errors."""
    attr = op.properties.get("optimization_hints")
    if not isinstance(attr, OptimizationHintsAttr) or not report.warn_hints:
        return
    for arch, keys in attr.hints.items():
        messages = _problems(op, arch, keys)
        for message in messages:
            report.warn(op, message)
        if messages and report.error_hints:
            fail(op, "Optimization hints verification failed")


def _problems(op: CudaTileOp, arch: str, keys: dict[str, Attribute]) -> list[str]:
    spec = default_spec()
    if arch not in spec.hint_architectures and arch != "default":
        return [f"unknown hint key {arch}"]
    problems = []
    for key, value in keys.items():
        hint = spec.hints.get(key)
        if hint is None or op.spec.name not in hint.ops:
            problems.append(f"{key} is not known hint for current Operation")
            continue
        kind = "integer" if hint.kind == "i32" else "boolean"
        if not isinstance(value, IntegerAttr) or (hint.kind == "bool" and not is_number(value.type, "i1")):
            problems.append(f"{kind} value expected for {arch}.{key}")
            continue
        problem = hint.problem(arch, value.value.data)
        if problem is not None:
            problems.append(f"{problem} for {arch}.{key}")
    return problems
