# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Who gets how much of a block's shared memory: the stages of pipelines, and the exchanges between threads.

A pipeline lives as long as its loop runs. Those of loops that follow each other share one place; that of an inner loop
lies behind that of the loop around it. Exchanges have an area of their own, of which each uses what it needs: they go
in pieces where it is small, so that pipelines may take all but what `Exchanges` says.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from heapq import heapify, heappop, heappush
from math import prod

from xdsl.dialects.builtin import IntegerAttr, TensorType
from xdsl.ir import Operation

from libtile.atoms.conversions import shared_bytes
from libtile.codegen import mbarrier
from libtile.dialects.nv_tileaa.attributes import KernelSpecAttr
from libtile.dialects.nv_tileaa.shapes import CatOp, ExtractOp, InsertSliceOp
from libtile.dialects.nv_tileas.attributes import FMA
from libtile.dialects.nv_tileas.pipeline import CreateIteratorOp
from libtile.dialects.nv_tileas.products import DotOp
from libtile.dialects.nv_tileas.tiles import ConvertLayoutOp, ReduceOp, ScanOp
from libtile.dialects.nv_tileas.types import BufferType, MBarrierType, PipelineType
from libtile.ir.places import ops_of
from libtile.layouts import WARP
from libtile.layouts.shared_access import PIECE_BYTES
from libtile.lowering.to_tileas.accesses import element_bytes
from libtile.lowering.to_tileas.types import layout_of
from libtile.targets import Target

STAGE_ALIGNMENT = 128
"""Of buffers that do not say what they need, in bytes."""
STAGE_BARRIER_BYTES = 2 * mbarrier.BYTES
"""Of the barrier objects of a stage, where there are any."""
SMALLEST_EXCHANGE = 8 << 10
"""What exchanges are left at least, so that one after the other does without barriers in between."""
_EXCHANGES = (ExtractOp, InsertSliceOp, CatOp, ScanOp, ReduceOp)
"""Ops that may hand elements on between threads, beside conversions and products by fused multiply-adds."""


def tile_bytes(type_: TensorType | BufferType) -> int:
    """Bytes of a tile in shared memory."""
    shape = type_.shape if isinstance(type_, BufferType) else type_.get_shape()
    return prod(shape) * element_bytes(type_.element_type)


def alignment_of(op: Operation) -> int:
    """The alignment of what an op makes in shared memory, in bytes: 1024 where a 128-byte swizzle is the hardware's,
    as for copies by TMA and operands of wgmma."""
    if isinstance(op.results[0].type, MBarrierType):
        return mbarrier.BYTES
    given = op.properties.get("alignment")
    return given.value.data if isinstance(given, IntegerAttr) else STAGE_ALIGNMENT


def stage_offsets(type_: PipelineType, alignment: int = STAGE_ALIGNMENT) -> tuple[list[int], int]:
    """Where the buffers of a stage lie in it, and the size of the stage, in bytes."""
    offsets, end = [], 0
    for element in type_.element_types:
        assert isinstance(element, BufferType)
        offsets.append(end)
        if element.space == "tmem":
            continue  # it lies in storage of its own
        end += -(-tile_bytes(element) // alignment) * alignment
    return offsets, end


MOST_AGENTS = 15
"""Those that have a named barrier."""
_WORD = 4


def drawing_bytes(type_: PipelineType) -> int:
    """What is taken where agents draw turns: a counter of those of producers, for each agent a word by which one of its
    threads tells the others, and a counter for each consumer."""
    return _WORD * (1 + MOST_AGENTS + type_.consumers)


def drawing_word(agent: int) -> int:
    """Where an agent's word lies, by its named barrier, from 1 on."""
    return _WORD * agent


def counter_word(side: int | None) -> int:
    """Where the turns of a consumer are counted, or those of producers (None)."""
    return 0 if side is None else _WORD * (1 + MOST_AGENTS + side)


def drawn_sides(pipeline: Operation) -> set[int | None]:
    """The sides of a pipeline whose turns agents draw: consumers, and None for producers."""
    uses = (use.operation for use in pipeline.results[0].uses)
    return {op.side for op in uses if isinstance(op, CreateIteratorOp) and op.drawn is not None}


def pipeline_bytes(type_: PipelineType, alignment: int = STAGE_ALIGNMENT) -> int:
    """Bytes of all stages of a pipeline, and of the barrier objects behind them."""
    return type_.stages * (stage_offsets(type_, alignment)[1] + STAGE_BARRIER_BYTES * type_.has_barriers)


def rings_bytes(types: Iterable[PipelineType], alignment: int) -> int:
    """Bytes of pipelines beside each other: their stages lie side by side, and all barrier objects behind them."""
    return sum(pipeline_bytes(type_, alignment) for type_ in types)


def block_bytes(gpu: Target, spec: KernelSpecAttr | None) -> int:
    """Shared memory that a block may take, so that as many fit on a multiprocessor as the kernel asks for."""
    wanted = spec.occupancy if spec is not None and spec.occupancy else 1
    overhead = gpu.shared_per_sm - gpu.shared_per_block
    return max(min(gpu.shared_per_block, gpu.shared_per_sm // wanted - overhead), 0)


class Exchanges:
    """What the exchanges of a function take, looked through once, but for those of the ops in `without`."""

    def __init__(self, function: Operation, without: Collection[Operation] = ()):
        self._largest = 0
        self._conversions: list[ConvertLayoutOp] = []
        self._by_size: dict[int, list[tuple[int, int, ConvertLayoutOp]]] = {}
        self.looks = 0
        """How often a conversion was looked at."""
        for op in ops_of(function):
            if op in without:
                continue
            if isinstance(op, ConvertLayoutOp):
                self._conversions.append(op)
            elif isinstance(op, _EXCHANGES) or (isinstance(op, DotOp) and op.atom.kind == FMA):
                self._largest = max(self._largest, min(_largest_tile(op), PIECE_BYTES))

    @property
    def are_any(self) -> bool:
        """Whether any of a function's ops may exchange elements."""
        return bool(self._conversions) or self._largest > 0

    def add(self, conversions: Iterable[ConvertLayoutOp]) -> None:
        """Conversions that were not there before. Those that are erased need not be told of."""
        for op in conversions:
            self._conversions.append(op)
            for most, heap in self._by_size.items():
                heappush(heap, self._entry(len(self._conversions), op, most))

    def bytes(self, copied: Collection[Operation], chosen: Collection[Operation], most: int = PIECE_BYTES) -> int:
        """What pipelines leave for exchanges: enough for the largest one, where conversions go in pieces of up to
        `most` bytes as far as their layouts can be cut. Those of what the loads in `copied` and `chosen` give are none:
        they read a stage. A load stays in `copied` from one call to the next."""
        heap = self._by_size.get(most)
        if heap is None:
            present = enumerate(op for op in self._conversions if op.parent is not None)
            heap = self._by_size[most] = [self._entry(number, op, most) for number, op in present]
            heapify(heap)
        largest = max(self._largest, min(SMALLEST_EXCHANGE, most))
        passed = []
        while heap:
            self.looks += 1
            size, _, op = heap[0]
            if op.parent is not None and op.source.owner not in copied:
                if op.source.owner not in chosen:
                    largest = max(largest, -size)
                    break
                passed.append(heap[0])
            heappop(heap)
        for entry in passed:
            heappush(heap, entry)
        return largest

    def _entry(self, number: int, op: ConvertLayoutOp, most: int) -> tuple[int, int, ConvertLayoutOp]:
        size = _largest_tile(op)
        return -(size if size <= most else _conversion_bytes(op, most)), number, op


def _largest_tile(op: Operation) -> int:
    return max(tile_bytes(v.type) for v in (*op.operands, *op.results) if isinstance(v.type, TensorType))


def _conversion_bytes(op: ConvertLayoutOp, most: int) -> int:
    source, target = layout_of(op.source), layout_of(op.result)
    type_ = op.result.type
    assert isinstance(type_, TensorType)
    return shared_bytes(source, target, element_bytes(type_.element_type), len(source.basis(WARP)), most)
