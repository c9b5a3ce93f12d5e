# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels with a mistake and their clean twins: the same kernel, its last argument 1 or 0.

The clean runs are cases of the corpus like any other. `MISTAKES` says what a checking run must report for the others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .table import Family, Launch, Source

FAULTS = Family(Source("faults"))
FAULTS90 = Family(Source("faults90", archs=("sm_90",)))

#: The kernel's arguments before `bad`, and what the clean run must leave in the arrays.
Setup = Callable[[], tuple[list[Any], dict[int, np.ndarray]]]


@dataclass(frozen=True)
class Mistake:
    """What the simulator must say about one kernel's bad run: the kind, and the lanes of the warp that it names."""

    entry: str
    kinds: tuple[str, ...]
    lanes: tuple[int, ...] | None = None


MISTAKES: list[Mistake] = []
LANE = np.arange(32, dtype=np.int32)


def mistake(
    *kinds: str,
    lanes: list[int] | None = None,
    block: int = 32,
    dynamic_shared: int = 0,
    family: Family = FAULTS,
) -> Callable[[Setup], Setup]:
    """Register the decorated function's kernel: a clean case, and the fault of its bad run."""

    def register(setup: Setup) -> Setup:
        def clean(rng: np.random.Generator) -> Launch:
            args, expected = setup()
            return Launch([*args, 0], dict(expected))

        entry = setup.__name__
        family.add(entry=entry, block=block, dynamic_shared=dynamic_shared)(clean)
        MISTAKES.append(Mistake(entry, kinds, None if lanes is None else tuple(lanes)))
        return setup

    return register


def numbers(count: int) -> np.ndarray:
    return np.arange(count, dtype=np.int32) * 3 + 1


def zeros(count: int, dtype: Any = np.int32) -> np.ndarray:
    return np.zeros(count, dtype)


@mistake("out-of-bounds", lanes=[31])
def past_the_end() -> tuple[list[Any], dict[int, np.ndarray]]:
    return [zeros(32)], {0: LANE}


@mistake("out-of-bounds", lanes=[0, 1, 2])
def before_the_start() -> tuple[list[Any], dict[int, np.ndarray]]:
    return [zeros(32), numbers(32)], {0: numbers(32)}


@mistake("out-of-bounds")
def past_shared() -> tuple[list[Any], dict[int, np.ndarray]]:
    return [zeros(32)], {0: np.roll(LANE, -1)}


@mistake("out-of-bounds", lanes=[31], dynamic_shared=128)
def past_dynamic_shared() -> tuple[list[Any], dict[int, np.ndarray]]:
    return [zeros(32)], {0: LANE}


@mistake("misaligned", lanes=[5])
def misaligned() -> tuple[list[Any], dict[int, np.ndarray]]:
    return [zeros(32), numbers(40)], {0: numbers(32)}


@mistake("misaligned")
def misaligned_vector() -> tuple[list[Any], dict[int, np.ndarray]]:
    source = np.arange(132, dtype=np.float32)
    return [zeros(32, np.float32), source], {0: source[:128].reshape(32, 4).sum(axis=1)}


@mistake("null-access", lanes=[7])
def null_pointer() -> tuple[list[Any], dict[int, np.ndarray]]:
    return [zeros(32), numbers(32)], {0: numbers(32)}


@mistake("uninitialized", lanes=list(range(16, 32)))
def unset_shared() -> tuple[list[Any], dict[int, np.ndarray]]:
    return [zeros(32)], {0: LANE}


@mistake("race", block=64)
def missing_barrier() -> tuple[list[Any], dict[int, np.ndarray]]:
    return [zeros(64), numbers(64)], {0: numbers(64)[::-1].copy()}


@mistake("race")
def missing_warp_barrier() -> tuple[list[Any], dict[int, np.ndarray]]:
    return [zeros(32), numbers(32)], {0: numbers(32)[::-1].copy()}


@mistake("race", block=64)
def two_writers() -> tuple[list[Any], dict[int, np.ndarray]]:
    return [zeros(64), numbers(64)], {0: np.full(64, 1, np.int32)}


@mistake("race", block=64)
def overwritten_too_soon() -> tuple[list[Any], dict[int, np.ndarray]]:
    return [zeros(64), numbers(64)], {0: numbers(64)[::-1] * 3 + 3}


@mistake("divergent-barrier", block=64)
def divergent_barrier() -> tuple[list[Any], dict[int, np.ndarray]]:
    return [zeros(64)], {0: np.arange(64, dtype=np.int32)}


@mistake("divergent-instruction")
def divergent_matrix_load() -> tuple[list[Any], dict[int, np.ndarray]]:
    return [zeros(32, np.uint32), numbers(32).view(np.uint32)], {0: numbers(32)}


@mistake("membermask", lanes=[0])
def shuffle_outside_mask() -> tuple[list[Any], dict[int, np.ndarray]]:
    return [zeros(32, np.uint32), numbers(32).view(np.uint32)], {0: numbers(32)[np.arange(32) ^ 1]}


@mistake("deadlock", block=64)
def barrier_nobody_completes() -> tuple[list[Any], dict[int, np.ndarray]]:
    return [zeros(64)], {0: np.arange(64, dtype=np.int32)}


@mistake("deadlock", block=64)
def crossed_barriers() -> tuple[list[Any], dict[int, np.ndarray]]:
    return [zeros(64)], {0: np.arange(64, dtype=np.int32)}


@mistake("stack-overflow")
def endless_recursion() -> tuple[list[Any], dict[int, np.ndarray]]:
    return [zeros(32, np.uint32)], {0: np.full(32, 4 + 3 + 2 + 1, np.uint32)}


@mistake("read-only")
def write_constant() -> tuple[list[Any], dict[int, np.ndarray]]:
    return [zeros(32)], {0: np.resize([1, 2, 3, 4], 32).astype(np.int32)}


@mistake("async", "race", "uninitialized")
def async_copy_not_waited_for() -> tuple[list[Any], dict[int, np.ndarray]]:
    return [zeros(32, np.uint32), numbers(32).view(np.uint32)], {0: numbers(32)}


@mistake("out-of-bounds", lanes=[31])
def async_copy_past_the_end() -> tuple[list[Any], dict[int, np.ndarray]]:
    return [zeros(32, np.uint32), numbers(128).view(np.uint32)], {0: numbers(128)[1::4].copy()}


@mistake("out-of-bounds")
def atomic_past_the_end() -> tuple[list[Any], dict[int, np.ndarray]]:
    return [zeros(32, np.uint32)], {0: np.ones(32, np.uint32)}


@mistake("deadlock", "instruction-limit", block=64)
def waits_forever() -> tuple[list[Any], dict[int, np.ndarray]]:
    return [zeros(65, np.uint32)], {0: np.concatenate([[1], np.arange(64)]).astype(np.uint32)}


@mistake("uninitialized", lanes=[9])
def unset_global() -> tuple[list[Any], dict[int, np.ndarray]]:
    return [zeros(32), zeros(32)], {0: LANE}


@mistake("freed-access")
def used_after_free() -> tuple[list[Any], dict[int, np.ndarray]]:
    return [zeros(32, np.uint32)], {0: LANE}


@mistake("proxy-fence", family=FAULTS90)
def missing_proxy_fence() -> tuple[list[Any], dict[int, np.ndarray]]:
    return [zeros(32, np.uint32), numbers(32).view(np.uint32)], {0: numbers(32) + np.int32(1)}


@mistake("deadlock", "instruction-limit", family=FAULTS90)
def too_few_bytes() -> tuple[list[Any], dict[int, np.ndarray]]:
    return [zeros(32, np.uint32), numbers(32).view(np.uint32)], {0: numbers(32)}


@mistake("async", "race", "uninitialized", family=FAULTS90)
def bulk_copy_not_waited_for() -> tuple[list[Any], dict[int, np.ndarray]]:
    return [zeros(32, np.uint32), numbers(32).view(np.uint32)], {0: numbers(32)}


@mistake("misaligned", family=FAULTS90)
def misaligned_bulk_copy() -> tuple[list[Any], dict[int, np.ndarray]]:
    want = np.where(np.arange(32) < 16, numbers(32), 0).astype(np.int32)
    return [zeros(32, np.uint32), numbers(32).view(np.uint32)], {0: want}


@mistake("async", "uninitialized", "illegal-instruction", family=FAULTS90)
def unset_mbarrier() -> tuple[list[Any], dict[int, np.ndarray]]:
    return [zeros(32, np.uint32)], {0: np.ones(32, np.uint32)}
