# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Foreign code: on every element inline PTX, LLVM's intrinsics and functions of libraries; on numbers LLVM IR."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects.builtin import TensorType

from libtile.codegen import fragments
from libtile.codegen.builder import KernelBuilder, Value, integer
from libtile.codegen.llvm_types import (
    DOUBLE,
    ELEMENT_TYPES,
    FLOAT,
    I1,
    I16,
    I32,
    I64,
    VOID,
    IntType,
    LlvmType,
    StructType,
)
from libtile.codegen.ptx_text import inline_problem
from libtile.codegen.stored_bits import as_integer, from_integer
from libtile.codegen.tile import Tile
from libtile.dialects.nv_tileaa.functions import InjectIrOp
from libtile.dialects.nv_tileaa.pointers import (
    CallElementwiseIntrinsicOp,
    Elementwise,
    ElementwiseInlineAsmOp,
    ExternElementwiseOp,
)
from libtile.layouts import REGISTER
from libtile.lowering.to_llvm.emitter import Emitter, llvm_type, rule
from libtile.lowering.to_llvm.fragments import fragment_elements
from libtile.numerics import intrinsics
from libtile.support.diagnostics import UnsupportedError

Code = Callable[[Sequence[Sequence[Value]]], Sequence[Sequence[Value]]]
"""Makes the elements of all results of those of all operands: so many of each at a time."""

_REGISTERS: dict[str, LlvmType] = {"b": I1, "h": I16, "r": I32, "f": FLOAT, "l": I64, "d": DOUBLE}
"""Types of registers by the letter of a constraint (LLVM Language Reference, "Supported Constraint Code List")."""


def _apply(e: Emitter, op: Elementwise, each: int, code: Code) -> None:
    """Run code on the registers of a thread, `each` elements of every operand at a time; where a thread has fewer, the
    last one is there more often."""
    held = [e.held[v] for v in op.inputs]
    operands = [list(h.registers) if isinstance(h, Tile) else [e.scalar(v)] for h, v in zip(held, op.inputs)]
    layouts = [h.layout for h in held if isinstance(h, Tile)]
    layouts += [e.layout(v) for v in op.outputs if isinstance(v.type, TensorType)]
    if any(layout != layouts[0] for layout in layouts):
        raise UnsupportedError("has tiles in several layouts")
    count = layouts[0].in_size(REGISTER) if layouts else 1
    made: list[list[Value]] = [[] for _ in op.outputs]
    for first in range(0, count, each):
        chunks = [[o[min(first + i, count - 1)] for i in range(each)] for o in operands]
        for whole, part in zip(made, code(chunks), strict=True):
            whole += part
    for value, registers in zip(op.outputs, made, strict=True):
        if isinstance(value.type, TensorType):
            e.bind(value, Tile(e.layout(value), e.element(value), tuple(registers[:count])))
        else:
            e.bind(value, registers[0])


@rule(CallElementwiseIntrinsicOp)
def _intrinsic(e: Emitter, op: CallElementwiseIntrinsicOp) -> None:
    name = op.intrinsic.data
    if len(op.outputs) != 1:
        raise UnsupportedError(f"has {len(op.outputs)} results, and intrinsics have one")
    element = e.element(op.outputs[0])
    known = intrinsics.found(name, element)
    if known is None:
        listed = ", ".join(intrinsics.INTRINSICS)
        raise UnsupportedError(f"calls '{name}', and code is made for these intrinsics: {listed}")
    if element not in known.elements or any(e.element(v) != element for v in op.inputs):
        raise UnsupportedError(f"calls '{name}' of {element}, and it is one of {' or '.join(known.elements)}")
    if len(op.inputs) != known.operands:
        raise UnsupportedError(f"calls '{name}' with {len(op.inputs)} operands, and it takes {known.operands}")
    type_ = ELEMENT_TYPES[element]
    full = f"{name.removesuffix(f'.{element}')}.{type_.suffix}"
    _apply(e, op, 1, lambda given: [[e.b.call(full, type_, [v for (v,) in given])]])


@rule(ExternElementwiseOp)
def _extern(e: Emitter, op: ExternElementwiseOp) -> None:
    """One function, of the types of the elements; that a library defines it was seen before."""
    if len(op.outputs) > 1:
        raise UnsupportedError(f"has {len(op.outputs)} results, and functions that are called have one")
    result = ELEMENT_TYPES[e.element(op.outputs[0])] if op.outputs else VOID
    symbol = op.symbol.data

    def code(given: Sequence[Sequence[Value]]) -> list[list[Value]]:
        made = e.b.call(symbol, result, [v for (v,) in given])
        return [[made]] if op.outputs else []

    _apply(e, op, 1, code)


@rule(ElementwiseInlineAsmOp)
def _inline_asm(e: Emitter, op: ElementwiseInlineAsmOp) -> None:
    each, effects = op.elements_at_once, op.pure is None
    if problem := inline_problem(op.asm_string.data):
        raise UnsupportedError(f"has {problem}")
    outputs, inputs = op.registers
    types = [_register(letter, ()) for letter in outputs]
    given_types = [_register(letter, types) for letter in inputs]
    result = VOID if not types else types[0] if len(types) == 1 else StructType(tuple(types))
    elements = [ELEMENT_TYPES[e.element(v)] for v in op.outputs]

    def code(given: Sequence[Sequence[Value]]) -> list[list[Value]]:
        rest, arguments = iter(given_types), []
        for values in given:
            for part in _parts(values, ElementwiseInlineAsmOp.registers_of(values[0].type.bits, each)):
                arguments.append(_packed(e.b, part, next(rest)))
        made = e.b.asm(op.asm_string.data, op.constraints.data, result, arguments, side_effects=effects, memory=effects)
        if len(types) > 1:
            registers = iter([e.b.extract(made, n, type_) for n, type_ in enumerate(types)])
        else:
            registers = iter([made][: len(types)])
        found = []
        for element in elements:
            parts = ElementwiseInlineAsmOp.registers_of(element.bits, each)
            found.append([v for _ in range(parts) for v in _unpacked(e.b, next(registers), element, each // parts)])
        return found

    _apply(e, op, each, code)


@rule(InjectIrOp)
def _inject(e: Emitter, op: InjectIrOp) -> None:
    """Each thread runs the fragment, which is valid LLVM IR: that was seen before."""
    types = [llvm_type(element) for element in fragment_elements(op, op.results, e.b.target)]
    fragment_elements(op, op.operands, e.b.target)
    made = fragments.inject(e.b, op.ir.data, [e.scalar(v) for v in op.operands], types)
    for value, held in zip(op.results, made, strict=True):
        type_ = value.type
        e.bind(value, e.as_tile(held, type_.element_type) if isinstance(type_, TensorType) else held)


def _register(letter: str, outputs: Sequence[LlvmType]) -> LlvmType:
    """The type of the register that a constraint asks for: by its letter, or that of the output that it is tied to."""
    if letter.isdigit() and int(letter) < len(outputs):
        return outputs[int(letter)]
    if letter not in _REGISTERS:
        raise UnsupportedError(f"has the constraint '{letter}', and registers are {', '.join(_REGISTERS)}")
    return _REGISTERS[letter]


def _parts(values: Sequence[Value], count: int) -> list[Sequence[Value]]:
    size = len(values) // count
    return [values[i * size : (i + 1) * size] for i in range(count)]


def _packed(b: KernelBuilder, values: Sequence[Value], register: LlvmType) -> Value:
    """Elements side by side in a register, the first one lowest; a single one may be narrower than it."""
    if len(values) == 1 and values[0].type is register:
        return values[0]
    bits = [as_integer(b, v) for v in values]
    whole = bits[0] if len(bits) == 1 else b.cast("bitcast", b.vector(bits), IntType(bits[0].type.bits * len(bits)))
    if whole.type.bits > register.bits:
        raise UnsupportedError(f"has {whole.type.bits} bits for a register of {register.bits}")
    return from_integer(b, b.cast("zext", whole, IntType(register.bits)), register)


def _unpacked(b: KernelBuilder, value: Value, element: LlvmType, count: int) -> list[Value]:
    """The elements that lie side by side in a register."""
    if value.type is element and count == 1:
        return [value]
    bits = as_integer(b, value)
    if element.bits * count > bits.type.bits:
        raise UnsupportedError(f"gives a register of {bits.type.bits} bits for {element.bits * count}")
    found = []
    for number in range(count):
        moved = bits
        if number:
            moved = b.binary("lshr", bits, integer(bits.type, number * element.bits))
        found.append(from_integer(b, b.cast("trunc", moved, IntType(element.bits)), element))
    return found
