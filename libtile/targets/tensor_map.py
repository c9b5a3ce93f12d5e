# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tensor maps (`CUtensorMap`) as the hardware reads them: a table of bit fields that encodes and decodes.

A tensor map is 128 bytes of which the first 64 are used; the driver's interface leaves them opaque. What is known of
them comes from two places, and each field of `FIELDS` says from which:

- R: `tensormap.replace` of the PTX ISA writes one field of a map. ptxas makes plain loads, masks and stores of it, so
  that its code shows a field's place, width and bias, and by the immediates its values (sm_90a; sm_100a and sm_103a
  for what only these have).
- H: the reference assembler's host object fills the maps of a kernel from the arguments. What varied: address, sizes,
  strides, rank 1 to 5, element type, box, swizzle.

The driver's own encoder (version 580, on an H100) agrees: of 655 random maps that it made, the fields of the first half
are those of `encode`, but for `kind`, which is 0, and `large`, which is never set; hardware takes both. Its second half
holds something of the box and the element type; it stays zero here, as the host object leaves it.

Not made or read here: im2col maps. Those of the driver have the kind 1, channels less 1 in the bits from 440 on (8),
the corners from 448 on (lower ones, and upper ones from 464 on: 16, 8 or 5 bits each, by the rank), pixels less 1 from
480 on (10).

All sequences go from the innermost dimension outward, as in `cuTensorMapEncodeTiled`, whose limits are kept.
"""

from __future__ import annotations

from libtile.support.errors import LibtileError
from libtile.support.records import dataclass

SIZE = 128
"""Bytes of a tensor map."""
ALIGNMENT = 64
"""Of a tensor map in memory (CUDA driver API, `CUtensorMap`)."""
MAX_RANK = 5
MAX_BOX = 256
MAX_ELEMENT_STRIDE = 8
LARGE = 1 << 17
"""Bytes from which on a tensor is marked as large."""
_TILED = 2


class TensorMapError(LibtileError):
    """Values that no tensor map holds, or bytes that are no tiled tensor map; the message says which and why."""


@dataclass(frozen=True)
class Element:
    """A type of elements: its number in the map, its bits in global memory, whether f32 is rounded to tf32."""

    number: int
    bits: int
    rounded: bool = False


ELEMENTS = {
    "u8": Element(0, 8), "u16": Element(1, 16), "u32": Element(2, 32), "s32": Element(3, 32), "u64": Element(4, 64),
    "s64": Element(5, 64), "f16": Element(6, 16), "f32": Element(7, 32), "f32.ftz": Element(8, 32),
    "f64": Element(9, 64), "bf16": Element(10, 16), "tf32": Element(7, 32, True), "tf32.ftz": Element(8, 32, True),
    "b4x16": Element(11, 4), "b4x16_p64": Element(12, 4), "b6x16_p32": Element(13, 6),
}  # fmt: skip
"""By PTX's names (`.elemtype` of tensormap.replace). R for all; H for f16, bf16, f32, f64, u8, u16, s32 or u32, u64."""

FLOATS = frozenset({"f16", "bf16", "f32", "f32.ftz", "f64", "tf32", "tf32.ftz"})
"""Those whose elements outside of the tensor may be filled with NaN."""

SWIZZLES = {
    "none": (0, 0), "32B": (1, 0), "64B": (2, 0), "128B": (3, 0), "128B atom 32B": (3, 1),
    "128B atom 32B flip 8B": (3, 2), "128B atom 64B": (3, 3), "96B": (0, 0),
}  # fmt: skip
"""Mode and atomicity of each swizzle, as numbers in the map. 96 bytes (sm_103) has a bit of its own."""
SPANS = {"32B": 32, "64B": 64, "96B": 96}
INTERLEAVES = {"none": 0, "16B": 1, "32B": 2}
L2_PROMOTIONS = {"none": 0, "64B": 1, "128B": 2, "256B": 3}


@dataclass(frozen=True)
class Field:
    """`width` bits from bit `at` of the map. What is stored is the value divided by `unit`, less `bias`."""

    at: int
    width: int
    bias: int = 0
    unit: int = 1

    def put(self, value: int) -> int:
        """The value in its place. TensorMapError if it does not fit."""
        stored, rest = divmod(value, self.unit)
        stored -= self.bias
        if rest or not 0 <= stored < 1 << self.width:
            raise TensorMapError(f"{value} is not a multiple of {self.unit} that fits in a field of a tensor map")
        return stored << self.at

    def get(self, number: int) -> int:
        """The value that `number`, all bits of a map, holds here."""
        return ((number >> self.at & (1 << self.width) - 1) + self.bias) * self.unit


FIELDS: dict[str, Field] = {
    "address": Field(4, 53, unit=16),  # R (all 64 bits), H (bits 4 to 56)
    "kind": Field(64, 4),  # H: always 2
    "rank": Field(68, 3, bias=1),  # R, H
    "element": Field(71, 4),  # R, H
    "interleave": Field(75, 2),  # R
    "swizzle": Field(77, 2),  # R, H
    "fill_nan": Field(79, 1),  # R
    "tf32": Field(80, 1),  # R: set together with the element types f32 and f32.ftz
    "l2_promotion": Field(81, 2),  # H: always 2, the driver's number of 128 bytes; the width by what is around it
    "atomicity": Field(83, 2),  # R (sm_100a)
    "large": Field(85, 1),  # H: the tensor spans 128 KiB and more; R: cleared with each new address
    "swizzle_96B": Field(86, 1),  # R (sm_103a)
    **{f"stride{i}": Field(96 + 32 * i, 32, unit=16) for i in range(4)},  # R, H: the low 36 bits
    **{f"stride_high{i}": Field(224 + 4 * i, 4, unit=1 << 36) for i in range(4)},  # R
    **{f"size{i}": Field(256 + 32 * i, 32, bias=1) for i in range(5)},  # R, H
    **{f"element_stride{i}": Field(416 + 3 * i, 3, bias=1) for i in range(5)},  # R
    **{f"box{i}": Field(440 + 8 * i, 8, bias=1) for i in range(5)},  # R, H
}
"""Of a map as one little-endian number. What is behind a map's rank holds zeros. No field lies across 64 bits."""
STRIDE_LOW = (1 << 36) - 1
"""The bits of a stride that its field `stride` holds; the others are in `stride_high`."""


@dataclass(frozen=True)
class TiledMap:
    """What a tiled tensor map says. `strides` are bytes of dimensions 1 and up; the innermost is dense.

    `sizes` and `box` are in elements. `element` is a key of `ELEMENTS`, `swizzle` of `SWIZZLES`, `interleave` of
    `INTERLEAVES`, `l2_promotion` of `L2_PROMOTIONS`.
    """

    address: int
    element: str
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    element_strides: tuple[int, ...] = ()
    swizzle: str = "none"
    interleave: str = "none"
    fill_nan: bool = False
    l2_promotion: str = "128B"

    @property
    def steps(self) -> tuple[int, ...]:
        """Element strides, which are ones where none are given."""
        return self.element_strides or (1,) * len(self.sizes)

    @property
    def extent(self) -> int:
        """Bytes from the tensor's first to its last."""
        row = self.sizes[0] * ELEMENTS[self.element].bits // 8
        return row + sum((n - 1) * s for n, s in zip(self.sizes[1:], self.strides, strict=True))


def encode(tiled: TiledMap) -> bytes:
    """The 128 bytes. TensorMapError for what the hardware does not take."""
    _check(tiled)
    values = {**shape_fields(tiled), "address": tiled.address, "large": int(tiled.extent >= LARGE)}
    for i, stride in enumerate(tiled.strides):
        values[f"stride{i}"], values[f"stride_high{i}"] = stride & STRIDE_LOW, stride & ~STRIDE_LOW
    values |= {f"size{i}": value for i, value in enumerate(tiled.sizes)}
    number = 0
    for name, value in values.items():
        number |= FIELDS[name].put(value)
    return number.to_bytes(SIZE, "little")


def shape_fields(tiled: TiledMap) -> dict[str, int]:
    """The fields that neither the address nor the sizes and strides change."""
    mode, atomicity = SWIZZLES[tiled.swizzle]
    element = ELEMENTS[tiled.element]
    values = {
        "kind": _TILED,
        "rank": len(tiled.sizes),
        "element": element.number,
        "interleave": INTERLEAVES[tiled.interleave],
        "swizzle": mode,
        "fill_nan": int(tiled.fill_nan),
        "tf32": int(element.rounded),
        "l2_promotion": L2_PROMOTIONS[tiled.l2_promotion],
        "atomicity": atomicity,
        "swizzle_96B": int(tiled.swizzle == "96B"),
    }
    for name, numbers in (("box", tiled.box), ("element_stride", tiled.steps)):
        values |= {f"{name}{i}": value for i, value in enumerate(numbers)}
    return values


def decode(raw: bytes) -> TiledMap:
    """What a tensor map says. TensorMapError when the bytes are no tiled map."""
    number = int.from_bytes(raw[: SIZE // 2], "little")
    found = {name: field.get(number) for name, field in FIELDS.items()}
    if len(raw) != SIZE or found["kind"] != _TILED or found["rank"] > MAX_RANK:
        raise TensorMapError("the bytes are no tiled tensor map")
    rest = number
    for field in FIELDS.values():
        rest &= ~((1 << field.width) - 1 << field.at)
    if rest:
        raise TensorMapError(f"bit {(rest & -rest).bit_length() - 1} of a tensor map has no known meaning, but is set")
    rank = found["rank"]
    swizzle = (found["swizzle"], found["atomicity"])
    names = [name for name in SWIZZLES if SWIZZLES[name] == swizzle and (name == "96B") == bool(found["swizzle_96B"])]
    sort = (found["element"], bool(found["tf32"]))
    elements = [name for name, element in ELEMENTS.items() if (element.number, element.rounded) == sort]
    interleaves = [name for name, value in INTERLEAVES.items() if value == found["interleave"]]
    if not (names and elements and interleaves):
        raise TensorMapError("the element type, swizzle or interleaving of a tensor map is none that is known")
    steps = tuple(found[f"element_stride{i}"] for i in range(rank))
    return TiledMap(
        found["address"],
        elements[0],
        tuple(found[f"size{i}"] for i in range(rank)),
        tuple(found[f"stride{i}"] | found[f"stride_high{i}"] for i in range(rank - 1)),
        tuple(found[f"box{i}"] for i in range(rank)),
        () if set(steps) == {1} else steps,
        names[0],
        interleaves[0],
        bool(found["fill_nan"]),
        next(name for name, value in L2_PROMOTIONS.items() if value == found["l2_promotion"]),
    )


def with_address(raw: bytes, address: int) -> bytes:
    """The same map over a tensor at another address; all other bits stay. TensorMapError if it is not aligned."""
    field = FIELDS["address"]
    number = int.from_bytes(raw, "little") & ~((1 << field.width) - 1 << field.at)
    return (number | field.put(address)).to_bytes(len(raw), "little")


def _check(tiled: TiledMap) -> None:
    """The limits of `cuTensorMapEncodeTiled` (CUDA driver API, "Tensor Map Object Management")."""
    rank = len(tiled.sizes)
    steps = tiled.steps
    if not 1 <= rank <= MAX_RANK or len(tiled.box) != rank or len(tiled.strides) != rank - 1 or len(steps) != rank:
        raise TensorMapError(
            f"a tensor map of rank {rank} needs {rank} box sizes and {rank - 1} strides; ranks are 1 to 5"
        )
    for what, value, known in (
        ("element type", tiled.element, ELEMENTS),
        ("swizzle", tiled.swizzle, SWIZZLES),
        ("interleaving", tiled.interleave, INTERLEAVES),
        ("L2 promotion", tiled.l2_promotion, L2_PROMOTIONS),
    ):
        if value not in known:
            raise TensorMapError(f"{what} {value!r} of a tensor map is not one of {', '.join(known)}")
    if any(not 1 <= n <= 1 << 32 for n in tiled.sizes):
        raise TensorMapError(f"sizes {tiled.sizes} of a tensor map are not all in 1..2**32")
    if any(not 1 <= b <= MAX_BOX for b in tiled.box):
        raise TensorMapError(f"box {tiled.box} of a tensor map has a side that is not in 1..{MAX_BOX}")
    if any(not 1 <= s <= MAX_ELEMENT_STRIDE for s in steps):
        raise TensorMapError(f"element strides {steps} of a tensor map are not all in 1..{MAX_ELEMENT_STRIDE}")
    unit = 32 if tiled.interleave == "32B" else 16
    if tiled.address % unit:
        raise TensorMapError(f"the address 0x{tiled.address:x} of a tensor map is not a multiple of {unit}")
    if any(s % unit or not 0 <= s < 1 << 40 for s in tiled.strides):
        raise TensorMapError(f"strides {tiled.strides} of a tensor map are not all multiples of {unit} below 2**40")
    if tiled.fill_nan and tiled.element not in FLOATS:
        raise TensorMapError(f"elements of type {tiled.element} cannot be filled with NaN")
    row = tiled.box[0] * ELEMENTS[tiled.element].bits // 8
    if tiled.interleave == "none" and row % 16:
        raise TensorMapError(f"the inner box of {row} bytes of a tensor map is not a multiple of 16 bytes")
    span = SPANS.get(tiled.swizzle, 128)
    if tiled.swizzle != "none" and tiled.interleave == "none" and row > span:
        raise TensorMapError(f"the inner box of {row} bytes is wider than the swizzle of {span}")
    if tiled.interleave != "none" and rank < 3:
        raise TensorMapError(f"an interleaved tensor map has rank 3 at least, not {rank}")
    if tiled.interleave == "32B" and tiled.swizzle != "32B":
        raise TensorMapError("a tensor map interleaved by 32 bytes needs the swizzle of 32 bytes")
