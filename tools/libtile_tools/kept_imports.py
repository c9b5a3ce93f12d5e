# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which modules a module imports in any case, by its code: they are loaded before it (`libtile_tools.startup`).

This is found out when code is added to the bundle, and kept with it. What stands under a condition is left out, and so
is what imports the module itself, directly or not: there the order matters.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Iterator, Mapping
from types import CodeType

_JUMPS = frozenset(dis.hasjrel) | frozenset(dis.hasjabs)


def imported_first(codes: Mapping[str, CodeType]) -> dict[str, tuple[str, ...]]:
    """For each module of these, by name, those of them that it imports in any case and that do not import it, in order.

    All are loaded: what is a submodule is seen from that.
    """
    imports = {name: tuple(dict.fromkeys(_imports(name, code, codes))) for name, code in codes.items()}
    circle = _circles(imports)
    return {
        name: tuple(other for other in found if circle[other] != circle[name] and not name.startswith(f"{other}."))
        for name, found in imports.items()
    }


def _imports(name: str, code: CodeType, known: Mapping[str, CodeType]) -> Iterator[str]:
    package = name if hasattr(sys.modules[name], "__path__") else name.rpartition(".")[0]
    steps = [step for step in dis.get_instructions(code) if step.opname != "EXTENDED_ARG"]
    until = 0  # the end of what is jumped over
    for i, step in enumerate(steps):
        if step.opname.startswith("RETURN_"):  # behind it is what exceptions lead to
            return
        if step.opcode in _JUMPS:
            until = max(until, step.argval)
        if step.opname != "IMPORT_NAME" or step.offset < until:
            continue
        level, names = steps[i - 2].argval, steps[i - 1].argval
        full = step.argval
        if level:
            above = package.rsplit(".", level - 1)[0] if level > 1 else package
            full = f"{above}.{full}" if full else above
        parts = full.split(".")
        for length in range(1, len(parts) + 1):
            if (module := ".".join(parts[:length])) in known:
                yield module
        for each in names or ():
            if (module := f"{full}.{each}") in known:
                yield module


def _circles(imports: Mapping[str, tuple[str, ...]]) -> dict[str, int]:
    """A number for each module, which is the same for those that import each other: Kosaraju's algorithm."""
    order: list[str] = []
    seen: set[str] = set()
    for start in imports:
        stack = [(start, False)]
        while stack:
            name, left = stack.pop()
            if left:
                order.append(name)
            elif name not in seen:
                seen.add(name)
                stack.append((name, True))
                stack += [(other, False) for other in imports[name]]
    importers: dict[str, list[str]] = {name: [] for name in imports}
    for name, found in imports.items():
        for other in found:
            importers[other].append(name)
    circle: dict[str, int] = {}
    for number, start in enumerate(reversed(order)):
        following = [start]
        while following:
            name = following.pop()
            if name not in circle:
                circle[name] = number
                following += importers[name]
    return circle
