# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""On which memory the effects of ops of the inner dialects are, and by which value: against what the interpreter finds
changed when each op has run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from xdsl.ir import Operation
from xdsl.traits import DefaultResource, EffectInstance, MemoryEffectKind, get_effects

import libtile
from dialects.op_programs import SCALARS, kernel_of, memory_of, names, of_name, program, whole
from dialects.test_op_effects import NOT_RUN
from libtile.asm.module import Module
from libtile.dialects.effect_traits import BARRIERS, GLOBAL, SHARED, TENSOR, accessed, is_storage, meet, resource_of
from libtile.dialects.nv_tileas.types import BufferType
from libtile.ir.tile_form import OP_CLASSES

RUN = [name for name in names() if name not in NOT_RUN and not whole(name) and name in OP_CLASSES]


def written(effects: set[EffectInstance] | Any) -> set[Any]:
    return {e.resource for e in effects if e.kind in (MemoryEffectKind.WRITE, MemoryEffectKind.FREE)}


@pytest.mark.parametrize("name", RUN)
def test_what_an_op_changes_it_says_that_it_writes(name: str) -> None:
    """Global memory: what the launch gave. Storage: the arrays of buffers that the op takes."""
    module = program(name)
    args = memory_of(kernel_of(module), SCALARS.get(name, 1))
    arrays = [a for a in args if isinstance(a, np.ndarray)]
    seen: dict[Any, Any] = {"memory": [a.tobytes() for a in arrays]}
    values: dict[Any, Any] = {}
    changed: dict[Operation, set[Any]] = {}

    def trace(block: Any, op: Operation, results: Any) -> None:
        values.update(zip(op.results, results))
        found = changed.setdefault(op, set())
        memory = [a.tobytes() for a in arrays]
        if memory != seen["memory"]:
            found.add(GLOBAL)
            seen["memory"] = memory
        for value, held in values.items():
            if isinstance(value.type, BufferType):
                data = (held.data.tobytes(), held.defined.tobytes())
                before = seen.get(value)
                if value.owner is not op and before is not None and data != before:
                    found.add((resource_of(value), value))
                seen[value] = data

    libtile.run(Module(module), kernel_of(module).sym_name.data, args=args, trace=trace)
    for op in of_name(module, name):
        effects = get_effects(op)
        if effects is None:  # it ends a region
            continue
        resources = written(effects)
        for what in changed.get(op, ()):
            where = what if what is GLOBAL else what[0]
            assert where in resources or DefaultResource() in resources, (op.name, what)
        for effect in effects:  # by which value: one that the op takes or gives, of that memory
            if effect.value is not None:
                assert effect.value in (*op.operands, *op.results)
                assert effect.resource == GLOBAL or resource_of(effect.value) == effect.resource


def test_effects_of_different_memory_never_meet() -> None:
    read, write = MemoryEffectKind.READ, MemoryEffectKind.WRITE
    for one in (GLOBAL, SHARED, TENSOR, BARRIERS):
        for other in (GLOBAL, SHARED, TENSOR, BARRIERS):
            assert meet(EffectInstance(read, None, one), EffectInstance(write, None, other)) == (one is other)
        assert meet(EffectInstance(read, None, one), EffectInstance(write))


@pytest.mark.parametrize("name", names())
def test_accesses_and_copies_name_what_they_touch(name: str) -> None:
    """A weak access its pointers or view, a copy of storage the storage; others say that they may touch anything."""
    for op in of_name(program(name), name):
        effects = get_effects(op)
        if effects is None or op.regions:
            continue
        anything = DefaultResource() in {e.resource for e in effects}
        memory = accessed(op)
        if memory is not None and not anything:
            assert {(e.resource, e.value) for e in effects} == {(GLOBAL, memory)}
        if name == "nv_tileas.copy" and not anything:
            assert {e.value for e in effects} == {value for value in op.operands if is_storage(value)}
