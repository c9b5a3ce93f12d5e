# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Programs around one op of the inner dialects each, that the interpreter runs: its sample twice, in a loop.

The sample is that of the census (`inner_census.launchable`); ops that only stand within turns and queues have a worked
program of the documents around them, and are in it once.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from xdsl.dialects.builtin import IndexType, IntegerAttr, ModuleOp, TensorType
from xdsl.ir import Block, Operation, Region, SSAValue

import libtile
from dialects.inner_census import launchable
from dialects.inner_samples import BODIES
from libtile.asm import parse
from libtile.asm.module import Module
from libtile.dialects import arith, scf
from libtile.dialects.cuda_tile.attributes import DenseElementsAttr
from libtile.dialects.cuda_tile.types import NUMBER_NAMES, TileType
from libtile.dialects.nv_tileaa.functions import FuncOp
from libtile.dialects.nv_tileaa.kernels import flat_parameters, kernels_of
from libtile.dialects.nv_tileaa.shapes import ConstantOp
from libtile.dialects.nv_tileaa.types import PtrType
from libtile.dialects.nv_tileas.tiles import AllocTensorOp, CopyOp
from libtile.dialects.nv_tileas.types import BufferType
from libtile.interpreter.formats import ELEMENTS
from libtile.ir.tile_form import OP_CLASSES, TileOp

DOCUMENTS = Path(__file__).parents[1] / "lowering" / "documents"
WORKED = {"nv_tileas.": "turns.mlir", "nv_tileaa.queue.": "queue.mlir"}
"""By the begin of a name, the program for ops that have no sample."""
WITHIN = {
    "nv_tileaa.func": "nv_tileaa.addf",
    "nv_tileaa.return": "nv_tileaa.addf",
    "nv_tileaa.yield": "nv_tileaa.reduce",
}
"""Ops that are in the sample of another one."""
SCALARS = {"nv_tileaa.insert_slice": 0}
"""What integers are in programs that 1 is too much for."""
UNWRITTEN = (
    "nv_tileas.async.dot",
    "nv_tileas.async.dot_into",
    "nv_tileas.async.scatter_tma_store",
    "nv_tileas.async.tiled_atomic_rmw",
    "nv_tileas.async.tiled_tma_store",
)
"""Ops whose samples read storage, which is to be written before."""
SIZE = 16
"""Of every dimension of memory that a program gets; indices are 1, strides those of rows."""
ELEMENTS_OF_MEMORY = 512


def whole(name: str) -> bool:
    """Whether an op's program is one of the documents', which hold it once."""
    return WITHIN.get(name, name) not in BODIES


def program(name: str) -> ModuleOp:
    """A module with one kernel around an op, which it has at least once."""
    name = WITHIN.get(name, name)
    if whole(name):
        worked = next(text for begin, text in WORKED.items() if name.startswith(begin))
        module = parse((DOCUMENTS / worked).read_text(), worked)
    else:
        module = parse(launchable(name), f"{name}.mlir")
        if name in UNWRITTEN:
            write_storage(module)
    assert isinstance(module, ModuleOp)
    return module


def write_storage(module: Operation) -> None:
    """Zeros in all storage for tiles, behind where it is made."""
    for op in [op for op in module.walk() if isinstance(op, AllocTensorOp)]:
        type_ = op.result.type
        assert isinstance(type_, BufferType)
        element = type_.element_type
        size = ELEMENTS[NUMBER_NAMES[element]].storage_bytes
        value = DenseElementsAttr(TileType(type_.shape, element), bytes(size))
        zeros = ConstantOp.make(results=[TensorType(element, type_.shape)], value=value, location=op.location)
        assert op.parent is not None
        op.parent.insert_ops_after([zeros, CopyOp.make(zeros.result, op.result, location=op.location)], op)


def kernel_of(module: ModuleOp) -> FuncOp:
    """The kernel around the op: the last one."""
    return [*kernels_of(module)][-1]


def body_of(module: ModuleOp) -> Block:
    """The body of the kernel."""
    return kernel_of(module).body.block


def doubled(module: ModuleOp, turns: int = 2, copies: int = 2) -> ModuleOp:
    """The module with all of its kernel's body in a loop of some turns, so often one copy behind another."""
    block = body_of(module)
    end = block.last_op
    assert end is not None
    ops = [op for op in block.ops if op is not end]
    numbers = [arith.ConstantOp(IntegerAttr(n, IndexType())) for n in (0, turns, 1)]
    inside = Block(arg_types=[IndexType()])
    for _ in range(copies):
        values: dict[SSAValue, SSAValue] = {}
        for op in ops:
            copy = op.clone(values)
            copy.location = op.location
            inside.add_op(copy)
    inside.add_op(scf.YieldOp())
    for op in reversed(ops):
        op.detach()
        op.erase(safe_erase=False)
    loop = scf.ForOp(*(n.result for n in numbers), [], Region(inside))
    block.insert_ops_before([*numbers, loop], end)
    for op in (*numbers, loop):
        op.location = end.location
    return module


def memory_of(kernel: FuncOp, scalar: int = 1) -> list[Any]:
    """What a launch gives the kernel: memory of small numbers, which are all indices of all memory."""
    given: list[Any] = []
    rng = np.random.default_rng(7)
    flat = flat_parameters(kernel)
    ranks: dict[int, list[int]] = {}
    for parameter in flat:
        if isinstance(parameter.type, PtrType):
            given.append(_numbers(parameter.type.pointee, rng))
        elif parameter.part == "size":
            ranks.setdefault(parameter.argument, []).append(SIZE)
            given.append(SIZE)
        elif parameter.part == "stride":
            left = sum(p.argument == parameter.argument and p.part == "stride" for p in flat[len(given) + 1 :])
            given.append(SIZE**left)
        else:
            given.append(1.0 if parameter.text.removeprefix("tile<").startswith(("f", "b")) else scalar)
    return given


def _numbers(pointee: Any, rng: np.random.Generator) -> np.ndarray:
    name = NUMBER_NAMES.get(pointee)
    numbers = 4 * rng.integers(0, 3, ELEMENTS_OF_MEMORY)
    if name is None:
        return numbers.astype(np.int64)
    return numbers.astype(np.bool_ if name == "i1" else ELEMENTS[name].dtype)


Outcome = tuple[tuple[bytes, ...], str]


def outcome(module: ModuleOp, name: str) -> Outcome:
    """What the program around an op leaves: the bytes of all memory, and what it printed."""
    kernel = kernel_of(module)
    args = memory_of(kernel, SCALARS.get(name, 1))
    done = libtile.run(Module(module), kernel.sym_name.data, args=args)
    return tuple(a.tobytes() for a in args if isinstance(a, np.ndarray)), done.output


def before(name: str) -> Outcome:
    """What memory the op's program begins with, and nothing printed."""
    args = memory_of(kernel_of(program(name)), SCALARS.get(name, 1))
    return tuple(a.tobytes() for a in args if isinstance(a, np.ndarray)), ""


def of_name(module: Operation, name: str) -> Iterator[TileOp]:
    """The ops of a name in a module."""
    return (op for op in module.walk() if op.name == name and isinstance(op, TileOp))


@cache
def names() -> tuple[str, ...]:
    """Every op of the inner dialects."""
    return tuple(sorted(OP_CLASSES))
