# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""An estimate as SVG: the kernel below the roofs of the GPU, and how long each resource takes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from html import escape
from typing import TYPE_CHECKING

from libtile.explore.quantities import duration, quantity

if TYPE_CHECKING:
    from libtile.explore.estimate import Estimate

WIDTH, HEIGHT = 720, 380
_LEFT, _RIGHT, _TOP, _BOTTOM = 84, 700, 64, 324
_ROW = 26

_STYLE = """
svg { font: 13px system-ui, sans-serif; color-scheme: light dark; --ink: #1b1f24; --faint: #8c959f; --line: #d0d7de;
  --roof: #0969da; --kernel: #bc4c00; --paper: #ffffff; }
@media (prefers-color-scheme: dark) { svg { --ink: #e6edf3; --faint: #8d96a0; --line: #3d444d; --roof: #4493f8;
  --kernel: #f0883e; --paper: #0d1117; } }
text { fill: var(--ink); } .faint { fill: var(--faint); font-size: 11px; } .paper { fill: var(--paper); }
.grid { stroke: var(--line); } .roof { stroke: var(--roof); stroke-width: 2; fill: none; } .at { fill: var(--roof); }
.kernel { fill: var(--kernel); } .drop { stroke: var(--kernel); stroke-dasharray: 3 3; }
.title { font-size: 15px; font-weight: 600; } .end { text-anchor: end; } .mid { text-anchor: middle; }
"""


class _Axes:
    """Operations a byte to the right, operations a second upwards, both by powers of ten."""

    def __init__(self, lowest: float, highest: float, bottom: float, top: float):
        self.x = (math.floor(math.log10(lowest)), math.ceil(math.log10(highest)))
        self.y = (math.floor(math.log10(bottom)), math.ceil(math.log10(top)))

    def across(self, intensity: float) -> float:
        low, high = self.x
        return _LEFT + (math.log10(intensity) - low) / (high - low) * (_RIGHT - _LEFT)

    def up(self, rate: float) -> float:
        low, high = self.y
        return _BOTTOM - (math.log10(rate) - low) / (high - low) * (_BOTTOM - _TOP)

    def grid(self) -> Iterator[str]:
        for power in range(self.x[0], self.x[1] + 1):
            x = self.across(10.0**power)
            yield f'<line class="grid" x1="{x:.1f}" y1="{_TOP}" x2="{x:.1f}" y2="{_BOTTOM}"/>'
            yield f'<text class="faint mid" x="{x:.1f}" y="{_BOTTOM + 16}">{10.0**power:g}</text>'
        for power in range(self.y[0], self.y[1] + 1):
            y = self.up(10.0**power)
            yield f'<line class="grid" x1="{_LEFT}" y1="{y:.1f}" x2="{_RIGHT}" y2="{y:.1f}"/>'
            yield f'<text class="faint end" x="{_LEFT - 6}" y="{y + 4:.1f}">{quantity(10.0**power)}op/s</text>'
        middle = (_LEFT + _RIGHT) / 2
        yield f'<text class="faint mid" x="{middle}" y="{_BOTTOM + 34}">operations a byte of device memory</text>'


def drawn(told: Estimate) -> str:
    """The picture, as text of an SVG file that has its own colours for light and dark."""
    height = HEIGHT + _ROW * len(told.resources) + 24
    seconds = told.likely_seconds
    likely = ". Nothing was measured." if seconds is None else f", likely about {duration(seconds)}."
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}">',
        f"<style>{_STYLE}</style>",
        f'<rect class="paper" width="{WIDTH}" height="{height}"/>',
        f'<text class="title" x="16" y="26">{escape(told.facts.title)} on {escape(told.machine.name)}</text>',
        f'<text class="faint" x="16" y="44">An estimate from peaks and counts: at least {duration(told.seconds)}'
        f"{likely}</text>",
        *_roofline(told),
        *_bars(told, HEIGHT),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _roofs(told: Estimate) -> dict[str, float]:
    """Operations a second of what the kernel computes with, two for each lane that can multiply and add."""
    gpu = told.machine
    roofs = {}
    least = sum(told.operations.values()) / 100
    for name in [name for name, done in told.operations.items() if done >= least] or ["fp32"]:
        if name.startswith("tensor "):
            roofs[name] = gpu.tensor[name.removeprefix("tensor ")]
        else:
            roofs[name] = 2 * {"fp32": gpu.fp32, "fp64": gpu.fp64}[name] * gpu.sms * gpu.clock
    return roofs


def _roofline(told: Estimate) -> Iterator[str]:
    roofs = _roofs(told)
    top = max(roofs.values())
    ridge = top / told.machine.bandwidth
    done = sum(told.operations.values())
    rate = done / told.seconds if told.seconds else 0.0
    shown = done > 0 and told.memory > 0
    lowest = min(0.1, told.intensity) if shown else 0.1
    highest = max(10 * ridge, 2 * told.intensity)
    bottom = min([lowest * told.machine.bandwidth, *roofs.values(), *([rate] if shown else [])])
    axes = _Axes(lowest, highest, bottom, 1.5 * top)
    yield from axes.grid()
    end = 10.0 ** axes.x[1]
    floor = max(10.0 ** axes.x[0], 10.0 ** axes.y[0] / told.machine.bandwidth)
    low = f"{axes.across(floor):.1f},{axes.up(floor * told.machine.bandwidth):.1f}"
    yield f'<polyline class="roof" points="{low} {axes.across(ridge):.1f},{axes.up(top):.1f}"/>'
    x, y = axes.across(ridge / 30), axes.up(top / 30)
    if x > _LEFT:
        angle = math.degrees(math.atan2(axes.up(top) - y, axes.across(ridge) - x))
        label = f"{quantity(told.machine.bandwidth)}B/s"
        yield f'<text class="at" transform="translate({x:.1f} {y - 6:.1f}) rotate({angle:.1f})">{label}</text>'
    for name, roof in roofs.items():
        start, y = axes.across(roof / told.machine.bandwidth), axes.up(roof)
        yield f'<polyline class="roof" points="{start:.1f},{y:.1f} {axes.across(end):.1f},{y:.1f}"/>'
        yield f'<text class="at end" x="{_RIGHT - 4}" y="{y - 6:.1f}">{escape(name)}: {quantity(roof)}op/s</text>'
    if shown:
        x, y = axes.across(told.intensity), axes.up(rate)
        yield f'<line class="drop" x1="{x:.1f}" y1="{y:.1f}" x2="{x:.1f}" y2="{_BOTTOM}"/>'
        yield f'<circle class="kernel" cx="{x:.1f}" cy="{y:.1f}" r="6"/>'
        near = ' class="end"' if x > (_LEFT + _RIGHT) / 2 else ""
        across, down = (-12, -12) if near else (12, 18)  # the slope is on the other side
        said = f"at most {quantity(rate)}op/s, {told.intensity:.3g} op/B"
        yield f'<text{near} x="{x + across:.1f}" y="{y + down:.1f}">{said}</text>'


def _bars(told: Estimate, top: float) -> Iterator[str]:
    longest = told.seconds or 1.0
    for number, resource in enumerate(told.resources):
        y = top + _ROW * number
        width = resource.seconds / longest * 240
        yield f'<text class="end" x="142" y="{y + 15}">{escape(resource.name)}</text>'
        kind = "at" if number else "kernel"
        yield f'<rect class="{kind}" x="150" y="{y + 3}" width="{max(1.0, width):.1f}" height="16" rx="2"/>'
        where = escape(f", {resource.shares[0]}") if resource.shares else ""
        said = f'{duration(resource.seconds)}<tspan class="faint">{where}</tspan>'
        yield f'<text x="{158 + width:.1f}" y="{y + 15}">{said}</text>'
