# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What shortens a tool's start changes nothing else, and a compilation loads only what it needs."""

import dataclasses
import os
import subprocess
import sys

import pytest

import libtile
from patience import PATIENCE
from tools.process import ROOT


def test_the_library_leaves_other_modules_as_they_are():
    assert not hasattr(dataclasses, "exec")


_EVERY_DIALECT = """
import abc, dataclasses, importlib.util, sys
from xdsl.dialects import get_all_dialects
from xdsl.ir import ParametrizedAttribute

print(type(importlib.util.find_spec("xdsl.dialects.cmath").loader).__name__)  # loading it writes a file beside it
for name, dialect in sorted(get_all_dialects().items()):
    if name == "cmath":
        continue
    try:
        found = dialect()
    except ImportError as missing:
        print(missing)
        continue
    for op in found.operations:
        definition = op.get_irdl_definition() if hasattr(op, "get_irdl_definition") else None
        print(op.name, sorted(type(trait).__name__ for trait in op.traits), op.parse.__func__.__name__)
        if definition is not None:
            print(len(definition.operands), len(definition.results), list(definition.properties))
    for attribute in found.attributes:
        definition = attribute.get_irdl_definition() if issubclass(attribute, ParametrizedAttribute) else None
        print(attribute.name, definition and [name for name, _ in definition.parameters])
for name, module in sorted(sys.modules.items()):
    for cls in vars(module).values() if name.partition(".")[0] == "xdsl" else ():
        if isinstance(cls, type) and cls.__module__ == name:
            print(name, cls.__qualname__, type(cls).__name__, sorted(vars(cls)))
made = dataclasses.dataclass(type("A", (abc.ABC,), {"__annotations__": {"a": int}}))
made.register(int)
print(isinstance(1, made), type(made).__name__, type(made.__dict__["__dataclass_fields__"]).__name__)
"""


def test_classes_of_others_are_the_same_in_a_tool():
    """What they have, what ops and attributes consist of, and which dialects there are."""

    def printed(begin: str) -> list[str]:
        command = [sys.executable, "-c", begin + _EVERY_DIALECT]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE).stdout.splitlines()

    in_a_tool = printed("from libtile_tools import startup; startup.install()")
    assert in_a_tool == printed("")
    assert len(in_a_tool) > 2000


def test_a_tool_prints_what_the_library_prints(tmp_path):
    source = ROOT / "examples" / "softmax.bc"
    in_process = libtile.compile(source, "sm_90", emit="tileas", keep_text=True).tileas
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(tmp_path), "PYTHONPATH": str(ROOT)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    for _ in range(2):  # at first the code is made, then it is found
        command = [sys.executable, "-m", "tileiras", "--gpu-name=sm_90", "--emit=tileas", str(source)]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment, timeout=PATIENCE)
        assert done.stdout == in_process
    assert [path.name.partition(".")[0] for path in tmp_path.rglob("*.bundle")] == ["tileiras"]


@pytest.mark.parametrize(
    ("tool", "arguments", "unwanted"),
    [
        (
            "tileiras",
            ["--gpu-name=sm_90", "--no-cache", "examples/vector_add.bc", "-o", os.devnull],
            [
                *("numpy", "ml_dtypes", "libtile.interpreter", "libtile.simulator", "llvmlite.ir"),
                *("xdsl.dialects.arith", "xdsl.dialects.math", "xdsl.dialects.scf", "xdsl.dialects.tensor"),
                *("pathlib", "urllib", "tempfile", "shutil", "xdsl.passes", "xdsl.utils.lexer"),
                *("subprocess", "threading", "signal", "selectors"),
            ],
        ),
        (
            "tileirdisasm",
            ["examples/vector_add.bc"],
            [
                *("numpy", "llvmlite", "libtile.lowering", "xdsl.dialects.arith", "xdsl.dialects.scf"),
                *("xdsl", "pathlib", "tempfile"),
            ],
        ),
    ],
)
def test_a_tool_loads_only_what_it_needs(tool, arguments, unwanted):
    code = (
        "from libtile_tools import startup; startup.install()\n"
        f"import sys; from libtile_tools import cli; from {tool}.main import command; cli.call(command, {arguments!r});"
        f"print('loaded', *({set(unwanted)!r} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.splitlines()[-1] == "loaded"


def test_numpy_makes_random_numbers_in_a_tool():
    script = (
        "from libtile_tools import startup\nstartup.install()\nimport xdsl.ir\nimport numpy as np\n"
        "seeded = np.random.default_rng(np.random.SeedSequence(7))\n"
        "print(seeded.integers(100) == np.random.default_rng(7).integers(100), len(seeded.spawn(2)))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("True 2\n", "")


_PATTERNS = """
from libtile_tools import startup
startup.install()
import sys, types
for name, text in (("asked", "import re; A = re.compile(r'(?P<a>x+)|(y)', re.I); B = re.compile(b'[^z]*')"),
                   ("told", "import re; made = lambda pattern: re.compile(pattern)")):
    module = sys.modules[name] = types.ModuleType(name)
    exec(compile(text, name, "exec"), vars(module))
A, B = sys.modules["asked"].A, sys.modules["asked"].B
print(A, A.groups, dict(A.groupindex), A.flags, A.fullmatch("XX").lastgroup, B, B.match(b"ab").span())
print(sys.modules["told"].made("of(an)input").fullmatch("ofaninput").groups())
print(len(startup._patterns.added), file=sys.stderr)
startup.finish()
"""


def test_patterns_of_modules_are_kept_and_those_of_inputs_are_not(tmp_path):
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(tmp_path)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    seen = []
    for _ in range(2):  # at first they are compiled, then they are found
        command = [sys.executable, "-c", _PATTERNS]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment, timeout=PATIENCE)
        seen.append(done)
    assert seen[0].stdout == seen[1].stdout
    assert int(seen[0].stderr) >= 2
    assert int(seen[1].stderr) == 0
    assert "('an',)" in seen[0].stdout
    (bundle,) = tmp_path.rglob("*.bundle")
    assert b"(?P<a>x+)|(y)" in bundle.read_bytes()
    assert b"of(an)input" not in bundle.read_bytes()


_COMPILED = """
import sys
found = []
sys.addaudithook(lambda event, values: found.append(values) if event == "compile" else None)
from libtile_tools import startup
startup.install()
from libtile_tools import cli
from tileirdisasm.main import command
cli.call(command, ["examples/vector_add.bc"])
print(*found, sep="\\n", file=sys.stderr)
startup.finish()
"""


def test_a_tool_that_has_run_before_compiles_nothing(tmp_path):
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(tmp_path)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-c", _COMPILED]
    seen = [
        subprocess.run(
            command, capture_output=True, text=True, check=True, env=environment, cwd=ROOT, timeout=PATIENCE
        ).stderr
        for _ in range(2)
    ]
    assert "_tuple_new" in seen[0]
    assert seen[1].strip() == ""


_LATER = """
import sys
from libtile_tools import startup
startup.install()
import inspect, dataclasses
empty = [name for name in ("ast", "dis", "linecache", "token", "tokenize") if len(vars(sys.modules[name])) < 12]
print(*empty, file=sys.stderr)
import dis, tokenize, linecache, token, ast
from ast import literal_eval
class Names(ast.NodeVisitor):
    def visit_Name(self, node):
        print(node.id)
class Inner:
    def method(self): pass
Names().visit(ast.parse("a + f(b)"))
print(literal_eval("[1, 'a']"), inspect.isclass(Names), isinstance(ast.parse("1"), ast.Module))
print(dis.COMPILER_FLAG_NAMES[4], dis.opname[dis.opmap["NOP"]], dis.__name__, dis.__doc__.split()[0], ast.__file__[-6:])
print(tokenize.NAME == token.NAME, linecache.getline(ast.__file__, 1)[:3], inspect.CO_VARARGS)
import importlib.util
print(importlib.util.find_spec("ast").origin == ast.__file__, type(ast).__name__, type(dis).__name__)
import typing_extensions
print(inspect.getsource(typing_extensions.deprecated).splitlines()[0])
startup.finish()
"""


def test_what_inspect_imports_is_loaded_when_it_is_asked_for_something(tmp_path):
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(tmp_path)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)

    def printed(code: str) -> tuple[str, str]:
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment, timeout=PATIENCE)
        return done.stdout, done.stderr.strip()

    plain, _ = printed(_LATER.replace("startup.install()", "").replace("startup.finish()", ""))
    assert "VARARGS NOP" in plain
    in_tools = [printed(_LATER) for _ in range(2)]  # at first nothing is kept
    assert [stdout for stdout, _ in in_tools] == [plain, plain]
    if sys.version_info < (3, 14):  # from there on `annotationlib` needs some of them
        assert in_tools[1][1] == "ast dis linecache token tokenize"
