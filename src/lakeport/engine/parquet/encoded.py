"""Text that stays a dictionary from one file to the next: rows that are only copied need not be decoded."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyarrow import types

from lakeport.engine.parquet.legacy_calendar import LegacyCalendar
from lakeport.engine.parquet.open_file import OpenFile
from lakeport.kernel.data_files import FieldIndex
from lakeport.kernel.engine import FIELD_ID
from lakeport.kernel.values import child_fields

_INDEX_BYTES = 4
"""Text takes more than this per value if the dictionary is long, or was given up."""


def texts_to_keep_encoded(file: OpenFile, schema: pa.Schema) -> list[str]:
    """The text columns whose values repeat, if the file has the columns of `schema` in that order and form; otherwise
    none."""
    if LegacyCalendar.of_file(file, "") is not None:  # its values must be converted
        return []
    fields = FieldIndex(file.schema_arrow)
    places = [place for place in map(fields.find, schema) if place is not None]
    given = [fields.fields[place] for place in places]
    if places != sorted(places) or len(given) != len(schema) or not all(map(_is_same, given, schema)):
        return []
    if any("." in name for name in file.schema_arrow.names):  # paths would be ambiguous
        return []
    texts = [field.name for field in given if types.is_string(field.type)]
    return [name for name in texts if file.takes_at_most(name, _INDEX_BYTES)] if file.metadata.num_row_groups else []


def _is_same(given: pa.Field, wanted: pa.Field) -> bool:
    number = (wanted.metadata or {}).get(FIELD_ID)
    matches = given.name == wanted.name if number is None else (given.metadata or {}).get(FIELD_ID) == number
    fits = given.type == wanted.type and (wanted.nullable or not given.nullable)
    return matches and fits and all(map(_is_same, child_fields(given.type), child_fields(wanted.type)))


def decoded(schema: pa.Schema) -> pa.Schema:
    """The schema of the same columns without dictionaries."""
    return pa.schema([f.with_type(f.type.value_type) if types.is_dictionary(f.type) else f for f in schema])


def common_schema(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.Schema:
    """`schema` with dictionaries for the columns that are dictionaries in all batches."""
    if all(batch.schema.equals(schema) for batch in batches):
        return schema
    found = zip(*(batch.schema.types for batch in batches), strict=True)
    return pa.schema(
        [
            field.with_type(kinds[0]) if types.is_dictionary(kinds[0]) and len(set(kinds)) == 1 else field
            for field, kinds in zip(schema, found, strict=True)
        ]
    )


def united(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    """The rows as a table of `schema`: columns become dictionaries, or cease to be, as it says."""
    table = pa.Table.from_batches([_fitted(batch, schema) for batch in batches], schema)
    return table.unify_dictionaries()


def _fitted(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    if batch.schema.equals(schema):
        return batch
    columns = [
        column if column.type == field.type else _recoded(column)
        for field, column in zip(schema, batch.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _recoded(column: pa.Array) -> pa.Array:
    return column.dictionary_decode() if types.is_dictionary(column.type) else column.dictionary_encode()
