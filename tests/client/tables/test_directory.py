"""Tables in their own directories: temporary credentials as options of a storage, and when they are renewed. What they
open is tried with real storages in tests/interop/test_directory_access.py."""

import json
import time
from pathlib import Path

import pytest

from lakeport.client.rest.server import SharingServer
from lakeport.client.tables.by_directory import (
    DirectoryStorage,
    TemporaryStorage,
    check_offered_by_urls,
    storage_options,
)
from lakeport.engine.storage.storage import Storage
from lakeport.errors import AccessDeniedError, SharingError, UnsupportedFeatureError
from lakeport.kernel.engine import FileStatus
from lakeport.sharing.models import AwsTempCredentials, AzureUserDelegationSas, Credentials, GcpOauthToken
from lakeport.sharing.names import TableName
from lakeport.sharing.profile import parse_profile
from lakeport.testing.http import Asked, Steps, reply, scripted
from tests.client.timing import pool

NAME = TableName("sales", "eu", "orders")
AWS = AwsTempCredentials(access_key_id="id", secret_access_key="secret", session_token="session")
HOUR_MS = 3_600_000


class Vendor:
    """Gives credentials that live for an hour, and counts them."""

    def __init__(self, lifetime_ms: int = HOUR_MS) -> None:
        self.now = 1_700_000_000.0
        self.given = 0
        self.lifetime_ms = lifetime_ms

    def ask(self) -> Credentials:
        self.given += 1
        expires = int(self.now * 1000) + self.lifetime_ms
        return Credentials(location="s3://bucket/orders/", expiration_time=expires, aws_temp_credentials=AWS)

    def storage(self) -> TemporaryStorage:
        return TemporaryStorage(self.ask, {"region": "eu-west-1"}, now=lambda: self.now)


def test_credentials_are_asked_for_when_they_are_needed_and_then_kept() -> None:
    vendor = Vendor()
    storage = vendor.storage()
    assert vendor.given == 0
    assert storage.location == "s3://bucket/orders"
    assert storage.current() is storage.current()
    assert vendor.given == 1


@pytest.mark.parametrize(("lifetime_ms", "kept_ms"), [(HOUR_MS, HOUR_MS - 300_000), (10_000, 8_000)])
def test_credentials_are_renewed_before_they_expire(lifetime_ms: int, kept_ms: int) -> None:
    vendor = Vendor(lifetime_ms)
    storage = vendor.storage()
    first = storage.current()
    vendor.now += (kept_ms - 1) / 1000
    assert storage.current() is first
    vendor.now += 0.002
    assert storage.current() is not first
    assert vendor.given == 2


def test_credentials_that_are_refused_are_renewed_once_for_all_who_hold_them() -> None:
    vendor = Vendor()
    storage = vendor.storage()
    first = storage.current()
    second = storage.refused(first)
    assert second is not first
    assert storage.refused(first) is second
    assert vendor.given == 2


def test_credentials_that_have_expired_when_they_come_are_used_all_the_same() -> None:
    vendor = Vendor(lifetime_ms=-5000)  # the clocks differ
    storage = vendor.storage()
    assert storage.current() is storage.current()
    assert vendor.given == 1
    assert storage.refused(storage.current()) is storage.current()
    assert vendor.given == 2


def test_a_rejected_url_is_signed_with_new_credentials_and_others_are_with_it() -> None:
    class Server:
        given = 0

        def credentials(self, name: TableName) -> Credentials:
            self.given += 1
            keys = AwsTempCredentials(access_key_id=f"id{self.given}", secret_access_key="s", session_token="t")
            expires = int(time.time() * 1000) + HOUR_MS
            return Credentials(location="s3://bucket/orders", expiration_time=expires, aws_temp_credentials=keys)

    server = Server()
    storage = DirectoryStorage(server, NAME, {"region": "eu-west-1"})  # type: ignore[arg-type]
    one, other = (f"s3://bucket/orders/{name}" for name in "ab")
    first = [storage.signed(path) for path in (one, other)]
    assert storage.signed(one) is first[0]
    renewed = [storage.signed(path, old.url) for path, old in zip((one, other), first, strict=True)]
    assert ["id1" in url.url for url in first] == ["id2" in url.url for url in renewed] == [True, True]
    assert server.given == 2


OPTIONS: dict[str, tuple[Credentials, dict[str, str]]] = {
    "aws": (
        Credentials(location="s3a://b/t", expiration_time=1, aws_temp_credentials=AWS),
        {"access_key_id": "id", "secret_access_key": "secret", "session_token": "session"},
    ),
    "azure": (
        Credentials(
            location="abfss://c@a.dfs.core.windows.net/t",
            expiration_time=1,
            azure_user_delegation_sas=AzureUserDelegationSas(sas_token="?sv=1&sig=x"),
        ),
        {"sas_key": "sv=1&sig=x"},
    ),
}


@pytest.mark.parametrize("cloud", OPTIONS)
def test_credentials_are_options_by_the_names_of_obstore(cloud: str) -> None:
    given, expected = OPTIONS[cloud]
    assert storage_options(given) == expected


def test_a_token_of_google_is_sent_to_the_storage() -> None:
    google = GcpOauthToken(oauth_token="token")
    expires = int(time.time() * 1000) + HOUR_MS
    given = Credentials(location="gs://bucket/t", expiration_time=expires, gcp_oauth_token=google)
    headers = {"last-modified": "Mon, 16 Nov 2026 00:00:00 GMT", "etag": "x"}
    with scripted(lambda _: reply(b"here", headers=headers)) as server:
        options = {"google_base_url": server.url, "allow_http": True}
        assert Storage({**options, **storage_options(given)}).read("gs://bucket/t/file") == b"here"
        assert [asked.headers["authorization"] for asked in server.asked] == ["Bearer token"]


@pytest.mark.parametrize("moment", [-(1 << 63), 0, 1 << 63])
def test_a_token_of_google_may_expire_at_any_time(moment: int) -> None:
    google = GcpOauthToken(oauth_token="token")
    given = Credentials(location="gs://bucket/t", expiration_time=moment, gcp_oauth_token=google)
    assert storage_options(given)["credential_provider"]()["token"] == "token"


def test_credentials_of_no_known_kind_are_refused() -> None:
    with pytest.raises(SharingError, match="no temporary credentials of a supported kind"):
        storage_options(Credentials(location="s3://b/t", expiration_time=1))


@pytest.mark.parametrize("location", ["hdfs://h/t", "/data/t", "file:///data/t"])
def test_a_storage_that_cannot_be_read_is_named(location: str) -> None:
    with pytest.raises(UnsupportedFeatureError, match="a storage that Lakeport does not support"):
        storage_options(Credentials(location=location, expiration_time=1, aws_temp_credentials=AWS))


@pytest.mark.parametrize(
    "line",
    [
        b'{"metaData":{}}',
        b'{"metaData":{"accessModes":["url"]}}',
        b'{"metaData":{"accessModes":["url","dir"]}}',
        b'{"metaData":{"accessModes":null}}',
        b'{"metaData":{"accessModes":7}}',
        b"{",
    ],
)
def test_a_table_is_offered_by_urls_unless_its_metadata_say_otherwise(line: bytes) -> None:
    check_offered_by_urls(line, NAME)


def test_a_table_that_is_offered_by_its_directory_only_is_told() -> None:
    with pytest.raises(SharingError, match="by its directory only") as failed:
        check_offered_by_urls(b'{"metaData":{"accessModes":["dir"]}}', NAME)
    assert failed.value.code == "DIRECTORY_ONLY"


def test_a_log_does_not_lead_to_the_readers_own_files_nor_to_other_hosts(tmp_path: Path) -> None:
    (tmp_path / "private").write_bytes(b"mine")

    def answer(asked: Asked) -> Steps:
        if asked.path.endswith("temporary-table-credentials"):
            keys = {"accessKeyId": "id", "secretAccessKey": "secret", "sessionToken": "session"}
            given = {"location": "s3://bucket/t", "expirationTime": 2**53, "awsTempCredentials": keys}
            return reply(json.dumps({"credentials": given}).encode())
        lines = [{"protocol": {"minReaderVersion": 1}}, {"metaData": {"auxiliaryLocations": ["s3://bucket/clone"]}}]
        headers = {"delta-table-version": "1", "delta-sharing-capabilities": "responseformat=parquet"}
        return reply("\n".join(map(json.dumps, lines)).encode(), headers=headers)

    with scripted(answer) as server, pool() as http:
        text = json.dumps({"shareCredentialsVersion": 1, "endpoint": server.url, "bearerToken": "t"})
        storage = DirectoryStorage(SharingServer(parse_profile(text), http), NAME, {})
        for path in [f"{tmp_path}/private", f"{server.url}/x", "s3://other/x", "s3://bucket/t/../other/x"]:
            with pytest.raises(AccessDeniedError, match="outside the directories that the server shares"):
                storage.read(path)
            with pytest.raises(AccessDeniedError):
                storage.status(path)
            with pytest.raises(AccessDeniedError):
                list(storage.read_many([FileStatus("s3://bucket/t/x", 1), FileStatus(path, 1)]))
        assert not [asked for asked in server.asked if asked.path == "/x"]
