# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""PTX fundamental types and how each is held in numpy (PTX ISA, "Fundamental Types", "Alternate Data Formats").

A register is an array with one element per thread. Formats that numpy lacks (bf16, tf32, fp8, packed pairs) are held as
unsigned integers of their width; the operations that use them unpack the bits.
"""

from __future__ import annotations

import numpy as np

from libtile.support.records import dataclass


@dataclass(frozen=True)
class PtxType:
    """One type suffix: `kind` is one of u s f b pred; `bits` its width; `code` the numpy dtype name that holds it."""

    name: str
    kind: str
    bits: int
    code: str

    @property
    def size(self) -> int:
        """Bytes in memory (sub-byte formats are packed, so they have none of their own)."""
        return self.bits // 8

    @property
    def dtype(self) -> np.dtype:
        return DTYPES[self.code]


# Short codes are used as variable names in generated code.
DTYPES: dict[str, np.dtype] = {
    "u1": np.dtype(np.uint8),
    "u2": np.dtype(np.uint16),
    "u4": np.dtype(np.uint32),
    "u8": np.dtype(np.uint64),
    "i1": np.dtype(np.int8),
    "i2": np.dtype(np.int16),
    "i4": np.dtype(np.int32),
    "i8": np.dtype(np.int64),
    "f2": np.dtype(np.float16),
    "f4": np.dtype(np.float32),
    "f8": np.dtype(np.float64),
    "p": np.dtype(np.bool_),
    "q": np.dtype([("lo", np.uint64), ("hi", np.uint64)]),
}


def _build() -> dict[str, PtxType]:
    table: dict[str, PtxType] = {}
    for bits in (8, 16, 32, 64):
        table[f"u{bits}"] = PtxType(f"u{bits}", "u", bits, f"u{bits // 8}")
        table[f"s{bits}"] = PtxType(f"s{bits}", "s", bits, f"i{bits // 8}")
        table[f"b{bits}"] = PtxType(f"b{bits}", "b", bits, f"u{bits // 8}")
    table["b128"] = PtxType("b128", "b", 128, "q")
    for bits in (16, 32, 64):
        table[f"f{bits}"] = PtxType(f"f{bits}", "f", bits, f"f{bits // 8}")
    table["bf16"] = PtxType("bf16", "f", 16, "u2")
    table["tf32"] = PtxType("tf32", "f", 32, "u4")
    for name in ("f16x2", "bf16x2", "u16x2", "s16x2", "u8x4", "s8x4"):
        table[name] = PtxType(name, "f" if "f" in name else name[0], 32, "u4")
    table["f32x2"] = PtxType("f32x2", "f", 64, "u8")
    for name in ("e4m3", "e5m2", "ue8m0", "e3m2", "e2m3", "e2m1"):
        table[name] = PtxType(name, "f", 8, "u1")
    for name in ("e4m3x2", "e5m2x2", "ue8m0x2", "e3m2x2", "e2m3x2"):
        table[name] = PtxType(name, "f", 16, "u2")
    for name in ("e4m3x4", "e5m2x4", "e3m2x4", "e2m3x4"):
        table[name] = PtxType(name, "f", 32, "u4")
    table["e2m1x2"] = PtxType("e2m1x2", "f", 8, "u1")
    table["e2m1x4"] = PtxType("e2m1x4", "f", 16, "u2")
    for name in ("s2f6x2",):
        table[name] = PtxType(name, "f", 16, "u2")
    for name in ("s4", "u4", "s2", "u2", "b1", "b4", "b6"):
        table[name] = PtxType(name, name[0], int(name[1]), "u1")
    table["pred"] = PtxType("pred", "pred", 1, "p")
    return table


TYPES: dict[str, PtxType] = _build()


def unsigned_code(bits: int) -> str:
    """The unsigned storage code of a width."""
    return "q" if bits == 128 else f"u{bits // 8}"
