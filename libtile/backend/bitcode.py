# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""LLVM code that programs bring along: libraries of bitcode that kernels call functions of, which these are, and
linking them; and fragments of LLVM IR."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from libtile.codegen.ptx_text import inline_problem
from libtile.support.errors import LibtileError

MAGIC = (b"BC\xc0\xde", b"\xde\xc0\x17\x0b")
"""What bitcode begins with: plain, and with a wrapper (LLVM Bitcode File Format, "Magic Numbers", "Wrapper")."""


class LibraryError(LibtileError):
    """A library is no bitcode that LLVM reads, or does not fit the module."""


class FragmentError(LibtileError):
    """A fragment is no body of a function, or calls what no code is made for."""


def is_bitcode(data: bytes) -> bool:
    """Whether a file's bytes begin as those of bitcode do."""
    return data.startswith(MAGIC)


def _parsed(llvm: Any, data: bytes, context: Any = None) -> Any:
    if not is_bitcode(data):
        raise LibraryError("a library is no LLVM bitcode")
    try:
        return llvm.parse_bitcode(data, context) if context is not None else llvm.parse_bitcode(data)
    except RuntimeError as problem:
        raise LibraryError(f"LLVM refuses a library: {str(problem).strip()}") from None


def defined_functions(libraries: Sequence[bytes]) -> dict[str, str]:
    """The functions that libraries define, and libdevice's: by name their types, as LLVM IR writes them (`float
    (float)`). LibraryError for what is no bitcode."""
    from libtile.backend.libdevice import functions
    from libtile.backend.libllvm import load
    from libtile.support.threads import LLVM

    with LLVM:
        llvm = load()
        found = dict(functions(llvm))
        for data in libraries:
            defined = (f for f in _parsed(llvm, data).functions if not f.is_declaration)
            found |= {f.name: str(f.global_value_type) for f in defined}
    return found


READ_REGISTER = "llvm.nvvm.read.ptx.sreg."
"""What intrinsics begin with that read special registers, which every target has."""


_LEXEMES = re.compile(r'"[^"]*"|;[^\n\r]*|/\*.*?\*/|[{}]', re.DOTALL)
"""Strings of LLVM IR, which have no escaped quotes, its comments, and braces."""

_INLINE_PTX = re.compile(r'\basm(?:\s+[a-z]+)*\s*"([^"]*)"')
"""The code of an `asm`, in a text without comments."""
_ESCAPE = re.compile(r"\\(\\|[0-9A-Fa-f]{2})")
"""A backslash of a string, and a character by its number."""


def leaves_function(body: str) -> bool:
    """Whether a text that stands in a function of LLVM IR ends that function, and goes on behind it."""
    depth = 0
    for lexeme in _LEXEMES.findall(body):
        depth += (lexeme == "{") - (lexeme == "}")
        if depth < 0:
            return True
    return False


def _without_comments(body: str) -> str:
    return _LEXEMES.sub(lambda found: " " if found[0][0] in ";/" else found[0], body)


def check_fragment(text: str, body: str, intrinsics: Iterable[str]) -> None:
    """See to it that the text of a function with a body is that function and nothing else, that its inline PTX stays
    within it, and that LLVM has code for what it calls: `intrinsics`, by their names without types, and those that read
    special registers. FragmentError otherwise."""
    from libtile.backend.libllvm import load
    from libtile.support.threads import LLVM

    if leaves_function(body):
        raise FragmentError("has LLVM IR that is more than the body of one function")
    for code in _INLINE_PTX.findall(_without_comments(body)):
        if problem := inline_problem(_ESCAPE.sub(lambda m: "\\" if m[1] == "\\" else chr(int(m[1], 16)), code)):
            raise FragmentError(f"has LLVM IR with {problem}")
    with LLVM:
        llvm = load()
        try:
            module = llvm.parse_assembly(text, llvm.create_context())
            module.verify()
        except RuntimeError as problem:
            said = " ".join(str(problem).split())
            raise FragmentError(f"has LLVM IR that LLVM refuses: {said}") from None
        known = tuple(f"{each}." for each in intrinsics)
        for function in module.functions:
            if function.is_declaration and not function.name.startswith((*known, READ_REGISTER)):
                raise FragmentError(f"calls '{function.name}' in its LLVM IR, and no code is made for that")


def link(llvm: Any, context: Any, module: Any, libraries: Sequence[bytes]) -> None:
    """Link libraries into a module; what they define is the module's own, and goes where nobody calls it.

    LibraryError for a name that two of them define, or that the module has itself.
    """
    names = set()
    for data in libraries:
        part = _parsed(llvm, data, context)
        part.triple, part.data_layout = module.triple, module.data_layout
        names |= {f.name for f in part.functions if not f.is_declaration}
        try:
            module.link_in(part)
        except RuntimeError as problem:
            raise LibraryError(f"a library cannot be linked: {str(problem).strip()}") from None
    for name in names:
        module.get_function(name).linkage = "internal"
