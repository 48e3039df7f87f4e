"""One contract, four engines."""

from pathlib import Path

import pytest

from lakeport.engine import default_engine
from lakeport.kernel.engine import Engine
from lakeport.testing import EngineContract, ExpressionContract, JsonContract, TableContract, memory_engine
from tests.engine.duckdb_engine import duckdb_engine
from tests.engine.plain_engine import plain_engine


class OnDisk:
    @pytest.fixture
    def root(self, tmp_path: Path) -> str:
        return str(tmp_path)


class TestDefaultEngine(OnDisk, EngineContract):
    @pytest.fixture
    def engine(self) -> Engine:
        return default_engine()


class TestDuckDBEngine(OnDisk, EngineContract):
    @pytest.fixture
    def engine(self) -> Engine:
        return duckdb_engine()


class TestPlainEngine(OnDisk, JsonContract, ExpressionContract, TableContract):
    """Its storage and its Parquet handler are those of the default engine."""

    @pytest.fixture
    def engine(self) -> Engine:
        return plain_engine()


class TestMemoryEngine(EngineContract):
    @pytest.fixture
    def engine(self) -> Engine:
        return memory_engine()

    @pytest.fixture
    def root(self) -> str:
        return "memory://contract"
