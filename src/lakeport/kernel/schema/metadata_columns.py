"""Columns outside the table's schema that reads return: row ids, positions, change types and commit times."""

from __future__ import annotations

from lakeport.kernel.schema.types import PrimitiveType, StructField, StructType

ROW_ID = StructField("_row_id", PrimitiveType("long"))
ROW_COMMIT_VERSION = StructField("_row_commit_version", PrimitiveType("long"))
"""Columns that a scan can request in tables with row tracking."""
ROW_POSITION = StructField("__lakeport_row_index", PrimitiveType("long"), nullable=False)
"""A column that a scan can request: the position of each row in its file."""

CHANGE_TYPE = StructField("_change_type", PrimitiveType("string"))
COMMIT_VERSION = StructField("_commit_version", PrimitiveType("long"))
COMMIT_TIMESTAMP = StructField("_commit_timestamp", PrimitiveType("timestamp"))
CHANGE_COLUMNS = StructType((CHANGE_TYPE, COMMIT_VERSION, COMMIT_TIMESTAMP))
"""The columns of a change besides the table's."""
