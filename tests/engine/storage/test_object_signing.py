"""Signed URLs of objects, and the storages that have none."""

from __future__ import annotations

from itertools import count
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from lakeport.engine.storage import signing
from lakeport.engine.storage.storage import Storage
from lakeport.errors import StorageError

S3 = {"endpoint": "http://127.0.0.1:9", "region": "us-east-1", "access_key_id": "a", "secret_access_key": "s"}
AZURE = {"account_name": "account", "account_key": "c2VjcmV0"}


def test_a_url_names_the_object_and_its_life_and_not_the_key() -> None:
    url = urlsplit(Storage(S3).signed("s3://bucket/orders/day=2026 01/a%20b.parquet").url)
    assert url.path == "/bucket/orders/day%3D2026%2001/a%2520b.parquet"
    query = parse_qs(url.query)
    assert query["X-Amz-Expires"] == ["3600"]
    assert "X-Amz-Signature" in query
    assert "sig=" in Storage(AZURE).signed("az://container/orders/part.parquet").url


@pytest.mark.parametrize(
    ("path", "options"),
    [
        ("s3://bucket/part.parquet", S3 | {"skip_signature": True}),
        ("s3://bucket/part.parquet", S3 | {"aws_request_payer": True}),
        ("s3://bucket/part.parquet", S3 | {"proxy_url": "http://127.0.0.1:9"}),
        ("s3://bucket/part.parquet", S3 | {"allow_invalid_certificates": True}),
        ("az://container/part.parquet", {"account_name": "account", "sas_key": "sv=1&sig=secret"}),
        ("gs://bucket/part.parquet", {"credential_provider": lambda: {"token": "secret", "expires_at": None}}),
        ("http://127.0.0.1:9/part.parquet", {}),
        ("/a/disk/part.parquet", {}),
    ],
    ids=["anonymous", "payer", "proxy", "certificates", "a token of Azure", "a token of Google", "http", "a disk"],
)
def test_where_a_url_would_not_be_enough_there_is_none(path: str, options: dict[str, Any]) -> None:
    with pytest.raises(StorageError) as caught:
        Storage(options).signed(path)
    assert "secret" not in str(caught.value)


def test_a_url_is_kept_until_it_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = count()
    monkeypatch.setattr(signing, "sign_keys", lambda *_: [f"https://host/?{next(numbers)}"])
    storage, path = Storage(S3), "s3://bucket/part.parquet"
    signed = [storage.signed(path, refused) for refused in (None, "https://host/?0", None, "another")]
    assert [one.url[-1] for one in signed] == ["0", "1", "1", "1"]
    assert "host" not in repr(signed)


@pytest.mark.parametrize(
    ("path", "options", "place"),
    [
        ("s3n://bucket/t/part.parquet", S3, "127.0.0.1:9/bucket/t/part.parquet"),
        ("adl://files/t/part.parquet", AZURE, "account.blob.core.windows.net/files/t/part.parquet"),
        ("wasbs://files@account.blob.core.windows.net/t/x", AZURE, "account.blob.core.windows.net/files/t/x"),
    ],
)
def test_every_spelling_of_a_scheme_is_opened(path: str, options: dict[str, Any], place: str) -> None:
    url = urlsplit(Storage(options).signed(path).url)
    assert url.netloc + url.path == place
