"""What goes wrong is told in one clear message, where Spark's error begins."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import lakeport
from lakeport import tables
from lakeport.spark.failures import plain_errors
from lakeport.spark.frames import to_python_frame
from tests.client.shares import NOWHERE, Shared
from tests.server.running import TOKEN
from tests.spark.ways import read_lakeport, read_shared

IN_A_TASK = "An exception was thrown from the Python worker:"
"""What Spark itself writes in the first line if a task fails; the message follows in the next."""


def message(failed: pytest.ExceptionInfo[PySparkException]) -> str:
    """The line that has to say it all; no stack of Python comes after it."""
    lines = str(failed.value).strip().splitlines()
    assert "Traceback" not in str(failed.value)
    return lines[1] if lines[0].startswith(IN_A_TASK) else lines[0]


def refused(frame: Any) -> str:
    with pytest.raises(PySparkException) as failed:
        frame().collect()
    return message(failed)


def test_bad_options_are_told(spark: SparkSession, shared: Shared) -> None:
    target = shared.target("sales.eu.orders")
    assert "unknown option 'versionsasof': did you mean versionAsOf?" in refused(
        lambda: read_shared(spark, target, versionsAsOf=1)
    )
    assert "the option versionAsOf must be a number" in refused(lambda: read_shared(spark, target, versionAsOf="one"))
    assert "no table was given" in refused(lambda: spark.read.format("lakeport").load())
    assert "'orders' is not a shared table" in refused(lambda: read_shared(spark, "orders"))


def test_a_shared_table_is_not_written(spark: SparkSession, shared: Shared) -> None:
    with pytest.raises(PySparkException) as failed:
        spark.range(3).write.format("deltaSharing").mode("append").save(shared.target("sales.eu.orders"))
    assert "a shared table can only be read" in message(failed)


def test_a_missing_table_version_or_profile_is_told(spark: SparkSession, shared: Shared, tmp_path: Path) -> None:
    assert f"there is no Delta table at {tmp_path}/no" in refused(lambda: read_lakeport(spark, f"{tmp_path}/no"))
    assert "'sales.eu.no' does not exist" in refused(lambda: read_shared(spark, shared.target("sales.eu.no")))
    assert "it can read 0 to 1" in refused(lambda: read_shared(spark, shared.target("sales.eu.orders"), versionAsOf=9))
    assert f"no profile at {tmp_path}/p" in refused(lambda: read_shared(spark, f"{tmp_path}/p#a.b.c"))
    feed = {"readChangeFeed": True, "startingVersion": 0}
    assert "the change data feed is off at version 0" in refused(
        lambda: read_lakeport(spark, str(shared.folder / "cities"), **feed)
    )


def test_a_token_that_is_wrong_or_has_expired_is_told_without_it(spark: SparkSession, shared: Shared) -> None:
    profile = {"endpoint": shared.server.endpoint, "bearerToken": "not-the-token-of-ann"}
    told = refused(lambda: read_shared(spark, "sales.eu.orders", **profile))
    assert "the token is wrong or has expired" in told
    assert "not-the-token" not in told
    profile |= {"bearerToken": TOKEN, "expirationTime": "2020-01-01T00:00:00Z"}
    told = refused(lambda: read_shared(spark, "sales.eu.orders", **profile))
    assert "has expired (2020-01-01T00:00:00Z): ask the provider for a new profile" in told
    assert TOKEN not in told


def test_a_feature_that_is_not_supported_is_named(spark: SparkSession, tmp_path: Path) -> None:
    tables.create(str(tmp_path / "t"), {"id": [1]})
    log = tmp_path / "t" / "_delta_log"
    for checksum in log.glob("*.crc"):
        checksum.unlink()
    commit = log / f"{0:020d}.json"
    text = commit.read_text()
    lines = [line for line in text.splitlines() if '"protocol"' not in line]
    protocol = (
        '{"protocol":{"minReaderVersion":3,"minWriterVersion":7,"readerFeatures":["warp"],"writerFeatures":["warp"]}}'
    )
    commit.write_text("\n".join([protocol, *lines]) + "\n")
    assert "the table needs the reader feature warp" in refused(lambda: read_lakeport(spark, str(tmp_path / "t")))


def test_a_file_that_is_gone_is_told_by_the_task(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    tables.create(str(path), {"id": [1, 2]})
    planned = [read_lakeport(spark, str(path)), to_python_frame(lakeport.scan(str(path)), spark)]
    for file in path.glob("*.parquet"):
        file.unlink()
    for frame in planned:
        assert "the file does not exist; it may have been vacuumed" in refused(lambda frame=frame: frame)


def test_a_server_that_is_gone_is_told(spark: SparkSession) -> None:
    profile = {"endpoint": NOWHERE, "bearerToken": TOKEN}
    told = refused(lambda: read_shared(spark, "sales.eu.orders", **profile))
    assert "127.0.0.1:1" in told
    assert TOKEN not in told


def test_an_error_for_the_user_hides_its_stack_and_another_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_HIDE_TRACEBACK", raising=False)
    with pytest.raises(KeyError), plain_errors():
        raise KeyError("a mistake of ours")
    assert "SPARK_HIDE_TRACEBACK" not in os.environ
    with pytest.raises(ValueError, match="clear"), plain_errors():
        raise ValueError("clear")
    assert os.environ.pop("SPARK_HIDE_TRACEBACK") == "1"
