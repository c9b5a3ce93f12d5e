# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A function stands once: two rooms that need the same one have it from an earlier room."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

SMALLEST = 250
"""Characters of the dump of a body that is worth a name of its own: more than one call of another function."""


def without_documentation(body: list[ast.stmt]) -> list[ast.stmt]:
    return [node for node in body if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))]


def functions(text: str):
    """The functions of a file by what they do, with their lines. Decorated ones are rules that are registered by name:
    interpreter and lowering have one for each op, whatever others there are."""
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef) and not node.decorator_list:
            said = "".join(map(ast.dump, without_documentation(node.body)))
            if len(said) >= SMALLEST:
                yield said + ",".join(argument.arg for argument in node.args.args), node.lineno


def test_no_function_of_a_file_stands_in_another_file_too():
    places = defaultdict(list)
    for folder in ("libtile", "tools"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for said, line in functions(path.read_text(encoding="utf-8")):
                places[said].append(f"{path.relative_to(ROOT)}:{line}")
    repeated = ["the same function: " + " and ".join(found) for found in places.values() if len(found) > 1]
    assert not repeated, "\n".join(["move it to an earlier room:", *repeated])


def test_the_same_function_under_another_name_is_seen_and_another_one_is_not():
    one = 'def f(op):\n    "Doc."\n    return [x for r in op.regions for b in r.blocks for x in b.ops if x.results]\n'
    same, other = one.replace("def f", "def g").replace("Doc", "Text"), one.replace("results", "operands")
    said = [next(functions(text))[0] for text in (one, same, other)]
    assert said[0] == said[1] != said[2]
