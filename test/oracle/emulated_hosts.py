# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Host objects on an emulated processor: those for other machines than this one, with the calling convention of each.

The object's sections are laid out, its relocations applied, and a function is called. What its caller may rely on is
checked: registers that a callee keeps, the stack's place, and on aarch64 Windows the register that belongs to the
system.
"""

from __future__ import annotations

import io
import struct
from typing import Any

import pytest

from libtile.targets import target as target_of
from libtile.targets import tensor_map

elffile = pytest.importorskip("elftools.elf.elffile", reason="reads objects with pyelftools (pip install pyelftools)")
unicorn = pytest.importorskip("unicorn", reason="runs code of other machines with unicorn (pip install unicorn)")

HOSTS = [(arch, system) for arch in ("x86_64", "aarch64") for system in ("linux", "windows")]

_BASE, _TABLE, _STACK, _DATA, _RETURN = (0x1_0000_0000 + (i << 24) for i in range(5))
_ROOM = 1 << 20
_PAGE = 4095
_MASK = (1 << 64) - 1
_KEPT = {
    ("x86_64", "linux"): ("rbx", "rbp", "r12", "r13", "r14", "r15"),
    ("x86_64", "windows"): ("rbx", "rbp", "rdi", "rsi", "r12", "r13", "r14", "r15", *(f"xmm{i}" for i in range(6, 16))),
    ("aarch64", "linux"): tuple(f"x{i}" for i in range(19, 30)),
    ("aarch64", "windows"): ("x18", *(f"x{i}" for i in range(19, 30))),
}
"""Registers that a function leaves as they are."""
_PASSED = {
    ("x86_64", "linux"): ("rdi", "rsi", "rdx", "rcx"),
    ("x86_64", "windows"): ("rcx", "rdx", "r8", "r9"),
    ("aarch64", "linux"): ("x0", "x1", "x2", "x3"),
    ("aarch64", "windows"): ("x0", "x1", "x2", "x3"),
}


class EmulatedObject:
    """A host object for an architecture and a system; the same face as `host_objects.HostObject`."""

    def __init__(self, data: bytes, arch: str, system: str) -> None:
        self.host = arch, system
        self._x86 = arch == "x86_64"
        machine = (
            (unicorn.UC_ARCH_X86, unicorn.UC_MODE_64) if self._x86 else (unicorn.UC_ARCH_ARM64, unicorn.UC_MODE_ARM)
        )
        self._cpu = unicorn.Uc(*machine)
        for at in (_BASE, _TABLE, _STACK, _DATA, _RETURN):
            self._cpu.mem_map(at, _ROOM)
        elf = elffile.ELFFile(io.BytesIO(data))
        self._sections: dict[int, int] = {}
        at = _BASE
        for number, section in enumerate(elf.iter_sections()):
            if section["sh_flags"] & 2:  # takes memory
                at = -(-at // max(1, section["sh_addralign"])) * max(1, section["sh_addralign"])
                self._sections[number] = at
                self._cpu.mem_write(at, section.data().ljust(section["sh_size"], b"\0") or b"")
                at += section["sh_size"]
        self._got: dict[int, int] = {}
        for section in elf.iter_sections():
            if section["sh_type"] == "SHT_RELA" and section["sh_info"] in self._sections:
                symbols = elf.get_section(section["sh_link"])
                if elf.get_section(section["sh_info"]).name != ".eh_frame":  # for debuggers
                    for relocation in section.iter_relocations():
                        place = self._sections[section["sh_info"]] + relocation["r_offset"]
                        symbol = symbols.get_symbol(relocation["r_info_sym"])
                        self._relocate(relocation["r_info_type"], place, symbol, relocation["r_addend"])
        (table,) = elf.get_section_by_name(".symtab").get_symbol_by_name("__CUDA_TILEIR_CALLBACKS")
        at = self._address(table)
        size, records, count = struct.unpack("<QQi", self._read(at + 32, 20))
        (self._pre_load,) = struct.unpack("<Q", self._read(at + 64, 8))
        self.functions: dict[str, int] = {}
        for i in range(count):
            name, function = struct.unpack("<Q32xQ", self._read(records + i * size, 48))
            self.functions[bytes(self._read(name, 256)).split(b"\0")[0].decode()] = function

    def _read(self, at: int, size: int) -> bytes:
        return bytes(self._cpu.mem_read(at, size))

    def _address(self, symbol: Any) -> int:
        return int(self._sections[symbol["st_shndx"]] + symbol["st_value"])

    def _entry(self, value: int) -> int:
        """The place in the table of addresses that holds one."""
        if value not in self._got:
            self._got[value] = _TABLE + 8 * len(self._got)
            self._cpu.mem_write(self._got[value], struct.pack("<Q", value))
        return self._got[value]

    def _relocate(self, kind: int, place: int, symbol: Any, addend: int) -> None:
        """By the numbers of the two processors' ABIs."""
        if self._x86:
            if kind == 29:  # GOTPC64
                value = _TABLE + addend - place
            elif kind == 1:  # 64
                value = self._address(symbol) + addend
            elif kind == 25:  # GOTOFF64
                value = self._address(symbol) + addend - _TABLE
            elif kind == 27:  # GOT64
                value = self._entry(self._address(symbol)) + addend - _TABLE
            else:
                raise AssertionError(f"relocation {kind} of x86_64 is not known here")
            self._cpu.mem_write(place, struct.pack("<Q", value & _MASK))
            return
        value = self._address(symbol) + addend
        if kind == 257:  # ABS64
            self._cpu.mem_write(place, struct.pack("<Q", value))
            return
        (word,) = struct.unpack("<I", self._read(place, 4))
        if kind in (311, 312):  # of the table of addresses
            value = self._entry(value)
        if kind in (275, 311):  # ADR_PREL_PG_HI21, ADR_GOT_PAGE
            pages = (value >> 12) - (place >> 12)
            word |= (pages & 3) << 29 | (pages >> 2 & 0x7FFFF) << 5
        elif kind in (277, 278, 284, 285, 286, 299, 312):  # the low 12 bits, in units of the access
            word |= (value & _PAGE) >> {284: 1, 285: 2, 286: 3, 299: 4, 312: 3}.get(kind, 0) << 10
        else:
            raise AssertionError(f"relocation {kind} of aarch64 is not known here")
        self._cpu.mem_write(place, struct.pack("<I", word))

    def _register(self, name: str) -> int:
        module = unicorn.x86_const if self._x86 else unicorn.arm64_const
        return int(getattr(module, f"UC_{'X86' if self._x86 else 'ARM64'}_REG_{name.upper()}"))

    def call(self, function: int, *arguments: int) -> int:
        """What a function gives, which is called as its system's conventions have it."""
        cpu, kept = self._cpu, _KEPT[self.host]
        before = {name: 0x0123_4567_89AB_0000 + number for number, name in enumerate(kept)}
        for name, value in before.items():
            cpu.reg_write(self._register(name), value)
        for name, value in zip(_PASSED[self.host], arguments, strict=False):
            cpu.reg_write(self._register(name), value)
        top = _STACK + _ROOM - 4096
        stack = self._register("rsp" if self._x86 else "sp")
        if self._x86:
            cpu.mem_write(top - 8, struct.pack("<Q", _RETURN))  # the shadow space of Windows is above it
            cpu.reg_write(stack, top - 8)
        else:
            cpu.reg_write(self._register("lr"), _RETURN)
            cpu.reg_write(stack, top)
        cpu.emu_start(function, _RETURN, count=1_000_000)
        assert cpu.reg_read(stack) == top
        assert {name: cpu.reg_read(self._register(name)) for name in kept} == before
        return int(cpu.reg_read(self._register("eax" if self._x86 else "w0")))

    def pre_load(self, version: int) -> bytes | None:
        """The record that the driver gets for a version; None where it is refused."""
        self._cpu.mem_write(_DATA, bytes(8))
        if self.call(self._pre_load, 0, 0, version, _DATA):
            return None
        (where,) = struct.unpack("<Q", self._read(_DATA, 8))
        return self._read(where, 72)

    def filled(self, kernel: str, parameters: bytes) -> bytes:
        """A block of parameters, once the function for changed arguments has had it."""
        self._cpu.mem_write(_DATA, parameters + bytes(64))
        assert self.call(self.functions[kernel], 0, 0, 0, _DATA) == 0
        assert not any(self._read(_DATA + len(parameters), 64))
        return self._read(_DATA, len(parameters))

    def maps(self, kernel: str, visible: bytes, gpu_name: str, count: int) -> list[bytes]:
        """The tensor maps behind `visible`, the parameters that the program has."""
        base = target_of(gpu_name).parameters_at
        first = -(-(base + len(visible)) // 64) * 64 - base
        written = self.filled(kernel, visible.ljust(first + count * tensor_map.SIZE, b"\0"))
        return [written[first + i * tensor_map.SIZE :][: tensor_map.SIZE] for i in range(count)]
