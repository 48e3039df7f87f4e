"""What failures are to recipients."""

import logging

import pytest

from lakeport.errors import (
    AccessDeniedError,
    ChangeFeedError,
    CorruptTableError,
    LakeportError,
    MissingFileError,
    SharingError,
    StorageError,
    TableNotFoundError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from lakeport.server.http.asgi import RequestRecord
from lakeport.server.http.refusals import refusal_of, without_locations

PLACE = "s3://secret-bucket/table"


@pytest.fixture
def record() -> RequestRecord:
    return RequestRecord({"method": "GET", "path": "/delta-sharing/shares", "headers": []}, "192.0.2.1")


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (SharingError("no", status=418, code="TEAPOT"), 418, "TEAPOT"),
        (VersionNotFoundError(f"no version 9 [{PLACE}]", version=9), 400, "INVALID_PARAMETER_VALUE"),
        (ChangeFeedError(f"not recorded at version 3 [{PLACE}]", version=3), 400, "INVALID_PARAMETER_VALUE"),
        (UnsupportedFeatureError(f"{PLACE} needs newFeature", features=["newFeature"]), 400, "UNSUPPORTED_OPERATION"),
        (TableNotFoundError(f"no table at {PLACE}", path=PLACE), 400, "RESOURCE_DOES_NOT_EXIST"),
        (MissingFileError("gone", path=f"{PLACE}/part-1"), 400, "RESOURCE_DOES_NOT_EXIST"),
        (AccessDeniedError("denied", path=PLACE), 400, "RESOURCE_DOES_NOT_EXIST"),
        (CorruptTableError("damaged", path=PLACE), 400, "RESOURCE_DOES_NOT_EXIST"),
        (StorageError("no answer", path=PLACE), 500, "INTERNAL_ERROR"),
        (LakeportError(PLACE), 500, "INTERNAL_ERROR"),
        (ZeroDivisionError(PLACE), 500, "INTERNAL_ERROR"),
    ],
)
def test_a_failure_becomes_a_refusal_that_does_not_tell_where(
    error: Exception, status: int, code: str, record: RequestRecord, caplog: pytest.LogCaptureFixture
) -> None:
    refusal = refusal_of(error, record, "/delta-sharing")
    assert (refusal.status, refusal.code) == (status, code)
    assert "secret-bucket" not in str(refusal)
    if status == 500:
        assert record.request_id in str(refusal)
        assert "secret-bucket" in caplog.text


def test_the_message_of_a_refusal_keeps_what_helps(record: RequestRecord) -> None:
    error = VersionNotFoundError(f"there is no version 9; the latest is 3 [{PLACE}]", version=9)
    assert str(refusal_of(error, record, "")) == "there is no version 9; the latest is 3"


@pytest.mark.parametrize(
    "error",
    [
        TableNotFoundError(f"no table at {PLACE}", path=PLACE),
        UnsupportedFeatureError(f"newFeature is not known; upgrade Lakeport [{PLACE}]", features=["newFeature"]),
    ],
)
def test_what_the_provider_has_to_mend_is_logged(
    error: LakeportError, record: RequestRecord, caplog: pytest.LogCaptureFixture
) -> None:
    refusal = refusal_of(error, record, "")
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    assert str(error) in caplog.text
    assert "upgrade" not in str(refusal)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("gone [/data/t/_delta_log]", "gone"),
        ("gone [abfss://c@a.dfs.core.windows.net/t]: twice", "gone: twice"),
        ("the file /data/secret/part-1.parquet is gone", "the file … is gone"),
        ("file:///data/t has no log", "… has no log"),
        ("3/4 of the rows, and/or more", "3/4 of the rows, and/or more"),
    ],
)
def test_locations_are_taken_out_of_messages(message: str, expected: str) -> None:
    assert without_locations(message) == expected
