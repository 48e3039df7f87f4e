"""Line charts with logarithmic axes, as SVG."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 460, 330
LEFT, RIGHT, TOP, BOTTOM = 64, 32, 40, 52
LEGEND = 34
_STYLE = """text { font: 12px sans-serif; fill: #222; }
.title { font-weight: bold; font-size: 14px; } .axis { fill: #555; }
.grid { stroke: #ddd; } .frame { fill: none; stroke: #888; } .line { fill: none; stroke-width: 2; }"""


@dataclass(frozen=True)
class Line:
    """Lines with the same label look the same in every panel."""

    label: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Panel:
    title: str
    x_title: str
    y_title: str
    lines: Sequence[Line]


@dataclass(frozen=True)
class Look:
    colour: str
    dashed: bool = False

    def attributes(self) -> str:
        return f'stroke="{self.colour}"' + (' stroke-dasharray="5 4"' if self.dashed else "")


@dataclass(frozen=True)
class _Axis:
    """Places values between two pixels, whole powers of ten at both ends."""

    low: int
    high: int
    start: float
    end: float

    @classmethod
    def over(cls, values: Sequence[float], start: float, end: float) -> _Axis:
        low, high = math.floor(math.log10(min(values)) + 1e-9), math.ceil(math.log10(max(values)) - 1e-9)
        return cls(low, max(high, low + 1), start, end)

    def place(self, value: float) -> float:
        share = (math.log10(value) - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)

    def ticks(self) -> list[float]:
        return [10.0**power for power in range(self.low, self.high + 1)]


def draw(panels: Sequence[Panel], looks: dict[str, Look], columns: int = 2) -> str:
    """The panels in rows, under one legend."""
    rows = -(-len(panels) // columns)
    width, height = columns * WIDTH, LEGEND + rows * HEIGHT
    body = [_legend(looks)]
    for number, panel in enumerate(panels):
        x, y = number % columns * WIDTH, LEGEND + number // columns * HEIGHT
        body.append(f'<g transform="translate({x} {y})">\n{_panel(panel, looks)}\n</g>')
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">'
    return "\n".join(
        [head, f"<style>{_STYLE}</style>", '<rect width="100%" height="100%" fill="white"/>', *body, "</svg>\n"]
    )


def _legend(looks: dict[str, Look]) -> str:
    parts, x = [], LEFT
    for label, look in looks.items():
        parts.append(f'<path class="line" d="M{x} 20h28" {look.attributes()}/>{_text(label, x + 34, 24)}')
        x += 34 + 7 * len(label) + 24
    return "\n".join(parts)


def _panel(panel: Panel, looks: dict[str, Look]) -> str:
    points = [point for line in panel.lines for point in line.points]
    across = _Axis.over([x for x, _ in points], LEFT, WIDTH - RIGHT)
    up = _Axis.over([y for _, y in points], HEIGHT - BOTTOM, TOP)
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts = [
        _text(panel.title, LEFT, TOP - 12, "title"),
        *(_tick_across(across, tick) for tick in across.ticks()),
        *(_tick_up(up, tick) for tick in up.ticks()),
        _text(panel.x_title, middle, HEIGHT - 14, "axis", "middle"),
        f'<g transform="translate(14 {(TOP + HEIGHT - BOTTOM) / 2}) rotate(-90)">'
        f"{_text(panel.y_title, 0, 0, 'axis', 'middle')}</g>",
        f'<rect class="frame" x="{LEFT}" y="{TOP}" width="{WIDTH - RIGHT - LEFT}" height="{HEIGHT - BOTTOM - TOP}"/>',
        *(_line(line, across, up, looks[line.label]) for line in panel.lines),
    ]
    return "\n".join(parts)


def _tick_across(axis: _Axis, value: float) -> str:
    x = axis.place(value)
    grid = f'<path class="grid" d="M{x:.1f} {TOP}V{HEIGHT - BOTTOM}"/>'
    return grid + _text(number(value), x, HEIGHT - BOTTOM + 16, "axis", "middle")


def _tick_up(axis: _Axis, value: float) -> str:
    y = axis.place(value)
    grid = f'<path class="grid" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>'
    return grid + _text(number(value), LEFT - 6, y + 4, "axis", "end")


def _line(line: Line, across: _Axis, up: _Axis, look: Look) -> str:
    places = [(across.place(x), up.place(y)) for x, y in line.points]
    path = "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
    dots = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{look.colour}"/>' for x, y in places)
    return f'<path class="line" d="M{path}" {look.attributes()}/>{dots}'


def _text(text: str, x: float, y: float, kind: str = "", anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}">{escape(text)}</text>'


def number(value: float) -> str:
    """1,000 and 0.01, but 10 million as 10M."""
    if value >= 1_000_000:
        return f"{value / 1_000_000:g}M"
    return f"{value:,.0f}" if value >= 1 else f"{value:g}"
