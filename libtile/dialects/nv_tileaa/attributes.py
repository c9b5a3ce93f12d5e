# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attributes of nv_tileaa: target and kernel, memory policy, modes of atomics and arithmetic, convolution, tiling.

The assumption predicates are in `assumptions`. An enum attribute compares to its keyword through `keyword`:
`op.mem_semantic.keyword == "relaxed"`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Self

from xdsl.ir import Attribute
from xdsl.utils.exceptions import VerifyException

from libtile.ir.data_field import DataField, data_definition
from libtile.ir.parsed_data import ParsedData
from libtile.support.errors import LibtileError

if TYPE_CHECKING:
    from xdsl.parser import AttrParser


class KeywordAttr(ParsedData):
    """Base of the enums: `#nv_tileaa.NAME<keyword>`. `keywords` are all cases, in order of their numbers."""

    keywords: ClassVar[tuple[str, ...]]

    keyword = DataField[str](0)

    def __init__(self, keyword: str):
        if keyword not in self.keywords:
            raise LibtileError(f"expected {self.name} to be one of: {', '.join(self.keywords)}; got {keyword!r}")
        super().__init__((keyword,))

    @property
    def number(self) -> int:
        return self.keywords.index(self.keyword)

    def body(self) -> str:
        return self.keyword

    @classmethod
    def parse_body(cls, parser: AttrParser) -> Self:
        keyword = parser.parse_identifier()
        if keyword not in cls.keywords:
            parser.raise_error(f"expected {cls.name} to be one of: {', '.join(cls.keywords)}")
        return cls(keyword)


def keyword_of(attr: KeywordAttr | None, default: str) -> str:
    """The keyword of an attribute, or what an absent one stands for."""
    return default if attr is None else attr.keyword


# -- memory policy ----------------------------------------------------------------------------------------------------


@data_definition
class CacheModifierAttr(KeywordAttr):
    """Where an access is cached, as PTX's cache operators (PTX ISA, "Cache Operators")."""

    name = "nv_tileaa.cache_modifier"
    keywords = ("none", "ca", "cg", "cs", "lu", "cv", "wb", "wt")


@data_definition
class EvictionPolicyAttr(KeywordAttr):
    """Which lines leave the cache first."""

    name = "nv_tileaa.eviction_policy"
    keywords = ("none", "first", "last", "normal")


@data_definition
class MemSemanticAttr(KeywordAttr):
    """How an access is ordered with those of other threads."""

    name = "nv_tileaa.mem_semantic"
    keywords = ("weak", "relaxed", "acquire", "release", "acq_rel")


@data_definition
class MemScopeAttr(KeywordAttr):
    """Which threads an access is ordered with. `cta` is another name of the tile block."""

    name = "nv_tileaa.mem_scope"
    keywords = ("tl_blk", "cluster", "gpu", "sys")

    @classmethod
    def parse_body(cls, parser: AttrParser) -> Self:
        if parser.parse_optional_keyword("cta"):
            return cls("tl_blk")
        return super().parse_body(parser)


# -- modes ------------------------------------------------------------------------------------------------------------


@data_definition
class RmwModeAttr(KeywordAttr):
    """What an atomic read-modify-write does."""

    name = "nv_tileaa.rmw_mode"
    keywords = ("add", "and", "or", "xor", "xchg", "min", "max", "umin", "umax", "addf")


@data_definition
class RoundingModeAttr(KeywordAttr):
    """How a float result is rounded."""

    name = "nv_tileaa.rounding_mode"
    keywords = (
        "nearest_even", "zero", "negative_inf", "positive_inf", "approx", "full", "nearest_int_to_zero", "nearest_away"
    )  # fmt: skip


@data_definition
class SignednessAttr(KeywordAttr):
    """How the bits of an integer are read."""

    name = "nv_tileaa.signedness"
    keywords = ("unsigned", "signed")


@data_definition
class PropagateNanAttr(KeywordAttr):
    """Whether a NaN operand makes a NaN result, or is passed over."""

    name = "nv_tileaa.propagate_nan"
    keywords = ("none", "all")


@data_definition
class ReductionAttr(KeywordAttr):
    """What a multimem access combines the replicas with."""

    name = "nv_tileaa.reduction"
    keywords = ("add", "min", "max", "and", "or", "xor", "umin", "umax")


# -- convolution, tiling ----------------------------------------------------------------------------------------------

PADDING_VALUES = ("zero", "neg_zero", "nan", "pos_inf", "neg_inf")


@data_definition
class PaddingValueAttr(KeywordAttr):
    """What is read out of bounds. All but `zero` are special values of floats."""

    name = "nv_tileaa.padding_value"
    keywords = PADDING_VALUES


@data_definition
class ActivationLayoutAttr(KeywordAttr):
    """Order of the activation's dimensions: batch N, depth D, height H, width W, channel C."""

    name = "nv_tileaa.activation_layout"
    keywords = ("nwc", "nhwc", "ndhwc", "ncw", "nchw", "ncdhw")


@data_definition
class ConvParamsAttr(ParsedData):
    """Per spatial dimension: `#nv_tileaa.conv_params<pad_lower=[1], pad_upper=[1], stride=[1], dilation=[1]>`."""

    name = "nv_tileaa.conv_params"
    fields: ClassVar[tuple[str, ...]] = ("pad_lower", "pad_upper", "stride", "dilation")

    def __init__(
        self, pad_lower: Sequence[int], pad_upper: Sequence[int], stride: Sequence[int], dilation: Sequence[int]
    ):
        super().__init__((tuple(pad_lower), tuple(pad_upper), tuple(stride), tuple(dilation)))

    @property
    def is_consistent(self) -> bool:
        """Whether all parameters speak of the same number of dimensions."""
        return len({len(values) for values in self.data}) == 1

    def check(self) -> None:
        """VerifyException for parameters of different numbers of dimensions, and steps that go nowhere."""
        if not self.is_consistent:
            raise VerifyException("expects conv params size matched with each other")
        for name, values in zip(self.fields, self.data):
            if name in ("stride", "dilation") and min(values, default=1) < 1:
                raise VerifyException(f"expects a {name} of at least 1, but got {list(values)}")

    def body(self) -> str:
        return ", ".join(f"{n}=[{','.join(map(str, v))}]" for n, v in zip(self.fields, self.data))

    @classmethod
    def parse_body(cls, parser: AttrParser) -> Self:
        values = []
        for number, field in enumerate(cls.fields):
            if number:
                parser.parse_punctuation(",")
            parser.parse_keyword(field)
            parser.parse_punctuation("=")
            values.append(parse_integers(parser))
        return cls(*values)


@data_definition
class TilingAttr(ParsedData):
    """How the tiles of a tiled view lie on what is viewed: `#nv_tileaa.tiling<dim_map=[1,0], padding=nan>`.

    `dim_map` gives for each dimension of a tile the dimension of the source (None: the same), `traversal_strides` the
    distance of adjacent tiles in elements (None: the tile's shape), `sparse_dim` the dimension that an index tile
    selects (None: none), `padding` what is read out of bounds (None: such a read is undefined). `leading` counts the
    coordinates that come in front of those of the source's dimensions: the im2col offset of a convolution has one.
    `dim_groups=[[0,1],[2]]` stands in place of `dim_map` where a dimension of a tile runs over several of the source,
    as over a single one: the last of them varies fastest. Each tile then has a coordinate for each group.
    """

    name = "nv_tileaa.tiling"

    dim_map = DataField[tuple[int, ...] | None](0)
    traversal_strides = DataField[tuple[int, ...] | None](1)
    sparse_dim = DataField[int | None](2)
    padding = DataField[str | None](3)
    leading = DataField[int](4)
    dim_groups = DataField[tuple[tuple[int, ...], ...] | None](5)

    def __init__(
        self,
        dim_map: Sequence[int] | None = None,
        traversal_strides: Sequence[int] | None = None,
        sparse_dim: int | None = None,
        padding: str | None = None,
        leading: int = 0,
        dim_groups: Sequence[Sequence[int]] | None = None,
    ):
        super().__init__(
            (
                None if dim_map is None else tuple(dim_map),
                None if traversal_strides is None else tuple(traversal_strides),
                sparse_dim,
                padding,
                leading,
                None if dim_groups is None else tuple(map(tuple, dim_groups)),
            )
        )

    def body(self) -> str:
        parts = []
        if self.dim_map is not None:
            parts.append(f"dim_map=[{','.join(map(str, self.dim_map))}]")
        if self.traversal_strides is not None:
            parts.append(f"traversal_strides=[{','.join(map(str, self.traversal_strides))}]")
        if self.sparse_dim is not None:
            parts.append(f"sparse_dim={self.sparse_dim}")
        if self.padding is not None:
            parts.append(f"padding={self.padding}")
        if self.leading:
            parts.append(f"leading={self.leading}")
        if self.dim_groups is not None:
            groups = ",".join(f"[{','.join(map(str, group))}]" for group in self.dim_groups)
            parts.append(f"dim_groups=[{groups}]")
        return ", ".join(parts)

    @classmethod
    def without_parameters(cls, parser: AttrParser) -> Self:
        return cls()

    @classmethod
    def parse_body(cls, parser: AttrParser) -> Self:
        found = cls()
        while True:
            key = parser.parse_identifier()
            parser.parse_punctuation("=")
            dim_map, strides, sparse_dim, padding, leading, groups = found.data
            if key == "dim_map":
                dim_map = parse_integers(parser)
            elif key == "traversal_strides":
                strides = parse_integers(parser)
            elif key == "sparse_dim":
                sparse_dim = parser.parse_integer(allow_boolean=False)
            elif key == "padding":
                padding = PaddingValueAttr.parse_body(parser).keyword
            elif key == "leading":
                leading = parser.parse_integer(allow_boolean=False, allow_negative=False)
            elif key == "dim_groups":
                groups = tuple(
                    parser.parse_comma_separated_list(parser.Delimiter.SQUARE, lambda: parse_integers(parser))
                )
            else:
                parser.raise_error(f"unknown parameter '{key}' of a tiling")
            found = cls(dim_map, strides, sparse_dim, padding, leading, groups)
            if parser.parse_optional_punctuation(",") is None:
                return found


def parse_integers(parser: AttrParser) -> tuple[int, ...]:
    """`[1, 2]`."""
    return tuple(
        parser.parse_comma_separated_list(parser.Delimiter.SQUARE, lambda: parser.parse_integer(allow_boolean=False))
    )


# -- target and kernel ------------------------------------------------------------------------------------------------


@data_definition
class ComputeCapabilityAttr(ParsedData):
    """`#nv_tileaa.compute_capability<sm_90>`: the architecture that code is made for.

    The older spelling `compute-capability`, of the attribute and of a key, is read as well, and printed as this one.
    """

    name = "nv_tileaa.compute_capability"

    gpu_name = DataField[str](0)

    def __init__(self, gpu_name: str):
        super().__init__((gpu_name,))

    def body(self) -> str:
        return self.gpu_name

    @classmethod
    def parse_body(cls, parser: AttrParser) -> ComputeCapabilityAttr:
        return ComputeCapabilityAttr(parser.parse_identifier())


LEGACY_CAPABILITY = "compute-capability"
CAPABILITY = "compute_capability"


@data_definition
class LegacyComputeCapabilityAttr(ParsedData):
    """The spelling `#nv_tileaa.compute-capability<sm_90>` of older producers: reading it gives the canonical one."""

    name = "nv_tileaa.compute-capability"
    stands_for = ComputeCapabilityAttr

    @classmethod
    def parse_body(cls, parser: AttrParser) -> ComputeCapabilityAttr:
        return ComputeCapabilityAttr.parse_body(parser)


@data_definition
class TargetSpecAttr(ParsedData):
    """`#nv_tileaa.target_spec<compute_capability=sm_90, max_shared=232448>`: the target of a module.

    `max_shared` limits the shared memory of a CTA, in bytes (None: the target's own limit).
    """

    name = "nv_tileaa.target_spec"

    capability = DataField[ComputeCapabilityAttr](0)
    max_shared = DataField[int | None](1)

    def __init__(self, capability: ComputeCapabilityAttr, max_shared: int | None = None):
        super().__init__((capability, max_shared))

    def body(self) -> str:
        text = f"{CAPABILITY}={self.capability.gpu_name}"
        return text if self.max_shared is None else f"{text}, max_shared={self.max_shared}"

    @classmethod
    def parse_body(cls, parser: AttrParser) -> Self:
        _capability_keyword(parser)
        parser.parse_punctuation("=")
        capability = ComputeCapabilityAttr.parse_body(parser)
        limit = None
        if parser.parse_optional_punctuation(","):
            parser.parse_keyword("max_shared")
            parser.parse_punctuation("=")
            limit = parser.parse_integer(allow_boolean=False, allow_negative=False)
        return cls(capability, limit)


def _capability_keyword(parser: AttrParser) -> None:
    """The key in either spelling; the legacy one is three tokens."""
    if parser.parse_optional_keyword(CAPABILITY):
        return
    parser.parse_keyword("compute")
    parser.parse_punctuation("-")
    parser.parse_keyword("capability")


@data_definition
class KernelSpecAttr(ParsedData):
    """`#nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1, target=sm_90>`: what a function is compiled as.

    `entry` tells a kernel from a function that only kernels call; `num_warps` is per CTA, `num_ctas` per cluster.
    """

    name = "nv_tileaa.kernel_spec"

    entry = DataField[bool](0)
    num_warps = DataField[int](1)
    num_ctas = DataField[int](2)
    occupancy = DataField[int | None](3)
    target = DataField[str | None](4)

    def __init__(
        self,
        entry: bool = True,
        num_warps: int = 4,
        num_ctas: int = 1,
        occupancy: int | None = None,
        target: str | None = None,
    ):
        super().__init__((entry, num_warps, num_ctas, occupancy, target))

    @property
    def is_valid(self) -> bool:
        """Whether the numbers can be launched: a power of two of warps, up to 32, and 1 to 16 CTAs."""
        warps = self.num_warps
        return 1 <= warps <= 32 and warps & (warps - 1) == 0 and 1 <= self.num_ctas <= 16

    def body(self) -> str:
        parts = ["entry"] if self.entry else []
        parts += [f"num_warps={self.num_warps}", f"num_ctas={self.num_ctas}"]
        if self.occupancy is not None:
            parts.append(f"occupancy={self.occupancy}")
        if self.target is not None:
            parts.append(f"target={self.target}")
        return ", ".join(parts)

    @classmethod
    def parse_body(cls, parser: AttrParser) -> Self:
        numbers: dict[str, int] = {}
        target = None
        entry = parser.parse_optional_keyword("entry") is not None
        if entry:
            parser.parse_punctuation(",")
        while True:
            key = parser.parse_identifier()
            if key not in ("num_warps", "num_ctas", "occupancy", "target"):
                parser.raise_error(f"unknown parameter '{key}' of a kernel_spec")
            if key in numbers or (key == "target" and target is not None):
                parser.raise_error(f"parameter '{key}' of a kernel_spec is there twice")
            parser.parse_punctuation("=")
            if key == "target":
                target = parser.parse_identifier()
            else:
                numbers[key] = parser.parse_integer(allow_boolean=False, allow_negative=False)
            if parser.parse_optional_punctuation(",") is None:
                return cls(entry, **numbers, target=target)


ATTRIBUTES: tuple[type[Attribute], ...] = (
    CacheModifierAttr,
    EvictionPolicyAttr,
    MemSemanticAttr,
    MemScopeAttr,
    RmwModeAttr,
    RoundingModeAttr,
    SignednessAttr,
    PropagateNanAttr,
    ReductionAttr,
    PaddingValueAttr,
    ActivationLayoutAttr,
    ConvParamsAttr,
    TilingAttr,
    ComputeCapabilityAttr,
    LegacyComputeCapabilityAttr,
    TargetSpecAttr,
    KernelSpecAttr,
)
