# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A module made ready to run: variable layout, units of each function, generated code."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from libtile.support.records import dataclass, field
from libtile.targets import Target, targets

from . import ops  # noqa: F401  (registers the instruction generators)
from .cfg import Unit, build_units, operand_registers, plain_copy, solve_liveness
from .codegen import Emitter
from .errors import LaunchError, PtxError
from .ir import Function, Group, Instruction, Module, Reg, Sym, Variable, Vec
from .limits import MAX_BYTES
from .memory import CONST_WINDOW, FUNCTION_WINDOW, GLOBAL_BASE, PARAM_WINDOW, align_up
from .types import DTYPES, TYPES, PtxType

ALIGNED_MALLOC = "__cuda_syscall_aligned_malloc"
"""(size, alignment) -> address, or 0: what NVIDIA's tileiras makes of an alloca; free gives the memory back."""
BUILTINS = ("vprintf", "__assertfail", "malloc", ALIGNED_MALLOC, "free")
_RED_ZONE = 64


@dataclass
class CallSite:
    """What a call passes: formals of the callee (or of the prototype) beside the actual operands."""

    name: str | None
    pointer: Reg | None
    arguments: tuple[Any, ...]
    parameters: list[PtxType]
    results: tuple[Any, ...]
    instruction: Instruction
    caller: Code


def local_guard(size: int) -> int:
    """The bytes between a .local variable of a size and the next variable: an index that is past the one by no more
    than its size, and no more than 4,096 bytes, is not in the other."""
    return align_up(min(size, 4096), 16)


@dataclass
class Code:
    """A function with its units and its stack frame: `offsets` maps its .local and .param variables into the frame, in
    which `guards`, by offset and size, keep one .local variable apart from what lies behind it."""

    function: Function
    index: int
    units: list[Unit]
    frame_size: int
    offsets: dict[str, int]
    guards: list[tuple[int, int]]
    sites: dict[int, CallSite] = field(default_factory=dict)

    @cached_property
    def product_registers(self) -> frozenset[int]:
        """Registers that are an accumulator or A of some wgmma of the function, or plain copies of these."""
        items = [item for item in self.function.body or [] if isinstance(item, Instruction)]
        found = {
            reg.index
            for item in items
            if item.opcode == "wgmma" and "mma_async" in item.modifiers
            for operand in item.operands[:2]
            for reg in operand_registers(operand)
            if isinstance(operand, Vec)
        }
        copies = [ends for item in items if found and (ends := plain_copy(item)) is not None]
        count = -1
        while count != len(found):
            count = len(found)
            for target, source in copies:
                if target in found or source in found:
                    found |= {target, source}
        return frozenset(found)

    @cached_property
    def loaded_registers(self) -> frozenset[int]:
        """Registers that a tcgen05.ld of the function writes, and plain copies of these."""
        items = [item for item in self.function.body or [] if isinstance(item, Instruction)]
        loads = [item for item in items if item.opcode == "tcgen05" and item.modifiers[:1] == ("ld",)]
        found = {reg.index for item in loads for reg in operand_registers(item.operands[0])}
        copies = [ends for item in items if found and (ends := plain_copy(item)) is not None]
        count = -1
        while count != len(found):
            count = len(found)
            found |= {target for target, source in copies if source in found}
        return frozenset(found)


class Program:
    """Code and data layout of one module. `fine` cuts units at memory accesses; `trace` adds a call per instruction."""

    def __init__(self, module: Module, *, fine: bool, trace: bool) -> None:
        self.module = module
        self.fine = fine
        self.trace = trace
        self.env: dict[str, Any] = {"np": np, **DTYPES}
        self.units: list[Unit] = []
        self.codes: dict[str, Code] = {}
        self.function_names = list(module.functions)
        self.shared_offsets: dict[str, int] = {}
        self.shared_sizes: dict[str, int] = {}
        self.addresses: dict[str, int] = {}
        self.current: Code | None = None
        bodies = [item for fn in module.functions.values() for item in fn.body or []]
        # Whether two CTAs work together.
        self.pairs = any(isinstance(item, Instruction) and "cta_group::2" in item.modifiers for item in bodies)
        self._layout()

    # -- data layout

    def _layout(self) -> None:
        """Fixed places: shared variables from 0, module .global and .const variables in their windows."""
        shared, global_at, const_at = 0, GLOBAL_BASE + 256, CONST_WINDOW
        self.global_variables: list[tuple[int, Variable]] = []
        self.const_variables: list[tuple[int, Variable]] = []
        self.dynamic: list[str] = []
        self.shared_align = 16
        variables = [*self.module.variables.values()]
        for fn in self.module.functions.values():
            variables += [v for v in fn.variables.values() if v.space in ("shared", "global", "const")]
        for var in variables:
            key = (var.unique and self._unique(var)) or var.name
            if var.space == "shared":
                if var.size == 0:
                    self.dynamic.append(key)
                    self.shared_align = max(self.shared_align, var.align)
                    continue
                shared = align_up(shared, max(var.align, 1))
                self.shared_offsets[key] = shared
                self.shared_sizes[key] = var.size
                shared += var.size
                self._fits(var, shared)
            elif var.space == "global":
                global_at = align_up(global_at, max(var.align, 16))
                self.addresses[key] = global_at
                self.global_variables.append((global_at, var))
                global_at = align_up(global_at + var.size, 16) + _RED_ZONE
                self._fits(var, global_at - GLOBAL_BASE)
            elif var.space == "const":
                const_at = align_up(const_at, max(var.align, 16))
                self.addresses[key] = const_at - CONST_WINDOW
                self.const_variables.append((const_at, var))
                const_at = align_up(const_at + var.size, 16) + _RED_ZONE
                self._fits(var, const_at - CONST_WINDOW)
        self.static_shared = shared
        self.dynamic_offset = align_up(shared, self.shared_align)
        for key in self.dynamic:
            self.shared_offsets[key] = self.dynamic_offset
        self.global_end = global_at
        self.const_end = const_at
        self.function_variables = {
            id(v): fn.name for fn in self.module.functions.values() for v in fn.variables.values()
        }

    def _fits(self, var: Variable, end: int) -> None:
        """Variables of one space have room up to here, with some space between them. PtxError if they do not."""
        most = MAX_BYTES[var.space]
        if end > most + _RED_ZONE * (1 + len(self.module.variables)):
            raise PtxError(f"with {var.name}, .{var.space} variables take more than {most} bytes", var.line)

    def _unique(self, var: Variable) -> str:
        for fn in self.module.functions.values():
            if any(v is var for v in fn.variables.values()):
                return f"{fn.name}/{var.unique}"
        return var.name

    def _variable(self, name: str) -> tuple[str, Variable] | None:
        """A symbol as the current function sees it: its layout key and the variable."""
        if self.current is not None:
            function = self.current.function
            if name in function.variables:
                var = function.variables[name]
                return (f"{function.name}/{var.unique}" if var.space not in ("local", "param") else name), var
        found = self.module.variables.get(name)
        return None if found is None else (name, found)

    def symbol_address(self, cg: Emitter, sym: Sym) -> tuple[bool, int]:
        """(is relative to the stack frame, address in its own state space) of a symbol."""
        found = self._variable(sym.name)
        if found is not None:
            key, var = found
            if var.space in ("local", "param"):
                if self.current is None:
                    cg.fail(f"{sym.name} has no frame")
                return True, self.current.offsets[var.unique] + sym.offset
            if var.space == "shared":
                return False, self.shared_offsets[key] + sym.offset
            if key in self.addresses and not (var.linkage == "extern" and var.size == 0):
                return False, self.addresses[key] + sym.offset
            cg.fail(f"{sym.name} is only declared, not defined")
        name = self.module.aliases.get(sym.name, sym.name)
        if name in self.module.functions:
            return False, FUNCTION_WINDOW + 16 * self.function_names.index(name)
        if self.current is not None and self.current.function.entry:
            offset = self.parameter_offsets(self.current.function).get(sym.name)
            if offset is not None:
                return False, PARAM_WINDOW + offset + sym.offset
        cg.fail(f"undefined symbol {sym.name}")

    def space_of(self, name: str) -> str | None:
        """State space of a symbol in the current function: a name of a space, "entry-param", or None."""
        found = self._variable(name)
        if found is not None:
            return found[1].space
        function = self.current.function if self.current is not None else None
        if function is not None and function.entry and name in self.parameter_offsets(function):
            return "entry-param"
        return None

    @staticmethod
    def parameter_offsets(function: Function) -> dict[str, int]:
        """Byte offset of each entry parameter in the parameter block (natural or declared alignment, in order)."""
        offsets, at = {}, 0
        for param in function.params:
            at = align_up(at, max(param.align, 1))
            offsets[param.name] = at
            at += param.size
        return offsets

    # -- code

    def code(self, name: str) -> Code:
        """Units of a function, made on first use, with every instruction checked. Raises PtxError."""
        name = self.module.aliases.get(name, name)
        code = self.codes.get(name)
        if code is not None:
            return code
        function = self.module.functions.get(name)
        if function is None or function.body is None:
            raise LaunchError(f"function {name} has no body in this module")
        units = build_units(function, len(self.units), self.fine, self.module.filename)
        code = Code(function, self.function_names.index(name), units, *self._frame(function))
        self.codes[name] = code
        self.units += units
        outer, self.current = self.current, code
        uses, defs = [], []
        for unit in units:
            unit.function = code
            used, defined = self._emit([unit]).used_bits()
            site = code.sites.get(unit.id)
            if site is not None:
                for result in site.results:
                    if isinstance(result, Reg):
                        # The machine writes it on return; other lanes' values must survive.
                        used |= 1 << result.index
            uses.append(used)
            defs.append(defined)
        returned = sum(1 << param.reg.index for param in function.returns if param.reg is not None)
        solve_liveness(units, uses, defs, returned)
        self.current = outer
        return code

    def _frame(self, function: Function) -> tuple[int, dict[str, int], list[tuple[int, int]]]:
        offsets, guards, at, taken, local = dict[str, int](), list[tuple[int, int]](), 0, 0, ""
        for name, var in function.variables.items():
            if var.space in ("local", "param"):
                taken = align_up(taken, max(var.align, 1)) + var.size
                if taken > MAX_BYTES["local"]:
                    most = MAX_BYTES["local"]
                    raise PtxError(f"with {var.name}, a thread's variables take more than {most} bytes", var.line)
                place = align_up(at + local_guard(function.variables[local].size if local else 0), max(var.align, 1))
                if local:
                    guards.append((at, place - at))
                offsets[name], at, local = place, place + var.size, name if var.space == "local" else ""
        for param in (*function.params, *function.returns):
            if param.reg is not None:
                offsets[param.name] = at = align_up(at, 8)
                at += 8
        return align_up(at, 16), offsets, guards

    def _emit(self, chain: list[Unit]) -> Emitter:
        cg = Emitter(self)
        for unit in chain:
            for ins in unit.instructions:
                cg.instruction(ins)
        cg.terminator(chain[-1])
        return cg

    def compiled(self, unit: Unit, fused: bool, full: bool) -> Callable:
        """The Python function of a unit; `fused` runs its whole chain, `full` is for groups of every thread."""
        fn = unit.code.get((fused, full))
        if fn is None:
            chain = unit.chain if fused else [unit]
            outer, self.current = self.current, unit.function
            cg = self._emit(chain)
            self.current = outer
            name = f"unit{unit.id}{'_fused' if fused else ''}{'' if full else '_part'}"
            source = cg.source(name, chain[-1].live_out, full)
            exec(compile(source, f"<{self.module.filename}:{name}>", "exec"), self.env)
            fn = unit.code[fused, full] = self.env.pop(name)
        return fn

    def call_site(self, cg: Emitter, ins: Instruction) -> CallSite:
        """Resolve a call instruction; remembered under the unit that makes it."""
        operands = list(ins.operands)
        results: tuple[Any, ...] = ()
        if operands and isinstance(operands[0], Group):
            results = operands.pop(0).items
        if not operands:
            cg.fail("call needs a function")
        target = operands.pop(0)
        arguments: tuple[Any, ...] = ()
        if operands and isinstance(operands[0], Group):
            arguments = operands.pop(0).items
        name, pointer = None, None
        if isinstance(target, Reg):
            pointer = target
        elif isinstance(target, Sym):
            name = self.module.aliases.get(target.name, target.name)
            function = self.module.functions.get(name)
            if name not in BUILTINS or (function is not None and function.body is not None):
                if function is None or function.body is None:
                    cg.fail(f"{name} is declared but not defined; link it into the module")
                if len(function.params) != len(arguments) or len(function.returns) != len(results):
                    cg.fail(f"{name} takes {len(function.params)} arguments and returns {len(function.returns)}")
        else:
            cg.fail("call needs a function name or a register")
        kinds = [a.type if isinstance(a, Reg) else TYPES["b64"] for a in arguments]
        if self.current is None:
            cg.fail("a call outside a function")
        for operand in (*arguments, *results):
            variable = self.current.function.variables.get(operand.name) if isinstance(operand, Sym) else None
            if isinstance(operand, Sym) and (variable is None or variable.space != "param" or variable.size == 0):
                cg.fail(f"{operand.name} is not a .param variable of {self.current.function.name}")
        site = CallSite(name, pointer, arguments, kinds, results, ins, self.current)
        for unit in self.current.units:
            if unit.terminator is ins:
                self.current.sites[unit.id] = site
        return site

    @cached_property
    def target(self) -> Target | None:
        """What the module is for; None for a target that is not known, of which nothing is refused."""
        named = self.module.target[0] if self.module.target else ""
        return targets().get(named.rstrip("af"))

    def uses(self, opcode: str, modifier: str = "") -> bool:
        """Whether compiled code has an instruction with this opcode and modifier."""
        return any(
            i.opcode == opcode and (not modifier or modifier in i.modifiers) for u in self.units for i in u.instructions
        )

    def counts(self) -> dict[str, int]:
        """Executed warp instructions by full name, from the run counts of units."""
        total: dict[str, int] = {}
        for unit in self.units:
            if unit.warps:
                for ins in (*unit.instructions, *([unit.terminator] if unit.terminator else ())):
                    total[ins.name] = total.get(ins.name, 0) + unit.warps
        return total
