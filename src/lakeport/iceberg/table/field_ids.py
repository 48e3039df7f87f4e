"""Field ids by the names that columns have in data files: Iceberg's name mapping, which is also the memory of the ids.

A file without field ids is read by this mapping, whatever snapshot it is in. So an id, once given to a name, stays with
it for as long as the mirror lives, also after the column is gone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

NAME_MAPPING = "schema.name-mapping.default"
"""The table property that holds it."""

FIRST_NESTED_ID = 1_000_001
"""Delta has ids for the fields of structs only, and goes on counting them. Elements of lists, keys and values of maps
get ids that it never comes to."""

Path = tuple[str, ...]
"""Physical names on the way to a field; `element`, `key` and `value` lead into lists and maps."""


@dataclass(frozen=True)
class FieldIds:
    """Ids by paths, all that were ever given."""

    by_path: Mapping[Path, int] = field(default_factory=dict)

    @property
    def last(self) -> int:
        return max(self.by_path.values(), default=0)

    def next_named(self) -> int:
        return max((n for n in self.by_path.values() if n < FIRST_NESTED_ID), default=0) + 1

    def next_nested(self) -> int:
        return max((n for n in self.by_path.values() if n >= FIRST_NESTED_ID), default=FIRST_NESTED_ID - 1) + 1


def parse_name_mapping(text: str | None) -> FieldIds:
    """The ids in a name mapping. Raises `ValueError` for text that is none."""
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
    """The JSON of the mapping."""
    top: dict[str, Any] = {}
    items: dict[Path, dict[str, Any]] = {(): top}
    for path, number in sorted(ids.by_path.items(), key=lambda item: (len(item[0]), item[1])):
        item: dict[str, Any] = {"field-id": number, "names": [path[-1]]}
        items[path[:-1]].setdefault("fields", []).append(item)
        items[path] = item
    return msgspec.json.encode(top.get("fields", [])).decode()
