# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Where temporary files go, and that they go."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from libtile.support.files import remove_folder, temporary_folder

VARIABLES = ("TMPDIR", "TEMP", "TMP")


@pytest.mark.parametrize("given", [{}, {"TMPDIR": "."}, {"TEMP": "here"}, {"TMPDIR": "not/there"}, {"TMP": "file"}])
def test_the_temporary_folder_is_that_of_python(
    given: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here").mkdir()
    (tmp_path / "file").touch()
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(tempfile, "tempdir", None)
    assert temporary_folder() == tempfile.gettempdir()


@pytest.mark.parametrize("inside", [[], ["a"], ["a", "deeper/b"]])
def test_a_folder_goes_with_what_is_in_it(inside: list[str], tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    for name in inside:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).touch()
    remove_folder(folder)
    assert not os.path.lexists(folder)
    remove_folder(folder)  # it is gone already
