"""Field ids by physical column name: Iceberg's name mapping, which also remembers all ids.

Files without field ids are read by this mapping, in any snapshot. So a name keeps its id for the life of the mirror,
even after the column is dropped.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

NAME_MAPPING = "schema.name-mapping.default"
"""The table property that holds the mapping."""

FIRST_NESTED_ID = 1_000_001
"""Delta numbers only struct fields, and keeps counting. List elements, map keys and map values get ids that it never
reaches."""

Path = tuple[str, ...]
"""Physical names on the path to a field; `element`, `key` and `value` lead into lists and maps."""


@dataclass(frozen=True)
class FieldIds:
    """All ids ever assigned, by path."""

    by_path: Mapping[Path, int] = field(default_factory=dict)

    @property
    def last(self) -> int:
        return max(self.by_path.values(), default=0)

    def next_named(self) -> int:
        return max((n for n in self.by_path.values() if n < FIRST_NESTED_ID), default=0) + 1

    def next_nested(self) -> int:
        return max((n for n in self.by_path.values() if n >= FIRST_NESTED_ID), default=FIRST_NESTED_ID - 1) + 1


def parse_name_mapping(text: str | None) -> FieldIds:
    """The ids in a name mapping. Raises `ValueError` for invalid text."""
    by_path: dict[Path, int] = {}

    def collect(items: Any, parents: Path) -> None:
        for item in items:
            for name in item["names"]:
                by_path[(*parents, name)] = int(item["field-id"])
                collect(item.get("fields") or (), (*parents, name))

    try:
        collect(msgspec.json.decode(text) if text else (), ())
    except (msgspec.MsgspecError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{NAME_MAPPING} is no name mapping: {error!r}") from error
    return FieldIds(by_path)


def format_name_mapping(ids: FieldIds) -> str:
    """The mapping as JSON."""
    top: dict[str, Any] = {}
    items: dict[Path, dict[str, Any]] = {(): top}
    for path, number in sorted(ids.by_path.items(), key=lambda item: (len(item[0]), item[1])):
        item: dict[str, Any] = {"field-id": number, "names": [path[-1]]}
        items[path[:-1]].setdefault("fields", []).append(item)
        items[path] = item
    return msgspec.json.encode(top.get("fields", [])).decode()
