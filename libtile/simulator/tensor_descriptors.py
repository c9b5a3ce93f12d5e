# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Descriptors of tcgen05: of the instruction (32 bits), and of a matrix in shared memory (64 bits).

What a field may hold depends on the kind of the instruction (PTX ISA, "Instruction Descriptor" and "Shared Memory
Descriptor"). Decoding checks every field, as the hardware has no error for a wrong one, but a wrong result.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np

from libtile.support.records import dataclass

from .shared_operand import Swizzle, operand_offsets


class DescriptorError(ValueError):
    """A field that holds what the instruction does not have; the message names it."""


@dataclass(frozen=True)
class Kind:
    """What a `.kind::` multiplies: its depth, and the numbers of D's and A's and B's types in the descriptor."""

    k: int
    results: dict[int, str]
    operands: dict[int, str]
    # Bits of an element's place in memory.
    bits: int
    scaled: bool = False


_FLOATS = {0: "e4m3", 1: "e5m2", 3: "e2m3", 4: "e3m2", 5: "e2m1"}
KINDS = {
    "f16": Kind(16, {0: "f16", 1: "f32"}, {0: "f16", 1: "bf16"}, 16),
    "tf32": Kind(8, {1: "f32"}, {2: "tf32"}, 32),
    "f8f6f4": Kind(32, {0: "f16", 1: "f32"}, _FLOATS, 8),
    "i8": Kind(32, {2: "s32"}, {0: "u8", 1: "s8"}, 8),
    "mxf8f6f4": Kind(32, {}, _FLOATS, 8, scaled=True),
    "mxf4": Kind(64, {}, {1: "e2m1"}, 4, scaled=True),
    "mxf4nvf4": Kind(64, {}, {1: "e2m1"}, 4, scaled=True),
}
# How many factors of a row a product has, and how they may be written.
SCALES: dict[str, dict[int, tuple[str, ...]]] = {
    "mxf8f6f4": {1: ("ue8m0",)},
    "mxf4": {2: ("ue8m0",)},
    "mxf4nvf4": {2: ("ue8m0",), 4: ("ue4m3", "ue8m0")},
}

# Fields: the first bit and the number of bits.
_PLAIN = {
    "the sparsity selector": (0, 2), "sparsity": (2, 1), "saturation": (3, 1), "the type of D": (4, 2),
    "a reserved field": (6, 1), "the type of A": (7, 3), "the type of B": (10, 3), "negation of A": (13, 1),
    "negation of B": (14, 1), "transposition of A": (15, 1), "transposition of B": (16, 1), "N": (17, 6),
    "another reserved field": (23, 1), "M": (24, 5), "a third reserved field": (29, 1), "the shift of B": (30, 2),
}  # fmt: skip
_SCALED = {
    "a reserved field": (0, 2), "sparsity": (2, 1), "another reserved field": (3, 1), "the scale's id of B": (4, 2),
    "a third reserved field": (6, 1), "the type of A": (7, 3), "the type of B": (10, 3), "negation of A": (13, 1),
    "negation of B": (14, 1), "transposition of A": (15, 1), "transposition of B": (16, 1), "N": (17, 6),
    "the scales' type": (23, 1), "a fourth reserved field": (24, 3), "M": (27, 2), "the scale's id of A": (29, 2),
    "the depth": (31, 1),
}  # fmt: skip
_SCALE_TYPES = ("ue4m3", "ue8m0")


@dataclass(frozen=True)
class InstructionDescriptor:
    """A `tcgen05.mma`: D (m x n) = A (m x k) B (k x n) + D by a CTA, or by a pair of them."""

    m: int
    n: int
    k: int
    d: str
    a: str
    b: str
    a_sign: int = 1
    b_sign: int = 1
    a_transposed: bool = False
    b_transposed: bool = False
    saturates: bool = False
    scale: str = ""
    a_scale_id: int = 0
    b_scale_id: int = 0


@lru_cache(maxsize=256)
def decode_instruction(word: int, kind: str, ctas: int, factors: int, a_in_memory: bool) -> InstructionDescriptor:
    """The descriptor of an instruction of a kind by so many CTAs, with so many scale factors for each row.

    `a_in_memory` says that A is in tensor memory. Raises DescriptorError.
    """
    facts = KINDS[kind]
    fields = _SCALED if facts.scaled else _PLAIN
    value = {name: word >> first & (1 << bits) - 1 for name, (first, bits) in fields.items()}

    def refuse(name: str, why: str) -> DescriptorError:
        first, bits = fields[name]
        where = f"bit {first}" if bits == 1 else f"bits {first}-{first + bits - 1}"
        text = f"{name} ({where}) of the instruction descriptor 0x{word:08x} is {value[name]}: {why}"
        return DescriptorError(text)

    for name in fields:
        if ("reserved" in name or name in ("sparsity", "the sparsity selector", "the shift of B")) and value[name]:
            raise refuse(name, "only dense products are simulated" if "spars" in name else "0 is needed")
    types = {}
    for name, known in (("the type of A", facts.operands), ("the type of B", facts.operands)):
        if value[name] not in known:
            raise refuse(name, f"kind::{kind} has {_listed(known)}")
        types[name[-1]] = known[value[name]]
    n, a, b = 8 * value["N"], types["A"], types["B"]
    transposed = {name: bool(value[f"transposition of {name}"]) for name in "AB"}
    for name, kind_of in (("A", a), ("B", b)):
        if transposed[name] and facts.bits == 4:
            raise refuse(f"transposition of {name}", f"operands of kind::{kind} are contiguous along k")
        if transposed[name] and kind_of in ("e2m3", "e3m2", "e2m1") and facts.bits == 8 and n % 16:
            raise refuse("N", f"16 elements of {kind_of} lie together")
    if transposed["A"] and a_in_memory:
        raise refuse("transposition of A", "A in tensor memory is not transposed")
    signs = {name: -1 if value[f"negation of {name}"] else 1 for name in "AB"}
    if facts.scaled:
        return _decode_scaled(value, refuse, kind, ctas, factors, n, (a, b), signs, transposed)
    if value["the type of D"] not in facts.results:
        raise refuse("the type of D", f"kind::{kind} has {_listed(facts.results)}")
    d = facts.results[value["the type of D"]]
    if d == "f16" and "bf16" in (a, b):
        raise refuse("the type of D", "products of bf16 are summed in f32")
    if kind == "i8" and -1 in signs.values():
        raise refuse("negation of A" if signs["A"] < 0 else "negation of B", "integers are not negated")
    if kind != "i8" and value["saturation"]:
        raise refuse("saturation", "only kind::i8 saturates")
    m, rows = 16 * value["M"], (64, 128) if ctas == 1 else (128, 256)
    if m not in rows:
        raise refuse("M", f"that is M = {m}, and cta_group::{ctas} has {rows[0]} and {rows[1]}")
    step = 8 if m == 64 else 16
    small = kind == "i8" and m == 64 and n > 32 and n % 16
    # The ISA's table has steps of 16 for M = 128; the original assembler multiplies 128x8 of f16 and bf16, too.
    few = kind == "f16" and m == 128 and ctas == 1 and n == 8
    if not few and (not step <= n <= 256 or n % step or small):
        raise refuse("N", f"that is N = {n}, which kind::{kind} does not have for M = {m}")
    return InstructionDescriptor(
        m, n, facts.k, d, a, b, signs["A"], signs["B"], transposed["A"], transposed["B"], bool(value["saturation"])
    )


def _decode_scaled(
    value: dict[str, int],
    refuse: Callable[[str, str], DescriptorError],
    kind: str,
    ctas: int,
    factors: int,
    n: int,
    types: tuple[str, str],
    signs: dict[str, int],
    transposed: dict[str, bool],
) -> InstructionDescriptor:
    scale = _SCALE_TYPES[value["the scales' type"]]
    if scale not in SCALES[kind][factors]:
        raise refuse("the scales' type", f"that is {scale}, and kind::{kind} with {factors} factors has others")
    for name in ("the scale's id of A", "the scale's id of B"):
        if value[name] % factors:
            raise refuse(name, f"{factors} factors begin at a multiple of {factors} in their word")
    if value["the depth"]:
        raise refuse("the depth", "K = 96 is not simulated" if kind != "mxf8f6f4" else "0 is needed")
    m, wanted = 128 * value["M"], 128 * ctas
    if m != wanted:
        raise refuse("M", f"that is M = {m}; {wanted} is simulated for cta_group::{ctas}")
    if not 8 * ctas <= n <= 256 or n % (8 * ctas):
        raise refuse("N", f"that is N = {n}, which kind::{kind} does not have")
    return InstructionDescriptor(
        m, n, KINDS[kind].k, "f32", *types, signs["A"], signs["B"], transposed["A"], transposed["B"], scale=scale,
        a_scale_id=value["the scale's id of A"], b_scale_id=value["the scale's id of B"],
    )  # fmt: skip


def _listed(names: dict[int, str]) -> str:
    return ", ".join(f"{number} ({name})" for number, name in names.items())


_SWIZZLES = {
    0: Swizzle(0), 1: Swizzle(128, atom=32), 2: Swizzle(128), 4: Swizzle(64), 6: Swizzle(32),
}  # fmt: skip


@dataclass(frozen=True)
class SharedDescriptor:
    """A matrix in shared memory; `start`, `leading` and `stride` are bytes."""

    start: int
    leading: int
    stride: int
    swizzle: Swizzle

    def offsets(self, outer: int, k: int, bits: int, transposed: bool) -> np.ndarray:
        """Shared memory addresses of the elements, or of the bytes of smaller ones: [outer, along k]."""
        return operand_offsets(self.start, self.leading, self.stride, self.swizzle, outer, k, bits, transposed)


@lru_cache(maxsize=1024)
def decode_shared(word: int, which: str, transposed: bool, words: bool = False) -> SharedDescriptor:
    """The descriptor of a matrix named `which`, which is contiguous along k or `transposed`. One of `words`, elements
    of 32 bits, can be transposed under one swizzle only. Raises DescriptorError."""

    def refuse(name: str, first: int, bits: int, why: str) -> DescriptorError:
        value = word >> first & (1 << bits) - 1
        text = f"{name} (bits {first}-{first + bits - 1}) of the descriptor 0x{word:016x} of {which} is {value}: {why}"
        return DescriptorError(text)

    if word >> 46 & 7 != 1:
        raise refuse("the version", 46, 3, "tcgen05 needs 1")
    if word >> 49 & 7:
        raise refuse("the base offset", 49, 3, "only 0 is simulated")
    if word >> 52 & 1:
        raise refuse("the mode of the leading dimension", 52, 1, "only 0, a relative offset, is simulated")
    if word >> 53 & 0xFF:
        raise refuse("a fixed field", 53, 8, "0 is needed")
    for first in (14, 30):
        if word >> first & 3:
            raise refuse("a reserved field", first, 2, "0 is needed")
    swizzle = _SWIZZLES.get(word >> 61 & 7)
    if swizzle is None:
        raise refuse("the swizzle", 61, 3, "there are 0 (none), 1 (128B by 32 bytes), 2 (128B), 4 (64B) and 6 (32B)")
    if swizzle.atom == 32 and not transposed:
        raise refuse("the swizzle", 61, 3, "128B by 32 bytes is for operands that are not contiguous along k")
    if words and transposed and swizzle.atom != 32:
        raise refuse("the swizzle", 61, 3, "tf32 that is not contiguous along k needs 1 (128B by 32 bytes)")
    start, leading, stride = ((word >> first & 0x3FFF) << 4 for first in (0, 16, 32))
    return SharedDescriptor(start, leading, stride, swizzle)
