# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Launches as data: their arrays and code, the folder that carries them, and what a driver is given for one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from libtile.ir.kernels import FromParameter, TensorMapRecipe
from libtile.runtime.tensor_maps import tensor_map
from libtile.support.errors import LibtileError
from libtile.targets.tensor_map import decode, with_address

MOST_BYTES = 40 << 20
"""Of a target's folder, so that it can be carried."""
ROTATED_BYTES = 256 << 20
"""Of all copies of a launch's arrays: several times what a cache holds."""
MOST_COPIES = 8
DISTINCT = 1_048_573
"""Random numbers of an array, a prime: drawing more takes longer than launches of them."""
NARROW = {"bfloat16": "uint16", "float8_e4m3fn": "uint8", "float8_e8m0fnu": "uint8"}
"""Types that numpy has not, with those that hold their codes."""
OURS, PLAIN, REFERENCE, REFERENCE_PLAIN = "ours", "ours-simt", "reference", "reference-simt"


@dataclass(frozen=True)
class Array:
    """An argument in memory. `dtype` is numpy's name, or that of a type in `NARROW`; `written` ones are results. Others
    begin with random numbers: from the first of `between` up to the second where it is given, of narrow types by
    their codes."""

    dtype: str
    shape: tuple[int, ...]
    written: bool = False
    between: tuple[float, float] | None = None

    @property
    def nbytes(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64)) * storage(self.dtype).itemsize


@dataclass(frozen=True)
class Code:
    """A cubin and how its kernel is launched. Parameters have these bytes; behind them come tensor maps, which
    `descriptors` say how to make, or `maps`: bytes in hexadecimal digits for an array that lies at 0, and its number.
    A block of tiles is a cluster of so many of the GPU's where `cluster` is above 1."""

    file: str
    block: tuple[int, ...]
    sizes: tuple[int, ...]
    descriptors: tuple[dict[str, Any], ...] = ()
    maps: tuple[tuple[int, str], ...] = ()
    cluster: int = 1


@dataclass(frozen=True)
class Launch:
    """One problem of a kernel. A parameter is ("array", its number), ("int", a value) or ("float", a value); `grid` is
    that of all tiles, of which a `persistent` kernel has as many blocks as there are multiprocessors at most. Launches
    of one `whole` make up what others do in one."""

    name: str
    kernel: str
    operation: str
    arrays: tuple[Array, ...]
    parameters: tuple[tuple[str, float], ...]
    grid: tuple[int, int, int]
    operations: float
    kind: str = "f16"
    persistent: bool = False
    whole: str = ""
    codes: dict[str, Code] = field(default_factory=dict)

    @property
    def bytes(self) -> int:
        return sum(array.nbytes for array in self.arrays)


@dataclass(frozen=True)
class Peaks:
    """What a GPU does at most in a second: tensor-core operations by the kind of their operands, and bytes."""

    tensor: dict[str, float]
    bandwidth: float

    def bound(self, launch: Launch) -> tuple[str, float]:
        """What bounds a launch, and its shortest time in seconds."""
        times = {"memory": launch.bytes / self.bandwidth}
        if launch.kind in self.tensor:
            times["tensor cores"] = launch.operations / self.tensor[launch.kind]
        what = max(times, key=lambda key: times[key])
        return what, times[what]


def storage(dtype: str) -> np.dtype[Any]:
    """The numpy type in which an array lies on the host."""
    return np.dtype(NARROW.get(dtype, dtype))


def flat(arrays: Sequence[Array], scalars: Sequence[tuple[str, float]] = ()) -> tuple[tuple[str, float], ...]:
    """The parameters of a cuTile kernel: each array's address, sizes and strides in elements, and then the scalars."""
    found: list[tuple[str, float]] = []
    for number, array in enumerate(arrays):
        strides = [int(np.prod(array.shape[d + 1 :], dtype=np.int64)) for d in range(len(array.shape))]
        found += [("array", number), *(("int", n) for n in (*array.shape, *strides))]
    return (*found, *scalars)


# -- the folder --------------------------------------------------------------------------------------------------------


def write_folder(folder: Path, launches: Sequence[Launch], peaks: Peaks, cubins: dict[str, bytes]) -> None:
    """Write the cubins by their file names, and what is launched of them. LibtileError for more than the folder may
    have."""
    size = sum(map(len, cubins.values()))
    if size > MOST_BYTES:
        raise LibtileError(f"the cubins have {size} bytes, and {folder} may have {MOST_BYTES}")
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in cubins.items():
        (folder / name).write_bytes(data)
    text = json.dumps({"peaks": asdict(peaks), "launches": [asdict(launch) for launch in launches]}, indent=1)
    (folder / "launches.json").write_text(text + "\n", encoding="utf-8")


def read_folder(folder: Path) -> tuple[list[Launch], Peaks]:
    """What `write_folder` wrote. LibtileError without it."""
    path = folder / "launches.json"
    if not path.is_file():
        raise LibtileError(f"there is no {path}: --prepare writes it, where both assemblers are")
    read = json.loads(path.read_text(encoding="utf-8"))
    return [_launch(given) for given in read["launches"]], Peaks(**read["peaks"])


def _launch(given: dict[str, Any]) -> Launch:
    arrays = tuple(
        Array(a["dtype"], tuple(a["shape"]), a["written"], a["between"] and tuple(a["between"]))
        for a in given["arrays"]
    )
    codes = {
        who: Code(
            c["file"],
            tuple(c["block"]),
            tuple(c["sizes"]),
            tuple(c["descriptors"]),
            tuple(map(tuple, c["maps"])),
            c["cluster"],
        )
        for who, c in given["codes"].items()
    }
    parameters = tuple((kind, value) for kind, value in given["parameters"])
    rest = {n: given[n] for n in ("name", "kernel", "operation", "operations", "kind", "persistent", "whole")}
    return Launch(arrays=arrays, parameters=parameters, grid=tuple(given["grid"]), codes=codes, **rest)


def recipe(given: dict[str, Any]) -> TensorMapRecipe:
    """A descriptor of a launch again."""

    def number(value: Any) -> int | FromParameter:
        return FromParameter(**value) if isinstance(value, dict) else int(value)

    sides = {name: tuple(map(number, given[name])) for name in ("sizes", "strides")}
    return TensorMapRecipe(**{**given, **sides, "box": tuple(given["box"])})


# -- a launch ----------------------------------------------------------------------------------------------------------


def marshal(launch: Launch, code: Code, addresses: Sequence[int]) -> list[bytes]:
    """The bytes of each parameter of a launch whose arrays lie at addresses, and of its tensor maps behind them."""
    values: list[int] = []
    made: list[bytes] = []
    for (kind, value), size in zip(launch.parameters, code.sizes, strict=True):
        if kind == "float":
            values.append(0)
            made.append(np.array(value, {2: np.float16, 4: np.float32, 8: np.float64}[size]).tobytes())
            continue
        number = addresses[int(value)] if kind == "array" else int(value)
        values.append(number)
        made.append(number.to_bytes(size, "little", signed=number < 0))
    for given in code.descriptors:
        wanted = recipe(given)
        made.append(tensor_map(wanted, values, values[wanted.base]))
    for number, digits in code.maps:
        raw = bytes.fromhex(digits)
        made.append(with_address(raw, decode(raw).address + addresses[number]))
    return made


def contents(launch: Launch, seed: int = 0) -> list[np.ndarray]:
    """What a launch's arrays begin with: random numbers, and ones in results, so that what is not written shows. Large
    arrays repeat `DISTINCT` numbers, which rows and columns of no usual size divide."""
    rng = np.random.default_rng(seed)
    made = []
    for array in launch.arrays:
        if array.written:
            made.append(np.ones(array.shape, storage(array.dtype)))
            continue
        few = _numbers(array, min(DISTINCT, int(np.prod(array.shape, dtype=np.int64))), rng)
        made.append(np.resize(few, array.shape))
    return made


def _numbers(array: Array, count: int, rng: np.random.Generator) -> np.ndarray:
    if array.between is not None:
        low, high = array.between
        return (low + (high - low) * rng.random(count, np.float32)).astype(storage(array.dtype))
    if array.dtype == "int8":
        return rng.integers(-128, 128, count, np.int8)
    if array.dtype == "float8_e4m3fn":  # 0, 0.5, 1, 2 and their negatives
        codes = np.array([0x00, 0x30, 0x38, 0x40, 0xB0, 0xB8, 0xC0], np.uint8)
        return codes[rng.integers(0, len(codes), count)]
    if array.dtype == "bfloat16":
        return (rng.standard_normal(count, np.float32).view(np.uint32) >> 16).astype(np.uint16)
    return rng.standard_normal(count, np.float32).astype(array.dtype)
