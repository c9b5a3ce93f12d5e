# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A launch's arguments: arrays lie in simulated memory, scalars become the bytes of parameters, and results are brought
back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from libtile.support.arrays import memory_span
from libtile.support.records import dataclass, field

from . import tensor_map
from .errors import LaunchError
from .ir import Function, Parameter, Variable
from .memory import (
    CONST_WINDOW,
    FUNCTION_WINDOW,
    GLOBAL_BASE,
    READ_ONLY,
    READY,
    SHARED_WINDOW,
    Arena,
    align_up,
)
from .program import ALIGNED_MALLOC, Program
from .tensor_map import EncodedTensorMap, Im2colTensorMap, TensorMap

RED_ZONE = 256
HEAP_SIZE = 8 << 20


@dataclass(frozen=True)
class Uninitialized:
    """Wraps an array argument whose contents the kernel must write before it reads them."""

    array: np.ndarray


class _ArrayTable:
    """A list of arrays as an argument: a pointer to 64-bit words, for each array its address, sizes and strides."""

    def __init__(self, arrays: Sequence[Any]) -> None:
        self.arrays = arrays
        self.words = np.zeros(sum(1 + 2 * a.ndim for a in arrays), dtype=np.int64)

    def fill(self, address: Callable[[np.ndarray], int]) -> None:
        """Write the words, once every array has an address. Strides are in elements."""
        rows = ((address(a), *a.shape, *(s // a.itemsize for s in a.strides)) for a in self.arrays)
        self.words[:] = [word for row in rows for word in row]


@dataclass
class _Buffer:
    """Host arrays that share memory, and the allocation that stands for them."""

    start: int
    end: int
    arrays: list[np.ndarray] = field(default_factory=list)
    offset: int = 0
    ready: bool = True
    name: str = ""


class LaunchMemory:
    """Global, constant and parameter memory of a launch. `kept` is what earlier launches have left in variables of the
    module, by their names, and what this one leaves."""

    def __init__(
        self,
        program: Program,
        function: Function,
        args: Sequence[Any],
        *,
        share: bool,
        kept: dict[str, np.ndarray] | None = None,
    ) -> None:
        if len(args) != len(function.params):
            raise LaunchError(f"{function.name} has {len(function.params)} parameters, got {len(args)} arguments")
        self.program = program
        self.kept = kept
        args = [_table(index, a) if isinstance(a, list | tuple) else a for index, a in enumerate(args)]
        self.buffers = _merge(args)
        at = align_up(program.global_end - GLOBAL_BASE, 256) + RED_ZONE
        for buffer in self.buffers:
            buffer.offset = at = align_up(at, 256)
            at += buffer.end - buffer.start + RED_ZONE
        self.heap_start = align_up(at, 256)
        heap = HEAP_SIZE if uses_heap(program) else 0
        self.arena = Arena("global", GLOBAL_BASE, self.heap_start + heap, share)
        self.const = Arena("const", CONST_WINDOW, program.const_end - CONST_WINDOW)
        for address, var in program.global_variables:
            self._variable(self.arena, address - GLOBAL_BASE, var, READY)
            if kept is not None and (left := kept.get(var.name)) is not None:
                if left.size != var.size:
                    raise LaunchError(f"{left.size} bytes are kept of {var.name}, which has {var.size}")
                self.arena.data[address - GLOBAL_BASE : address - GLOBAL_BASE + var.size] = left
        for address, var in program.const_variables:
            self._variable(self.const, address - CONST_WINDOW, var, READY | READ_ONLY)
        for arg in args:
            if isinstance(arg, _ArrayTable):
                arg.fill(self.device_address)
        for buffer in self.buffers:
            self._place(buffer)
        self.params = self._parameters(function, args)

    def _variable(self, arena: Arena, offset: int, var: Variable, flags: int) -> None:
        arena.allocate(offset, var.size, var.name, flags)
        if var.init is not None:
            arena.data[offset : offset + len(var.init)] = np.frombuffer(var.init, dtype=np.uint8)
        for at, width, name, addend, generic, mask in var.relocations:
            value = self._symbol(name, generic, var) + addend
            if mask:
                shift = (mask & -mask).bit_length() - 1
                value = (value & mask) >> shift
            raw = (value & ((1 << (8 * width)) - 1)).to_bytes(width, "little")
            arena.data[offset + at : offset + at + width] = np.frombuffer(raw, dtype=np.uint8)

    def _symbol(self, name: str, generic: bool, var: Variable) -> int:
        program = self.program
        if name in program.function_names:
            return FUNCTION_WINDOW + 16 * program.function_names.index(name)
        if name in program.shared_offsets:
            return program.shared_offsets[name] + (SHARED_WINDOW if generic else 0)
        if name in program.addresses:
            target = program.module.variables[name]
            base = program.addresses[name]
            return base + (CONST_WINDOW if generic and target.space == "const" else 0)
        raise LaunchError(f"the initialiser of {var.name} names {name}, which is not defined")

    def _place(self, buffer: _Buffer) -> None:
        flags = READY if buffer.ready else 1
        if not any(array.flags.writeable for array in buffer.arrays):
            flags |= READ_ONLY
        self.arena.allocate(buffer.offset, buffer.end - buffer.start, buffer.name, flags)
        for array in buffer.arrays:
            at = buffer.offset + _address(array) - buffer.start
            span = memory_span(array)
            self.arena.data[at : at + span.size] = span

    def write_back(self) -> None:
        """Copy the memory contents back into the argument arrays, and keep those of variables."""
        for buffer in self.buffers:
            for array in buffer.arrays:
                if array.flags.writeable:
                    at = buffer.offset + _address(array) - buffer.start
                    span = memory_span(array)
                    span[:] = self.arena.data[at : at + span.size]
        if self.kept is not None:
            for address, var in self.program.global_variables:
                at = address - GLOBAL_BASE
                self.kept[var.name] = self.arena.data[at : at + var.size].copy()

    def device_address(self, array: np.ndarray) -> int:
        """Simulated address of an argument array."""
        start = _address(array)
        for buffer in self.buffers:
            if buffer.start <= start < max(buffer.end, buffer.start + 1) and any(a is array for a in buffer.arrays):
                return GLOBAL_BASE + buffer.offset + start - buffer.start
        raise LaunchError("an array has no simulated address")

    def _parameters(self, function: Function, args: Sequence[Any]) -> Arena:
        offsets = self.program.parameter_offsets(function)
        size = max((offsets[p.name] + p.size for p in function.params), default=0)
        arena = Arena("param", 0, size)
        for index, (param, value) in enumerate(zip(function.params, args, strict=True)):
            raw = self._argument(index, param, value)
            at = offsets[param.name]
            arena.allocate(at, param.size, param.name, READY | READ_ONLY)
            arena.data[at : at + len(raw)] = np.frombuffer(raw, dtype=np.uint8)
        return arena

    def _argument(self, index: int, param: Parameter, value: Any) -> bytes:
        what = f"argument {index} ({param.name})"
        if isinstance(value, Uninitialized):
            value = value.array
        if isinstance(value, TensorMap | Im2colTensorMap | EncodedTensorMap):
            if param.size != tensor_map.SIZE:
                raise LaunchError(f"{what} is a tensor map, but the parameter has {param.size} bytes, not 128")
            return value.encode(self.device_address(value.array))
        if isinstance(value, _ArrayTable):
            value = value.words
        if isinstance(value, np.ndarray):
            if param.array or param.size != 8:
                raise LaunchError(f"{what} is an array, but the parameter is not a pointer of 8 bytes")
            return self.device_address(value).to_bytes(8, "little")
        if isinstance(value, bytes | bytearray | memoryview):
            raw = bytes(value)
            if len(raw) != param.size:
                raise LaunchError(f"{what} has {len(raw)} bytes, the parameter {param.size}")
            return raw
        if param.array:
            raise LaunchError(f"{what} must be bytes of length {param.size}")
        return _scalar(what, param, value)


def _scalar(what: str, param: Parameter, value: Any) -> bytes:
    """A number as the bytes of a parameter: by the parameter's type, or for .bN by the value's own."""
    size = param.size
    if isinstance(value, np.generic) and not isinstance(value, np.bool_):
        if value.dtype.itemsize == size:
            return value.tobytes()
        value = value.item()
    if isinstance(value, float):
        if size not in (2, 4, 8) or param.type.kind in "us":
            raise LaunchError(f"{what} is a float, but the parameter is .{param.type.name}")
        if param.type.name == "bf16":
            return np.array([value], dtype=np.float32).tobytes()[2:]
        return np.array([value], dtype={2: np.float16, 4: np.float32, 8: np.float64}[size]).tobytes()
    if isinstance(value, bool | np.bool_ | int):
        number = int(value)
        if param.type.kind == "f" and param.type.name in ("f16", "f32", "f64"):
            return np.array([number], dtype=param.type.dtype).tobytes()
        if not -(1 << (8 * size - 1)) <= number < 1 << (8 * size):
            raise LaunchError(f"{what} is {number}, which does not fit in {size} bytes")
        return (number & ((1 << (8 * size)) - 1)).to_bytes(size, "little")
    raise LaunchError(f"{what} has type {type(value).__name__}; pass an array, a number or bytes")


def _address(array: np.ndarray) -> int:
    return int(array.__array_interface__["data"][0])


def _merge(args: Sequence[Any]) -> list[_Buffer]:
    """One buffer per set of overlapping array arguments, so that aliasing arguments alias in the kernel too."""
    spans = []
    for name, array, ready in _array_arguments(args):
        try:
            size = memory_span(array).size
        except ValueError as problem:
            raise LaunchError(f"argument {name} cannot be passed: {problem}") from None
        start = _address(array)
        spans.append((start, start + size, name, array, ready))
    buffers: list[_Buffer] = []
    for start, end, name, array, ready in sorted(spans, key=lambda s: (s[0], s[1])):
        last = buffers[-1] if buffers else None
        if last is not None and (start < last.end or any(a is array for a in last.arrays)):
            last.end = max(last.end, end)
            last.arrays.append(array)
            last.ready = last.ready and ready
            last.name += f" and {name}"
        else:
            buffers.append(_Buffer(start, end, [array], ready=ready, name=f"argument {name}"))
    return buffers


def _array_arguments(args: Sequence[Any]) -> Iterator[tuple[str, np.ndarray, bool]]:
    """Every array in the arguments: what to call it, the array, and whether its contents count as written."""
    for index, value in enumerate(args):
        if isinstance(value, _ArrayTable):
            yield str(index), value.words, True
            yield from ((f"{index}[{item}]", array, True) for item, array in enumerate(value.arrays))
        elif isinstance(value, Uninitialized | TensorMap | Im2colTensorMap | EncodedTensorMap):
            yield str(index), _contiguous(index, value.array), not isinstance(value, Uninitialized)
        elif isinstance(value, np.ndarray):
            yield str(index), _contiguous(index, value), True


def _contiguous(index: int, array: np.ndarray) -> np.ndarray:
    """An array that stands for its memory alone: nothing tells the kernel its strides."""
    if not array.flags.c_contiguous:
        raise LaunchError(f"argument {index} is not C-contiguous")
    return array


def _table(index: int, arrays: Sequence[Any]) -> _ArrayTable:
    if not all(isinstance(array, np.ndarray) for array in arrays):
        raise LaunchError(f"argument {index} is a list, which must hold arrays")
    return _ArrayTable(arrays)


def uses_heap(program: Program) -> bool:
    """Whether a program may allocate memory of the device's heap."""
    return any(name in program.module.functions for name in ("malloc", ALIGNED_MALLOC))
