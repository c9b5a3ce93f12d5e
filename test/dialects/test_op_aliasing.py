# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which results of ops name the memory of an operand, of all three dialects: as declared (`NamesMemoryOf`), against
where the values lie in the interpreter."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from xdsl.ir import Attribute, Operation, SSAValue

import libtile
from dialects.inner import SPEC
from dialects.op_programs import DOCUMENTS, names, program
from libtile.asm import parse
from libtile.asm.module import Module, diagnose
from libtile.dialects import arith, scf, tensor
from libtile.dialects.cuda_tile.ops import OPS
from libtile.dialects.cuda_tile.types import PointerType
from libtile.dialects.interfaces import NamesMemoryOf, control_flow, first_name, other_names, renamed
from libtile.dialects.nv_tileaa.types import MemRefType, PtrType, TiledViewType
from libtile.interpreter.nv_tileas.buffers import Buffer
from libtile.interpreter.rings import Ring, Turn
from libtile.interpreter.views import TensorView
from libtile.ir.tile_form import OP_CLASSES

POINTERS, PLACES = "tile<4x!nv_tileaa.ptr<f32, 1>>", "tile<4x1x!nv_tileaa.ptr<f32, 1>>"
BUFFER, RING = (
    "!nv_tileas.buffer<4x8xf32, shared>",
    "!nv_tileas.pipeline<2, (!nv_tileas.buffer<4xf32, shared>), mbarrier>",
)
PLACE = f"!nv_tileas.pipeline_iterator<{RING}>"
MEMREF = "!nv_tileaa.memref<?x8xf32, strides=[8,1], 1>"
VIEW = f"!nv_tileaa.tiled_view<{MEMREF}, 4x8>"
FORMS = [
    f"nv_tileaa.addptr %pp, %four : {POINTERS}, tile<4xi32> -> {POINTERS}",
    f"nv_tileaa.make_memref %m, %8 : !nv_tileaa.ptr<f32, 1>, index -> {MEMREF}",
    f"nv_tileaa.block_tile %memref {{tileSizes = array<i64: 4, 8>, dimGroups = [array<i64: 0>, array<i64: 1>]}} "
    f": {MEMREF} -> {VIEW}",
    f"nv_tileaa.bitcast %pp : {POINTERS} -> tile<4x!nv_tileaa.ptr<i32, 1>>",
    f"nv_tileaa.splat %m : !nv_tileaa.ptr<f32, 1> -> {POINTERS}",
    f"nv_tileaa.broadcast %p1 : {PLACES} -> tile<4x8x!nv_tileaa.ptr<f32, 1>>",
    f"nv_tileaa.expand_dims %pp {{axes = array<i64: 1>}} : {POINTERS} -> {PLACES}",
    f"nv_tileas.expand_dims %pp {{axes = array<i64: 1>}} : {POINTERS} -> {PLACES}",
    f"nv_tileaa.view %pp : {POINTERS} -> tile<2x2x!nv_tileaa.ptr<f32, 1>>",
    f"nv_tileas.view %pp : {POINTERS} -> tile<2x2x!nv_tileaa.ptr<f32, 1>>",
    f"nv_tileas.view %b : {BUFFER} -> !nv_tileas.buffer<32xf32, shared>",
    f"nv_tileas.reinterpret %b : {BUFFER} -> !nv_tileas.buffer<4x8xi32, shared>",
    f"nv_tileas.extract_slice %b {{offsets = array<i64: 0, 0>}} : {BUFFER} -> !nv_tileas.buffer<4x4xf32, shared>",
    f"nv_tileas.insert_slice %ones, %b {{offsets = array<i64: 0, 0>}} : tile<4x4xf32>, {BUFFER} -> {BUFFER}",
    f"nv_tileaa.permute %p1 {{permutation = array<i64: 1, 0>}} : {PLACES} -> tile<1x4x!nv_tileaa.ptr<f32, 1>>",
    f"nv_tileaa.extract %pp[%0] : {POINTERS}, index -> tile<2x!nv_tileaa.ptr<f32, 1>>",
    f"nv_tileaa.extract_slice %pp {{offsets = array<i64: 1>}} : {POINTERS} -> tile<2x!nv_tileaa.ptr<f32, 1>>",
    f"nv_tileas.extract_slice %pp {{offsets = array<i64: 1>}} : {POINTERS} -> tile<2x!nv_tileaa.ptr<f32, 1>>",
    f"nv_tileas.reinterpret %pp : {POINTERS} -> {POINTERS}",
    f"nv_tileas.convert_layout %pp : {POINTERS} -> {POINTERS}",
    f"nv_tileas.shuffle %pp : {POINTERS} -> {POINTERS}",
    f"nv_tileaa.assume %pp {{predicates = [#nv_tileaa.div_by<4>]}} : {POINTERS} -> {POINTERS}",
    f"tensor.extract %pp[%0] : {POINTERS}",
    f"nv_tileaa.conv_tile %memref {{tileSizes = array<i64: 4, 8>, dimGroups = [array<i64: 0>, array<i64: 1>], "
    "filterSizes = array<i64: 3>, conv_params = #nv_tileaa.conv_params<pad_lower=[1], pad_upper=[1], stride=[1], "
    "dilation=[1]>, "
    f"channelAxis = 1}} : {MEMREF} -> {VIEW}",
    f"nv_tileas.async.pipeline.inc_iter %first : !nv_tileas.pipeline_iterator<{RING}> -> "
    f"!nv_tileas.pipeline_iterator<{RING}>",
]  # fmt: skip
"""Ops of the inner dialects on memory."""
SEVERAL = {
    "arith.select": "chooses one of two",
    "nv_tileaa.cat": "has pointers of two",
    "nv_tileaa.insert_slice": "has pointers of two",
    "nv_tileas.async.pipeline.create_pipeline": "its stages lie in a buffer for each value",
    "cuda_tile.cat": "has pointers of two",
    "cuda_tile.select": "chooses one of two",
    "cuda_tile.ptr_to_int": "numbers",
}
"""Ops that do not say whose memory their result names, and why."""


def is_memory(type_: Attribute) -> bool:
    """Whether values of a type name memory, or stages of pipelines."""
    element = getattr(type_, "element_type", None)
    named = PtrType | PointerType | MemRefType | TiledViewType
    return isinstance(type_, named) or isinstance(element, named) or type_.name in (
        "nv_tileas.buffer", "nv_tileas.pipeline", "nv_tileas.pipeline_iterator", "nv_tileas.producer_token",
        "nv_tileas.consumer_token", "cuda_tile.tensor_view", "cuda_tile.partition_view", "cuda_tile.strided_view",
        "cuda_tile.gather_scatter_view",
    )  # fmt: skip


def place(block: Any, value: Any, type_: Attribute) -> frozenset[int]:
    """What a value lies in: allocations, arrays behind buffers, rings."""
    if isinstance(value, Buffer):
        data = value.data
        while data.base is not None:
            data = data.base
        return frozenset({id(data)})
    if isinstance(value, tuple) and value and isinstance(value[0], Ring):
        value = value[0]
    if isinstance(value, Turn):
        value = value.ring
    if isinstance(value, Ring):
        return frozenset({id(value)})
    value = getattr(value, "memory", value)  # a convolution is a tensor, and how a filter goes over it
    addresses = [value.base] if isinstance(value, TensorView) else np.asarray(value).reshape(-1)
    return frozenset(id(block.memory.find(int(address))) for address in addresses)


Places = dict[SSAValue, frozenset[int]]


def places_of(module: Operation, kernel: str, **options: Any) -> Places:
    """Where what the ops of a module gave lay when it ran."""
    found: Places = {}
    keep: list[Any] = []

    def seen(block: Any, op: Operation, values: Any) -> None:
        for result, value in zip(op.results, values):
            if is_memory(result.type):
                keep.append(value)
                found[result] = place(block, value, result.type)

    libtile.run(Module(module), kernel, trace=seen, **options)
    return found


def check(places: Places) -> set[str]:
    """Hold what is declared against where values lie; the names of the ops that gave memory of an operand's."""
    naming = set()
    for result, where in places.items():
        op = result.owner
        assert isinstance(op, Operation)
        before = renamed(result)
        given = [value for value in op.operands if value in places]
        if before is not None and before in places:
            assert where <= places[before], f"{op.name} is declared to name the memory of {before.name_hint}"
            naming.add(op.name)
        elif before is None and op.name not in SEVERAL and control_flow(op) is None:
            assert all(where.isdisjoint(places[value]) for value in given), (
                f"{op.name} names memory and does not say so"
            )
    return naming


def inner_program() -> str:
    forms = "\n".join(f"  %r{n} = {form}" for n, form in enumerate(FORMS))
    return f"""nv_tileaa.func @k(%a: !nv_tileaa.ptr<f32, 1>, %other: !nv_tileaa.ptr<f32, 1>) {SPEC} {{
  %0 = arith.constant 0 : index
  %8 = arith.constant 8 : index
  %four = nv_tileaa.constant {{value = dense<4> : !cuda_tile.tile<4xi32>}} : tile<4xi32>
  %ones = nv_tileaa.constant {{value = dense<1.0> : !cuda_tile.tile<4x4xf32>}} : tile<4x4xf32>
  %zeros = nv_tileaa.constant {{value = dense<0.0> : !cuda_tile.tile<4x8xf32>}} : tile<4x8xf32>
  %m = nv_tileaa.assume %a {{predicates = [#nv_tileaa.div_by<4>]}} : !nv_tileaa.ptr<f32, 1> -> !nv_tileaa.ptr<f32, 1>
  %pp = nv_tileaa.splat %m : !nv_tileaa.ptr<f32, 1> -> {POINTERS}
  %p1 = nv_tileaa.expand_dims %pp {{axes = array<i64: 1>}} : {POINTERS} -> {PLACES}
  %memref = nv_tileaa.make_memref %m, %8 : !nv_tileaa.ptr<f32, 1>, index -> {MEMREF}
  %b = nv_tileas.alloc_tensor : {BUFFER}
  %c = nv_tileas.alloc_tensor : {BUFFER}
  nv_tileas.copy %zeros, %b : tile<4x8xf32>, {BUFFER}
  %ring = nv_tileas.async.pipeline.create_pipeline : {RING}
  %first = nv_tileas.async.pipeline.create_iterator %ring : {RING} -> !nv_tileas.pipeline_iterator<{RING}>
{forms}
  nv_tileaa.return
}}"""


TILE = """cuda_tile.module @m {
  global @g <f32: [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]> : tile<8xf32>
  global @h <f32: [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]> : tile<8xf32>
  entry @k() {
    %0 = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %p = get_global @g : tile<ptr<f32>>
    %q = get_global @h : tile<ptr<f32>>
    %o = offset %p, %one : tile<ptr<f32>>, tile<i32> -> tile<ptr<f32>>
    %r = reshape %p : tile<ptr<f32>> -> tile<1x1xptr<f32>>
    %w = broadcast %r : tile<1x1xptr<f32>> -> tile<4x2xptr<f32>>
    %t = permute %w [1, 0] : tile<4x2xptr<f32>> -> tile<2x4xptr<f32>>
    %e = extract %t[%0, %0] : tile<2x4xptr<f32>> -> tile<1x4xptr<f32>>
    %i = ptr_to_ptr %p : tile<ptr<f32>> -> tile<ptr<i32>>
    %a = assume div_by<4>, %p : tile<ptr<f32>>
    %v = make_tensor_view %p, shape = [8], strides = [1] : tensor_view<8xf32, strides=[1]>
    %pv = make_partition_view %v : partition_view<tile=(4), tensor_view<8xf32, strides=[1]>>
    %sv = make_strided_view %v : strided_view<tile=(4), traversal_strides=[2], tensor_view<8xf32, strides=[1]>>
    %c = constant <i1: true> : tile<i1>
    %s = select %c, %p, %q : tile<i1>, tile<ptr<f32>>
    return
  }
}
"""


def parsed(text: str) -> Operation:
    module = parse(text, "k.mlir")
    assert diagnose(module) == []
    return module


NOT_SEEN = {
    "nv_tileas.alloc_tensor": "only places of buffers lie in a pipeline's stages: the interpreter's have storage apart",
    "cuda_tile.make_gather_scatter_view": "as make_strided_view",
}
"""Ops that say whose memory they name, which no program here shows, and why."""


def is_declared(cls: type[Operation]) -> bool:
    return any(isinstance(trait, NamesMemoryOf) for trait in cls.traits)


def test_ops_of_the_inner_dialects_name_the_memory_that_they_say() -> None:
    naming = check(places_of(parsed(inner_program()), "k", args=[np.zeros(512, np.float32)] * 2))
    turns = parsed((DOCUMENTS / "turns.mlir").read_text())
    memory = [np.zeros(640, np.float32), 640, 1, np.zeros(640, np.float32), 640, 1]
    naming |= check(places_of(turns, "turns", args=[*memory, 10]))
    declared = {name for name in names() if is_declared(OP_CLASSES[name])}
    declared |= {cls.name for cls in (*tensor.OPS, *arith.OPS) if is_declared(cls)}
    assert naming == declared - set(NOT_SEEN)


def test_ops_of_cuda_tile_name_the_memory_that_they_say() -> None:
    naming = check(places_of(parsed(TILE), "k"))
    declared = {OPS[name].name for name in OPS if is_declared(OPS[name])}
    assert naming == declared - set(NOT_SEEN)


@pytest.mark.parametrize("name", names())
def test_every_op_that_gives_memory_says_whose_it_is(name: str) -> None:
    """An op of a sample that takes memory and gives some names that of an operand, or is of several, on a list."""
    for op in program(name).walk():
        if op.regions or isinstance(op, scf.YieldOp):
            continue
        for result in op.results[:1]:
            if is_memory(result.type) and any(is_memory(v.type) for v in op.operands) and op.name not in SEVERAL:
                assert renamed(result) is not None, op.name


def test_names_of_one_buffer_are_found_from_any_of_them() -> None:
    module = parsed(inner_program())
    (buffer,) = (op.results[0] for op in module.walk() if op.results and op.results[0].name_hint == "b")
    found = other_names(buffer)
    assert {value.owner.name for value in found} == {
        "nv_tileas.alloc_tensor", "nv_tileas.view", "nv_tileas.reinterpret", "nv_tileas.extract_slice",
        "nv_tileas.insert_slice",
    }  # fmt: skip
    assert all(first_name(value) is buffer for value in found)
    parts = [value for value in found if first_name(value, parts=False) is not buffer]
    assert [value.owner.name for value in parts] == ["nv_tileas.extract_slice"]
