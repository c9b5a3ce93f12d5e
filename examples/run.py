# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs the examples' .bc files with no GPU and compares with numpy:  python examples/run.py [NAME ...]

Needs libtile only: of an example's source just `problem` and `reference` are read, which are plain numpy.
"""

from __future__ import annotations

import argparse
import ast
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import libtile

FOLDER = Path(__file__).resolve().parent
TOLERANCE = 2e-3  # the largest of the examples' outputs in f16; errors are relative to the largest element


def _is_literal(node: ast.expr) -> bool:
    literals = (ast.Constant, ast.Tuple, ast.UnaryOp, ast.USub, ast.Load)
    return all(isinstance(part, literals) for part in ast.walk(node))


def numpy_parts(path: Path) -> dict[str, Callable[..., Any]]:
    """`problem` and `reference` of an example's source, without importing the frontend that its kernel needs."""
    tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
    kept: list[ast.stmt] = []
    for node in tree.body:
        is_function = isinstance(node, ast.FunctionDef) and not node.decorator_list
        if is_function or (isinstance(node, ast.Assign) and _is_literal(node.value)):
            kept.append(node)
    names: dict[str, Any] = {"np": np}
    future = ast.parse("from __future__ import annotations").body
    exec(compile(ast.Module(future + kept, type_ignores=[]), str(path), "exec"), names)
    return {name: names[name] for name in ("problem", "reference")}


def flatten(arguments: list[Any]) -> list[Any]:
    """The entry's parameters: an array is its memory, its sizes, and its strides in elements."""
    flat: list[Any] = []
    for argument in arguments:
        flat.append(argument)
        if isinstance(argument, np.ndarray):
            flat += [*argument.shape, *(s // argument.itemsize for s in argument.strides)]
    return flat


def run(name: str, backend: str, gpu_name: str) -> tuple[float, float, tuple[int, int, int]]:
    """Run an example: (largest difference from numpy relative to the largest element, seconds, grid)."""
    parts = numpy_parts(FOLDER / f"{name}.py")
    grid, arguments = parts["problem"](np.random.default_rng(0))
    expected = parts["reference"](*[a.copy() if isinstance(a, np.ndarray) else a for a in arguments])
    start = time.perf_counter()
    libtile.run(FOLDER / f"{name}.bc", name, grid=grid, args=flatten(arguments), backend=backend, gpu_name=gpu_name)
    seconds = time.perf_counter() - start
    parameters = parts["reference"].__code__.co_varnames
    error = 0.0
    for parameter, values in expected.items():
        found = arguments[parameters.index(parameter)].astype(np.float64)
        scale = max(float(np.abs(values.astype(np.float64)).max()), 1.0)
        error = max(error, float(np.abs(found - values.astype(np.float64)).max()) / scale)
    return error, seconds, grid


def main() -> int:
    names = sorted(p.stem for p in FOLDER.glob("*.bc"))
    parser = argparse.ArgumentParser(description="Run the examples without a GPU and compare with numpy.")
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"examples to run (default: all of {', '.join(names)})"
    )
    parser.add_argument("--backend", choices=["interpreter", "simulator", "gpu"], default="interpreter")
    parser.add_argument("--gpu-name", default="sm_90", help="target to compile for (simulator and gpu)")
    options = parser.parse_args()
    unknown = set(options.names) - set(names)
    if unknown:
        parser.error(f"no example is called {sorted(unknown)[0]!r}")
    failures = 0
    print(f"{'example':<12} {'grid':>9} {'seconds':>8} {'error':>9}")
    for name in options.names or names:
        error, seconds, grid = run(name, options.backend, options.gpu_name)
        good = error <= TOLERANCE
        failures += not good
        shown = "x".join(map(str, grid)).removesuffix("x1").removesuffix("x1")
        verdict = "agrees with numpy" if good else "DIFFERS from numpy"
        print(f"{name:<12} {shown:>9} {seconds:8.2f} {error:9.1e}  {verdict}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
