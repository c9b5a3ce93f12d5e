# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How the verifier reports: places, notes, order, warnings, hints, debug scopes, and use of values across blocks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from xdsl.dialects.builtin import (
    BoolAttr,
    DenseArrayBase,
    FileLineColLoc,
    FunctionType,
    IntAttr,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    UnregisteredOp,
)
from xdsl.ir import Attribute, Block, Region

from dialects.building import TOKEN, Body, entry, kernel, module, tile
from dialects.verify_cases.control_flow import if_
from dialects.verify_cases.functions import global_
from dialects.verify_cases.views import REDUCE
from libtile.asm.module import diagnose
from libtile.bytecode.limits import REGION_DEPTH
from libtile.dialects.cuda_tile.attributes import (
    DICompileUnitAttr,
    DIFileAttr,
    DILexicalBlockAttr,
    DILocAttr,
    DISubprogramAttr,
    EnumAttr,
    OptimizationHintsAttr,
)
from libtile.dialects.cuda_tile.locations import call_site_loc
from libtile.dialects.cuda_tile.ops import OPS, CudaTileOp, OpClasses, build
from libtile.dialects.cuda_tile.types import PartitionViewType, i32
from libtile.dialects.cuda_tile.verify.dominance import Dominators
from libtile.spec import Version, load
from libtile.support.diagnostics import Severity

I32 = tile("i32")


def at(line: int) -> FileLineColLoc:
    return FileLineColLoc(StringAttr("kernel.py"), IntAttr(line), IntAttr(3))


def errors(op: Any, **options: Any) -> list[str]:
    return [d.message for d in diagnose(op, **options)]


def test_every_failing_op_is_reported_in_the_order_of_the_source() -> None:
    def fill(b: Body) -> None:
        value = b.constant(I32)
        for overflow in ("no_unsigned_wrap", "none", "no_unsigned_wrap"):
            b.op("negi", {"source": value}, [I32], attributes={"overflow": overflow})
        b.op("get_global", None, [tile("ptr<f32>")], attributes={"name": "missing"})
        b.op("negi", {"source": value}, [I32], attributes={"overflow": "no_unsigned_wrap"})

    root = kernel(fill)
    for line, op in enumerate(root.walk()):
        op.location = at(line + 1)
    found = diagnose(root)
    assert [d.location.line for d in found if d.location] == [4, 6, 7, 8]
    assert found[0].render() == (
        "kernel.py:4:3: error: 'cuda_tile.negi' op 'no_unsigned_wrap' overflow flag is not supported"
    )


def test_notes_name_other_ops() -> None:
    root = module(entry(lambda b: None), entry(lambda b: None))
    for line, op in enumerate(root.walk()):
        op.location = at(line + 1)
    (found,) = diagnose(root)
    assert found.render() == (
        "kernel.py:4:3: error: redefinition of symbol named 'k'\n"
        "kernel.py:2:3: note: see existing symbol definition here"
    )


def test_a_use_in_front_of_the_definition_notes_the_definition() -> None:
    def fill(b: Body) -> None:
        value = b.constant(I32)
        user = b.op("negi", {"source": value}, [I32])
        user.detach()
        b.block.insert_op_before(user, value.owner)  # type: ignore[arg-type]

    (found,) = diagnose(kernel(fill))
    assert [n.message for n in found.notes] == ["operand defined here (op in the same block)"]


def test_nothing_below_an_invalid_op_is_reported() -> None:
    bad_inside = if_(lambda b: b.op("continue"), None, [I32])
    assert errors(kernel(bad_inside)) == ["'cuda_tile.if' op has non-empty return type, must define else branch"]


def test_all_kernels_of_a_module_are_checked() -> None:
    def fill(b: Body) -> None:
        b.op("join_tokens", {"tokens": []}, [TOKEN])

    assert len(errors(module(entry(fill, name="a"), entry(fill, name="b")))) == 2


def test_nesting_deeper_than_the_interpreters_stack_is_checked() -> None:
    block = Block()
    inner = Body(block)
    for _ in range(3000):
        nested = Block()
        inner.op("loop", {}, [], regions=[Region(nested)])
        inner = Body(nested)
    inner.op("continue")
    while inner.block is not block:
        outer = inner.block.parent_op().parent  # type: ignore[union-attr]
        inner = Body(outer)  # type: ignore[arg-type]
        inner.op("return" if outer is block else "continue")
    attributes = {"sym_name": "k", "function_type": FunctionType.from_lists([], [])}
    entry = build("entry", attributes=attributes, regions=[Region(block)])
    assert errors(entry) == []
    # In a module, an op is as deep as one in a file of bytecode can be.
    assert errors(module(entry)) == [f"'cuda_tile.loop' op is nested in more than {REGION_DEPTH} regions"]


# -- warnings and hints -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("index", "message"),
    [
        (-1, "extract index 0 has negative value -1, which may cause undefined behavior"),
        (4, "extract index 0 value 4 may be out of bounds (max valid index: 3)"),
    ],
)
def test_a_constant_index_that_no_slice_has_is_warned_about(index: int, message: str) -> None:
    def fill(b: Body) -> None:
        operands = {"source": b.constant(tile("f32", 8)), "indices": [b.constant(I32, index)]}
        b.op("extract", operands, [tile("f32", 2)])

    (found,) = diagnose(kernel(fill))
    assert (found.severity, found.message) == (Severity.WARNING, message)


def hinted(arch: str, **hints: Attribute) -> CudaTileOp:
    return module(entry(lambda b: None, optimization_hints=OptimizationHintsAttr({arch: hints})))


def number(value: int) -> IntegerAttr:
    return IntegerAttr(value, i32)  # type: ignore[arg-type]


BAD_HINTS = [
    (hinted("sm_100a", num_cta_in_cga=number(2)), "unknown hint key sm_100a"),
    (hinted("sm_100", num_qqq=number(1)), "num_qqq is not known hint for current Operation"),
    (hinted("sm_100", latency=number(1)), "latency is not known hint for current Operation"),
    (hinted("sm_100", num_cta_in_cga=StringAttr("a")), "integer value expected for sm_100.num_cta_in_cga"),
    (hinted("sm_100", num_cta_in_cga=number(7)), "expected power-of-two ≤ 16 for sm_100.num_cta_in_cga"),
    (hinted("sm_89", num_cta_in_cga=number(2)), "expected 1 for sm_89.num_cta_in_cga"),
    (hinted("default", occupancy=number(33)), "integer value in the range [1, 32] is expected for default.occupancy"),
    (
        hinted("sm_90", num_worker_warps_per_cta=number(64)),
        "expected power-of-two ≤ 32 for sm_90.num_worker_warps_per_cta",
    ),
]


@pytest.mark.parametrize(("root", "message"), BAD_HINTS, ids=[m for _, m in BAD_HINTS])
def test_a_bad_hint_is_silent_a_warning_or_an_error(root: CudaTileOp, message: str) -> None:
    failed = "'cuda_tile.entry' op Optimization hints verification failed"
    assert errors(root) == []
    assert [(d.severity, d.message) for d in diagnose(root, warn_hints=True)] == [(Severity.WARNING, message)]
    assert errors(root, warn_hints=True, error_hints=True) == [message, failed]


def test_good_hints_give_no_warning() -> None:
    root = hinted("sm_100", num_cta_in_cga=number(8), occupancy=number(2), num_worker_warps_per_cta=number(4))
    assert errors(root, warn_hints=True, error_hints=True) == []


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("latency", number(5), None),
        ("latency", number(11), "integer value in the range [1, 10] is expected for sm_90.latency"),
        ("allow_tma", BoolAttr.from_bool(True), "allow_tma is not known hint for current Operation"),
    ],
)
def test_hints_of_a_pointer_load(key: str, value: Attribute, message: str | None) -> None:
    hints = OptimizationHintsAttr({"sm_90": {key: value}})

    def fill(b: Body) -> None:
        attributes = {"memory_ordering_semantics": "weak", "optimization_hints": hints}
        b.op("load_ptr_tko", {"source": b.args[0]}, [tile("f32"), TOKEN], attributes=attributes)

    found = errors(kernel(fill, tile("ptr<f32>")), warn_hints=True)
    assert found == ([] if message is None else [message])


# -- versions ---------------------------------------------------------------------------------------------------------


def padded_reduction(b: Body) -> None:
    replace(REDUCE, padding="zero").fill(b)


def test_rules_of_an_older_version_hold_when_asked_for() -> None:
    root = kernel(padded_reduction, tile("ptr<f32>"))
    message = "'cuda_tile.atomic_red_view_tko' op views with padding_value are not supported for atomic reductions"
    assert errors(root) == []
    assert errors(root, version=Version(13, 3)) == [message]


def test_a_function_of_the_testing_versions_has_the_rules_of_the_open_dialect() -> None:
    def convert(b: Body) -> None:
        operands = {"from": b.constant(tile("f32", 2))}
        b.op("ftof", operands, [tile("f64", 2)], attributes={"rounding_mode": "zero"})

    function = entry(convert)
    testing = OPS["testing$func"].create(
        properties=function.properties,
        regions=[function.detach_region(0)],
    )
    message = "'cuda_tile.ftof' op invalid rounding mode specified. Only 'nearest_even' is supported"
    assert errors(kernel(convert)) == []
    assert errors(module(testing)) == [message]


# -- debug scopes -----------------------------------------------------------------------------------------------------

FILE = DIFileAttr("kernel.py", "/src")
UNIT = DICompileUnitAttr(FILE)


def subprogram(name: str) -> DISubprogramAttr:
    return DISubprogramAttr(FILE, 1, name, name, UNIT, 2)


def scoped(scope: Attribute, line: int = 7) -> DILocAttr:
    return DILocAttr(scope, "/src/kernel.py", line, 8)


K = subprogram("k")
BLOCK = DILexicalBlockAttr(K, FILE, 3, 4)


def debug_module(function: Attribute | None, inside: Attribute | None = None) -> CudaTileOp:
    def fill(b: Body) -> None:
        op = b.op("make_token", None, [TOKEN])
        if inside is not None:
            op.location = inside  # type: ignore[assignment]

    root = kernel(fill)
    kernel_op = root.regions[0].blocks[0].first_op
    assert kernel_op is not None
    if function is not None:
        kernel_op.location = function  # type: ignore[assignment]
    return root


def test_scopes_of_a_function_and_its_ops_may_agree() -> None:
    assert errors(debug_module(scoped(K), scoped(BLOCK))) == []
    assert errors(debug_module(scoped(K), call_site_loc(scoped(subprogram("callee")), scoped(K)))) == []


def test_a_functions_scope_is_a_subprogram() -> None:
    (message,) = errors(debug_module(scoped(BLOCK)))
    assert message.startswith("'cuda_tile.entry' op invalid function debug info scope: ")
    assert message.endswith(". Function location must have cuda_tile.di_subprogram debug info scope.")


def test_a_functions_subprogram_has_its_name() -> None:
    (message,) = errors(debug_module(scoped(subprogram("other"))))
    assert message.endswith('. Function name "k" does not match subprogram scope linkage name "other".')


def test_a_functions_location_is_no_call_site() -> None:
    (message,) = errors(debug_module(call_site_loc(scoped(K), scoped(K))))
    assert message.startswith("'cuda_tile.entry' op invalid function debug info location: ")
    assert message.endswith(". Function location must not be a CallSiteLoc.")


def test_ops_of_a_function_without_scope_have_none() -> None:
    (message,) = errors(debug_module(None, scoped(K)))
    assert message.startswith("'cuda_tile.make_token' op invalid operation debug info scope: ")
    assert message.endswith(". Operation has debug info scope, but function debug info scope is undefined.")


def test_ops_have_the_subprogram_of_their_function() -> None:
    (message,) = errors(debug_module(scoped(K), scoped(subprogram("other"))))
    assert message.startswith("invalid operation debug info scope: ")
    assert ". Operation debug info scope does not match function debug info scope: " in message


def test_globals_have_no_scope() -> None:
    variable = global_()
    variable.location = scoped(K)  # type: ignore[assignment]
    (message,) = errors(module(variable))
    assert message.startswith("'cuda_tile.global' op invalid operation debug info scope: ")
    assert message.endswith(". Global variables must not have scope.")


# -- blocks, and ops of other dialects --------------------------------------------------------------------------------

BRANCH, VALUE, USE = (UnregisteredOp.with_name(n) for n in ("test.branch", "test.value", "test.use"))


def diamond() -> tuple[list[Block], ModuleOp]:
    """entry -> left, right -> join, in an op of no registered dialect."""
    blocks = [Block() for _ in range(4)]
    for source, targets in ((0, (1, 2)), (1, (3,)), (2, (3,)), (3, ())):
        blocks[source].add_op(BRANCH.create(successors=[blocks[t] for t in targets]))
    holder = UnregisteredOp.with_name("test.function").create(regions=[Region(blocks)])
    return blocks, ModuleOp([holder])


def value_in(block: Block) -> Any:
    op = VALUE.create(result_types=[I32])
    assert block.last_op is not None
    block.insert_op_before(op, block.last_op)
    return op.results[0]


def use_in(block: Block, value: Any) -> None:
    assert block.last_op is not None
    block.insert_op_before(USE.create(operands=[value]), block.last_op)


def test_a_value_may_be_used_in_the_blocks_that_its_block_dominates() -> None:
    blocks, root = diamond()
    use_in(blocks[3], value_in(blocks[0]))
    assert errors(root) == []


def test_a_value_of_one_branch_may_not_be_used_behind_the_join() -> None:
    blocks, root = diamond()
    use_in(blocks[3], value_in(blocks[1]))
    (found,) = diagnose(root)
    assert found.message == "operand #0 does not dominate this use"
    assert [n.message for n in found.notes] == ["operand defined here (op in the same region)"]


def test_a_block_that_cannot_be_reached_may_use_any_value() -> None:
    blocks, root = diamond()
    region = blocks[0].parent
    assert region is not None
    dead = Block([BRANCH.create(successors=[blocks[3]])])
    region.add_block(dead)
    use_in(dead, value_in(blocks[1]))
    assert errors(root) == []


def test_dominators_of_a_loop() -> None:
    head, body, after = Block(), Block(), Block()
    entry_block = Block([BRANCH.create(successors=[head])])
    head.add_op(BRANCH.create(successors=[body, after]))
    body.add_op(BRANCH.create(successors=[head]))
    dominators = Dominators(Region([entry_block, head, body, after]))
    assert dominators.dominates(head, after) and dominators.dominates(head, body)
    assert not dominators.dominates(body, after) and not dominators.dominates(after, head)


def test_a_registered_block_needs_a_terminator_and_an_unregistered_one_does_not() -> None:
    holder = UnregisteredOp.with_name("test.holder").create(regions=[Region(Block([VALUE.create(result_types=[I32])]))])
    assert errors(ModuleOp([holder])) == []


def test_an_attribute_of_the_wrong_kind_is_named() -> None:
    def fill(b: Body) -> None:
        value = b.constant(I32)
        op = b.op("negi", {"source": value}, [I32])
        op.properties["overflow"] = EnumAttr("Signedness", "signed")

    assert errors(kernel(fill)) == [
        "'cuda_tile.negi' op attribute 'overflow' failed to satisfy constraint: integer overflow"
    ]


def test_an_optional_operand_is_given_once() -> None:
    def fill(b: Body) -> None:
        op = b.op("gdc_wait_tko", {"token": b.token()}, [TOKEN])
        op.operands = [op.operands[0], op.operands[0]]

    assert errors(kernel(fill)) == [
        "'cuda_tile.gdc_wait_tko' op operand group starting at #0 requires 0 or 1 element, but found 2"
    ]


def test_operand_segments_fit_the_operands() -> None:
    def fill(b: Body) -> None:
        attributes = {"memory_ordering_semantics": "weak"}
        op = b.op("load_ptr_tko", {"source": b.args[0]}, [tile("f32"), TOKEN], attributes=attributes)
        op.properties["operandSegmentSizes"] = DenseArrayBase.from_list(i32, [1, 1, 0, 0])  # type: ignore[arg-type]

    assert errors(kernel(fill, tile("ptr<f32>"))) == [
        "'cuda_tile.load_ptr_tko' op operand count (1) does not match with the total size (2) "
        "specified in attribute 'operandSegmentSizes'"
    ]


def test_a_group_of_one_operand_has_one() -> None:
    def fill(b: Body) -> None:
        attributes = {"memory_ordering_semantics": "weak"}
        op = b.op("load_ptr_tko", {"source": b.args[0]}, [tile("f32"), TOKEN], attributes=attributes)
        op.properties["operandSegmentSizes"] = DenseArrayBase.from_list(i32, [0, 1, 0, 0])  # type: ignore[arg-type]

    assert errors(kernel(fill, tile("ptr<f32>"))) == [
        "'cuda_tile.load_ptr_tko' op operand group starting at #0 requires 1 element, but found 0"
    ]


def test_an_invalid_type_is_reported_where_it_first_appears() -> None:
    broken = PartitionViewType((3,), i32, (0,))  # type: ignore[arg-type]
    found = errors(module(entry(lambda b: None, [broken])))
    assert len(found) == 1 and found[0].startswith("expected 'tensor_view' type, but got ")


# -- an op that only the spec knows -----------------------------------------------------------------------------------

OVERLAY = """
[constraint.half_tile]
elements = ["f16"]

[op.blend]
opcode = 0x2fff
since = "13.5"
group = "Core"
operands = ["a: half_tile", "b: half_tile"]
attributes = ["count: i64", "mode: RoundingMode = zero"]
results = ["result: half_tile"]
traits = ["pure", "same_type(a, b, result)"]
format = "$a `,` $b attr-dict `:` type($result)"
"""


@pytest.mark.parametrize(
    ("types", "attributes", "expected"),
    [
        ((tile("f16", 4), tile("f16", 4)), {"count": 1}, []),
        ((tile("f16", 4), tile("f16", 4)), {}, ["requires attribute 'count'"]),
        (
            (tile("f16", 4), tile("f32", 4)),
            {"count": 1},
            ["operand #1 must be tile of f16 values, but got '!cuda_tile.tile<4xf32>'"],
        ),
        (
            (tile("f16", 4), tile("f16", 2)),
            {"count": 1},
            ["failed to verify that all of {a, b, result} have same type"],
        ),
    ],
)
def test_an_op_that_only_the_spec_knows_is_checked(types: Any, attributes: Any, expected: list[str]) -> None:
    classes = OpClasses(load([OVERLAY]))

    def fill(b: Body) -> None:
        a, c = (b.constant(t) for t in types)
        b.block.add_op(build("blend", {"a": a, "b": c}, [types[0]], attributes, classes=classes))

    assert errors(kernel(fill)) == [f"'cuda_tile.blend' op {message}" for message in expected]
