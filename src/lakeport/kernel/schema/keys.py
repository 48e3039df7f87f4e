"""Keys in the metadata of a column."""

from __future__ import annotations

COMMENT = "comment"
DEFAULT = "CURRENT_DEFAULT"
"""The SQL text of the value for rows that do not give one."""
GENERATION_EXPRESSION = "delta.generationExpression"
"""The SQL text of its value."""
INVARIANTS = "delta.invariants"
"""JSON with the SQL text of a condition."""
