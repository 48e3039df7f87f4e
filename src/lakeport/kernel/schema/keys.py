"""Keys in column metadata."""

from __future__ import annotations

COMMENT = "comment"
DEFAULT = "CURRENT_DEFAULT"
"""The SQL text of the default value."""
GENERATION_EXPRESSION = "delta.generationExpression"
"""The SQL text of the generated value."""
INVARIANTS = "delta.invariants"
"""JSON with the SQL text of a condition."""
