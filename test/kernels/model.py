# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a kernel of the corpus is: source, parameters, versions, and problems with independently computed results.

How the frontend flattens parameters (its calling convention, version 1 and 2, seen in the entry's signature):

    Python parameter          flat entry parameters, in order
    array of rank r           pointer, r sizes, r strides in elements; sizes and strides are i32, or i64 when the
                              index type is int64.  A stride or size that is a compile-time constant is still a
                              parameter; the body does not read it.
    scalar                    one scalar: i1/i8.../i64, f16/bf16/f32/f64
    constant                  nothing
    tuple                     its items' parameters, one after the other
    list of arrays            pointer to i64 words, and the list's length as i32; each item is 1 + 2r words: address,
                              sizes, strides

`flatten` does this for the values of a `Problem`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

VERSIONS = ("13.1", "13.2", "13.3", "13.4", "13.5")


@dataclass(frozen=True)
class Strided:
    """An array of any strides: `shape` and `strides` (in elements) over one-dimensional `memory`."""

    memory: np.ndarray
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def view(self, memory: np.ndarray) -> np.ndarray:
        """The array over other memory of the same type and size."""
        return np.lib.stride_tricks.as_strided(memory, self.shape, [s * memory.itemsize for s in self.strides])


Value = np.ndarray | Strided | int | float | tuple
Reference = Callable[..., dict[str, np.ndarray]]


@dataclass(frozen=True)
class Tolerance:
    """How near a result must be: |got - want| <= absolute + relative * |want|; NaN equals NaN.

    Zero for both means the same number, the sign of zero included unless `signed_zero` is False.
    """

    relative: float = 0.0
    absolute: float = 0.0
    signed_zero: bool = True


EXACT = Tolerance()


@dataclass(frozen=True)
class Problem:
    """One launch of a kernel: the grid and a value for each parameter that is not a constant, in order."""

    grid: tuple[int, int, int]
    values: Sequence[Value]


@dataclass(frozen=True)
class Case:
    """A problem in the entry's own terms.

    `args` are the flat entry parameters in the IR's order; `expected(args)` maps the index of each array that
    the kernel writes to what it holds afterwards, and leaves `args` alone; `args` there are the values from before
    the launch.  Every array is C-contiguous: it is the memory, and sizes and strides are parameters of their own.
    """

    grid: tuple[int, int, int]
    args: list[Any]
    expected: Callable[[Sequence[Any]], dict[int, np.ndarray]]
    tolerance: Tolerance


@dataclass(frozen=True)
class Kernel:
    """A kernel of the corpus.

    `refusal` is what the frontend's error says (a regular expression) for every version before `min_version`;
    `problem` is None when a launch needs what a test cannot give (then `compile_only` says what).
    """

    name: str
    function: Any
    parameters: tuple[Any, ...]
    problem: Callable[[np.random.Generator], Problem] | None
    reference: Reference | None
    tolerance: Tolerance = EXACT
    min_version: str = "13.1"
    refusal: str = ""
    gpu_code: str = "sm_90"
    calling_convention: int = 1
    tags: frozenset[str] = frozenset()
    compile_only: str = ""

    @property
    def versions(self) -> tuple[str, ...]:
        """The bytecode versions that can hold this kernel."""
        return VERSIONS[VERSIONS.index(self.min_version) :]


def flatten(value: Value) -> list[Any]:
    """The flat entry parameters of one Python-level value (see the module's table)."""
    if isinstance(value, Strided):
        return [value.memory, *value.shape, *value.strides]
    if isinstance(value, np.ndarray):
        if not value.flags.c_contiguous:
            raise ValueError("a numpy argument is the memory itself, so it is in C order; use Strided for a view")
        strides = [stride // value.itemsize for stride in value.strides]
        return [value, *value.shape, *strides]
    if isinstance(value, tuple):
        return [flat for item in value for flat in flatten(item)]
    return [value]


def _runtime_names(kernel: Kernel) -> list[str]:
    """Names of the Python parameters that are not compile-time constants, in order."""
    names = list(inspect.signature(kernel.function._annotated_function.pyfunc).parameters)
    constants = (bool, int, float)
    return [name for name, given in zip(names, kernel.parameters, strict=True) if not isinstance(given, constants)]


def make_case(kernel: Kernel, seed: int) -> Case:
    """The kernel's problem for `seed`.  ValueError if the kernel cannot be launched by a test."""
    if kernel.problem is None or kernel.reference is None:
        raise ValueError(f"{kernel.name} has no launch: {kernel.compile_only}")
    problem = kernel.problem(np.random.default_rng(seed))
    names = _runtime_names(kernel)
    if len(names) != len(problem.values):
        raise ValueError(f"{kernel.name} takes {names}, the problem has {len(problem.values)} values")
    flat = [flatten(value) for value in problem.values]
    first = dict(zip(names, np.cumsum([0] + [len(part) for part in flat]).tolist()[:-1], strict=True))
    reference = kernel.reference

    def expected(args: Sequence[Any]) -> dict[int, np.ndarray]:
        values = []
        for value, part, start in zip(problem.values, flat, first.values(), strict=True):
            given = snapshot(args[start : start + len(part)])
            values.append(tuple(given) if isinstance(value, tuple) else given[0])
        return {first[name]: result for name, result in reference(*values).items()}

    return Case(problem.grid, [item for part in flat for item in part], expected, kernel.tolerance)


def mismatch(got: np.ndarray, want: np.ndarray, tolerance: Tolerance) -> str:
    """Empty if `got` is what it should be, otherwise one line that says where it first is not."""
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"got {got.dtype}{list(got.shape)}, expected {want.dtype}{list(want.shape)}"
    wide_got, wide_want = (_wide(side) for side in (got, want))
    same = wide_got == wide_want
    if wide_got.dtype.kind == "f":
        if tolerance.relative == tolerance.absolute == 0:
            same &= (np.signbit(wide_got) == np.signbit(wide_want)) | (not tolerance.signed_zero)
        else:
            with np.errstate(invalid="ignore", over="ignore"):
                limit = tolerance.absolute + tolerance.relative * np.abs(wide_want)
                same |= np.isfinite(wide_want) & (np.abs(wide_got - wide_want) <= limit)
        same |= np.isnan(wide_got) & np.isnan(wide_want)
    if bool(np.all(same)):
        return ""
    index = tuple(int(i) for i in np.argwhere(~same)[0])
    count = int(np.sum(~same))
    return f"{count} of {same.size} differ, first at {list(index)}: got {got[index]}, expected {want[index]}"


def _wide(values: np.ndarray) -> np.ndarray:
    """Values in a type that numpy compares: every narrow float fits in float64."""
    return values if values.dtype.kind in "iub" else values.astype(np.float64)


def check_case(case: Case, before: Sequence[Any], after: Sequence[Any]) -> None:
    """AssertionError unless every array in `after` is right: outputs as expected, all others untouched.

    `before` are the flat arguments as they were at launch (copies), `after` as they are now.
    """
    results = case.expected(before)
    for index, (old, new) in enumerate(zip(before, after, strict=True)):
        if not isinstance(old, np.ndarray):
            continue
        written = index in results
        problem = mismatch(new, results.get(index, old), case.tolerance if written else EXACT)
        if problem:
            raise AssertionError(f"argument {index} ({'output' if written else 'not an output'}): {problem}")


def snapshot(args: Sequence[Any]) -> list[Any]:
    """A copy of flat arguments: arrays copied, scalars as they are."""
    return [arg.copy() if isinstance(arg, np.ndarray) else arg for arg in args]


def as_mapping(kernels: Sequence[Kernel]) -> Mapping[str, Kernel]:
    """Kernels by name.  ValueError if two have the same name."""
    result: dict[str, Kernel] = {}
    for kernel in kernels:
        if kernel.name in result:
            raise ValueError(f"two kernels are named {kernel.name}")
        result[kernel.name] = kernel
    return result
