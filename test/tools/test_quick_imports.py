# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A tool's import statements do what Python's do, and ask Python where a module is not as plain as most."""

import builtins
import sys
import types

import pytest

from libtile_tools import quick_imports

FILES = {
    "plain_one.py": "a, b = 1, 2",
    "pack/__init__.py": "from pack.below import c\n__all__ = ['other', 'c']",
    "pack/below.py": "c = 3",
    "pack/other.py": "d = 4",
    "giving.py": "def __getattr__(name):\n    if name == 'there':\n        return 5\n    raise AttributeError(name)",
    "half.py": "import sys\nbefore = 1\nfrom rest import seen\nafter = 2",
    "rest.py": "from half import before\ntry:\n    from half import after\nexcept ImportError as error:\n"
    "    seen = str(error).partition(' (')[0]",
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """FILES on the path, and nothing of them loaded, before and behind."""
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    _forget()
    yield tmp_path
    _forget()


def _forget() -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] in (*FILES, "plain_one", "pack", "giving")]:
        del sys.modules[name]
    for name in ("half", "rest", "gone", "made"):
        sys.modules.pop(name, None)


def _outcome(text: str, import_: object) -> list[str]:
    """What a text with import statements defines, or how it ends, by an `__import__`, and again when that is loaded."""
    found = []
    for _ in range(2):
        names: dict[str, object] = {"__builtins__": {**vars(builtins), "__import__": import_}, "sys": sys}
        try:
            exec(text, names)
        except Exception as error:
            found.append(f"{type(error).__name__}: {error}")
        del names["__builtins__"]
        found += sorted(
            f"{name} = {value.__name__ if isinstance(value, types.ModuleType) else value}"
            for name, value in names.items()
            if name != "sys" and not name.startswith("__")
        )
    return found


@pytest.mark.parametrize(
    "text",
    [
        "from plain_one import a, b as c",
        "from plain_one import *",
        "from plain_one import absent",
        "import plain_one",
        "import pack.other as x, pack",
        "import pack.other",
        "from pack import c",
        "from pack import other",
        "from pack import *",
        "from pack import other, absent",
        "from pack.below import c",
        "from giving import there",
        "from giving import absent",
        "from half import before, after\nfrom rest import seen",
        "sys.modules['gone'] = None\nfrom gone import a",
        "import types\nsys.modules['made'] = types.ModuleType('made')\nsys.modules['made'].z = 6\nfrom made import z",
        "import types\nsys.modules['made'] = types.SimpleNamespace(z=7)\nfrom made import z",
        "from nothing_of_this_name import a",
    ],
)
def test_statements_give_what_python_gives(text, folder):
    by_python = _outcome(text, builtins.__import__)
    _forget()
    assert _outcome(text, quick_imports.quick(builtins.__import__)) == by_python


def test_a_module_that_is_loaded_is_given_out_without_asking_it(folder):
    asked = []

    def python(name, *rest):
        asked.append(name)
        return builtins.__import__(name, *rest)

    statements = "from plain_one import a\nfrom pack import c\nfrom pack.below import c"
    _outcome(statements, quick_imports.quick(python))
    assert asked == ["plain_one", "pack"]  # `pack` loads what is below it, and the second time nothing is asked for
