"""The filters of upstream tests, and how many files they leave."""

from __future__ import annotations

import json
from datetime import date
from decimal import Decimal
from functools import cache
from typing import Any

from tests.acceptance.real_tables import Entry
from tests.conftest import SHARED


@cache
def skipping_cases() -> list[Entry]:
    path = SHARED / "tables" / "expected" / "_skipping_expected.json"
    return json.loads(path.read_text()) if path.is_file() else []


def case_id(case: Entry) -> str:
    return f"{case['table'].partition('--')[2]}-{_text(case['predicate'])}"


def _text(predicate: Entry | None) -> str:
    if predicate is None:
        return "everything"
    return " and ".join(f"{part['column']} {part['op']} {part.get('value', '')}" for part in comparisons(predicate))


def names_unknown_column(case: Entry) -> bool:
    return "non-existent column" in case.get("note", "")


def comparisons(predicate: Entry) -> list[Entry]:
    """The comparisons that the predicate joins by AND."""
    return predicate["args"] if predicate["op"] == "and" else [predicate]  # type: ignore[no-any-return]


def value_of(comparison: Entry) -> Any:
    """The value that the column is compared with, in Python."""
    value, kind = comparison.get("value"), comparison.get("type", "")
    if kind == "date":
        return date.fromisoformat(value)  # type: ignore[arg-type]
    return Decimal(str(value)) if kind.startswith("decimal") else value
