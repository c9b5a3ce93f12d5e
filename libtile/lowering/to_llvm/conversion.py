# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The last conversion: a module in nv_tileas to LLVM IR as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import IndexType, ModuleOp, TensorType
from xdsl.ir import Attribute, SSAValue

from libtile.codegen import globals, limits
from libtile.codegen.blocks import Line
from libtile.codegen.builder import KernelBuilder
from libtile.codegen.llvm_types import GENERIC_POINTER, I1, I8
from libtile.codegen.sizes import ModuleSize
from libtile.codegen.symbols import clash
from libtile.dialects.cuda_tile.types import NUMBER_NAMES
from libtile.dialects.nv_tileaa.attributes import KernelSpecAttr
from libtile.dialects.nv_tileaa.functions import FuncOp, GlobalOp, is_hidden
from libtile.dialects.nv_tileaa.kernels import scalar_type
from libtile.dialects.nv_tileas.types import TmaDescType
from libtile.ir.kernels import Parameter
from libtile.ir.places import ops_in
from libtile.ir.tile_form import integer_of
from libtile.lowering.errors import unsupported
from libtile.lowering.legality import check
from libtile.lowering.tileas.copies.common import HOST_CODE
from libtile.lowering.tileas.memory.shared_check import check_shared_memory
from libtile.lowering.tileas.memory.storage_lives import BYTES, BYTES_ALIGNMENT, integer_attribute
from libtile.lowering.to_llvm import agents, control, elementwise, grid, memory, tokens  # noqa: F401  (most register rules only)
from libtile.lowering.to_llvm.emitter import Emitter, element_name, llvm_type
from libtile.lowering.to_llvm.legality import STAGE
from libtile.lowering.to_llvm.storage import Descriptor
from libtile.lowering.to_tileas.shape_layouts import scalar_layout
from libtile.numerics.elements import STORAGE_BYTES
from libtile.support.records import dataclass, field
from libtile.targets import DATA_LAYOUT, TRIPLE, Target

if TYPE_CHECKING:
    from libtile.lowering.to_llvm.debug_info import DebugInfo


@dataclass
class LlvmKernel:
    """A kernel as LLVM IR: the builder that holds it, its parameters and its threads."""

    name: str
    builder: KernelBuilder
    parameters: list[Parameter]
    warps: int
    occupancy: int | None = None
    descriptors: int = 0
    """How many tensor maps are parameters behind the others, which a launch does not pass."""
    ctas: int = 1
    """Of a cluster, which is a tile block."""

    @property
    def shared(self) -> int:
        """Bytes of shared memory."""
        return self.builder.shared_size


@dataclass
class LlvmModule:
    """The kernels of a module, and their text as one LLVM module."""

    target: Target
    kernels: list[LlvmKernel] = field(default_factory=list)

    @property
    def size(self) -> ModuleSize:
        """How much there is for LLVM and ptxas to do."""
        builders = [kernel.builder for kernel in self.kernels]
        return ModuleSize(tuple(b.size for b in builders), len({name for b in builders for name in b.variables}))

    def text(self, extra: str = "") -> str:
        """The LLVM module; `extra` is appended (metadata)."""
        functions, attributes = [], []
        for number, kernel in enumerate(self.kernels):
            functions.append(kernel.builder.function_text(number))
            attributes.append(f'attributes #{number} = {{ "nvvm.reqntid"="{kernel.builder.cta_threads},1,1" }}')
        return "\n".join([*self._beginning(), *functions, *attributes]) + ("\n" + extra if extra else "") + "\n"

    def lines(self) -> list[Line]:
        """The lines of the module, without metadata and attributes."""
        found = [(line, "") for part in self._beginning() for line in part.split("\n")]
        for number, kernel in enumerate(self.kernels):
            found += [(f"{kernel.builder.head(number)} {{", ""), *kernel.builder.body(), ("}", ""), ("", "")]
        return found

    def _beginning(self) -> list[str]:
        """What stands in front of the functions."""
        declarations: dict[str, str] = {}
        variables: dict[str, str] = {}
        for kernel in self.kernels:
            b = kernel.builder
            declarations |= b.declarations
            variables |= b.globals
            if b.shared_size:
                variables[b.shared_name] = b.shared_definition
        head = [f'target triple = "{TRIPLE}"', f'target datalayout = "{DATA_LAYOUT}"']
        return [*head, "", *variables.values(), "", *declarations.values(), ""]


def _parameter(e: Emitter, type_: Attribute, value: SSAValue) -> Parameter:
    """Declare a parameter, a scalar or a tile of rank 0; i1 comes as a byte."""
    element = scalar_type(type_)
    assert element is not None  # `convert_function` has seen to it
    kind = llvm_type(element)
    given = e.b.add_parameter(I8 if kind is I1 else kind)
    held = e.b.cast("trunc", given, I1) if kind is I1 else given
    e.bind(value, e.as_tile(held, element) if isinstance(type_, TensorType) else held)
    name = "i64" if isinstance(element, IndexType) else element_name(element)
    return Parameter(name, STORAGE_BYTES[name])


def _descriptor(e: Emitter, value: SSAValue) -> None:
    """Declare a parameter that is a tensor map."""
    from libtile.targets import tensor_map

    type_ = value.type
    assert isinstance(type_, TmaDescType)
    attributes = f'byval([{tensor_map.SIZE} x i8]) align {tensor_map.ALIGNMENT} "nvvm.grid_constant"'
    e.bind(value, Descriptor(e.b.add_parameter(GENERIC_POINTER, attributes), type_))


def convert_function(
    function: FuncOp,
    target: Target,
    variables: Sequence[GlobalOp] = (),
    debug: DebugInfo | None = None,
    places: bool = False,
    trusted: bool = False,
) -> LlvmKernel:
    """Emit one kernel, with these variables of its module; `places` says that `KernelBuilder.compute` is to choose
    places; where things lie in shared memory is checked but for a `trusted` one. LoweringError for what the target
    cannot do."""
    spec = function.kernel_spec
    assert isinstance(spec, KernelSpecAttr)
    name = function.sym_name.data
    b = KernelBuilder(name, target, target.warp_size * agents.total_warps(function, spec.num_warps))
    b.full_debug = debug is not None and debug.full
    b.places = places and not b.full_debug
    for op in variables:
        _define_global(b, op)
    lines = debug.function(name, function.location) if debug is not None else None
    check(STAGE, function, target.name)
    e = Emitter(b, scalar_layout(spec.num_warps), lines)
    if lines is not None:
        b.subprogram = lines.subprogram
        b.set_location(lines.of(function.location))
    block = function.body.block
    if spec.num_ctas > target.clusters:
        problem = f"is for clusters of {spec.num_ctas} CTAs, and the most is {target.clusters}"
        raise unsupported(function, problem, target.name)
    visible = [a for a in block.args if not isinstance(a.type, TmaDescType)]
    hidden = [a for a in block.args if isinstance(a.type, TmaDescType)]
    if [*visible, *hidden] != list(block.args):
        raise unsupported(function, "has parameters behind its descriptors", target.name)
    for number, argument in enumerate(visible):
        if scalar_type(argument.type) is None:
            problem = f"has a parameter (number {number}) of type {argument.type}, and a kernel takes scalars"
            raise unsupported(function, problem, target.name)
    parameters = [_parameter(e, a.type, a) for a in visible]
    for argument in hidden:
        _descriptor(e, argument)
    if not trusted:
        check_shared_memory(function, target)
    b.shared_size = integer_attribute(function, BYTES)
    b.shared_align = integer_attribute(function, BYTES_ALIGNMENT, b.shared_align)
    grid.begin_programs(e, function)
    for inner in ops_in(block):
        e.emit(inner)
    return LlvmKernel(name, b, parameters, spec.num_warps, spec.occupancy, len(hidden), spec.num_ctas)


def _define_global(b: KernelBuilder, op: GlobalOp) -> None:
    value, alignment = op.value, integer_of(op.alignment)
    if alignment > limits.MAX_GLOBAL_ALIGNMENT:
        reason = f"asks for an alignment of {alignment} bytes, and {limits.MAX_GLOBAL_ALIGNMENT} is the most"
        raise unsupported(op, reason, b.target.name)
    zero = not any(value.raw)
    if not zero and value.memory_bytes > limits.MAX_GLOBAL_BYTES:
        most = limits.MAX_GLOBAL_BYTES
        reason = f"has {value.memory_bytes} bytes of initial values that are not all zero, and {most} is the most"
        raise unsupported(op, reason, b.target.name)
    globals.define_global(
        b,
        op.sym_name.data,
        NUMBER_NAMES[value.type.element_type],
        value.memory_bytes if zero else value.memory(),
        alignment=alignment,
        constant=op.constant is not None,
        private=is_hidden(op.sym_visibility),
    )


def convert_module(
    module: ModuleOp, target: Target, debug: DebugInfo | None = None, places: bool = False, trusted: bool = False
) -> LlvmModule:
    """All kernels of a module in nv_tileas; `debug` collects the metadata of their locations, and `places` says that
    instructions stand in front of the loops that do not change what they compute with, as LLVM's passes leave them
    where they are. `trusted` is what comes from passes that check where they put things in shared memory."""
    ops = ops_in(module.body.block)
    for op in ops:
        if not isinstance(op, GlobalOp | FuncOp) and HOST_CODE not in op.attributes:
            raise unsupported(op, "is left by the passes, and no LLVM IR can be made of it", target.name)
    variables = [op for op in ops if isinstance(op, GlobalOp)]
    functions = [op for op in ops if isinstance(op, FuncOp)]
    # They are the module's: the first kernel brings them all.
    result = LlvmModule(
        target,
        [
            convert_function(op, target, () if n else variables, debug, places, trusted)
            for n, op in enumerate(functions)
        ],
    )
    calls = {
        kernel.name: [name for name in kernel.builder.declarations if not name.startswith("llvm.")]
        for kernel in result.kernels
    }
    for function in functions:
        if problem := clash(name := function.sym_name.data, calls):
            raise unsupported(function, f"has the name {name!r} of {problem}", target.name)
    return result
