# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Device function calls: parameter passing through stack frames, returns, indirect calls and the built-in functions."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import printf
from .cfg import Unit
from .group import ThreadGroup
from .ir import Reg, Sym, Variable
from .memory import FUNCTION_WINDOW, READY
from .program import ALIGNED_MALLOC, BUILTINS, CallSite, Code
from .scheduler import MAX_DEPTH, Scheduler
from .state import Frame


class Calls(Scheduler):
    """Call and return."""

    def call(self, g: ThreadGroup, unit: Unit, result: Any, base_key: int) -> None:
        """Enter the callee. Threads of an indirect call may go to different functions."""
        site = g.frame.code.sites[unit.id]
        pointers, values = result
        resume = base_key + unit.next
        if pointers is None:
            self._enter(g, site, str(site.name), values, resume)
            return
        for pointer in np.unique(pointers).tolist():
            index, rest = divmod(pointer - FUNCTION_WINDOW, 16)
            chosen = pointers == pointer
            if rest or not 0 <= index < len(self.program.function_names):
                self.fault(
                    "illegal-instruction",
                    f"0x{pointer:x} is not the address of a function",
                    site.instruction,
                    g.threads[chosen],
                )
            part = ThreadGroup(self, g.threads[chosen], g.frame, g.depth)
            picked = tuple(None if v is None else v[chosen] for v in values)
            self._enter(part, site, self.program.function_names[index], picked, resume)

    def _enter(self, g: ThreadGroup, site: CallSite, name: str, values: tuple, resume: int) -> None:
        function = self.program.module.functions.get(name)
        if name in BUILTINS and (function is None or function.body is None):
            self._builtin(g, site, name, values, resume)
            return
        if g.depth + 1 >= MAX_DEPTH or g.depth > self.launch.max_call_depth:
            self.fault(
                "stack-overflow", f"calls nest deeper than {self.launch.max_call_depth}", site.instruction, g.threads
            )
        code = self.program.code(name)
        if len(code.function.params) != len(site.arguments):
            self.fault(
                "illegal-instruction",
                f"{name} takes {len(code.function.params)} arguments",
                site.instruction,
                g.threads,
            )
        frame = self.frame(g.depth + 1, code)
        threads = g.threads
        base = g.frame.base[threads] + np.uint64(site.caller.frame_size) + g.frame.extra[threads]
        end = int(base.max()) + code.frame_size
        if end > self.local_stride:
            self.fault(
                "stack-overflow",
                f"{name} needs {end} bytes of stack, the thread has {self.local_stride}",
                site.instruction,
                threads,
            )
        frame.base[threads] = base
        frame.extra[threads] = 0
        frame.return_to[threads] = resume
        self.guard(code, base, threads, 0)
        for param, operand, value in zip(code.function.params, site.arguments, values, strict=True):
            if isinstance(operand, Sym):
                raw = self._frame_bytes(g.frame, threads, site.caller, operand.name, param.size)
            else:
                raw = np.ascontiguousarray(value).view(np.uint8).reshape(g.n, -1)[:, : param.size]
            self._put(frame, threads, code, param.name, param.reg, raw)
        self.key[threads] = self.make_key(g.depth + 1, code.units[0].id)

    def _slots(self, frame: Frame, threads: np.ndarray, offset: int, size: int) -> tuple[np.ndarray, np.ndarray]:
        at = frame.base[threads].astype(np.int64) + offset
        return threads[:, None], at[:, None] + np.arange(size)

    def _frame_bytes(self, frame: Frame, threads: np.ndarray, code: Code, name: str, size: int) -> np.ndarray:
        """[n, size] bytes of a frame variable."""
        stack = self.local_arena.data.reshape(self.thread_count, -1)
        return stack[self._slots(frame, threads, code.offsets[name], size)]

    def _put(self, frame: Frame, threads: np.ndarray, code: Code, name: str, reg: Reg | None, raw: np.ndarray) -> None:
        if reg is not None:
            frame.registers[reg.index][threads] = np.ascontiguousarray(raw).view(reg.type.dtype)[:, 0]
            return
        stack = self.local_arena.data.reshape(self.thread_count, -1)
        stack[self._slots(frame, threads, code.offsets[name], raw.shape[1])] = raw

    def ret(self, g: ThreadGroup, unit: Unit) -> None:
        """Return to each thread's caller, or end the thread when the entry returns."""
        if g.depth == 0:
            self.end_group(g)
            return
        resume = g.frame.return_to[g.threads]
        code = g.frame.code
        for key in np.unique(resume).tolist():
            threads = g.threads[resume == key]
            next_unit = self.program.units[key & 0xFFFFFFFF]
            caller_frame = self.frame(g.depth - 1, next_unit.function)
            site = self._site_before(caller_frame.code, key & 0xFFFFFFFF)
            for result, param in zip(site.results, code.function.returns, strict=False):
                if param.reg is not None:
                    values = g.frame.registers[param.reg.index][threads]
                    raw = np.ascontiguousarray(values).view(np.uint8).reshape(len(threads), -1)
                else:
                    raw = self._frame_bytes(g.frame, threads, code, param.name, param.size)
                reg = result if isinstance(result, Reg) else None
                name = result.name if isinstance(result, Sym) else ""
                if reg is not None or name:
                    self._put(caller_frame, threads, caller_frame.code, name, reg, raw)
            self.key[threads] = key
        self.guard(code, g.frame.base[g.threads], g.threads, READY)

    def guard(self, code: Code, base: np.ndarray, threads: np.ndarray, flags: int) -> None:
        """Close the bytes between the .local variables of frames that begin, or open those of frames that end."""
        if not code.guards or not self.check:
            return
        self.guarded = True
        stack = self.local_arena.flags.reshape(self.thread_count, -1)
        for offset, size in code.guards:
            stack[threads[:, None], (base.astype(np.int64) + offset)[:, None] + np.arange(size)] = flags

    def _site_before(self, code: Code, unit: int) -> CallSite:
        """The call whose return unit is `unit`; calls of one function that share a return unit share their
        results too.
        """
        for uid, site in code.sites.items():
            if self.program.units[uid].next == unit:
                return site
        raise KeyError(unit)

    # -- built-in functions

    def _builtin(self, g: ThreadGroup, site: CallSite, name: str, values: tuple, resume: int) -> None:
        args = [self._argument(g, site, operand, value) for operand, value in zip(site.arguments, values, strict=True)]
        if name == "vprintf":
            result = printf.vprintf(self, g, site.instruction, args[0], args[1]).view(np.uint32)
        elif name == "__assertfail":
            printf.assert_fail(self, g, site.instruction, args)
        elif name == "malloc":
            result = self.launch.heap_allocate(args[0])
        elif name == ALIGNED_MALLOC:
            result = self.launch.heap_allocate(args[0], args[1])
        else:
            self._free(g, site, args[0])
            result = None
        if site.results and result is not None:
            target = site.results[0]
            raw = np.ascontiguousarray(result).view(np.uint8).reshape(g.n, -1)
            reg = target if isinstance(target, Reg) else None
            self._put(g.frame, g.threads, site.caller, target.name, reg, raw)
        self.key[g.threads] = resume

    def _argument(self, g: ThreadGroup, site: CallSite, operand: Any, value: Any) -> np.ndarray:
        if not isinstance(operand, Sym):
            return value
        size = self._variable_of(site, operand.name).size
        raw = np.ascontiguousarray(self._frame_bytes(g.frame, g.threads, site.caller, operand.name, size))
        return raw.view({4: np.uint32, 8: np.uint64}.get(size, np.uint8))[:, 0]

    def _variable_of(self, site: CallSite, name: str) -> Variable:
        return site.caller.function.variables[name]

    def _free(self, g: ThreadGroup, site: CallSite, pointers: np.ndarray) -> None:
        for thread, pointer in zip(g.threads, pointers.tolist(), strict=True):
            if pointer and not self.launch.heap_free(pointer):
                self.fault(
                    "freed-access",
                    f"free(0x{pointer:x}) of something that is not allocated",
                    site.instruction,
                    np.array([thread]),
                )
