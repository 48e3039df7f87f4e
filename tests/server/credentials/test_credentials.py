"""Who gets temporary credentials and for what; a local server plays the token service of AWS."""

import logging
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from lakeport.errors import CatalogError, SharingError
from lakeport.server.catalog.model import Table
from lakeport.server.credentials import CredentialVendor
from lakeport.sharing.models import AwsTempCredentials
from tests.server.endpoints import Answer, Endpoint, Received, endpoint

TABLE = Table(
    id="6c28ff2a-1b2f-4c8e-9e75-2a57d2b1e3c4",
    share="s",
    schema="d",
    name="t",
    location="s3://bucket/data/t1",
    auxiliary_locations=("s3a://second/more/t1", "abfss://c@acct.dfs.core.windows.net/t1"),
    access_modes=("url", "dir"),
    history_shared=True,
)
START = 1_800_000_000.0
KEYS = {"access_key_id": "key-of-the-server", "secret_access_key": "secret-of-the-server"}

_SESSION = """<{0}Response xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><{0}Result><Credentials>
<AccessKeyId>temporary-{1}</AccessKeyId><SecretAccessKey>temporary-secret</SecretAccessKey>
<SessionToken>temporary-token</SessionToken><Expiration>{2}</Expiration>
</Credentials></{0}Result></{0}Response>"""


class Clock:
    def __init__(self) -> None:
        self.time = START

    def __call__(self) -> float:
        return self.time


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def sts(clock: Clock) -> Iterator[Endpoint]:
    def answer(request: Received) -> Answer:
        expires = datetime.fromtimestamp(clock() + int(request.form["DurationSeconds"]), UTC)
        number = len(place.received)
        return 200, _SESSION.format(request.form["Action"], number, expires.isoformat()).encode()

    with endpoint(answer) as place:
        yield place


def vendor(sts: Endpoint, clock: Clock, seconds: int = 3600, **aws: str) -> CredentialVendor:
    options = {"aws": {"stsEndpoint": sts.url, "roleArn": "arn:aws:iam::123456789012:role/reader", **aws}}
    return CredentialVendor(options, KEYS, seconds, clock)


def refused(vendor: CredentialVendor, table: Table, location: str | None = None) -> SharingError:
    with pytest.raises(SharingError) as error:
        vendor.credentials(table, location)
    return error.value


def test_credentials_are_for_the_tables_location_unless_another_is_named(sts: Endpoint, clock: Clock) -> None:
    given = vendor(sts, clock).credentials(TABLE, None)
    assert given.location == "s3://bucket/data/t1"
    assert given.expiration_time == int((START + 3600) * 1000)
    assert given.aws_temp_credentials == AwsTempCredentials(
        access_key_id="temporary-1", secret_access_key="temporary-secret", session_token="temporary-token"
    )
    assert given.azure_user_delegation_sas is given.gcp_oauth_token is None
    assert '"arn:aws:s3:::bucket/data/t1/*"' in sts.received[0].form["Policy"]


@pytest.mark.parametrize(
    ("location", "resource"),
    [
        ("s3://bucket/data/t1", "bucket/data/t1/*"),
        ("s3a://bucket/data/t1/", "bucket/data/t1/*"),
        ("s3://bucket/data/t1/_delta_log", "bucket/data/t1/_delta_log/*"),
        ("s3://second/more/t1", "second/more/t1/*"),
        ("s3://second/more/t1/day=1", "second/more/t1/day=1/*"),
    ],
)
def test_a_location_of_the_table_or_below_it_may_be_named(
    sts: Endpoint, clock: Clock, location: str, resource: str
) -> None:
    assert vendor(sts, clock).credentials(TABLE, location).location == location
    assert f'"arn:aws:s3:::{resource}"' in sts.received[0].form["Policy"]


@pytest.mark.parametrize(
    "location",
    [
        "s3://bucket/data/t10",
        "s3://bucket/data",
        "s3://bucket",
        "s3://bucket/data/t1/../t2",
        "s3://bucket/data/t1/%2e%2e/t2",
        "s3://other/data/t1",
        "s3://second/data/t1",
        "gs://bucket/data/t1",
        "file:///data/t1",
        "/data/t1",
        "",
        "*",
    ],
)
def test_any_other_location_is_refused_and_the_cloud_is_not_asked(sts: Endpoint, clock: Clock, location: str) -> None:
    error = refused(vendor(sts, clock), TABLE, location)
    assert (error.status, error.code) == (400, "INVALID_PARAMETER_VALUE")
    assert sts.received == []


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        (replace(TABLE, access_modes=("url",)), "access mode `dir`"),
        (replace(TABLE, history_shared=False), "every version"),
        (replace(TABLE, start_version=1), "every version"),
        (replace(TABLE, location="/data/t1"), "S3, Azure and GCS"),
        (replace(TABLE, location="file:///data/t1"), "S3, Azure and GCS"),
        (replace(TABLE, location="s3://bucket/" + "long/" * 400), "too long"),
    ],
)
def test_what_cannot_be_shared_by_its_directory_is_refused_with_the_reason(
    sts: Endpoint, clock: Clock, table: Table, reason: str
) -> None:
    error = refused(vendor(sts, clock), table)
    assert (error.status, error.code) == (400, "UNSUPPORTED_OPERATION")
    assert reason in str(error)
    assert sts.received == []


def test_credentials_are_given_again_while_half_of_their_time_is_left(sts: Endpoint, clock: Clock) -> None:
    source = vendor(sts, clock)
    names = []
    for moment in [0, 1799, 1800, 3599]:
        clock.time = START + moment
        given = source.credentials(TABLE, None)
        assert given.expiration_time / 1000 - clock() >= 1800
        assert given.aws_temp_credentials is not None
        names.append(given.aws_temp_credentials.access_key_id)
    assert names == ["temporary-1", "temporary-1", "temporary-2", "temporary-2"]


def test_two_spellings_of_a_location_share_credentials_and_keep_their_spelling(sts: Endpoint, clock: Clock) -> None:
    source = vendor(sts, clock)
    spellings = [None, "s3a://bucket/data/t1", "s3://bucket/data/t1/"]
    assert [source.credentials(TABLE, x).location for x in spellings] == ["s3://bucket/data/t1", *spellings[1:]]
    assert len(sts.received) == 1


def test_requests_at_once_ask_the_cloud_once_for_each_location(sts: Endpoint, clock: Clock) -> None:
    source = vendor(sts, clock)
    locations = [None, "s3://bucket/data/t1/_delta_log"] * 8
    with ThreadPoolExecutor(16) as pool:
        given = list(pool.map(lambda location: source.credentials(TABLE, location), locations))
    assert len(sts.received) == 2
    assert len({credentials.expiration_time for credentials in given}) == 1


def test_other_options_of_a_table_take_effect_at_once(sts: Endpoint, clock: Clock) -> None:
    source = vendor(sts, clock)
    source.credentials(TABLE, None)
    source.credentials(replace(TABLE, storage={"aws_access_key_id": "another", "aws_secret_access_key": "one"}), None)
    signers = [request.headers["Authorization"].partition("Credential=")[2].split("/")[0] for request in sts.received]
    assert signers == ["key-of-the-server", "another"]


def test_a_failure_of_the_cloud_is_told_without_its_reason_which_is_logged(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    denied = b"""<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Error><Type>Sender</Type>
<Code>AccessDenied</Code><Message>role/reader does not trust user/server</Message></Error></ErrorResponse>"""
    with endpoint(lambda request: (403, denied)) as sts:
        error = refused(vendor(sts, clock), TABLE)
    assert (error.status, error.code) == (500, "INTERNAL_ERROR")
    assert "reader" not in str(error)
    (record,) = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert "role/reader does not trust user/server" in record.getMessage()
    assert TABLE.id in record.getMessage()
    assert KEYS["secret_access_key"] not in caplog.text


def test_after_a_failure_the_cloud_is_asked_again(clock: Clock) -> None:
    def failing_once(request: Received) -> Answer:
        expires = datetime.fromtimestamp(clock() + 3600, UTC).isoformat()
        return (
            (400, b"<ErrorResponse/>")
            if len(sts.received) == 1
            else (200, _SESSION.format("AssumeRole", 2, expires).encode())
        )

    with endpoint(failing_once) as sts:
        source = vendor(sts, clock)
        assert refused(source, TABLE).status == 500
        assert source.credentials(TABLE, None).aws_temp_credentials is not None


_WITHOUT_LIBRARIES = """
import logging, sys
for name in ("boto3", "azure.storage.filedatalake", "azure.identity", "google.auth"):
    sys.modules[name] = None
from lakeport.errors import SharingError
from lakeport.server.catalog.model import Table
from lakeport.server.credentials import CredentialVendor
logging.basicConfig(format="%(message)s")
for location in ("s3://b/t", "abfss://c@acct.dfs.core.windows.net/t", "gs://b/t"):
    names = {"id": "1", "share": "s", "schema": "d", "name": "t"}
    table = Table(**names, location=location, access_modes=("dir",), history_shared=True)
    try:
        CredentialVendor({}, {}).credentials(table, None)
    except SharingError as error:
        print(error.status, error.code, error)
"""


def test_without_a_clouds_library_the_recipient_is_refused_and_the_provider_told_what_to_install() -> None:
    run = subprocess.run([sys.executable, "-c", _WITHOUT_LIBRARIES], capture_output=True, text=True, check=True)
    answers = run.stdout.splitlines()
    assert len(answers) == 3
    assert all(answer.startswith("400 UNSUPPORTED_OPERATION this server is not set up") for answer in answers)
    assert [f"pip install 'lakeport[{extra}]'" in run.stderr for extra in ("aws", "azure", "gcs")] == [True] * 3


@pytest.mark.parametrize(
    "options",
    [{"aws": {"rolearn": "x"}}, {"aws": {"roleArn": 5}}, {"minio": {}}, {"azure": {"hierarchicalNamespace": "yes"}}],
)
def test_options_that_make_no_sense_are_refused_at_the_start(options: dict[str, Any]) -> None:
    with pytest.raises(CatalogError, match=r"temporaryCredentials: .*"):
        CredentialVendor(options, {})
