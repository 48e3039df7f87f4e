"""Looking after tables on real object stores."""

import time
from typing import Any
from uuid import uuid4

import pyarrow as pa

import lakeport
from lakeport import tables
from tests.interop.buckets import CITIES, options
from tests.interop.servers import Bucket


def test_a_table_is_optimized_vacuumed_and_restored(writable_bucket: Bucket) -> None:
    target = f"{writable_bucket.url}/{uuid4()}/a table"
    given: dict[str, Any] = {"storage_options": options(writable_bucket)}
    data = pa.table({"id": range(len(CITIES)), "city": CITIES})
    vectors = {"delta.enableDeletionVectors": "true"}
    tables.create(target, data, partition_by=["city"], properties=vectors, **given)
    tables.append(target, data, **given)
    tables.delete(target, "id = 3", **given)
    packed = tables.optimize(target, **given)
    assert packed.metrics["numAddedFiles"] == len(CITIES) - 1
    restored = tables.restore(target, version=1, **given)
    assert lakeport.scan(target, **given).count() == 2 * len(CITIES)
    tables.restore(target, version=packed.version, **given)
    time.sleep(2)  # the store's clock counts whole seconds
    result = tables.vacuum(target, retention=0, enforce_retention=False, dry_run=False, **given)
    assert len(result.files) == restored.metrics["numRestoredFiles"]
    found = lakeport.scan(target, **given).to_arrow().sort_by([("id", "ascending")])
    assert found.column("city").to_pylist() == [city for city in CITIES for _ in range(2) if city != CITIES[3]]
