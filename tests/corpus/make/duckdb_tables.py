"""The tables into which DuckDB inserts."""

from __future__ import annotations

STATEMENTS = {
    "inserted": [
        "INSERT INTO t VALUES (1, 10, 'x'), (2, NULL, NULL)",
        "INSERT INTO t SELECT range, range * 10, 'name ' || range FROM range(3, 6)",
    ],
    "inserted-partitioned": [
        "INSERT INTO t VALUES (1, 10, 'a'), (2, NULL, 'a')",
        "INSERT INTO t VALUES (3, 30, 'b')",
        "INSERT INTO t VALUES (4, 40, NULL)",
    ],
    "inserted-after-spark": ["INSERT INTO t VALUES (100, 1000, 'p1')"],
}
"""Statements for each table, each of which is a commit. An INSERT into several partitions at once fails,
and the paths of partitions with special characters are wrong in the log."""
BASES = {"inserted-after-spark": "delta44--dv-in-files"}
"""Tables that begin as copies of others; the rest begin empty."""
