# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every elementwise op, in every element type that the dialect allows it, gives each element what a vector gives it,
whatever the tile's shape; its result has the type declared."""

from __future__ import annotations

import numpy as np
import pytest

from interpreter.helpers import evaluate, random_floats, random_integers
from libtile.dialects.cuda_tile.ops import OPS
from libtile.interpreter.formats import ELEMENTS, to_bits
from libtile.interpreter.table import RULES
from libtile.spec import default_spec

SHAPES = [(), (1,), (1, 1), (16,), (2, 8), (4, 2, 2), (1, 16, 1)]
ATTRIBUTES = {
    "rounding_mode": "nearest_even", "signedness": "signed", "comparison_predicate": "less_than",
    "comparison_ordering": "ordered",
}  # fmt: skip
#: Ops whose operands have types of their own; the files for conversions, pointers and views test them.
OTHERS = {"bitcast", "exti", "ftof", "ftoi", "itof", "trunci", "ptr_to_int", "int_to_ptr", "ptr_to_ptr", "offset",
          "assume", "fpowi", "select"}  # fmt: skip


def cases():
    spec = default_spec()
    for name, rule in sorted(RULES.items()):
        if not rule.elementwise or rule.effect or name in OTHERS:
            continue
        allowed = [spec.constraints[v.constraint].elements for v in spec.ops[name].operands]
        for elem in allowed[0]:
            if all(elem in a for a in allowed):
                yield pytest.param(name, elem, id=f"{name}-{elem}")


def operand(elem: str, seed: int) -> np.ndarray:
    """Sixteen values that no op refuses."""
    if ELEMENTS[elem].is_float:
        return random_floats(elem, 64, seed)[-16:]
    values = random_integers(elem, 64, seed)[-16:]
    return np.where(values == 0, 1, values).astype(values.dtype) if elem != "i1" else np.ones(16, bool)


def run(name: str, elem: str, operands: list[np.ndarray], shape) -> np.ndarray:
    spec = OPS[name].spec
    given = {v.name: (o, elem) for v, o in zip(spec.operands, operands)}
    attributes = {a.name: ATTRIBUTES[a.name] for a in spec.attributes if a.name in ATTRIBUTES and a.default is None}
    target = "i1" if name.startswith("cmp") else elem
    result = np.asarray(evaluate(name, given, [(shape, target)], attributes, check="off"))
    assert result.dtype == ELEMENTS[target].dtype
    assert result.shape == shape
    return to_bits(result, ELEMENTS[target])


@pytest.mark.parametrize("name, elem", list(cases()))
def test_an_elementwise_op_treats_all_shapes_alike(name, elem):
    count = len(OPS[name].spec.operands)
    vectors = [operand(elem, seed) for seed in range(count)]
    want = run(name, elem, vectors, (16,))
    for shape in SHAPES:
        size = int(np.prod(shape))
        got = run(name, elem, [v[:size].reshape(shape) for v in vectors], shape)
        assert np.array_equal(got.reshape(-1), want[:size]), shape
