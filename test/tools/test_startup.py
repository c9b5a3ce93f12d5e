# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What shortens a tool's start changes nothing else, and a compilation loads only what it needs."""

import dataclasses
import os
import subprocess
import sys
from importlib.util import MAGIC_NUMBER

import pytest

import libtile
from libtile_tools import startup
from tools.process import ROOT

TEXT = "def f(a, b=3):\n return a + b + c"


def function(code: startup.GeneratedCode):
    names: dict = {}
    code.execute(TEXT, {"c": 4}, names)
    return names["f"]


def saved(tmp_path) -> str:
    """A file of kept code that holds TEXT's."""
    path = str(tmp_path / "__pycache__" / "code.bin")
    code = startup.GeneratedCode(path)
    assert function(code)(1) == 8
    code.save()
    return path


def test_kept_code_is_not_compiled_again(tmp_path, monkeypatch):
    path = saved(tmp_path)
    monkeypatch.setattr(startup, "compile", lambda *_: pytest.fail("compiled again"), raising=False)
    code = startup.GeneratedCode(path)
    assert function(code)(1) == function(code)(1, 3) == 8
    assert not code.added


def test_a_file_is_begun_anew_when_it_has_grown(tmp_path, monkeypatch):
    path = saved(tmp_path)
    for most, kept in ((2, 2), (1, 1)):
        monkeypatch.setattr(startup, "MOST_KEPT", most)
        code = startup.GeneratedCode(path)
        code.execute(f"x = {most}", {})
        code.save()
        assert len(startup.GeneratedCode(path)._load()) == kept


@pytest.mark.parametrize("damage", ["gone", "cut", "older", "other"])
def test_a_file_that_cannot_be_used_is_as_good_as_none(tmp_path, damage):
    path = saved(tmp_path)
    with open(path, "rb") as file:
        data = file.read()
    data = {
        "gone": None,
        "cut": data[:-20],
        "older": b"\0\0\r\n" + data[4:],
        "other": MAGIC_NUMBER + b"nothing of marshal's",
    }[damage]
    if data is None:
        os.unlink(path)
    else:
        with open(path, "wb") as file:
            file.write(data)
    code = startup.GeneratedCode(path)
    assert function(code)(1) == 8
    assert code.added


def test_a_place_that_cannot_be_written_to_is_left_alone(tmp_path):
    (tmp_path / "file").write_text("")
    code = startup.GeneratedCode(str(tmp_path / "file" / "code.bin"))
    assert function(code)(1) == 8
    code.save()
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_nothing_is_kept_when_python_keeps_nothing(monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert startup._place() is None


def test_the_library_leaves_dataclasses_and_xdsl_as_they_are():
    assert not hasattr(dataclasses, "exec")
    from xdsl.irdl.declarative_assembly_format import FormatProgram

    assert FormatProgram.from_str is not startup._FormatOnDemand


def test_a_tool_prints_what_the_library_prints(tmp_path):
    source = ROOT / "examples" / "softmax.bc"
    in_process = libtile.compile(source, "sm_90", emit="tileas", keep_text=True).tileas
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(tmp_path), "PYTHONPATH": str(ROOT)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    for _ in range(2):  # at first the code is made, then it is found
        command = [sys.executable, "-m", "tileiras", "--gpu-name=sm_90", "--emit=tileas", str(source)]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment, timeout=120)
        assert done.stdout == in_process
    assert [path.name.partition(".")[0] for path in tmp_path.rglob("*.bin")] == ["generated_code"]


@pytest.mark.parametrize(
    ("tool", "arguments", "unwanted"),
    [
        (
            "tileiras",
            ["--gpu-name=sm_90", "--no-cache", "examples/vector_add.bc", "-o", os.devnull],
            ["numpy", "ml_dtypes", "libtile.interpreter", "libtile.simulator", "xdsl.dialects.math"],
        ),
        ("tileirdisasm", ["examples/vector_add.bc"], ["numpy", "llvmlite", "libtile.lowering"]),
    ],
)
def test_a_tool_loads_only_what_it_needs(tool, arguments, unwanted):
    code = (
        f"import sys; from libtile_tools import cli; from {tool}.main import command; cli.call(command, {arguments!r});"
        f"print('loaded', *({set(unwanted)!r} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.splitlines()[-1] == "loaded"
