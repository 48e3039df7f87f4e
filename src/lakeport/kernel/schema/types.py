"""Delta's types and schemas, name lookup, and type widening."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from lakeport.errors import UnknownColumnError
from lakeport.kernel.schema.keys import COLUMN_ID, PHYSICAL_NAME
from lakeport.kernel.schema.names import parse_path

DECIMAL = re.compile(r"decimal\(\s*(\d+)\s*,\s*(-?\d+)\s*\)")


@dataclass(frozen=True, slots=True)
class PrimitiveType:
    """A type without children, by its protocol name: `long`, `string`, `decimal(10,2)`, `variant` …"""

    name: str

    @property
    def decimal(self) -> tuple[int, int] | None:
        """(precision, scale) of a decimal; None for any other type."""
        match = DECIMAL.fullmatch(self.name)
        return (int(match[1]), int(match[2])) if match else None


@dataclass(frozen=True, slots=True)
class ArrayType:
    element: DataType
    contains_null: bool = True


@dataclass(frozen=True, slots=True)
class MapType:
    key: DataType
    value: DataType
    value_contains_null: bool = True


@dataclass(frozen=True, slots=True)
class StructField:
    name: str
    type: DataType
    nullable: bool = True
    metadata: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def physical_name(self, mapping_mode: str) -> str:
        """The name in data files, partition values and statistics, by column mapping mode (`none`, `name`, `id`)."""
        mapped: str | None = self.metadata.get(PHYSICAL_NAME)
        return mapped if mapped and mapping_mode != "none" else self.name

    @property
    def field_id(self) -> int | None:
        return self.metadata.get(COLUMN_ID)


@dataclass(frozen=True)
class StructType:
    fields: tuple[StructField, ...]

    def __reduce__(self) -> tuple[Any, ...]:
        return StructType, (self.fields,)

    def __iter__(self) -> Iterator[StructField]:
        return iter(self.fields)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f.name for f in self.fields)

    def find(self, name: str) -> StructField | None:
        """The field with this name; Delta's column names are case-insensitive."""
        exact = self._by_name.get(name)
        return self._by_lowered_name.get(name.lower()) if exact is None else exact

    @cached_property
    def _by_name(self) -> dict[str, StructField]:
        return {f.name: f for f in reversed(self.fields)}  # the first of several stays

    @cached_property
    def _by_lowered_name(self) -> dict[str, StructField]:
        return {f.name.lower(): f for f in reversed(self.fields)}

    def resolve(self, path: tuple[str, ...]) -> tuple[StructField, ...]:
        """The fields along the path to a (nested) column. Raises `UnknownColumnError`."""
        found: list[StructField] = []
        struct: DataType = self
        for depth, name in enumerate(path):
            match = struct.find(name) if isinstance(struct, StructType) else None
            if match is None:
                known = ", ".join(struct.names) if isinstance(struct, StructType) else "no fields"
                where = f" in {'.'.join(path[:depth])}" if depth else ""
                raise UnknownColumnError(
                    f"unknown column {'.'.join(path)!r}: there is no {name!r}{where}; it has {known}",
                    column=".".join(path),
                )
            found.append(match)
            struct = match.type
        return tuple(found)

    def path_of(self, column: str) -> tuple[str, ...]:
        """Resolve a user's column name: a column with exactly this name, or dots that lead into structs.

        Raises `ValueError` if it is not text."""
        if not isinstance(column, str):
            raise ValueError(f"a column name must be text, not {column!r}")
        return (column,) if self.find(column) else parse_path(column)

    def select(self, paths: Iterable[tuple[str, ...]]) -> StructType:
        """Project the schema to some columns, in the order of first mention; ("a", "b") keeps one field of a struct.
        Raises `UnknownColumnError`."""
        wanted: dict[str, list[tuple[str, ...]] | None] = {}
        for path in paths:
            name = self.resolve(path)[0].name
            inner = wanted.get(name, [])
            wanted[name] = None if len(path) == 1 or inner is None else [*inner, path[1:]]
        return StructType(tuple(_cut(self.resolve((name,))[0], inner) for name, inner in wanted.items()))


DataType = PrimitiveType | ArrayType | MapType | StructType

VOID = PrimitiveType("void")
_WIDER_INTEGERS = {"byte": 0, "short": 1, "integer": 2, "long": 3}


def _cut(whole: StructField, inner: list[tuple[str, ...]] | None) -> StructField:
    if inner is None or not isinstance(whole.type, StructType):
        return whole
    return replace(whole, type=whole.type.select(inner))


def widens(before: str, after: str) -> bool:
    """Whether type widening allows this change of a primitive type."""
    if before == after:
        return True
    if before in _WIDER_INTEGERS and after in _WIDER_INTEGERS:
        return _WIDER_INTEGERS[before] < _WIDER_INTEGERS[after]
    if after == "double":
        return before in ("float", "byte", "short", "integer")
    if after == "timestamp_ntz":
        return before == "date"
    if target := PrimitiveType(after).decimal:
        integers = {"byte": (10, 0), "short": (10, 0), "integer": (10, 0), "long": (20, 0)}
        source = integers.get(before) or PrimitiveType(before).decimal
        return source is not None and target[0] - source[0] >= target[1] - source[1] >= 0
    return False
