# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The part of libdevice that a kernel calls.

libdevice.10.bc defines 352 functions, and LLVM takes longer to read, link and optimize them all than it takes for most
kernels. A kernel calls a handful. So the others' bodies are replaced, in the bitcode's bytes, by a lone `unreachable`
before LLVM sees the file, and the functions are dropped when it has. What is left is kept for the next kernel with the
same calls.

What is used of the bitcode format (LLVM Bitcode File Format, "Abbreviation IDs", "Blocks", "FUNCTION_BLOCK"): a block
is `[ENTER_SUBBLOCK, vbr8 id, vbr4 abbreviation width, align32, 32-bit length in words]` and as many words; function
bodies follow one another in the order of the functions that have one; a reader skips blocks of an id that it does not
know. The rest of a body becomes such a block, so nothing in the file moves, and offsets in it stay right.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Any

from libtile.backend.tools import find_libdevice
from libtile.support.records import dataclass
from libtile.targets import DATA_LAYOUT, TRIPLE

_END_BLOCK, _ENTER_SUBBLOCK, _UNABBREV_RECORD = 0, 1, 3
_FUNCTION_BLOCK_ID = 12
_UNKNOWN_BLOCK_ID = 100
_DECLAREBLOCKS, _INST_UNREACHABLE = 1, 15
_LEVEL = 3
"""The level at which functions are optimized that are to be part of kernels."""
_WIDTH = 4
"""The width of abbreviation ids in function bodies, as every LLVM writes it."""


def _packed(*fields: tuple[int, int]) -> bytes:
    """The little-endian words of (value, bits) fields, first field lowest."""
    number = position = 0
    for value, bits in fields:
        number |= value << position
        position += bits
    return number.to_bytes(-(-position // 32) * 4, "little")


_FUNCTION_HEADER = _packed((_ENTER_SUBBLOCK, 3), (_FUNCTION_BLOCK_ID, 8), (_WIDTH, 4))

_UNREACHABLE = _packed(
    *((_UNABBREV_RECORD, _WIDTH), (_DECLAREBLOCKS, 6), (1, 6), (1, 6)),  # one operand: one basic block
    *((_UNABBREV_RECORD, _WIDTH), (_INST_UNREACHABLE, 6), (0, 6)),
    *((_ENTER_SUBBLOCK, _WIDTH), (_UNKNOWN_BLOCK_ID, 8), (_WIDTH, 4)),
)
"""A body's first words: the instruction, and the header of the block over what is to be skipped, without its length."""

_SMALLEST = len(_UNREACHABLE) // 4 + 2
"""Words of the smallest body that can be replaced: the above, the length, and the end of the body's block."""


@dataclass(frozen=True)
class _Body:
    """Where a function's body is in the file: the byte at which its words begin, and their number."""

    start: int
    words: int


@dataclass(frozen=True)
class _Index:
    """The file, and the bodies of its functions by name."""

    data: bytes
    bodies: dict[str, _Body]
    types: dict[str, str]
    """Of functions, as LLVM IR writes them: `float (float)`."""

    def keeping(self, names: frozenset[str]) -> bytes:
        """The file with the bodies of all functions but these replaced."""
        data = bytearray(self.data)
        for name, body in self.bodies.items():
            if name not in names and body.words >= _SMALLEST:
                length = struct.pack("<I", body.words - _SMALLEST)
                data[body.start : body.start + len(_UNREACHABLE) + 4] = _UNREACHABLE + length
                end = body.start + 4 * body.words
                data[end - 4 : end] = bytes(4)
        return bytes(data)


def _bodies(data: bytes) -> list[_Body]:
    """The function bodies of a module, in order; none where the ids of a module's abbreviations are not 3 bits wide."""
    at = data.find(_FUNCTION_HEADER)
    while at % 4 and at >= 0:
        at = data.find(_FUNCTION_HEADER, at + 1)
    found = []
    while at >= 0 and data.startswith(_FUNCTION_HEADER, at):
        (words,) = struct.unpack_from("<I", data, at + 4)
        found.append(_Body(at + 8, words))
        at += 8 + 4 * words
    return found


@lru_cache(maxsize=1)
def _index(llvm: Any) -> _Index:
    """libdevice by function; no function when its bytes are not as described above."""
    data = find_libdevice().read_bytes()
    bodies = _bodies(data)
    nameless = _Index(data, {str(number): body for number, body in enumerate(bodies)}, {})
    try:
        module = llvm.parse_bitcode(nameless.keeping(frozenset()))
        types = {f.name: str(f.global_value_type) for f in module.functions if not f.is_declaration}
    except RuntimeError:  # LLVM refuses what was made of a file of some other form
        return _Index(data, {}, {})
    return _Index(data, dict(zip(types, bodies)), types) if len(types) == len(bodies) else _Index(data, {}, {})


def functions(llvm: Any) -> dict[str, str]:
    """The types of libdevice's functions by their names, as LLVM IR writes types: `float (float)`."""
    return _index(llvm).types


@lru_cache(maxsize=256)
def _optimized_part(llvm: Any, calls: frozenset[str], cpu: str, features: str) -> bytes:
    """As `_part`, optimized for a processor, of which some functions ask."""
    module = llvm.parse_bitcode(_part(llvm, calls), llvm.create_context())
    module.triple, module.data_layout = TRIPLE, DATA_LAYOUT
    machine = llvm.Target.from_triple(TRIPLE).create_target_machine(cpu=cpu, features=features, opt=_LEVEL)
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=_LEVEL))
    builder.getModulePassManager().run(module, builder)
    bitcode: bytes = module.as_bitcode()
    return bitcode


@lru_cache(maxsize=256)
def _part(llvm: Any, calls: frozenset[str]) -> bytes:
    """Bitcode of the functions among `calls`, which are visible, and of whatever these call, and of nothing else."""
    index, context = _index(llvm), llvm.create_context()
    passes = llvm.create_new_module_pass_manager()
    passes.add_global_dead_code_eliminate_pass()
    machine = llvm.Target.from_triple(TRIPLE).create_target_machine()
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=0))
    needed = calls.intersection(index.bodies)
    while True:
        module = llvm.parse_bitcode(index.keeping(needed), context)
        for function in module.functions:
            if not function.is_declaration and function.name not in calls:
                function.linkage = "internal"
        passes.run(module, builder)
        left = frozenset(f.name for f in module.functions if not f.is_declaration)
        if left <= needed or not index.bodies:
            bitcode: bytes = module.as_bitcode()
            return bitcode
        needed |= left  # what those call whose bodies were there


def library(llvm: Any, context: Any, calls: frozenset[str], optimized_for: tuple[str, str] | None = None) -> Any:
    """An llvmlite module that defines the functions of libdevice among `calls` (names), and whatever these call, if
    asked for optimized for a processor of some features.

    It belongs to an llvmlite context. Only those in `calls` are visible.
    Raises ToolNotFoundError without a libdevice.
    """
    part = _part(llvm, calls) if optimized_for is None else _optimized_part(llvm, calls, *optimized_for)
    return llvm.parse_bitcode(part, context)
