# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""One valid and one invalid module for each rule of the verifier, by family of ops."""

from dialects.verify_cases import (
    aggregates,
    arithmetic,
    assumptions,
    control_flow,
    conversions,
    functions,
    memory,
    mma,
    tiles,
    views,
)
from dialects.verify_cases.case import Case

CASES: list[Case] = [
    case
    for family in (
        aggregates, arithmetic, assumptions, control_flow, conversions, functions, memory, mma, tiles, views
    )
    for case in family.CASES
]  # fmt: skip
