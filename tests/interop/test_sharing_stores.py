"""One server that shares tables of several object stores: read by HTTP with signed URLs, row for row."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import requests
import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

import lakeport
from lakeport import tables
from lakeport.server.config import load_config
from tests.interop.buckets import options
from tests.interop.servers import Bucket, FakeGcsBucket, s3_bucket
from tests.server.running import TOKEN, Running, running

CITIES = ["Oslo", "a b", "100%", "50%20", "x=y", "a+b", "a&b?c#d", "10:30", "São Paulo", "北京", "../up", "😀"]
STORES = ["s3", "minio", "azure", "gcs"]
CHECKED = ["s3", "minio", "azure"]
"""Those that look at signatures."""
DELTA = {"delta-sharing-capabilities": "responseformat=delta;readerfeatures=deletionvectors"}


def written(folder: Path) -> dict[str, Path]:
    """The same rows twice: as they are, and with half of them deleted by vectors."""
    rows = pa.table({"id": range(len(CITIES) * 2), "city": CITIES * 2})
    vectors = {"delta.enableDeletionVectors": "true"}
    tables.create(str(folder / "plain"), rows, partition_by=["city"])
    tables.create(str(folder / "vectors"), rows, partition_by=["city"], properties=vectors)
    tables.delete(str(folder / "vectors"), f"id >= {len(CITIES)}")
    return {name: folder / name for name in ("plain", "vectors")}


@pytest.fixture(scope="module")
def minio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bucket]:
    with s3_bucket(tmp_path_factory.mktemp("minio")) as bucket:
        yield bucket


@pytest.fixture(scope="module")
def buckets(s3: Bucket, minio: Bucket, azure: Bucket, gcs: FakeGcsBucket) -> dict[str, Bucket]:
    return {"s3": s3, "minio": minio, "azure": azure, "gcs": gcs}


@pytest.fixture(scope="module")
def server(buckets: dict[str, Bucket], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """All stores beside each other. What S3, Azure and Google need is told for all tables, what MinIO needs by table,
    where the prefix of the cloud can be left out."""
    folder = tmp_path_factory.mktemp("stores")
    for name, root in written(folder).items():
        for bucket in buckets.values():
            for path in root.rglob("*"):
                if path.is_file():
                    bucket.put(f"sharing/{name}/{path.relative_to(root).as_posix()}", path.read_bytes())
    path = folder / "server.yaml"
    path.write_text(yaml.safe_dump(settings(buckets)))
    with running(config=load_config(path)) as started:
        yield started


def settings(buckets: dict[str, Bucket]) -> dict[str, Any]:
    minio = texts(options(buckets["minio"]))
    shared = [
        {
            "name": name,
            "tables": [
                {"name": table, "location": f"{bucket.url}/sharing/{table}"}
                | ({"storage": minio} if name == "minio" else {})
                for table in ("plain", "vectors")
            ],
        }
        for name, bucket in buckets.items()
    ]
    storage = {f"aws_{name}": value for name, value in texts(options(buckets["s3"])).items()}
    storage |= {f"azure_storage_{name}": value for name, value in texts(options(buckets["azure"])).items()}
    storage |= {"google_service_account_key": signing_key(buckets["gcs"]), "allow_http": "true"}
    return {
        "version": 1,
        "shares": [{"name": "stores", "schemas": shared}],
        "authorization": {"bearerToken": TOKEN},
        "signingKey": "a key that is long enough",
        "storage": storage,
    }


def texts(values: dict[str, Any]) -> dict[str, str]:
    return {name: str(value) for name, value in values.items() if name != "allow_http"}


def signing_key(bucket: Bucket) -> str:
    """The key of the bucket's account, with which URLs can be signed, too."""
    pem = rsa.generate_private_key(public_exponent=65537, key_size=2048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    key = json.loads(bucket.options["service_account_key"])
    return json.dumps(
        key
        | {"private_key": pem.decode(), "client_email": "a@example.org", "private_key_id": "1", "disable_oauth": False}
    )


def reached(url: str, buckets: dict[str, Bucket]) -> str:
    """Google's URLs name Google, wherever the bucket is."""
    gcs = buckets["gcs"]
    assert isinstance(gcs, FakeGcsBucket)
    return url.replace("https://storage.googleapis.com", gcs.endpoint)


@pytest.mark.parametrize("store", STORES)
def test_every_file_is_read_by_its_url(server: Running, buckets: dict[str, Bucket], store: str) -> None:
    answer = server.post(f"shares/stores/schemas/{store}/tables/plain/query")
    files = [json.loads(line)["file"] for line in answer.text.splitlines()[2:]]
    found = []
    for file in files:
        data = requests.get(reached(file["url"], buckets), timeout=20)
        assert (data.status_code, len(data.content)) == (200, file["size"])
        ids = pq.ParquetFile(io.BytesIO(data.content)).read().column("id").to_pylist()
        found += [(number, file["partitionValues"]["city"]) for number in ids]
    assert sorted(found) == list(enumerate(CITIES * 2))


@pytest.mark.parametrize("store", CHECKED)
@pytest.mark.parametrize("table", ["plain", "vectors"])
def test_a_recipient_reads_the_rows_that_are_left(server: Running, store: str, table: str, tmp_path: Path) -> None:
    profile = {"shareCredentialsVersion": 1, "endpoint": server.endpoint, "bearerToken": TOKEN}
    (tmp_path / "ann.share").write_text(json.dumps(profile))
    rows = lakeport.scan(f"{tmp_path}/ann.share#stores.{store}.{table}").to_arrow()
    expected = list(enumerate(CITIES * 2 if table == "plain" else CITIES))
    assert sorted(zip(rows["id"].to_pylist(), rows["city"].to_pylist(), strict=True)) == expected


@pytest.mark.parametrize("store", STORES)
def test_deletion_vectors_are_read_by_their_urls(server: Running, buckets: dict[str, Bucket], store: str) -> None:
    answer = server.post(f"shares/stores/schemas/{store}/tables/vectors/query", headers=DELTA)
    lines = [json.loads(line) for line in answer.text.splitlines()[2:]]
    vectors = [v for v in (line["file"]["deltaSingleAction"]["add"].get("deletionVector") for line in lines) if v]
    assert vectors
    for vector in vectors:
        assert vector["storageType"] == "p"
        where = {"Range": f"bytes={vector['offset']}-{vector['offset'] + vector['sizeInBytes'] + 7}"}
        part = requests.get(reached(vector["pathOrInlineDv"], buckets), headers=where, timeout=20)
        assert part.status_code == 206
        assert int.from_bytes(part.content[:4], "big") == vector["sizeInBytes"]


@pytest.mark.parametrize("store", CHECKED)
def test_a_url_opens_nothing_else(server: Running, store: str) -> None:
    answer = server.post(f"shares/stores/schemas/{store}/tables/plain/query")
    one, other, *_ = re.findall(r'"url":"([^"]+)"', answer.text)
    path, _, query = one.partition("?")
    foreign = other.partition("?")[0]
    log = path[: path.index("/plain/")] + "/plain/_delta_log/00000000000000000000.json"
    for forged in (f"{foreign}?{query}", f"{log}?{query}", path, one[:-3]):
        assert requests.get(forged, timeout=20).status_code in (400, 401, 403, 404), forged
    assert requests.put(one, data=b"x", headers={"x-ms-blob-type": "BlockBlob"}, timeout=20).status_code in (401, 403)


def test_no_store_tells_its_keys(server: Running, buckets: dict[str, Bucket]) -> None:
    secrets = [str(buckets["s3"].options["secret_access_key"]), str(buckets["azure"].options["account_key"])]
    for store in STORES:
        for path in ("plain/query", "vectors/query"):
            text = server.post(f"shares/stores/schemas/{store}/tables/{path}", headers=DELTA).text
            assert not [secret for secret in secrets if secret in text]
    assert not [secret for secret in secrets if secret in server.get("shares/stores/all-tables").text]
