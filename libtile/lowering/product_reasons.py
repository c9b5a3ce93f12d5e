# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What remarks say of a product, as attributes beside its atom: written by the passes that choose the atom.

executed     what the hardware executes for the atom (`#nv_tileas.executed`)
not_native   why no instruction multiplies the operands' types as they are given
step_parts   in how many parts along k the tiles of a step come, each in a stage of its own
"""

from __future__ import annotations

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute, Operation, SSAValue

from libtile.atoms import tcgen05, tcgen05_factors, wgmma
from libtile.atoms.operand_types import multiplied_element, ptx_type
from libtile.dialects.cuda_tile.locations import without_source_line
from libtile.dialects.cuda_tile.types import NUMBER_NAMES
from libtile.dialects.nv_tileaa.collectives import DotOp, ScaledDotOp
from libtile.dialects.nv_tileaa.pointers import FpToFpOp
from libtile.dialects.nv_tileas.async_products import AsyncDotOp
from libtile.dialects.nv_tileas.attributes import ExecutedAttr
from libtile.dialects.nv_tileas.tensor_memory import AsyncDotIntoOp
from libtile.ir.places import ops_of
from libtile.lowering.to_tileas.types import element_of
from libtile.targets import MmaAtom, Target

EXECUTED, NOT_NATIVE, STEP_PARTS = "executed", "not_native", "step_parts"


def explained(op: DotOp | ScaledDotOp, atom: MmaAtom | None, gpu: Target) -> dict[str, Attribute]:
    """The attributes of a product of nv_tileaa that an atom of the target, or without one fused multiply-adds, do."""
    packed = isinstance(op, ScaledDotOp) and op.packed is not None
    a, b = (_given_element(v, op) for v in (op.a, op.b))
    if isinstance(op, ScaledDotOp) and op.packed is not None:
        a, b = (NUMBER_NAMES[op.element(v)] for v in (op.a, op.b))
    c = _given_element(op.c, op)
    if atom is None:
        return {NOT_NATIVE: StringAttr(f"{gpu.name} has none for {a} and {b} into {c}")}
    executed = atom if atom.family == tcgen05.FAMILY else gpu.executed(atom)
    found: dict[str, Attribute] = {EXECUTED: ExecutedAttr.of(executed)}
    multiplied = [
        multiplied_element(own if packed else element_of(v), ptx)
        for own, v, ptx in zip((a, b), (op.a, op.b), (atom.a, atom.b))
    ]
    element = multiplied[0] if multiplied != [a, b] else ""
    if converted := _converted_to(atom, executed, element):
        found[NOT_NATIVE] = StringAttr(f"{_lacking(gpu, a, b, isinstance(op, ScaledDotOp))}: {converted}")
    return found


def explain_asynchronous(function: Operation, gpu: Target) -> None:
    """Write `executed` on the products of a function that are issued by one thread or by warpgroups."""
    for op in ops_of(function, AsyncDotOp, AsyncDotIntoOp):
        atom = op.atom.instruction
        if isinstance(op, AsyncDotOp):
            found = wgmma.find(gpu, atom.a, atom.b, atom.d, atom.m, atom.n, atom.k)
        elif op.sfa is not None:
            found = tcgen05_factors.listed(gpu, atom)
        else:
            ctas = tcgen05.ctas_of(atom)
            found = tcgen05.find(gpu, atom.a, atom.b, atom.d, atom.m // ctas, atom.n, atom.k, ctas)
        assert found is not None  # as the verifier has it
        op.attributes[EXECUTED] = ExecutedAttr.of(found)


def _converted_to(atom: MmaAtom, executed: MmaAtom, element: str) -> str:
    """What becomes of operands that are not multiplied as they are: `element`, if that is given, or by ptxas."""
    if not element and (executed.a, executed.b) == (atom.a, atom.b):
        return ""
    return f"they are converted to {element or executed.a} first"


def _lacking(gpu: Target, a: str, b: str, scaled: bool) -> str:
    """That a product has no instruction, or only one that is not generated."""
    unused = gpu.unused_tensor_core(ptx_type(a, signed=True), ptx_type(b, signed=True), scaled=scaled)
    what = f"{a} and {b}{' with scale factors' if scaled else ''}"
    if unused is None:
        return f"{gpu.name} has none for {what}"
    return f"{gpu.name} multiplies {what} by {unused}, which is not generated for it"


def _given_element(value: SSAValue, product: Operation) -> str:
    """The element type of a product's operand, before what the conversion to nv_tileaa made of it, which stands at the
    product's location."""
    while isinstance(source := value.owner, FpToFpOp):
        if without_source_line(source.location) != without_source_line(product.location):
            break
        value = source.source
    return element_of(value)
