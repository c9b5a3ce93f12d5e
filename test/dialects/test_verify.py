# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every rule of the verifier: what breaks it gets exactly its error, what keeps it gets none."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from dialects.verify_cases import CASES
from dialects.verify_cases.case import Case
from libtile.asm.module import diagnose
from libtile.dialects.cuda_tile import verify
from libtile.dialects.cuda_tile.verify.report import _LATE, REGION_RULES, RULES, load_rules
from libtile.support.diagnostics import has_errors


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_module_has_exactly_its_errors(case: Case) -> None:
    errors = [d.message for d in diagnose(case.make()) if has_errors([d])]
    assert errors == list(case.errors)


def test_each_family_that_is_loaded_late_is_of_the_ops_that_load_it() -> None:
    load_rules()
    found: dict[str, set[str]] = {}
    for table in (RULES, REGION_RULES):
        for mnemonic, rule in table.items():
            found.setdefault(rule.__module__.rpartition(".")[2], set()).add(mnemonic)
    assert {family: set(mnemonics) for family, mnemonics in _LATE.items()} == {name: found[name] for name in _LATE}
    folder = Path(str(verify.__file__)).parent
    families = {path.stem for path in folder.glob("*.py") if re.search(r"^@(region_)?rule\(", path.read_text(), re.M)}
    assert families == set(found)


def test_every_op_with_a_rule_has_a_case() -> None:
    load_rules()
    tested = {op.name.removeprefix("cuda_tile.") for case in CASES for op in case.make().walk()}
    assert sorted({*RULES, *REGION_RULES} - tested) == []


def test_case_names_are_unique() -> None:
    names = [case.name for case in CASES]
    assert sorted(name for name, count in Counter(names).items() if count > 1) == []
