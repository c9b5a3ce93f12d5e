# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The runner itself, on a suite of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from conformance import suite

GOOD = """\
// RUN: cuda-tile-opt %s -no-implicit-module | FileCheck %s
// RUN: %round_trip_test %s %t
// RUN: not cuda-tile-translate -cudatilebc-to-mlir %s
// CHECK-LABEL: entry @k
// CHECK-NEXT: %[[T:.*]] = make_token
// CHECK-NEXT: join_tokens %[[T]], %[[T]]
cuda_tile.module @kernels {
  entry @k() {
    %0 = make_token : token
    %1 = join_tokens %0, %0 : token
    return
  }
}
"""


@pytest.fixture
def small_suite(tmp_path: Path) -> Path:
    for folder in suite.FOLDERS:
        (tmp_path / "test" / folder).mkdir(parents=True)
    script = tmp_path / "test" / "Dialect" / "CudaTile" / "round_trip_test.sh"
    script.write_text("set -e\ncuda-tile-translate -mlir-to-cudatilebc -no-implicit-module $1 -o $2.bc\n")
    (tmp_path / "test" / "Bytecode" / "good.mlir").write_text(GOOD)
    (tmp_path / "test" / "Bytecode" / "bad.mlir").write_text(GOOD.replace("join_tokens %[[T]],", "join_tokens %other,"))
    return tmp_path


def test_runner_tells_passing_from_failing_tests(small_suite: Path) -> None:
    codes = {result.name: result.code for result in suite.run(small_suite)}
    assert codes == {"Bytecode/good.mlir": "PASS", "Bytecode/bad.mlir": "FAIL"}


def test_command_exits_with_an_error_and_lists_what_it_left_out(small_suite: Path) -> None:
    command = [sys.executable, suite.ROOT / "test/conformance/run.py", small_suite]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "1 of 2 tests passed" in done.stdout
    assert all(reason in done.stdout for reason in suite.EXCLUDED.values())


def test_other_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(suite.SuiteError, match="is not a checkout"):
        suite.names(tmp_path)


def file_check(tmp_path: Path, checks: str, text: str) -> int:
    path = tmp_path / "checks"
    path.write_text(checks)
    script = Path(suite.__file__).with_name("filecheck_main.py")
    done = subprocess.run([sys.executable, script, path], input=text, capture_output=True, text=True, check=False)
    return done.returncode


@pytest.mark.parametrize(
    ("text", "status"),
    [("a\nb verify\n", 0), ("a\nif\nb verify\n", 1), ("a\nb\n", 1)],
    ids=["inside the next match", "between the matches", "no next match"],
)
def test_excluded_text_is_looked_for_between_matches(tmp_path: Path, text: str, status: int) -> None:
    assert file_check(tmp_path, "// CHECK: a\n// CHECK-NOT: if\n// CHECK: b verify\n", text) == status


def test_excluded_text_is_looked_for_up_to_the_end(tmp_path: Path) -> None:
    assert file_check(tmp_path, "// CHECK: a\n// CHECK-NOT: if\n", "a\nb\n") == 0
    assert file_check(tmp_path, "// CHECK: a\n// CHECK-NOT: if\n", "a\nb\nif\n") == 1
