"""Tables in an object store that fails, hangs, throttles and cuts bodies: the same rows, each once."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import lakeport
from lakeport import tables
from tests.client.faulty_proxy import Fault, at_random, faulty_proxy
from tests.interop.buckets import options
from tests.interop.servers import Bucket

PASSING = (Fault.ERROR, Fault.BUSY, Fault.RESET, Fault.STALL)
OF_BODIES = (*PASSING, Fault.TRUNCATED, Fault.RESET_WITHIN, Fault.STALL_WITHIN)


@pytest.fixture(params=range(3))
def faulty(request: pytest.FixtureRequest, s3: Bucket) -> Iterator[Bucket]:
    """The bucket behind a proxy, which does harm to one request of five."""
    with faulty_proxy(s3.options["endpoint"], at_random(request.param, 0.2, OF_BODIES, PASSING)) as proxy:
        yield replace(s3, options=s3.options | {"endpoint": proxy.url})
        assert sum(done for fault, done in proxy.done.items() if fault is not Fault.NONE) >= 3


def test_writes_and_reads_get_through(faulty: Bucket, s3: Bucket, request: pytest.FixtureRequest) -> None:
    url = f"{s3.url}/faulty/{request.node.name}"
    given = options(faulty) | {"read_timeout": "1s"}
    numbers = np.random.default_rng(3).integers(0, 1 << 62, 500_000)
    tables.create(url, pa.table({"id": range(500_000), "n": numbers}), storage_options=given)
    for first in (500_000, 500_010, 500_020):
        rows = pa.table({"id": range(first, first + 10), "n": range(10)})
        tables.append(url, rows, storage_options=given)
    tables.delete(url, "id >= 500020 or id < 3", storage_options=given)
    for found in (lakeport.scan(url, storage_options=given), lakeport.scan(url, storage_options=options(s3))):
        ids = found.select("id").to_arrow().column("id").to_numpy()
        assert np.array_equal(np.sort(ids), np.arange(3, 500_020))
    assert [commit.operation for commit in lakeport.scan(url, storage_options=options(s3)).history()] == [
        "DELETE", "WRITE", "WRITE", "WRITE", "CREATE TABLE AS SELECT",
    ]  # fmt: skip
