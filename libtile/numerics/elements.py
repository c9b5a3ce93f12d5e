# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The element types of tiles, from their declarations in the spec: how wide, how stored, how spelled, which format.

Everything that depends on an element type is a question to a record of this table. A pointer is an element too, "ptr".
"""

from __future__ import annotations

from functools import cached_property

from libtile.spec import default_spec
from libtile.spec.model import FloatSpec, TypeSpec
from libtile.support.records import dataclass

POINTER = "ptr"
"""The keyword that stands for a pointer among the element types."""

POINTER_BITS = 64

PADDING_KEYWORDS = ("zero", "neg_zero", "nan", "pos_inf", "neg_inf")
"""What a load through a view can give beyond the tensor (Tile IR specification, PaddingValue)."""


@dataclass(frozen=True)
class FloatFormat:
    """A binary floating-point format: a sign bit if `signed`, then fields of `exponent` and `mantissa` bits.

    `specials` is "ieee" (infinities and NaNs), "nan" (one NaN: all ones) or "none". The bias is 2^(exponent - 1) - 1.
    Codes are bit patterns without the sign. A format without mantissa bits has no zero: its field alone is the number,
    2^(field - bias) (OCP Microscaling Formats 1.0, E8M0).
    """

    name: str
    exponent: int
    mantissa: int
    specials: str = "ieee"
    signed: bool = True

    @property
    def bits(self) -> int:
        return self.exponent + self.mantissa + self.signed

    @property
    def precision(self) -> int:
        """Significant bits, the hidden one included."""
        return self.mantissa + 1

    @property
    def bias(self) -> int:
        return (1 << self.exponent - 1) - 1

    @property
    def emin(self) -> int:
        """The exponent of the smallest normal number, 1.0 * 2^emin."""
        return (1 if self.mantissa else 0) - self.bias

    @property
    def emax(self) -> int:
        """The exponent of the largest finite number, 1.x * 2^emax."""
        return (self.largest_code >> self.mantissa) - self.bias

    @property
    def has_infinity(self) -> bool:
        return self.specials == "ieee"

    @property
    def has_nan(self) -> bool:
        return self.specials != "none"

    @property
    def has_zero(self) -> bool:
        return self.mantissa > 0

    @property
    def sign_bit(self) -> int:
        """The place of the sign, above all other bits."""
        return self.exponent + self.mantissa

    @property
    def magnitude_mask(self) -> int:
        """All bits but the sign."""
        return (1 << self.sign_bit) - 1

    @property
    def sign_mask(self) -> int:
        """The sign bit, or 0 in a format without one."""
        return self.signed << self.sign_bit

    @property
    def infinity_code(self) -> int:
        """The code of infinity. ValueError in a format without one."""
        if not self.has_infinity:
            raise ValueError(f"{self.name} has no infinity")
        return ((1 << self.exponent) - 1) << self.mantissa

    @property
    def nan_code(self) -> int:
        """The code of the quiet NaN without payload. ValueError in a format without NaN."""
        if not self.has_nan:
            raise ValueError(f"{self.name} has no NaN")
        return self.infinity_code | 1 << self.mantissa - 1 if self.has_infinity else self.magnitude_mask

    @property
    def largest_code(self) -> int:
        """The code of the largest finite number."""
        return self.infinity_code - 1 if self.has_infinity else self.magnitude_mask - self.has_nan

    @property
    def overflow_code(self) -> int:
        """What a number beyond the largest becomes where it does not saturate: infinity, else NaN, else the largest."""
        if self.has_infinity:
            return self.infinity_code
        return self.nan_code if self.has_nan else self.largest_code

    @cached_property
    def top(self) -> float:
        """The largest finite number."""
        return float((1 << self.precision) - 1 - (self.specials == "nan" and self.mantissa > 0)) * 2.0 ** (
            self.emax - self.mantissa
        )

    @property
    def smallest_normal(self) -> float:
        return float(2.0**self.emin)

    def widens_to(self, other: FloatFormat) -> bool:
        """Whether every normal number of this format is a normal one of the other."""
        return self.emax <= other.emax and self.emin >= other.emin and self.precision <= other.precision

    def fits_in(self, other: FloatFormat) -> bool:
        """Whether every finite number of this format, subnormal ones included, is one of the other."""
        if (self.signed and not other.signed) or (self.has_zero and not other.has_zero):
            return False
        return (
            self.emax <= other.emax
            and self.precision <= other.precision
            and self.emin - self.mantissa >= other.emin - other.mantissa
        )


HALF = FloatFormat("f16", 5, 10)


@dataclass(frozen=True)
class ElementType:
    """An element type: `bits` is its width as a number, `storage_bits` what it takes in memory (4-bit ones are packed).

    `llvm` is the type of the register that holds one: narrow floats are held as their bits in an i8 (4-bit ones in its
    low half), tf32 as a float whose low mantissa bits do not matter, i4 in the low half of an i8 (the high half is
    undefined). `ptx` is its name in instructions, or empty. `padding` has stored bits by the keyword of the padding.
    """

    name: str
    bits: int
    storage_bits: int
    llvm: str
    ptx: str
    float: FloatFormat | None
    padding: dict[str, int]

    @property
    def storage_bytes(self) -> int:
        """Bytes that one takes in memory where it is not packed with others: a 4-bit one takes a whole byte."""
        return max(self.storage_bits // 8, 1)

    @property
    def is_partial(self) -> bool:
        """Whether the bytes that hold one have bits which no number has."""
        return self.bits < 8 * self.storage_bytes

    @property
    def is_packed(self) -> bool:
        """Whether several share a byte in a tensor."""
        return self.storage_bits < 8

    @property
    def is_integer(self) -> bool:
        """Whether it is an integer, i1 included: neither a float nor a pointer."""
        return self.float is None and self.name != POINTER

    @property
    def is_narrow_float(self) -> bool:
        """Whether it is a float that is held as its bits."""
        return self.float is not None and self.llvm == "i8"

    @property
    def widens_to_half(self) -> bool:
        """Whether it is a narrow float all of whose numbers are f16: a product of two is one of f16."""
        return self.is_narrow_float and self.float is not None and self.float.fits_in(HALF)


def _format(name: str, spec: FloatSpec) -> FloatFormat:
    return FloatFormat(name, spec.exponent, spec.mantissa, spec.specials, spec.signed)


def _padding(form: FloatFormat, declared: dict[str, int]) -> dict[str, int]:
    """The stored bits of each padding; what the format cannot hold is what a conversion to it gives."""
    nan = form.nan_code if form.has_nan else declared["nan"]
    beyond = form.overflow_code
    zero = 0 if form.has_zero else nan
    return {
        "zero": zero,
        "neg_zero": zero | form.sign_mask if form.has_zero else nan,
        "nan": nan,
        "pos_inf": beyond,
        "neg_inf": beyond | form.sign_mask,
    } | declared


def _element(spec: TypeSpec) -> ElementType:
    number = spec.number
    assert number is not None
    form = None if number.float is None else _format(spec.name, number.float)
    padding = dict.fromkeys(PADDING_KEYWORDS, 0) if form is None else _padding(form, dict(number.padding))
    return ElementType(spec.name, spec.bits, number.storage, number.llvm, number.ptx, form, padding)


ELEMENTS: dict[str, ElementType] = {
    spec.name: _element(spec) for spec in default_spec().types.values() if spec.number is not None
} | {POINTER: ElementType(POINTER, POINTER_BITS, POINTER_BITS, "ptr addrspace(1)", "", None, {})}
"""By keyword."""

FORMATS: dict[str, FloatFormat] = {name: e.float for name, e in ELEMENTS.items() if e.float is not None}
"""The float types' formats, by keyword."""

STORAGE_BYTES: dict[str, int] = {name: e.storage_bytes for name, e in ELEMENTS.items()}
"""Bytes that one element takes in memory where it is not packed with others."""

PACKED: tuple[str, ...] = tuple(name for name, e in ELEMENTS.items() if e.is_packed)
"""Elements of which two share a byte in a tensor."""


def memory_bits(element: str) -> int:
    """Bits that an element takes in a tensor, where those of less than 8 are packed."""
    return ELEMENTS[element].storage_bits
