# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Imports go one way: every import of the package, lazy and type-only ones included, against the order of its rooms."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

LAYERS = (
    ("support",),
    ("spec",),
    ("numerics",),
    ("bytecode", "layouts", "ptx"),
    ("targets",),
    ("atoms",),
    ("ir",),
    ("dialects",),
    ("analysis", "asm"),
    ("passes", "transforms", "codegen"),
    ("lowering", "backend"),
    ("compiler", "interpreter", "simulator"),
    ("runtime", "debugging"),
    ("api",),
    ("cutile", "explore", "mlir"),
    ("tuning",),
    ("tools",),
)
"""A room imports rooms of earlier rows only; those of one row do not import each other."""

STAGES = ("to_tileaa", "to_tileas", "tileas", "to_llvm")
"""The parts of the lowering, each of which imports earlier ones only."""

TILEAS_ROOMS = (
    "exchanges",
    "copies",
    "memory",
    "tile_ops",
    "pipelines",
    "tma",
    "products",
    "agents",
    "mma_sync",
    "wgmma",
    "tensor_memory",
    "parting",
)
"""The rooms of the passes of nv_tileas, each of which imports earlier ones only, and what stands beside them."""

ALL_IN_ALL = {"bytecode": ("support", "spec", "numerics"), "codegen": tuple(r for row in LAYERS[:7] for r in row)}
"""Rooms that know less than their row allows: the bytecode no IR, code generation no dialect."""

LEVEL = {room: number for number, row in enumerate(LAYERS) for room in row}


def modules() -> dict[str, Path]:
    """Every module of the package and of the tools, by name."""
    found = {}
    for top, base in ((ROOT / "libtile", ROOT), *((p, ROOT / "tools") for p in (ROOT / "tools").iterdir())):
        for path in top.rglob("*.py"):
            parts = path.relative_to(base).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules()


def room(module: str) -> str:
    """The room that a module stands in."""
    first, *rest = module.split(".")
    if first != "libtile" or module.endswith(".__main__"):  # `python -m libtile.simulator` is a tool
        return "tools"
    return "api" if not rest or rest == ["api"] else rest[0]


def for_type_checkers(tree: ast.Module) -> set[ast.AST]:
    """The nodes of a file that only a type checker sees."""
    guards = [n for n in ast.walk(tree) if isinstance(n, ast.If) and getattr(n.test, "id", "") == "TYPE_CHECKING"]
    return {node for guard in guards for statement in guard.body for node in ast.walk(statement)}


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def imported(module: str, path: Path, types_as_well: bool = True) -> Iterator[tuple[int, str]]:
    """What a module imports of the package, with what it has for a type checker only or without: the line, and the
    module that is meant."""
    package = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
    tree = _tree(path)
    skipped = set() if types_as_well else for_type_checkers(tree)
    for node in ast.walk(tree):
        if node in skipped:
            continue
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            source = ".".join([*base, *([node.module] if node.module else [])])
            names = [full if (full := f"{source}.{a.name}") in MODULES else source for a in node.names]
        else:
            continue
        yield from ((node.lineno, name) for name in names if name in MODULES)


@cache
def imports() -> list[tuple[str, Path, int, str]]:
    """Who imports what of the package, and where. It takes seconds, which are no other test's."""
    return [
        (name, path, line, other)
        for name, path in MODULES.items()
        for line, other in imported(name, path)
        if other != name
    ]


def test_files_import_one_way() -> None:
    """Within a room as well, and inside of functions: only to name a type may a file ask for one that imports it."""
    uses = {
        module: {other for _, other in imported(module, path, types_as_well=False)} - {module}
        for module, path in MODULES.items()
    }
    while ends := {m for m, others in uses.items() if not others & uses.keys()} | (
        uses.keys() - {other for others in uses.values() for other in others}
    ):
        uses = {module: others for module, others in uses.items() if module not in ends}
    assert not uses, "files that import each other: " + ", ".join(sorted(uses))


def test_every_room_has_a_layer():
    assert {room(name) for name in MODULES} <= set(LEVEL)


@pytest.mark.parametrize("name", sorted(LEVEL))
def test_a_room_imports_earlier_ones_only(name):
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {other}"
        for module, path, line, other in imports()
        if room(module) == name and room(other) != name
        if LEVEL[room(other)] >= LEVEL[name] or room(other) not in ALL_IN_ALL.get(name, LEVEL)
    ]
    assert not wrong, "\n".join(["move what is shared to an earlier room:", *wrong])


def test_stages_of_the_lowering_import_earlier_ones_only():
    def stage(module: str) -> int:
        parts = module.split(".")
        return STAGES.index(parts[2]) if len(parts) > 2 and parts[2] in STAGES else -1

    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {other}"
        for module, path, line, other in imports()
        if room(module) == room(other) == "lowering" and stage(other) > stage(module) >= 0
    ]
    assert not wrong, "\n".join(wrong)


def test_rooms_of_the_passes_of_nv_tileas_import_earlier_ones_only():
    def level(module: str) -> int:
        parts = module.split(".")
        if parts[:3] != ["libtile", "lowering", "tileas"] or len(parts) == 3:
            return -1
        return TILEAS_ROOMS.index(parts[3]) + 1 if parts[3] in TILEAS_ROOMS else 0

    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {other}"
        for module, path, line, other in imports()
        if level(other) > level(module) >= 0
    ]
    assert not wrong, "\n".join(wrong)
    folders = {
        p.name for p in (ROOT / "libtile" / "lowering" / "tileas").iterdir() if p.is_dir() and p.name != "__pycache__"
    }
    assert folders == set(TILEAS_ROOMS)


CHOSEN_BEFORE = {
    "libtile.lowering.to_llvm": ("libtile.lowering.to_tileas.types", "libtile.lowering.to_tileas.shape_layouts"),
    "libtile.compiler.remarking": ("libtile.lowering.to_tileas.types",),
    "libtile.compiler.access_remarks": (),
}
"""What emits code and what speaks of it read what ops say: of the choice of layouts and instructions they know types
and layouts of scalars only, and nothing of the facts that accesses are chosen by."""

CHOICES = (
    "libtile.lowering.to_tileas",
    "libtile.lowering.tileas.copies.view_accesses",
    "libtile.lowering.tileas.copies.access_reasons",
)


@pytest.mark.parametrize("reader", CHOSEN_BEFORE)
def test_what_is_emitted_and_said_was_chosen_before(reader):
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {other}"
        for module, path, line, other in imports()
        if (module + ".").startswith(reader + ".") and other.startswith(CHOICES) and other not in CHOSEN_BEFORE[reader]
    ]
    assert not wrong, "\n".join(wrong)
