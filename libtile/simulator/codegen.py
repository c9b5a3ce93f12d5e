# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles units of PTX to Python functions over numpy vectors.

Each unit becomes one function `f(M, R, g)`: M is the machine, R the register file of the running frame (one array per
register, one element per thread), g the group of threads that runs. Registers live in local variables inside the
function. A group that is the whole machine works on the arrays of R themselves; a smaller group gathers what it reads,
computes on short vectors, and scatters what is live afterwards. So no instruction needs a mask of its own, and only
guarded ones select.

A local may exist in several views of the same bits (`uint32` and `float32`); views are made on demand and remembered.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from .cfg import CALL, SWITCH, Unit, operand_registers, plain_copy
from .errors import PtxError
from .ir import Group, Imm, Instruction, Neg, Not, Reg, Sink, Special, Sym
from .modifiers import unknown_modifier
from .types import DTYPES, TYPES, PtxType, unsigned_code

_FEATURES = {"wgmma": "wgmma", "tcgen05": "tcgen05", "clusterlaunchcontrol": "launch_control"}
"""Features of the targets that have instructions that others have not, by opcode."""

EmitFunction = Callable[["Emitter", Instruction], None]
OPS: dict[str, EmitFunction] = {}

U32, U64, PRED = TYPES["u32"], TYPES["u64"], TYPES["pred"]


def op(*names: str) -> Callable[[EmitFunction], EmitFunction]:
    """Register the code generator of one or more opcodes."""

    def register(fn: EmitFunction) -> EmitFunction:
        for name in names:
            if name in OPS:
                raise ValueError(f"two generators for {name}")
            OPS[name] = fn
        return fn

    return register


class Emitter:
    """Emits the Python source of one unit (or chain of units)."""

    def __init__(self, program: Any) -> None:
        self.program = program
        self.env: dict[str, Any] = program.env
        self.lines: list[str] = []
        self.vars: dict[int, dict[str, str]] = {}
        self.loads: dict[int, str] = {}
        self.written: dict[int, Reg] = {}
        # Registers that the machine reads by itself, in the register file.
        self.kept: set[int] = set()
        self.root: dict[str, str] = {}
        self.count = 0
        self.ins: Instruction | None = None
        self.guard: str | None = None
        self.uniform = False
        self.result = "None"

    # -- errors and names

    def fail(self, message: str) -> NoReturn:
        ins = self.ins
        if ins is None:
            raise PtxError(message, 0, 0, "", self.program.module.filename)
        raise PtxError(message, ins.line, ins.column, ins.text, self.program.module.filename)

    def require(self, feature: str, what: str) -> None:
        """An error where the module's target has not what it needs."""
        target = self.program.target
        if target is not None and not target.has(feature):
            self.fail(f"{what} is not there on {target.name}")

    def fresh(self, prefix: str = "v") -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def emit(self, line: str) -> None:
        self.lines.append(line)

    def let(self, expr: str) -> str:
        """Bind an expression to a new local."""
        name = self.fresh()
        self.lines.append(f"{name} = {expr}")
        return name

    def use(self, value: Any, name: str | None = None) -> str:
        """Make a Python object (a helper function, an access record) available to the generated code."""
        if name is None:
            name = getattr(value, "__name__", None) or f"o{len(self.env)}"
        known = self.env.get(name)
        if known is not None and known is not value:
            name = f"{name}_{len(self.env)}"
        self.env[name] = value
        return name

    def const(self, value: Any, code: str) -> str:
        """A one-element array constant that broadcasts."""
        array = np.array([value], dtype=DTYPES[code])
        name = f"k_{code}_{array.tobytes().hex()}"
        if name not in self.env:
            array.setflags(write=False)
            self.env[name] = array
        return f"np.repeat({name}, g.n)" if self.uniform else name

    # -- sources

    def src(self, operand: Any, kind: PtxType, code: str | None = None) -> str:
        """An expression for `operand` read as `kind` (held in `code`, by default the type's own)."""
        code = code or kind.code
        if isinstance(operand, Reg):
            return self.read_reg(operand, code)
        if isinstance(operand, Imm):
            return self.const(self._imm(operand, kind, code), code)
        if isinstance(operand, Special):
            name = self.let(f"g.special({operand.name!r})")
            self.root[name] = "borrowed"
            have = _SPECIAL_CODES.get(operand.name, "u4")
            return name if have == code else self._convert_view(name, have, code)
        if isinstance(operand, Sym):
            return self.address_of(operand, code)
        if isinstance(operand, Not):
            return f"(~{self.read_reg(operand.reg, 'p')})"
        if isinstance(operand, Neg):
            return f"(-{self.read_reg(operand.reg, code)})"
        self.fail("this operand cannot be read here")

    def read_reg(self, reg: Reg, code: str) -> str:
        views = self.vars.get(reg.index)
        if views is None:
            name = self.fresh("r")
            self.loads[reg.index] = name
            self.root[name] = "borrowed"
            views = self.vars[reg.index] = {reg.type.code: name}
        found = views.get(code)
        if found is not None:
            return found
        have = next((c for c in views if _width(c) == _width(code)), next(iter(views)))
        name = self._convert_view(views[have], have, code)
        if _width(have) == _width(code):
            views[code] = name
        return name

    def _convert_view(self, name: str, have: str, code: str) -> str:
        if have == code:
            return name
        if "p" in (have, code):
            self.fail("a predicate register cannot be used here" if have == "p" else "a predicate is needed here")
        have_bits, want_bits = _width(have), _width(code)
        if have_bits == want_bits:
            new = self.let(f"{name}.view({code})")
            self.root[new] = self.root.get(name, name)
            return new
        if want_bits > have_bits:
            self.fail(f"a {have_bits * 8}-bit operand is used where {want_bits * 8} bits are needed")
        if have == "q":
            low = self.let(f"{name}['lo'].copy()")
            return self._convert_view(low, "u8", code)
        unsigned = unsigned_code(want_bits * 8)
        source = name if have[0] in "ui" else self._convert_view(name, have, unsigned_code(have_bits * 8))
        new = self.let(f"{source}.astype({unsigned})")
        return new if unsigned == code else self.let(f"{new}.view({code})")

    def _imm(self, imm: Imm, kind: PtxType, code: str) -> Any:
        value = imm.value
        if code == "p":
            return bool(value)
        if code[0] == "f":
            return self._imm_float(imm, code)
        if imm.bits and kind.kind == "f" and imm.bits != kind.bits:
            self.fail("a floating literal of another width is not allowed here")
        if isinstance(value, float):
            if kind.kind != "b":
                self.fail("a floating literal where an integer is needed")
            value = int.from_bytes(struct.pack("<f" if kind.bits == 32 else "<d", value), "little")
        bits = _width(code) * 8
        value &= (1 << bits) - 1
        if code == "q":
            return (value & 0xFFFFFFFFFFFFFFFF, value >> 64)
        if code[0] == "i" and value >> (bits - 1):
            value -= 1 << bits
        return value

    def _imm_float(self, imm: Imm, code: str) -> Any:
        value = imm.value
        width = _width(code) * 8
        if imm.bits == width:
            return np.array([value], dtype=DTYPES[f"u{width // 8}"]).view(DTYPES[code])[0]
        if imm.bits == 32:
            return np.array([value], dtype=np.uint32).view(np.float32)[0]
        if imm.bits == 64:
            return np.array([value], dtype=np.uint64).view(np.float64)[0]
        if isinstance(value, int) and width == 16:
            return np.array([value & 0xFFFF], dtype=np.uint16).view(np.float16)[0]
        return float(value)

    def address_of(self, sym: Sym, code: str) -> str:
        """The address of a symbol, in the window of its state space, as an expression."""
        frame, value = self.program.symbol_address(self, sym)
        value &= (1 << 64) - 1  # a distance from a symbol may be below 0
        if not frame and self.program.pairs and self.program.space_of(sym.name) == "shared":
            # Code for pairs of CTAs computes the address of the other one's variable.
            base = self.let(f"(M.own_prefix(g) + {self.const(value, 'u8')})")
            return base if code == "u8" else self._convert_view(base, "u8", code)
        if not frame:
            return self.const(value & ((1 << (8 * _width(code))) - 1), code)
        base = self.let(f"(g.frame_base() + {self.const(value, 'u8')})")
        return base if code == "u8" else self._convert_view(base, "u8", code)

    def pred(self, operand: Any) -> str:
        return self.src(operand, PRED)

    # -- destinations

    def dst(self, operand: Any, kind: PtxType, expr: str, code: str | None = None, sign: bool | None = None) -> None:
        """Assign `expr`, held in `code`, to a register; a wider register is zero- or sign-extended by the type."""
        if isinstance(operand, Sink):
            return
        if not isinstance(operand, Reg):
            self.fail("the destination must be a register")
        code = code or kind.code
        have = operand.type.code
        # A plain name stays itself, so that _store() sees registers that share an array.
        name = expr if expr.isidentifier() and not expr.startswith("k_") else self.let(expr)
        if ("p" in (have, code)) and have != code:
            self.fail("predicate and data registers are mixed")
        if _width(have) > _width(code):
            name, code = self._extend(name, code, kind.kind == "s" if sign is None else sign, have)
        elif _width(have) < _width(code):
            self.fail(f"the destination has {_width(have) * 8} bits, the result {_width(code) * 8}")
        if self.guard is not None:
            old = self.read_reg(operand, code)
            name = self.let(f"np.where({self.guard}, {name}, {old})")
        self.vars[operand.index] = {code: name}
        self.written[operand.index] = operand

    def _extend(self, name: str, code: str, signed: bool, have: str) -> tuple[str, str]:
        if have == "q":
            self.fail("a b128 register needs a b128 value")
        if code[0] == "f":
            name, code = (
                self._convert_view(name, code, unsigned_code(_width(code) * 8)),
                unsigned_code(_width(code) * 8),
            )
        narrow = ("i" if signed else "u") + code[1]
        if narrow != code:
            name = self.let(f"{name}.view({narrow})")
        wide = ("i" if signed else "u") + have[1]
        return self.let(f"{name}.astype({wide})"), wide

    def mask(self) -> str:
        return self.guard or "None"

    # -- the unit

    def instruction(self, ins: Instruction) -> None:
        """Emit one instruction that is not a terminator."""
        self.ins = ins
        emit = OPS.get(ins.opcode)
        if emit is None:
            self.fail(f"instruction {ins.name} is not simulated")
        if (feature := _FEATURES.get(ins.opcode)) is not None:
            self.require(feature, f"the instruction {ins.opcode}")
        self._check_modifiers(ins)
        self.guard = self._guard(ins)
        self.uniform = not _reads_vectors(ins)
        if self.program.trace:
            self.emit(f"M.trace_instruction({self.use(ins, f'i{id(ins)}')}, g, {self.mask()})")
        self._touch_loaded(ins)
        if not self._copy_products(ins):
            self._touch_products(ins)
            self._checked(lambda: emit(self, ins))
        self.uniform = False
        self.guard = None

    def _check_modifiers(self, ins: Instruction) -> None:
        if (word := unknown_modifier(ins.opcode, ins.modifiers)) is not None:
            self.fail(f"{ins.opcode} with .{word} is not simulated")

    def _copy_products(self, ins: Instruction) -> bool:
        """Emit a plain copy of a register that belongs to products; False for other instructions."""
        code = self.program.current
        ends = plain_copy(ins) if code is not None else None
        if code is None or ends is None or ends[0] not in code.product_registers:
            return False
        kind = TYPES["b32"]
        target, source = ins.operands
        value, old = self.src(source, kind), self.src(target, kind)
        instruction = self.use(ins, f"i{id(ins)}")
        self.dst(target, kind, f"M.copy_products({instruction}, {ends[0]}, {ends[1]}, g, {value}, {old})")
        return True

    def _touch_products(self, ins: Instruction) -> None:
        """Tell the machine of ordinary uses of registers that belong to products."""
        code = self.program.current
        if code is None or ins.opcode == "wgmma" or not code.product_registers:
            return
        used = {reg.index for operand in ins.operands for reg in operand_registers(operand)}
        touched = tuple(sorted(used & code.product_registers))
        if touched:
            instruction = self.use(ins, f"i{id(ins)}")
            constant = ins.opcode == "mov" and ins.guard is None and isinstance(ins.operands[1], Imm)
            self.emit(f"M.touch_products({instruction}, {touched}, g, {self.mask()}, {not constant})")

    def _touch_loaded(self, ins: Instruction) -> None:
        """Tell the machine of uses of registers that a tcgen05.ld writes."""
        code = self.program.current
        if code is None or not code.loaded_registers:
            return
        operands = ins.operands[1:] if ins.opcode == "tcgen05" and ins.modifiers[:1] == ("ld",) else ins.operands
        used = {reg.index for operand in operands for reg in operand_registers(operand)}
        touched = tuple(sorted(used & code.loaded_registers))
        ends = plain_copy(ins)
        if touched and ends is not None:
            self.emit(f"M.copy_loaded({ends[0]}, {ends[1]}, g)")
        elif touched:
            self.emit(f"M.touch_loaded({self.use(ins, f'i{id(ins)}')}, {touched}, g, {self.mask()})")

    def _checked(self, emit: Callable[[], Any]) -> Any:
        """Run a generator; what it cannot take apart is an instruction that is not well formed."""
        try:
            return emit()
        except IndexError as error:
            raise self._malformed("the instruction needs more operands") from error
        except (AttributeError, KeyError, StopIteration, TypeError, ValueError) as error:
            raise self._malformed("modifiers and operands do not make an instruction") from error

    def _malformed(self, message: str) -> PtxError:
        try:
            self.fail(message)
        except PtxError as error:
            return error

    def _guard(self, ins: Instruction) -> str | None:
        if ins.guard is None:
            return None
        reg, negated = ins.guard
        name = self.read_reg(reg, "p")
        return self.let(f"~{name}") if negated else name

    def terminator(self, unit: Unit) -> None:
        """Emit what the machine needs to know to leave a unit, as the function's result."""
        ins = unit.terminator
        if ins is None:
            return
        self.ins = ins
        self._check_modifiers(ins)
        if self.program.trace:
            self.emit(f"M.trace_instruction({self.use(ins, f'i{id(ins)}')}, g, None)")
        self._touch_products(ins)
        self._touch_loaded(ins)
        if unit.kind == SWITCH:
            index = self.src(ins.operands[0], U32)
            guard = self._guard(ins) or "None"
            self.result = f"({index}, {guard})"
        elif unit.kind == CALL:
            self.result = self._call_values(ins)
        elif unit.targets:
            self.result = self._guard(ins) or "None"
        else:
            emit = TERMINATORS.get(ins.opcode)
            if emit is not None:
                self.result = self._checked(lambda: emit(self, ins))

    def _call_values(self, ins: Instruction) -> str:
        site = self.program.call_site(self, ins)
        pointer = "None" if site.pointer is None else self.src(site.pointer, U64)
        values = []
        for operand, param in zip(site.arguments, site.parameters, strict=True):
            if isinstance(operand, Sym):
                values.append("None")
            elif isinstance(operand, Group):
                self.fail("nested parentheses in a call")
            else:
                self.uniform = True
                values.append(self.src(operand, param) if isinstance(operand, Imm) else f"({self.src(operand, param)})")
                self.uniform = False
        return f"({pointer}, ({''.join(v + ', ' for v in values)}))"

    def source(self, name: str, live: int, full: bool) -> str:
        """The complete Python function, for groups that are the whole machine or for smaller ones."""
        out = [f"def {name}(M, R, g):"]
        if not full:
            out.append(" ix = g.ix")
        index = "" if full else "[ix]"
        out += [f" {var} = R[{reg}]{index}" for reg, var in self.loads.items()]
        out += [" " + line for line in self.lines]
        stored: set[str] = {"borrowed"}
        for reg, operand in self.written.items():
            if not live >> reg & 1:
                continue
            out += [" " + line for line in self._store(reg, operand, full, stored)]
        out.append(f" return {self.result}")
        return "\n".join(out)

    def _store(self, reg: int, operand: Reg, full: bool, stored: set[str]) -> list[str]:
        views = self.vars[reg]
        code = operand.type.code
        name = views.get(code)
        root_name = name or next(iter(views.values()))
        expr = name or f"{root_name}.view({code})"
        if not full:
            return [f"R[{reg}][ix] = {expr}"]
        root = self.root.get(root_name, root_name)
        if root in stored:
            # Two registers must not share an array: a smaller group writes into them in place.
            expr += ".copy()"
        stored.add(root)
        return [f"R[{reg}] = {expr}"]

    def used_bits(self) -> tuple[int, int]:
        """Registers read before written, and registers written, as bit sets."""
        uses = sum(1 << reg for reg in self.loads.keys() | self.kept)
        defs = sum(1 << reg for reg in self.written)
        return uses, defs


TERMINATORS: dict[str, Callable[[Emitter, Instruction], str]] = {}


def terminator(*names: str) -> Callable[[Callable[[Emitter, Instruction], str]], Callable[[Emitter, Instruction], str]]:
    """Register the generator of a blocking instruction; it returns the expression handed to the machine."""

    def register(fn: Callable[[Emitter, Instruction], str]) -> Callable[[Emitter, Instruction], str]:
        for name in names:
            TERMINATORS[name] = fn
        return fn

    return register


#: Codes of the special registers that are not 32 bits wide.
_SPECIAL_CODES = dict.fromkeys(("%clock64", "%globaltimer", "%gridid", "%current_graph_exec"), "u8") | {
    "%is_explicit_cluster": "p"
}


def _width(code: str) -> int:
    return 16 if code == "q" else 0 if code == "p" else int(code[1])


def _reads_vectors(ins: Instruction) -> bool:
    """Whether some source is a per-thread vector; if none is, constants must be spread over the group by hand."""
    if ins.guard is not None:
        return False
    sources = ins.operands[1:]
    return any(operand_registers(s) for s in sources) or any(isinstance(s, Special) for s in sources)
