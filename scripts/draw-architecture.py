"""Draws docs/architecture.svg: the packages, the rooms in each, and who imports whom, as tests/rooms.txt has it."""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs" / "architecture.svg"
OTHERS = {"errors", "version", "locations", "freshness", "__init__", "__main__"}
TITLES = {
    "kernel": "the Delta protocol, without I/O",
    "engine": "storage, JSON, Parquet, expressions",
    "workers": "threads or Spark's tasks",
    "source": "a table, by path or shared",
    "frame": "lazy rows and changes",
    "relations": "frames in DuckDB and Polars",
    "queries": "SQL over frames",
    "connection": "what a profile gives access to",
    "tables": "operations that write",
    "sharing": "the wire of Delta Sharing",
    "client": "shared tables, copies",
    "server": "the sharing server",
    "iceberg": "mirrors for Iceberg",
    "spark": "Spark's formats and frames",
    "cli": "the command line",
    "testing": "contracts and builders for tests",
}
WIDTH, GAP, TOP, LINE = 210, 34, 50, 15


def package_of(room: str) -> str:
    return room.partition(".")[0]


def read_packages() -> tuple[dict[str, list[str]], dict[str, set[str]]]:
    """The rooms of each package, and the packages that it imports."""
    rooms: dict[str, list[str]] = defaultdict(list)
    below: dict[str, set[str]] = defaultdict(set)
    for line in (ROOT / "tests" / "rooms.txt").read_text().splitlines():
        room, _, names = line.partition(":")
        if line.startswith("#") or package_of(room) in OTHERS:
            continue
        package, _, inner = room.partition(".")
        rooms[package] += [inner] if inner else []
        below[package] |= {package_of(name) for name in names.split()} - OTHERS - {package}
    # A frame is asked for a Spark frame, and Spark's options open frames: the one import goes to a room below.
    below["frame"].discard("spark")
    return rooms, below


def level_of(package: str, below: dict[str, set[str]]) -> int:
    return 1 + max((level_of(one, below) for one in below[package]), default=-1)


def reduced(below: dict[str, set[str]]) -> dict[str, set[str]]:
    """Without the imports that follow from others."""

    def reach(package: str) -> set[str]:
        return below[package] | {far for one in below[package] for far in reach(one)}

    return {
        package: {one for one in direct if not any(one in reach(other) for other in direct - {one})}
        for package, direct in below.items()
    }


def draw() -> str:
    rooms, below = read_packages()
    levels: dict[int, list[str]] = defaultdict(list)
    for package in sorted(rooms):
        levels[level_of(package, below)].append(package)
    heights = {package: 40 + LINE * -(-len(names) // 2) for package, names in rooms.items()}
    places: dict[str, tuple[float, float]] = {}
    y = 20.0
    widest = max(map(len, levels.values()))
    for level in sorted(levels, reverse=True):
        row = levels[level]
        start = 20 + (widest - len(row)) * (WIDTH + GAP) / 2
        for index, package in enumerate(row):
            places[package] = (start + index * (WIDTH + GAP), y)
        y += max(heights[package] for package in row) + TOP
    width, height = 40 + widest * (WIDTH + GAP) - GAP, y - TOP + 20
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" font-family="sans-serif">',
        '<rect width="100%" height="100%" fill="white"/>',
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0L8 4L0 8z" fill="#777"/></marker></defs>',
    ]
    for package, direct in sorted(reduced(below).items()):
        for other in sorted(direct):
            (x1, y1), (x2, y2) = places[package], places[other]
            start, end = y1 + heights[package], y2
            parts.append(
                f'<path d="M{x1 + WIDTH / 2:g} {start:g}C{x1 + WIDTH / 2:g} {start + 30:g} {x2 + WIDTH / 2:g} '
                f'{end - 30:g} {x2 + WIDTH / 2:g} {end:g}" fill="none" stroke="#777" marker-end="url(#tip)"/>'
            )
    for package, (x, top) in sorted(places.items()):
        parts.append(
            f'<rect x="{x:g}" y="{top:g}" width="{WIDTH}" height="{heights[package]}" rx="6" fill="#eef4fb" '
            'stroke="#4a7ab5"/>'
            f'<text x="{x + 10:g}" y="{top + 17:g}" font-size="13" font-weight="bold">{package}</text>'
            f'<text x="{x + 10:g}" y="{top + 31:g}" font-size="10" fill="#555">{TITLES[package]}</text>'
        )
        for index, room in enumerate(sorted(rooms[package])):
            left, base = x + 10 + index % 2 * 102, top + 46 + index // 2 * LINE
            parts.append(f'<text x="{left:g}" y="{base:g}" font-size="10.5">{room}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


if __name__ == "__main__":
    PICTURE.write_text(draw())
    print(f"drew {PICTURE.relative_to(ROOT)}", file=sys.stderr)
