"""The contract of an engine and of each of its handlers, as tests for a subclass to inherit.

May import `kernel` and `testing.builder`.
"""

from lakeport.testing.contracts.engine import EngineContract, TableContract
from lakeport.testing.contracts.expressions import ExpressionContract
from lakeport.testing.contracts.json import JsonContract
from lakeport.testing.contracts.parquet_reading import ParquetReadingContract
from lakeport.testing.contracts.parquet_writing import ParquetWritingContract
from lakeport.testing.contracts.storage import StorageContract

__all__ = [
    "EngineContract", "ExpressionContract", "JsonContract", "ParquetReadingContract", "ParquetWritingContract",
    "StorageContract", "TableContract",
]  # fmt: skip
