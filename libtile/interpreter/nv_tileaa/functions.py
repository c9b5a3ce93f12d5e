# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The grid. Functions, calls and agents are control flow, which `libtile.interpreter.inner_codegen` has."""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.ir import Attribute

from libtile.dialects.nv_tileaa.functions import FuncOp, find_symbol
from libtile.dialects.nv_tileaa.types import DYNAMIC, MemRefType, ProgramIdType
from libtile.interpreter.faults import Fault, FaultKind
from libtile.interpreter.formats import INDEX, Array, Element, element
from libtile.interpreter.inner_rules import Run, Site, effect, pure
from libtile.interpreter.integer import wrap
from libtile.interpreter.machine import Launch, run_grid
from libtile.ir.operands import operands_of
from libtile.ir.tile_form import element_of

NO_PROGRAM = np.int64(-1)
"""The program id that is none."""


def _number(site: Site) -> Element:
    type_ = element_of(site.op.results[0].type)
    return INDEX if isinstance(type_, ProgramIdType) else element(type_)


@effect("nv_tileaa.get_program_id")
def get_program_id(site: Site) -> Run:
    """A program_id is the number of a program: along the first axis first."""
    axis, elem = site.attr("axis"), _number(site)
    if isinstance(site.op.results[0].type, ProgramIdType):

        def number(block: Any, _: None) -> Array:
            (x, y, z), (width, height, _) = block.id, block.grid
            return np.int64(x + width * (y + height * z))

        return number

    def index(block: Any, program: Array | None) -> Array:
        found = block.id[axis] if program is None else _index(int(program), axis, block.grid)
        return wrap(np.int64(found), elem)

    return index


def _index(program: int, axis: int, grid: tuple[int, int, int]) -> int:
    """The index of a program along an axis."""
    for before in range(axis):
        program //= grid[before]
    return program % grid[axis] if axis < 2 else program


@effect("nv_tileaa.get_num_programs")
def get_num_programs(site: Site) -> Run:
    axis, elem = site.attr("axis"), _number(site)
    return lambda block: wrap(np.int64(block.grid[axis]), elem)


@effect("nv_tileaa.get_cta_rank")
def get_cta_rank(site: Site) -> Run:
    elem = _number(site)
    return lambda block: wrap(np.int64(block.rank), elem)


@pure("nv_tileaa.is_valid_program_id")
def is_valid_program_id(site: Site) -> Run:
    return lambda program: np.bool_(program >= 0)


def _flat(type_: Attribute, value: Any) -> list[Any]:
    """An argument as a launch gives it: a memref is its base, and the sizes and strides that its type leaves open."""
    if not isinstance(type_, MemRefType):
        return [value]
    numbers = [(n, s) for n, s in zip((*value.shape, *value.strides), (*type_.shape, *type_.strides), strict=True)]
    return [np.int64(value.base), *(np.int64(n) for n, static in numbers if static == DYNAMIC)]


@effect("nv_tileaa.launch_func")
def launch_func(site: Site) -> Run:
    """All tile blocks of the kernel run before the host goes on."""
    name = site.attr("kernel")
    kernel, caller = find_symbol(site.op, name), site.op.parent_op()
    while caller is not None and not isinstance(caller, FuncOp):
        caller = caller.parent_op()
    assert kernel is not None  # as the verifier has it
    if caller is None or caller.is_entry:
        raise Fault(FaultKind.UNSUPPORTED, "a launch in a kernel: kernels are launched by host functions")
    program = site.compile(kernel)
    types = [value.type for value in operands_of(site.op, "arguments")]

    def run(block: Any, x: Any, y: Any, z: Any, arguments: tuple[Any, ...]) -> tuple[()]:
        grid = int(x), int(y), int(z)
        if min(grid) < 1:
            raise Fault(FaultKind.INDEX, f"the grid {grid} has no tile blocks")
        values = [part for type_, value in zip(types, arguments, strict=True) for part in _flat(type_, value)]
        launch = block.launch
        if launch.start is not None:
            launch.start(name, grid, values)
            return ()
        started = Launch(
            program, grid, launch.memory, launch.checks, launch.out, launch.races, launch.printed, launch.max_steps
        )
        block.count[0] += run_grid(started, values).ops
        return ()

    return run


@effect("nv_tileaa.cancel_next_program_id")
def cancel_next_program_id(site: Site) -> Run:
    """Every program of the grid is run by a tile block of its own here, so that none is left to take."""

    def run(block: Any) -> Array:
        return NO_PROGRAM

    return run
