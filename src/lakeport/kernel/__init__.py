"""The Delta protocol as pure logic on Arrow data, the basis for connectors. See docs/connectors.md.

    from lakeport.kernel import Table, FileSplit, transform_physical_data
    snapshot = Table.for_path(engine, "orders").latest_snapshot()

Everything works through an `Engine`; `lakeport.engine` has one. Names are imported lazily.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lakeport.kernel.changes import (
        ChangeFile, ChangeScan, ChangeState, TableChanges, table_changes, table_changes_between, transform_change_data,
    )  # fmt: skip
    from lakeport.kernel.engine import (
        DataFileWriter, Engine, ExpressionHandler, FileSplit, FileStatus, JsonHandler, OutputFile, ParquetHandler,
        StorageClient,
    )  # fmt: skip
    from lakeport.kernel.expressions import Expression, col, lit
    from lakeport.kernel.maintenance import finish_commit
    from lakeport.kernel.scan import FilteredBatch, Scan, ScanBuilder, ScanFile, ScanState, transform_physical_data
    from lakeport.kernel.schema import ArrayType, DataType, MapType, PrimitiveType, StructField, StructType
    from lakeport.kernel.snapshot import Snapshot, Table
    from lakeport.kernel.transaction import Committed, Transaction, create_table, update_table
    from lakeport.kernel.write import RowTransformer, StatsCollector, WriteContext, decode_adds, encode_adds

_ROOMS = ("schema", "expressions", "engine", "scan", "snapshot", "changes", "write", "transaction", "maintenance")
"""Those that others need come first, so that readers need not load the writers."""

__all__ = [
    "ArrayType", "ChangeFile", "ChangeScan", "ChangeState", "Committed", "DataFileWriter", "DataType", "Engine",
    "Expression", "ExpressionHandler", "FileSplit", "FileStatus", "FilteredBatch", "JsonHandler", "MapType",
    "OutputFile", "ParquetHandler", "PrimitiveType", "RowTransformer", "Scan", "ScanBuilder", "ScanFile", "ScanState",
    "Snapshot", "StatsCollector", "StorageClient", "StructField", "StructType", "Table", "TableChanges", "Transaction",
    "WriteContext", "col", "create_table", "decode_adds", "encode_adds", "finish_commit", "lit", "table_changes",
    "table_changes_between", "transform_change_data", "transform_physical_data", "update_table",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Import a name of `__all__` lazily, from the first room that exports it."""
    if name in __all__:
        for room in _ROOMS:
            module = import_module(f"{__name__}.{room}")
            if hasattr(module, name):
                return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
