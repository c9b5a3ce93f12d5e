# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The bundle of compiled code: what is in it is what would be compiled, and nothing about the file can do harm."""

import importlib
import inspect
import marshal
import os
import subprocess
import sys
from pathlib import Path

import pytest

from libtile_tools import kept, startup
from patience import PATIENCE
from tools.process import ROOT

TEXT = "def f(a, b=3):\n return a + b + c"


def function(code: startup.GeneratedCode):
    names: dict = {}
    code.execute(TEXT, {"c": 4}, names)
    return names["f"]


def saved(tmp_path: Path) -> str:
    """A bundle with TEXT's code, and the code of a module `some` beside it."""
    path = str(tmp_path / "__pycache__" / "tools.bundle")
    code = startup.GeneratedCode(kept.Bundle(path))
    assert function(code)(1) == 8
    source = tmp_path / "some.py"
    source.write_text("x = 1\n")
    module = compile(source.read_text(), str(source), "exec")
    assert kept.Bundle(path).save({str(source): (source.stat(), module, ())}, code.added)
    return path


def test_kept_code_is_not_compiled_again(tmp_path, monkeypatch):
    bundle = kept.Bundle(saved(tmp_path))
    monkeypatch.setattr(startup, "compile", lambda *_: pytest.fail("compiled again"), raising=False)
    code = startup.GeneratedCode(bundle)
    assert function(code)(1) == function(code)(1, 3) == 8
    assert not code.added


def test_kept_code_has_the_name_of_its_file(tmp_path):
    path = str(tmp_path / "tools.bundle")
    for _ in range(2):  # compiled, and kept
        code = startup.GeneratedCode(kept.Bundle(path))
        names: dict = {}
        code.execute("# <decode op 13.1>\ndef f(): pass", names, filename="<decode op 13.1>")
        assert names["f"].__code__.co_filename == "<decode op 13.1>"
        code.kept.save({}, code.added)
    assert not code.added


def test_a_bundle_grows_by_what_is_new(tmp_path):
    path = saved(tmp_path)
    other = tmp_path / "other.py"
    other.write_text("y = 2\n")
    kept.Bundle(path).save({str(other): (other.stat(), compile("y = 2\n", str(other), "exec"), ())}, {})
    bundle = kept.Bundle(path)
    assert bundle.text(TEXT) is not None
    assert bundle.module(str(tmp_path / "some.py")) is not None and bundle.module(str(other)) is not None
    (tmp_path / "some.py").unlink()
    bundle.save({}, {})
    assert list(kept.Bundle(path)._modules) == [str(other)]


def test_what_two_processes_add_at_once_is_kept(tmp_path):
    path = saved(tmp_path)
    first, second = kept.Bundle(path), kept.Bundle(path)
    first.save({}, {"x = 1": compile("x = 1", "x", "exec")})
    second.save({}, {"x = 2": compile("x = 2", "x", "exec")})
    assert {"x = 1", "x = 2", TEXT} == set(kept.Bundle(path)._texts)


def test_texts_of_any_length_are_found_wherever_they_lie(tmp_path):
    path = str(tmp_path / "tools.bundle")
    texts = {str(number): "x" * (number * number % 9973 if number % 500 else 90_000) for number in range(1, 1001)}
    kept.Bundle(path).save({}, texts)
    bundle = kept.Bundle(path)
    assert all(bundle.text(text) == value for text, value in reversed(texts.items()))


def test_texts_are_begun_anew_when_there_are_too_many(tmp_path, monkeypatch):
    path = saved(tmp_path)
    for most, count in ((2, 2), (1, 1)):
        monkeypatch.setattr(kept, "MOST_TEXTS", most)
        code = startup.GeneratedCode(kept.Bundle(path))
        code.execute(f"x = {most}", {})
        code.kept.save({}, code.added)
        assert len(kept.Bundle(path)._texts) == count


def test_the_code_of_a_source_that_has_changed_is_not_used(tmp_path):
    path, source = saved(tmp_path), tmp_path / "some.py"
    before = source.stat()
    assert kept.Bundle(path).module(str(source)) is not None
    source.write_text("x = 22\n")
    os.utime(source, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert kept.Bundle(path).module(str(source)) is None
    source.write_text("x = 2\n")
    os.utime(source, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    assert kept.Bundle(path).module(str(source)) is None
    source.unlink()
    assert kept.Bundle(path).module(str(source)) is None


@pytest.mark.parametrize("damage", ["gone", "empty", "cut", "longer", "other", "length", "index", "python", "folder"])
def test_a_bundle_that_cannot_be_used_is_as_good_as_none(tmp_path, monkeypatch, damage):
    path = Path(saved(tmp_path))
    data = path.read_bytes()
    path.unlink()
    start = len(kept.MAGIC)
    spoilt = {
        "empty": b"",
        "cut": data[:-20],
        "longer": data + b"\0",
        "other": b"something else\n",
        "length": data[:start] + b"\xff" * 8 + data[start + 8 :],
        "index": data[: start + 8] + marshal.dumps(3) + data[start + 13 :],
        "python": data,
    }
    if damage in spoilt:
        path.write_bytes(spoilt[damage])
    elif damage == "folder":
        path.mkdir()
    if damage == "python":
        monkeypatch.setattr(sys, "version", "3.99")
    bundle = kept.Bundle(str(path))
    assert not bundle
    code = startup.GeneratedCode(bundle)
    assert function(code)(1) == 8 and list(code.added) == [TEXT]
    assert bundle.save({}, code.added) is (damage != "folder")
    if damage != "folder":
        assert kept.Bundle(str(path)).text(TEXT) is not None


def test_what_nobody_will_read_goes_when_a_bundle_is_written(tmp_path):
    old = [f"tools.{sys.implementation.cache_tag}.bundle", "tileiras.cpython-311.bundle.1234"]
    others = ["tileirdisasm.cpython-311.bundle", "tileiras.cpython-311.bundle.99", "startup.cpython-311.pyc"]
    for name in (*old, *others):
        (tmp_path / name).write_bytes(kept.MAGIC)
    os.utime(tmp_path / old[1], (1, 1))
    folder = tmp_path / "tools.x.bundle"  # which cannot be removed as a file is
    folder.mkdir()
    assert kept.Bundle(str(tmp_path / "tileiras.bundle")).save({}, {"1": 1})
    assert {path.name for path in tmp_path.iterdir()} == {*others, "tileiras.bundle", folder.name}


def test_a_place_that_cannot_be_written_to_is_left_alone(tmp_path):
    (tmp_path / "file").write_text("")
    assert not kept.Bundle(str(tmp_path / "file" / "tools.bundle")).save({}, {})
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.fixture
def read_only(tmp_path, monkeypatch):
    """An installation without a bundle that cannot be written to, whoever runs the tests."""
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path / "installed"))
    monkeypatch.setattr(kept, "_writable", lambda folder: False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    return tmp_path


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="needs owners of files")
def test_an_installation_that_cannot_be_written_to_has_a_bundle_in_each_users_cache(read_only, monkeypatch):
    bundle = kept.bundle()
    assert bundle is not None and bundle.path.startswith(str(read_only / "home" / "libtile"))
    assert bundle.save({}, {TEXT: compile(TEXT, "x", "exec")})
    assert os.stat(bundle.path).st_mode & 0o777 == 0o600
    assert kept.bundle()
    os.chmod(bundle.path, 0o666)  # somebody else may have written it
    assert not kept.bundle()
    os.chmod(bundle.path, 0o600)
    monkeypatch.setattr(os, "geteuid", lambda: -5)
    assert not kept.bundle()
    assert not kept.bundle().save({}, {TEXT: compile(TEXT, "x", "exec")})


def test_without_a_home_there_is_no_bundle_of_the_users(read_only, monkeypatch):
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    assert kept.bundle().path.startswith(str(read_only / "installed"))


def test_each_python_has_a_bundle_of_its_own(monkeypatch):
    names = set()
    for tag in ("cpython-311", "cpython-312", None):
        monkeypatch.setattr(sys.implementation, "cache_tag", tag)
        bundle = kept.bundle()
        names.add(bundle and bundle.path)
    assert len(names) == 3 and None in names


# -- modules ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def finder(tmp_path, monkeypatch):
    """A finder of a bundle with the module `some_module` and the package `some_package` of two folders of sys.path."""
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
    package = tmp_path / "two" / "some_package"
    package.mkdir()
    sources = {tmp_path / "two" / "some_module.py": "x = 1", package / "__init__.py": "", package / "inner.py": "y = 2"}
    found = {}
    for source, text in sources.items():
        source.write_text(text)
        found[str(source)] = (source.stat(), compile(text, str(source), "exec"), ())
    path = str(tmp_path / "tools.bundle")
    kept.Bundle(path).save(found, {})
    monkeypatch.setattr(sys, "path", [str(tmp_path / "one"), str(tmp_path / "two"), *sys.path])
    made = startup.KeptFinder(kept.Bundle(path))
    monkeypatch.setattr(sys, "meta_path", [made, *sys.meta_path])
    importlib.invalidate_caches()
    yield made
    for name in ("some_module", "some_package", "some_package.inner"):
        sys.modules.pop(name, None)


def test_the_value_of_a_text_is_kept_beside_the_code_of_the_same_text(tmp_path):
    path = str(tmp_path / "tools.bundle")
    for _ in range(2):  # compiled, and kept
        code = startup.GeneratedCode(kept.Bundle(path))
        assert code.evaluate(" a + b", {"a": 1}, {"b": 2}) == 3
        code.execute(" a + b".strip(), {"a": 1, "b": 2})
        code.kept.save({}, code.added)
    assert not code.added
    with pytest.raises(SyntaxError):
        code.evaluate("a +", {})


def test_a_module_of_the_bundle_is_as_any_other(finder, tmp_path):
    module = importlib.import_module("some_module")
    inner = importlib.import_module("some_package.inner")
    assert (module.x, inner.y) == (1, 2)
    assert {type(m.__spec__.loader).__name__ for m in (module, inner)} == {"_KeptLoader"}
    assert module.__file__ == str(tmp_path / "two" / "some_module.py") and inspect.getsource(module) == "x = 1\n"
    assert sys.modules["some_package"].__path__ == [str(tmp_path / "two" / "some_package")]
    assert inner.__package__ == "some_package" and finder.missed == []


@pytest.mark.parametrize("form", ["some_module.py", "some_module/__init__.py"])
def test_a_module_that_stands_before_that_of_the_bundle_is_taken(finder, tmp_path, form):
    other = tmp_path / "one" / form
    other.parent.mkdir(exist_ok=True)
    other.write_text("x = 'another'")
    finder._folders = startup.Folders(sys.path)  # as in a process that begins now
    importlib.invalidate_caches()
    assert importlib.import_module("some_module").x == "another"
    assert list(finder.new_modules()) == [str(other)]


def test_two_modules_of_a_name_in_one_folder_are_left_to_python(finder, tmp_path):
    (tmp_path / "two" / "some_module").mkdir()
    assert startup.Folders(sys.path).with_module("some_module") == []
    archive = str(tmp_path / "tools.bundle")
    assert startup.Folders([archive, *sys.path]).with_module("some_package") == []


def test_a_command_of_a_modules_name_does_not_stand_before_it(finder, tmp_path):
    (tmp_path / "one" / "some_module").write_text("#!/bin/sh")
    assert startup.Folders(sys.path).with_module("some_module") == [(str(tmp_path / "two"), True)]


def test_a_folder_that_is_no_package_does_not_stand_before_one(finder, tmp_path):
    (tmp_path / "one" / "some_package").mkdir()
    finder._folders = startup.Folders(sys.path)
    assert type(importlib.import_module("some_package").__spec__.loader).__name__ == "_KeptLoader"
    (tmp_path / "one" / "some_package" / "__init__.py").write_text("")
    assert finder.find_spec("some_package", None) is None


def test_a_module_of_the_bundle_that_python_had_to_find_is_not_added_again(finder, tmp_path, monkeypatch):
    monkeypatch.setattr(finder, "_folders", startup.Folders([]))
    importlib.import_module("some_module")
    assert finder.missed == ["some_module"] and finder.new_modules() == {}


def test_a_path_that_has_changed_is_left_to_python(finder, tmp_path):
    (tmp_path / "one" / "some_module.py").write_text("x = 'another'")
    sys.path.insert(0, str(tmp_path / "one"))
    importlib.invalidate_caches()
    assert importlib.import_module("some_module").x == "another"


def test_a_source_that_changes_while_it_is_kept_is_not(finder, tmp_path, monkeypatch):
    source = tmp_path / "one" / "some_module.py"
    source.write_text("x = 'another'")
    finder._folders = startup.Folders(sys.path)
    importlib.invalidate_caches()
    loader = importlib.import_module("some_module").__spec__.loader
    monkeypatch.setattr(loader, "get_code", lambda name: source.write_text("x = 'a third'") and None)
    assert finder.new_modules() == {}


# -- processes --------------------------------------------------------------------------------------------------------

COMMAND = ["-m", "tileirdisasm", str(ROOT / "examples" / "vector_add.bc")]


def environment(prefix: Path, **more: str) -> dict[str, str]:
    found = {**os.environ, "PYTHONPYCACHEPREFIX": str(prefix), "PYTHONPATH": str(ROOT), **more}
    if "PYTHONDONTWRITEBYTECODE" not in more:
        found.pop("PYTHONDONTWRITEBYTECODE", None)
    return found


def run(prefix: Path, **more: str) -> str:
    done = subprocess.run(
        [sys.executable, *COMMAND], env=environment(prefix, **more), capture_output=True, text=True, check=True,
        timeout=PATIENCE,
    )  # fmt: skip
    assert done.stderr == ""
    return done.stdout


def test_tools_that_run_at_once_leave_a_whole_bundle(tmp_path):
    running = [
        subprocess.Popen([sys.executable, *COMMAND], env=environment(tmp_path), stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    texts = {process.communicate(timeout=PATIENCE)[0] for process in running}
    assert len(texts) == 1 and all(process.returncode == 0 for process in running)
    (path,) = tmp_path.rglob("*.bundle*")
    written = path.stat().st_mtime_ns
    assert {run(tmp_path)} == texts
    assert path.stat().st_mtime_ns == written, "a run that found all that it needed has written the bundle again"
    code = (
        "import os, sys; sys.argv = ['tileirdisasm', '--version']; from libtile_tools import entry; exit = os._exit;"
        "os._exit = lambda s: exit(s or print(sys.modules['libtile_tools.cli'].__loader__, file=sys.stderr) or 0);"
        "entry.tileirdisasm()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment(tmp_path), capture_output=True, text=True, check=True, timeout=PATIENCE,
    )  # fmt: skip
    assert "libtile_tools.startup._KeptLoader" in done.stderr


def test_nothing_is_written_when_python_writes_nothing_and_what_is_there_is_used(tmp_path):
    run(tmp_path, PYTHONDONTWRITEBYTECODE="1")
    assert not list(tmp_path.rglob("*.bundle"))
    run(tmp_path)
    (path,) = tmp_path.rglob("*.bundle")
    kept.Bundle(str(path)).save({}, {})  # of this Python
    done = subprocess.run(
        [sys.executable, "-v", *COMMAND], capture_output=True, text=True, check=True, timeout=PATIENCE,
        env=environment(tmp_path, PYTHONDONTWRITEBYTECODE="1"),
    )  # fmt: skip
    matches = [line for line in done.stderr.splitlines() if "matches" in line and "/xdsl/" in line]
    assert matches == [], "a module was read from its own file"
