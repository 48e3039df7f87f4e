"""Signed URLs of object stores, shown to servers that check them."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from lakeport.server.catalog.model import Table
from lakeport.server.signing.signers import Signers
from tests.interop.servers import Bucket, FakeGcsBucket

NAMES = [
    "part-0.parquet",
    "day=2024-01-01/a b.parquet",
    "time=12%3A30/100%.parquet",
    "a+b&c=d;e,f@g.parquet",
    "größe=ß/日本 😀.parquet",
    "~(x)!'$*.parquet",
    "q?uestion#hash.parquet",
    "%2e%2e/up.parquet",
]


def sign(bucket: Bucket, paths: list[str], **more: Any) -> list[str]:
    options = {name: value for name, value in bucket.options.items() if name != "client_options"}
    options |= bucket.options["client_options"] | more
    table = Table(id="4b1c", share="s", schema="d", name="t", location=f"{bucket.url}/signed urls/t", storage=options)
    signers = Signers(b"of no use here", endpoint="/delta-sharing", seconds=3600)
    return signers.for_table(table, "http://unused", "ann").sign(paths)


def get(url: str, **headers: str) -> tuple[int, bytes]:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(urllib.request.Request(url, headers=headers), timeout=20) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


@pytest.mark.parametrize("name", NAMES)
def test_the_url_of_any_name_is_accepted(writable_bucket: Bucket, name: str) -> None:
    data = f"content of {name}".encode()
    writable_bucket.put(f"signed urls/t/{name}", data)
    (url,) = sign(writable_bucket, [f"{writable_bucket.url}/signed urls/t/{name}"])
    assert get(url) == (200, data)
    assert get(url, Range="bytes=3-6") == (206, data[3:7])


def test_a_url_is_good_for_its_file_only(writable_bucket: Bucket) -> None:
    for name in ("one", "two"):
        writable_bucket.put(f"signed urls/t/{name}", name.encode())
    (url,) = sign(writable_bucket, [f"{writable_bucket.url}/signed urls/t/one"])
    assert get(url)[0] == 200
    assert get(url.replace("/one?", "/two?"))[0] == 403
    assert get(url.partition("?")[0])[0] in (401, 403, 404)


def test_a_url_does_not_write(writable_bucket: Bucket) -> None:
    writable_bucket.put("signed urls/t/kept", b"kept")
    (url,) = sign(writable_bucket, [f"{writable_bucket.url}/signed urls/t/kept"])
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    headers = {"x-ms-blob-type": "BlockBlob"}
    with pytest.raises(urllib.error.HTTPError, match="403") as refused:
        opener.open(urllib.request.Request(url, data=b"lost", method="PUT", headers=headers), timeout=20)
    refused.value.close()
    assert get(url) == (200, b"kept")


def test_the_name_in_a_url_of_google_is_the_objects(gcs: FakeGcsBucket) -> None:
    """The server does not check signatures, but finds the object by the path."""
    private_key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = private_key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    key = json.loads(gcs.options["service_account_key"])
    key |= {"private_key": pem.decode(), "client_email": "a@example.org", "private_key_id": "1", "disable_oauth": False}
    for name in NAMES:
        gcs.put(f"signed urls/t/{name}", name.encode())
    paths = [f"{gcs.url}/signed urls/t/{name}" for name in NAMES]
    urls = sign(gcs, paths, service_account_key=json.dumps(key))
    assert all("X-Goog-Credential=" in url and "X-Goog-Signature=" in url for url in urls)
    local = [url.replace("https://storage.googleapis.com", gcs.endpoint) for url in urls]
    assert [get(url) for url in local] == [(200, name.encode()) for name in NAMES]
