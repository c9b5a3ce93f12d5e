# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Types and constants of LLVM IR, as LLVM prints them, in the spelling of MLIR's llvm dialect."""

from __future__ import annotations

import re
import struct

from libtile.support.errors import LibtileError

_FLOATS = {"half": ("f16", 16), "bfloat": ("bf16", 16), "float": ("f32", 32), "double": ("f64", 64)}
_TOKEN = re.compile(r'\s*("(?:[^"\\]|\\.)*"|c"[^"]*"|[\w.+@%$-]+|\S)')


class Reader:
    """Reads types and constants off a text, one after the other. LibtileError for what it has no rule for."""

    def __init__(self, text: str):
        self._text = text
        self._tokens = _TOKEN.findall(text)
        self._at = 0

    @property
    def token(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def take(self, expected: str = "") -> str:
        token = self.token
        if not token or (expected and token != expected):
            raise LibtileError(f"libtile.mlir does not read '{self._text.strip()}' of LLVM IR")
        self._at += 1
        return token

    def accept(self, token: str) -> bool:
        if self.token != token:
            return False
        self._at += 1
        return True

    # -- types --------------------------------------------------------------------------------------------------

    def type(self) -> str:
        """A type, as the llvm dialect writes it."""
        token = self.take()
        if token in _FLOATS:
            return _FLOATS[token][0]
        if re.fullmatch(r"i\d+", token):
            return token
        match token:
            case "void":
                return "!llvm.void"
            case "ptr":
                if self.accept("addrspace"):
                    self.take("(")
                    space = self.take()
                    self.take(")")
                    return f"!llvm.ptr<{space}>" if space != "0" else "!llvm.ptr"
                return "!llvm.ptr"
            case "<" | "[":
                count = self.take()
                self.take("x")
                element = self.type()
                self.take(">" if token == "<" else "]")
                return f"vector<{count}x{element}>" if token == "<" else f"!llvm.array<{count} x {element}>"
            case "{":
                members = [self.type()]
                while self.accept(","):
                    members.append(self.type())
                self.take("}")
                return f"!llvm.struct<({', '.join(members)})>"
        raise LibtileError(f"libtile.mlir has no type of the llvm dialect for '{self._text.strip()}'")

    # -- constants ----------------------------------------------------------------------------------------------

    def constant(self) -> tuple[str, str, str]:
        """A constant with its type: the op that gives it, that op's properties, and its type."""
        type_ = self.type()
        if self.token in ("undef", "poison"):
            return f"llvm.mlir.{self.take()}", "", type_
        if self.token in ("null", "zeroinitializer"):
            self.take()
            return "llvm.mlir.zero", "", type_
        if self.token.startswith("@"):
            return "llvm.mlir.addressof", f"global_name = {self.take()}", type_
        if self.token.startswith('c"') or self.token == "c":
            return "llvm.mlir.constant", f"value = {self.take()[1:]}", type_
        if type_.startswith("vector<"):
            return "llvm.mlir.constant", f"value = dense<{self._elements(type_)}> : {type_}", type_
        return "llvm.mlir.constant", f"value = {self._scalar(type_)}{'' if type_ == 'i1' else f' : {type_}'}", type_

    def _elements(self, type_: str) -> str:
        if self.accept("splat"):
            self.take("(")
            value = self._scalar(self.type())
            self.take(")")
            return value
        self.take("<")
        values = [self._scalar(self.type())]
        while self.accept(","):
            values.append(self._scalar(self.type()))
        self.take(">")
        return f"[{', '.join(values)}]"

    def _scalar(self, type_: str) -> str:
        token = self.take()
        if type_.startswith("i"):
            if token not in ("true", "false") and not re.fullmatch(r"-?\d+", token):
                raise LibtileError(f"libtile.mlir does not read '{self._text.strip()}' of LLVM IR")
            return token
        bits = next(bits for name, bits in _FLOATS.values() if name == type_)
        return f"0x{_float_bits(token, type_, bits):0{bits // 4}X}"


def _float_bits(token: str, type_: str, bits: int) -> int:
    """The bits of a constant: LLVM writes f32 and f64 as numbers or as the bits of a double (Language Reference,
    "Simple Constants"), f16 behind 0xH, bf16 behind 0xR."""
    if token.startswith(("0xH", "0xR")):
        return int(token[3:], 16)
    exact = struct.unpack("<d", struct.pack("<Q", int(token, 16)))[0] if token.startswith("0x") else float(token)
    if type_ == "bf16":
        return int.from_bytes(struct.pack("<f", exact), "little") >> 16
    if type_ == "f32" and token.startswith("0x") and exact != exact:  # a NaN keeps its payload
        double = int(token, 16)
        return (double >> 63) << 31 | 0xFF << 23 | (double >> 29) & 0x7FFFFF
    return int.from_bytes(struct.pack({16: "<e", 32: "<f", 64: "<d"}[bits], exact), "little")
