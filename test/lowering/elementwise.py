# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs generated code of single values in the simulator: many cases in one kernel, many elements per case."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from libtile.backend import nvptx, ptx
from libtile.codegen import constants
from libtile.codegen.builder import KernelBuilder, Value, integer
from libtile.codegen.llvm_types import ELEMENT_TYPES, GLOBAL_POINTER, I1, I8, I32, LlvmType
from libtile.interpreter.formats import ELEMENTS, from_bits, to_bits
from libtile.interpreter.table import RULES
from libtile.simulator import run_ptx
from libtile.targets import target

TARGETS = ("sm_80", "sm_90", "sm_100", "sm_120")
THREADS = 128
POINTER = GLOBAL_POINTER


@dataclass(frozen=True)
class Case:
    """One function under test: `emit(builder, *values)`, its inputs (element, bit patterns) and result's element."""

    name: str
    emit: Callable[..., Value]
    inputs: Sequence[tuple[str, np.ndarray]]
    result: str


def stored_type(element: str) -> LlvmType:
    return I8 if element == "i1" else ELEMENT_TYPES[element]


def _address(b: KernelBuilder, base: Value, element: str, place: Value) -> Value:
    return b.emit(POINTER, f"getelementptr {stored_type(element)}, {base.typed}, {place.typed}")


def load(b: KernelBuilder, base: Value, element: str, place: Value) -> Value:
    type_ = stored_type(element)
    value = b.emit(type_, f"load {type_}, {_address(b, base, element, place).typed}")
    return b.cast("trunc", value, I1) if element == "i1" else value


def store(b: KernelBuilder, base: Value, element: str, place: Value, value: Value) -> None:
    if element == "i1":
        value = b.cast("zext", value, I8)
    b.line(f"store {value.typed}, {_address(b, base, element, place).typed}")


def finished_ptx(b: KernelBuilder, target_name: str) -> str:
    b.return_()
    text = nvptx.to_ptx(b.module_text(), target(target_name))
    entry = ptx.EntryDirectives(b.threads, language=None)
    return ptx.finish(text, target(target_name), {b.name: entry})


def evaluate(target_name: str, cases: Sequence[Case]) -> list[np.ndarray]:
    """The result of each case as bit patterns. All inputs have one size, a multiple of the block."""
    b = KernelBuilder("k", target(target_name), THREADS)
    arrays: list[np.ndarray] = []
    known: dict[int, Value] = {}

    def parameter(array: np.ndarray) -> Value:
        if id(array) not in known:
            known[id(array)] = b.add_parameter(POINTER, "noalias")
            arrays.append(array)
        return known[id(array)]

    size = cases[0].inputs[0][1].size
    block = b.call("llvm.nvvm.read.ptx.sreg.ctaid.x", I32, [])
    place = b.add(b.mul(block, integer(I32, THREADS)), b.thread_id())
    results = []
    for case in cases:
        values = [load(b, parameter(bits), element, place) for element, bits in case.inputs]
        out = np.zeros(size, f"u{ELEMENT_TYPES[case.result].storage_bytes}")
        results.append(out)
        store(b, parameter(out), case.result, place, case.emit(b, *values))
    text = finished_ptx(b, target_name)
    run_ptx(text, "k", grid=(size // THREADS, 1, 1), block=(THREADS, 1, 1), args=arrays)
    return results


def evaluate_constants(target_name: str, cases: Sequence[Case]) -> list[np.ndarray]:
    """The result of each case where all its operands are constants, so that LLVM computes it, on each element."""
    b = KernelBuilder("k", target(target_name), THREADS)
    results = []
    for case in cases:
        out = np.zeros(case.inputs[0][1].size, f"u{ELEMENT_TYPES[case.result].storage_bytes}")
        results.append(out)
        base = b.add_parameter(POINTER, "noalias")
        for i in range(out.size):
            operands = [constants.from_bits(element, int(bits[i])) for element, bits in case.inputs]
            store(b, base, case.result, integer(I32, i), case.emit(b, *operands))
    run_ptx(finished_ptx(b, target_name), "k", block=(THREADS, 1, 1), args=results, checks="off")
    return results


def some(case: Case, count: int = 20) -> Case:
    """A case with few of its elements: random ones and the last special ones."""
    size = case.inputs[0][1].size
    picks = np.r_[np.random.default_rng(1).integers(0, size, count // 2), size - count // 2 : size]
    return Case(case.name, case.emit, [(element, bits[picks]) for element, bits in case.inputs], case.result)


# -- inputs ---------------------------------------------------------------------------------------------------------


def _special_floats(name: str) -> list[float]:
    form = ELEMENTS[name].float
    if form is None:
        raise ValueError(name)
    tiny = form.smallest_normal
    last = tiny * 2.0 ** (1 - form.precision)
    numbers = [0.0, 1.0, 1.5, 2.0, 3.0, 0.5, 0.1, 7.0, tiny, last, tiny - last, tiny * 1.5, form.top, form.top / 2]
    return [*numbers, float("inf"), float("nan")]


def patterns(name: str, count: int, seed: int) -> np.ndarray:
    """Bit patterns of an element type: moderate values, then random patterns, and special values at the end.

    Patterns of an even and of an odd seed meet in all pairs of special values.
    """
    elem = ELEMENTS[name]
    rng = np.random.default_rng(seed)
    dtype = np.dtype(f"u{ELEMENT_TYPES[name].storage_bytes}")
    bits = (
        rng.integers(0, 2**64, count, np.uint64, endpoint=False)
        if dtype.itemsize == 8
        else rng.integers(0, 1 << 8 * dtype.itemsize, count, np.uint64)
    )
    bits = bits.astype(dtype)
    if name == "i1":
        return bits & dtype.type(1)
    if elem.is_float and name in ("f16", "bf16", "f32", "f64"):
        half = count // 2
        ordinary = (rng.standard_normal(half) * np.exp2(rng.integers(-6, 7, half))).astype(elem.dtype).view(dtype)
        bits[:half] = ordinary
        special = np.array(_special_floats(name), np.float64).astype(elem.dtype)
        special = np.concatenate([special, -special]).view(dtype)
    elif elem.is_integer:
        top = (1 << elem.width) - 1
        special = np.array([0, 1, 2, 3, 5, 7, elem.width - 1, elem.width, elem.width + 1, 100, top // 2, top // 2 + 1,
                            top, top - 1, top - 2, top // 2 - 1], np.uint64).astype(dtype)  # fmt: skip
        bits[: count // 4] = rng.integers(0, 70, count // 4).astype(dtype)
    else:
        return bits
    pairs = special.size * special.size
    if pairs <= count // 2:
        order = np.tile(special, special.size) if seed % 2 else np.repeat(special, special.size)
        bits[-pairs:] = order
    else:
        bits[-special.size :] = special
    return bits


def values(name: str, bits: np.ndarray) -> Any:
    """The numbers of bit patterns, as the interpreter has them."""
    return from_bits(bits, ELEMENTS[name])


def same(name: str, got: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Where two arrays of bit patterns are equal; NaNs all are."""
    equal = got == expected
    if ELEMENTS[name].is_float:
        equal |= is_nan(name, got) & is_nan(name, expected)
    return equal


def is_nan(name: str, bits: np.ndarray) -> np.ndarray:
    """Where patterns of a float type are NaNs."""
    with np.errstate(invalid="ignore"):  # a conversion of a signalling NaN says so
        return np.isnan(values(name, bits).astype(np.float64))


# -- what the interpreter says --------------------------------------------------------------------------------------


class RuleSite:
    """Stands for an op's place in a program, for the interpreter's rules: its attributes and element types."""

    checks: frozenset[str] = frozenset()

    def on(self, check: str) -> bool:
        return check in self.checks

    def __init__(self, elements: dict[str, str], attributes: dict[str, Any]):
        self.elements = elements
        self.attributes = attributes

    def attr(self, name: str) -> Any:
        return self.attributes[name]

    def element(self, name: str) -> Any:
        return ELEMENTS[self.elements[name]]


def expected(op: str, inputs: Sequence[tuple[str, np.ndarray]], result: str, elements: dict[str, str] | None = None,
             **attributes: Any) -> np.ndarray:  # fmt: skip
    """The interpreter's result of an op on bit patterns, as bit patterns.

    `elements` names the operands' element types as the rule asks for them; `result`, `to` and `lhs` are known.
    """
    first = inputs[0][0]
    known = {"result": result, "to": result, "lhs": first, "from": first, "source": first, **(elements or {})}
    run = RULES[op].make(RuleSite(known, attributes))  # type: ignore[arg-type]
    with np.errstate(all="ignore"):
        number = np.asarray(run(*(values(name, bits) for name, bits in inputs)))
        return to_bits(number.astype(ELEMENTS[result].dtype), ELEMENTS[result])


def assert_same(case: Case, got: np.ndarray, want: np.ndarray, where: np.ndarray | None = None) -> None:
    """Bit for bit, but for NaNs; the message shows the first element that differs."""
    good = same(case.result, got, want)
    if where is not None:
        good |= ~where
    if not good.all():
        i = int(np.flatnonzero(~good)[0])
        operands = [f"{name} {bits[i]:#x} = {values(name, bits[i : i + 1])[0]}" for name, bits in case.inputs]
        shown = [f"{v[i]:#x} = {values(case.result, v[i : i + 1])[0]}" for v in (got, want)]
        raise AssertionError(
            f"{case.name}({', '.join(operands)}) gave {shown[0]}, not {shown[1]}; {int((~good).sum())} of {good.size}"
        )


def ulps(name: str, got: np.ndarray, want: np.ndarray) -> np.ndarray:
    """How far results are from what the interpreter has, in steps of the type; NaN and infinity count as numbers."""
    sign = 1 << (8 * got.dtype.itemsize - 1)

    def steps(bits: np.ndarray) -> np.ndarray:
        wide = bits.astype(object) if bits.dtype.itemsize == 8 else bits.astype(np.int64)
        return np.where(bits >= sign, sign - wide, wide)

    nan = is_nan(name, got), is_nan(name, want)
    distance = np.abs(steps(got) - steps(want)).astype(np.float64)
    return np.where(nan[0] & nan[1], 0.0, np.where(nan[0] != nan[1], np.inf, distance))
