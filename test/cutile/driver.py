# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A CUDA driver of Python functions, with which cuTile's own launcher says what it assumes of arguments.

python -m cutile.driver SEED        # in test/: compares for random arguments; exits with 1 where they differ
"""

from __future__ import annotations

import ctypes
import random
import sys
import types
from typing import Annotated, Any

import cuda.tile as ct
import numpy as np
from cuda.tile._cext import get_parameter_constraints_from_pyargs
from cuda.tile.compilation import CallingConvention

from libtile.cutile.signature import read_arguments

STUB = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
GETTER = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_char_p, ctypes.POINTER(ctypes.c_void_p), ctypes.c_int, ctypes.c_uint64, ctypes.c_void_p
)


@STUB
def _succeed(_first: int, _second: int) -> int:
    return 0


@STUB
def _version(out: int, _second: int) -> int:
    ctypes.c_int.from_address(out).value = 13020
    return 0


@GETTER
def _get_proc_address(name: bytes, out: Any, _version_asked: int, _flags: int, _status: int) -> int:
    stub = _version if name == b"cuDriverGetVersion" else _succeed
    out[0] = ctypes.cast(stub, ctypes.c_void_p)
    return 0


_getter = ctypes.cast(_get_proc_address, ctypes.c_void_p)


def install() -> None:
    """Let cuTile find this driver: its extension asks a module of the package for the address of the getter."""
    module = types.ModuleType("cuda.tile._load_libcuda")
    module.cuGetProcAddress_v2_ptrptr = ctypes.addressof(_getter)  # type: ignore[attr-defined]
    sys.modules["cuda.tile._load_libcuda"] = module


class OnDevice:
    """An array as cuTile takes those on a GPU."""

    def __init__(self, array: np.ndarray) -> None:
        self.__cuda_array_interface__ = {
            "data": (array.__array_interface__["data"][0], False),
            "shape": array.shape, "strides": array.strides, "typestr": array.dtype.str, "version": 3,
        }  # fmt: skip


DTYPES = [np.bool_, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint64, np.float16, np.float32, np.float64]


def random_array(rng: random.Random, rank: int | None = None, dtype: Any = None) -> np.ndarray:
    """An array of any rank with odd sizes, strides and base, in memory of its own that holds all of it."""
    dtype = np.dtype(rng.choice(DTYPES) if dtype is None else dtype)
    offset = dtype.itemsize * rng.choice([0, 0, 1, 3, 16])
    rank = rng.choice([0, 1, 1, 2, 2, 3, 4, 5, 6]) if rank is None else rank
    shape = [rng.choice([1, 1, 2, 3, 4, 16]) for _ in range(rank)]
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(rng.choice([step, step, step, 0, 1, 3, 16]))
        step *= size
    strides.reverse()
    if rng.random() < 0.3:
        rng.shuffle(strides)
    span = 1 + sum((size - 1) * stride for size, stride in zip(shape, strides))
    memory = np.zeros(64 + offset + span * dtype.itemsize, np.uint8)
    base = -memory.ctypes.data % 64 + offset
    flat = memory[base : base + span * dtype.itemsize].view(dtype)
    return np.lib.stride_tricks.as_strided(flat, shape, [s * dtype.itemsize for s in strides])


STATIC = ct.ArrayAnnotation(static_shape_dims=(0,), static_stride_dims=(-1,), index_dtype=ct.int64)


def plain(a, n: ct.Constant[int], items, s, t: tuple[ct.Constant[float], ct.Array]):  # type: ignore[no-untyped-def]
    """A kernel with all kinds of parameters."""


def annotated(a: Annotated[ct.Array, STATIC], s: ct.ScalarInt64):  # type: ignore[no-untyped-def]
    """A kernel that wants constants and 64-bit numbers."""


def compare(seed: int) -> None:
    """Compare what cuTile's launcher and libtile assume of random arguments."""
    rng = random.Random(seed)
    dtype, rank = rng.choice(DTYPES), rng.choice([1, 2, 3])
    items = [random_array(rng, rank, dtype) for _ in range(rng.randrange(1, 4))]
    scalar = rng.choice([True, 7, -1, 2.5])
    args = (
        random_array(rng),
        rng.choice([1, -5, 1 << 40]),
        items,
        scalar,
        (rng.choice([0.5, -0.0]), random_array(rng)),
    )
    for kernel, given in ((ct.kernel(plain), args), (ct.kernel(annotated), (random_array(rng, rank), 1 << 40))):
        for convention in (CallingConvention.cutile_python_v1(), CallingConvention.cutile_python_v2()):
            theirs = get_parameter_constraints_from_pyargs(kernel, on_device(given), convention)
            ours = read_arguments(kernel, given, shapes=convention.version >= 2).constraints
            if tuple(theirs) != ours:
                raise SystemExit(f"seed {seed}, {convention.name}:\n  {theirs}\n  {ours}")


def on_device(value: Any) -> Any:
    """Arguments with arrays as cuTile takes those on a GPU."""
    if isinstance(value, tuple | list):
        return type(value)(map(on_device, value))
    return OnDevice(value) if isinstance(value, np.ndarray) else value


if __name__ == "__main__":
    install()
    first, last = map(int, sys.argv[1:])
    for number in range(first, last):
        compare(number)
    print(last - first, "compared")
