# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""docs/architecture.md: its commands are run, its table has every room, its drawing is made from their order.

`python test/test_architecture.py` writes both anew.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent))

from test_layers import LAYERS, STAGES
from tools.transcripts import CONSOLE, refresh, transcript

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "architecture.md"
DRAWING = ROOT / "docs" / "architecture.svg"
STALE = "is stale: run `python test/test_architecture.py`"

_WIDTH, _ROW, _GAP, _BOX, _MARGIN, _LEGEND = 1000, 46, 14, 34, 40, 30
_WORDS = {
    "support": "errors, diagnostics, remarks, files, locks",
    "spec": "every op, type and version, declared once",
    "numerics": "element types and their bits",
    "bytecode": "reads, writes, migrates",
    "layouts": "which lane has what",
    "ptx": "reads PTX",
    "targets": "what each sm_NN can do",
    "atoms": "which instruction computes a product",
    "ir": "what dialects are made of",
    "dialects": "cuda_tile, nv_tileaa, nv_tileas",
    "analysis": "ranges, aliases, tokens",
    "asm": "text: parser and printer",
    "passes": "pipelines, their registry",
    "transforms": "passes over one dialect",
    "codegen": "spells LLVM IR",
    "lowering": " → ".join(STAGES),
    "backend": "LLVM, PTX, ptxas, cubin",
    "compiler": "options in, Compiled out",
    "interpreter": "what a program means",
    "simulator": "what its PTX does",
    "runtime": "run: one signature, three backends",
    "debugging": "compares and reduces",
    "api": "import libtile",
    "cutile": "cuTile with no GPU",
    "explore": "the page, explain, estimate",
    "mlir": "modules of MLIR proper",
    "tuning": "configurations, ranked",
    "tools": "the commands",
}
"""What a room is for, in as many words as fit its box."""

_PATH = ("bytecode", "dialects", "transforms", "lowering", "codegen", "backend")
"""A kernel's way from bytes to a cubin."""

_PROOF = ("interpreter", "simulator")
"""Where a kernel runs with no GPU, before and after that way."""


def _circle(x: float, y: float, number: int) -> str:
    return (
        f'<circle cx="{x:g}" cy="{y:g}" r="11" fill="#0b57d0"/>'
        f'<text x="{x:g}" y="{y + 5:g}" text-anchor="middle" fill="#ffffff" font-weight="bold">{number}</text>'
    )


def drawing() -> str:
    """The rooms as an SVG: a row for each layer, the lowest at the bottom; imports go down only."""
    height = len(LAYERS) * _ROW + 2 * _GAP + _LEGEND
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" '
        'font-family="sans-serif" font-size="14">',
        "<title>The rooms of libtile: each imports rooms of lower rows only</title>",
        f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
        f'<line x1="{_GAP + 5}" y1="{_GAP}" x2="{_GAP + 5}" y2="{height - _LEGEND - _GAP - 8}" stroke="#666666"/>',
        f'<path d="M{_GAP} {height - _LEGEND - _GAP - 16} h10 l-5 12 z" fill="#666666"/>',
    ]
    for number, rooms in enumerate(LAYERS):
        y = height - _LEGEND - _GAP - (number + 1) * _ROW + (_ROW - _BOX) // 2
        width = (_WIDTH - _MARGIN) // len(rooms) - _GAP
        for place, room in enumerate(rooms):
            x = _MARGIN + place * (width + _GAP)
            fill = "#cfe3ff" if room in _PATH else "#d7f0dc" if room in _PROOF else "#f0f0f0"
            out.append(f'<rect x="{x}" y="{y}" width="{width}" height="{_BOX}" rx="5" fill="{fill}" stroke="#666666"/>')
            left = x + 12
            if room in _PATH:
                out.append(_circle(left + 8, y + _BOX / 2, _PATH.index(room) + 1))
                left += 28
            out.append(f'<text x="{left}" y="{y + 22}" font-weight="bold" fill="#000000">{room}</text>')
            right = x + width - 12
            out.append(f'<text x="{right}" y="{y + 22}" text-anchor="end" fill="#333333">{_WORDS[room]}</text>')
    y = height - _LEGEND
    out += [
        f'<text x="{_GAP}" y="{y + 14}" fill="#333333">↓ imports</text>',
        _circle(_MARGIN + 70, y + 9, 1),
        f'<text x="{_MARGIN + 88}" y="{y + 14}" fill="#333333">to</text>',
        _circle(_MARGIN + 120, y + 9, len(_PATH)),
        f'<text x="{_MARGIN + 138}" y="{y + 14}" fill="#333333">a kernel from bytes to a cubin</text>',
        f'<rect x="{_MARGIN + 370}" y="{y}" width="18" height="18" rx="4" fill="#d7f0dc" stroke="#666666"/>',
        f'<text x="{_MARGIN + 396}" y="{y + 14}" fill="#333333">runs it with no GPU</text>',
    ]
    return "\n".join([*out, "</svg>"]) + "\n"


def prepare(folder: Path, text: str) -> None:
    """The files that the page's commands read."""
    for name, body in re.findall(r"```mlir\n// (\S+)\n(.*?)```", text, re.DOTALL):
        (folder / name).write_text(body)


def test_every_command_prints_what_the_page_shows(tmp_path):
    text = PAGE.read_text(encoding="utf-8")
    prepare(tmp_path, text)
    blocks = CONSOLE.findall(text)
    assert len(blocks) >= 5
    for block in blocks:
        assert transcript(block, tmp_path) == block, f"docs/architecture.md {STALE}"


def test_every_room_has_a_sentence():
    described = re.findall(r"^\| `(\w+)/?` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    rooms = {room for row in LAYERS for room in row}
    assert set(described) == rooms, "the table of docs/architecture.md has a row for each room"
    assert all((ROOT / room).is_dir() or (ROOT / "libtile" / room).exists() or room == "api" for room in rooms)


def test_the_drawing_has_words_for_each_room():
    assert set(_WORDS) == {room for row in LAYERS for room in row}
    assert {*_PATH, *_PROOF} <= set(_WORDS)


def test_the_drawing_shows_the_rooms_in_their_order():
    assert DRAWING.read_text(encoding="utf-8") == drawing(), f"docs/architecture.svg {STALE}"


if __name__ == "__main__":
    DRAWING.write_text(drawing(), encoding="utf-8")
    refresh(PAGE, prepare)
