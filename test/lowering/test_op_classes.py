# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Analyses, lowering, transforms and debugging ask for classes of ops, and not for their names."""

import ast
import inspect
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from xdsl.dialects import math

import libtile
from libtile.dialects import arith, foreign_ops, nv_tileaa, nv_tileas  # noqa: F401  (their ops are in OP_CLASSES)
from libtile.dialects.cuda_tile.ops import OPS
from libtile.ir.tile_form import OP_CLASSES
from libtile.lowering.rules import Rules
from libtile.lowering.tileas.memory import barriers, shared_barriers
from libtile.lowering.to_llvm.emitter import RULES

LIBRARY = Path(libtile.__file__).parent
SOURCES = sorted(
    path for room in ("analysis", "debugging", "lowering", "transforms") for path in (LIBRARY / room).rglob("*.py")
)
DIALECTS = (foreign_ops.ARITH, math.Math, foreign_ops.SCF, foreign_ops.TENSOR)
NAMES = {
    *OP_CLASSES,
    *(f"cuda_tile.{name}" for name in OPS),
    *(op.name for dialect in DIALECTS for op in dialect.operations),
}
PREFIXES = {name.split(".")[0] + "." for name in NAMES}

EXCEPTIONS: dict[tuple[str, str], str] = {}
"""(file, name) of the op names that stand in the code, each with the reason why no class does. None: the ops of
cuda_tile, whose classes are made from the spec that is in use, are asked for by mnemonics, which are no such names."""

ROOT = Path(__file__).resolve().parents[2]


def op_names(tree: ast.AST) -> list[str]:
    """The strings in the code that are names of ops, or begin one, docstrings left out."""
    documents = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    strings = (
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documents
    )
    return [text for text in strings if text in NAMES or text in PREFIXES]


@pytest.mark.parametrize("path", SOURCES, ids=[str(p.relative_to(LIBRARY)) for p in SOURCES])
def test_no_op_is_known_by_its_name(path):
    found = {(str(path.relative_to(LIBRARY)), name) for name in op_names(ast.parse(path.read_text()))}
    assert found == {key for key in EXCEPTIONS if key[0] == str(path.relative_to(LIBRARY))}


def test_names_are_found():
    code = '"""nv_tileaa.load"""\nif op.name == "scf.for" or op.name.startswith("arith."):\n    build(f"nv_tileas.{x}")'
    assert op_names(ast.parse(code)) == ["scf.for", "arith.", "nv_tileas."]


def test_a_rule_is_found_by_the_class_or_the_nearest_base():
    rules = Rules()
    rules.on(arith.AddiOp)(lambda stage, op: None)
    rules.on(arith.BinaryOp)(lambda stage, op: None)
    one, two = (arith.ConstantOp.from_int_and_width(n, 32) for n in (1, 2))
    assert rules.of(arith.AddiOp(one, two)) is rules[arith.AddiOp]
    assert rules.of(arith.AndIOp(one, two)) is rules[arith.BinaryOp]
    assert rules.of(one) is None


def test_rules_are_loaded_with_the_ops_that_they_are_for_and_no_others():
    code = """
import sys
import libtile
libtile.compile("examples/vector_add.bc", gpu_name="sm_90", emit="llvm")
print(*[name for name in sys.modules if name.startswith("libtile.lowering.to_llvm.")])
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    always = set(done.stdout.split())
    assert "libtile.lowering.to_llvm.memory" in always
    for name in ("products", "tensor_memory", "pipelines", "tma", "atomics", "collectives"):
        assert f"libtile.lowering.to_llvm.{name}" not in always
    RULES.load()
    for cls, function in RULES.items():
        known = always.union(RULES.late.get(cls.__module__, ()))
        assert function.__module__ in known, f"{cls.__name__}: the table of late rules lacks {function.__module__}"


def test_emission_rules_stand_behind_classes_of_ops():
    RULES.load()
    assert all(isinstance(cls, type) and hasattr(cls, "name") for cls in RULES)


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (barriers.BarrierAnalysis.structure, barriers.STRUCTURE),
        (shared_barriers._Analysis._known, shared_barriers.KNOWN),
    ],
    ids=["structure", "known"],
)
def test_a_table_of_classes_has_all_that_its_function_tells_apart(function, told):
    """Ops of other classes do not get there."""
    asked: list[type] = []
    for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(function)))):
        cls = node.cls if isinstance(node, ast.MatchClass) else None
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance":
            cls = node.args[1]
        if cls is not None:
            found = eval(ast.unparse(cls), function.__globals__)
            asked += found if isinstance(found, tuple) else [found]
    assert set(asked) == set(told)
