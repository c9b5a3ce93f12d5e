# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The ops of arith, math and tensor that stand beside those of the inner dialects: integers, on scalars and tiles."""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, FloatAttr, IntegerAttr

from libtile.dialects.arith import IntegerOverflowAttr, IntegerOverflowFlag
from libtile.interpreter.faults import Fault, FaultKind
from libtile.interpreter.formats import Array
from libtile.interpreter.inner_rules import RULES, Run, Site, made_by, pure, same
from libtile.interpreter.integer import signed, unsigned, wrap
from libtile.support.records import replace

for _sign, _word in (("signed", "s"), ("unsigned", "u")):
    same(f"arith.div{_word}i", "divi", "lhs rhs", signedness=_sign, rounding="zero")
    same(f"arith.ceildiv{_word}i", "divi", "lhs rhs", signedness=_sign, rounding="positive_inf")
    same(f"arith.rem{_word}i", "remi", "lhs rhs", signedness=_sign)
    same(f"arith.max{_word}i", "maxi", "lhs rhs", signedness=_sign)
    same(f"arith.min{_word}i", "mini", "lhs rhs", signedness=_sign)
    same(f"arith.shr{_word}i", "shri", "lhs rhs", signedness=_sign)
    same(f"arith.ext{_word}i", "exti", "from", signedness=_sign)
same("arith.floordivsi", "divi", "lhs rhs", signedness="signed", rounding="negative_inf")
same("arith.andi", "andi", "lhs rhs")
same("arith.ori", "ori", "lhs rhs")
same("arith.xori", "xori", "lhs rhs")
same("math.absi", "absi", "source")


def _overflow(site: Site) -> str:
    """What the op promises, as Tile IR says it."""
    flags = site.op.properties.get("overflowFlags")
    given = set(flags.data) if isinstance(flags, IntegerOverflowAttr) else set()
    both = {IntegerOverflowFlag.NSW, IntegerOverflowFlag.NUW}
    if given == both:
        return "no_wrap"
    if IntegerOverflowFlag.NSW in given:
        return "no_signed_wrap"
    return "no_unsigned_wrap" if IntegerOverflowFlag.NUW in given else "none"


def _promising(name: str, rule: str, names: str) -> None:
    """Register an op with overflow flags."""
    same(name, rule, names)
    known = RULES[name]

    def make(site: Site) -> Run:
        return known.make(replace(site, given={"overflow": _overflow(site)}))

    RULES[name] = replace(known, make=make)


for _name, _rule in (("addi", "addi"), ("subi", "subi"), ("muli", "muli"), ("shli", "shli")):
    _promising(f"arith.{_name}", _rule, "lhs rhs")
_promising("arith.trunci", "trunci", "from")

_PREDICATES = (
    ("equal", "signed"), ("not_equal", "signed"),
    ("less_than", "signed"), ("less_than_or_equal", "signed"),
    ("greater_than", "signed"), ("greater_than_or_equal", "signed"),
    ("less_than", "unsigned"), ("less_than_or_equal", "unsigned"),
    ("greater_than", "unsigned"), ("greater_than_or_equal", "unsigned"),
)  # fmt: skip
"""What the numbers of `arith.cmpi`'s predicates mean (MLIR, "arith.cmpi")."""

_FLOAT_PREDICATES = (
    ("never", True), ("equal", True), ("greater_than", True), ("greater_than_or_equal", True), ("less_than", True),
    ("less_than_or_equal", True), ("not_equal", True), ("always", True), ("equal", False), ("greater_than", False),
    ("greater_than_or_equal", False), ("less_than", False), ("less_than_or_equal", False), ("not_equal", False),
    ("never", False), ("always", False),
)  # fmt: skip
"""Likewise of `arith.cmpf`: the comparison, and whether it is ordered. What holds always or never asks for NaNs."""


def _predicate(site: Site) -> int:
    value = site.op.properties["predicate"]
    assert isinstance(value, IntegerAttr)
    return value.value.data


def _with(rule: str, site: Site, **given: Any) -> Run:
    run: Run = made_by(rule)(replace(site, given=given, names=("lhs", "rhs")))
    return run


def _cmpi(site: Site) -> Run:
    comparison, sign = _PREDICATES[_predicate(site)]
    return _with("cmpi", site, comparison_predicate=comparison, signedness=sign)


def _cmpf(site: Site) -> Run:
    comparison, ordered = _FLOAT_PREDICATES[_predicate(site)]
    if comparison in ("always", "never"):

        def asked(lhs: Array, rhs: Array) -> Array:
            # Ordered comparisons are false of NaNs, unordered ones true.
            has_nan = np.isnan(lhs) | np.isnan(rhs)
            result: Array = np.where(has_nan, not ordered, comparison == "always")
            return result[()]

        return asked
    ordering = "ordered" if ordered else "unordered"
    return _with("cmpf", site, comparison_predicate=comparison, comparison_ordering=ordering)


pure("arith.cmpi", elementwise=True)(_cmpi)
pure("arith.cmpf", elementwise=True)(_cmpf)


@pure("arith.select", elementwise=True)
def select(site: Site) -> Run:
    def run(condition: Array, lhs: Array, rhs: Array) -> Array:
        result: Array = np.where(condition, lhs, rhs)
        return result[()]

    return run


@pure("arith.constant", elementwise=True)
def constant(site: Site) -> Run:
    value, elem, shape = site.op.properties["value"], site.element("result"), site.shape("result")
    match value:
        case IntegerAttr():
            held = wrap(np.array(value.value.data & ((1 << elem.width) - 1), elem.unsigned_dtype), elem)
        case FloatAttr():
            held = np.asarray(value.value.data, np.float64).astype(elem.dtype)[()]
        case DenseIntOrFPElementsAttr():
            given = np.asarray(list(value.get_values()))
            held = (wrap(given, elem) if elem.is_integer else given.astype(elem.dtype)) * np.ones(1, elem.dtype)
            held = np.broadcast_to(held, shape) if held.size == 1 else held.reshape(shape)
        case _:
            raise Fault(FaultKind.UNSUPPORTED, f"a constant of {value}")
    return lambda: held


@pure("arith.index_cast", elementwise=True)
def index_cast(site: Site) -> Run:
    """The sign is kept, that of a truth value too: `index` has 64 bits."""
    source, result = site.element("from"), site.element("result")
    return lambda value: wrap(signed(value, source), result)


@pure("arith.index_castui", elementwise=True)
def index_castui(site: Site) -> Run:
    source, result = site.element("from"), site.element("result")
    return lambda value: wrap(unsigned(value, source), result)


for _name in ("arith.index_cast", "arith.index_castui"):
    RULES[_name] = replace(RULES[_name], names=("from",))


@pure("tensor.extract")
def extract(site: Site) -> Run:
    def run(source: Array, *indices: Array) -> Array:
        return np.asarray(source)[tuple(int(i) for i in indices)]

    return run
