# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tensor maps (`CUtensorMap`) as the hardware reads them: a table of bit fields that encodes and decodes.

A tensor map is 128 bytes of which the first 64 are used; the driver's interface leaves them opaque. What is known of
them comes from two places, and each field of `FIELDS` says from which:

- R: `tensormap.replace` of the PTX ISA writes one field of a map. ptxas makes plain loads, masks and stores of it, so
  that its code shows a field's place, width and bias, and by the immediates its values (sm_90a; sm_100a and sm_103a
  for what only these have).
- H: the reference assembler's host object fills the maps of a kernel from the arguments. What varied: address, sizes,
  strides, rank 1 to 5, element type, box, swizzle.

- D: the driver's own encoder (version 580, on an H100) made 655 tiled and 1,215 im2col maps of random arguments.

Those of D are these, with two differences: in a tiled map the driver's `kind` is 0, and `large` is never set; hardware
takes both. Its second half holds something of the box and the swizzle; it stays zero here, as the host object leaves
it. The driver also refuses what its documentation does not mention (rows of interleaved boxes that are no multiple of
16 bytes, boxes from 256 KiB on), which is kept here, and takes swizzles of maps that are interleaved by 32 bytes which
its documentation forbids: those are decoded, and not encoded.

Not made or read here: the maps of `cuTensorMapEncodeIm2colWide`, as none has been seen. A driver (595, CUDA 13.2)
encodes no map of any kind before cuInit has found a device, and by its documentation wide ones only beside one of
compute capability 10.

All sequences go from the innermost dimension outward, as in `cuTensorMapEncodeTiled` and `cuTensorMapEncodeIm2col`,
whose limits are kept.
"""

from __future__ import annotations

import math
from typing import Any

from libtile.support.errors import LibtileError
from libtile.support.records import dataclass

SIZE = 128
"""Bytes of a tensor map."""
ALIGNMENT = 64
"""Of a tensor map in memory (CUDA driver API, `CUtensorMap`)."""
MAX_RANK = 5
MAX_BOX = 256
MAX_PIXELS = 1024
MAX_BOX_BYTES = (1 << 18) - 1
MAX_ELEMENT_STRIDE = 8
LARGE = 1 << 17
"""Bytes from which on a tensor is marked as large."""
_TILED, _IM2COL = 2, 1
_TILED_BY_DRIVER = 0
"""Kinds of maps."""
CORNER_BITS = {3: 16, 4: 8, 5: 5}
"""Bits of each number of an im2col map's corners, by rank."""


class TensorMapError(LibtileError):
    """Values that no tensor map holds, or bytes that are no tensor map; the message says which and why."""


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

PACKED_ROW = 128
PACKED_ROWS = {
    "b4x16_p64": ("none", "128B", "128B atom 32B"),
    "b6x16_p32": ("none", "128B", "128B atom 32B", "128B atom 64B"),
}
"""Elements that a copy to shared memory pads, always so many of a row, and the swizzles that they may have."""

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


_COMMON: dict[str, Field] = {
    "address": Field(4, 53, unit=16),  # R (all 64 bits), H (bits 4 to 56)
    "kind": Field(64, 4),  # H: always 2; D: 0 of tiled maps, 1 of im2col maps
    "rank": Field(68, 3, bias=1),  # R, H
    "element": Field(71, 4),  # R, H
    "interleave": Field(75, 2),  # R, D
    "swizzle": Field(77, 2),  # R, H
    "fill_nan": Field(79, 1),  # R, D
    "tf32": Field(80, 1),  # R: set together with the element types f32 and f32.ftz
    "l2_promotion": Field(81, 2),  # D; H: always 2, the number of 128 bytes
    "atomicity": Field(83, 2),  # R (sm_100a)
    "large": Field(85, 1),  # H: the tensor spans 128 KiB and more; R: cleared with each new address
    "swizzle_96B": Field(86, 1),  # R (sm_103a)
    **{f"stride{i}": Field(96 + 32 * i, 32, unit=16) for i in range(4)},  # R, H: the low 36 bits
    **{f"stride_high{i}": Field(224 + 4 * i, 4, unit=1 << 36) for i in range(4)},  # R
    **{f"size{i}": Field(256 + 32 * i, 32, bias=1) for i in range(5)},  # R, H
    **{f"element_stride{i}": Field(416 + 3 * i, 3, bias=1) for i in range(5)},  # R, D
}
FIELDS: dict[str, Field] = {
    **_COMMON,
    **{f"box{i}": Field(440 + 8 * i, 8, bias=1) for i in range(5)},  # R, H, D
}
"""Of a tiled map as one little-endian number. What is behind a map's rank holds zeros. No field lies across 64 bits."""
IM2COL_FIELDS: dict[str, Field] = {
    **_COMMON,
    "channels": Field(440, 8, bias=1),  # D
    "lower": Field(448, 16),  # D: a number for each of W, H and D, of `CORNER_BITS` bits, W in the lowest
    "upper": Field(464, 16),  # D
    "pixels": Field(480, 10, bias=1),  # D
}
"""Of an im2col map."""
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


@dataclass(frozen=True)
class Im2colMap:
    """What an im2col tensor map says: `pixels` of `channels` elements each are taken from a batch of images.

    Sizes are those of (C, W, N), (C, W, H, N) or (C, W, H, D, N). `lower` and `upper` are the corners of the box in
    which the base of a filter lies, along W, H and D: distances from the first and from the last pixel of an image.
    The rest is as in a `TiledMap`.
    """

    address: int
    element: str
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    lower: tuple[int, ...]
    upper: tuple[int, ...]
    channels: int
    pixels: int
    element_strides: tuple[int, ...] = ()
    swizzle: str = "none"
    interleave: str = "none"
    fill_nan: bool = False
    l2_promotion: str = "128B"

    @property
    def steps(self) -> tuple[int, ...]:
        """Element strides, which are ones where none are given."""
        return self.element_strides or (1,) * len(self.sizes)


def encode(tensor: TiledMap | Im2colMap) -> bytes:
    """The 128 bytes. TensorMapError for what the hardware does not take."""
    if isinstance(tensor, TiledMap):
        _check_tiled(tensor)
        fields, values = FIELDS, {**shape_fields(tensor), "large": int(tensor.extent >= LARGE)}
    else:
        _check_im2col(tensor)
        fields, values = IM2COL_FIELDS, _pixel_fields(tensor)
    values["address"] = tensor.address
    for i, stride in enumerate(tensor.strides):
        values[f"stride{i}"], values[f"stride_high{i}"] = stride & STRIDE_LOW, stride & ~STRIDE_LOW
    values |= {f"size{i}": value for i, value in enumerate(tensor.sizes)}
    number = 0
    for name, value in values.items():
        number |= fields[name].put(value)
    return number.to_bytes(SIZE, "little")


def shape_fields(tiled: TiledMap) -> dict[str, int]:
    """The fields that neither the address nor the sizes and strides change."""
    return {"kind": _TILED, **_format_fields(tiled), **{f"box{i}": value for i, value in enumerate(tiled.box)}}


def _pixel_fields(tensor: Im2colMap) -> dict[str, int]:
    """`shape_fields` of an im2col map."""
    bits = CORNER_BITS[len(tensor.sizes)]
    corners = {"lower": tensor.lower, "upper": tensor.upper}
    values = {name: sum((n & (1 << bits) - 1) << bits * i for i, n in enumerate(at)) for name, at in corners.items()}
    sides = {"channels": tensor.channels, "pixels": tensor.pixels}
    return {"kind": _IM2COL, **_format_fields(tensor), **values, **sides}


def _format_fields(tensor: TiledMap | Im2colMap) -> dict[str, int]:
    """What both kinds of maps say of elements and of how they are copied."""
    mode, atomicity = SWIZZLES[tensor.swizzle]
    element = ELEMENTS[tensor.element]
    return {
        "rank": len(tensor.sizes),
        "element": element.number,
        "interleave": INTERLEAVES[tensor.interleave],
        "swizzle": mode,
        "fill_nan": int(tensor.fill_nan),
        "tf32": int(element.rounded),
        "l2_promotion": L2_PROMOTIONS[tensor.l2_promotion],
        "atomicity": atomicity,
        "swizzle_96B": int(tensor.swizzle == "96B"),
        **{f"element_stride{i}": value for i, value in enumerate(tensor.steps)},
    }


def decode(raw: bytes) -> TiledMap | Im2colMap:
    """What a tensor map says. TensorMapError when the bytes are no map that is known."""
    number = int.from_bytes(raw[: SIZE // 2], "little")
    kind = _COMMON["kind"].get(number)
    kinds = (_TILED, _TILED_BY_DRIVER, _IM2COL)
    if len(raw) != SIZE or not any(raw) or kind not in kinds or _COMMON["rank"].get(number) > MAX_RANK:
        raise TensorMapError("the bytes are no tensor map")
    fields = IM2COL_FIELDS if kind == _IM2COL else FIELDS
    found = {name: field.get(number) for name, field in fields.items()}
    rest = number
    for field in fields.values():
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
    common: dict[str, Any] = {
        "address": found["address"],
        "element": elements[0],
        "sizes": tuple(found[f"size{i}"] for i in range(rank)),
        "strides": tuple(found[f"stride{i}"] | found[f"stride_high{i}"] for i in range(rank - 1)),
        "element_strides": () if set(steps) == {1} else steps,
        "swizzle": names[0],
        "interleave": interleaves[0],
        "fill_nan": bool(found["fill_nan"]),
        "l2_promotion": next(name for name, value in L2_PROMOTIONS.items() if value == found["l2_promotion"]),
    }
    if kind != _IM2COL:
        return TiledMap(box=tuple(found[f"box{i}"] for i in range(rank)), **common)
    if rank not in CORNER_BITS:
        raise TensorMapError(f"an im2col tensor map has rank 3 to 5, not {rank}")
    common |= {"channels": found["channels"], "pixels": found["pixels"]}
    return Im2colMap(lower=_corner(found["lower"], rank), upper=_corner(found["upper"], rank), **common)


def decode_tiled(raw: bytes) -> TiledMap:
    """`decode` where only a tiled map will do."""
    tensor = decode(raw)
    if not isinstance(tensor, TiledMap):
        raise TensorMapError("the tensor map is one of im2col mode, not of tiles")
    return tensor


def _corner(bits: int, rank: int) -> tuple[int, ...]:
    """The numbers, in two's complement, of a corner of an im2col map."""
    width = CORNER_BITS[rank]
    parts = [bits >> width * i & (1 << width) - 1 for i in range(rank - 2)]
    return tuple(part - (part >> width - 1 << width) for part in parts)


def with_address(raw: bytes, address: int) -> bytes:
    """The same map over a tensor at another address; all other bits stay. TensorMapError if it is not aligned."""
    field = FIELDS["address"]
    number = int.from_bytes(raw, "little") & ~((1 << field.width) - 1 << field.at)
    return (number | field.put(address)).to_bytes(len(raw), "little")


def _check_tiled(tiled: TiledMap) -> None:
    """The limits of `cuTensorMapEncodeTiled` (CUDA driver API, "Tensor Map Object Management")."""
    rank = len(tiled.sizes)
    if not 1 <= rank <= MAX_RANK or len(tiled.box) != rank or len(tiled.strides) != rank - 1:
        raise TensorMapError(
            f"a tensor map of rank {rank} needs {rank} box sizes and {rank - 1} strides; ranks are 1 to 5"
        )
    if any(not 1 <= b <= MAX_BOX for b in tiled.box):
        raise TensorMapError(f"box {tiled.box} of a tensor map has a side that is not in 1..{MAX_BOX}")
    if tiled.interleave != "none" and rank < 3:
        raise TensorMapError(f"an interleaved tensor map has rank 3 at least, not {rank}")
    outer = zip(tiled.box[1:], tiled.steps[1:], strict=True) if _steps_fit(tiled) else ()
    _check_copied(tiled, tiled.box[0], math.prod(-(-side // step) for side, step in outer))


def _check_im2col(tensor: Im2colMap) -> None:
    """The limits of `cuTensorMapEncodeIm2col` (there)."""
    rank = len(tensor.sizes)
    if rank not in CORNER_BITS or len(tensor.strides) != rank - 1:
        raise TensorMapError(f"an im2col tensor map of rank {rank} needs {rank - 1} strides; ranks are 3 to 5")
    most = 1 << CORNER_BITS[rank] - 1
    for what, corner in (("lower", tensor.lower), ("upper", tensor.upper)):
        if len(corner) != rank - 2 or any(not -most <= n < most for n in corner):
            raise TensorMapError(
                f"the {what} corner {corner} of an im2col tensor map of rank {rank} is not {rank - 2} numbers in "
                f"{-most}..{most - 1}"
            )
    if any(size + up <= low for size, low, up in zip(tensor.sizes[1:], tensor.lower, tensor.upper, strict=False)):
        raise TensorMapError(
            f"the corners {tensor.lower} and {tensor.upper} leave no pixel of images of {tensor.sizes[1:-1]}"
        )
    if not 1 <= tensor.channels <= MAX_BOX:
        raise TensorMapError(f"{tensor.channels} channels of an im2col tensor map are not in 1..{MAX_BOX}")
    if not 1 <= tensor.pixels <= MAX_PIXELS:
        raise TensorMapError(f"{tensor.pixels} pixels of an im2col tensor map are not in 1..{MAX_PIXELS}")
    _check_copied(tensor, tensor.channels, tensor.pixels)


def _steps_fit(tensor: TiledMap | Im2colMap) -> bool:
    return len(tensor.steps) == len(tensor.sizes) and all(1 <= step <= MAX_ELEMENT_STRIDE for step in tensor.steps)


def _check_copied(tensor: TiledMap | Im2colMap, inner: int, rows: int) -> None:
    """The limits that both kinds have, of maps whose copies move so many rows of `inner` elements."""
    for what, value, known in (
        ("element type", tensor.element, ELEMENTS),
        ("swizzle", tensor.swizzle, SWIZZLES),
        ("interleaving", tensor.interleave, INTERLEAVES),
        ("L2 promotion", tensor.l2_promotion, L2_PROMOTIONS),
    ):
        if value not in known:
            raise TensorMapError(f"{what} {value!r} of a tensor map is not one of {', '.join(known)}")
    if any(not 1 <= n <= 1 << 32 for n in tensor.sizes):
        raise TensorMapError(f"sizes {tensor.sizes} of a tensor map are not all in 1..2**32")
    if not _steps_fit(tensor):
        raise TensorMapError(
            f"element strides {tensor.steps} of a tensor map of rank {len(tensor.sizes)} are not as many, and all in "
            f"1..{MAX_ELEMENT_STRIDE}"
        )
    unit = 32 if tensor.interleave == "32B" or tensor.element in PACKED_ROWS else 16
    if tensor.address % unit:
        raise TensorMapError(f"the address 0x{tensor.address:x} of a tensor map is not a multiple of {unit}")
    if any(s % unit or not 0 <= s < 1 << 40 for s in tensor.strides):
        raise TensorMapError(f"strides {tensor.strides} of a tensor map are not all multiples of {unit} below 2**40")
    if tensor.fill_nan and tensor.element not in FLOATS:
        raise TensorMapError(f"elements of type {tensor.element} cannot be filled with NaN")
    _check_packed(tensor, inner)
    row = inner * ELEMENTS[tensor.element].bits // 8
    if row % 16:
        raise TensorMapError(f"the inner box of {row} bytes of a tensor map is not a multiple of 16 bytes")
    span = SPANS.get(tensor.swizzle, 128)
    if tensor.swizzle != "none" and tensor.interleave == "none" and row > span:
        raise TensorMapError(f"the inner box of {row} bytes is wider than the swizzle of {span}")
    if tensor.interleave == "32B" and tensor.swizzle != "32B":
        raise TensorMapError("a tensor map interleaved by 32 bytes needs the swizzle of 32 bytes")
    if row * rows > MAX_BOX_BYTES:
        raise TensorMapError(f"a copy of {row * rows} bytes by a tensor map is longer than {MAX_BOX_BYTES}")


def _check_packed(tensor: TiledMap | Im2colMap, inner: int) -> None:
    """The limits of elements that are smaller than bytes."""
    element = tensor.element
    if element == "b4x16" and tensor.sizes[0] % 2:
        raise TensorMapError(f"rows of {tensor.sizes[0]} elements {element} are no whole bytes")
    if element not in PACKED_ROWS:
        return
    if tensor.sizes[0] % PACKED_ROW or inner != PACKED_ROW:
        raise TensorMapError(
            f"elements {element} are copied {PACKED_ROW} at a time, of rows of a multiple of that, not {inner} of "
            f"{tensor.sizes[0]}"
        )
    if tensor.swizzle not in PACKED_ROWS[element]:
        raise TensorMapError(f"elements {element} are not swizzled by {tensor.swizzle}")
    if element == "b6x16_p32" and tensor.interleave != "none":
        raise TensorMapError(f"a tensor map of elements {element} cannot be interleaved")
