"""The default engine: obstore for storage, pyarrow and msgspec for JSON, pyarrow for Parquet and expressions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from lakeport.engine.clock import system_clock
from lakeport.engine.column_editing import EditableParquetFiles
from lakeport.engine.expressions import ArrowExpressions
from lakeport.engine.json import JsonFiles
from lakeport.engine.storage import Storage
from lakeport.engine.storage.memory import MemoryStorage
from lakeport.kernel.engine import ExpressionHandler, JsonHandler, ParquetHandler, StorageClient

__all__ = ["ComposedEngine", "default_engine", "engine_over", "memory_engine"]


@dataclass(frozen=True)
class ComposedEngine:
    """An engine composed of handlers and a clock; replace any of them with your own."""

    storage: StorageClient
    json: JsonHandler
    parquet: ParquetHandler
    expressions: ExpressionHandler
    clock: Callable[[], int] = system_clock

    def now(self) -> int:
        return self.clock()


def default_engine(storage_options: Mapping[str, Any] | None = None) -> ComposedEngine:
    """Local disk, S3, GCS, Azure and HTTP; `storage_options` use obstore's names, defaulting to the environment."""
    return engine_over(Storage(storage_options))


def memory_engine() -> ComposedEngine:
    """Everything in memory: for tests, and for synthetic logs."""
    return engine_over(MemoryStorage())


def engine_over(storage: StorageClient, clock: Callable[[], int] = system_clock) -> ComposedEngine:
    """The default handlers over another storage; `clock` returns milliseconds since the epoch."""
    return ComposedEngine(storage, JsonFiles(storage), EditableParquetFiles(storage, clock), ArrowExpressions(), clock)
