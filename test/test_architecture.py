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

_WIDTH, _ROW, _GAP, _BOX = 1000, 46, 14, 34
_PATH = {
    "bytecode": "bytes in and out",
    "dialects": "cuda_tile, nv_tileaa, nv_tileas",
    "asm": "text in and out",
    "lowering": " → ".join(STAGES),
    "codegen": "LLVM IR",
    "backend": "PTX, ptxas, cubin",
    "interpreter": "what it means",
    "simulator": "what its PTX does",
}
"""What a room has to do with a kernel on its way from bytes to a cubin, or to a result."""


def drawing() -> str:
    """The rooms as an SVG: a row for each layer, the lowest at the bottom; imports go down only."""
    height = len(LAYERS) * _ROW + 2 * _GAP
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" '
        'font-family="sans-serif" font-size="14">',
        "<title>The rooms of libtile: each imports rooms of lower rows only</title>",
        f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
    ]
    for number, rooms in enumerate(LAYERS):
        y = height - _GAP - (number + 1) * _ROW + (_ROW - _BOX) // 2
        width = (_WIDTH - _GAP) // len(rooms) - _GAP
        for place, room in enumerate(rooms):
            x = _GAP + place * (width + _GAP)
            fill = "#cfe3ff" if room in _PATH else "#f0f0f0"
            out.append(f'<rect x="{x}" y="{y}" width="{width}" height="{_BOX}" rx="5" fill="{fill}" stroke="#666666"/>')
            out.append(f'<text x="{x + 12}" y="{y + 22}" font-weight="bold" fill="#000000">{room}</text>')
            if room in _PATH:
                right = x + width - 12
                out.append(f'<text x="{right}" y="{y + 22}" text-anchor="end" fill="#333333">{_PATH[room]}</text>')
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


def test_the_drawing_shows_the_rooms_in_their_order():
    assert DRAWING.read_text(encoding="utf-8") == drawing(), f"docs/architecture.svg {STALE}"


if __name__ == "__main__":
    DRAWING.write_text(drawing(), encoding="utf-8")
    refresh(PAGE, prepare)
