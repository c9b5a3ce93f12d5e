# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the emission rules share: the kernel's builder, and what each value of the IR is in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import IndexType, TensorType
from xdsl.ir import Attribute, Block, Operation, SSAValue

from libtile.codegen.builder import KernelBuilder, Value
from libtile.codegen.exchange import Exchanges
from libtile.codegen.llvm_types import ELEMENT_TYPES, I32, IntType, LlvmType
from libtile.codegen.tile import Tile
from libtile.codegen.tiled_views import TensorView, TiledView
from libtile.dialects.cuda_tile.types import NUMBER_NAMES
from libtile.dialects.nv_tileaa.types import MemTokenType, PtrType
from libtile.dialects.nv_tileas.types import AsyncTokenType
from libtile.ir.places import ops_in
from libtile.ir.tile_form import element_of
from libtile.layouts import LinearLayout
from libtile.lowering.errors import unsupported
from libtile.lowering.rules import Rules
from libtile.lowering.tileas.memory.storage_lives import places_of
from libtile.lowering.to_llvm.storage import Buffer, BulkToken, Descriptor, Place, Ring, TensorMemory, Turn
from libtile.lowering.to_tileas.types import layout_of
from libtile.support.diagnostics import LoweringError, UnsupportedError
from libtile.support.records import dataclass

if TYPE_CHECKING:
    from libtile.codegen.globals import Allocation
    from libtile.lowering.to_llvm.debug_info import FunctionDebugInfo

__all__ = ["RULES", "Emitter", "View", "element_name", "rule"]


@dataclass(frozen=True)
class View:
    """A memref or a tiled view; offsets of accesses are computed in 32 bits where it is `narrow`."""

    tensor: TensorView
    narrow: bool = False
    tiled: TiledView | None = None


Held = Tile | Value | View | Buffer | TensorMemory | Ring | Place | Turn | Descriptor | BulkToken | None
"""What a value is: a tile, a scalar (index, integer, pointer, condition, stage of a pipeline), memory, a pipeline or a
turn of one, or (tokens) nothing."""

_TOKENS = (MemTokenType, AsyncTokenType)
"""Types of values that only order: they are nothing at run time."""

_ROOM = "libtile.lowering.to_llvm"

_LATE = {
    "xdsl.dialects.math": ("math_ops",),
    "libtile.dialects.tensor": ("shapes",),
    "libtile.dialects.nv_tileaa.collectives": ("tiles",),
    "libtile.dialects.nv_tileaa.functions": ("grid", "escapes"),
    "libtile.dialects.nv_tileaa.pointers": ("elementwise", "shapes", "escapes"),
    "libtile.dialects.nv_tileaa.shapes": ("shapes", "movement", "tiles"),
    "libtile.dialects.nv_tileaa.tokens": ("tokens", "messages"),
    "libtile.dialects.nv_tileas.async_products": ("async_products",),
    "libtile.dialects.nv_tileas.memory": ("memory", "atomics"),
    "libtile.dialects.nv_tileas.pipeline": ("pipelines", "agents", "tma"),
    "libtile.dialects.nv_tileas.products": ("products",),
    "libtile.dialects.nv_tileas.tensor_memory": ("tensor_memory",),
    "libtile.dialects.nv_tileas.tiles": ("movement", "collectives", "agents", "tiles", "pipelines", "tma", "tokens"),
    "libtile.dialects.nv_tileas.tma": ("tma", "pipelines", "descriptors", "barrier_objects", "tma_rows"),
}
"""By the module of ops, the modules of rules for those that not every kernel has."""

RULES: Rules[Emitter] = Rules({ops: [f"{_ROOM}.{name}" for name in names] for ops, names in _LATE.items()})
"""The emission rule of each op, by its class."""

rule = RULES.on


@lru_cache(maxsize=256)
def element_name(type_: Attribute) -> str:
    """The keyword of an element type as code generation uses it: `ptr` for pointers, `i64` for `index`."""
    if isinstance(type_, IndexType):
        return "i64"
    return "ptr" if isinstance(type_, PtrType) else NUMBER_NAMES[type_]


def llvm_type(type_: Attribute) -> LlvmType:
    """The LLVM type of a scalar."""
    return ELEMENT_TYPES[element_name(type_)]


def exchanges_of(op: Operation) -> Exchanges:
    """The places of an op's exchanges, which `tileas-allocate-shared-memory` has written on it."""
    return Exchanges(tuple(places_of(op)) if op.attributes else ())


class Emitter:
    """The state of the emission of one kernel."""

    def __init__(self, builder: KernelBuilder, scalar_layout: LinearLayout, debug: FunctionDebugInfo | None = None):
        self.b = builder
        self.debug = debug
        self.scalar_layout = scalar_layout
        self.held: dict[SSAValue, Held] = {}
        self.allocations: list[Allocation] = []
        """Scratch memory to give back at the end of the block that is being emitted."""
        self.descriptors: dict[tuple[str, Value, int, int], tuple[Value, int]] = {}
        """Descriptors of what lies in stages, by basic block, stage, its bytes and the descriptors' fields: the first
        one that is made there, and the byte of the block's shared memory that it is of."""
        self.numbered: tuple[Block | None, dict[tuple[object, ...], Value]] = None, {}
        """The block that is being emitted, and what its ops have computed of scalars, by function and operands."""
        self.one_thread = False
        """Whether what is being emitted is run by one thread of an agent."""
        self.tensor_memory: tuple[Value, int] | None = None
        """What the kernel has allocated in tensor memory: the address of its first column, and how many there are."""

    # -- values -----------------------------------------------------------------------------------------------------

    def tile(self, value: SSAValue) -> Tile:
        held = self.held[value]
        if not isinstance(held, Tile):
            raise UnsupportedError(f"takes a tile, and gets a value of type {value.type}")
        return held

    def scalar(self, value: SSAValue) -> Value:
        """A scalar, or the element of a tile of rank 0."""
        held = self.held[value]
        if isinstance(held, Tile):
            return held.registers[0]
        if not isinstance(held, Value):
            raise UnsupportedError(f"takes a scalar, and gets a value of type {value.type}")
        return held

    def word(self, value: SSAValue) -> Value:
        """A scalar, which is an integer of whatever width and signed, in 32 bits."""
        held = self.scalar(value)
        assert isinstance(held.type, IntType)
        return self.b.cast("trunc" if held.type.bits > I32.bits else "sext", held, I32)

    def view(self, value: SSAValue) -> View:
        held = self.held[value]
        if not isinstance(held, View):
            raise UnsupportedError(f"takes a view of memory, and gets a value of type {value.type}")
        return held

    def layout(self, value: SSAValue) -> LinearLayout:
        return layout_of(value)

    def in_layout(self, tile: Tile, value: SSAValue) -> Tile:
        """A tile that an op has made, in the layout in which its result is. LoweringError where it is another one: what
        converts is a `nv_tileas.convert_layout` behind the op."""
        if tile.layout != self.layout(value):
            raise UnsupportedError(
                "gives a tile in another layout: tileas-materialize-convert-layout makes conversions"
            )
        return tile

    def bind(self, value: SSAValue, held: Held) -> None:
        self.held[value] = held

    def bind_count(self, result: SSAValue, value: Value) -> None:
        """Bind a number that has no sign to a result of an integer type, or a tile of one, of whatever width."""
        type_ = llvm_type(element_of(result.type))
        assert isinstance(type_, IntType) and isinstance(value.type, IntType)
        if type_.bits != value.type.bits:
            value = self.b.cast("trunc" if type_.bits < value.type.bits else "zext", value, type_)
        self.bind_one(result, value)

    def bind_one(self, value: SSAValue, one: Value) -> None:
        """Bind the element of a value that has one: a scalar, or a tile of rank 0, which ops take for each other."""
        type_ = value._type
        self.held[value] = self.as_tile(one, type_.element_type) if type(type_) is TensorType else one

    def as_tile(self, value: Value, type_: Attribute) -> Tile:
        """A scalar as a tile of rank 0."""
        return Tile(self.scalar_layout, element_name(type_), (value,))

    @staticmethod
    def element(value: SSAValue) -> str:
        type_ = value._type
        return element_name(type_.element_type if type(type_) is TensorType else type_)

    # -- ops --------------------------------------------------------------------------------------------------------

    def emit(self, op: Operation) -> None:
        """Emit one op by its rule. LoweringError for one without, or that the target lacks something for."""
        function = RULES.of(op)
        if function is None:
            raise unsupported(op, "cannot be compiled", self.b.target.name)
        outer = self.b.location
        if self.debug is not None:
            self.b.set_location(self.debug.of(getattr(op, "location", None), outer))
        around, self.b.exchanges = self.b.exchanges, exchanges_of(op)
        try:
            function(self, op)
            self.b.exchanges.finish()
        except LoweringError as problem:
            if problem.location is not None:
                raise
            raise unsupported(op, str(problem), self.b.target.name) from None
        self.b.exchanges = around
        self.b.set_location(outer)
        for result in op.results:
            if isinstance(result._type, _TOKENS):
                self.held.setdefault(result, None)

    def emit_block(self, block: Block, *, own: bool = False) -> Sequence[SSAValue]:
        """Emit the ops of a block with a terminator, an agent's own if that is said; returns the operands of that."""
        last, around = block.last_op, self.numbered
        self.numbered = block, {}
        for op in ops_in(block):
            if own:
                self.b.own = self.b.block
            if op is not last:
                self.emit(op)
        self.numbered = around
        return last.operands if last is not None else ()

    def number(self, op: Operation, function: Callable[..., Value], *arguments: object) -> Value:
        """A function of an op's operands, scalars: once for all ops of the block that is being emitted, of which the
        first comes before the others."""
        operands = [self.scalar(v) for v in op._operands]
        block, known = self.numbered
        if block is not op.parent or not self.b.places:
            return function(self.b, *operands, *arguments)
        key = function, tuple(v.typed for v in operands), arguments
        if key not in known:
            known[key] = function(self.b, *operands, *arguments)
        return known[key]
