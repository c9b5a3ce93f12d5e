# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Who gets how much of a block's shared memory: the stages of pipelines, and the exchanges between threads.

A pipeline lives as long as its loop runs. Those of loops that follow each other share one place; that of an inner loop
lies behind that of the loop around it. Exchanges have an area of their own, of which each uses what it needs: they go
in pieces where it is small, so that pipelines may take all but `exchange_bytes`.
"""

from __future__ import annotations

from math import prod

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation

from libtile.dialects.nv_tileaa.attributes import KernelSpecAttr
from libtile.dialects.nv_tileas.types import BufferType, PipelineType
from libtile.lowering.tileaa_to_tileas.accesses import element_bytes
from libtile.targets import Target

STAGE_ALIGNMENT = 128
"""Bytes: what a swizzle of 128 bytes, and a copy by TMA, need."""
LARGEST_EXCHANGE = 32 << 10
"""The most that one exchange takes of its own accord."""
SMALLEST_EXCHANGE = 8 << 10
"""What exchanges are left at least, so that one after the other does without barriers in between."""
_EXCHANGES = frozenset(
    ("nv_tileas.convert_layout", "nv_tileaa.extract", "nv_tileaa.insert", "nv_tileaa.cat", "nv_tileas.scan",
     "nv_tileas.reduce", "nv_tileas.dot")
)  # fmt: skip


def tile_bytes(type_: TensorType | BufferType) -> int:
    """Bytes of a tile in shared memory."""
    shape = type_.shape if isinstance(type_, BufferType) else type_.get_shape()
    return prod(shape) * element_bytes(type_.element_type)


def stage_offsets(type_: PipelineType) -> tuple[list[int], int]:
    """Where the buffers of a stage lie in it, and the size of the stage, in bytes."""
    offsets, end = [], 0
    for element in type_.element_types:
        assert isinstance(element, BufferType)
        offsets.append(end)
        end += -(-tile_bytes(element) // STAGE_ALIGNMENT) * STAGE_ALIGNMENT
    return offsets, end


def pipeline_bytes(type_: PipelineType) -> int:
    """Bytes of all stages of a pipeline."""
    return type_.stages * stage_offsets(type_)[1]


def block_bytes(gpu: Target, spec: KernelSpecAttr | None) -> int:
    """Shared memory that a block may take, so that as many fit on a multiprocessor as the kernel asks for."""
    wanted = spec.occupancy if spec is not None and spec.occupancy else 1
    overhead = gpu.shared_per_sm - gpu.shared_per_block
    return max(min(gpu.shared_per_block, gpu.shared_per_sm // wanted - overhead), 0)


def exchange_bytes(function: Operation) -> int:
    """What pipelines leave for exchanges: enough for the largest one, as far as it does not go in pieces."""
    largest = SMALLEST_EXCHANGE
    for op in function.walk():
        if op.name in _EXCHANGES:
            types = [v.type for v in (*op.operands, *op.results)]
            largest = max([largest, *(tile_bytes(t) for t in types if isinstance(t, TensorType))])
    return min(largest, LARGEST_EXCHANGE)
