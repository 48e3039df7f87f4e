"""A Spark session for the tests of `lakeport.spark`, and a server that shares the real tables; one for all of them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakeport.spark.native.jar import JAR
from tests.client.shares import profile_text
from tests.client.test_shared_table import NUMBERS, name_of
from tests.conftest import missing
from tests.server.running import running, sharing
from tests.test_acceptance import path_of

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.memory", "1g")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture
def pushing(spark: SparkSession) -> Iterator[SparkSession]:
    """The session, with filters pushed to Python data sources."""
    spark.conf.set(PUSHDOWN, "true")
    yield spark
    spark.conf.unset(PUSHDOWN)


@pytest.fixture(scope="session")
def profile(shared_tables: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The profile for a server that shares all of the real tables."""
    path = tmp_path_factory.mktemp("profile") / "all.share"
    with running(sharing({name_of(name): path_of(name) for name in NUMBERS}, history_shared=True)) as server:
        path.write_text(profile_text(server.endpoint))
        yield path


@pytest.fixture(scope="session")
def native_jar() -> None:
    """What lets Spark's own reader read scans; `make setup` builds it where there is a JDK."""
    if not JAR.exists():
        missing(f"there is no {JAR}: install a JDK, 17 or newer, and run make setup")
