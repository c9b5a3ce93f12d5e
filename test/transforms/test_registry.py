# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The list of passes."""

from __future__ import annotations

import dataclasses
import subprocess
import sys

import pytest
from xdsl.passes import ModulePass

from libtile.passes import registry
from libtile.support.errors import LibtileError


@pytest.mark.parametrize("name", registry.PASSES)
def test_a_pass_is_a_frozen_dataclass_under_its_own_name(name: str) -> None:
    cls = registry.pass_class(name)
    assert issubclass(cls, ModulePass)
    assert cls.name == name
    assert dataclasses.is_dataclass(cls) and cls.__dataclass_params__.frozen  # type: ignore[attr-defined]
    assert cls.__doc__


def test_every_pass_says_whose_functions_it_changes() -> None:
    assert all(entry.works_on for entry in registry.PASSES.values())


def test_an_unknown_pass_is_named() -> None:
    with pytest.raises(LibtileError, match="'frobnicate' does not refer to a registered pass"):
        registry.pass_class("frobnicate")


def test_a_name_is_registered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "PASSES", dict(registry.PASSES))
    registry.register("mine", "package.module:Mine")
    registry.register("mine", "package.module:Mine")
    with pytest.raises(LibtileError, match="'mine' is already registered"):
        registry.register("mine", "package.module:Other")


def test_the_list_loads_no_pass() -> None:
    code = "import sys, libtile.passes.registry; print('xdsl' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
