# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# ruff: noqa: E501 - types are long
"""Kernels of nv_tileas written by hand: a producer agent that copies by TMA, and consumer warpgroups that multiply."""

from __future__ import annotations

import re
import subprocess
import tempfile
from dataclasses import dataclass

from libtile.atoms import tma, wgmma
from libtile.atoms.cp_async import operand_shared_layout
from libtile.dialects.nv_tileas.layout import LayoutAttr
from libtile.layouts.linear import LinearLayout
from libtile.lowering.to_tileas.shape_layouts import scalar_layout
from libtile.numerics.elements import STORAGE_BYTES
from oracle import require_tool


def text(layout: LinearLayout) -> str:
    return str(LayoutAttr(layout))


@dataclass(frozen=True)
class Gemm:
    """c (m x n) = a (m x k) b (k x n), in tiles; b is stored n x k where `transposed`."""

    rows: int = 128
    columns: int = 256
    depth: int = 64
    stages: int = 4
    element: str = "f16"
    accumulator: str = "f32"
    types: tuple[str, str, str] = ("f16", "f16", "f32")
    groups: int = 2
    registers: str = "[232, 40]"
    transposed: bool = False
    overlapped: bool = True

    @property
    def text(self) -> str:
        m, n, k, element, acc = self.rows, self.columns, self.depth, self.element, self.accumulator
        warps = 4 * self.groups
        scalar = text(scalar_layout(warps))
        size = STORAGE_BYTES[element]
        result = text(wgmma.accumulator_layout((m, n), warps))
        shared_a = operand_shared_layout((m, k), element)
        shared_b = operand_shared_layout((k, n), element, 0 if self.transposed else 1)
        whole_b = operand_shared_layout((n, k) if self.transposed else (k, n), element)
        boxes = [tma.boxes(shared_a, 1, size), tma.boxes(shared_b, 0 if self.transposed else 1, size)]
        (box_a, box_b) = (str(list(b.box)) for b in boxes)
        of_type = wgmma.find(wgmma_target(), *self.types, m, n, k)
        a = f"!nv_tileas.buffer<{m}x{k}x{element}, shared, {text(shared_a)}>"
        b = f"!nv_tileas.buffer<{k}x{n}x{element}, shared, {text(shared_b)}>"
        pipe = f"!nv_tileas.pipeline<{self.stages}, ({a}, {b}), mbarrier>"
        place, ready, held = f"!nv_tileas.pipeline_iterator<{pipe}>", *(
            f"!nv_tileas.{side}_token<({a}, {b})>" for side in ("producer", "consumer")
        )  # fmt: skip
        memref = f"!nv_tileaa.memref<?x?x{element}, strides=[?,1], 1>"
        out = f"!nv_tileaa.memref<?x?x{acc}, strides=[?,1], 1>"
        view = f"!nv_tileaa.tiled_view<{out}, {m}x{n}, #nv_tileaa.tiling<dim_map=[0,1]>>"
        maps = [f"!nv_tileas.tma_desc<{memref}, {box}>" for box in (box_a, box_b)]
        tile = f"tile<{m}x{n}x{acc}, {result}>"
        atom = f"#nv_tileas.mma_atom<wgmma, 64x{of_type.n}x{of_type.k}, {', '.join(self.types)}>"
        signs = (
            ", signedness_a = #nv_tileaa.signedness<signed>, signedness_b = #nv_tileaa.signedness<signed>"
            if element == "i8"
            else ""
        )
        index_b = "%x1, %k0" if self.transposed else "%k0, %x1"
        dims = ", dim_map = array<i64: 1, 0>" if self.transposed else ""
        zero = "0" if acc == "i32" else "0.0"
        step = self._overlapped if self.overlapped else self._serial
        names = {
            "pipe": pipe,
            "place": place,
            "held": held,
            "tile": tile,
            "tensor": f"tensor{tile[4:]}",
            "a": a,
            "b": b,
            "atom": atom,
            "signs": signs,
            "buffers": f"{a}, {b}",
        }
        consume = step(**names)
        return f"""
nv_tileaa.func @gemm(%pa: tile<!nv_tileaa.ptr<{element}, 1>, {scalar}>, %pb: tile<!nv_tileaa.ptr<{element}, 1>, {scalar}>,
    %pc: tile<!nv_tileaa.ptr<{acc}, 1>, {scalar}>, %m: tile<i32, {scalar}>, %n: tile<i32, {scalar}>, %k: tile<i32, {scalar}>)
    attributes {{kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps={warps}, num_ctas=1, target=sm_90>}} {{
  %a0 = tensor.extract %pa[] : tensor<!nv_tileaa.ptr<{element}, 1>, {scalar}>
  %b0 = tensor.extract %pb[] : tensor<!nv_tileaa.ptr<{element}, 1>, {scalar}>
  %c0 = tensor.extract %pc[] : tensor<!nv_tileaa.ptr<{acc}, 1>, {scalar}>
  %m0 = tensor.extract %m[] : tensor<i32, {scalar}>
  %n0 = tensor.extract %n[] : tensor<i32, {scalar}>
  %k1 = tensor.extract %k[] : tensor<i32, {scalar}>
  %mi = arith.index_cast %m0 : i32 to index
  %ni = arith.index_cast %n0 : i32 to index
  %ki = arith.index_cast %k1 : i32 to index
  %ma = nv_tileaa.make_memref %a0, %mi, %ki, %ki {{divisibility = array<i64: 16>}} : !nv_tileaa.ptr<{element}, 1>, index, index, index -> {memref}
  %mb = nv_tileaa.make_memref %b0, {"%ni, %ki, %ki" if self.transposed else "%ki, %ni, %ni"} {{divisibility = array<i64: 16>}} : !nv_tileaa.ptr<{element}, 1>, index, index, index -> {memref}
  %mc = nv_tileaa.make_memref %c0, %mi, %ni, %ni {{divisibility = array<i64: 16>}} : !nv_tileaa.ptr<{acc}, 1>, index, index, index -> {out}
  %da = nv_tileas.make_tiled_tma_desc %ma {{atom = #nv_tileas.copy_atom<tma_load, box={box_a.replace(" ", "")}>, tmaIdx = 0, layout = {text(shared_a)}}} : {memref} -> {maps[0]}
  %db = nv_tileas.make_tiled_tma_desc %mb {{atom = #nv_tileas.copy_atom<tma_load, box={box_b.replace(" ", "")}>, tmaIdx = 1, layout = {text(whole_b)}}} : {memref} -> {maps[1]}
  %bx = nv_tileaa.get_program_id {{axis = 0}} : index
  %by = nv_tileaa.get_program_id {{axis = 1}} : index
  %rows = arith.constant {m} : index
  %columns = arith.constant {n} : index
  %depth = arith.constant {k} : index
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %x0 = arith.muli %bx, %rows : index
  %x1 = arith.muli %by, %columns : index
  %more = arith.constant {k - 1} : index
  %padded = arith.addi %ki, %more : index
  %steps = arith.divui %padded, %depth : index
  %pipe = nv_tileas.async.pipeline.create_pipeline {{alignment = 1024}} : {pipe}
  %none = nv_tileaa.constant {{value = dense<{zero}> : !cuda_tile.tile<{m}x{n}x{acc}>}} : {tile}
  nv_tileas.async.pipeline.agent_switch {{agent_warps = [{warps}, 4], agent_registers = {self.registers}, agent_elected = [0, 1]}} ({{
    %first = nv_tileas.async.pipeline.create_iterator %pipe : {pipe} -> {place}
{consume}
    %view = nv_tileaa.block_tile %mc {{dimGroups = [array<i64: 0>, array<i64: 1>], tileSizes = array<i64: {m}, {n}>}} : {out} -> {view}
    %w = nv_tileas.tiled_store %view[%bx, %by], %result {{mem_semantic = #nv_tileaa.mem_semantic<weak>}} : {view}, {tile}, index, index -> !nv_tileaa.mem_token
    nv_tileas.async.pipeline.yield
  }}, {{
    %first = nv_tileas.async.pipeline.create_iterator %pipe : {pipe} -> {place}
    %last = scf.for %i = %zero to %steps step %one iter_args(%it = %first) -> ({place}) {{
      %k0 = arith.muli %i, %depth : index
      %t0 = nv_tileas.async.pipeline.producer_acquire %pipe, %it : {pipe}, {place} -> {ready}
      %t1 = nv_tileas.async.pipeline.producer_write %t0, %it ({{
      ^bb0(%la: {a}, %lb: {b}):
        %c1 = nv_tileas.async.tiled_tma_load %da[%x0, %k0], %la {{atom = #nv_tileas.copy_atom<tma_load, box={box_a.replace(" ", "")}>, tmaIdx = 0}} : {maps[0]}, index, index, {a} -> !nv_tileas.async_token
        %c2 = nv_tileas.async.tiled_tma_load %db[{index_b}], %lb {{atom = #nv_tileas.copy_atom<tma_load, box={box_b.replace(" ", "")}>, tmaIdx = 1{dims}}} : {maps[1]}, index, index, {b} -> !nv_tileas.async_token
        nv_tileas.async.pipeline.yield
      }}) : {ready}, {place} -> {ready}
      nv_tileas.async.pipeline.producer_commit %t1 : {ready}
      %next = nv_tileas.async.pipeline.inc_iter %it : {place} -> {place}
      scf.yield %next : {place}
    }}
    nv_tileas.async.pipeline.yield
  }})
  nv_tileaa.return
}}
"""

    def _step(self, tag: str, at: str, given: str, **n: str) -> str:
        """One step: wait for the stage, and issue its products."""
        return f"""
      %w{tag} = nv_tileas.async.pipeline.consumer_wait %pipe, {at} : {n["pipe"]}, {n["place"]} -> {n["held"]}
      %r{tag}, %d{tag} = nv_tileas.async.pipeline.consumer_read %w{tag}, {at} ({{
      ^bb0(%sa: {n["a"]}, %sb: {n["b"]}):
        %p = nv_tileas.async.dot %sa, %sb, {given} {{atom = {n["atom"]}{n["signs"]}}} : {n["buffers"]}, {n["tile"]} -> {n["tile"]}
        nv_tileas.async.pipeline.yield %p : {n["tile"]}
      }}) : {n["held"]}, {n["place"]} -> {n["held"]}, {n["tile"]}"""

    def _wait(self, result: str, given: str, pending: int, tile: str) -> str:
        return f"""
      {result} = nv_tileas.wait_dot %{given} {{pending = {pending}}} : {tile} -> {tile}"""

    def _serial(self, **n: str) -> str:
        """Each step waits for its own products."""
        return f"""
    %end:2 = scf.for %i = %zero to %steps step %one iter_args(%it = %first, %acc = %none) -> ({n["place"]}, {n["tensor"]}) {{
      {self._step("0", "%it", "%acc", **n)}{self._wait("%done", "d0", 0, n["tile"])}
      nv_tileas.async.pipeline.consumer_release %r0 : {n["held"]}
      %next = nv_tileas.async.pipeline.inc_iter %it : {n["place"]} -> {n["place"]}
      scf.yield %next, %done : {n["place"]}, {n["tensor"]}
    }}
    %result = nv_tileas.wait_dot %end#1 {{pending = 0}} : {n["tile"]} -> {n["tile"]}
"""

    def _overlapped(self, **n: str) -> str:
        """The products of a step are waited for in the next one, which releases their stage; there is a first step."""
        return f"""{self._step("0", "%first", "%none", **n)}
    %second = nv_tileas.async.pipeline.inc_iter %first : {n["place"]} -> {n["place"]}
    %end:3 = scf.for %i = %one to %steps step %one iter_args(%it = %second, %acc = %d0, %before = %r0) -> ({n["place"]}, {n["tensor"]}, {n["held"]}) {{
      {self._step("1", "%it", "%acc", **n)}{self._wait("%done", "d1", 1, n["tile"])}
      nv_tileas.async.pipeline.consumer_release %before : {n["held"]}
      %next = nv_tileas.async.pipeline.inc_iter %it : {n["place"]} -> {n["place"]}
      scf.yield %next, %done, %r1 : {n["place"]}, {n["tensor"]}, {n["held"]}
    }}
    %result = nv_tileas.wait_dot %end#1 {{pending = 0}} : {n["tile"]} -> {n["tile"]}
    nv_tileas.async.pipeline.consumer_release %end#2 : {n["held"]}
"""


def wgmma_target():
    from libtile.targets import target

    return target("sm_90")


def loops_of(cubin: bytes) -> list[list[str]]:
    """The instructions of each loop of a cubin's code."""
    tool = require_tool("nvdisasm")
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        text = subprocess.run([tool, "-hex", "-c", file.name], capture_output=True, text=True, check=True).stdout
    lines: list[str] = []
    labels: dict[str, int] = {}
    for line in text.splitlines():
        if label := re.match(r"\s*(\.L_x?_?\w+):", line):
            labels[label[1]] = len(lines)
        elif found := re.match(r"\s*/\*[0-9a-f]{4,}\*/\s+(.*?;)", line):
            lines.append(found[1])
    loops = []
    for end, line in enumerate(lines):
        target = re.search(r"\bBRA\b.*`\((\.L\w+)\)", line)
        if target and labels.get(target[1], end + 1) <= end:
            loops.append(lines[labels[target[1]] : end + 1])
    return loops
