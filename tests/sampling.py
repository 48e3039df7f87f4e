"""Which cases a quick run (``pytest --sample``, ``make test``) takes; ``make test-all`` takes all of them.

A family is one test with one way of reading, run over many real tables. Of a family the sample keeps tables that
together have every feature that any of its tables has, so that each feature is read in each way. Of a test marked
``each_value`` it keeps cases that together have every value of every parameter. Cases marked ``exhaustive`` are left to
``make test-all``; the mark names what a quick run has instead. Nothing is random: equal tests give equal samples.
"""

from __future__ import annotations

import zlib
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

Case = pytest.Item
Features = frozenset[Hashable]
HEAVY_ROWS = 10_000
"""Tables with more rows are taken only for what no other table has."""
LIST = Path(__file__).resolve().parent.parent / "build" / "left-out.txt"
"""What the last quick run left out, case by case."""


class Sample:
    """A pytest plugin that leaves cases out and lists them at the end; xdist's workers report to the controller."""

    def __init__(self) -> None:
        self.left_out: list[str] = []

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[Case]) -> None:
        items[:], left_out = sampled(items)
        config.hook.pytest_deselected(items=left_out)
        self.left_out = [item.nodeid for item in left_out]

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if hasattr(session.config, "workeroutput"):
            session.config.workeroutput["left_out"] = self.left_out

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        self.left_out = getattr(node, "workeroutput", {}).get("left_out", self.left_out)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self.left_out:
            return
        LIST.parent.mkdir(exist_ok=True)
        LIST.write_text("\n".join(self.left_out) + "\n", encoding="utf-8")
        rooms = Counter(name.partition("::")[0].rpartition("/")[0] for name in self.left_out)
        terminalreporter.section("left to make test-all")
        terminalreporter.line(
            f"{len(self.left_out)} cases: {', '.join(f'{room} {count}' for room, count in rooms.most_common())}"
        )
        terminalreporter.line(f"They are listed in {LIST.relative_to(LIST.parent.parent)}.")


def sampled(items: list[Case]) -> tuple[list[Case], list[Case]]:
    """The cases that a quick run takes, and those that it leaves out, both in their order."""
    left_out: set[str] = set()
    for family in _families(items).values():
        kept = _cover({case.nodeid: features for case, features in family})
        left_out |= {case.nodeid for case, _ in family} - kept
    left_out |= {item.nodeid for item in items if item.get_closest_marker("exhaustive")}
    return [i for i in items if i.nodeid not in left_out], [i for i in items if i.nodeid in left_out]


def _families(items: Iterable[Case]) -> dict[Hashable, list[tuple[Case, Features]]]:
    families: dict[Hashable, list[tuple[Case, Features]]] = defaultdict(list)
    for item in items:
        callspec = getattr(item, "callspec", None)
        if callspec is None:
            continue
        params: dict[str, Any] = callspec.params
        test = item.nodeid.partition("[")[0]
        if (features := _features_of(params.get("name"), test)) is not None:
            way = {key: repr(value) for key, value in params.items() if key not in ("name", "case")}
            families[test, tuple(sorted(way.items()))].append((item, features))
        elif item.get_closest_marker("each_value"):
            families[test].append((item, frozenset((key, repr(value)) for key, value in params.items())))
    return families


def _features_of(name: object, test: str) -> Features | None:
    """The features of a real table; None if it is none. Odd shapes are of the log, which every way reads alike: each is
    a feature where reading is cheapest, all are one elsewhere."""
    from tests.acceptance.real_tables import BY_NAME  # reads the manifests

    if not isinstance(name, str) or name not in BY_NAME:
        return None
    entry = BY_NAME[name]
    heavy = entry["expected"].get("rows", 0) > HEAVY_ROWS
    tags = (
        entry["tags"]
        if test.startswith("tests/acceptance/")
        else ["odd" if tag.startswith("odd:") else tag for tag in entry["tags"]]
    )
    features = {*tags, *(f"type:{kind}" for kind in entry.get("types", ())), entry["expected"]["kind"]}
    return frozenset(features | ({"heavy"} if heavy else set()))


def _cover(cases: Mapping[str, Features]) -> set[str]:
    """Cases that together have all features, chosen one after the other by how much they add. Ties are broken by a hash
    of the name, so that ways of reading do not all take the same tables."""
    missing = frozenset().union(*cases.values()) - {"heavy"}
    kept: set[str] = set()
    while missing:
        best = max(cases, key=lambda name: (_gain(cases[name], missing), zlib.crc32(name.encode())))
        kept.add(best)
        missing -= cases[best]
    return kept


def _gain(features: Features, missing: Features) -> float:
    return len(features & missing) / (100 if "heavy" in features else 1)
