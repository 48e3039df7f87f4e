"""The readers that a mirror must show the same rows to."""

from collections.abc import Iterator

import pytest

from tests.iceberg.readers import DuckDb, PyIceberg, Reader, running_duckdb


@pytest.fixture(scope="session")
def duckdb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DuckDb]:
    """DuckDB with its Iceberg extension."""
    with running_duckdb(tmp_path_factory.mktemp("duckdb")) as reader:
        yield reader


@pytest.fixture(params=["pyiceberg", "duckdb"])
def reader(request: pytest.FixtureRequest) -> Reader:
    """Each reader in turn."""
    if request.param == "pyiceberg":
        return PyIceberg()
    found: DuckDb = request.getfixturevalue("duckdb")
    return found
