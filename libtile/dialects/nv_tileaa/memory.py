# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Ops of nv_tileaa that access memory. All can take a token that orders them behind another access, and give one.

The bases (`Load`, `Store`, ...) also serve nv_tileas, whose ops have an atom as well.
"""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import DenseArrayBase, DictionaryAttr, IntegerAttr, UnitAttr, i1
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
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

from libtile.dialects.effect_traits import Allocates, ReadsThrough, UpdatesThrough, WritesThrough
from libtile.dialects.nv_tileaa.attributes import (
    CacheModifierAttr,
    EvictionPolicyAttr,
    MemScopeAttr,
    MemSemanticAttr,
    PaddingValueAttr,
    ReductionAttr,
    RmwModeAttr,
)
from libtile.dialects.nv_tileaa.contracts import require_at_least, require_mode, require_order
from libtile.dialects.nv_tileaa.element_types import is_float, is_index
from libtile.dialects.nv_tileaa.types import MemRefType, PtrType, TiledViewType
from libtile.ir.grouped_op import INDICES
from libtile.ir.tile_form import TileOp, element_of, integer_of, is_token, shape_of, tile_op, type_text


def pointee_of(base: Attribute) -> Attribute | None:
    """The element type of the memory that an operand names; None when it names none."""
    element = element_of(base)
    if isinstance(element, PtrType):
        return element.pointee
    return element.element_type if isinstance(element, MemRefType | TiledViewType) else None


def base_rank(base: Attribute) -> int:
    """How many indices an access to a base takes: none for pointers, which are addresses themselves."""
    return base.rank if isinstance(base, MemRefType | TiledViewType) else 0


class Access(TileOp):
    """Base of what names memory by its first operand (a base or a view) and the indices behind it."""

    @property
    def accessed(self) -> SSAValue:
        """The pointers, the memref or the view that names the memory."""
        return self._operands[0]

    @property
    def coordinates(self) -> tuple[SSAValue, ...]:
        """The indices into it; none where pointers are addresses themselves."""
        return self.group(INDICES)

    @property
    def inside(self) -> tuple[bool, ...]:
        """For each dimension whether nothing of the access lies beyond it; empty where nothing is said."""
        flags = self.properties.get("in_bounds")
        return tuple(bool(v) for v in flags.get_values()) if isinstance(flags, DenseArrayBase) else ()


class MemoryOp(Access):
    """Base of all accesses: what orders, caches and bounds them."""

    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    SEMANTICS: ClassVar[tuple[str, ...]] = MemSemanticAttr.keywords
    """The orderings that make sense for the access."""
    ROWS: ClassVar[bool] = False
    """Whether a tile of indices of a memref selects rows, and not elements."""
    token = opt_operand_def()
    """Behind the operands that an op itself declares, as `result_token` is behind its results."""
    result_token = opt_result_def()
    cache_modifier = opt_prop_def(CacheModifierAttr)
    eviction_policy = opt_prop_def(EvictionPolicyAttr)
    mem_semantic = opt_prop_def(MemSemanticAttr)
    mem_scope = opt_prop_def(MemScopeAttr)
    is_volatile = opt_prop_def(UnitAttr)
    allow_tma = opt_prop_def(UnitAttr)
    in_bounds = opt_prop_def(DenseArrayBase)
    vector = opt_prop_def(IntegerAttr)
    """How many adjacent elements are known to lie contiguous and aligned: what one thread may access at once."""
    hints = opt_prop_def(DictionaryAttr)
    """Optimization hints: `latency`, `allow_tma`, ..."""

    @property
    def semantic(self) -> str:
        """The ordering; `weak` when none is given."""
        return "weak" if self.mem_semantic is None else self.mem_semantic.keyword

    @property
    def value_type(self) -> Attribute:
        """The type of what is read or written."""
        return self.results[0].type

    def check(self) -> None:
        self.check_order()
        base = self.accessed.type
        pointee = pointee_of(base)
        if pointee is None:
            raise VerifyException(f"expects a pointer, a memref or a tiled view as base, but got {type_text(base)}")
        indices, rank = self.coordinates, base_rank(base)
        rank += base.layout.leading if isinstance(base, TiledViewType) else 0
        if len(indices) != rank:
            raise VerifyException(f"expects {rank} indices, but got {len(indices)}")
        self._check_indices(base)
        if element_of(self.value_type) != pointee:
            raise VerifyException(
                f"expects an element type of {type_text(pointee)}, but got {type_text(self.value_type)}"
            )
        self.check_shape(base)
        if "mask" in dict(self.get_irdl_definition().operands):
            self._check_mask()
        self._check_in_bounds()
        self.check_token()

    def check_order(self) -> None:
        """An ordering stronger than weak has a scope, a weak one has none, and the op can have it."""
        if self.semantic != "weak":
            if self.mem_scope is None:
                raise VerifyException("non-weak memory ordering requires explicit scope")
        elif self.mem_scope is not None:
            raise VerifyException("weak memory ordering must not carry a scope")
        if self.semantic not in self.SEMANTICS:
            raise VerifyException(f"unsupported mem_semantic: {self.semantic}")

    def check_shape(self, base: Attribute) -> None:
        """What is accessed through a tile of pointers has its shape; a box of a memref has no more dimensions."""
        boxed = isinstance(base, MemRefType) and not any(shape_of(v.type) for v in self.coordinates)
        if boxed and len(shape_of(self.value_type)) > base_rank(base):
            raise VerifyException(
                f"expects a tile of at most {base_rank(base)} dimensions, but got {type_text(self.value_type)}"
            )
        if isinstance(element_of(base), PtrType) and shape_of(base) != shape_of(self.value_type):
            raise VerifyException(
                f"expects base and value to have the same shape, but got {type_text(base)} vs "
                f"{type_text(self.value_type)}"
            )

    def _check_indices(self, base: Attribute) -> None:
        """Indices are integers; a tile of them names each element of the value, or (`ROWS`) rows along a dimension."""
        rows = isinstance(base, TiledViewType) or self.ROWS
        tiles = [v.type for v in self.coordinates if shape_of(v.type)]
        for value in self.coordinates:
            if not is_index(element_of(value.type)):
                raise VerifyException(f"expects indices of integers, but got {type_text(value.type)}")
        if rows and len(tiles) > 1:
            raise VerifyException(f"expects at most one tile of indices, but got {len(tiles)}")
        for type_ in tiles:
            if len(shape_of(type_)) != 1 if rows else shape_of(type_) != shape_of(self.value_type):
                raise VerifyException(
                    f"expects a tile of indices {'of rank 1' if rows else 'for each element'}, but got "
                    f"{type_text(type_)}"
                )

    def _check_mask(self) -> None:
        for mask in self.group("mask"):
            if element_of(mask.type) != i1 or shape_of(mask.type) not in ((), shape_of(self.value_type)):
                raise VerifyException(
                    f"expects a mask of i1 with the shape of {type_text(self.value_type)}, but got "
                    f"{type_text(mask.type)}"
                )

    def _check_in_bounds(self) -> None:
        base, flags = self.accessed.type, self.in_bounds
        if flags is None:
            return
        expected = len(base.shape) if isinstance(base, TiledViewType) else base_rank(base)
        if len(flags.get_values()) != expected:
            raise VerifyException(
                f"incorrect number of in_bounds elements: expected {expected}, but found {len(flags.get_values())}"
            )

    def check_token(self) -> None:
        """A token operand is a token, that dominates the op, and there is a token result with it."""
        tokens = self.group("token")
        if tokens and not is_token(tokens[0].type):
            raise VerifyException(f"expects a mem_token, but got {type_text(tokens[0].type)}")
        has_result = bool(self.results) and is_token(self.results[-1].type)
        if tokens and not has_result:
            raise VerifyException("expects a token result with a token operand")
        require_order(self, self.semantic)
        require_at_least(self, 1, "vector")


class Load(MemoryOp):
    """Reads memory; where a mask is false, the value is `other` (undefined when absent)."""

    traits = traits_def(ReadsThrough("base"))
    SEMANTICS: ClassVar[tuple[str, ...]] = ("weak", "relaxed", "acquire")
    LEAVES: ClassVar[bool] = False
    """Whether the access may leave what it goes to: elements beyond are `other` as well, or padding."""
    base = operand_def()
    indices = var_operand_def()
    mask = opt_operand_def()
    other = opt_operand_def()
    value = result_def()
    padding_value = opt_prop_def(PaddingValueAttr)

    def check(self) -> None:
        super().check()
        if self.group("other") and not self.group("mask") and not self.LEAVES:
            raise VerifyException("expects a mask with 'other', which stands where the mask is false")
        for other in self.group("other"):
            if element_of(other.type) != element_of(self.value_type):
                raise VerifyException(
                    f"expects other to be of the value's element type, but got {type_text(other.type)}"
                )
            if shape_of(other.type) != shape_of(self.value_type):
                raise VerifyException(
                    f"expects other to have the shape of {type_text(self.value_type)}, but got {type_text(other.type)}"
                )


@tile_op
class LoadOp(Load):
    __doc__ = Load.__doc__
    name = "nv_tileaa.load"


class Write(MemoryOp):
    """Base of what writes its operand `value`, which stands behind the base or view."""

    @property
    def value_type(self) -> Attribute:
        return self.operands[1].type


class Store(Write):
    """Writes memory, where the mask is true."""

    traits = traits_def(WritesThrough("base"))
    SEMANTICS: ClassVar[tuple[str, ...]] = ("weak", "relaxed", "release")
    base = operand_def()
    value = operand_def()
    indices = var_operand_def()
    mask = opt_operand_def()


@tile_op
class StoreOp(Store):
    __doc__ = Store.__doc__
    name = "nv_tileaa.store"


@tile_op
class GatherLoadOp(Load):
    """Reads rows of a memref or view that a tile of indices selects along its sparse dimension."""

    name = "nv_tileaa.gather_load"
    ROWS: ClassVar[bool] = True
    LEAVES: ClassVar[bool] = True


@tile_op
class ScatterStoreOp(Store):
    """Writes rows of a memref or view that a tile of indices selects along its sparse dimension."""

    name = "nv_tileaa.scatter_store"
    ROWS: ClassVar[bool] = True


@tile_op
class TiledLoadOp(Load):
    """Reads the tile at an index of a tiled view (or at an offset of a memref); may become a TMA load."""

    name = "nv_tileaa.tiled_load"
    ROWS: ClassVar[bool] = True
    LEAVES: ClassVar[bool] = True

    def check(self) -> None:
        super().check()
        check_special_padding(self.padding_value, element_of(self.value_type))


@tile_op
class TiledStoreOp(Store):
    """Writes the tile at an index of a tiled view (or at an offset of a memref); may become a TMA store."""

    name = "nv_tileaa.tiled_store"
    ROWS: ClassVar[bool] = True


def check_special_padding(padding: PaddingValueAttr | None, element: Attribute) -> None:
    """Only floats have special values."""
    if padding is not None and padding.keyword != "zero" and not is_float(element):
        raise VerifyException(
            "special padding values (nan, pos_inf, neg_inf, neg_zero) only for float-like element types"
        )


class AtomicRmw(MemoryOp):
    """Combines memory with a value in one step, where the mask is true; gives what was there before."""

    traits = traits_def(UpdatesThrough("base"))
    base = operand_def()
    value = operand_def()
    indices = var_operand_def()
    mask = opt_operand_def()
    result = result_def()
    rmw_mode = prop_def(RmwModeAttr)

    def check(self) -> None:
        super().check()
        value = self.operands[1].type
        if element_of(value) != element_of(self.value_type) or shape_of(value) != shape_of(self.value_type):
            raise VerifyException("expects value and result to have the same type")
        require_mode(self.rmw_mode.keyword, element_of(value))


@tile_op
class AtomicRmwOp(AtomicRmw):
    __doc__ = AtomicRmw.__doc__
    name = "nv_tileaa.atomic_rmw"


@tile_op
class TiledAtomicRmwOp(AtomicRmw):
    """Combines the tile of memory at an index of a tiled view with a tile; gives what was there before, and zeros where
    nothing is combined."""

    name = "nv_tileaa.tiled_atomic_rmw"
    ROWS: ClassVar[bool] = True


class AtomicCas(MemoryOp):
    """Writes the replacement where memory equals `compare` bit by bit; gives what was there before."""

    traits = traits_def(UpdatesThrough("base"))
    base = operand_def()
    compare = operand_def()
    replacement = operand_def()
    indices = var_operand_def()
    mask = opt_operand_def()
    result = result_def()

    def check(self) -> None:
        super().check()
        types = {(element_of(v.type), shape_of(v.type)) for v in (self.compare, self.replacement, self.result)}
        if len(types) != 1:
            raise VerifyException("expects compare, replacement and result to have the same type")


@tile_op
class AtomicCasOp(AtomicCas):
    __doc__ = AtomicCas.__doc__
    name = "nv_tileaa.atomic_cas"


@tile_op
class AllocaOp(TileOp):
    """Memory of the tile block's own, up to the end of the region that the op is in: `count` elements."""

    name = "nv_tileaa.alloca"
    traits = traits_def(Allocates())
    result = result_def()
    count = prop_def(IntegerAttr)
    alignment = opt_prop_def(IntegerAttr)
    global_ = opt_prop_def(UnitAttr, prop_name="global")

    def check(self) -> None:
        if not isinstance(element_of(self.result.type), PtrType):
            raise VerifyException(f"expects a pointer as result, but got {type_text(self.result.type)}")
        require_at_least(self, 0, "count")
        require_at_least(self, 1, "alignment")
        alignment = integer_of(self.alignment, 1)
        if alignment & (alignment - 1):
            raise VerifyException(f"expects an alignment that is a power of two, but got {alignment}")


# -- replicated memory ------------------------------------------------------------------------------------------------


class MultimemLoadReduce(MemoryOp):
    """Reads the tile at an index from all replicas of multimem memory, and combines them."""

    traits = traits_def(ReadsThrough("base"))
    SEMANTICS: ClassVar[tuple[str, ...]] = ("weak", "relaxed", "acquire")
    base = operand_def()
    indices = var_operand_def()
    value = result_def()
    reduction = prop_def(ReductionAttr)

    def check(self) -> None:
        super().check()
        require_mode(self.reduction.keyword, element_of(self.value_type), "reduction")


@tile_op
class MultimemLoadReduceOp(MultimemLoadReduce):
    __doc__ = MultimemLoadReduce.__doc__
    name = "nv_tileaa.multimem_load_reduce"


class MultimemStore(Write):
    """Writes a tile to all replicas of multimem memory."""

    traits = traits_def(WritesThrough("base"))
    SEMANTICS: ClassVar[tuple[str, ...]] = ("weak", "relaxed", "release")
    base = operand_def()
    value = operand_def()
    indices = var_operand_def()


@tile_op
class MultimemStoreOp(MultimemStore):
    __doc__ = MultimemStore.__doc__
    name = "nv_tileaa.multimem_store"


class MultimemReduce(Write):
    """Combines a tile into all replicas of multimem memory."""

    traits = traits_def(UpdatesThrough("base"))
    base = operand_def()
    value = operand_def()
    indices = var_operand_def()
    reduction = prop_def(ReductionAttr)

    def check(self) -> None:
        super().check()
        require_mode(self.reduction.keyword, element_of(self.value_type), "reduction")


@tile_op
class MultimemReduceOp(MultimemReduce):
    __doc__ = MultimemReduce.__doc__
    name = "nv_tileaa.multimem_reduce"
