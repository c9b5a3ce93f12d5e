# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attributes of nv_tileas: memory spaces, copy and matrix atoms, modes of TMA descriptors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

from xdsl.ir import Attribute
from xdsl.parser import AttrParser

from libtile.dialects.nv_tileaa.attributes import KeywordAttr, parse_integers
from libtile.dialects.nv_tileas.layout import LayoutAttr
from libtile.dialects.nv_tileas.steps import StepsAttr
from libtile.ir.data_field import DataField, data_definition
from libtile.ir.parsed_data import ParsedData
from libtile.targets import MmaAtom, mma_families

MEMORY_SPACES = ("generic", "local", "shared", "global", "tmem", "constant")
"""Memory spaces by their number; a value in registers is in `generic`."""

TMA_KINDS = ("tma_load", "tma_store", "tma_redg")
"""Atoms that work through a TMA descriptor."""

UNKNOWN_COPY = "unknown_copy"
"""The kind of an atom that is still to be chosen."""

LOAD_KINDS = ("ldgsts", "tma_load", "ldg", "unknown_copy")
STORE_KINDS = ("stg", "tma_store", "unknown_copy")
ATOMIC_KINDS = ("red", "atom", "cas")
REDUCTION_KINDS = (*ATOMIC_KINDS, "tma_redg", "unknown_copy")

SHARED_LOAD_KINDS = ("lds", "ldmatrix", "unknown_copy")
SHARED_STORE_KINDS = ("sts", "stmatrix", "unknown_copy")
TRANS = "trans"
"""The mode of a matrix instruction that transposes."""

LOAD_MODES = ("tiled", "im2col", "im2col_at", "tiled_at", "gather4")
STORE_MODES = ("store", "reduce", "scatter4")


@data_definition
class MemorySpaceAttr(KeywordAttr):
    """A memory space."""

    name = "nv_tileas.memory_space"
    keywords = MEMORY_SPACES


@data_definition
class CopyAtomAttr(ParsedData):
    """One instruction that copies: `#nv_tileas.copy_atom<tma_load, bits=1024, box=[64,64], mode=tiled, multicast=2>`.

    `bits` is what one instruction moves (per thread, or per box for TMA), and `dim` the dimension of the tile along
    which a thread's elements lie side by side; `box` its extent in elements, innermost dimension first, for TMA atoms;
    `mode` that of the TMA instruction, or `trans` of one that transposes matrices; `multicast` the number of CTAs that
    receive. `red`, `atom` and `cas` are atomic: `red` gives nothing, `atom` what was there before, `cas` is a loop of
    compare-and-swaps; `multimem` goes to all replicas.
    """

    name = "nv_tileas.copy_atom"
    kinds: ClassVar[tuple[str, ...]] = (
        "ldg", "stg", "ldgsts", "lds", "sts", "ldmatrix", "stmatrix", "tma_load", "tma_store", "tma_redg",
        "tcgen05_ld", "tcgen05_st", "red", "atom", "cas", "multimem", UNKNOWN_COPY,
    )  # fmt: skip

    kind = DataField[str](0)
    bits = DataField[int](1)
    box = DataField[tuple[int, ...]](2)
    mode = DataField[str | None](3)
    multicast = DataField[int | None](4)
    dim = DataField[int | None](5)

    def __init__(
        self,
        kind: str,
        bits: int = 0,
        box: Sequence[int] = (),
        mode: str | None = None,
        multicast: int | None = None,
        dim: int | None = None,
    ):
        super().__init__((kind, bits, tuple(box), mode, multicast, dim))

    @property
    def is_tma(self) -> bool:
        """Whether the atom works through a TMA descriptor."""
        return self.kind in TMA_KINDS

    def body(self) -> str:
        parts = [self.kind]
        parts += [f"bits={self.bits}"] if self.bits else []
        parts += [f"dim={self.dim}"] if self.dim is not None else []
        parts += [f"box=[{','.join(map(str, self.box))}]"] if self.box else []
        parts += [f"mode={self.mode}"] if self.mode is not None else []
        parts += [f"multicast={self.multicast}"] if self.multicast is not None else []
        return ", ".join(parts)

    @classmethod
    def parse_body(cls, parser: AttrParser) -> Self:
        kind = parser.parse_identifier()
        if kind not in cls.kinds:
            parser.raise_error(f"expected {cls.name} to be one of: {', '.join(cls.kinds)}")
        bits, mode, multicast, dim = 0, None, None, None
        box: tuple[int, ...] = ()
        while parser.parse_optional_punctuation(","):
            key = parser.parse_identifier()
            parser.parse_punctuation("=")
            if key == "bits":
                bits = parser.parse_integer(allow_boolean=False, allow_negative=False)
            elif key == "dim":
                dim = parser.parse_integer(allow_boolean=False, allow_negative=False)
            elif key == "box":
                box = parse_integers(parser)
            elif key == "mode":
                mode = parser.parse_identifier()
            elif key == "multicast":
                multicast = parser.parse_integer(allow_boolean=False)
            else:
                parser.raise_error(f"unknown parameter '{key}' of a copy atom")
        return cls(kind, bits, box, mode, multicast, dim)


FMA = "fma"


@data_definition
class MmaAtomAttr(ParsedData):
    """One matrix instruction: `#nv_tileas.mma_atom<mma_sync, 16x8x16, f16, f16, f32>` with types of A, B and D.

    An `fma` of 1x1x1 is a fused multiply-add for each element and step along K, in the accumulator's type.
    """

    name = "nv_tileas.mma_atom"
    kind = DataField[str](0)
    shape = DataField[tuple[int, ...]](1)
    """M, N and K."""

    def __init__(self, kind: str, shape: Sequence[int], a: str, b: str, d: str):
        super().__init__((kind, tuple(shape), a, b, d))

    @property
    def types(self) -> tuple[str, str, str]:
        """Element types of A, B and D, in PTX's spelling."""
        _, _, a, b, d = self.data
        return a, b, d

    @property
    def instruction(self) -> MmaAtom:
        """The instruction as targets list it."""
        m, n, k = self.shape
        return MmaAtom(m, n, k, *self.types, family=self.kind)

    def body(self) -> str:
        return f"{self.kind}, {'x'.join(map(str, self.shape))}, {', '.join(self.types)}"

    @classmethod
    def parse_body(cls, parser: AttrParser) -> Self:
        kind, kinds = parser.parse_identifier(), (FMA, *mma_families(), "wgmma", "tcgen05")
        if kind not in kinds:
            parser.raise_error(f"expected {cls.name} to be one of: {', '.join(kinds)}")
        parser.parse_punctuation(",")
        shape = parser.parse_dimension_list()
        if len(shape) != 3 or any(size < 1 for size in shape):
            parser.raise_error(f"expected {cls.name} to have three sizes: M, N and K")
        types = []
        for _ in range(3):
            parser.parse_punctuation(",")
            types.append(parser.parse_identifier())
        return cls(kind, shape, *types)


@data_definition
class ExchangesAttr(ParsedData):
    """Where the exchanges between threads that an op makes lie in the block's shared memory, in their order:
    `#nv_tileas.exchanges<[0 : 512, meet 512 : 256], room = 65536>`.

    Each has its offset and its bytes. In an exchange all threads write, meet, and read; those with `meet` meet before
    they write as well. `room` is what exchanges had when they were cut into pieces, in bytes.
    """

    name = "nv_tileas.exchanges"

    places = DataField[tuple[tuple[int, int, bool], ...]](0)
    """(offset, bytes, meet)"""
    room = DataField[int](1)

    def __init__(self, places: Sequence[tuple[int, int, bool]], room: int):
        super().__init__((tuple(places), room))

    def body(self) -> str:
        texts = [f"{'meet ' if meet else ''}{offset} : {size}" for offset, size, meet in self.places]
        return f"[{', '.join(texts)}], room = {self.room}"

    @classmethod
    def parse_body(cls, parser: AttrParser) -> Self:
        places = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, lambda: _place(parser))
        parser.parse_punctuation(",")
        parser.parse_keyword("room")
        parser.parse_punctuation("=")
        return cls(places, parser.parse_integer(allow_boolean=False, allow_negative=False))


def _place(parser: AttrParser) -> tuple[int, int, bool]:
    meet = parser.parse_optional_keyword("meet") is not None
    offset = parser.parse_integer(allow_boolean=False, allow_negative=False)
    parser.parse_punctuation(":")
    return offset, parser.parse_integer(allow_boolean=False, allow_negative=False), meet


@data_definition
class ConversionAttr(ParsedData):
    """How a tile comes into another layout: `#nv_tileas.conversion<registers>` moves registers of each thread,
    `<shuffle>` exchanges them within warps, and `<shared, pieces = 4, #nv_tileas.layout<offset=...>, store = ATOM,
    load = ATOM>` goes through shared memory, in equal pieces one after the other, each of which lies there in the
    layout, and is stored and loaded by an atom.
    """

    name = "nv_tileas.conversion"
    kinds: ClassVar[tuple[str, ...]] = ("registers", "shuffle", "shared")

    kind = DataField[str](0)
    through = DataField["ThroughShared | None"](1)

    def __init__(self, kind: str, through: ThroughShared | None = None):
        super().__init__((kind, through))

    def body(self) -> str:
        return self.kind if self.through is None else f"{self.kind}, {self.through}"

    @classmethod
    def parse_body(cls, parser: AttrParser) -> Self:
        kind = parser.parse_identifier()
        if kind not in cls.kinds:
            parser.raise_error(f"expected {cls.name} to be one of: {', '.join(cls.kinds)}")
        if kind != "shared":
            return cls(kind)
        parser.parse_punctuation(",")
        pieces = 1
        if parser.parse_optional_keyword("pieces"):
            parser.parse_punctuation("=")
            pieces = parser.parse_integer(allow_boolean=False, allow_negative=False)
            parser.parse_punctuation(",")
        layout = parser.parse_attribute()
        if not isinstance(layout, LayoutAttr):
            parser.raise_error("expected a layout")
        atoms = []
        for name in ("store", "load"):
            parser.parse_punctuation(",")
            parser.parse_keyword(name)
            parser.parse_punctuation("=")
            atom = parser.parse_attribute()
            if not isinstance(atom, CopyAtomAttr):
                parser.raise_error("expected a copy atom")
            atoms.append(atom)
        return cls(kind, ThroughShared(pieces, layout, *atoms))


@dataclass(frozen=True)
class ThroughShared:
    """A conversion's way through shared memory: how many pieces it goes in, the layout of a piece there, and the atoms
    by which it is stored and loaded."""

    pieces: int
    layout: LayoutAttr
    store: CopyAtomAttr
    load: CopyAtomAttr

    def __str__(self) -> str:
        pieces = f"pieces = {self.pieces}, " if self.pieces != 1 else ""
        return f"{pieces}{self.layout}, store = {self.store}, load = {self.load}"


ATTRIBUTES: tuple[type[Attribute], ...] = (
    MemorySpaceAttr,
    CopyAtomAttr,
    MmaAtomAttr,
    LayoutAttr,
    ExchangesAttr,
    ConversionAttr,
    StepsAttr,
)
