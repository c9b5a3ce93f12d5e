# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What ops declare by name is what IRDL's own accessors give."""

from pathlib import Path

import pytest
from xdsl.dialects.builtin import IntegerAttr, i32
from xdsl.ir import Operation
from xdsl.irdl import operations as irdl

import libtile
from libtile.dialects import arith
from libtile.ir.deferred_op import DeferredOp
from libtile.ir.op_making import Values
from libtile.ir.places import ops_of

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
_SHORT = (
    irdl.AfterVariadicSingleAccessor,
    irdl.BaseAttrAccessor,
    irdl.BeforeVariadicSingleAccessor,
    irdl.SameOptionalAccessor,
    irdl.UniqueVariadicAccessor,
)


@pytest.mark.parametrize("target", ["sm_80", "sm_90", "sm_100"])
def test_every_op_of_a_compilation_has_by_name_what_irdl_finds(target: str) -> None:
    seen: set[type] = set()

    def compare(name: str, module: Operation) -> None:
        for op in ops_of(module):
            if not isinstance(op, DeferredOp):
                continue
            for member, accessor in irdl.get_accessors_from_op_def(op.get_irdl_definition(), None).items():
                if isinstance(accessor, _SHORT):
                    wanted, found = accessor.__get__(op), getattr(op, member)
                    if not isinstance(wanted, tuple):
                        assert found is wanted
                    else:
                        assert found == wanted
                        assert accessor.construct is irdl.VarIRConstruct.REGION or found.types == Values(wanted).types
                    seen.add(type(accessor))

    for kernel in ("attention", "gemm", "softmax"):
        libtile.compile(EXAMPLES / f"{kernel}.bc", gpu_name=target, emit="llvm", observer=compare)
    assert seen >= {
        irdl.BeforeVariadicSingleAccessor,
        irdl.SameOptionalAccessor,
        irdl.UniqueVariadicAccessor,
        irdl.SingleAttrAccessor,
        irdl.OptionalAttrAccessor,
        irdl.VariadicAttrAccessor,
    }


def test_an_operand_is_not_written_by_its_name() -> None:
    constant = arith.ConstantOp(IntegerAttr(1, i32))
    op = arith.AddiOp(constant, constant)
    with pytest.raises(AttributeError, match="no setter"):
        op.lhs = constant.result  # type: ignore[misc, assignment]
    assert op.lhs is constant.result


def test_values_in_a_row_are_taken_one_by_one_and_some_at_a_time() -> None:
    constants = [arith.ConstantOp(IntegerAttr(n, i32)).result for n in range(3)]
    values = Values(constants)
    assert values[1] is constants[1] and values[-1] is constants[2]
    assert values[1:] == tuple(constants[1:])
    assert values.types == (i32,) * 3
