"""Change a table's columns: add, rename, drop, widen, comment. Writes only to the log; data files stay as they are.

Columns are given by name: dots lead into structs (backticks protect a dot), and `element`, `key` and `value` into lists
and maps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

import msgspec

from lakeport.kernel.definition import (
    ENABLE_TYPE_WIDENING,
    STATS_COLUMNS,
    TableDefinition,
    TableExpression,
    column_mapping_mode,
    expressions_in,
    uses_of_columns,
)
from lakeport.kernel.engine import Engine
from lakeport.kernel.schema import (
    DEFAULT,
    GENERATION_EXPRESSION,
    PrimitiveType,
    StructField,
    StructType,
    format_column_list,
    format_schema,
    logical_path,
    parse_path,
    parse_type,
    quoted,
)
from lakeport.kernel.schema import evolution as schema_changes
from lakeport.kernel.transaction import update_table
from lakeport.tables.input.schema import SchemaInput, check_default, check_sql, check_text, to_schema, to_type
from lakeport.tables.operation import Result, StorageOptions, finish, open_snapshot

_Path = tuple[str, ...]
_Change: TypeAlias = Callable[[TableDefinition], TableDefinition]


def add_columns(
    target: str,
    columns: SchemaInput,
    *,
    comments: Mapping[str, str] | None = None,
    storage_options: StorageOptions = None,
    engine: Engine | None = None,
) -> Result:
    """Add columns, which are null in existing rows: names with types, such as `{"price": "double", "address.zip":
    "string"}`, or a schema as for `create`. Raises `ValueError` if a column exists."""
    fields = {parse_path(name): field for name, field in _fields(columns).items()}
    for column, text in (comments or {}).items():
        check_text(column, "the name of a column")
        check_text(text, f"the comment on {column!r}")
    texts = {parse_path(name): text for name, text in (comments or {}).items()}
    if unknown := texts.keys() - fields.keys():
        raise ValueError(f"there is a comment on {'.'.join(min(unknown))!r}, which is not a new column")

    def change(definition: TableDefinition) -> TableDefinition:
        schema = definition.schema
        for path, field in fields.items():
            comment = {"comment": texts[path]} if path in texts else {}
            new = replace(field, name=path[-1], metadata={**field.metadata, **comment})
            schema = schema_changes.add_column(schema, new, path[:-1])
        return definition.with_schema(schema)

    described = [{"column": {"name": ".".join(path), **_described(field)}} for path, field in fields.items()]
    return _alter(target, "ADD COLUMNS", {"columns": described}, change, storage_options, engine)


def rename_column(
    target: str, column: str, name: str, *, storage_options: StorageOptions = None, engine: Engine | None = None
) -> Result:
    """Rename a column. For a nested one, `name` is the last part, or the full path with the same parents.

    Raises `ValueError` without column mapping, and if a constraint, an invariant or a generated column uses the
    column."""

    check_text(name, "the new name of a column")

    def change(definition: TableDefinition) -> TableDefinition:
        path = definition.schema.path_of(column)
        last = _new_name(path, name)
        renamed = schema_changes.rename_column(
            definition.schema, path, last, mapping_mode=_mode(definition), uses=_uses(definition)
        )
        return _with_name(definition, path, last).with_schema(renamed)

    parameters = {"oldColumnPath": column, "newColumnPath": name}
    return _alter(target, "RENAME COLUMN", parameters, change, storage_options, engine)


def drop_columns(
    target: str, columns: Iterable[str], *, storage_options: StorageOptions = None, engine: Engine | None = None
) -> Result:
    """Drop columns; their values stay in the files until those are rewritten. Raises `ValueError` without column
    mapping, and for a column that is in use."""
    names = [columns] if isinstance(columns, str) else list(columns)

    def change(definition: TableDefinition) -> TableDefinition:
        for name in names:
            path = definition.schema.path_of(name)
            rest = schema_changes.drop_column(
                definition.schema,
                path,
                mapping_mode=_mode(definition),
                partition_columns=definition.metadata.partition_columns,
                uses=_uses(definition, path) | {"the clustering of the table": _clustering(definition)},
            )
            definition = _with_name(definition, path, None).with_schema(rest)
        return definition

    return _alter(target, "DROP COLUMNS", {"columns": names}, change, storage_options, engine)


def widen_column(
    target: str, column: str, data_type: str, *, storage_options: StorageOptions = None, engine: Engine | None = None
) -> Result:
    """Widen a column's type, such as `integer` to `long`. Raises `ValueError` if the new type is not wider,
    `delta.enableTypeWidening` is off, or a generated column uses the column."""
    wider = parse_type(data_type)
    if not isinstance(wider, PrimitiveType):
        raise ValueError(f"a column cannot become {data_type}: only primitive types can be widened")

    def change(schema: StructType, path: _Path, definition: TableDefinition) -> StructType:
        enabled = ENABLE_TYPE_WIDENING.of(definition.metadata.configuration)
        return schema_changes.widen_column(schema, path, wider, enabled=enabled)

    return _change_column(target, column, change, storage_options, engine)


def drop_not_null(
    target: str, column: str, *, storage_options: StorageOptions = None, engine: Engine | None = None
) -> Result:
    """Allow nulls in a column."""
    return _change_column(
        target, column, lambda schema, path, _: schema_changes.relax_not_null(schema, path), storage_options, engine
    )


def set_comment(
    target: str,
    column: str,
    comment: str | None,
    *,
    storage_options: StorageOptions = None,
    engine: Engine | None = None,
) -> Result:
    """Set a column's comment; None removes it."""
    if comment is not None:
        check_text(comment, "a comment")
    return _change_column(
        target,
        column,
        lambda schema, path, _: schema_changes.set_metadata(schema, path, "comment", comment),
        storage_options,
        engine,
    )


def set_default(
    target: str, column: str, sql: str | None, *, storage_options: StorageOptions = None, engine: Engine | None = None
) -> Result:
    """Set a column's default for new rows without a value, as SQL; None removes it.

    Raises `ValueError` if the SQL does not yield a value of the column's type."""
    snapshot = open_snapshot(target, engine, storage_options)
    path = snapshot.schema.path_of(column)
    field = snapshot.schema.resolve(path)[-1]
    if len(path) > 1 or GENERATION_EXPRESSION in field.metadata:
        raise ValueError(f"the column {column!r} cannot have a default: it is nested, or a generated column")
    if sql is not None:
        check_sql(sql, "a default")
        check_default(snapshot.engine, field, sql)
    return _change_column(
        target,
        column,
        lambda schema, path, _: schema_changes.set_metadata(schema, path, DEFAULT, sql),
        storage_options,
        snapshot.engine,
    )


def _new_name(path: _Path, name: str) -> str:
    """The last part of a column's new name."""
    if "." not in name:
        return name
    parts = parse_path(name)
    if len(parts) > 1 and parts[:-1] != path[:-1]:
        raise ValueError(
            f"the new name {name!r} has a dot, but a rename cannot move a column: pass only the last part, or put "
            "the name in backticks if the dot belongs to it"
        )
    return parts[-1]


def _alter(
    target: str,
    operation: str,
    parameters: Mapping[str, Any],
    change: _Change,
    storage_options: StorageOptions,
    engine: Engine | None,
) -> Result:
    transaction = update_table(open_snapshot(target, engine, storage_options), operation)
    transaction.definition = change(transaction.definition)
    transaction.parameters |= parameters
    return finish(transaction)


def _change_column(
    target: str,
    column: str,
    change: Callable[[StructType, _Path, TableDefinition], StructType],
    storage_options: StorageOptions,
    engine: Engine | None,
) -> Result:
    transaction = update_table(open_snapshot(target, engine, storage_options), "CHANGE COLUMN")
    definition = transaction.definition
    path = definition.schema.path_of(column)
    transaction.definition = definition.with_schema(change(definition.schema, path, definition))
    field = transaction.schema.find(path[0])
    transaction.parameters |= {"columnPath": column, "column": {} if field is None else _described(field)}
    return finish(transaction)


def _fields(columns: SchemaInput) -> dict[str, StructField]:
    """Fields by the names given."""
    if isinstance(columns, Mapping):
        for name in columns:
            check_text(name, "the name of a column")
        return {name: StructField(parse_path(name)[-1], to_type(given)) for name, given in columns.items()}
    return {quoted(field.name): field for field in to_schema(columns)}


def _described(field: StructField) -> dict[str, Any]:
    """A column as recorded in the history."""
    (described,) = msgspec.json.decode(format_schema(StructType((field,))))["fields"]
    return dict(described)


def _mode(definition: TableDefinition) -> str:
    return column_mapping_mode(definition.protocol, definition.metadata, definition.root)


def _uses(definition: TableDefinition, dropped: _Path = ()) -> dict[str, tuple[_Path, ...]]:
    """The columns used by constraints, invariants and generated columns, except those dropped along with a column."""
    lowered = tuple(part.lower() for part in dropped)

    def stays(expression: TableExpression) -> bool:
        owner = tuple(part.lower() for part in expression.owner[: len(dropped)])
        return not dropped or owner != lowered

    found = expressions_in(definition.metadata.configuration, definition.schema)
    return uses_of_columns(filter(stays, found), definition.schema)


def _clustering(definition: TableDefinition) -> tuple[_Path, ...]:
    """The clustering columns, by logical name."""
    mode = _mode(definition)
    paths = (logical_path(definition.schema, path, mode) for path in definition.clustering_columns)
    return tuple(path for path in paths if path is not None)


def _with_name(definition: TableDefinition, path: _Path, name: str | None) -> TableDefinition:
    """Rename a column wherever the definition names it outside the schema; None removes it there."""
    metadata = definition.metadata
    partitions = [_renamed((column,), path, name) for column in metadata.partition_columns]
    configuration = dict(metadata.configuration)
    if (listed := STATS_COLUMNS.of(configuration)) is not None:
        paths = [_renamed(column, path, name) for column in listed]
        configuration[STATS_COLUMNS.name] = format_column_list([column for column in paths if column is not None])
    names = tuple(column[0] for column in partitions if column is not None)
    changed = msgspec.structs.replace(metadata, partition_columns=names, configuration=configuration)
    return replace(definition, metadata=changed)


def _renamed(column: _Path, path: _Path, name: str | None) -> _Path | None:
    """A column's path after the rename of `path`; None if that removes it."""
    depth = len(path)
    if tuple(part.lower() for part in column[:depth]) != tuple(part.lower() for part in path):
        return column
    return None if name is None else (*column[: depth - 1], name, *column[depth:])
