# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The check `nan`: where a NaN comes from.

NaN is a value like others, and what a kernel does with it is defined. So this is a check that has to be asked for by
its name. It finds the first op that gives one though none of its operands has any: what is computed of that NaN
afterwards says nothing new. A NaN that a constant or a number among the arguments names is not looked for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from libtile.dialects.cuda_tile.types import TileType
from libtile.interpreter.address_space import first_index
from libtile.interpreter.faults import Fault, FaultKind
from libtile.interpreter.formats import element
from libtile.interpreter.rules import Rule

CHECK = "nan"

Watch = Callable[[Sequence[Any], Sequence[Any]], None]
"""Takes the operands and the results that are floats, when an op has run."""


def holds_floats(value: SSAValue) -> bool:
    """Whether a value's elements may be NaN."""
    return isinstance(value.type, TileType) and element(value.type).is_float


def watch(rule: Rule) -> Watch:
    """What looks at the floats of an op with this rule."""

    def look(operands: Sequence[Any], results: Sequence[Any]) -> None:
        for result in results:
            found = _nan(result)
            if not found.any() or any(_nan(value).any() for value in operands):
                continue
            index = first_index(found)
            if rule.effect:
                origin = "it was read from memory"
            elif operands and rule.elementwise and all(np.shape(value) == found.shape for value in operands):
                origin = "of " + " and ".join(f"{float(np.asarray(value)[index]):.9g}" for value in operands)
            else:
                origin = "none of the operands has one"
            raise Fault(FaultKind.NAN, origin, index)

    return look


def _nan(value: Any) -> np.ndarray:
    return np.isnan(np.asarray(value, np.float64))
