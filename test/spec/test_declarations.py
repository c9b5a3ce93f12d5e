# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The package's declarations are what their TOML files say, and are parsed once."""

import os
import sys
import tomllib
from pathlib import Path

import pytest

from libtile import targets
from libtile.spec.loader import DATA
from libtile.support import declarations

FILES = sorted([*Path(DATA).glob("*.toml"), *Path(targets.__file__).parent.glob("*.toml")])


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_reads_as_its_toml(path):
    assert declarations.read(path) == tomllib.loads(path.read_text(encoding="utf-8"))


def test_a_file_is_parsed_again_only_when_it_changed(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(sys, "pycache_prefix", None)
    parsed = []
    parse = declarations.parse
    monkeypatch.setattr(declarations, "parse", lambda text: parsed.append(text) or parse(text))
    path = tmp_path / "a.toml"
    path.write_text("[x]\ny = [1, 2.5, true, 'z']\n")
    tables = declarations.read(path)
    tables["x"]["y"].append("the reader's own")
    assert declarations.read(path) == {"x": {"y": [1, 2.5, True, "z"]}}
    assert len(parsed) == 1
    path.write_text("[x]\ny = 1\n")
    os.utime(path, (1, 1))
    assert declarations.read(path) == {"x": {"y": 1}}
    assert len(parsed) == 2


def test_nothing_is_kept_when_python_keeps_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    path = tmp_path / "a.toml"
    path.write_text("a = 1\n")
    assert declarations.read(path) == {"a": 1}
    assert list(tmp_path.iterdir()) == [path]
