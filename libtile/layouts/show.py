# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Pictures of layouts, as SVG and on a terminal."""

from __future__ import annotations

import colorsys
from html import escape
from math import prod
from typing import TYPE_CHECKING

from libtile.layouts.dims import LANE, OFFSET, REGISTER, WARP

if TYPE_CHECKING:
    from libtile.layouts.linear import LinearLayout

# Twelve hues far apart, light enough for black text (a colour stands for a lane or a bank).
_HUES = (0, 210, 120, 45, 280, 170, 330, 80, 240, 20, 150, 300)
MAX_CELLS = 64 * 1024


def fits(layout: LinearLayout) -> bool:
    """Whether a layout has a picture: none of more than MAX_CELLS elements has."""
    return prod(layout.shape) <= MAX_CELLS


def _grid(layout: LinearLayout) -> tuple[int, int]:
    """Rows and columns of the picture: all dimensions but the last are stacked."""
    shape = layout.shape
    columns = shape[-1] if shape else 1
    rows = 1
    for size in shape[:-1]:
        rows *= size
    if not fits(layout):
        raise ValueError(f"a picture of {rows} x {columns} cells is too large (at most {MAX_CELLS})")
    return rows, columns


def _label(place: dict[str, int], copies: int, several_warps: bool) -> str:
    if OFFSET in place:
        return str(place[OFFSET])
    warp = f"w{place[WARP]} " if several_warps else ""
    return f"{warp}t{place.get(LANE, 0)}:{place.get(REGISTER, 0)}" + ("*" if copies > 1 else "")


def cells(layout: LinearLayout) -> list[list[tuple[str, int, int]]]:
    """Rows of (label, colour key, copies) for every element of the tile."""
    rows, columns = _grid(layout)
    grid: list[list[tuple[str, int, int]]] = [[("", -1, 0)] * columns for _ in range(rows)]
    for index, places in layout.places().items():
        row = 0
        for value, size in zip(index[:-1], layout.shape[:-1]):
            row = row * size + value
        place = places[0]
        key = place[OFFSET] if OFFSET in place else place.get(LANE, 0) + 32 * place.get(WARP, 0)
        grid[row][index[-1]] = (_label(place, len(places), layout.in_size(WARP) > 1), key, len(places))
    return grid


def _color(key: int, is_offset: bool) -> str:
    if key < 0:
        return "#ffffff"
    hue = _HUES[key % len(_HUES)] if not is_offset else (key * 360 // 32) % 360
    lightness = 0.84 - 0.12 * (key // len(_HUES) % 2) if not is_offset else 0.8
    red, green, blue = colorsys.hls_to_rgb(hue / 360, lightness, 0.65)
    return f"#{round(red * 255):02x}{round(green * 255):02x}{round(blue * 255):02x}"


def svg(layout: LinearLayout, title: str = "") -> str:
    """The layout as an SVG document: one cell an element, labelled with what holds it, coloured by thread (or bank).

    ValueError for a tile of more than 64 Ki elements.
    """
    grid = cells(layout)
    is_offset = OFFSET in layout.in_dims
    longest = max(len(label) for row in grid for label, _, _ in row)
    width, height, left, top = max(26, 7 * longest + 8), 20, 44, 46
    columns, rows = len(grid[0]), len(grid)
    total_w, total_h = left + columns * width + 10, top + rows * height + 10
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{total_w}" height="{total_h}" '
        f'font-family="monospace" font-size="11">',
        f'<rect width="{total_w}" height="{total_h}" fill="white"/>',
        f'<text x="{left}" y="16" font-size="13">{escape(title)}</text>',
    ]
    for c in range(columns):
        out.append(
            f'<text x="{left + c * width + width / 2}" y="{top - 6}" text-anchor="middle" fill="#666">{c}</text>'
        )
    for r, row in enumerate(grid):
        y = top + r * height
        out.append(f'<text x="{left - 6}" y="{y + 14}" text-anchor="end" fill="#666">{r}</text>')
        for c, (label, key, _) in enumerate(row):
            x = left + c * width
            color = _color(key % 32 if is_offset else key, is_offset)
            out.append(f'<rect x="{x}" y="{y}" width="{width}" height="{height}" fill="{color}" stroke="#888"/>')
            out.append(f'<text x="{x + width / 2}" y="{y + 14}" text-anchor="middle">{escape(label)}</text>')
    out.append("</svg>")
    return "\n".join(out) + "\n"


def terminal(layout: LinearLayout, color: bool = False) -> str:
    """The layout as lines of text, coloured by thread with 256-colour escapes when `color` is set."""
    grid = cells(layout)
    width = max(len(label) for row in grid for label, _, _ in row)
    lines = []
    for row in grid:
        parts = []
        for label, key, _ in row:
            text = label.rjust(width)
            parts.append(f"\x1b[48;5;{17 + (key * 7) % 200}m{text}\x1b[0m" if color and key >= 0 else text)
        lines.append(" ".join(parts))
    return "\n".join(lines) + "\n"
