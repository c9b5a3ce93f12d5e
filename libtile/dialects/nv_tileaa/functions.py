# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Functions, globals, launches, plugins and grid queries of nv_tileaa."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FunctionType,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    SymbolRefAttr,
    UnitAttr,
    i1,
)
from xdsl.ir import Attribute, Operation, Region
from xdsl.irdl import (
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_region_def,
    var_result_def,
)
from xdsl.traits import IsolatedFromAbove, Pure, SymbolOpInterface
from xdsl.utils.exceptions import VerifyException

from libtile.dialects.cuda_tile.attributes import DenseElementsAttr
from libtile.dialects.effect_traits import Observable
from libtile.dialects.nv_tileaa.attributes import ComputeCapabilityAttr, KernelSpecAttr
from libtile.dialects.nv_tileaa.contracts import (
    NAMED_BARRIERS,
    require_arguments,
    require_at_least,
    require_at_most,
    require_power_of_two,
    require_yields,
    require_yields_together,
)
from libtile.dialects.nv_tileaa.element_types import is_count, is_index
from libtile.dialects.nv_tileaa.terminators import (
    FUNC,
    RETURN,
    check_agent_entries,
    check_region_ends,
    require_agents,
    require_parent_function,
)
from libtile.dialects.nv_tileaa.types import ProgramIdType
from libtile.ir.places import ops_of
from libtile.ir.tile_form import TileOp, element_of, integer_of, tile_op, type_text

if TYPE_CHECKING:
    from xdsl.parser import Parser
    from xdsl.printer import Printer


def find_symbol(op: Operation, name: str) -> Operation | None:
    """The op that a symbol names, in the nearest module around an op; None when there is none."""
    at = op.parent_op()
    while at is not None and not isinstance(at, ModuleOp):
        at = at.parent_op()
    if at is None:
        return None
    for candidate in at.body.ops:
        symbol = candidate.properties.get("sym_name")
        if isinstance(symbol, StringAttr) and symbol.data == name:
            return candidate
    return None


def require_symbol(op: Operation, reference: SymbolRefAttr, kind: str) -> Operation:
    """The op that a reference resolves to; VerifyException unless there is one of that kind."""
    found = find_symbol(op, reference.root_reference.data)
    if found is None or found.name != kind:
        raise VerifyException(f"'{reference.root_reference.data}' does not reference a valid {kind}")
    return found


def _check_branch(op: Operation) -> None:
    """Both arms yield values of the result types; that of a pipeline iterator gives its stage one meaning."""
    expected = [r.type for r in op.results]
    for region in op.regions:
        last = region.last_block.last_op if region.last_block is not None else None
        if last is not None and last.name == "scf.yield" and [v.type for v in last.operands] != expected:
            raise VerifyException("expects values yielded from both arms of a branch to have the types of its results")


def _check_while(op: Operation) -> None:
    """What is carried into each part of a loop has the types that the part takes."""
    before, after = (region.first_block for region in op.regions)
    if before is None or after is None:
        return
    condition, end = before.last_op, after.last_op
    handed = [*condition.operands][1:] if condition is not None and condition.name == "scf.condition" else []
    back = end.operands if end is not None and end.name == "scf.yield" else ()
    for given, taken in ((op.operands, before.args), (handed, after.args), (handed, op.results), (back, before.args)):
        types = [[v.type for v in values] for values in (given, taken)]
        if types[0] != types[1]:
            shown = [f"({', '.join(map(type_text, some))})" for some in types]
            raise VerifyException(f"expects values carried by a loop to be {shown[1]}, but got {shown[0]}")


VISIBILITIES = ("public", "private", "nested")
"""Who may refer to a symbol, as MLIR has it: everybody (public, and what says nothing), its module alone, or modules
around that one as well."""


def is_hidden(visibility: StringAttr | None) -> bool:
    """Whether the host, which is around all modules, cannot see a symbol."""
    return visibility is not None and visibility.data != "public"


def _check_visibility(visibility: StringAttr | None) -> None:
    if visibility is not None and visibility.data not in VISIBILITIES:
        raise VerifyException(f"expects a sym_visibility of {', '.join(VISIBILITIES)}, but got '{visibility.data}'")


@tile_op
class FuncOp(TileOp):
    """A function, or (with `entry` in its kernel_spec) a kernel. `arg_attrs` holds a dictionary per argument."""

    name = FUNC
    sym_name = prop_def(StringAttr)
    function_type = prop_def(FunctionType)
    kernel_spec = opt_prop_def(KernelSpecAttr)
    compute_capability = opt_prop_def(ComputeCapabilityAttr)
    arg_attrs = opt_prop_def(ArrayAttr)
    sym_visibility = opt_prop_def(StringAttr)
    body = region_def()
    traits = traits_def(IsolatedFromAbove(), SymbolOpInterface())

    @classmethod
    def of(
        cls,
        name: str,
        inputs: Sequence[Attribute],
        outputs: Sequence[Attribute] = (),
        body: Region | None = None,
        **attributes: Any,
    ) -> FuncOp:
        """A function from its name and types; `attributes` as in `make`."""
        type_ = FunctionType.from_lists(list(inputs), list(outputs))
        return cls.make(sym_name=name, function_type=type_, regions=[body or Region()], **attributes)

    @property
    def is_entry(self) -> bool:
        return self.kernel_spec is not None and self.kernel_spec.entry

    def argument_attributes(self, index: int) -> dict[str, Attribute]:
        """The attributes of an argument."""
        found = self.arg_attrs.data[index] if self.arg_attrs is not None else None
        return dict(found.data) if isinstance(found, DictionaryAttr) else {}

    def check(self) -> None:
        _check_visibility(self.sym_visibility)
        spec = self.kernel_spec
        if spec is not None and not spec.is_valid:
            raise VerifyException(f"expects a kernel_spec that can be launched, but got {spec}")
        if spec is not None and spec.entry and self.function_type.outputs.data:
            raise VerifyException("expects a kernel to have no results")
        inputs = self.function_type.inputs.data
        if self.arg_attrs is not None and len(self.arg_attrs.data) != len(inputs):
            raise VerifyException(f"expects {len(inputs)} argument attributes, but got {len(self.arg_attrs.data)}")
        entry = self.body.first_block
        if entry is None:
            return
        if tuple(a.type for a in entry.args) != tuple(inputs):
            raise VerifyException("expects the body's arguments to have the function's input types")
        last = self.body.last_block
        if last is None or last.last_op is None or last.last_op.name != RETURN:
            raise VerifyException(f"expects regions to end with '{RETURN}'")
        for op in ops_of(self.body):
            if op.name.startswith("cuda_tile."):
                raise VerifyException(f"expects no cuda_tile operations, but got '{op.name}'")
            if op.name == "scf.if":
                _check_branch(op)
            elif op.name == "scf.while":
                _check_while(op)

    @classmethod
    def parse(cls, parser: Parser) -> FuncOp:
        from libtile.dialects.nv_tileaa.function_text import parse_function

        return parse_function(cls, parser)

    def print(self, printer: Printer) -> None:
        from libtile.dialects.nv_tileaa.function_text import print_function

        print_function(self, printer)


def _check_call(op: Operation, reference: SymbolRefAttr) -> None:
    """The function is there, and has the types of the op's operands and results."""
    callee = require_symbol(op, reference, FUNC)
    type_ = callee.properties["function_type"]
    given = FunctionType.from_lists([v.type for v in op.operands], [r.type for r in op.results])
    if type_ != given:
        raise VerifyException(f"expects operands and results of the callee's type {type_}, but got {given}")


@tile_op
class CallOp(TileOp):
    """Calls a function."""

    name = "nv_tileaa.call"
    traits = traits_def(Observable())
    arguments = var_operand_def()
    outputs = var_result_def()
    callee = prop_def(SymbolRefAttr)

    @property
    def called(self) -> SymbolRefAttr:
        """The function whose body runs here."""
        return self.callee

    def check(self) -> None:
        _check_call(self, self.callee)


@tile_op
class GlobalOp(TileOp):
    """Memory of the module with initial values; `constant` when no kernel writes it. An `alignment` of 0 is none."""

    name = "nv_tileaa.global"
    sym_name = prop_def(StringAttr)
    value = prop_def(DenseElementsAttr)
    alignment = opt_prop_def(IntegerAttr)
    constant = opt_prop_def(UnitAttr)
    sym_visibility = opt_prop_def(StringAttr)
    traits = traits_def(SymbolOpInterface())

    def check(self) -> None:
        _check_visibility(self.sym_visibility)
        if integer_of(self.alignment, 0):
            require_power_of_two(self, "alignment")


@tile_op
class LaunchFuncOp(TileOp):
    """Launches a kernel on a grid: the first three operands are its sizes."""

    name = "nv_tileaa.launch_func"
    traits = traits_def(Observable())
    grid_x = operand_def()
    grid_y = operand_def()
    grid_z = operand_def()
    arguments = var_operand_def()
    kernel = prop_def(SymbolRefAttr)

    def check(self) -> None:
        callee = require_symbol(self, self.kernel, FUNC)
        if not isinstance(callee, FuncOp) or not callee.is_entry:
            raise VerifyException(f"'{self.kernel.root_reference.data}' is no kernel: only kernels are launched")
        for size in (self.grid_x, self.grid_y, self.grid_z):
            if not is_count(size.type):
                raise VerifyException(f"expects the sizes of the grid to be numbers, but got {type_text(size.type)}")
        given, inputs = [v.type for v in self.arguments], list(callee.function_type.inputs.data)
        if given != inputs:
            shown = [f"({', '.join(map(type_text, types))})" for types in (inputs, given)]
            raise VerifyException(f"expects arguments of the kernel's types {shown[0]}, but got {shown[1]}")


RESOURCES = ("registers", "shared_memory", "tensor_memory", "named_barriers")


class Resources(TileOp):
    """Base of opaque fragments, which state what they need: registers, shared and tensor memory, named barriers."""

    arguments = var_operand_def()
    outputs = var_result_def()
    registers = opt_prop_def(IntegerAttr)
    shared_memory = opt_prop_def(IntegerAttr)
    tensor_memory = opt_prop_def(IntegerAttr)
    named_barriers = opt_prop_def(IntegerAttr)


@tile_op
class PluginOp(Resources):
    """A kernel fragment under a name: runs the function of the module that bears it. `layouts` are those of its
    operands."""

    name = "nv_tileaa.plugin"
    traits = traits_def(Observable())
    plugin = prop_def(SymbolRefAttr)
    layouts = opt_prop_def(ArrayAttr)

    def check(self) -> None:
        require_parent_function(self)
        require_at_least(self, 0, *RESOURCES)
        require_at_most(self, NAMED_BARRIERS, "named_barriers")
        _check_call(self, self.plugin)

    @property
    def called(self) -> SymbolRefAttr:
        """The function whose body runs here."""
        return self.plugin


@tile_op
class ExecuteOp(Resources):
    """Runs its regions side by side, each by an agent: a group of warps with a register budget.

    `agent_warps` and `agent_registers` have an entry per region. Each region gets the operands; the results are what
    the agents yield, one after the other.
    """

    name = "nv_tileaa.execute"
    traits = traits_def(Observable())
    agent_warps = opt_prop_def(ArrayAttr)
    agent_registers = opt_prop_def(ArrayAttr)
    agents = var_region_def()

    def check(self) -> None:
        require_parent_function(self)
        check_region_ends(self)
        require_at_least(self, 0, *RESOURCES)
        require_at_most(self, NAMED_BARRIERS, "named_barriers")
        check_agent_entries(self, "agent_warps", "agent_registers")
        require_agents(self)
        for region in self.regions:
            require_arguments(region.block, [v.type for v in self.arguments])
        if self.results:
            require_yields_together(self, [r.type for r in self.results])
        else:
            require_yields(self, [])


@tile_op
class InjectIrOp(TileOp):
    """LLVM IR for this place; the operands and results are its `%0`, `%1`, ... and what it returns."""

    name = "nv_tileaa.inject_ir"
    traits = traits_def(Observable())
    arguments = var_operand_def()
    outputs = var_result_def()
    ir = prop_def(StringAttr)


# -- grid -------------------------------------------------------------------------------------------------------------


class GridQuery(TileOp):
    """Base: a number about the grid along `axis` (0, 1 or 2)."""

    GIVES_PROGRAM: ClassVar[bool] = False
    """Whether the result may be a program of the grid."""
    result = result_def()
    axis = prop_def(IntegerAttr)
    traits = traits_def(Pure())

    def check(self) -> None:
        if not 0 <= self.axis.value.data <= 2:
            raise VerifyException(f"expects axis in range 0 to 2, but got {self.axis.value.data}")
        element = element_of(self.result.type)
        if isinstance(element, ProgramIdType) and not self.GIVES_PROGRAM:
            raise VerifyException(f"expects an integer as result, but got {type_text(element)}")
        if not isinstance(element, ProgramIdType) and not is_index(element):
            raise VerifyException(f"expects an integer or a program_id as result, but got {type_text(element)}")


@tile_op
class GetProgramIdOp(GridQuery):
    """The index along `axis` of this program, or of another one, in the grid; as a program_id the program itself."""

    name = "nv_tileaa.get_program_id"
    GIVES_PROGRAM: ClassVar[bool] = True
    program = opt_operand_def()

    def check(self) -> None:
        super().check()
        if self.program is None:
            return
        if not isinstance(self.program.type, ProgramIdType) or isinstance(self.result.type, ProgramIdType):
            shown = f"{type_text(self.program.type)} and {type_text(self.result.type)}"
            raise VerifyException(f"expects a program_id as operand and its index as result, but got {shown}")


@tile_op
class GetNumProgramsOp(GridQuery):
    """The number of programs in the grid."""

    name = "nv_tileaa.get_num_programs"


@tile_op
class GetCtaRankOp(TileOp):
    """The number of this CTA among those of its cluster, which run one program together (`num_ctas` of kernel_spec)."""

    name = "nv_tileaa.get_cta_rank"
    result = result_def()
    traits = traits_def(Pure())

    def check(self) -> None:
        element = element_of(self.result.type)
        if not is_index(element):
            raise VerifyException(f"expects an integer as result, but got {type_text(element)}")


@tile_op
class IsValidProgramIdOp(TileOp):
    """Whether a program id that was asked for is one of the grid."""

    name = "nv_tileaa.is_valid_program_id"
    program_id = operand_def()
    result = result_def()
    traits = traits_def(Pure())

    def check(self) -> None:
        if not isinstance(self.program_id.type, ProgramIdType) or element_of(self.result.type) != i1:
            raise VerifyException("expects a program_id as operand and i1 as result")


@tile_op
class CancelNextProgramIdOp(TileOp):
    """Takes a program of the grid that has not started, to run it here; the result may be no valid program."""

    name = "nv_tileaa.cancel_next_program_id"
    traits = traits_def(Observable())
    result = result_def()

    def check(self) -> None:
        if not isinstance(self.result.type, ProgramIdType):
            raise VerifyException(f"expects a program_id as result, but got {type_text(self.result.type)}")
