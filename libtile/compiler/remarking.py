# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The remarks of a compilation, read off the module in nv_tileas: which instructions products and accesses became."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr, ModuleOp, StringAttr
from xdsl.ir import Attribute, Operation

from libtile.compiler.access_remarks import ACCESSES, access_remarks
from libtile.dialects.cuda_tile.locations import source_location
from libtile.dialects.nv_tileaa.functions import FuncOp
from libtile.dialects.nv_tileaa.pointers import MakeMemRefOp
from libtile.dialects.nv_tileaa.tokens import MessageOp
from libtile.dialects.nv_tileas.async_products import AsyncDotOp
from libtile.dialects.nv_tileas.attributes import FMA, ExecutedAttr
from libtile.dialects.nv_tileas.pipeline import AgentSwitchOp
from libtile.dialects.nv_tileas.products import DotOp, ScaledDotOp
from libtile.dialects.nv_tileas.tensor_memory import AsyncDotIntoOp
from libtile.dialects.nv_tileas.tiles import PragmaOp
from libtile.dialects.nv_tileas.tma import TiledTmaLoadOp, TiledTmaStoreOp
from libtile.ir.places import ops_of
from libtile.layouts import REGISTER
from libtile.lowering.agents import warps_of
from libtile.lowering.discardable import DECISIONS, NOT_SPECIALIZED, is_foreign
from libtile.lowering.index_width import NARROW
from libtile.lowering.tileas.copies.common import OF_DESCRIPTORS
from libtile.lowering.tileas.copies.recipes import host_tensors
from libtile.lowering.tileas.copies.select_copies import offset_bits
from libtile.lowering.to_tileas.types import element_of, layout_of
from libtile.numerics.elements import STORAGE_BYTES
from libtile.support import remarks
from libtile.support.diagnostics import SourceLocation
from libtile.targets import Target

if TYPE_CHECKING:
    from libtile.backend.effort import Excess


def collect(module: ModuleOp, target: Target) -> list[remarks.Remark]:
    """The remarks of all kernels of a module, in the order of the program; each once, however many copies an op has."""
    found: dict[remarks.Remark, None] = {}
    hosts = host_tensors(module)
    for op in module.body.block.ops:
        if isinstance(op, FuncOp) and op.kernel_spec is not None:
            warps = op.kernel_spec.num_warps
            if _holds_too_much(op, target):
                found[remarks.register_pressure(op.sym_name.data, source_location(op.location))] = None
            name = op.sym_name.data
            found.update(dict.fromkeys(_of_parameters(op, name)))
            for made in hosts.get(name, ()):
                found.update(dict.fromkeys(_of(made, name, source_location(made.location), target, warps)))
            for inner in ops_of(op, *_SPEAKING):
                place = source_location(inner.location)
                found.update(dict.fromkeys(_of(inner, op.sym_name.data, place, target, warps)))
    return list(found)


def _of_parameters(kernel: FuncOp, name: str) -> Iterator[remarks.Remark]:
    """What a kernel says of its parameters beyond their types; of descriptors passes say where they lie."""
    for number in range(len(kernel.function_type.inputs.data) if kernel.arg_attrs is not None else 0):
        for key, value in kernel.argument_attributes(number).items():
            if key not in OF_DESCRIPTORS and not is_foreign(key):
                yield remarks.parameter_ignored(name, source_location(kernel.location), number, key, str(value))


def limited(module: ModuleOp, excesses: Sequence[Excess]) -> list[remarks.Remark]:
    """The warnings about kernels that are optimized less because of their size."""
    places = {op.sym_name.data: source_location(op.location) for op in module.body.block.ops if isinstance(op, FuncOp)}
    return [remarks.effort_reduced(e.function, places.get(e.function), e.what) for e in excesses]


Decisions = list[tuple[FuncOp, Operation, str, Attribute]]
"""Functions and ops with the names and values of their attributes by which passes tell others what they decided."""


def decisions_in(module: ModuleOp) -> Decisions:
    """What a module that enters in nv_tileas says to be decided already; texts are reasons."""
    return [
        (function, op, name, attr)
        for function in module.body.block.ops
        if isinstance(function, FuncOp)
        for op in ops_of(function)
        for name, attr in op.attributes.items()
        if name in DECISIONS and not isinstance(attr, StringAttr)
    ]


def replaced(given: Decisions) -> list[remarks.Remark]:
    """The remarks about what passes decided otherwise than a module said, of the ops that are still there."""
    found = []
    for function, op, name, attr in given:
        now = op.attributes.get(name)
        if now != attr and function.is_ancestor(op):
            reason = f"the compiler decides it, for {now}" if now is not None else "the compiler decides it, for none"
            place = source_location(op.location)
            found.append(remarks.attribute_ignored(function.sym_name.data, place, name, str(attr), reason))
    return found


def _holds_too_much(function: FuncOp, target: Target) -> bool:
    """Whether the accumulator of some product alone takes more registers than a thread can have."""
    for op in ops_of(function, DotOp, ScaledDotOp):
        from libtile.atoms.shared_accesses import WORD_BYTES

        registers = layout_of(op.c).in_size(REGISTER)
        if registers * STORAGE_BYTES[element_of(op.c)] // WORD_BYTES > target.registers_per_thread:
            return True
    return False


_PRODUCTS = (DotOp, ScaledDotOp)
_ASYNC_PRODUCTS = (AsyncDotOp, AsyncDotIntoOp)
_SPEAKING = (
    *(*ACCESSES, *_PRODUCTS, *_ASYNC_PRODUCTS, TiledTmaLoadOp, TiledTmaStoreOp),
    *(MessageOp, PragmaOp, AgentSwitchOp, MakeMemRefOp),
)
"""The ops of which `_of` says something."""


def _of(
    op: Operation, function: str, place: SourceLocation | None, gpu: Target, warps: int
) -> Iterator[remarks.Remark]:
    if isinstance(op, ACCESSES):
        yield from access_remarks(op, function, place, has_tma=gpu.has("tma"))
    elif isinstance(op, _PRODUCTS):
        yield from _of_product(op, function, place, warps_of(op, warps))
        if isinstance(reason := op.attributes.get(NOT_SPECIALIZED), StringAttr):
            yield remarks.mma_not_specialized(function, place, reason.data)
    elif isinstance(op, _ASYNC_PRODUCTS):
        yield from _executed(op, function, place)
        yield from _in_parts(op, function, place)
    elif isinstance(op, TiledTmaLoadOp):
        yield remarks.load_selected(function, place, remarks.TMA_LOAD, op.atom.box)
    elif isinstance(op, TiledTmaStoreOp):
        from libtile.lowering.tileas.copies.tma_tiles import box_of_all_rows

        yield remarks.store_selected(function, place, remarks.TMA_STORE, box_of_all_rows(op))
    elif isinstance(op, MessageOp):
        yield remarks.program_message(function, place, op.text.data)
    elif isinstance(op, PragmaOp):
        for directives in (op.enter_directives, op.leave_directives):
            for name, value in (directives or DictionaryAttr({})).data.items():
                yield remarks.directive_ignored(function, place, name, str(value))
    elif isinstance(op, AgentSwitchOp):
        from libtile.lowering.tileas.agents.arrange_agents import REGISTERS_SHARED

        shared = op.attributes.get(REGISTERS_SHARED)
        if isinstance(shared, StringAttr):
            yield remarks.registers_shared(function, place, shared.data)
    elif isinstance(op, MakeMemRefOp) and (bits := offset_bits(op)) > NARROW:
        yield remarks.index_not_narrowed(function, place, bits)


def _of_product(
    op: DotOp | ScaledDotOp, function: str, place: SourceLocation | None, warps: int
) -> Iterator[remarks.Remark]:
    from libtile.atoms.mma_layouts import busy_warps
    from libtile.lowering.product_reasons import NOT_NATIVE

    if op.atom.kind == FMA:
        yield remarks.mma_fma(function, place)
    else:
        yield from _executed(op, function, place)
    yield from _in_parts(op, function, place)
    if isinstance(reason := op.attributes.get(NOT_NATIVE), StringAttr):
        yield remarks.mma_not_native(function, place, reason.data)
    if op.atom.kind != FMA and (busy := busy_warps(layout_of(op.c))) < warps:
        yield remarks.mma_idle_warps(function, place, busy, warps)


def _in_parts(op: Operation, function: str, place: SourceLocation | None) -> Iterator[remarks.Remark]:
    """In how many parts the tiles of a product's step come, if these are several."""
    from libtile.lowering.product_reasons import STEP_PARTS

    if isinstance(parts := op.attributes.get(STEP_PARTS), IntegerAttr):
        yield remarks.mma_in_parts(function, place, parts.value.data)


def _executed(op: Operation, function: str, place: SourceLocation | None) -> Iterator[remarks.Remark]:
    """By what a product runs, if it says so."""
    from libtile.atoms.tcgen05 import ctas_of
    from libtile.lowering.product_reasons import EXECUTED

    executed = op.attributes.get(EXECUTED)
    if not isinstance(executed, ExecutedAttr):
        return
    m, n, k = executed.shape
    if executed.unit == ExecutedAttr.tensor_cores:
        ctas = ctas_of(op.atom.instruction) if isinstance(op, AsyncDotIntoOp) else None
        yield remarks.mma_tensor_core(function, place, f"Tensor-core SM{executed.since}", (m, n, k), ctas)
    else:
        yield remarks.mma_fma(function, place, executed.unit.upper(), (m, n, k))
