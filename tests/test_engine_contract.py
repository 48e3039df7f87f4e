"""One contract, three engines."""

from pathlib import Path

import pytest

from lakeport.engine import default_engine, memory_engine
from lakeport.kernel.engine import Engine
from tests.duckdb_engine import duckdb_engine
from tests.engine_contract import EngineContract


class TestDefaultEngine(EngineContract):
    @pytest.fixture
    def engine(self) -> Engine:
        return default_engine()

    @pytest.fixture
    def root(self, tmp_path: Path) -> str:
        return str(tmp_path)


class TestDuckDBEngine(TestDefaultEngine):
    @pytest.fixture
    def engine(self) -> Engine:
        return duckdb_engine()


class TestMemoryEngine(EngineContract):
    @pytest.fixture
    def engine(self) -> Engine:
        return memory_engine()

    @pytest.fixture
    def root(self) -> str:
        return "memory://contract"
