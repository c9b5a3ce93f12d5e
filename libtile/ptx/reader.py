# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""PTX as records, for whoever changes or shows it: the one place that looks for something in its text.

`outline` reads what a module declares, with the offsets that an edit needs; the bodies of functions and initializers
are passed over, which takes a fraction of reading them. `statements` reads what stands on a line of a body.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from libtile.ptx.errors import PtxFormatError
from libtile.ptx.lexer import Token, token_at
from libtile.support.records import dataclass

_LINE_DIRECTIVES = (".version", ".target", ".address_size")
"""Directives of a module that end with their line."""

_LINKAGE = (".visible", ".weak", ".extern")

_BRACE = re.compile(r'[{}]|//[^\n]*|/\*.*?\*/|"[^"\n]*"', re.DOTALL)


@dataclass(frozen=True, slots=True)
class Directive:
    """A directive with what follows it: `name` without the period, and its place from `start` to `end`."""

    name: str
    start: int
    end: int
    arguments: tuple[Token, ...] = ()

    def numbers(self) -> tuple[int, ...]:
        """The arguments that are integers."""
        return tuple(int(token.value or 0) for token in self.arguments if token.kind == "int")


@dataclass(frozen=True, slots=True)
class File:
    """A `.file` directive: its number, and the place of the string, without its quotes."""

    number: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Entry:
    """A kernel. `start` is where its first word is, `named` where the name ends, `parameters` the offset of each one's
    first word, `opened` and `closed` the places of the parentheses around them (the same, where there are none), `body`
    that of its brace (-1 for none)."""

    name: str
    start: int
    named: int
    opened: int
    closed: int
    parameters: tuple[int, ...]
    directives: tuple[Directive, ...]
    body: int


@dataclass(frozen=True)
class Outline:
    """What a module declares: directives of its own, the files that lines are of, and its kernels."""

    directives: dict[str, Directive]
    files: tuple[File, ...]
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class Instruction:
    """An instruction by its words: `mma.sync.aligned` is the opcode `mma` with two modifiers."""

    opcode: str
    modifiers: tuple[str, ...]

    @property
    def shape(self) -> tuple[int, int, int] | None:
        """See `product_shape`."""
        return product_shape(self.modifiers)


@dataclass(frozen=True, slots=True)
class Label:
    name: str


Statement = Directive | Instruction | Label


_SHAPE = re.compile(r"m(\d+)n(\d+)k(\d+)")


def product_shape(modifiers: Iterable[str]) -> tuple[int, int, int] | None:
    """Rows, columns and depth of a product of matrices by the modifier that says them (`m16n8k16`); None without it."""
    found = next((match for word in modifiers if (match := _SHAPE.fullmatch(word))), None)
    return None if found is None else (int(found[1]), int(found[2]), int(found[3]))


# -- modules ----------------------------------------------------------------------------------------------------------


def outline(text: str) -> Outline:
    """What a module declares. PtxFormatError for a text that ends within a parenthesis or a block, or holds what is no
    token of PTX. Strings of `.file` may have C's escapes, as LLVM writes them."""
    directives: dict[str, Directive] = {}
    files: list[File] = []
    entries: list[Entry] = []
    position = 0
    start: int | None = None  # of the linkage that the next word has
    while (token := token_at(text, position)).kind != "eof":
        position = token.end
        linkage, start = start, None
        if token.text in _LINKAGE:
            start = token.pos if linkage is None else linkage
        elif token.text in _LINE_DIRECTIVES:
            position = _end_of_line(text, position)
            arguments = tuple(_tokens(text, token.end, position))
            directives.setdefault(token.text[1:], Directive(token.text[1:], token.pos, position, arguments))
        elif token.text == ".file":
            file = _file(text, position)
            files.append(file)
            position = _end_of_line(text, file.end)
            # What may follow are the file's time and size.
            if any(t.kind != "int" and t.text != "," for t in _tokens(text, file.end + 1, position)):
                raise PtxFormatError("a .file directive with more than a time and a size", file.end)
        elif token.text == ".entry":
            entry = _entry(text, token.pos if linkage is None else linkage, position)
            entries.append(entry)
            position = _behind_block(text, entry.body) if entry.body >= 0 else entry.closed
        elif token.text == "{":
            position = _behind_block(text, token.pos)
    return Outline(directives, tuple(files), tuple(entries))


def _end_of_line(text: str, position: int) -> int:
    end = text.find("\n", position)
    return len(text) if end < 0 else end


def _tokens(text: str, position: int, end: int) -> Iterator[Token]:
    while (token := token_at(text, position)).kind != "eof" and token.pos < end:
        yield token
        position = token.end


def _file(text: str, position: int) -> File:
    number = token_at(text, position)
    start = end = text.find('"', number.end, _end_of_line(text, number.end)) + 1
    if number.kind != "int" or not start:
        raise PtxFormatError("a .file directive without a string", position)
    while text[end : end + 1] not in ('"', "\n", ""):
        end += 2 if text[end] == "\\" else 1
    if text[end : end + 1] != '"':
        raise PtxFormatError("a .file directive without the end of its string", position)
    return File(int(number.value or 0), start, end)


def _behind_block(text: str, start: int) -> int:
    """The offset behind the brace that closes the one at `start`."""
    depth = 0
    for match in _BRACE.finditer(text, start):
        brace = match[0]
        depth += (brace == "{") - (brace == "}")
        if depth == 0:
            return match.end()
    raise PtxFormatError(f"unbalanced '{{' at offset {start}", start)


def _entry(text: str, start: int, position: int) -> Entry:
    name = token_at(text, position)
    if name.kind != "id":
        raise PtxFormatError(f"an .entry without a name at offset {position}", position)
    token = token_at(text, name.end)
    opened = closed = name.end
    parameters: tuple[int, ...] = ()
    if token.text == "(":
        opened = token.pos
        parameters, closed = _parameters(text, token)
    directives, body = _header(text, closed)
    return Entry(name.text, start, name.end, opened, closed, parameters, directives, body)


def _parameters(text: str, opening: Token) -> tuple[tuple[int, ...], int]:
    """The offsets of the first words of parameters, and that behind the parenthesis."""
    found, position, depth, begins = [], opening.end, 1, True
    while depth:
        token = token_at(text, position)
        if token.kind == "eof":
            raise PtxFormatError(f"unbalanced '(' at offset {opening.pos}", opening.pos)
        depth += (token.text == "(") - (token.text == ")")
        if begins and depth:
            found.append(token.pos)
        begins = token.text == "," and depth == 1
        position = token.end
    return tuple(found), position


def _header(text: str, position: int) -> tuple[tuple[Directive, ...], int]:
    """The directives between an entry's parameters and its body, and where the body's brace is."""
    found: list[list[Token]] = []
    while (token := token_at(text, position)).text not in ("{", ";") and token.kind != "eof":
        if token.kind == "dir":
            found.append([token])
        elif found:
            found[-1].append(token)
        position = token.end
    directives = tuple(Directive(d[0].text[1:], d[0].pos, d[-1].end, tuple(d[1:])) for d in found)
    return directives, token.pos if token.text == "{" else -1


def edited(text: str, edits: Iterable[tuple[int, int, str]]) -> str:
    """The text with other texts in place of parts of it: (start, end, text), of which none overlap."""
    out, position = [], 0
    for start, end, new in sorted(edits, key=lambda edit: edit[:2]):
        out += [text[position:start], new]
        position = end
    return "".join([*out, text[position:]])


# -- lines ------------------------------------------------------------------------------------------------------------


def directive(line: str, *names: str) -> Directive | None:
    """The directive that a line consists of, if it is one of these names (without periods)."""
    word = line.split(None, 1)[0] if line else ""
    if word[:1] != "." or word[1:] not in names:
        return None
    first, *rest = _tokens(line, 0, len(line))
    return Directive(first.text[1:], first.pos, rest[-1].end if rest else first.end, tuple(rest))


def statements(line: str) -> Iterator[Statement]:
    """What begins on a line: instructions, labels and directives. Guards, braces and what goes on from the line before
    are none. PtxFormatError for what is no token of PTX."""
    tokens = list(_tokens(line, 0, len(line)))
    position = 0
    while position < len(tokens):
        token = tokens[position]
        if token.text in ("{", "}", ";"):
            position += 1
            continue
        if token.text == "@":
            position += 3 if tokens[position + 1 : position + 2] and tokens[position + 1].text == "!" else 2
            continue
        end = next((i for i in range(position, len(tokens)) if tokens[i].text == ";"), len(tokens))
        if token.kind == "dir":
            yield Directive(token.text[1:], token.pos, tokens[end - 1].end, tuple(tokens[position + 1 : end]))
        elif token.kind == "id":
            behind = position + 1
            while behind < end and tokens[behind].kind == "dir" and tokens[behind].pos == tokens[behind - 1].end:
                behind += 1
            following = tokens[behind].text if behind < len(tokens) else ""
            if following == ":" and behind == position + 1:
                yield Label(token.text)
                position = behind + 1
                continue
            if following not in (",", ")", "]", ":") and not token.text.startswith("%"):
                yield Instruction(token.text, tuple(t.text[1:] for t in tokens[position + 1 : behind]))
        position = end + 1
