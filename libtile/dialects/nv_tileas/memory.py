# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Memory ops of nv_tileas: those of nv_tileaa with layouts in their types and an atom that says how they are done.

The tiled ones have segments of their own (view, coordinates, offsets, token) and the rules of the operational dialect,
in its words; `offsets` are counted in elements and added to where the coordinates (counted in tiles) point. A load may
have `other`, a tile that stands where the view is out of bounds.
"""

from __future__ import annotations

from math import prod
from typing import ClassVar

from xdsl.dialects.builtin import DenseArrayBase
from xdsl.ir import Attribute
from xdsl.irdl import (
    operand_def,
    opt_operand_def,
    opt_prop_def,
    opt_result_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.utils.exceptions import VerifyException

from libtile.dialects.cuda_tile.verify.foreign_types import inner_sizes_problem
from libtile.dialects.effect_traits import Observable, ReadsThrough, UpdatesThrough, WritesThrough
from libtile.dialects.nv_tileaa.attributes import MemScopeAttr, MemSemanticAttr, PaddingValueAttr, RmwModeAttr
from libtile.dialects.nv_tileaa.contracts import require_mode, require_token_result
from libtile.dialects.nv_tileaa.element_types import bit_width, is_count, is_float, is_index, is_integer
from libtile.dialects.nv_tileaa.memory import (
    AtomicCas,
    AtomicRmw,
    Load,
    MemoryOp,
    MultimemLoadReduce,
    MultimemReduce,
    MultimemStore,
    Store,
    Write,
    base_rank,
    check_special_padding,
    pointee_of,
)
from libtile.dialects.nv_tileaa.types import TiledViewType
from libtile.dialects.nv_tileas.atom_rules import check_atom_width, check_masked, element_bits
from libtile.dialects.nv_tileas.attributes import (
    ATOMIC_KINDS,
    LOAD_KINDS,
    REDUCTION_KINDS,
    STORE_KINDS,
    UNKNOWN_COPY,
    CopyAtomAttr,
)
from libtile.dialects.nv_tileas.tiles import check_layout
from libtile.ir.tile_form import TileOp, element_of, shape_of, tile_op, type_text


@tile_op
class LoadOp(Load):
    """Reads memory through pointers, by an atom."""

    name = "nv_tileas.load"
    atom = opt_prop_def(CopyAtomAttr)

    def check(self) -> None:
        super().check()
        check_atom_width(self.atom, self.value_type)


@tile_op
class StoreOp(Store):
    """Writes memory through pointers, by an atom."""

    name = "nv_tileas.store"
    atom = opt_prop_def(CopyAtomAttr)

    def check(self) -> None:
        super().check()
        check_atom_width(self.atom, self.value_type)


class Atomic(MemoryOp):
    """Base of atomic ops through pointers, by an atom: `red` gives nothing, `atom` the old value, and `cas` is a loop
    of compare-and-swaps."""

    atom = opt_prop_def(CopyAtomAttr)
    KINDS: ClassVar[tuple[str, ...]] = (*ATOMIC_KINDS, UNKNOWN_COPY)

    def check(self) -> None:
        super().check()
        if self.atom is None:
            return
        if self.atom.kind not in self.KINDS:
            raise VerifyException(f"expects an atom that is one of {', '.join(self.KINDS)}, but got {self.atom.kind}")
        bits = element_bits(self.value_type)
        if self.atom.bits not in (0, bits):
            raise VerifyException(f"expects an atom of {bits} bits, as an element has, but got {self.atom.bits}")
        if self.atom.kind == "red" and self.results[0].first_use is not None:
            raise VerifyException("expects an atom that gives the old value, which is used, but got red")


@tile_op
class AtomicRmwOp(Atomic, AtomicRmw):
    """Combines memory with a value in one step, where the mask is true, by an atom; gives what was there before."""

    name = "nv_tileas.atomic_rmw"


@tile_op
class AtomicCasOp(Atomic, AtomicCas):
    """Writes the replacement where memory equals `compare` bit by bit, by an atom; gives what was there before."""

    name = "nv_tileas.atomic_cas"
    KINDS: ClassVar[tuple[str, ...]] = ("atom", UNKNOWN_COPY)


class MultimemOp(MemoryOp):
    """Base of accesses to all replicas of multimem memory, by an atom."""

    atom = opt_prop_def(CopyAtomAttr)
    masked = opt_prop_def(DenseArrayBase)

    def check(self) -> None:
        super().check()
        check_masked(self.masked, self.value_type)
        check_atom_width(self.atom, self.value_type)
        if self.atom is not None and self.atom.kind not in ("multimem", UNKNOWN_COPY):
            raise VerifyException("expect a multimem or unknown_copy atom type")


@tile_op
class MultimemLoadReduceOp(MultimemOp, MultimemLoadReduce):
    __doc__ = MultimemLoadReduce.__doc__
    name = "nv_tileas.multimem_load_reduce"


@tile_op
class MultimemStoreOp(MultimemOp, MultimemStore):
    __doc__ = MultimemStore.__doc__
    name = "nv_tileas.multimem_store"


@tile_op
class MultimemReduceOp(MultimemOp, MultimemReduce):
    __doc__ = MultimemReduce.__doc__
    name = "nv_tileas.multimem_reduce"


def check_tile_dimensions(shape: tuple[int, ...]) -> None:
    """Sizes are positive powers of two, and not too many elements; VerifyException."""
    if (problem := inner_sizes_problem(shape)) is not None:
        raise VerifyException(problem)


class TiledMemOp(MemoryOp):
    """Base of the three token-ordered tiled ops; checks run in the order of the dialect's verifier."""

    SCOPE_WORDS: ClassVar[tuple[str, str]] = ("mem_scope", "mem_semantic")
    """How the diagnostics of the op spell the two attributes."""
    atom = opt_prop_def(CopyAtomAttr)
    masked = opt_prop_def(DenseArrayBase)
    """The tile dimensions along which elements may lie beyond the tensor's end, and are compared with it."""

    def check(self) -> None:
        view = self.accessed.type
        pointee = pointee_of(view)
        if pointee is None or not base_rank(view):
            raise VerifyException(f"expects a memref or a tiled view, but got {type_text(view)}")
        self._check_tile_size(view)
        self._check_coordinates(view)
        element = element_of(self.value_type)
        if pointee != element:
            raise VerifyException(
                f"view elementType not equal with tensor element type: {type_text(pointee)} != {type_text(element)}"
            )
        check_tile_dimensions(shape_of(self.value_type))
        check_layout(self.value_type)
        self.check_order()
        self._check_in_bounds()
        self.check_token()
        check_masked(self.masked, self.value_type)
        self.check_extras()
        check_atom_width(self.atom, self.value_type)

    def check_extras(self) -> None:
        """Rules of the single op."""

    def _check_tile_size(self, view: Attribute) -> None:
        if not isinstance(view, TiledViewType):
            return
        shape = shape_of(self.value_type)
        if prod(view.shape) != prod(shape):
            raise VerifyException("requires the same size for tileSize and tensor")
        if view.shape != shape:
            raise VerifyException("requires the same shape for tileSize and tensor value")

    def _check_coordinates(self, view: Attribute) -> None:
        """Scalars of one type; along the sparse dimension a tile of indices, which may be of another type. What offsets
        there are are scalars."""
        for offset in self.group("offsets") if "offsets" in dict(self.get_irdl_definition().operands) else ():
            if not is_count(offset.type):
                raise VerifyException(f"expects offsets that are integers, but got {type_text(offset.type)}")
        coordinates = self.coordinates
        expected = base_rank(view) + (view.layout.leading if isinstance(view, TiledViewType) else 0)
        if len(coordinates) != expected:
            raise VerifyException(f"expects {expected} coordinates, but got {len(coordinates)}")
        sparse = view.layout.sparse_dim if isinstance(view, TiledViewType) else None
        tiles = [n for n, value in enumerate(coordinates) if shape_of(value.type)]
        scalars = [element_of(value.type) for n, value in enumerate(coordinates) if n not in tiles]
        for number, value in enumerate(coordinates):
            element = element_of(value.type)
            wrong = number != sparse if number in tiles else element != scalars[0]
            if not is_index(element) or wrong:
                raise VerifyException(
                    f"expects CoordType is same as memref index type, but got {type_text(value.type)}"
                )

    def check_order(self) -> None:
        scope, semantic = self.SCOPE_WORDS
        if self.semantic == "weak" and self.mem_scope is not None:
            raise VerifyException(f"{scope} not supported when {semantic} is weak")
        if self.semantic != "weak" and self.mem_scope is None:
            raise VerifyException(f"{scope} required when {semantic} is not weak")
        if self.semantic not in self.SEMANTICS:
            raise VerifyException(f"unsupported mem_semantic: {self.semantic}")

    def _check_in_bounds(self) -> None:
        if self.in_bounds is None:
            return
        expected, found = len(shape_of(self.value_type)), len(self.in_bounds.get_values())
        if found != expected:
            raise VerifyException(f"incorrect number of in_bounds elements: expected {expected}, but found {found}")


@tile_op
class TiledLoadOp(TiledMemOp):
    """Reads a tile of a view, by an atom."""

    name = "nv_tileas.tiled_load"
    traits = traits_def(ReadsThrough("view"))
    SEMANTICS: ClassVar[tuple[str, ...]] = ("weak", "relaxed")
    view = operand_def()
    indices = var_operand_def()
    offsets = var_operand_def()
    other = opt_operand_def()
    value = result_def()
    padding_value = opt_prop_def(PaddingValueAttr)

    def check_extras(self) -> None:
        check_special_padding(self.padding_value, element_of(self.value_type))
        if self.atom is not None and self.atom.kind not in LOAD_KINDS:
            raise VerifyException("expect a ldgsts, tma_load, ldg or unknown_copy atom type")
        for other in self.group("other"):
            if element_of(other.type) != element_of(self.value_type) or shape_of(other.type) != self._shape:
                raise VerifyException(
                    f"expects other to be like {type_text(self.value_type)}, but got {type_text(other.type)}"
                )

    @property
    def _shape(self) -> tuple[int, ...]:
        return shape_of(self.value_type)


@tile_op
class TiledStoreOp(Write, TiledMemOp):
    """Writes a tile of a view, by an atom. What is out of bounds is not written."""

    name = "nv_tileas.tiled_store"
    traits = traits_def(WritesThrough("view"))
    SEMANTICS: ClassVar[tuple[str, ...]] = ("weak", "relaxed")
    view = operand_def()
    value = operand_def()
    indices = var_operand_def()
    offsets = var_operand_def()
    padding_value = opt_prop_def(PaddingValueAttr)

    def check_extras(self) -> None:
        if self.in_bounds is not None:
            inside = all(self.in_bounds.get_values())
            if self.padding_value is None and not inside:
                raise VerifyException("inbounds must be true when paddingValue is not set")
            if self.padding_value is not None and inside:
                raise VerifyException("inbounds must be false when paddingValue is set")
        check_special_padding(self.padding_value, element_of(self.value_type))
        if self.atom is not None and self.atom.kind not in STORE_KINDS:
            raise VerifyException("expect a stg, tma_store or unknown_copy atom type")


@tile_op
class TiledAtomicRmwOp(TiledMemOp):
    """Combines a tile of a view with a tile, by an atom; gives what was there before, and zeros where nothing is
    combined."""

    name = "nv_tileas.tiled_atomic_rmw"
    traits = traits_def(UpdatesThrough("view"))
    SCOPE_WORDS: ClassVar[tuple[str, str]] = ("memScope", "memSemantic")
    view = operand_def()
    value = operand_def()
    indices = var_operand_def()
    offsets = var_operand_def()
    result = result_def()
    rmw_mode = prop_def(RmwModeAttr)

    def check_extras(self) -> None:
        if self.operands[1].type != self.result.type:
            raise VerifyException("expects value and result to have the same type")
        element, mode = element_of(self.value_type), self.rmw_mode.keyword
        bits = bit_width(element)
        if bits == 8:
            raise VerifyException("tiled_atomic_rmw not supported for 8-bit types")
        if bits == 16 and is_integer(element):
            raise VerifyException("tiled_atomic_rmw not supported for 16-bit integer")
        if bits == 16 and is_float(element) and mode not in ("add", "max", "min"):
            raise VerifyException("tiled_atomic_rmw for 16-bit float only supports add, max, min operations")
        if mode == "addf":
            raise VerifyException(
                "tiled_atomic_rmw op cannot use fadd operation, please use add instead for both int and float types"
            )
        if mode == "xchg":
            raise VerifyException("tiled_atomic_rmw op cannot use xchg operation")
        require_mode(mode, element)
        if self.atom is not None and self.atom.kind not in REDUCTION_KINDS:
            raise VerifyException("expect a tma_redg atom type")
        kind = None if self.atom is None else self.atom.kind
        if kind in ("red", "tma_redg") and self.result.first_use is not None:
            raise VerifyException(f"expects an atom that gives the old value, which is used, but got {kind}")


@tile_op
class FenceOp(TileOp):
    """Orders the accesses of the tile block before it with those behind it, as seen in a scope.

    What an acquire or release of a tiled access becomes: these are relaxed accesses with a fence. Behind
    `tileas-insert-fences` it is the threads' own, and barriers stand beside it.
    """

    name = "nv_tileas.fence"
    traits = traits_def(Observable())
    token = opt_operand_def()
    result_token = opt_result_def()
    mem_semantic = prop_def(MemSemanticAttr)
    mem_scope = prop_def(MemScopeAttr)

    def check(self) -> None:
        if self.mem_semantic.keyword in ("weak", "relaxed"):
            raise VerifyException(f"unsupported mem_semantic: {self.mem_semantic.keyword}")
        require_token_result(self)
