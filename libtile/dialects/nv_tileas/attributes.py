# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attributes of nv_tileas: memory spaces, copy and matrix atoms, modes of TMA descriptors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Self

from xdsl.ir import Attribute

from libtile.dialects.nv_tileaa.attributes import KeywordAttr
from libtile.dialects.nv_tileas.copy_atoms import (
    ATOMIC_KINDS,
    LOAD_KINDS,
    REDUCTION_KINDS,
    SHARED_LOAD_KINDS,
    SHARED_STORE_KINDS,
    STORE_KINDS,
    TMA_KINDS,
    TRANS,
    UNKNOWN_COPY,
    CopyAtomAttr,
    access_of,
    parse_store_and_load,
)
from libtile.dialects.nv_tileas.layout import LayoutAttr
from libtile.dialects.nv_tileas.steps import StepsAttr
from libtile.ir.data_field import DataField, data_definition
from libtile.ir.parsed_data import ParsedData
from libtile.layouts.shared_access import SharedWay
from libtile.support.records import dataclass
from libtile.targets import MmaAtom, mma_families

if TYPE_CHECKING:
    from xdsl.parser import AttrParser

__all__ = [
    "ATOMIC_KINDS",
    "ATTRIBUTES",
    "BY_ROWS",
    "FMA",
    "LOAD_KINDS",
    "LOAD_MODES",
    "MEMORY_SPACES",
    "REDUCTION_KINDS",
    "SHARED_LOAD_KINDS",
    "SHARED_STORE_KINDS",
    "STORE_KINDS",
    "STORE_MODES",
    "TMA_KINDS",
    "TRANS",
    "UNKNOWN_COPY",
    "ConversionAttr",
    "CopyAtomAttr",
    "ExchangesAttr",
    "ExecutedAttr",
    "LayoutAttr",
    "MemorySpaceAttr",
    "MmaAtomAttr",
    "ThroughShared",
]  # fmt: skip

MEMORY_SPACES = ("generic", "local", "shared", "global", "tmem", "constant")
"""Memory spaces by their number; a value in registers is in `generic`."""

LOAD_MODES = ("tiled", "im2col", "im2col_at", "tiled_at", "gather4")
STORE_MODES = ("store", "reduce", "scatter4")
BY_ROWS = ("gather4", "scatter4")
"""Modes in which a tile of numbers selects the rows that are copied."""


@data_definition
class MemorySpaceAttr(KeywordAttr):
    """A memory space."""

    name = "nv_tileas.memory_space"
    keywords = MEMORY_SPACES


FMA, TCGEN05 = "fma", "tcgen05"


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
        kind, kinds = parser.parse_identifier(), (FMA, *mma_families(), "wgmma", TCGEN05)
        if kind not in kinds:
            parser.raise_error(f"expected {cls.name} to be one of: {', '.join(kinds)}")
        parser.parse_punctuation(",")
        shape = _product_shape(parser, cls.name)
        types = []
        for _ in range(3):
            parser.parse_punctuation(",")
            types.append(parser.parse_identifier())
        return cls(kind, shape, *types)


@data_definition
class ExecutedAttr(ParsedData):
    """What the hardware executes for the atom of a product, which need not be the instruction that is emitted:
    `#nv_tileas.executed<tensor_cores, since = 80, 16x8x16>`, with the first target that has it.

    An instruction of other units is named by its family, `#nv_tileas.executed<FAMILY, since = 80, 8x8x4>`.
    """

    name = "nv_tileas.executed"
    tensor_cores: ClassVar[str] = "tensor_cores"

    unit = DataField[str](0)
    """`tensor_cores`, or the instruction's family."""
    since = DataField[int](1)
    shape = DataField[tuple[int, ...]](2)
    """M, N and K."""

    def __init__(self, unit: str, since: int, shape: Sequence[int]):
        super().__init__((unit, since, tuple(shape)))

    @classmethod
    def of(cls, atom: MmaAtom) -> Self:
        """That of an instruction as targets list it."""
        unit = cls.tensor_cores if atom.tensor_cores else atom.family
        return cls(unit, atom.since, (atom.m, atom.n, atom.k))

    def body(self) -> str:
        return f"{self.unit}, since = {self.since}, {'x'.join(map(str, self.shape))}"

    @classmethod
    def parse_body(cls, parser: AttrParser) -> Self:
        unit = parser.parse_identifier()
        parser.parse_punctuation(",")
        parser.parse_keyword("since")
        parser.parse_punctuation("=")
        since = parser.parse_integer(allow_boolean=False, allow_negative=False)
        parser.parse_punctuation(",")
        return cls(unit, since, _product_shape(parser, cls.name))


def _product_shape(parser: AttrParser, name: str) -> tuple[int, ...]:
    shape = tuple(parser.parse_dimension_list())
    if len(shape) != 3 or any(size < 1 for size in shape):
        parser.raise_error(f"expected {name} to have three sizes: M, N and K")
    return shape


@data_definition
class ExchangesAttr(ParsedData):
    """Where the exchanges between threads that an op makes lie in the block's shared memory, in their order:
    `#nv_tileas.exchanges<[0 : 512, meet 512 : 256]>`.

    Each has its offset and its bytes. In an exchange all threads write, meet, and read; those with `meet` meet before
    they write as well.
    """

    name = "nv_tileas.exchanges"

    places = DataField[tuple[tuple[int, int, bool], ...]](0)
    """(offset, bytes, meet)"""

    def __init__(self, places: Sequence[tuple[int, int, bool]]):
        super().__init__((tuple(places),))

    def body(self) -> str:
        texts = [f"{'meet ' if meet else ''}{offset} : {size}" for offset, size, meet in self.places]
        return f"[{', '.join(texts)}]"

    @classmethod
    def parse_body(cls, parser: AttrParser) -> Self:
        return cls(parser.parse_comma_separated_list(parser.Delimiter.SQUARE, lambda: _place(parser)))


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
        atoms = parse_store_and_load(parser)
        return cls(kind, ThroughShared(pieces, layout, *atoms))


@dataclass(frozen=True)
class ThroughShared:
    """A conversion's way through shared memory: how many pieces it goes in, the layout of a piece there, and the atoms
    by which it is stored and loaded."""

    pieces: int
    layout: LayoutAttr
    store: CopyAtomAttr
    load: CopyAtomAttr

    @property
    def way(self) -> SharedWay:
        """The same with layouts and instructions as values."""
        return SharedWay(self.layout.layout, access_of(self.store), access_of(self.load))

    def __str__(self) -> str:
        pieces = f"pieces = {self.pieces}, " if self.pieces != 1 else ""
        return f"{pieces}{self.layout}, store = {self.store}, load = {self.load}"


ATTRIBUTES: tuple[type[Attribute], ...] = (
    MemorySpaceAttr,
    CopyAtomAttr,
    MmaAtomAttr,
    ExecutedAttr,
    LayoutAttr,
    ExchangesAttr,
    ConversionAttr,
    StepsAttr,
)
