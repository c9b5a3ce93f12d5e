# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Parser of function bodies: scopes, registers, labels and instructions (PTX ISA, "Statements", "Operands")."""

from __future__ import annotations

import re
from typing import Any

from libtile.support.records import dataclass, field

from .data import parse_initializer, parse_variable_header
from .ir import (
    Addr,
    Function,
    Group,
    Imm,
    Instruction,
    Label,
    Location,
    Module,
    Neg,
    Not,
    Pair,
    Reg,
    Sink,
    Special,
    Sym,
    Variable,
    Vec,
)
from .stream import TokenStream
from .types import TYPES, PtxType

_NUMBERED = re.compile(r"(.*?)(\d+)$")
_BRANCHES = ("bra", "brx", "call")

SPECIAL_VECTORS = (
    "%tid", "%ntid", "%ctaid", "%nctaid", "%clusterid", "%nclusterid", "%cluster_ctaid", "%cluster_nctaid",
)  # fmt: skip
SPECIAL_SCALARS = (
    "%laneid", "%warpid", "%nwarpid", "%smid", "%nsmid", "%gridid", "%is_explicit_cluster", "%cluster_ctarank",
    "%cluster_nctarank", "%lanemask_eq", "%lanemask_le", "%lanemask_lt", "%lanemask_ge", "%lanemask_gt", "%clock",
    "%clock_hi", "%clock64", "%globaltimer", "%globaltimer_lo", "%globaltimer_hi", "%total_smem_size",
    "%aggr_smem_size", "%dynamic_smem_size", "%current_graph_exec",
)  # fmt: skip
SPECIAL_FAMILIES = re.compile(r"%pm\d|%pm\d_64|%envreg\d+|%reserved_smem_offset_(begin|end|cap|\d)")


@dataclass
class _Scope:
    parent: _Scope | None
    names: dict[str, Reg | Variable] = field(default_factory=dict)
    ranges: dict[str, tuple[int, PtxType]] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)


class BodyParser:
    """Reads `{ ... }` of one function into `function.body`; registers and variables go to the function's tables."""

    def __init__(self, stream: TokenStream, module: Module, function: Function) -> None:
        self.s = stream
        self.module = module
        self.function = function
        self.scope = _Scope(None)
        self.location: Location | None = None
        self.body: list[Instruction | Label] = []
        self.pending: list[tuple[Any, int, _Scope]] = []
        self.label_names: set[str] = set()
        self.last_label = ""

    def parse(self) -> None:
        for param in (*self.function.params, *self.function.returns):
            if param.align == 0:
                param.reg = self._new_reg(param.name, param.type)
                self.scope.names[param.name] = param.reg
            elif not self.function.entry:
                self._add_variable(Variable(param.name, "param", param.type, param.align, param.size))
        self._block()
        self._resolve_labels()
        self.function.body = self.body

    def _block(self) -> None:
        s = self.s
        s.expect("{")
        self.scope = _Scope(self.scope)
        while s.tok.text != "}":
            if s.tok.kind == "eof":
                s.fail(f"the body of {self.function.name} is not closed")
            self._statement()
        s.next()
        parent = self.scope.parent
        if parent is not None:
            self.scope = parent

    def _statement(self) -> None:
        s = self.s
        tok = s.tok
        if tok.kind == "dir":
            self._directive()
        elif tok.text == "{":
            with s.nested():
                self._block()
        elif tok.text == ";":
            s.next()
        elif tok.kind == "id" and s.peek().text == ":":
            self._label()
        else:
            self._instruction()

    def _label(self) -> None:
        s = self.s
        line = s.line()
        name = s.identifier()
        s.expect(":")
        if s.tok.text in (".branchtargets", ".calltargets"):
            s.next()
            targets = [s.identifier()]
            while s.accept(","):
                targets.append(s.identifier())
            s.expect(";")
            self.function.branch_targets[name] = targets
            self.pending.append((targets, 0, self.scope))
            return
        if s.tok.text == ".callprototype":
            s.skip_past(";")
            self.function.prototypes[name] = True
            return
        if name in self.scope.labels:
            s.fail(f"label {name} is defined twice")
        unique = name
        while unique in self.label_names:
            unique += "'"
        self.label_names.add(unique)
        self.scope.labels[name] = unique
        self.body.append(Label(unique, line))

    def _directive(self) -> None:
        s = self.s
        word = s.tok.text
        if word == ".loc":
            self.location = s.location(self.module.files)
        elif word == ".reg":
            self._registers()
        elif word in (".local", ".shared", ".param", ".global", ".const"):
            self._variable()
        elif word in (".pragma", ".callprototype"):
            s.skip_past(";")
        elif word == ".loc_intermediate":
            s.next()
            for _ in ("file", "line", "column"):
                s.integer()
        elif word in (".file",):
            s.next()
            s.integer()
            s.next()
        elif word in (".branchtargets", ".calltargets"):
            s.fail(f"{word} needs a label")
        else:
            s.fail(f"unknown directive {word}")

    def _registers(self) -> None:
        s = self.s
        s.next()
        if s.tok.text in (".v2", ".v4"):
            s.fail("vector registers are not simulated; use scalar registers and {a,b}")
        word = s.next().text[1:]
        if word not in TYPES:
            s.fail(f".{word} is not a register type")
        kind = TYPES[word]
        while True:
            name = s.identifier()
            if s.accept("<"):
                self.scope.ranges[name] = (s.integer(), kind)
                s.expect(">")
            else:
                self.scope.names[name] = self._new_reg(name, kind)
            if not s.accept(","):
                break
        s.expect(";")

    def _new_reg(self, name: str, kind: PtxType) -> Reg:
        reg = Reg(len(self.function.registers), kind, name)
        self.function.registers.append(reg)
        return reg

    def _variable(self) -> None:
        s = self.s
        line = s.line()
        space = s.next().text[1:]
        header = parse_variable_header(s)
        while True:
            var = header.declare(s, space, line)
            if s.accept("="):
                parse_initializer(s, var)
            self._add_variable(var)
            if not s.accept(","):
                break
        s.expect(";")

    def _add_variable(self, var: Variable) -> None:
        unique = var.name
        while unique in self.function.variables:
            unique += "'"
        var.unique = unique
        self.function.variables[unique] = var
        self.scope.names[var.name] = var

    def _lookup(self, name: str) -> Reg | Variable | None:
        scope: _Scope | None = self.scope
        numbered = _NUMBERED.match(name)
        while scope is not None:
            found = scope.names.get(name)
            if found is not None:
                return found
            if numbered is not None:
                prefix, digits = numbered.groups()
                limit = scope.ranges.get(prefix)
                if limit is not None and int(digits) < limit[0]:
                    reg = self._new_reg(name, limit[1])
                    scope.names[name] = reg
                    return reg
            scope = scope.parent
        return None

    def _instruction(self) -> None:
        s = self.s
        start = s.tok
        line, column = s.lines.position(start.pos)
        guard = None
        if s.accept("@"):
            negated = s.accept("!")
            reg = self._lookup(s.tok.text)
            if not isinstance(reg, Reg):
                s.fail(f"undeclared predicate {s.tok.text}")
            s.next()
            guard = (reg, negated)
        opcode = s.identifier()
        modifiers = []
        while s.tok.kind == "dir":
            modifiers.append(s.next().text[1:])
        operands: list[Any] = []
        if s.tok.text != ";":
            operands.append(self._operand())
            while s.accept(","):
                operands.append(self._operand())
        if s.tok.text != ";":
            s.fail(f"expected ',' or ';' after an operand of {opcode}, found {s.tok.text!r}")
        text = " ".join(s.text[start.pos : s.tok.pos].split()) + ";"
        s.next()
        instruction = Instruction(opcode, tuple(modifiers), guard, tuple(operands), line, column, text, self.location)
        if opcode in _BRANCHES:
            self.pending.append((instruction, 0, self.scope))
        self.body.append(instruction)

    def _operand(self) -> Any:
        first = self._simple_operand()
        if self.s.accept("|"):
            return Pair(first, self._simple_operand())
        return first

    def _simple_operand(self) -> Any:
        s = self.s
        text = s.tok.text
        if text == "{":
            with s.nested():
                return Vec(self._list("{", "}"))
        if text == "(":
            with s.nested():
                return Group(self._list("(", ")"))
        if text == "[":
            return self._address()
        if text == "_":
            s.next()
            return Sink()
        if text == "!":
            s.next()
            reg = self._lookup(s.tok.text)
            if not isinstance(reg, Reg):
                s.fail(f"undeclared predicate {s.tok.text}")
            s.next()
            return Not(reg)
        if text == "-" and s.peek().kind == "id":
            s.next()
            inner = self._simple_operand()
            if not isinstance(inner, Reg):
                s.fail("only a register or a literal may be negated")
            return Neg(inner)
        if s.tok.kind == "float" or (text == "-" and s.peek().kind == "float"):
            return self._float()
        if s.tok.kind == "int" or text in ("-", "~"):
            return Imm(s.integer())
        if s.tok.kind == "id":
            return self._named()
        s.fail(f"expected an operand, found {text!r}")

    def _float(self) -> Imm:
        s = self.s
        negative = s.accept("-")
        token = s.next()
        value = token.value if token.value is not None else 0
        if token.bits:
            return Imm(int(value) ^ ((1 << (token.bits - 1)) if negative else 0), token.bits)
        return Imm(-float(value) if negative else float(value))

    def _named(self) -> Any:
        s = self.s
        token = s.next()
        name = token.text
        found = self._lookup(name)
        if isinstance(found, Reg):
            if s.tok.text in (".x", ".y", ".z", ".w"):
                s.fail("vector registers are not simulated")
            return found
        if name == "WARP_SZ":
            return Imm(32)
        if name.startswith("%"):
            return self._special(name, token)
        offset = 0
        if s.tok.text in ("+", "-"):
            offset = s.integer()
        return Sym(found.unique if isinstance(found, Variable) else name, offset)

    def _special(self, name: str, token: Any) -> Special:
        s = self.s
        if name in SPECIAL_VECTORS:
            if s.tok.text not in (".x", ".y", ".z", ".w"):
                s.fail(f"{name} needs a component, such as {name}.x", token)
            return Special(name + s.next().text)
        if name in SPECIAL_SCALARS or SPECIAL_FAMILIES.fullmatch(name):
            self.module.reserved_shared |= name.startswith("%reserved_smem")
            return Special(name)
        s.fail(f"undeclared register {name}", token)

    def _list(self, opening: str, closing: str) -> tuple[Any, ...]:
        s = self.s
        s.expect(opening)
        items: list[Any] = []
        while s.tok.text != closing:
            items.append(self._operand())
            if not s.accept(","):
                break
        s.expect(closing)
        return tuple(items)

    def _address(self) -> Addr:
        s = self.s
        s.expect("[")
        base: Reg | Sym | None = None
        offset = 0
        if s.tok.kind == "id":
            found = self._named()
            if isinstance(found, Sym):
                base, offset = Sym(found.name), found.offset
            elif isinstance(found, Reg):
                base = found
                if s.tok.text in ("+", "-"):
                    offset = s.integer()
            else:
                s.fail("a special register cannot be an address")
        else:
            offset = s.integer()
        extra: list[Any] = []
        while s.accept(","):
            extra.append(self._operand())
        s.expect("]")
        return Addr(base, offset, tuple(extra))

    def _resolve_labels(self) -> None:
        for item, _, scope in self.pending:
            if isinstance(item, list):
                item[:] = [self._find_label(name, scope) for name in item]
                continue
            operands = tuple(
                Sym(self._find_label(op.name, scope), op.offset) if isinstance(op, Sym) else op for op in item.operands
            )
            item.operands = operands

    def _find_label(self, name: str, scope: _Scope | None) -> str:
        while scope is not None:
            if name in scope.labels:
                return scope.labels[name]
            scope = scope.parent
        return name
