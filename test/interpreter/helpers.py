# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""One op at a time: build it, make its rule, run it on numpy values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np
from xdsl.dialects.test import TestOp

from libtile.dialects.cuda_tile.ops import OPS, build
from libtile.dialects.cuda_tile.types import NUMBER_TYPES, TileType
from libtile.interpreter.formats import ELEMENTS
from libtile.interpreter.rules import Site
from libtile.interpreter.table import RULES
from libtile.support.checks import INTERPRETER

MODES = ("nearest_even", "zero", "negative_inf", "positive_inf")
BASE_FLOATS = ("f16", "bf16", "f32", "f64")
INTEGERS = ("i1", "i8", "i16", "i32", "i64")

Operand = tuple[Any, str]
"""Values and the keyword of their element type."""


def tile(shape: Sequence[int], elem: str) -> TileType:
    return TileType(shape, NUMBER_TYPES[elem])


def evaluate(
    name: str,
    operands: Mapping[str, Operand | Sequence[Operand] | None],
    results: Sequence[tuple[Sequence[int], str]],
    attributes: Mapping[str, Any] | None = None,
    check: str = "basic",
) -> Any:
    """Run one pure op. `operands` are by declared name (a list for a variadic one), `results` (shape, element)."""
    values: dict[str, Any] = {}
    types: list[Any] = []
    for key, operand in operands.items():
        group = operand if isinstance(operand, list) else [] if operand is None else [operand]
        arrays = [np.asarray(v).astype(ELEMENTS[e].dtype) for v, e in group]
        types += [tile(a.shape, e) for a, (_, e) in zip(arrays, group)]
        values[key] = tuple(arrays) if isinstance(operand, list) else arrays[0] if arrays else None
    source = TestOp(result_types=types)
    produced = iter(source.results)
    ssa: dict[str, Any] = {}
    for key, operand in operands.items():
        if isinstance(operand, list):
            ssa[key] = [next(produced) for _ in operand]
        else:
            ssa[key] = None if operand is None else next(produced)
    op = build(name, ssa, [tile(s, e) for s, e in results], attributes)
    rule = RULES[name]
    run = rule.make(Site(op, INTERPRETER.choose(check)))
    with np.errstate(all="ignore"):
        return run(*(values[spec.name] for spec in OPS[name].spec.operands))


def elementwise(name: str, elem: str, operands: Sequence[Any], attributes: Mapping[str, Any] | None = None,
                result: str | None = None, check: str = "basic") -> np.ndarray:  # fmt: skip
    """Run an op whose operands have one shape and one element type."""
    shape = np.shape(operands[0])
    names = [s.name for s in OPS[name].spec.operands]
    given = {n: (o, elem) for n, o in zip(names, operands)}
    return np.asarray(evaluate(name, given, [(shape, result or elem)], attributes, check))


def random_floats(elem: str, count: int, seed: int = 0) -> np.ndarray:
    """Values over the whole exponent range of a format: zeros, subnormals, extremes, infinities and NaN first."""
    rng = np.random.default_rng(seed)
    info = ml_dtypes.finfo(ELEMENTS[elem].dtype)
    tiny, sub = float(info.smallest_normal), float(info.smallest_subnormal)
    top, eps = float(info.max), float(info.eps)
    special = [0.0, -0.0, sub, -sub, tiny - sub, tiny, -tiny, 1.0, -1.0, 1 + eps, 1 - eps / 2, 2 - eps, top, -top,
               np.inf, -np.inf, np.nan, 0.5, 3.0, -7.0]  # fmt: skip
    low, high = int(info.minexp) - int(info.nmant), int(info.maxexp)
    exponents = rng.integers(low, high, count)
    near = rng.integers(-4, 5, count)
    exponents = np.where(rng.random(count) < 0.7, near, exponents)
    with np.errstate(all="ignore"):
        values = np.ldexp(rng.uniform(1, 2, count), exponents) * rng.choice([-1.0, 1.0], count)
        values[: len(special)] = special[:count]
        return values.astype(ELEMENTS[elem].dtype)


def pairs(values: np.ndarray, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Every special value with every other, then the rest with random partners."""
    special = values[:20]
    a, b = (m.reshape(-1) for m in np.meshgrid(special, special))
    rest = values[20:]
    return np.concatenate([a, rest]), np.concatenate([b, np.random.default_rng(seed).permutation(rest)])


def random_integers(elem: str, count: int, seed: int = 0) -> np.ndarray:
    """Values over the whole range of an integer type, extremes first."""
    rng = np.random.default_rng(seed)
    width = ELEMENTS[elem].width
    if width == 1:
        return np.arange(count) % 2 == 1
    low, high = -(1 << (width - 1)), (1 << (width - 1)) - 1
    values = rng.integers(low, high, count, dtype=np.int64, endpoint=True)
    small = rng.integers(-9, 10, count)
    values = np.where(rng.random(count) < 0.3, small, values)
    values[:8] = [0, 1, -1, low, high, low + 1, high - 1, 2]
    return values.astype(ELEMENTS[elem].dtype)


def same_floats(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    """Equal values with equal signs; NaN equals NaN."""
    a, b = np.asarray(got, np.float64), np.asarray(want, np.float64)
    return (np.isnan(a) & np.isnan(b)) | ((a == b) & (np.signbit(a) == np.signbit(b)))


def assert_floats(got: Any, want: Any, *operands: Any) -> None:
    """Every element is the expected one; the message shows the first that is not, with its operands."""
    good = same_floats(np.asarray(got), np.asarray(want))
    if not good.all():
        i = tuple(int(n) for n in np.argwhere(~good)[0])
        shown = [float(np.asarray(o)[i]).hex() for o in operands]
        raise AssertionError(
            f"{np.count_nonzero(~good)} of {good.size} differ; first at {i}: got {float(np.asarray(got)[i]).hex()}, "
            f"expected {float(np.asarray(want)[i]).hex()}, operands {shown}"
        )
