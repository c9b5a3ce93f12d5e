# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""No attribute of an op of a compiled kernel is dropped without a word when LLVM IR is made of it.

A kernel is compiled down to nv_tileas; each attribute that an op of it declares is changed there: the code, the tensor
maps or the remarks change, or the change is refused where the op stands, or there is a reason in the legality table or
below.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from test_every_attribute import kernel as kernel_around
from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, FloatAttr, IntegerAttr, ModuleOp, StringAttr, UnitAttr, i1
from xdsl.ir import Attribute
from xdsl.utils.exceptions import VerifyException

import libtile
from libtile.asm import parse
from libtile.compiler.remarking import collect
from libtile.dialects.nv_tileaa.attributes import KeywordAttr
from libtile.ir.grouped_op import SEGMENTS
from libtile.ir.tile_form import TileOp
from libtile.lowering.tileas.copies.recipes import recipes
from libtile.lowering.tileas.memory.missing_barriers import check_barriers
from libtile.lowering.to_llvm.conversion import convert_module
from libtile.lowering.to_llvm.legality import HONOURED, INFORMATION
from libtile.support.diagnostics import LoweringError
from libtile.targets import target

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
KERNELS = [
    ("gemm", "sm_90"), ("gemm", "sm_100"), ("attention", "sm_80"), ("prefix_sum", "sm_120"), ("histogram", "sm_90"),
]  # fmt: skip
DEFAULTS = {
    "rounding_mode": ("nearest_even", "full", "nearest_int_to_zero", None),
    "propagate_nan": ("none",),
    "cache_modifier": ("none", "wb", "ca"),
    "eviction_policy": ("none", "normal"),
    "mem_semantic": ("weak", None),
}
"""Keywords that say what holds without the attribute; None for its absence."""
SAME_CODE = {
    **{
        (f"nv_tileas.{name}", "mem_scope"): "a cluster's scope is that of the device"
        for name in ("atomic_rmw", "atomic_cas", "tiled_atomic_rmw")
    },
    **{
        (f"nv_tileas.{name}", "masked"): "all dimensions are, as without it"
        for name in ("tiled_atomic_rmw", "multimem_load_reduce", "multimem_reduce", "multimem_store")
    },
    ("nv_tileaa.make_range", "start"): "it is 0, as without it",
    ("nv_tileas.alloc_tensor", "alignment"): "the place that was chosen is a multiple of it",
    ("nv_tileas.make_tiled_tma_desc", "padding_value"): "without one the map fills with zeros",
    ("nv_tileas.make_tiled_tma_desc", "on_device"): "a descriptor of the host's function is the host's",
    ("nv_tileas.make_tiled_tma_desc", "layout"): "the atom's swizzle is that of the layout",
    ("nv_tileas.tiled_load", "padding_value"): "repeats what the view pads with",
    ("nv_tileas.tiled_store", "padding_value"): "says of a store that it may reach outside, as its bounds do",
    ("nv_tileas.async.wait", "pending"): "none pending is what is waited for without it",
}
"""Attributes whose change is no change for some op of these kernels, with the reason."""


SAMPLES = [
    "atomic_cas", "store", "tiled_atomic_rmw", "multimem_load_reduce", "multimem_reduce", "multimem_store", "pragma",
    "expand_dims", "scaled_dot",
]  # fmt: skip
"""Ops of nv_tileaa whose samples (test_every_attribute.py) are compiled down to ops that no kernel above has."""


@cache
def text_of(name: str, gpu: str) -> str:
    if name in SAMPLES:
        given = kernel_around(f"nv_tileaa.{name}")
        assert given is not None
        return libtile.compile(parse(given), gpu, emit="tileas").tileas
    return libtile.compile(EXAMPLES / f"{name}.bc", gpu, emit="tileas").tileas


def outcome(module: ModuleOp, gpu: str) -> tuple[str, str, str]:
    """The LLVM IR of a module, the tensor maps that its host makes, and its remarks."""
    code = convert_module(module, target(gpu)).text()
    check_barriers(module, target(gpu))
    return code, str(recipes(module)), "\n".join(map(str, collect(module, target(gpu))))


def others(op: TileOp, name: str) -> Iterator[Attribute | None]:
    """Other values for an attribute of an op; None for its absence."""
    given, cls = op.properties.get(name), op.property_class(name)
    if given is not None:
        yield None
    if cls is not None and issubclass(cls, KeywordAttr):
        yield from (cls(k) for k in cls.keywords if not isinstance(given, KeywordAttr) or k != given.keyword)
    elif cls is UnitAttr and given is None:
        yield UnitAttr()
    elif isinstance(given, IntegerAttr):
        yield IntegerAttr(given.value.data + 1 if given.type != i1 else 1 - given.value.data & 1, given.type)
    elif isinstance(given, DenseArrayBase):
        values = list(given.get_values())
        for at in range(len(values)):
            changed = [*values[:at], int(not values[at]) if given.elt_type == i1 else values[at] + 1, *values[at + 1 :]]
            yield DenseArrayBase.from_list(given.elt_type, changed)
    elif isinstance(given, ArrayAttr):
        for at, value in enumerate(given.data):
            if isinstance(value, IntegerAttr | FloatAttr):
                yield ArrayAttr(
                    [*given.data[:at], type(value)(value.value.data + 1, value.type), *given.data[at + 1 :]]
                )
    elif isinstance(given, StringAttr):
        yield StringAttr(f"{given.data}x")


def is_said(op: TileOp, name: str, value: Attribute | None) -> bool:
    """Whether the same code is right for another value."""
    keyword = value.keyword if isinstance(value, KeywordAttr) else None
    if name in DEFAULTS and keyword in DEFAULTS[name] and (value is None) == (keyword is None):
        return True
    informs = name in INFORMATION and name not in HONOURED.get(type(op), ())
    return informs or (op.name, name) in SAME_CODE


@pytest.mark.parametrize(("kernel", "gpu"), [*KERNELS, *((name, "sm_90") for name in SAMPLES)])
def test_an_attribute_changes_the_code_or_is_refused_or_need_not(kernel: str, gpu: str) -> None:
    module = parse(text_of(kernel, gpu))
    assert isinstance(module, ModuleOp)
    before, seen, problems = outcome(module, gpu), set(), []
    for op in module.walk():
        if not isinstance(op, TileOp):
            continue
        for name in op.get_irdl_definition().properties:
            if name in (SEGMENTS, "sym_name", "value", "function_type", "kernel_spec") or (op.name, name) in seen:
                continue
            seen.add((op.name, name))
            given = op.properties.get(name)
            for value in others(op, name):
                if value is None:
                    del op.properties[name]
                else:
                    op.properties[name] = value
                try:
                    op.verify_()
                    if outcome(module, gpu) == before and not is_said(op, name, value):
                        problems.append(f"{op.name}: {name} = {value} is dropped")
                except VerifyException:
                    pass
                except LoweringError as refused:
                    if refused.location is None and "op " not in str(refused):
                        problems.append(f"{op.name}: {name} = {value} is refused without a place: {refused}")
                finally:
                    if given is None:
                        op.properties.pop(name, None)
                    else:
                        op.properties[name] = given
    assert outcome(module, gpu) == before
    assert not problems, "\n".join(problems)
