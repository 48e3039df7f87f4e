"""Keys in column metadata."""

from __future__ import annotations

COMMENT = "comment"
DEFAULT = "CURRENT_DEFAULT"
"""The SQL text of the default value."""
GENERATION_EXPRESSION = "delta.generationExpression"
"""The SQL text of the generated value."""
INVARIANTS = "delta.invariants"
"""JSON with the SQL text of a condition."""
TYPE_CHANGES = "delta.typeChanges"
MAPPING_PREFIX = "delta.columnMapping."
"""Prefix of all keys about column mapping."""
COLUMN_ID = "delta.columnMapping.id"
PHYSICAL_NAME = "delta.columnMapping.physicalName"
NESTED_IDS = "delta.columnMapping.nested.ids"
"""The ids of list elements, map keys and map values, by path."""
