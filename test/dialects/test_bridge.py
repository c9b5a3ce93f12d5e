# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Bytecode through the IR and back is the same program."""

from __future__ import annotations

import struct

import pytest
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FileLineColLoc,
    FloatAttr,
    FusedLoc,
    IntAttr,
    IntegerAttr,
    NameLoc,
    NoneAttr,
    StringAttr,
)
from xdsl.ir import Block, Region

from libtile import bytecode
from libtile.bytecode import model as bc
from libtile.dialects.cuda_tile import attributes as ir
from libtile.dialects.cuda_tile import types
from libtile.dialects.cuda_tile.bridge import from_bytecode
from libtile.dialects.cuda_tile.bridge_values import type_from_bytecode, type_to_bytecode
from libtile.dialects.cuda_tile.ops import build
from libtile.dialects.cuda_tile.to_bytecode import to_bytecode
from libtile.spec import default_spec
from libtile.support.diagnostics import DiagnosticError

OPS = default_spec().ops
F32 = bc.make_type("f32")
I32 = bc.make_type("i32")


def tile(element: str, *shape: int) -> bc.Type:
    return bc.make_type("tile", bc.make_type(element), shape)


def constant(element: str, shape: tuple[int, ...], data: bytes) -> bc.Operation:
    type_ = tile(element, *shape)
    return bc.Operation(OPS["constant"], [], [bc.Value(type_)], {"value": bc.Dense(type_, data)})


def module_of(*ops: bc.Operation, arguments: tuple[bc.Type, ...] = (), **function: object) -> bc.Module:
    body = bc.Block([bc.Value(t) for t in arguments], [*ops, bc.Operation(OPS["return"])])
    type_ = bc.make_type("function", arguments, ())
    return bc.Module(functions=[bc.Function("k", type_, body, **function)])  # type: ignore[arg-type]


def through_ir(module: bc.Module) -> bc.Module:
    return to_bytecode(from_bytecode(module))


@pytest.mark.parametrize(
    "type_",
    [
        tile("f32"),
        tile("i1", 2, 4),
        bc.make_type("ptr", F32, None),
        bc.make_type("ptr", F32, "multicast"),
        bc.make_type("tensor_view", F32, (types.DYNAMIC, 16), (types.DYNAMIC, 1), None),
        bc.make_type("token"),
        bc.make_type("function", (tile("i8"),), (bc.make_type("token"),)),
        *(bc.make_type(name) for name in types.NUMBER_TYPES),
    ],
    ids=repr,
)
def test_type_is_the_same_after_the_ir(type_: bc.Type) -> None:
    assert type_to_bytecode(type_from_bytecode(type_)) is type_


def test_every_view_type_is_the_same_after_the_ir() -> None:
    view = bc.make_type("tensor_view", F32, (64, 64), (64, 1), None)
    for made in (
        bc.make_type("partition_view", (4, 8), view, (1, 0), "zero"),
        bc.make_type("strided_view", (4, 8), (3, 3), view, (0, 1), None),
        bc.make_type("gather_scatter_view", (4, 8), view, 0, "nan"),
    ):
        assert type_to_bytecode(type_from_bytecode(made)) is made


@pytest.mark.parametrize(
    ("element", "shape", "data", "elements"),
    [
        ("i1", (16,), b"\x01\x02", [1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0]),
        ("i1", (16,), b"\xff", [1]),
        ("i1", (16,), b"\xff\xff", [1]),
        ("i1", (16,), b"\x01", [1]),
        ("i1", (8,), b"\x01", [1, 0, 0, 0, 0, 0, 0, 0]),
        ("i1", (2,), b"\x02", [0, 1]),
        ("i1", (), b"\x00", [0]),
        ("tf32", (2,), b"\x00\xfc\x01\x01\xfc\x01", [0x1FC00, 0x1FC01]),
        ("f4E2M1FN", (2,), b"\x12\x03", [2, 3]),
        ("i8", (2,), b"\x07\x07", [7]),
        ("f32", (2,), struct.pack("<2f", 1.0, 2.0), [0x3F800000, 0x40000000]),
    ],
)
def test_constant_elements_are_unpacked(element: str, shape: tuple[int, ...], data: bytes, elements: list[int]) -> None:
    op = next(o for o in from_bytecode(module_of(constant(element, shape, data))).walk() if o.name.endswith("constant"))
    value = op.properties["value"]
    assert isinstance(value, ir.DenseElementsAttr)
    assert value.elements() == elements


@pytest.mark.parametrize(
    ("element", "shape", "data"),
    [
        ("i1", (16,), b"\x01\x02"),
        ("i1", (16,), b"\xff"),
        ("i1", (2,), b"\x02"),
        ("i1", (), b"\x00"),
        ("tf32", (2,), b"\x00\xfc\x01\x01\xfc\x01"),
        ("f4E2M1FN", (2,), b"\x02\x03"),
        ("i64", (2,), bytes(range(16))),
    ],
)
def test_constant_data_is_packed_again(element: str, shape: tuple[int, ...], data: bytes) -> None:
    (function,) = through_ir(module_of(constant(element, shape, data))).functions
    assert function.body.operations[0].attributes["value"].data == data


def test_constant_of_the_wrong_size_is_refused() -> None:
    with pytest.raises(bytecode.InvalidError, match="failed to validate buffer size and format"):
        from_bytecode(module_of(constant("i32", (4,), bytes(8))))


@pytest.mark.parametrize("bits", [0, 1 << 31, 0x3F800000, 0x7F800000, 0xFF800000, 0x7FC00001, 0x00000001])
def test_float_attribute_keeps_its_bits(bits: int) -> None:
    op = bc.Operation(
        OPS["reduce"],
        [bc.Value(tile("f32", 4))],
        [bc.Value(tile("f32"))],
        {"dim": 0, "identities": (bc.Float(bits, F32),)},
        [[bc.Block([bc.Value(tile("f32")), bc.Value(tile("f32"))])]],
    )
    block = op.regions[0][0]
    block.operations = [bc.Operation(OPS["yield"], [block.arguments[0]])]
    module = module_of(op)
    op.operands = [bc.Value(tile("f32", 4))]
    module.functions[0].body.arguments = list(op.operands)
    module.functions[0].type = bc.make_type("function", (tile("f32", 4),), ())
    assert through_ir(module).functions[0].body.operations[0].attributes["identities"] == (bc.Float(bits, F32),)


def test_globals_producer_and_hints_are_kept() -> None:
    hints = bc.OptimizationHints((("sm_90", bc.Dictionary((("occupancy", bc.Integer(2, I32)),))),))
    module = module_of(hints=hints)
    module.producer = "a compiler 1.0"
    module.globals = [bc.Global("g", bc.Dense(tile("f32", 4), bytes(16)), 256, True, "private")]
    again = through_ir(module)
    assert again.producer == "a compiler 1.0"
    assert [(g.name, g.alignment, g.constant, g.visibility) for g in again.globals] == [("g", 256, True, "private")]
    assert again.functions[0].hints == hints


def test_argument_attributes_are_kept() -> None:
    attributes = (bc.Dictionary((("note", bc.String("x")),)),)
    module = module_of(arguments=(tile("i32"),), argument_attributes=attributes)
    assert through_ir(module).functions[0].argument_attributes == attributes


def test_debug_information_is_kept_whole() -> None:
    file = bc.make_debug("di_file", "a.py", "/src")
    unit = bc.make_debug("di_compile_unit", file)
    subprogram = bc.make_debug("di_subprogram", file, 3, "k", "k", unit, 4)
    block = bc.make_debug("di_lexical_block", subprogram, file, 5, 6)
    inner = bc.make_debug("di_loc", block, "a.py", 7, 8)
    outer = bc.make_debug("di_loc", subprogram, "a.py", 9, 10)
    call = bc.make_debug("call_site", inner, bc.make_debug("call_site", outer, outer))
    op = constant("i32", (), bytes(4))
    op.location = call
    (function,) = through_ir(module_of(op, location=outer)).functions
    assert function.location is outer
    assert function.body.operations[0].location is call


def test_deep_chain_of_call_sites_does_not_recurse() -> None:
    file = bc.make_debug("di_file", "a.py", "/")
    subprogram = bc.make_debug("di_subprogram", file, 1, "k", "k", bc.make_debug("di_compile_unit", file), 1)
    location = bc.make_debug("di_loc", subprogram, "a.py", 1, 1)
    for _ in range(400):
        location = bc.make_debug("call_site", bc.make_debug("di_loc", subprogram, "a.py", 1, 1), location)
    op = constant("i32", (), bytes(4))
    op.location = location
    assert from_bytecode(module_of(op)) is not None


def test_dictionaries_are_sorted_by_name_like_mlir_does() -> None:
    keys = (("occupancy", bc.Integer(2, I32)), ("num_cta_in_cga", bc.Integer(1, I32)))
    module = module_of(hints=bc.OptimizationHints((("sm_90", bc.Dictionary(keys)), ("sm_100", bc.Dictionary()))))
    hints = through_ir(module).functions[0].hints
    assert hints is not None
    assert [name for name, _ in hints.items] == ["sm_100", "sm_90"]
    assert hints.items[1][1] == bc.Dictionary(tuple(reversed(keys)))


def _module_with(op: object) -> object:
    entry = build(
        "entry",
        attributes={"sym_name": "k", "function_type": type_from_bytecode(bc.make_type("function", (), ()))},
        regions=[Region(Block([op, build("return", {"operands": ()})]))],  # type: ignore[list-item]
    )
    return build("module", attributes={"sym_name": "kernels"}, regions=[Region(Block([entry]))])


@pytest.mark.parametrize(("kind", "location"), [("FusedLoc", "fused"), ("NameLoc", "name")])
def test_location_without_a_record_is_refused(kind: str, location: str) -> None:
    place = FileLineColLoc(StringAttr("a.mlir"), IntAttr(3), IntAttr(4))
    op = build("make_token", result_types=[types.TokenType()])
    op.location = FusedLoc(ArrayAttr([place]), NoneAttr()) if location == "fused" else NameLoc(StringAttr("n"), place)
    with pytest.raises(DiagnosticError) as caught:
        to_bytecode(_module_with(op))  # type: ignore[arg-type]
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.message == f"unsupported location, got {kind}, expected DILocAttr or CallSiteLoc"
    assert str(diagnostic.location) == "a.mlir:3:4"


def test_attribute_that_bytecode_cannot_hold_is_refused_at_the_op() -> None:
    hints = ir.OptimizationHintsAttr({"sm_90": {"occupancy": NoneAttr()}})
    module = _module_with(build("make_token", result_types=[types.TokenType()]))
    entry = next(o for o in module.walk() if o.name == "cuda_tile.entry")  # type: ignore[attr-defined]
    entry.properties["optimization_hints"] = hints
    with pytest.raises(DiagnosticError, match="serialization of attribute 'optimization_hints'"):
        to_bytecode(module)  # type: ignore[arg-type]


def test_only_functions_and_globals_may_be_in_the_module() -> None:
    module = build(
        "module",
        attributes={"sym_name": "m"},
        regions=[Region(Block([build("make_token", result_types=[types.TokenType()])]))],
    )
    with pytest.raises(DiagnosticError) as caught:
        to_bytecode(module)
    assert [d.message for d in caught.value.diagnostics] == [
        "invalid op: cuda_tile.make_token",
        "'cuda_tile.module' op only function and global ops are allowed in the body",
    ]


def test_boolean_hints_are_i1_integers() -> None:
    hints = bc.OptimizationHints((("sm_90", bc.Dictionary((("allow_tma", bc.Bool(True)),))),))
    module = from_bytecode(module_of(hints=hints))
    entry = next(o for o in module.walk() if o.name == "cuda_tile.entry")
    attr = entry.properties["optimization_hints"].hints["sm_90"]["allow_tma"]  # type: ignore[attr-defined]
    assert isinstance(attr, IntegerAttr) and attr.type == types.i1 and attr.value.data != 0


def test_wide_negative_identity_is_read_as_the_reference_reads_it() -> None:
    attribute = bc.Float(0xFFF0000000000000, bc.make_type("f64"), wide=True)
    from libtile.dialects.cuda_tile import kit_xdsl
    from libtile.dialects.cuda_tile.values_from_bytecode import TypeReader, attribute_from_bytecode

    converted = attribute_from_bytecode(attribute, TypeReader(kit_xdsl))
    assert isinstance(converted, FloatAttr) and converted.value.data == float("inf")


def test_dictionary_attribute_is_a_dictionary() -> None:
    from libtile.dialects.cuda_tile import kit_xdsl
    from libtile.dialects.cuda_tile.values_from_bytecode import TypeReader, attribute_from_bytecode

    attribute = bc.Dictionary((("b", bc.Integer(1, I32)), ("a", bc.String("x"))))
    converted = attribute_from_bytecode(attribute, TypeReader(kit_xdsl))
    assert isinstance(converted, DictionaryAttr) and list(converted.data) == ["a", "b"]
