# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Modules, kernels, globals, symbols, and which values an op may use."""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, FunctionType, UnitAttr
from xdsl.ir import Block, Region

from dialects.building import Body, entry, module, tile
from dialects.verify_cases.case import Cases
from libtile.dialects.cuda_tile.attributes import DenseElementsAttr
from libtile.dialects.cuda_tile.ops import CudaTileOp, build

CASES = Cases()
I32 = tile("i32")
NO_RESULTS = FunctionType.from_lists([], [])


def nothing(b: Body) -> None:
    pass


def global_(name: str = "g", shape: tuple[int, ...] = (4,), **attributes: Any) -> CudaTileOp:
    value = DenseElementsAttr(tile("f32", *shape), b"\0" * 4)
    return build("global", attributes={"sym_name": name, "value": value, **attributes})


def use(pointer: str, name: str = "g") -> CudaTileOp:
    return entry(lambda b: b.op("get_global", None, [tile(pointer)], attributes={"name": name}))


CASES.module("empty-module", lambda: build("module", attributes={"sym_name": "m"}, regions=[Region(Block())]))
CASES.module("global", lambda: module(global_(), use("ptr<f32>")))
CASES.module("private-global", lambda: module(global_(constant=True, symbol_visibility="private"), use("ptr<f32>")))
for shape in ((), (2, 2)):
    CASES.module(
        f"global-rank-{len(shape)}",
        lambda s=shape: module(global_("g", s), entry(nothing)),
        "global: type must have rank 1",
    )
CASES.module(
    "get_global-pointee",
    lambda: module(global_(), use("ptr<i32>")),
    "get_global: pointee type of result type '!cuda_tile.ptr<i32>' does not match type 'f32' of the global @g",
)
for name in ("other", "k"):
    CASES.module(
        f"get_global-{name}",
        lambda n=name: module(global_(), use("ptr<f32>", n)),
        f"get_global: '{name}' does not reference a valid global",
    )
CASES.module(
    "same-names",
    lambda: module(entry(nothing), entry(nothing)),
    "redefinition of symbol named 'k'",
)
CASES.module(
    "entry-vector",
    lambda: module(entry(nothing, [tile("i32", 2)])),
    "entry: entry op must have scalar types (rank 0 !cuda_tile.tile)",
)


def with_type(inputs: list[Any], outputs: list[Any], arguments: list[Any]) -> CudaTileOp:
    block = Block([build("return")], arg_types=arguments)
    function = FunctionType.from_lists(inputs, outputs)
    return module(build("entry", attributes={"sym_name": "k", "function_type": function}, regions=[Region(block)]))


CASES.module(
    "entry-results", lambda: with_type([], [I32], []), "entry: entry op must not return values", oracle="absent"
)
CASES.module(
    "entry-arguments",
    lambda: with_type([I32], [], []),
    "entry: entry block must have 1 arguments to match function signature",
    oracle="absent",
)
CASES.module(
    "entry-argument-type",
    lambda: with_type([I32], [], [tile("f32")]),
    "entry: type of entry block argument #0('!cuda_tile.tile<f32>') must match the type of the corresponding "
    "argument in function signature('!cuda_tile.tile<i32>')",
    oracle="absent",
)
CASES.module(
    "entry-argument-attributes",
    lambda: module(entry(nothing, [I32], arg_attrs=ArrayAttr([]))),
    "entry: expects argument attribute array to have the same number of elements as the number of function "
    "arguments, got 0, but expected 1",
    oracle="absent",
)
CASES.module(
    "entry-argument-attribute-name",
    lambda: module(entry(nothing, [I32], arg_attrs=ArrayAttr([DictionaryAttr({"x": UnitAttr()})]))),
    "entry: arguments may only have dialect attributes",
    oracle="absent",
)
CASES.module(
    "entry-no-block",
    lambda: module(
        build(
            "entry", attributes={"sym_name": "k", "function_type": FunctionType.from_lists([], [])}, regions=[Region()]
        )
    ),
    "entry: region #0 ('body') failed to verify constraint: region with 1 blocks",
    oracle="absent",
)
CASES.module(
    "return-operands",
    lambda: module(entry(lambda b: b.op("return", {"operands": [b.constant(I32)]}), terminate=False)),
    "return: has 1 operands, but enclosing function (@k) returns 0",
)


def used_before_definition() -> CudaTileOp:
    def fill(b: Body) -> None:
        value = b.constant(I32)
        user = b.op("negi", {"source": value}, [I32])
        user.detach()
        b.block.insert_op_before(user, value.owner)  # type: ignore[arg-type]

    return module(entry(fill))


def used_outside_of_region() -> CudaTileOp:
    def fill(b: Body) -> None:
        values = []
        region = b.region([], lambda c: (values.append(c.constant(I32)), c.op("yield")))
        b.op("if", {"condition": b.constant(tile("i1"))}, [], regions=[region, Region()])
        b.op("negi", {"source": values[0]}, [I32])

    return module(entry(fill))


def used_across_kernels() -> CudaTileOp:
    values: list[Any] = []
    first = entry(lambda b: values.append(b.constant(I32)), name="a")
    return module(first, entry(lambda b: b.op("negi", {"source": values[0]}, [I32]), name="b"))


def used_from_outside() -> CudaTileOp:
    """A kernel nested in a loop's body would see the loop's values; isolation says that it does not."""
    outer = Block(arg_types=[I32])
    inner = entry(lambda b: b.op("negi", {"source": outer.args[0]}, [I32]))
    inner_module = module(inner, name="inner")
    outer.add_op(inner_module)
    outer.add_op(build("return"))
    function = FunctionType.from_lists([I32], [])
    return module(build("entry", attributes={"sym_name": "k", "function_type": function}, regions=[Region(outer)]))


NOT_VISIBLE = "operand #0 does not dominate this use"
CASES.module("use-before-definition", used_before_definition, NOT_VISIBLE, oracle="absent")
CASES.module("use-outside-of-region", used_outside_of_region, NOT_VISIBLE, oracle="absent")
CASES.module("use-across-kernels", used_across_kernels, NOT_VISIBLE, oracle="absent")
CASES.module("use-from-outside", used_from_outside, "negi: using value defined outside the region", oracle="absent")

TYPE_ERRORS = {
    "all dimensions must be powers of two, got 3": tile("f32", 3),
    "all dimensions must be positive constants, got 0": tile("f32", 0),
    "tile would exceed the maximum of 16777216 elements": tile("f32", 8192, 4096),
}
for message, type_ in TYPE_ERRORS.items():
    CASES.bad(f"type-{type_}", message, lambda b, t=type_: b.op("iota", None, [t]), oracle="absent")
