# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Order, lifetime and facts. A program runs in its own order here, so that a token has nothing to say."""

from __future__ import annotations

from typing import Any

import numpy as np

from libtile.dialects.nv_tileaa import assumptions
from libtile.dialects.nv_tileaa.types import MemRefType
from libtile.interpreter import misc
from libtile.interpreter.faults import Fault, FaultKind
from libtile.interpreter.formats import element
from libtile.interpreter.inner_rules import Run, Site, effect, pure
from libtile.interpreter.integer import signed
from libtile.ir.tile_form import TileOp


@pure("nv_tileaa.create_mem_token")
def create_mem_token(site: Site) -> Run:
    return lambda: None


@pure("nv_tileaa.join_mem_token")
def join_mem_token(site: Site) -> Run:
    return lambda tokens: None


@pure("nv_tileaa.gdc_launch_dependents", "nv_tileaa.gdc_wait", "nv_tileaa.memory_fence_alias")
def token_step(site: Site) -> Run:
    """One kernel runs at a time, and memory has no caches or aliases."""
    count = len(site.op.results)
    return lambda token: (None,) * count


@pure("nv_tileaa.mark_for_reuse")
def mark_for_reuse(site: Site) -> Run:
    return lambda values: ()


@pure("nv_tileaa.optimization_barrier")
def optimization_barrier(site: Site) -> Run:
    return lambda values: values


@pure("nv_tileaa.message")
def message(site: Site) -> Run:
    """It is the compiler's, for its user: running has nothing to add."""
    return lambda: ()


@effect("nv_tileaa.assert")
def assert_(site: Site) -> Run:
    check = misc.assertion(site.op, site.attr("message"))

    def run(block: Any, condition: Any) -> tuple:
        check(block, condition)
        return ()

    return run


@effect("nv_tileaa.print")
def print_(site: Site) -> Run:
    op = site.op
    assert isinstance(op, TileOp)
    parts, types = misc.split_format(site.attr("format")), [v.type for v in op.group("values")]
    elements = [element(t) for t in types]
    if sum(not isinstance(p, str) for p in parts) != len(elements):
        raise Fault(FaultKind.FORMAT, f"the format takes another number of values than the {len(elements)} given")
    count = len(op.results)

    def run(block: Any, values: tuple, token: None) -> tuple:
        given = iter(zip(values, elements))
        text = "".join(p if isinstance(p, str) else misc.format_tile(p, *next(given)) for p in parts)
        block.launch.write(text)
        return (None,) * count

    return run


@pure("nv_tileaa.assume")
def assume(site: Site) -> Run:
    if not site.on("assume"):
        return lambda value: value
    predicates, type_ = site.attr("predicates").data, site.type_of("value")

    def run(value: Any) -> Any:
        for predicate in predicates:
            _check(predicate, value, type_)
        return value

    return run


def _check(predicate: Any, value: Any, type_: Any) -> None:
    """A fault when a value breaks what is assumed of it."""
    match predicate:
        case assumptions.DivByAttr() if isinstance(type_, MemRefType):
            if value.base % predicate.divisor:
                raise misc.broken(predicate, f"the base address {value.base:#x}", None)
        case assumptions.DivByAttr():
            misc.check_divisible(predicate, value, element(type_))
        case assumptions.BoundedAttr():
            misc.check_bounded(predicate, value, element(type_))
        case assumptions.SameElementsAttr():
            misc.check_same(predicate, np.asarray(signed(value, element(type_))))
