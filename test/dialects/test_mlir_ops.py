"""The ops of arith, scf and tensor that are declared here read and print as those of xDSL, which follow MLIR."""

from io import StringIO

import pytest
from xdsl.context import Context
from xdsl.dialects import arith as xdsl_arith
from xdsl.dialects import scf as xdsl_scf
from xdsl.dialects import tensor as xdsl_tensor
from xdsl.dialects.builtin import Builtin, IndexType, IntegerAttr, TensorType, i1, i32
from xdsl.dialects.test import Test, TestOp
from xdsl.ir import Block, Region
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import ParseError, VerifyException

from libtile.dialects import arith, foreign_ops, scf, tensor

VALUES = '%i, %j, %k, %c, %x, %t = "test.op"() : () -> (i32, i32, index, i1, f32, tensor<4x8xi32>)\n'

TEXTS = [
    *(f"%r = arith.{name} %i, %j : i32" for name in (
        "addi", "subi", "muli", "divui", "divsi", "floordivsi", "ceildivsi", "ceildivui", "remui", "remsi", "minsi",
        "maxsi", "minui", "maxui", "andi", "ori", "xori", "shli", "shrui", "shrsi",
    )),
    "%r = arith.addi %i, %j overflow<nsw,nuw> : i32",
    '%r = arith.muli %k, %k overflow<nuw> {a = "b"} : index',
    "%r = arith.addi %t, %t : tensor<4x8xi32>",
    "%r = arith.constant 5 : i32",
    "%r = arith.constant 5.0 : f32",
    "%r = arith.constant true",
    "%r = arith.constant {a = 1 : i8} 7 : index",
    "%r = arith.constant dense<3> : tensor<4xi32>",
    *(f"%r = arith.cmpi {name}, %i, %j : i32" for name in arith.CmpiOp.PREDICATES),
    *(f"%r = arith.cmpf {name}, %x, %x : f32" for name in arith.CmpfOp.PREDICATES),
    "%r = arith.cmpf olt, %x, %x fastmath<nnan,ninf> : f32",
    "%r = arith.select %c, %i, %j : i32",
    "%r = arith.extsi %i : i32 to i64",
    "%r = arith.extui %i : i32 to i64",
    "%r = arith.trunci %i : i32 to i8",
    "%r = arith.index_cast %i : i32 to index",
    "%r = arith.addf %x, %x : f32",
    "%r = tensor.extract %t[%k, %k] : tensor<4x8xi32>",
    'scf.if %c { "test.op"() : () -> () }',
    'scf.if %c { "test.op"() : () -> () } else { "test.op"() : () -> () } {a = 1 : i8}',
    "%r, %s = scf.if %c -> (i32, index) { scf.yield %i, %k : i32, index } else { scf.yield %j, %k : i32, index }",
    'scf.for %n = %k to %k step %k { "test.op"(%n) : (index) -> () }',
    "%r = scf.for %n = %i to %j step %i iter_args(%a = %x) -> (f32) : i32 { scf.yield %a : f32 } {a = 1 : i8}",
    "%r = scf.while (%a = %i) : (i32) -> f32 { scf.condition(%c) %x : f32 } do { ^bb0(%b: f32): scf.yield %i : i32 }",
    "scf.while () : () -> () { scf.condition(%c) } do { scf.yield } attributes {a = 1 : i8}",
    "%r = scf.index_switch %k -> i32 case 2 { scf.yield %i : i32 } case 5 { scf.yield %j : i32 } "
    "default { scf.yield %i : i32 }",
    "%r = scf.execute_region -> (i32) { scf.yield %i : i32 }",
]  # fmt: skip


def context(*dialects):
    made = Context()
    for dialect in (Builtin, Test, *dialects):
        made.load_dialect(dialect)
    return made


THEIRS = context(xdsl_arith.Arith, xdsl_scf.Scf, xdsl_tensor.Tensor)
OURS = context(foreign_ops.ARITH, foreign_ops.SCF, foreign_ops.TENSOR)


def printed(known, text, generic=False):
    module = Parser(known, VALUES + text).parse_module()
    module.verify()
    out = StringIO()
    Printer(out, print_generic_format=generic).print_op(module)
    return out.getvalue()


@pytest.mark.parametrize("text", TEXTS)
def test_an_op_reads_and_prints_as_that_of_xdsl(text):
    found = printed(OURS, text)
    assert found == printed(THEIRS, text)
    assert printed(OURS, found.partition("\n")[2].rpartition("}")[0].partition("\n")[2]) == found


@pytest.mark.parametrize("text", [text for text in TEXTS if "cmpf" not in text and "trunci" not in text])
def test_its_generic_form_is_that_of_xdsl(text):
    """But for what xDSL does not declare of `trunci`, and writes of `cmpf` though it says nothing."""
    assert printed(OURS, text, generic=True) == printed(THEIRS, text, generic=True)


def test_what_mlir_has_of_them_beyond_xdsl():
    for text in (
        "%r = arith.trunci %i overflow<nsw> : i32 to i8",
        "%b = arith.cmpi eq, %t, %t : tensor<4x8xi32>\n%s = arith.select %b, %t, %t : tensor<4x8xi1>, tensor<4x8xi32>",
    ):
        assert text.rpartition("\n")[2].partition("= ")[2] in printed(OURS, text)
    assert "tensor<4x8xi1>" in printed(OURS, "%r = arith.cmpi eq, %t, %t : tensor<4x8xi32>", generic=True)


def value(type_):
    return TestOp(result_types=[type_]).results[0]


def ends(*types):
    return Region(Block([scf.YieldOp()], arg_types=types))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: arith.AddiOp(value(i32), value(i1)), "incorrect length|expected|attribute"),
        (lambda: arith.SelectOp(value(i32), value(i32), value(i32)), "expects a condition of i1"),
        (lambda: arith.SelectOp(value(i1), value(i32), value(i1)), "expects operands and result of one type"),
        (lambda: arith.ExtSIOp(value(i32), TensorType(i32, [4])), "expects operands and results of one shape"),
        (lambda: scf.WhileOp([value(i32)], [], ends(), ends()), "Block arguments with wrong type"),
        (
            lambda: scf.ForOp(*(value(IndexType()) for _ in range(3)), [], ends()),
            "Body block must have induction var",
        ),
        (
            lambda: scf.ForOp(*(value(IndexType()) for _ in range(3)), [value(i32)], ends(i32)),
            "same type as bounds and step",
        ),
        (lambda: tensor.ExtractOp(value(TensorType(i32, [])), [], i1), "attribute|expected"),
    ],
)
def test_what_does_not_verify_is_refused(make, message):
    with pytest.raises(VerifyException, match=message):
        make().verify()


def test_a_yield_stands_in_an_op_of_scf():
    with pytest.raises(VerifyException, match=r"'scf.yield' expects parent op to be one of 'scf.for', 'scf.if'"):
        TestOp(regions=[Region(Block([scf.YieldOp()]))]).verify()


def test_an_unknown_predicate_is_refused():
    with pytest.raises(VerifyException, match="Unknown comparison mnemonic: less"):
        arith.CmpiOp(value(i32), value(i32), "less")
    with pytest.raises(ParseError, match="expected one of none, nsw, nuw"):
        printed(OURS, "%r = arith.addi %i, %j overflow<fast> : i32")


def test_classes_are_defined_when_they_are_first_used():
    class Once(arith.BinaryOp):
        """An op."""

        name = "test.once"

    assert "get_irdl_definition" not in vars(Once)
    assert Once(value(i32), value(i32)).result.type == i32
    assert "get_irdl_definition" in vars(Once)
    assert arith.ConstantOp.from_int_and_width(3, 8).properties["value"] == IntegerAttr(3, 8)
