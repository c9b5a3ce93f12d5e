# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The grid. Functions, calls and agents are control flow, which `libtile.interpreter.inner_codegen` has."""

from __future__ import annotations

from typing import Any

import numpy as np

from libtile.dialects.nv_tileaa.types import ProgramIdType
from libtile.interpreter.formats import INDEX, Array, Element, element
from libtile.interpreter.inner_rules import Run, Site, effect, pure
from libtile.interpreter.integer import wrap
from libtile.ir.tile_form import element_of

NO_PROGRAM = np.int64(-1)
"""The program id that is none."""


def _number(site: Site) -> Element:
    type_ = element_of(site.op.results[0].type)
    return INDEX if isinstance(type_, ProgramIdType) else element(type_)


@effect("nv_tileaa.get_program_id")
def get_program_id(site: Site) -> Run:
    axis, elem = site.attr("axis"), _number(site)
    return lambda block: wrap(np.int64(block.id[axis]), elem)


@effect("nv_tileaa.get_num_programs")
def get_num_programs(site: Site) -> Run:
    axis, elem = site.attr("axis"), _number(site)
    return lambda block: wrap(np.int64(block.grid[axis]), elem)


@pure("nv_tileaa.is_valid_program_id")
def is_valid_program_id(site: Site) -> Run:
    return lambda program: np.bool_(program >= 0)


@effect("nv_tileaa.cancel_next_program_id")
def cancel_next_program_id(site: Site) -> Run:
    """Every program of the grid is run by a tile block of its own here, so that none is left to take."""

    def run(block: Any) -> Array:
        return NO_PROGRAM

    return run
