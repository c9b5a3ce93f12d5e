# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Aliases for locations and debug information in printed text: `#loc3 = loc("file":1:2)`.

An alias is printed behind what it needs. Those that only locations need come at the end of the text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from libtile.dialects.cuda_tile.attribute_text import LOCATIONS, TypeElision, attribute_text
from libtile.dialects.cuda_tile.forms import DebugAttr, DILocAttr
from libtile.ir.forms import ArrayAttr, Attribute, CallSiteLoc, DictionaryAttr, FusedLoc, NameLoc, Operation, UnknownLoc


class _Entry:
    __slots__ = ("children", "deferred", "depth", "name")

    def __init__(self, name: str | None, deferred: bool):
        self.name = name
        self.depth = 0 if name is None else 1
        self.deferred = deferred
        self.children: list[Attribute] = []


def _base_name(attr: Attribute) -> str | None:
    if isinstance(attr, LOCATIONS):
        return "loc"
    return attr.mnemonic if isinstance(attr, DebugAttr) else None


def _children(attr: Attribute) -> Iterator[Attribute]:
    """The attributes inside of one, in the order in which they are printed."""
    match attr:
        case DILocAttr():
            yield attr.position()
            yield attr.scope
        case DebugAttr():
            yield from (value for value in attr.data if isinstance(value, Attribute))
        case CallSiteLoc():
            yield attr.callee
            yield attr.caller
        case NameLoc():
            if not isinstance(attr.location, UnknownLoc):
                yield attr.location
        case FusedLoc():
            yield attr.metadata
            assert isinstance(attr.locations, ArrayAttr)
            yield from attr.locations
        case ArrayAttr():
            yield from attr.data
        case DictionaryAttr():
            yield from attr.data.values()


class Aliases:
    """The aliases of all that is printed below an op. Call it with an attribute to get its alias or None.

    `arguments_printed(op)` tells whether an op's entry block is printed with its arguments; `hidden_terminator(region)`
    is the terminator that the printed text implies, or None.
    """

    def __init__(self, op: Operation, arguments_printed: Any, hidden_terminator: Any = None):
        self._hidden_terminator = hidden_terminator or (lambda region: None)
        self._entries: dict[Attribute, _Entry] = {}
        self._arguments_printed = arguments_printed
        self._collect(op)
        self._names: dict[Attribute, str] = {}
        counts: dict[str, int] = {}
        named = [(a, e) for a, e in self._entries.items() if e.name is not None]
        self._ordered = sorted(named, key=lambda item: (item[1].depth, item[1].name))
        for attr, entry in self._ordered:
            assert entry.name is not None
            number = counts.get(entry.name, 0)
            counts[entry.name] = number + 1
            self._names[attr] = f"#{entry.name}{number or ''}"

    def __call__(self, attr: Attribute) -> str | None:
        return self._names.get(attr)

    def _collect(self, top: Operation) -> None:
        stack: list[Operation] = [top]
        while stack:
            op = stack.pop()
            self._visit(op.location, True)
            for attr in (*op.properties.values(), *op.attributes.values()):
                if isinstance(attr, DebugAttr | ArrayAttr | DictionaryAttr):
                    self._visit(attr, False)
            inner: list[Operation] = []
            for region in op.regions:
                for number, block in enumerate(region.blocks):
                    if number or self._arguments_printed(op):
                        for argument in block.args:
                            self._visit(argument.location, False)
                    inner.extend(block.ops)
                if inner and inner[-1] is self._hidden_terminator(region):
                    inner.pop()
            stack.extend(reversed(inner))

    def _visit(self, attr: Attribute, deferred: bool) -> int:
        """Enter an attribute and all inside of it; its depth in the order of definitions."""
        entry = self._entries.get(attr)
        if entry is not None:
            if not deferred:
                self._undefer(entry)
            return entry.depth
        entry = self._entries[attr] = _Entry(_base_name(attr), deferred)
        deepest = 0
        for child in _children(attr):
            entry.children.append(child)
            deepest = max(deepest, self._visit(child, deferred))
        if deepest:
            entry.depth = deepest + 1
        return entry.depth

    def _undefer(self, entry: _Entry) -> None:
        stack = [entry]
        while stack:
            current = stack.pop()
            if current.deferred:
                current.deferred = False
                stack.extend(self._entries[child] for child in current.children)

    def _but(self, own: Attribute) -> Callable[[Attribute], str | None]:
        """The aliases of all attributes but one, which is being defined."""
        return lambda attr: None if attr is own else self(attr)

    def definitions(self, deferred: bool) -> str:
        """The lines that define the aliases of one kind; each ends in a newline."""
        lines = []
        for attr, entry in self._ordered:
            if entry.deferred == deferred:
                text = attribute_text(attr, TypeElision.NEVER, self._but(attr))
                lines.append(f"{self._names[attr]} = {text}\n")
        return "".join(lines)
