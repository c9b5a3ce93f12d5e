# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`#nv_tileas.copy_atom`: one instruction that copies, and the instructions between registers and shared memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Self

from libtile.dialects.nv_tileaa.attributes import parse_integers
from libtile.ir.data_field import DataField, data_definition
from libtile.ir.parsed_data import ParsedData
from libtile.layouts.shared_access import MATRIX, TRANSPOSED, VECTOR, SharedAccess

if TYPE_CHECKING:
    from xdsl.parser import AttrParser

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


@data_definition
class CopyAtomAttr(ParsedData):
    """One instruction that copies: `#nv_tileas.copy_atom<tma_load, bits=1024, box=[64,64], mode=tiled, multicast=2>`.

    `bits` is what one instruction moves (per thread, per box for TMA, per lane of tensor memory at a time), and `dim`
    the dimension of the tile along which a thread's elements lie side by side; `box` its extent in elements, innermost
    dimension first, for TMA atoms;
    `mode` that of the TMA instruction, or `trans` of one that transposes matrices; `multicast` the number of CTAs that
    receive. `red`, `atom` and `cas` are atomic: `red` gives nothing, `atom` what was there before, `cas` is a loop of
    compare-and-swaps; `multimem` goes to all replicas.
    """

    name = "nv_tileas.copy_atom"
    kinds: ClassVar[tuple[str, ...]] = (
        "ldg", "stg", "ldgsts", "lds", "sts", "ldmatrix", "stmatrix", "tma_load", "tma_store", "tma_redg",
        "tcgen05_ld", "tcgen05_st", "tcgen05_cp", "red", "atom", "cas", "multimem", UNKNOWN_COPY,
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


# -- between registers and shared memory ------------------------------------------------------------------------------


def access_of(atom: CopyAtomAttr) -> SharedAccess:
    """The instruction that an atom names."""
    kind = VECTOR if atom.kind in ("lds", "sts") else TRANSPOSED if atom.mode == TRANS else MATRIX
    return SharedAccess(kind, atom.bits // 8)


def store_atom(access: SharedAccess) -> CopyAtomAttr:
    """An instruction that stores to shared memory."""
    return _atom(access, "sts", "stmatrix")


def load_atom(access: SharedAccess) -> CopyAtomAttr:
    """An instruction that loads from shared memory."""
    return _atom(access, "lds", "ldmatrix")


def _atom(access: SharedAccess, vector: str, matrix: str) -> CopyAtomAttr:
    kind, mode = vector if access.kind == VECTOR else matrix, TRANS if access.kind == TRANSPOSED else None
    return CopyAtomAttr(kind, 8 * access.bytes, mode=mode)


def parse_store_and_load(parser: AttrParser) -> tuple[CopyAtomAttr, CopyAtomAttr]:
    """`, store = ATOM, load = ATOM`."""
    atoms = []
    for name in ("store", "load"):
        parser.parse_punctuation(",")
        parser.parse_keyword(name)
        parser.parse_punctuation("=")
        atom = parser.parse_attribute()
        if not isinstance(atom, CopyAtomAttr):
            parser.raise_error("expected a copy atom")
        atoms.append(atom)
    return atoms[0], atoms[1]
