# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The generator of random programs: what it covers, that programs are valid and repeatable, and the reducer."""

from __future__ import annotations

import re

import numpy as np
import pytest
from click.testing import CliRunner

from generators.__main__ import main
from generators.check import Disagreement, check_bytecode, compare, failure, parsed, run
from generators.core import Comparison, Parameter, Program
from generators.programs import PROFILES, program
from libtile.spec import default_spec

NOT_GENERATED = {
    "multimem_load_reduce_view_tko": "needs an object that several devices share",
    "multimem_reduce_view_tko": "needs an object that several devices share",
    "multimem_store_view_tko": "needs an object that several devices share",
    "preview$call": "its callee is outside of the module",
}


def ops_of(text: str) -> set[str]:
    return set(re.findall(r"^\s*(?:%[^=]*= )?([a-z][a-z_0-9$]*)\b", text, re.MULTILINE))


def test_every_op_is_generated_or_said_not_to_be():
    """A new op of the spec needs a statement, or a reason."""
    found = set().union(*(ops_of(program(seed).text) for seed in range(120))) | {"module"}
    wanted = {name for name in default_spec().ops if not name.startswith("testing$")}
    assert wanted - found == set(NOT_GENERATED)


def test_every_element_type_is_generated():
    text = "".join(program(seed).text for seed in range(40))
    for element in (*PROFILES["all"].elements, "i4"):
        assert re.search(rf"tile<(\d+x)+{element}>", text), element


@pytest.mark.parametrize("profile", PROFILES)
def test_a_seed_gives_one_valid_program(profile):
    for seed in range(6):
        made, again = program(seed, profile), program(seed, profile)
        assert made.text == again.text
        run(parsed(made), made)  # with all checks: undefined behaviour and races are faults
        for one, other in zip(made.arguments(1), again.arguments(1), strict=True):
            assert np.array_equal(one, other)


def test_programs_are_the_same_after_bytecode():
    for seed in range(12):
        check_bytecode(program(seed))


# -- comparing --------------------------------------------------------------------------------------------------------


def outcomes(*arrays: list[int], element: str, comparison: Comparison = Comparison()) -> tuple:  # noqa: B008
    dtype = {"f16": np.uint16, "i32": np.uint32}[element]
    parameter = Parameter("%p", element, len(arrays[0]), None, True, comparison)
    made = Program(0, "", [parameter], (1, 1, 1), ())
    return made, *(([np.array(a, dtype)], []) for a in arrays)


def test_nans_agree_and_other_bits_must():
    compare(*outcomes([0x7E00], [0xFE01], element="f16"))
    for want, got in ((0x0000, 0x8000), (0x3C00, 0x3C01), (0x7E00, 0x7C00)):
        with pytest.raises(Disagreement, match="should be"):
            compare(*outcomes([want], [got], element="f16"))


def test_tolerances_are_kept():
    near = Comparison(ulps=1)
    compare(*outcomes([0x3C00, 0x8000], [0x3C01, 0x0001], element="f16", comparison=near))
    with pytest.raises(Disagreement):
        compare(*outcomes([0x3C00], [0x3C02], element="f16", comparison=near))
    with pytest.raises(Disagreement):
        compare(*outcomes([0x7C00], [0x7C01], element="f16", comparison=near))  # infinity and a NaN
    compare(*outcomes([3, 1, 2], [1, 2, 3], element="i32", comparison=Comparison(unordered=True)))


# -- the command line -------------------------------------------------------------------------------------------------


def test_the_command_line_prints_and_runs_programs():
    shown = CliRunner().invoke(main, ["3", "--profile", "control", "--print"])
    assert shown.exit_code == 0 and shown.output.strip() == program(3, "control").text.strip()
    done = CliRunner().invoke(main, ["0:2", "--profile", "control", "--target", "sm_80"])
    assert (done.exit_code, done.output) == (0, "2 programs, 0 failed\n")


def test_what_goes_wrong_is_told_with_its_kind():
    made = program(0, "control")
    assert failure(made, "sm_80") is None
    assert failure(made, "sm_1").startswith("UnknownTargetError: ")
    assert failure(made, "sm_80", text="nonsense").startswith("DiagnosticError: ")
