# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random programs by seed and profile.

print(program(7).text)                  # tiles, memory, products, control flow, ...
print(program(7, "control").text)       # nested control flow over scalars
"""

from __future__ import annotations

# The statements register themselves.
from generators import control, elementwise, memory, products, shapes, views  # noqa: F401
from generators.core import STATEMENTS, Generator, Profile, Program
from generators.queues import queue_program
from generators.tensors import tensor_program

_FEATURES = tuple(dict.fromkeys(e.feature for e in STATEMENTS))
MODIFIERS = ("masks", "orderings", "hints")
"""Features that vary other statements and have none of their own."""

QUEUES = "queues"
"""The profile of programs whose agents hand tiles on through queues."""

TENSORS = "tensors"
"""The profile of whole kernels around products of large tiles."""

PROFILES = {
    "all": Profile((*_FEATURES, *MODIFIERS), always=("results",)),
    "straight": Profile((*(f for f in _FEATURES if f != "control"), *MODIFIERS), always=("results",), state=1),
    "control": Profile(
        ("control", "integers", "select", "memory"), always=("control", "integers", "select", "memory"),
        statements=60, elements=("i1", "i32"), max_exponent=0, state=2, grid=False,
    ),
}  # fmt: skip


def program(seed: int, profile: str = "all") -> Program:
    """A random program; the same for the same seed and profile. Those of `QUEUES` are nv_tileaa, all others Tile IR."""
    if profile == QUEUES:
        return queue_program(seed)
    if profile == TENSORS:
        return tensor_program(seed)
    return Generator(seed, PROFILES[profile]).program()
