# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Optimization hints: what an unusable one is reported as.

Hints never change what a program means, so a bad one is silently ignored unless the caller asks for warnings, or for
errors. Which keys an op takes is data in the spec; the values' ranges are here.
"""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Attribute

from libtile.dialects.cuda_tile.attributes import OptimizationHintsAttr
from libtile.dialects.cuda_tile.ops import CudaTileOp
from libtile.dialects.cuda_tile.types import i1
from libtile.dialects.cuda_tile.verify.report import Report, fail
from libtile.spec import default_spec

_SINGLE_CTA = ("sm_80", "sm_86", "sm_87", "sm_88", "sm_89")
"""Architectures without clusters."""


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
        if not isinstance(value, IntegerAttr) or (hint.kind == "bool" and value.type != i1):
            problems.append(f"{kind} value expected for {arch}.{key}")
            continue
        problem = _RANGES.get(key, _anything)(arch, value.value.data)
        if problem is not None:
            problems.append(f"{problem} for {arch}.{key}")
    return problems


def _anything(arch: str, value: int) -> str | None:
    return None


def _power_of_two(most: int) -> Callable[[str, int], str | None]:
    def check(arch: str, value: int) -> str | None:
        return None if 0 < value <= most and not value & (value - 1) else f"expected power-of-two ≤ {most}"

    return check


def _cluster(arch: str, value: int) -> str | None:
    return "expected 1" if arch.startswith(_SINGLE_CTA) and value != 1 else _power_of_two(16)(arch, value)


def _range(least: int, most: int) -> Callable[[str, int], str | None]:
    def check(arch: str, value: int) -> str | None:
        return None if least <= value <= most else f"integer value in the range [{least}, {most}] is expected"

    return check


_RANGES: dict[str, Callable[[str, int], str | None]] = {
    "num_cta_in_cga": _cluster,
    "num_worker_warps_per_cta": _power_of_two(32),
    "occupancy": _range(1, 32),
    "latency": _range(1, 10),
}
"""The values that each hint may have; the wording of what is wrong, without the place."""
