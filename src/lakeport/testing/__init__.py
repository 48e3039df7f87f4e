"""Tools that prove an engine or a connector. They need pytest: install `lakeport[testing]`.

`EngineContract` tests every obligation of an engine; each handler has a contract of its own. `TableBuilder` writes
Delta tables, broken ones included, and `rows` reads them. `scripted` starts an HTTP server that sends exactly the bytes
you give it. See docs/connectors.md.
"""

import pytest

from lakeport.engine import memory_engine
from lakeport.testing.builder import TableBuilder, mapped, protocol, read, remove, rows, struct
from lakeport.testing.counting import CountingStorage, counting_engine
from lakeport.testing.http import Asked, Close, Pause, Reset, Scripted, Stall, chunked, head, reply, scripted
from lakeport.testing.rowwise import by_row

pytest.register_assert_rewrite("lakeport.testing.contracts")

from lakeport.testing.contracts import (  # noqa: E402  # pytest must know of them before they are loaded
    EngineContract,
    ExpressionContract,
    JsonContract,
    ParquetReadingContract,
    ParquetWritingContract,
    StorageContract,
    TableContract,
)

__all__ = [
    "Asked", "Close", "CountingStorage", "EngineContract", "ExpressionContract", "JsonContract",
    "ParquetReadingContract", "ParquetWritingContract", "Pause", "Reset", "Scripted", "Stall", "StorageContract",
    "TableBuilder", "TableContract", "by_row", "chunked", "counting_engine", "head", "mapped", "memory_engine",
    "protocol", "read", "remove", "reply", "rows", "scripted", "struct",
]  # fmt: skip
