# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Host code that encodes the tensor maps of a launch, as LLVM IR: what `libtile.targets.tensor_map.encode` does for the
values that a launch passes, word by word.

The tensor maps lie behind the parameters, in the same block: the first from the next 64-byte boundary of the constant
bank on, where the block begins at the target's `parameters_at`. Only the half that the hardware reads is written, as
the reference assembler's host objects do. Sizes and strides are unsigned. They differ for an empty tensor, of which
nothing is read: its sizes of 0, which no tensor map has, are 1 here and 2**32 there.
"""

from __future__ import annotations

from libtile.ir.kernels import FromParameter, Launch, TensorMapRecipe, parameter_offsets
from libtile.targets.tensor_map import (
    ALIGNMENT,
    ELEMENTS,
    FIELDS,
    LARGE,
    SIZE,
    STRIDE_LOW,
    TiledMap,
    shape_fields,
)

_WORD = 64


def encode_ir(launch: Launch, block: str, parameters_at: int) -> list[str]:
    """The instructions that fill in the tensor maps of a launch, of whose parameters `block` is a pointer."""
    offsets, end = parameter_offsets(launch.parameters)
    first = -(-(parameters_at + end) // ALIGNMENT) * ALIGNMENT - parameters_at
    code = _Code(block, [(at, p.size) for at, p in zip(offsets, launch.parameters, strict=True)])
    for number, recipe in enumerate(launch.descriptors):
        _encode(code, recipe, first + number * SIZE)
    return code.lines


class _Code:
    """Instructions on numbers of 64 bits, which are spelled as LLVM spells them: `%name`, or decimal."""

    def __init__(self, block: str, parameters: list[tuple[int, int]]):
        self.lines: list[str] = []
        self._block = block
        self._parameters = parameters
        self._loaded: dict[int, str] = {}

    def add(self, text: str) -> str:
        """An instruction with a result, whose name it gives."""
        name = f"%v{len(self.lines)}"
        self.lines.append(f"  {name} = {text}")
        return name

    def binary(self, operation: str, a: str, b: int | str) -> str:
        return self.add(f"{operation} i64 {a}, {b}")

    def number(self, given: int | FromParameter) -> str:
        """A constant, or a parameter without a sign."""
        if not isinstance(given, FromParameter):
            return str(given)
        if given.number not in self._loaded:
            at, size = self._parameters[given.number]
            place = self.add(f"getelementptr i8, ptr {self._block}, i64 {at}")
            value = self.add(f"load i{8 * size}, ptr {place}")
            self._loaded[given.number] = value if size == 8 else self.add(f"zext i{8 * size} {value} to i64")
        loaded = self._loaded[given.number]
        return self.binary("sub", str(given.below), loaded) if given.below else loaded

    def store(self, value: str, at: int) -> None:
        place = self.add(f"getelementptr i8, ptr {self._block}, i64 {at}")
        self.lines.append(f"  store i64 {value}, ptr {place}")


def _encode(code: _Code, recipe: TensorMapRecipe, at: int) -> None:
    """Fill in one tensor map, `at` so many bytes from the start of the parameters."""
    rank = len(recipe.sizes)
    shape = TiledMap(0, recipe.element, (1,) * rank, (0,) * (rank - 1), recipe.box, swizzle=recipe.swizzle)
    constant = 0
    for name, number in shape_fields(shape).items():
        constant |= FIELDS[name].put(number)
    sizes = [code.add(f"call i64 @llvm.umax.i64(i64 {code.number(size)}, i64 1)") for size in recipe.sizes]
    strides = [code.binary("mul", code.number(stride), recipe.element_bytes) for stride in recipe.strides]
    values = {"address": code.number(FromParameter(recipe.base)), "large": _is_large(code, recipe, sizes, strides)}
    values |= {f"size{i}": size for i, size in enumerate(sizes)}
    for i, stride in enumerate(strides):
        values[f"stride{i}"] = code.binary("and", stride, STRIDE_LOW)
        values[f"stride_high{i}"] = stride
    for word in range(SIZE * 8 // 2 // _WORD):
        total = str(constant >> word * _WORD & (1 << _WORD) - 1)
        for name, value in values.items():
            if FIELDS[name].at // _WORD == word:
                total = code.binary("or", _placed(code, name, value), total)
        code.store(total, at + word * _WORD // 8)


def _placed(code: _Code, name: str, value: str) -> str:
    """A value where its field has it in a word, as `Field.put` places what is known; other bits of it are dropped."""
    field = FIELDS[name]
    stored = code.binary("lshr", value, field.unit.bit_length() - 1)
    stored = code.binary("sub", stored, field.bias)
    stored = code.binary("and", stored, (1 << field.width) - 1)
    return code.binary("shl", stored, field.at % _WORD)


def _is_large(code: _Code, recipe: TensorMapRecipe, sizes: list[str], strides: list[str]) -> str:
    """Whether the tensor's bytes, from the first to the last, are so many that its map says so (`TiledMap.extent`)."""
    extent = code.binary("lshr", code.binary("mul", sizes[0], ELEMENTS[recipe.element].bits), 3)
    for size, stride in zip(sizes[1:], strides, strict=True):
        extent = code.binary("add", extent, code.binary("mul", code.binary("sub", size, 1), stride))
    return code.add(f"zext i1 {code.add(f'icmp uge i64 {extent}, {LARGE}')} to i64")
