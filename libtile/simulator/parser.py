# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Parser of PTX modules: directives, variables and functions (PTX ISA, "Directives").

`parse_ptx(text)` is the face. The statements of a function body are read by `body.BodyParser`.
"""

from __future__ import annotations

from .body import BodyParser
from .data import parse_initializer, parse_variable_header
from .errors import PtxError
from .ir import Function, Module, Parameter
from .stream import TokenStream
from .types import TYPES

_LINKAGE = (".visible", ".extern", ".weak", ".common")
_SPACES = (".global", ".const", ".shared", ".local", ".param")
_COUNTS = (
    ".maxnreg",
    ".maxntid",
    ".minnctapersm",
    ".maxnctapersm",
    ".reqntid",
    ".reqnctapercluster",
    ".maxclusterrank",
)
"""Directives of an entry that say how many."""
_UNSUPPORTED = (".texref", ".samplerref", ".surfref", ".tex")


def parse_ptx(text: str, filename: str = "<ptx>") -> Module:
    """Parse PTX source into a Module. Raises PtxError with line and column."""
    return _ModuleParser(TokenStream(text, filename)).parse()


class _ModuleParser:
    def __init__(self, stream: TokenStream) -> None:
        self.s = stream
        self.module = Module(stream.filename, "", (), 64, source=stream.text)

    def parse(self) -> Module:
        s = self.s
        self._collect_files()
        while s.tok.kind != "eof":
            self._item()
        if not self.module.version:
            raise PtxError("the module has no .version directive", 1, 1, "", s.filename)
        if self.module.address_size != 64:
            raise PtxError("only .address_size 64 is simulated", 1, 1, "", s.filename)
        return self.module

    def _collect_files(self) -> None:
        # nvcc puts .file after the functions whose .loc directives use it.
        tokens = self.s.tokens
        for i, token in enumerate(tokens[:-2]):
            if token.text == ".file" and tokens[i + 1].kind == "int" and tokens[i + 2].kind == "str":
                self.module.files[int(tokens[i + 1].value or 0)] = tokens[i + 2].text[1:-1]

    def _item(self) -> None:
        s, module = self.s, self.module
        word = s.tok.text
        if word == ".version":
            s.next()
            module.version = s.next().text
        elif word == ".target":
            s.next()
            names = [s.next().text]
            while s.accept(","):
                names.append(s.next().text)
            module.target = tuple(names)
        elif word == ".address_size":
            s.next()
            module.address_size = s.integer()
        elif word == ".file":
            self._file()
        elif word in (".section", ".nv_intermediate_source_section"):
            self._skip_section()
        elif word == ".pragma":
            s.skip_past(";")
        elif word == ".alias":
            s.next()
            name = s.identifier()
            s.expect(",")
            module.aliases[name] = s.identifier()
            s.expect(";")
        elif word == ";":
            s.next()
        elif word == ".loc":
            s.location(module.files)
        else:
            self._declaration()

    def _file(self) -> None:
        s = self.s
        s.next()
        index = s.integer()
        self.module.files[index] = s.next().text.strip('"')
        while s.accept(","):
            s.integer()

    def _skip_section(self) -> None:
        s = self.s
        s.next()
        while s.tok.text != "{":
            s.advance("a section body")
        depth = 0
        while True:
            text = s.advance("the end of a section").text
            depth += (text == "{") - (text == "}")
            if depth == 0:
                return

    def _declaration(self) -> None:
        s = self.s
        linkage = ""
        while s.tok.text in _LINKAGE:
            linkage = s.next().text[1:]
        word = s.tok.text
        if word in (".entry", ".func"):
            self._function(linkage)
        elif word in _SPACES:
            self._variable(linkage)
        elif word in _UNSUPPORTED:
            s.fail(f"textures, samplers and surfaces are not simulated ({word})")
        else:
            s.fail("expected a directive")

    def _variable(self, linkage: str) -> None:
        s = self.s
        line = s.line()
        space = s.next().text[1:]
        header = parse_variable_header(s)
        if header.type.name not in TYPES:
            s.fail(f"variables of type .{header.type.name} are not simulated")
        while True:
            var = header.declare(s, space, line)
            var.linkage = linkage
            if s.accept("="):
                parse_initializer(s, var)
            known = self.module.variables.get(var.name)
            if known is None or known.linkage == "extern" or linkage == "common":
                self.module.variables[var.name] = var
            elif linkage != "extern":
                s.fail(f"{var.name} is already defined on line {known.line}")
            if not s.accept(","):
                break
        s.expect(";")

    def _function(self, linkage: str) -> None:
        s = self.s
        line = s.line()
        entry = s.next().text == ".entry"
        while s.tok.text == ".attribute":
            s.next()
            s.skip_group()
        returns: list[Parameter] = []
        if s.tok.text == "(":
            returns = self._parameters()
        name = s.identifier()
        function = Function(name, entry, line, linkage, returns=returns)
        if s.tok.text == "(":
            function.params = self._parameters()
        self._directives(function)
        known = self.module.functions.get(name)
        if s.tok.text == "{":
            if known is not None and known.body is not None:
                s.fail(f"function {name} is already defined on line {known.line}")
            self.module.functions[name] = function
            BodyParser(s, self.module, function).parse()
        else:
            s.accept(";")
            self.module.functions.setdefault(name, function)

    def _directives(self, function: Function) -> None:
        s = self.s
        while s.tok.kind == "dir":
            word = s.tok.text
            if word in (".entry", ".func", ".visible", ".extern", ".weak") or word in _SPACES:
                return
            s.next()
            values: list[int] = []
            if s.tok.text == "(":
                s.skip_group()
            while s.tok.kind in ("int", "str"):
                token = s.next()
                if token.kind == "int":
                    values.append(int(token.value or 0))
                if not s.accept(","):
                    break
            if word == ".pragma":
                s.accept(";")
            if word in _COUNTS and not values:
                s.fail(f"{word} has no number")
            function.directives[word[1:]] = tuple(values)

    def _parameters(self) -> list[Parameter]:
        s = self.s
        params: list[Parameter] = []
        s.expect("(")
        while s.tok.text != ")":
            params.append(self._parameter())
            if not s.accept(","):
                break
        s.expect(")")
        return params

    def _parameter(self) -> Parameter:
        s = self.s
        if s.tok.text not in (".param", ".reg", ".hidden"):
            s.fail("expected .param or .reg")
        while s.tok.text == ".hidden":
            s.next()
        is_reg = s.next().text == ".reg"
        while s.tok.text == ".hidden":
            s.next()
        header = parse_variable_header(s)
        if header.type.name not in TYPES:
            s.fail(f"parameters of type .{header.type.name} are not simulated")
        line = s.line()
        var = header.declare(s, "reg" if is_reg else "param", line)
        param = Parameter(var.name, var.type, var.align, var.size, header.was_array, pointer=header.pointer)
        if is_reg:
            # The register is created by the body parser, which owns the register table.
            param.align = 0
        return param
