"""A cluster, and a server of Spark Connect; one for all tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.spark.processes.servers import Cluster, connect_server, spark_cluster


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster of two workers."""
    folder = tmp_path_factory.mktemp("cluster")
    with spark_cluster(folder) as master:
        yield Cluster(master, folder)


@pytest.fixture(scope="session")
def connect(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a server of Spark Connect."""
    with connect_server(tmp_path_factory.mktemp("connect")) as remote:
        yield remote
