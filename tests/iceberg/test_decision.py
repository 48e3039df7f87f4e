"""What a conversion decides to do, case by case, from values: nothing is read or written."""

from dataclasses import replace
from typing import Any

import pytest

from lakeport.errors import ConversionError
from lakeport.iceberg.decision import DeltaState, Plan, Wanted, decide
from lakeport.iceberg.targets.target import Published

ROOT = "/tables/orders"
TABLE = DeltaState(ROOT, "a", 7)


def mirror(
    version: int = 5, *, shows: int | None = None, format_version: int = 2, table_id: str = "a", location: str = ROOT
) -> Published:
    """A mirror that claims a version; its current snapshot shows the same one, or `shows`."""
    claimed = {"version": str(version), "table-id": table_id, "location": location}
    metadata: dict[str, Any] = {
        "format-version": format_version,
        "properties": {f"lakeport.delta.{name}": text for name, text in claimed.items()},
        "snapshots": [
            {"snapshot-id": 1, "summary": {"lakeport.delta.version": str(version if shows is None else shows)}}
        ],
        "current-snapshot-id": 1,
    }
    return Published(metadata, "/mirror/v1.metadata.json")


MOVED = mirror(location="/tables/formerly")
REPLACED = mirror(table_id="b")
"""The mirror of a table with another id: it was replaced within its log, or another table took its place."""


@pytest.mark.parametrize(
    ("base", "table", "wanted", "plan"),
    [
        # No mirror yet
        (None, TABLE, Wanted(), Plan(2, whole=7, is_new=True)),
        (None, TABLE, Wanted(format_version=3), Plan(3, whole=7, is_new=True)),
        (None, TABLE, Wanted(full=True), Plan(2, whole=7, is_new=True)),
        (None, TABLE, Wanted(since=4), Plan(2, whole=4, after=4, is_new=True)),
        (None, TABLE, Wanted(since=4, squash=True), Plan(2, whole=4, after=4, squash=True, is_new=True)),
        (None, TABLE, Wanted(since=7), Plan(2, whole=7, is_new=True)),
        # A mirror to follow the table
        (mirror(7), TABLE, Wanted(), Plan(2)),
        (mirror(7), TABLE, Wanted(format_version=3), Plan(3)),
        (mirror(5), TABLE, Wanted(), Plan(2, after=5)),
        (mirror(5), TABLE, Wanted(squash=True), Plan(2, after=5, squash=True)),
        (mirror(5), TABLE, Wanted(since=2), Plan(2, after=5)),
        (mirror(5), TABLE, Wanted(format_version=3), Plan(3, after=5)),
        (mirror(5, format_version=3), TABLE, Wanted(), Plan(3, after=5)),
        # The same mirror, rebuilt in one snapshot
        (mirror(5), TABLE, Wanted(full=True), Plan(2, whole=7)),
        (mirror(7), TABLE, Wanted(full=True), Plan(2, whole=7)),
        (mirror(9), TABLE, Wanted(), Plan(2, whole=7)),
        (mirror(5, shows=3), TABLE, Wanted(), Plan(2, whole=7)),
        (mirror(7, shows=3), TABLE, Wanted(), Plan(2, whole=7)),
        (mirror(5), replace(TABLE, is_followed=False), Wanted(), Plan(2, whole=7)),
        (mirror(7), replace(TABLE, is_followed=False), Wanted(squash=True), Plan(2, whole=7)),
        # A mirror that discards its history
        (MOVED, TABLE, Wanted(), Plan(2, whole=7, is_new=True)),
        (MOVED, TABLE, Wanted(format_version=3, since=6), Plan(3, whole=6, after=6, is_new=True)),
        (REPLACED, replace(TABLE, mirrored_id="c"), Wanted(), Plan(2, whole=7, is_new=True)),
        (REPLACED, replace(TABLE, version=4), Wanted(), Plan(2, whole=4, is_new=True)),
        (mirror(5), replace(TABLE, has_new_column_ids=True), Wanted(), Plan(2, whole=7, is_new=True)),
        (None, replace(TABLE, has_new_column_ids=True), Wanted(since=4), Plan(2, whole=7, is_new=True)),
        # A table replaced within its log
        (REPLACED, replace(TABLE, mirrored_id="b"), Wanted(), Plan(2, after=5)),
        (REPLACED, TABLE, Wanted(), Plan(2, after=5)),
    ],
)
def test_plans(base: Published | None, table: DeltaState, wanted: Wanted, plan: Plan) -> None:
    assert decide(base, table, wanted) == plan


@pytest.mark.parametrize(
    ("base", "wanted", "reason"),
    [
        (Published({"format-version": 2}, "v1"), Wanted(), "no mirror"),
        (Published({"format-version": 2, "properties": {"owner": "finance"}}, "v1"), Wanted(full=True), "no mirror"),
        (mirror(table_id="b", location="/tables/other"), Wanted(), "another table"),
        (mirror(5, format_version=3), Wanted(format_version=2), "format version"),
        (mirror(7, format_version=3), Wanted(format_version=2), "format version"),
    ],
)
def test_refusals(base: Published, wanted: Wanted, reason: str) -> None:
    with pytest.raises(ConversionError) as refusal:
        decide(base, TABLE, wanted)
    assert refusal.value.reason == reason


@pytest.mark.parametrize(
    ("plan", "kind"),
    [(Plan(2), "none"), (Plan(2, after=5), "incremental"), (Plan(2, whole=7), "full"), (Plan(2, 4, 4), "full")],
)
def test_kinds(plan: Plan, kind: str) -> None:
    assert plan.kind == kind
