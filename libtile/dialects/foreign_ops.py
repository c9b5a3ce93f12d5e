# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""arith, scf and tensor as text may name them: our ops, and xDSL's for those that the compiler does not know.

This is loaded when text has an op, an attribute or a type of these dialects; compiling bytecode needs none of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Self

from xdsl.dialects import arith as xdsl_arith
from xdsl.dialects import scf as xdsl_scf
from xdsl.dialects import tensor as xdsl_tensor
from xdsl.dialects.builtin import DenseArrayBase, IndexType
from xdsl.ir import Attribute, Dialect, Operation, Region, SSAValue
from xdsl.irdl import operand_def, prop_def, region_def, traits_def, var_region_def, var_result_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import RecursiveMemoryEffect, SingleBlockImplicitTerminator
from xdsl.utils.exceptions import VerifyException

from libtile.dialects import arith, scf, tensor
from libtile.ir.deferred_op import DeferredOp


class IndexSwitchOp(DeferredOp):
    """Runs one of several regions by a number. xDSL's class asks for its own class of `scf.yield`."""

    name = "scf.index_switch"

    arg = operand_def(IndexType)
    cases = prop_def(DenseArrayBase)
    output = var_result_def()
    default_region = region_def("single_block")
    case_regions = var_region_def("single_block")

    traits = traits_def(RecursiveMemoryEffect(), SingleBlockImplicitTerminator(scf.YieldOp))

    def __init__(
        self,
        arg: SSAValue,
        cases: DenseArrayBase,
        default_region: Region,
        case_regions: Sequence[Region],
        result_types: Sequence[Attribute],
        attributes: dict[str, Attribute] | None = None,
    ):
        super().__init__(
            operands=[arg],
            attributes=attributes,
            properties={"cases": cases},
            regions=[default_region, case_regions],
            result_types=[result_types],
        )

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        return xdsl_scf.IndexSwitchOp.parse.__func__(cls, parser)  # type: ignore[attr-defined]

    def print(self, printer: Printer) -> None:
        xdsl_scf.IndexSwitchOp.print(self, printer)  # type: ignore[arg-type]

    def verify_(self) -> None:
        numbers = self.cases.get_values()
        if len(numbers) != len(self.case_regions):
            raise VerifyException(f"has {len(self.case_regions)} case regions but {len(numbers)} case values")
        if len(set(numbers)) != len(numbers):
            raise VerifyException("has duplicate case value")
        regions = zip(("default", *map(str, numbers)), (self.default_region, *self.case_regions))
        for name, region in regions:
            end = region.block.last_op
            given = () if end is None else end.operand_types
            if tuple(given) != tuple(self.result_types):
                raise VerifyException(
                    f"region {name} returns values of types ({', '.join(map(str, given))})"
                    f" but expected ({', '.join(map(str, self.result_types))})"
                )


def _completed(theirs: Dialect, ours: Sequence[type[Operation]], attributes: Iterable[type[Attribute]] = ()) -> Dialect:
    """A dialect of xDSL with these classes in place of its own."""
    by_name = {cls.name: cls for cls in (*theirs.operations, *ours)}
    attributes_by_name = {cls.name: cls for cls in (*theirs.attributes, *attributes)}
    return Dialect(theirs.name, list(by_name.values()), list(attributes_by_name.values()))


ARITH = _completed(xdsl_arith.Arith, arith.OPS, [arith.IntegerOverflowAttr])
SCF = _completed(xdsl_scf.Scf, [*scf.OPS, IndexSwitchOp])
TENSOR = _completed(xdsl_tensor.Tensor, tensor.OPS)
