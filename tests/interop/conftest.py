"""The object stores and the peers that take SQL, one of each kind for the whole session."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop import peers, servers, spark_tables
from tests.interop.directories import minio  # noqa: F401  # a fixture
from tests.interop.peers import Peer
from tests.interop.servers import Bucket


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here):
            item.add_marker(pytest.mark.interop)


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bucket]:
    """A bucket on MinIO."""
    with servers.s3_bucket(tmp_path_factory.mktemp("s3")) as bucket:
        yield bucket


@pytest.fixture(scope="session")
def azure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bucket]:
    """A container on Azurite."""
    with servers.azure_container(tmp_path_factory.mktemp("azure")) as bucket:
        yield bucket


@pytest.fixture(scope="session")
def gcs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bucket]:
    """A bucket on fake-gcs-server."""
    with servers.gcs_bucket(tmp_path_factory.mktemp("gcs")) as bucket:
        yield bucket


@pytest.fixture(params=["s3", "azure", "gcs"])
def bucket(request: pytest.FixtureRequest) -> Bucket:
    """Each object store in turn, to read; fill it with ``bucket.put``. Stay under a prefix of your own."""
    found: Bucket = request.getfixturevalue(request.param)
    return found


@pytest.fixture(params=["s3", "azure"])
def writable_bucket(request: pytest.FixtureRequest) -> Bucket:
    """Each object store that obstore can also write, with put-if-absent. Stay under a prefix of your own."""
    found: Bucket = request.getfixturevalue(request.param)
    return found


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    """Spark with Delta's own library."""
    with peers.running("spark", tmp_path_factory.mktemp("spark")) as peer:
        yield peer


@pytest.fixture(scope="session")
def duckdb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    """DuckDB with its Delta extension."""
    with peers.running("duckdb", tmp_path_factory.mktemp("duckdb")) as peer:
        yield peer


@pytest.fixture(scope="session")
def written_by_spark(spark: Peer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the tables of `spark_tables`."""
    folder = tmp_path_factory.mktemp("written by spark")
    for name, statements in spark_tables.TABLES.items():
        table = f"delta.`{folder / name}`"
        spark.run(*(text.replace("{t}", table).replace("{folder}", str(folder)) for text in statements))
    return folder
