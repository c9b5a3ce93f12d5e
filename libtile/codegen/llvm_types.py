# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""LLVM's types as values. Equal types are one object, so that they are compared and looked up by identity."""

from __future__ import annotations

from typing import Any

from libtile.numerics.elements import ELEMENTS
from libtile.support.records import dataclass, field

GENERIC, GLOBAL, SHARED, CONSTANT, LOCAL = 0, 1, 3, 4, 5
"""NVPTX's address spaces."""

_POINTER_BITS = 64


class _Interned(type):
    """Makes a class give the same object for the same arguments."""

    _known: dict[tuple[type, tuple[Any, ...]], Any] = {}

    def __call__(cls, *arguments: Any) -> Any:
        key = cls, arguments
        found = cls._known.get(key)
        if found is None:
            found = cls._known[key] = super().__call__(*arguments)
        return found


@dataclass(frozen=True, eq=False, slots=True)
class LlvmType(metaclass=_Interned):
    """A type of LLVM: how it is written, its width, and what other names say of it."""

    text: str = field(init=False)
    """How LLVM IR writes it; `str` gives the same."""
    bits: int = field(init=False)
    """How wide it is, 0 for void."""
    suffix: str = field(init=False)
    """How the names of intrinsics spell it (`i32`, `v2f16`); empty for a struct and void."""
    constraint: str = field(init=False)
    """The letter of a register of this type in the constraints of inline PTX; empty where there is none."""

    def _describe(self, text: str, bits: int, suffix: str = "", constraint: str = "") -> None:
        for name, value in (("text", text), ("bits", bits), ("suffix", suffix), ("constraint", constraint)):
            object.__setattr__(self, name, value)

    @property
    def storage_bytes(self) -> int:
        """Bytes that one takes in memory; an i1 takes a whole one."""
        return (self.bits + 7) // 8

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, eq=False, slots=True)
class VoidType(LlvmType):
    """What a function has that gives nothing."""

    def __post_init__(self) -> None:
        self._describe("void", 0)


@dataclass(frozen=True, eq=False, slots=True)
class IntType(LlvmType):
    """An integer of so many bits."""

    width: int

    def __post_init__(self) -> None:
        letters = {1: "b", 16: "h", 32: "r", 64: "l"}
        self._describe(f"i{self.width}", self.width, f"i{self.width}", letters.get(self.width, ""))


_FLOATS = {
    "half": (16, "f16", "h"),
    "bfloat": (16, "bf16", "h"),
    "float": (32, "f32", "f"),
    "double": (64, "f64", "d"),
}


@dataclass(frozen=True, eq=False, slots=True)
class FloatType(LlvmType):
    """A binary floating-point type by LLVM's name."""

    name: str

    def __post_init__(self) -> None:
        self._describe(self.name, *_FLOATS[self.name])


@dataclass(frozen=True, eq=False, slots=True)
class PointerType(LlvmType):
    """A pointer into an address space."""

    space: int

    def __post_init__(self) -> None:
        text = f"ptr addrspace({self.space})" if self.space else "ptr"
        self._describe(text, _POINTER_BITS, f"p{self.space}", "l")


@dataclass(frozen=True, eq=False, slots=True)
class VectorType(LlvmType):
    """So many elements of a type."""

    count: int
    element: LlvmType

    def __post_init__(self) -> None:
        text = f"<{self.count} x {self.element}>"
        self._describe(text, self.count * self.element.bits, f"v{self.count}{self.element.suffix}")


@dataclass(frozen=True, eq=False, slots=True)
class StructType(LlvmType):
    """Several members, as an instruction with several results gives them."""

    members: tuple[LlvmType, ...]

    def __post_init__(self) -> None:
        self._describe("{ " + ", ".join(m.text for m in self.members) + " }", sum(m.bits for m in self.members))


def registers_type(type_: LlvmType, count: int) -> LlvmType:
    """The type of what gives `count` registers of a type: itself for one, a struct for several."""
    return type_ if count == 1 else StructType((type_,) * count)


VOID = VoidType()
I1, I8, I16, I32, I64 = (IntType(bits) for bits in (1, 8, 16, 32, 64))
HALF, BFLOAT, FLOAT, DOUBLE = (FloatType(name) for name in ("half", "bfloat", "float", "double"))
GENERIC_POINTER, GLOBAL_POINTER, SHARED_POINTER = (PointerType(space) for space in (GENERIC, GLOBAL, SHARED))

_REGISTERS = {t.text: t for t in (I1, I8, I16, I32, I64, HALF, BFLOAT, FLOAT, DOUBLE, GLOBAL_POINTER)}

ELEMENT_TYPES: dict[str, LlvmType] = {name: _REGISTERS[element.llvm] for name, element in ELEMENTS.items()}
"""The type of the register that holds an element, by the element type's keyword (`numerics.elements`)."""
