# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a module imports in any case is loaded before it, as Python would have loaded it."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from libtile_tools import kept, startup
from libtile_tools.kept_imports import imported_first
from patience import PATIENCE

FILES = {
    "first.py": "import second\nfrom some.part import value\nfrom some import other\nORDER.append('first')",
    "second.py": "from __future__ import annotations\nimport os, third as t\nORDER.append('second')\n",
    "third.py": "ORDER.append('third')",
    "some/__init__.py": "ORDER.append('some')",
    "some/part.py": "from . import below\nfrom .below import x\nvalue = 1\nORDER.append('some.part')",
    "some/below.py": "x = 1\nORDER.append('some.below')",
    "some/other.py": "import some.part\nORDER.append('some.other')",
    "maybe.py": """
TYPE_CHECKING = False
if TYPE_CHECKING:
    import first
else:
    import second
for _ in ():
    import third
try:
    import some.below
except ImportError:
    import first
def f():
    import first
class C:
    import first
import third as last
ORDER.append('maybe')
""",
    "circle.py": "import third\nbefore = 1\nimport back\nafter = back.seen\nORDER.append('circle')",
    "back.py": "import second\nfrom circle import before as seen\nORDER.append('back')",
    "wrong.py": "import faulty",
    "faulty.py": "import second\nORDER.append('faulty')\nraise ValueError('on purpose')",
    "replaced.py": "import replacing\nORDER.append(type(replacing).__name__)",
    "replacing.py": "import sys, types\nsys.modules[__name__] = types.SimpleNamespace()\nORDER.append('replacing')",
}  # fmt: skip
NAMES = {name: name.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for name in FILES}


@pytest.fixture
def order(tmp_path, monkeypatch):
    """The modules of FILES on the path; each adds its name to this list when it is executed."""
    found: list[str] = []
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setattr("builtins.ORDER", found, raising=False)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    importlib.invalidate_caches()
    yield found
    for name in NAMES.values():
        sys.modules.pop(name, None)


def codes(folder: Path) -> dict:
    return {module: compile((folder / name).read_text(), str(folder / name), "exec") for name, module in NAMES.items()}


@pytest.fixture
def first(order, tmp_path):
    for name in ("first", "some.other"):
        importlib.import_module(name)
    made = {name: sys.modules.get(name, sys) for name in NAMES.values()}
    with pytest.MonkeyPatch.context() as patch:
        for name, module in made.items():
            patch.setitem(sys.modules, name, module)
        return imported_first(codes(tmp_path))


@pytest.mark.parametrize(
    ("module", "imports"),
    [
        ("first", ("second", "some", "some.part", "some.other")),
        ("second", ("third",)),
        ("some.part", ("some.below",)),
        ("some.other", ("some.part",)),
        ("maybe", ("some", "some.below", "third")),
        ("circle", ("third",)),
        ("back", ("second",)),
    ],
)
def test_imports_under_a_condition_and_in_circles_are_left_out(first, module, imports):
    assert first[module] == imports


@pytest.fixture
def finder(first, order, tmp_path, monkeypatch):
    """A finder of a bundle with all of these, none of which is loaded."""
    made = codes(tmp_path)
    path = str(tmp_path / "tools.bundle")
    modules = {str(tmp_path / n): ((tmp_path / n).stat(), made[name], first[name]) for n, name in NAMES.items()}
    kept.Bundle(path).save(modules, {})
    for name in NAMES.values():
        sys.modules.pop(name, None)
    order.clear()
    found = startup.KeptFinder(kept.Bundle(path))
    others = [x for x in sys.meta_path if getattr(x, "__name__", "") in ("BuiltinImporter", "FrozenImporter")]
    monkeypatch.setattr(sys, "meta_path", [*others, found, *(x for x in sys.meta_path if x not in others)])
    found.stands_behind(sys.meta_path, {"some.other"})
    return found


def attributes(module) -> dict:
    names = ("__name__", "__package__", "__file__", "__cached__", "__path__", "__doc__")
    return {name: getattr(module, name, None) for name in names} | {"loader": type(module.__loader__).__name__}


def test_what_is_imported_is_there_before(finder, order, monkeypatch):
    asked = []
    monkeypatch.setattr(
        finder, "find_spec", lambda *given, find=finder.find_spec: asked.append(given[0]) or find(*given)
    )
    module = importlib.import_module("first")
    assert order == ["third", "second", "some", "some.below", "some.part", "some.other", "first"]
    assert module.value == 1 and sys.modules["some"].part is sys.modules["some.part"]
    assert asked == ["first", "second", "third", "some", "some.part", "some.below", "some.other"]
    assert not sys.modules["second"].__spec__._initializing
    made = {name: attributes(sys.modules[name]) for name in ("second", "some", "some.part")}
    for name in made:
        del sys.modules[name]
        sys.meta_path.remove(finder)
        sys.meta_path.insert(0, finder)  # in front of those that it knows: nothing is loaded ahead
        spec = importlib.util.find_spec(name)
        assert attributes(importlib.util.module_from_spec(spec)) == made[name]


def test_circles_are_gone_through_as_python_does(finder, order):
    assert importlib.import_module("circle").after == 1
    assert order == ["third", "second", "back", "circle"]


def test_a_module_that_fails_fails_where_it_is_imported(finder, order):
    with pytest.raises(ValueError, match="on purpose"):
        importlib.import_module("wrong")
    assert "faulty" not in sys.modules and "wrong" not in sys.modules and "second" in sys.modules


def test_a_module_may_put_another_object_in_its_place(finder, order):
    importlib.import_module("replaced")
    assert order == ["replacing", "SimpleNamespace"]


def test_nothing_is_loaded_ahead_where_somebody_else_finds_modules_first(finder, order, monkeypatch):
    class Other:
        @staticmethod
        def find_spec(name, path=None, target=None):
            return None

    monkeypatch.setattr(sys, "meta_path", [Other, *sys.meta_path])
    importlib.import_module("second")
    assert order == ["third", "second"]
    finder.load(("first",))
    assert "first" not in sys.modules
    finder.stands_behind(sys.meta_path, set())
    finder.load(("first",))
    assert "first" not in sys.modules


TOOL = """
import os, sys
sys.path[:0] = [sys.argv[1], sys.argv[2]]
from libtile_tools import startup
startup.install()
loaded = []
load = startup.KeptFinder._load
startup.KeptFinder._load = lambda self, spec, *given: loaded.append(spec.name) or load(self, spec, *given)
import builtins; builtins.ORDER = []
import first
print(*ORDER)
print(*loaded)
startup.finish()
"""


def test_a_tool_finds_out_what_is_imported_and_sees_when_that_changes(order, tmp_path):
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(tmp_path / "cache")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    tools = str(Path(startup.__file__).parents[1])

    def run() -> list[str]:
        command = [sys.executable, "-c", TOOL, tools, str(tmp_path)]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment, timeout=PATIENCE)
        return done.stdout.splitlines()

    usual = "third second some some.below some.part some.other first"
    assert run() == [usual, ""]
    assert run() == [usual, "second third some some.part some.below some.other"]
    (tmp_path / "third.py").write_text("import some.below; ORDER.append('now')")
    assert run()[0] == "some some.below now second some.part some.other first"
    assert run() == [
        "some some.below now second some.part some.other first",
        "second third some some.below some.part some.other",
    ]
