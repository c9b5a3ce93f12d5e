# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every rule of the verifier: what breaks it gets exactly its error, what keeps it gets none."""

from __future__ import annotations

from collections import Counter

import pytest

from dialects.verify_cases import CASES
from dialects.verify_cases.case import Case
from libtile.asm.module import diagnose
from libtile.dialects.cuda_tile.verify.report import REGION_RULES, RULES
from libtile.support.diagnostics import has_errors


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_module_has_exactly_its_errors(case: Case) -> None:
    errors = [d.message for d in diagnose(case.make()) if has_errors([d])]
    assert errors == list(case.errors)


def test_every_op_with_a_rule_has_a_case() -> None:
    tested = {op.name.removeprefix("cuda_tile.") for case in CASES for op in case.make().walk()}
    assert sorted({*RULES, *REGION_RULES} - tested) == []


def test_case_names_are_unique() -> None:
    names = [case.name for case in CASES]
    assert sorted(name for name, count in Counter(names).items() if count > 1) == []
