"""Tables in object stores by Spark's own reader: by URLs that are signed where the query is planned."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pyarrow as pa

from lakeport import tables
from lakeport.spark.native.jar import JAR
from tests.conftest import ROOT, missing
from tests.interop.buckets import options
from tests.interop.directories import Provider, reachable
from tests.interop.servers import Bucket

SECONDS = 300
LIFE = 3


def read(*jobs: dict[str, Any], life: int = 3600) -> list[dict[str, Any]]:
    """What a session in another process finds."""
    if not JAR.exists():
        missing(f"there is no {JAR}: install a JDK, 17 or newer, and run make setup")
    ran = subprocess.run(
        [sys.executable, "-m", "tests.interop.spark_store_worker"],
        input=json.dumps({"life": life, "jobs": jobs}),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    found: list[dict[str, Any]] = json.loads(ran.stdout.rpartition("found ")[2])
    return found


def job(target: str, storage: dict[str, Any], *, condition: str = "id > 0", pause: float = 0) -> dict[str, Any]:
    return {"target": target, "options": storage, "filter": condition, "pause": pause}


def orders_at(target: str, storage: dict[str, Any], names: list[str]) -> list[int]:
    """A table of several files in partitions of these names, with deleted rows; and the ids of the others."""
    rows = pa.table({"id": range(100), "part": [names[i % len(names)] for i in range(100)]})
    properties = {"delta.enableDeletionVectors": "true"}
    tables.create(target, rows, partition_by=["part"], properties=properties, storage_options=storage)
    tables.delete(target, "id % 10 = 3", storage_options=storage)
    return [i for i in range(100) if i % 10 != 3]


def test_a_table_in_an_object_store_is_read_by_sparks_own_reader(writable_bucket: Bucket) -> None:
    storage, target = options(writable_bucket), f"{writable_bucket.url}/spark/orders"
    ids = orders_at(target, storage, ["a", "b-1"])
    (found,) = read(job(target, storage, condition="part = 'a' AND id < 50"))
    assert found["reader"] == "Spark's own"
    assert found["ids"] == ids
    assert found["later"] == [i for i in ids if i % 2 == 0 and i < 50]
    secrets = [value for name, value in storage.items() if "key" in name]
    assert secrets
    assert not [text for text in (*secrets, "Signature", "sig=") if text in found["plan"]]


def test_names_that_urls_have_to_spell_are_signed_or_read_in_python(writable_bucket: Bucket) -> None:
    storage, target = options(writable_bucket), f"{writable_bucket.url}/spark/odd names"
    ids = orders_at(target, storage, ["a b", "c%d", "é:?#&", "x+y=z"])
    (found,) = read(job(target, storage))
    is_azure = writable_bucket.url.startswith("az:")
    assert found["reader"] == (
        "Python: some of its file names cannot be signed for Azure" if is_azure else "Spark's own"
    )
    assert found["ids"] == ids
    assert found["later"] == ids[1:]


def test_urls_are_signed_again_before_they_expire(s3: Bucket) -> None:
    target = f"{s3.url}/spark/short"
    ids = orders_at(target, options(s3), ["a", "b"])
    (found,) = read(job(target, options(s3), pause=LIFE + 2), life=LIFE)
    assert (found["reader"], found["ids"], found["later"]) == ("Spark's own", ids, ids[1:])


def test_a_shared_table_that_is_read_in_its_own_directory_is_read_so_too(minio: Provider) -> None:
    storage = reachable(minio.bucket)
    jobs = [job(f"{minio.profile}#s.d.{name}", storage) for name in ("orders", "clone")]
    orders, clone = read(*jobs, life=LIFE)
    assert (orders["reader"], orders["ids"], orders["later"]) == ("Spark's own", [1, 3, 4], [1, 3, 4])
    assert (clone["reader"], clone["ids"]) == ("Spark's own", [1, 2, 3, 4])
