"""Validation of table definitions. Every change of a definition passes `check_sound`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Protocol

import pyarrow as pa

from lakeport.errors import InvalidFilterError, UnknownColumnError
from lakeport.kernel.actions import Metadata
from lakeport.kernel.definition.constraints import TableExpression, expressions_in
from lakeport.kernel.definition.properties import (
    COLUMN_MAPPING_MODE,
    ENABLE_CHANGE_DATA_FEED,
    ENABLE_ROW_TRACKING,
    ROW_TRACKING_SUSPENDED,
    Configuration,
)
from lakeport.kernel.schema import (
    CHANGE_COLUMNS,
    ROW_COMMIT_VERSION,
    ROW_ID,
    ROW_POSITION,
    PrimitiveType,
    StructType,
    arrow_type,
    find_twice_mapped,
    format_type,
    logical_path,
    types_in,
)

_NOT_IN_NAMES = frozenset(" ,;{}()\n\t=")
_NOT_FOR_PARTITIONS = ("variant", "void")
_WITH_BOUNDS = frozenset(
    {"byte", "short", "integer", "long", "float", "double", "date", "timestamp", "timestamp_ntz", "string"}
)
_MOST_CLUSTERING_COLUMNS = 4
"""Delta's own writer refuses more."""
_Problems = Iterator[str]
_Path = tuple[str, ...]
_Types = tuple[pa.DataType | None, pa.DataType | None]
"""Before and after."""


class Definition(Protocol):
    """The parts of a definition that are checked."""

    @property
    def schema(self) -> StructType: ...

    @property
    def metadata(self) -> Metadata: ...

    @property
    def clustering_columns(self) -> tuple[_Path, ...]: ...


def check_sound(definition: Definition, known: Definition | None) -> None:
    """Raises `ValueError` for an invalid definition.

    Problems already in `known`, a version of the table, are tolerated, so that another writer's table can still be
    changed in other respects."""
    problems = [*_problems(definition)]
    if problems and known is not None:
        had = set(_problems(known))
        problems = [problem for problem in problems if problem not in had]
    for problem in (*problems, *_problems_of_expressions(definition, known)):
        raise ValueError(problem)


def _problems(definition: Definition) -> _Problems:
    schema, metadata = definition.schema, definition.metadata
    mode = COLUMN_MAPPING_MODE.of(metadata.configuration)
    yield from _problems_of_names(schema, mode)
    yield from _problems_of_partitions(schema, metadata.partition_columns)
    if mode != "none":
        yield from (f"{problem}: leave it out of new columns" for problem in find_twice_mapped(schema))
    yield from _problems_of_clustering(definition, mode)
    yield from _reserved_names(schema, metadata.configuration)
    if ENABLE_ROW_TRACKING.of(metadata.configuration) and ROW_TRACKING_SUSPENDED.of(metadata.configuration):
        yield "delta.enableRowTracking and delta.rowTrackingSuspended cannot both be true: rows either have ids or not"


def _problems_of_names(schema: StructType, mapping_mode: str) -> _Problems:
    for struct in types_in(schema):
        seen: dict[str, str] = {}
        for name in struct.names if isinstance(struct, StructType) else ():
            if not name:
                yield "a column has no name"
            if name.lower() in seen:
                yield f"two columns are called {seen[name.lower()]!r} and {name!r}: rename one of them"
            seen[name.lower()] = name
            if mapping_mode == "none" and not _NOT_IN_NAMES.isdisjoint(name):
                yield (
                    f"the column name {name!r} has one of the characters ' ,;{{}}()=', a tab or a new line: rename it, "
                    "or set delta.columnMapping.mode to name"
                )


def _problems_of_partitions(schema: StructType, columns: tuple[str, ...]) -> _Problems:
    for name in columns:
        kind = schema.resolve((name,))[0].type
        if not isinstance(kind, PrimitiveType) or kind.name in _NOT_FOR_PARTITIONS:
            yield f"the column {name!r} cannot be a partition column: it is nested, a variant or void"
    for name in sorted(name for name, times in Counter(columns).items() if times > 1):
        yield f"the partition column {name!r} is named twice"
    if len(columns) == len(schema.fields):
        yield "all columns are partition columns: a table needs at least one other"


def _problems_of_clustering(definition: Definition, mapping_mode: str) -> _Problems:
    if definition.clustering_columns and definition.metadata.partition_columns:
        yield "a table is either partitioned or clustered, not both: leave one of them out"
    found = [logical_path(definition.schema, path, mapping_mode) for path in definition.clustering_columns]
    if None in found:
        yield "the table is clustered by a column that it would no longer have: keep the column, with its type"
    yield from problems_of_ordering(definition.schema, [path for path in found if path is not None])
    if len(found) > _MOST_CLUSTERING_COLUMNS:
        yield f"a table can be clustered by at most {_MOST_CLUSTERING_COLUMNS} columns, not by {len(found)}"


def problems_of_ordering(schema: StructType, columns: Sequence[_Path]) -> _Problems:
    """Why rows cannot be ordered by these columns so that filters skip files."""
    for path in columns:
        kind = schema.resolve(path)[-1].type
        if not isinstance(kind, PrimitiveType) or (kind.name not in _WITH_BOUNDS and kind.decimal is None):
            name = format_type(kind)
            yield f"rows cannot be clustered by {'.'.join(path)!r}: files have no bounds of a column of type {name}"
    for path, times in Counter(columns).items():
        if times > 1:
            yield f"the column {'.'.join(path)!r} is named twice"


def _reserved_names(schema: StructType, configuration: Configuration) -> _Problems:
    keepers = {ROW_POSITION.name: "Lakeport's row positions"}
    if ENABLE_CHANGE_DATA_FEED.of(configuration):
        keepers |= dict.fromkeys(CHANGE_COLUMNS.names, "the change data feed (delta.enableChangeDataFeed)")
    if ENABLE_ROW_TRACKING.of(configuration):
        keepers |= dict.fromkeys((ROW_ID.name, ROW_COMMIT_VERSION.name), "row tracking (delta.enableRowTracking)")
    for name in schema.names:
        if keeper := keepers.get(name.lower()):
            yield f"a column cannot be called {name!r}: the name is reserved for {keeper}; rename it"


def _problems_of_expressions(definition: Definition, known: Definition | None) -> _Problems:
    """Problems of SQL that is new or whose columns change; the rest may be beyond this kernel's SQL."""
    schema = definition.schema
    expressions = expressions_in(definition.metadata.configuration, schema)
    had = expressions_in(known.metadata.configuration, known.schema) if expressions and known is not None else []
    for expression in expressions:
        if known is None or expression not in had:
            yield from _problems_of_new(expression, expressions, schema)
            yield from _problems_of_binding(expression, schema)
        elif changed := _changed_columns(expression, known.schema, schema):
            if expression.type is not None:
                yield from _problems_of_retyping(expression, changed)
            yield from _problems_of_binding(expression, schema)


def _problems_of_new(expression: TableExpression, others: list[TableExpression], schema: StructType) -> _Problems:
    if expression.type is None:
        if expression.is_repeated:
            yield f"{expression.name} is in a list or a map: only columns and fields of structs can have one"
        return
    if len(expression.owner) > 1:
        yield f"{expression.name} is nested: only top-level columns can be generated"
    used = {path[0].lower() for path in expression.columns(schema)}
    for other in others:
        if other.type is not None and other.owner[0].lower() in used:
            yield f"{expression.name} ({expression.sql}) uses {other.name}: use that one's columns instead"


def _problems_of_retyping(expression: TableExpression, changed: dict[_Path, _Types]) -> _Problems:
    for path, types in changed.items():
        if None not in types and not any(isinstance(t, pa.StructType) for t in types):
            yield (
                f"the type of the column {'.'.join(path)!r} cannot be changed: {expression.name} uses it; "
                "drop that first"
            )


def _problems_of_binding(expression: TableExpression, schema: StructType) -> _Problems:
    try:
        expression.check(schema)
    except (InvalidFilterError, UnknownColumnError) as error:
        yield (
            f"{expression.name} ({expression.sql}) does not fit the columns of the table: {error}; correct it, or drop "
            "it first"
        )


def _changed_columns(expression: TableExpression, before: StructType, after: StructType) -> dict[_Path, _Types]:
    """The columns in an expression that changed, with their types; None where the column does not exist."""
    paths = dict.fromkeys((*expression.columns(before), *expression.columns(after)))
    types = {path: (_type_at(before, path), _type_at(after, path)) for path in paths}
    return {path: (old, new) for path, (old, new) in types.items() if old != new}


def _type_at(schema: StructType, path: _Path) -> pa.DataType | None:
    try:
        return arrow_type(schema.resolve(path)[-1].type)
    except UnknownColumnError:
        return None
