# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Remarks: filters, and the two formats. The expected texts are what the reference assembler 13.5 prints."""

from __future__ import annotations

import pytest

from libtile.support import remarks
from libtile.support.diagnostics import SourceLocation
from libtile.support.remarks import Category, Kind, Remark, RemarkFilter

WHERE = "examples/gemm.py"
GEMM = [
    remarks.load_selected("gemm", SourceLocation(WHERE, 33, 15), remarks.TMA_LOAD, (32, 64)),
    remarks.mma_tensor_core("gemm", SourceLocation(WHERE, 35, 16), "Tensor-core SM90", (64, 64, 16)),
    remarks.store_selected("gemm", SourceLocation(WHERE, 36, 4), remarks.TMA_STORE, (32, 64)),
    remarks.index_not_narrowed("gemm", SourceLocation(WHERE, 20, 0)),
]

COMMAND_LINE = """\
in function: gemm:

  category: Memory
    remark[passed]: Load instruction selected
      --> "examples/gemm.py":33:15
       |
       = name: RemarkMemoryLoadInstructionSelected
       = note: Instruction = TMA Load instruction
       = note: Shape = [32, 64]

    remark[passed]: Store instruction selected
      --> "examples/gemm.py":36:4
       |
       = name: RemarkMemoryStoreInstructionSelected
       = note: Instruction = TMA Store instruction
       = note: Shape = [32, 64]

    remark[missed]: Could not narrow tensor_view indexing to i32: index computations may require 64 bits
      --> "examples/gemm.py":20:0
       |
       = name: RemarkTensorViewIndexTypeNarrowing


  category: Tensor-core
    remark[passed]: MMA operation successfully optimized to use Tensor Cores
      --> "examples/gemm.py":35:16
       |
       = name: RemarkTensorCoreMMA
       = note: Instruction = Tensor-core SM90
       = note: Shape = [64, 64, 16]

"""

YAML = """\
--- !Passed
Pass:            Tensor-core
Name:            RemarkTensorCoreMMA
DebugLoc:        { File: 'examples/gemm.py', Line: 35, Column: 16 }
Function:        gemm
Args:
  - RemarkId:    1
  - Remark:      MMA operation successfully optimized to use Tensor Cores
  - Instruction: Tensor-core SM90
  - Shape:       '[64, 64, 16]'
...
--- !Missed
Pass:            Memory
Name:            RemarkTensorViewIndexTypeNarrowing
DebugLoc:        { File: 'examples/gemm.py', Line: 20, Column: 0 }
Function:        gemm
Args:
  - RemarkId:    2
  - Remark:      'Could not narrow tensor_view indexing to i32: index computations may require 64 bits'
...
"""

UNKNOWN_PLACE = """\
--- !Failure
Pass:            Tensor-core
Name:            RemarkTensorCoreMMA
DebugLoc:        { File: '<unknown file>', Line: 0, Column: 0 }
Function:        fma
Args:
  - RemarkId:    1
  - Remark:      MMA operation failed to optimize to use Tensor Cores, it is using FMA instructions instead
  - Instruction: FMA
  - Shape:       '[1, 1, 1]'
...
"""


def test_command_line_format_groups_by_function_and_sorted_category():
    assert remarks.command_line_format(GEMM) == COMMAND_LINE


def test_command_line_format_separates_functions_and_names_unknown_places():
    text = remarks.command_line_format(
        [remarks.mma_fma("fma", None), remarks.mma_tensor_core("b", None, "X", (8, 8, 4))]
    )
    assert "      --> loc(unknown)\n" in text
    assert "       = note: Shape = [1, 1, 1]\n\n\nin function: b:\n\n  category: Tensor-core\n" in text


def test_yaml_format():
    assert remarks.yaml_format([GEMM[1], GEMM[3]]) == YAML


def test_yaml_format_of_a_failure_in_an_unknown_place():
    assert remarks.yaml_format([remarks.mma_fma("fma", None)]) == UNKNOWN_PLACE


def test_global_accesses_have_no_shape():
    assert remarks.load_selected("f", None).arguments == (("Instruction", "Global-memory load instruction"),)
    assert remarks.store_selected("f", None).arguments == (("Instruction", "Global-memory store instruction"),)


def test_reasons_and_suggestions_have_lines_of_their_own():
    text = remarks.command_line_format([remarks.tma_failed("f", SourceLocation(WHERE, 36, 4), "why", store=True)])
    assert text.endswith(
        '       = name: RemarkMemoryTmaStoreFailed\n       = reason: loc("examples/gemm.py":36:4): why\n\n'
    )
    inlined = remarks.tma_failed("f", SourceLocation(WHERE, 36, 4), "why", store=True, inlined=True)
    assert inlined.arguments == (("Reason", "why"),)


WARNING = """\
    warning[]: High register usage
      --> loc(unknown)
       |
       = name: RegisterPressure
       = reason: Estimated per-thread register usage exceeds the available budget. This is usually caused by a large \
tile size, which increases per-CTA work, or by high requested occupancy, which reduces the register budget per thread.
       = suggestion: Reduce the tile size or lower the occupancy hint.

"""


def test_warnings_are_given_apart_from_remarks_and_whatever_is_filtered():
    warning = remarks.register_pressure("f", None)
    assert remarks.warnings_format([GEMM[0], warning]) == WARNING
    assert remarks.command_line_format([warning]) == ""
    assert RemarkFilter.from_options("all").select([warning]) == []


def test_no_remarks_are_no_text():
    assert remarks.yaml_format([]) == remarks.command_line_format([]) == ""


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("gemm", "gemm"), ("a b, c-d.e_f", "a b, c-d.e_f"), ("", "''"), (" a", "' a'"), ("no", "'no'"), ("12", "'12'"),
        ("1e5", "'1e5'"), ("0x10", "'0x10'"), ("[1]", "'[1]'"), ("a: b", "'a: b'"), ("it's", "'it''s'"),
        ("a\nb", '"a\\nb"'), ("-x", "'-x'"), ("größe", '"größe"'), ("inf", "inf"), (".inf", "'.inf'"),
    ],
)  # fmt: skip
def test_yaml_scalars_are_quoted_when_they_would_be_read_as_something_else(text, written):
    assert remarks.yaml_scalar(text) == written


def _one(category: Category, kind: Kind) -> Remark:
    return Remark(category, kind, "Name", "message", "f")


def test_filters_select_category_by_kind_and_add_up():
    everything = [_one(c, k) for c in Category for k in Kind if k is not Kind.WARNING]
    assert RemarkFilter.from_options("all").select(everything) == everything
    assert RemarkFilter.from_options("all", passed="none").select(everything) == everything
    chosen = RemarkFilter.from_options("tensorcore", missed="memory").select(everything)
    assert chosen == [
        _one(Category.MEMORY, Kind.MISSED),
        *(_one(Category.TENSOR_CORE, k) for k in Kind if k is not Kind.WARNING),
    ]


def test_no_option_selects_nothing():
    nothing = RemarkFilter.from_options()
    assert not nothing.enabled
    assert nothing.select(GEMM) == []
    assert RemarkFilter.from_options(analysis="memory").enabled


def test_control_characters_of_names_stay_out_of_the_terminal():
    place = SourceLocation("a\n\x1b[31m\udcff", 3, 4)
    message = ("Message", (("Reason", "b\r\x07"), ("a\n", "b\n")))
    for kind, written in ((Kind.MISSED, remarks.command_line_format), (Kind.WARNING, remarks.warnings_format)):
        text = written([Remark(Category.HINTS, kind, "Name", message[0], "k\n\x1b", place, message[1])])
        assert all(line.isprintable() for line in text.split("\n"))
        assert '--> "a\\n\\x1b[31m\\xff":3:4\n' in text and "= reason: b\\r\\x07\n" in text
