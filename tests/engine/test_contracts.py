"""One contract, several engines."""

from pathlib import Path

import pyarrow as pa
import pytest

from lakeport.engine import default_engine
from lakeport.errors import ConstraintError, InvalidDataError
from lakeport.kernel.engine import Engine
from lakeport.kernel.schema import PrimitiveType, StructField
from lakeport.kernel.transaction import create_table
from lakeport.kernel.write import RowTransformer
from lakeport.testing import (
    EngineContract,
    ExpressionContract,
    JsonContract,
    ParquetReadingContract,
    TableContract,
    memory_engine,
    struct,
)
from tests.engine.duckdb_engine import duckdb_engine
from tests.engine.filtering_engines import FILTERING
from tests.engine.plain_engine import plain_engine


class OnDisk:
    @pytest.fixture
    def root(self, tmp_path: Path) -> str:
        return str(tmp_path)


class TestDefaultEngine(OnDisk, EngineContract):
    @pytest.fixture
    def engine(self) -> Engine:
        return default_engine()


@pytest.mark.parametrize("way", FILTERING)
class TestFilteringEngines(OnDisk, ParquetReadingContract):
    @pytest.fixture
    def engine(self, way: str) -> Engine:
        return FILTERING[way]


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


@pytest.mark.parametrize("engine", [memory_engine(), plain_engine()], ids=["default", "plain"])
def test_rows_are_completed_and_checked_through_every_engine(engine: Engine) -> None:
    doubled = StructField("twice", PrimitiveType("long"), True, {"delta.generationExpression": "2 * id"})
    constraint = {"delta.constraints.few": "twice < 10 OR id IS NULL"}
    table = create_table(engine, "memory://t", struct(doubled, id="long"), properties=constraint)
    rows = RowTransformer(engine, table.write_context())
    [part] = rows.transform(pa.record_batch({"id": [1, None, 4]}))
    assert part.data.to_pylist() == [{"twice": 2, "id": 1}, {"twice": None, "id": None}, {"twice": 8, "id": 4}]
    for wrong in ({"id": [5]}, {"id": [1], "twice": [3]}):
        with pytest.raises(ConstraintError):
            list(rows.transform(pa.record_batch(wrong)))
    with pytest.raises(InvalidDataError, match="cannot be computed"):
        list(rows.transform(pa.record_batch({"id": [2**62]})))
