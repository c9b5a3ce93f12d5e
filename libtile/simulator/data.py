# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Variable declarations and their initialisers (PTX ISA, "Variables", "Initializers")."""

from __future__ import annotations

import struct

import numpy as np

from libtile.support.records import dataclass

from .ir import Variable
from .limits import MAX_ALIGN, MAX_BYTES, MAX_NESTING
from .stream import TokenStream
from .types import TYPES, PtxType


@dataclass
class VariableHeader:
    """What stands before the names of a declaration: alignment, vector arity and type."""

    type: PtxType
    align: int
    vector: int
    pointer: bool = False
    was_array: bool = False

    def declare(self, s: TokenStream, space: str, line: int) -> Variable:
        """Read one `name[dims]` and make its Variable. An extern or initialised `[]` has size 0 here."""
        name = s.next().text if s.tok.text == "_" else s.identifier()
        if self.type.kind == "pred" and space != "reg":
            s.fail(f"predicate variable {name} must be in register state space")
        count = 1
        self.was_array = False
        while s.accept("["):
            self.was_array = True
            if s.tok.text == "]":
                count = 0
            else:
                number = s.integer()
                if number < 0:
                    s.fail(f"{name} has {number} elements")
                count *= number
            s.expect("]")
        size = self.type.size * self.vector * count
        if size > MAX_BYTES.get(space, size):
            s.fail(f"{name} is too large: a variable of .{space} memory has at most {MAX_BYTES[space]} bytes")
        align = self.align or self.type.size * self.vector
        return Variable(name, space, self.type, align, size, line=line)


def parse_variable_header(s: TokenStream) -> VariableHeader:
    """`.align N .v4 .f32 .ptr .global .align 16` in any order that PTX allows, up to the name."""
    align, vector, pointer = 0, 1, False
    kind: PtxType | None = None
    while s.tok.kind == "dir" or s.tok.text == ".attribute":
        word = s.next().text[1:]
        if word == "align":
            value = s.integer()
            if not 1 <= value <= MAX_ALIGN or value & (value - 1):
                s.fail(f"an alignment is a power of two up to {MAX_ALIGN}")
            if not pointer:
                align = value
        elif word in ("v2", "v4", "v8"):
            vector = int(word[1])
        elif word == "ptr":
            pointer = True
        elif word in ("global", "const", "shared", "local", "param") and pointer:
            pass
        elif word in ("managed", "unified", "hidden"):
            if s.tok.text == "(":
                s.skip_group()
        elif word == "attribute":
            s.skip_group()
        elif word in TYPES:
            kind = TYPES[word]
        else:
            s.fail(f".{word} is not a type or a variable attribute that is simulated")
    if kind is None:
        s.fail("expected a type")
    return VariableHeader(kind, align, vector, pointer)


def parse_initializer(s: TokenStream, var: Variable) -> None:
    """Read the initialiser after `=` into var.init and var.relocations; sizes an unsized array."""
    out = bytearray()
    _value(s, var, out, MAX_NESTING)
    if var.size == 0:
        var.size = len(out)
    if len(out) > var.size:
        s.fail(f"{var.name} has {var.size} bytes but its initialiser has {len(out)}")
    var.init = bytes(out.ljust(var.size, b"\0"))


def _value(s: TokenStream, var: Variable, out: bytearray, depth: int) -> None:
    if not depth:
        s.fail(f"an initialiser with more than {MAX_NESTING} braces around a value")
    if s.accept("{"):
        while s.tok.text != "}":
            _value(s, var, out, depth - 1)
            if not s.accept(","):
                break
        s.expect("}")
        return
    if s.tok.kind == "str":
        try:
            out += s.tok.text[1:-1].encode().decode("unicode_escape").encode("latin-1")
        except UnicodeError:
            s.fail("a text with an escape that is none")
        s.next()
        return
    width = var.type.size
    if s.tok.kind == "float" or (s.tok.text == "-" and s.peek().kind == "float"):
        out += _float_bytes(s, var.type)
    elif s.tok.kind == "id":
        _relocation(s, var, out, width, 0)
    elif s.tok.kind == "int" and s.peek().text == "(":
        mask = int(s.next().value or 0)
        s.expect("(")
        _relocation(s, var, out, width, mask)
        s.expect(")")
    else:
        out += (s.integer() & ((1 << (8 * width)) - 1)).to_bytes(width, "little")


def _relocation(s: TokenStream, var: Variable, out: bytearray, width: int, mask: int) -> None:
    generic = False
    name = s.identifier()
    if name == "generic" and s.accept("("):
        generic = True
        name = s.identifier()
        s.expect(")")
    addend = s.integer() if s.tok.text in ("+", "-") else 0
    var.relocations.append((len(out), width, name, addend, generic, mask))
    out += bytes(width)


def _float_bytes(s: TokenStream, kind: PtxType) -> bytes:
    negative = s.accept("-")
    token = s.next()
    if token.bits == 32:
        value = struct.unpack("<f", struct.pack("<I", token.value))[0]
    elif token.bits == 64:
        value = struct.unpack("<d", struct.pack("<Q", token.value))[0]
    else:
        value = float(token.value or 0.0)
    if token.bits == kind.bits and not negative:
        return int(token.value or 0).to_bytes(kind.size, "little")
    if kind.name not in ("f64", "b64", "f16") and token.bits != 32 and abs(value) > np.finfo(np.float32).max:
        value = float(np.copysign(np.inf, value))
    value = -value if negative else value
    if kind.name == "f64" or kind.name == "b64":
        return struct.pack("<d", value)
    if kind.name == "f16":
        return np.float16(value).tobytes()
    return struct.pack("<f", value)
