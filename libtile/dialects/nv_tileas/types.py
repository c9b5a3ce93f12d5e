# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Types of nv_tileas: buffers, pipelines with their iterators and tokens, asynchronous results, TMA descriptors."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any, Self

from xdsl.ir import Attribute, TypeAttribute

from libtile.dialects.cuda_tile.types import is_element_type
from libtile.dialects.nv_tileaa.types import MAX_BUFFER, MAX_STAGES, problem_within
from libtile.dialects.nv_tileas.attributes import MEMORY_SPACES
from libtile.dialects.nv_tileas.layout import LayoutAttr
from libtile.ir.data_field import DataField, data_definition
from libtile.ir.parsed_data import ParsedData
from libtile.ir.tile_form import Storage, parse_type, type_text

if TYPE_CHECKING:
    from xdsl.parser import AttrParser


class TileASType(ParsedData, TypeAttribute):
    """Base of the dialect's types."""


@data_definition
class BufferType(Storage, TileASType):
    """`!nv_tileas.buffer<2x64x64xf16, shared, #nv_tileas.layout<...>>`: storage for a tile in a memory space.

    The layout maps the element's offset to its index (dimension `offset`); None stands for row-major order.
    """

    name = "nv_tileas.buffer"

    shape = DataField[tuple[int, ...]](0)
    element_type = DataField[Attribute](1)
    space = DataField[str](2)
    layout = DataField[LayoutAttr | None](3)

    def __init__(self, shape: Sequence[int], element_type: Attribute, space: str, layout: LayoutAttr | None = None):
        super().__init__((tuple(shape), element_type, space, layout))

    def problem(self) -> str | None:
        if min(self.shape, default=1) < 1 or prod(self.shape) > MAX_BUFFER:
            return f"expects storage of 1 to {MAX_BUFFER} elements, but got {type_text(self)}"
        if not is_element_type(self.element_type):
            return f"expects storage for numbers or pointers, but got {type_text(self)}"
        return None

    def body(self) -> str:
        text = "".join("?x" if d < 0 else f"{d}x" for d in self.shape) + f"{type_text(self.element_type)}, {self.space}"
        return text if self.layout is None else f"{text}, {self.layout}"

    @classmethod
    def parse_body(cls, parser: AttrParser) -> Self:
        shape, element = parser.parse_ranked_shape()
        parser.parse_punctuation(",")
        space = parser.parse_identifier()
        if space not in MEMORY_SPACES:
            parser.raise_error(f"expected a memory space, one of: {', '.join(MEMORY_SPACES)}")
        if parser.parse_optional_punctuation(",") is None:
            return cls(shape, element, space)
        layout = parser.parse_attribute()
        if not isinstance(layout, LayoutAttr):
            parser.raise_error("expected a layout")
        return cls(shape, element, space, layout)


class _TypesType(TileASType):
    """Base of types that carry the types of the values of a stage."""

    element_types = DataField[tuple[Attribute, ...]](0)

    def __init__(self, element_types: Sequence[Attribute]):
        super().__init__((tuple(element_types),))

    def problem(self) -> str | None:
        return problem_within(self.element_types)

    def body(self) -> str:
        return _types_text(self.element_types)

    @classmethod
    def parse_body(cls, parser: AttrParser) -> Any:
        return cls(_parse_types(parser))


COPY_GROUPS, MBARRIER = "copy_groups", "mbarrier"
SYNCHRONIZATIONS = (COPY_GROUPS, MBARRIER)
"""How the two sides of a pipeline learn of each other: they are the same threads, which count groups of their copies
and meet at barriers; or each stage has two barrier objects, at which one side arrives and the other one waits."""


@data_definition
class PipelineType(TileASType):
    """`!nv_tileas.pipeline<3, (T, ...), consumers=2, mbarrier>`: stages, what a stage holds, how many consumers read
    it, and how it synchronizes (one of `SYNCHRONIZATIONS`; the first without a word)."""

    name = "nv_tileas.pipeline"

    stages = DataField[int](0)
    element_types = DataField[tuple[Attribute, ...]](1)
    consumers = DataField[int](2)
    synchronization = DataField[str](3)

    def __init__(
        self, stages: int, element_types: Sequence[Attribute], consumers: int = 1, synchronization: str = COPY_GROUPS
    ):
        super().__init__((stages, tuple(element_types), consumers, synchronization))

    @property
    def has_barriers(self) -> bool:
        """Whether stages have barrier objects."""
        return self.synchronization == MBARRIER

    def problem(self) -> str | None:
        if max(self.stages, self.consumers) > MAX_STAGES:
            return f"expects at most {MAX_STAGES} stages and consumers, but got {type_text(self)}"
        return problem_within(self.element_types)

    def body(self) -> str:
        text = f"{self.stages}, {_types_text(self.element_types)}"
        text += "" if self.consumers == 1 else f", consumers={self.consumers}"
        return text if self.synchronization == COPY_GROUPS else f"{text}, {self.synchronization}"

    @classmethod
    def parse_body(cls, parser: AttrParser) -> Self:
        stages = parser.parse_integer(allow_boolean=False, allow_negative=False)
        parser.parse_punctuation(",")
        types = _parse_types(parser)
        consumers, synchronization = 1, COPY_GROUPS
        while parser.parse_optional_punctuation(","):
            word = parser.parse_identifier()
            if word == "consumers":
                parser.parse_punctuation("=")
                consumers = parser.parse_integer(allow_boolean=False, allow_negative=False)
            elif word in SYNCHRONIZATIONS:
                synchronization = word
            else:
                parser.raise_error(f"expected 'consumers' or one of: {', '.join(SYNCHRONIZATIONS)}")
        return cls(stages, types, consumers, synchronization)


@data_definition
class PipelineIteratorType(TileASType):
    """`!nv_tileas.pipeline_iterator<!nv_tileas.pipeline<...>>`: a stage of a pipeline, and in which round."""

    name = "nv_tileas.pipeline_iterator"

    pipeline = DataField[Attribute](0)

    def __init__(self, pipeline: Attribute):
        super().__init__((pipeline,))

    def problem(self) -> str | None:
        return problem_within([self.pipeline])

    def body(self) -> str:
        return type_text(self.pipeline)

    @classmethod
    def parse_body(cls, parser: AttrParser) -> Self:
        return cls(parse_type(parser))


@data_definition
class ProducerTokenType(_TypesType):
    """`!nv_tileas.producer_token<(T, ...)>`: ownership of a stage by its producer."""

    name = "nv_tileas.producer_token"


@data_definition
class ConsumerTokenType(_TypesType):
    """`!nv_tileas.consumer_token<(T, ...)>`: ownership of a stage by a consumer."""

    name = "nv_tileas.consumer_token"


@data_definition
class AsyncTokenType(TileASType):
    """`!nv_tileas.async_token`: an operation that may not have completed; `async.wait` waits for it."""

    name = "nv_tileas.async_token"

    def __init__(self, data: tuple[()] = ()):
        super().__init__(())


@data_definition
class MBarrierType(TileASType):
    """`!nv_tileas.mbarrier`: a barrier object in shared memory, which counts arrivals and transferred bytes."""

    name = "nv_tileas.mbarrier"

    def __init__(self, data: tuple[()] = ()):
        super().__init__(())


@data_definition
class TmaDescType(TileASType):
    """`!nv_tileas.tma_desc<!nv_tileaa.memref<...>, [64, 64]>`: a TMA descriptor of a memref and a box.

    Box dimensions count elements, innermost first.
    """

    name = "nv_tileas.tma_desc"

    memref = DataField[Attribute](0)
    box = DataField[tuple[int, ...]](1)

    def __init__(self, memref: Attribute, box: Sequence[int]):
        super().__init__((memref, tuple(box)))

    def body(self) -> str:
        return f"{type_text(self.memref)}, [{', '.join(map(str, self.box))}]"

    @classmethod
    def parse_body(cls, parser: AttrParser) -> Self:
        from libtile.dialects.nv_tileaa.attributes import parse_integers

        memref = parse_type(parser)
        parser.parse_punctuation(",")
        return cls(memref, parse_integers(parser))


def _types_text(types: Sequence[Attribute]) -> str:
    return f"({', '.join(map(type_text, types))})"


def _parse_types(parser: AttrParser) -> list[Attribute]:
    return parser.parse_comma_separated_list(parser.Delimiter.PAREN, lambda: parse_type(parser))


TYPES: tuple[type[Attribute], ...] = (
    BufferType,
    PipelineType,
    PipelineIteratorType,
    ProducerTokenType,
    ConsumerTokenType,
    AsyncTokenType,
    MBarrierType,
    TmaDescType,
)
