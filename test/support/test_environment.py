# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Environment variables: each is declared once, documented, and read with no value taken that means nothing."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import libtile
from libtile.compiler import cache
from libtile.support import environment
from libtile.support.environment import VARIABLES, SettingError, Switch
from libtile_tools import served, server_place

ROOT = Path(__file__).resolve().parents[2]
MODULE = "nv_tileaa.func @f() { nv_tileaa.return }"

READERS = {
    "libtile/backend/ptxas.py": "all of it, for ptxas, and GLIBC_TUNABLES, which is glibc's",
    "libtile/backend/tools.py": "CUDA_HOME and CUDA_PATH, which are CUDA's",
    "libtile/backend/trial.py": "all of it, for another process",
    "libtile/compiler/cache.py": "XDG_CACHE_HOME",
    "libtile/cutile/children/sitecustomize.py": "what a process of libtile.cutile has for those that it starts",
    "libtile/cutile/processes.py": "the same, and PYTHONPATH",
    "libtile/support/environment.py": "all that are declared",
    "libtile/support/files.py": "TMPDIR, TEMP and TMP",
    "tools/libtile_tools/cli.py": "how many threads numpy takes, in the process",
    "tools/libtile_tools/entry.py": "LIBTILE_SERVER, before anything is loaded",
    "tools/libtile_tools/kept.py": "XDG_CACHE_HOME",
    "tools/libtile_tools/served.py": "LIBTILE_SERVER, and all of it, for a compile server",
    "tools/libtile_tools/server.py": "variables of ours, which a compile server has none of",
    "tools/libtile_tools/server_child.py": "all of it, which is another process's",
    "tools/libtile_tools/server_place.py": "LIBTILE_SERVER_DIR, XDG_RUNTIME_DIR, and those that act when Python starts",
}
"""Where the environment is read, and what for."""


def _reads(tree: ast.Module) -> bool:
    names = {n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute)}
    return not names.isdisjoint(("environ", "environb", "getenv", "getenvb"))


def test_no_other_file_reads_the_environment():
    files = (path for top in ("libtile", "tools") for path in sorted((ROOT / top).rglob("*.py")))
    found = {str(p.relative_to(ROOT)) for p in files if "env" in (text := p.read_text()) and _reads(ast.parse(text))}
    assert found == set(READERS), "declare a variable of ours in libtile/support/environment.py, or list the reader"


def test_the_page_of_tileiras_lists_every_variable():
    rows = re.findall(r"^\| `(\w+)` \| (.*) \|$", (ROOT / "docs" / "tileiras.md").read_text(), re.MULTILINE)
    assert [row for row in rows if row[0].startswith(("LIBTILE_", "TILEIR_"))] == [(v.name, v.means) for v in VARIABLES]


SWITCHES = [v for v in VARIABLES if isinstance(v, Switch)]


@pytest.mark.parametrize("switch", SWITCHES, ids=lambda v: v.name)
def test_a_switch_is_on_off_or_refused(switch: Switch, monkeypatch: pytest.MonkeyPatch) -> None:
    for value, state in {"": switch.default, "1": True, "ON": True, "yes": True, "0": False, "No": False}.items():
        monkeypatch.setenv(switch.name, value)
        assert switch.on() is state
    for value in ("2", " 1", "maybe", "-", "1\n"):
        monkeypatch.setenv(switch.name, value)
        with pytest.raises(SettingError, match=f"environment variable {switch.name} is '{re.escape(value)}', and must"):
            switch.on()


@pytest.mark.parametrize("switch", [v for v in SWITCHES if v.enters_key], ids=lambda v: v.name)
def test_a_compilation_looks_at_every_switch_of_its_own(switch: Switch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(switch.name, "perhaps")
    with pytest.raises(libtile.LibtileError, match=f"{switch.name} is 'perhaps'"):
        libtile.compile(libtile.parse(MODULE), gpu_name="sm_80", emit="tileas")


def test_a_duration_is_a_number_or_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for value, seconds in {"": 600, "0": 0, "90": 90}.items():
        monkeypatch.setenv(environment.SERVER_IDLE.name, value)
        assert environment.SERVER_IDLE.seconds() == seconds
    for value in ("-1", "1.5", "1s", " 1", "9" * 10):
        monkeypatch.setenv(environment.SERVER_IDLE.name, value)
        with pytest.raises(SettingError, match=r"LIBTILE_SERVER_IDLE is .* and must be a number of seconds"):
            environment.SERVER_IDLE.seconds()


def test_tools_ask_for_the_server_by_the_names_that_are_declared() -> None:
    assert environment.SERVER.name == served.SWITCH
    assert environment.SERVER_FOLDER.name == server_place.FOLDER
    assert f'"{served.SWITCH}"' in (ROOT / "tools" / "libtile_tools" / "entry.py").read_text()


def test_the_cache_says_why_a_folder_cannot_hold_it(tmp_path: Path) -> None:
    assert cache.Cache(tmp_path / "new" / "folder").obstacle() is None
    (tmp_path / "file").touch()
    assert cache.Cache(tmp_path / "file" / "x").obstacle() == "Not a directory"
    assert cache.Cache(tmp_path / "file").obstacle() == "File exists"
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o777)
    assert cache.Cache(tmp_path / "shared").obstacle() == "others may write to it, or it is another user's"


def test_settings_are_those_that_a_result_depends_on() -> None:
    assert set(environment.settings()) == {v.name for v in SWITCHES if v.enters_key}
