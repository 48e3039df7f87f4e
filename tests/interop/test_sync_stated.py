"""What real storages state of the files that a sync fetches from them by signed URLs."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import lakeport
from lakeport import tables
from lakeport.client import ClientOptions, open_server
from lakeport.client.http import HttpAnswer, HttpPool
from lakeport.client.sync.crc32c import Crc32c
from lakeport.client.sync.stated import Received, Stated, stated_in
from lakeport.client.sync.url_source import UrlSource
from lakeport.sharing.names import parse_table_name
from tests.client.shares import profile_text
from tests.interop.servers import NAME, Bucket, FakeGcsBucket, s3_bucket, s3_client
from tests.interop.shareable import orders
from tests.interop.test_tables import options
from tests.server.running import running, sharing

TABLE = "s.d.orders"
KEY = "lakeport-key"


@contextmanager
def profile_of(bucket: Bucket, folder: Path, prefix: str) -> Iterator[Path]:
    """The profile of a recipient of a table of two files in a bucket."""
    own, location = options(bucket), f"{bucket.url}/{prefix}"
    tables.create(location, orders(0, 10), partition_by=["day"], storage_options=own)
    storage = {name: str(value).lower() if value is True else value for name, value in own.items()}
    with running(sharing({TABLE: location}, history_shared=True), storage=storage) as server:
        profile = folder / "ann.share"
        profile.write_text(profile_text(server.endpoint))
        yield profile


def stated_of(profile: Path) -> Iterator[tuple[set[Stated | None], bytes]]:
    """What is stated of each file, and its content."""
    with open_server(profile, ClientOptions()) as server:
        version = UrlSource(server, parse_table_name(TABLE)).at(0)
        for wanted in version.files:
            received = Received(version.storage, wanted.file.path)
            size = wanted.file.size
            content = b"".join(received.read(start, min(200, size - start)) for start in range(0, size, 200))
            assert received.digest == (b"" if received.stated == {None} else hashlib.md5(content).digest())
            yield received.stated, content


def sync(profile: Path, dest: Path) -> Any:
    return lakeport.sync(f"{profile}#{TABLE}", str(dest), verify=True)


def test_every_storage_states_the_md5_of_what_was_written_at_once(writable_bucket: Bucket, tmp_path: Path) -> None:
    with profile_of(writable_bucket, tmp_path, f"stated-{tmp_path.name}") as profile:
        for stated, content in stated_of(profile):
            assert stated == {Stated("md5", hashlib.md5(content).digest(), is_certain=False)}
        assert sync(profile, tmp_path / "copy").fetched_files == 2


def test_google_storage_states_both_checksums_with_a_range(gcs: FakeGcsBucket) -> None:
    content = bytes(range(250)) * 100
    gcs.put("stated/file", content)
    stated: list[Stated | None] = []
    hashes: list[str] = []

    def heed(answer: HttpAnswer) -> None:
        stated.append(stated_in(answer.status, answer.headers))
        hashes.append(answer.headers["x-goog-hash"])

    with HttpPool() as http:
        assert http.get_range(f"{gcs.endpoint}/{NAME}/stated/file", 0, 1000, heed) == content[:1000]
    assert stated == [Stated("md5", hashlib.md5(content).digest(), is_certain=True)]
    checksum = Crc32c()
    checksum.update(content)
    assert f"crc32c={base64.b64encode(checksum.digest()).decode()}" in hashes[0]


@pytest.mark.parametrize("algorithm", ["AES256", "aws:kms"])
def test_files_of_an_encrypted_bucket_are_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, algorithm: str
) -> None:
    (tmp_path / "minio").mkdir()
    key = base64.b64encode(os.urandom(32)).decode()
    monkeypatch.setenv("MINIO_KMS_SECRET_KEY", f"{KEY}:{key}")
    with s3_bucket(tmp_path / "minio") as bucket:
        encrypt(bucket, algorithm)
        with profile_of(bucket, tmp_path, "orders") as profile:
            for stated, content in stated_of(profile):
                right = Stated("md5", hashlib.md5(content).digest(), is_certain=False)
                assert stated == ({None} if algorithm == "aws:kms" else {right})
            assert sync(profile, tmp_path / "copy").fetched_files == 2


def encrypt(bucket: Bucket, algorithm: str) -> None:
    by_default = {"SSEAlgorithm": algorithm} | ({"KMSMasterKeyID": KEY} if algorithm == "aws:kms" else {})
    rules = [{"ApplyServerSideEncryptionByDefault": by_default}]
    s3_client(bucket).put_bucket_encryption(Bucket=NAME, ServerSideEncryptionConfiguration={"Rules": rules})
