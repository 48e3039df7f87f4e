"""The object stores, one server of each kind for the whole session."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop import servers
from tests.interop.servers import Bucket


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here):
            item.add_marker(pytest.mark.interop)


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bucket]:
    """A bucket on versitygw."""
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
