# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Calls of the library with what it does not take: one LibtileError each, and no result that is wrong in silence."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import libtile
from libtile import cutile, mlir
from libtile.explore import explain, explore, page
from libtile.support import signatures
from libtile.support.signatures import checked, rule_of

KERNEL = Path(__file__).resolve().parents[2] / "examples" / "vector_add.bc"
FUNCTIONS: tuple[Callable[..., Any], ...] = (
    libtile.read, libtile.parse, libtile.verify, libtile.write, libtile.print_module, libtile.migrate, libtile.optimize,
    libtile.compile, libtile.run, libtile.reduce, libtile.diff, libtile.compare_runs, libtile.estimate, libtile.tune,
    explain, explore, page, cutile.launch, cutile.bytecode_for, cutile.on_host, cutile.launched_kernels,
    mlir.to_mlir, mlir.run_passes, mlir.llvm_to_mlir,
)  # fmt: skip
CLASSES = {"Module", "Record", "Operation", "Version", "Space", "Reference"}
"""Classes of annotations: an argument's own class has the name, or one of its bases."""


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_every_annotation_of_the_face_is_one_that_is_checked(function: Callable[..., Any]) -> None:
    assert getattr(function, "__wrapped__", None) is not None, "it has no @checked"
    for name, parameter in inspect.signature(function).parameters.items():
        for said, _ in rule_of(parameter.annotation):
            known = {rule[0] for rule in signatures.RULES.values()}
            assert said in known or said.partition(" ")[2] in CLASSES, (name, said)


WRONG: dict[str, tuple[Any, ...]] = {
    "str": (3, b"sm_90", None, ["sm_90"], np.zeros(3)),
    "Sequence[Instrument]": (3, (3,), {"a": 1}, np.zeros(3)),
    "str | None": (3, b"sm_90", {"sm_90"}),
    "int": ("3", 1.5, None, [3], float("nan"), 1j, True, np.zeros(3)),
    "int | None": ("3", 1.5, float("inf")),
    "bool": ("yes", None, [], np.zeros(2)),
    "Sequence[Any]": (None, 5, 1.5, "xy", b"xy", object(), np.array("x")),
    "Collection[str]": (np.zeros((2, 2)), [1], np.array("x")),
    "Sequence[Path]": ([None], "folder", np.zeros(2)),
    "Sequence[str]": ([None], "sm_90", np.zeros((2, 2)), np.array("x")),
    "Sequence[bytes]": (b"BC", [1], "ab", ("a",)),
    "Predicate": (None, 5, "true"),
    "TextIO | None": (1, "out.txt", b""),
    "tuple[str, str] | None": (("x86_64",), "x86_64", ("a", "b", "c"), ["x86_64", "linux"]),
}


@pytest.mark.parametrize("function", (*FUNCTIONS[:13], explain, explore), ids=lambda function: function.__name__)
def test_an_argument_of_another_type_is_one_error_that_names_it(function: Callable[..., Any]) -> None:
    parameters = inspect.signature(function).parameters
    right = {"text": "", "data": KERNEL, "to": "13.1", "predicate": bool, "module": libtile.read(KERNEL)}
    needed = {name: right.get(name, KERNEL) for name, of in parameters.items() if of.default is of.empty}
    for name, parameter in parameters.items():
        for value in WRONG.get(parameter.annotation, ()):
            given = needed | {name: value}
            with pytest.raises(libtile.LibtileError, match=rf"^{function.__name__}: {name} has to be .*, not "):
                function(**given)


@pytest.mark.parametrize("call", [libtile.compile, libtile.optimize, libtile.run], ids=lambda call: call.__name__)
@pytest.mark.parametrize("level", [-1, 4, 2**70, 10**5000, -(10**5000)], ids=lambda level: f"{level.bit_length()} bits")
def test_a_level_that_there_is_not_is_one_error_however_long_it_is(call: Callable[..., Any], level: int) -> None:
    name = "level" if call is libtile.optimize else "opt_level"
    with pytest.raises(libtile.LibtileError, match=r"level") as refused:
        call(KERNEL, **{name: level})
    assert len(str(refused.value)) < 100


def test_a_checked_function_takes_what_it_says() -> None:
    @checked
    def some(count: int | None = None, *, names: Sequence[str] = (), call: Callable[[int], str] | None = None) -> int:
        return 7

    assert some() == some(3) == some(np.int64(3), names=["a"], call=str) == some(None, names=(n for n in "ab")) == 7
    with pytest.raises(libtile.LibtileError, match=r"^some: call has to be a function or None, not int$"):
        some(call=3)


@pytest.mark.parametrize("path", ["a\0b", "\ud800"])
def test_what_is_no_path_is_a_library_error(path: str) -> None:
    with pytest.raises(libtile.LibtileError, match="cannot open input file"):
        libtile.read(path)


def test_an_object_that_gives_no_path_is_none() -> None:
    class Pathless:
        def __fspath__(self) -> int:  # type: ignore[override]
            return 3

    with pytest.raises(libtile.LibtileError, match="expected a path or bytes, but got a Pathless of no path"):
        libtile.read(Pathless())  # type: ignore[arg-type]


def test_any_whole_number_says_whether_to_fuse() -> None:
    fused = [libtile.write(libtile.optimize(KERNEL, fuse_fma=asked)) for asked in (True, 2**70)]
    assert fused[0] == fused[1]


def test_a_sanitizer_that_there_is_not_is_refused() -> None:
    with pytest.raises(libtile.LibtileError, match="there is no sanitizer 'racecheck': use one of memcheck"):
        libtile.compile(KERNEL, sanitize="racecheck")


def add(x: Any, backend: str = "interpreter") -> np.ndarray:
    """x + 2 by the example, of which the sizes and strides of the arrays are derived."""
    y, z = np.full(64, 2, np.float32), np.zeros(64, np.float32)
    libtile.run(KERNEL, args=[x, y, z], backend=backend)
    return z


ONES = np.ones(64, np.float32)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.ones(128, np.float32)[::2], "parameter 0 has a stride of 2 along dimension 0, and the kernel is"),
        (np.broadcast_to(np.float32(1), 64), "has a stride of 0 along dimension 0"),
        (np.ones((8, 8), np.float32), "has 2 dimensions, and the kernel's view of it 1"),
        (libtile.ArrayArgument(ONES, strides=(2,)), "has a stride of 2"),
        (np.ones(64, np.complex64), "elements of complex64, so that its sizes are not those of the kernel's array"),
        (np.ones(64, ml_dtypes.bfloat16), "elements of bfloat16"),
        (np.zeros(256, np.uint8), "elements of uint8"),
        (np.array(["a"] * 64), "elements of <U1, which are no device memory"),
        (np.ones(64, ">f4"), "elements of >f4, which are no device memory"),
        (np.ma.array(ONES, mask=ONES > 0), "is masked"),
        ([1.0, 2.0], "parameter 0 is given as list, which says no sizes: give an array, or all parameters"),
    ],
)  # fmt: skip
def test_an_array_that_the_kernel_would_take_for_another_is_refused(array: Any, message: str) -> None:
    with pytest.raises(libtile.LibtileError, match=message):
        add(array)


def test_floats_of_another_width_are_refused_whoever_gives_the_sizes() -> None:
    narrow, ones = np.ones(64, ml_dtypes.bfloat16), ONES.copy()
    with pytest.raises(libtile.LibtileError, match="points to f32, and the array has elements of bfloat16"):
        libtile.run(KERNEL, args=[narrow, 64, 1, ones, 64, 1, ones, 64, 1])


def test_bytes_do_for_memory_where_the_sizes_are_given() -> None:
    x, z = ONES.copy().view(np.uint8), np.zeros(256, np.uint8)
    libtile.run(KERNEL, args=[x, 64, 1, ONES.copy(), 64, 1, z, 64, 1])
    assert (z.view(np.float32) == 2).all()


@pytest.mark.parametrize("backend", ["interpreter", "simulator"])
def test_memory_that_may_not_be_written_is_read_and_no_more(backend: str) -> None:
    fixed = ONES.copy()
    fixed.flags.writeable = False
    assert (add(fixed, backend) == 3).all()
    with pytest.raises(libtile.LibtileError, match=r"constant memory|read-only"):
        libtile.run(KERNEL, args=[ONES.copy(), ONES.copy(), fixed], backend=backend)
    assert (fixed == 1).all()


def test_a_text_in_place_of_bytecode_is_called_so() -> None:
    with pytest.raises(libtile.LibtileError, match=r"expected 127; it is Tile IR as text, which libtile\.parse reads"):
        libtile.read(b"cuda_tile.module @m {}")
