"""A Spark session for the tests of `lakeport.spark`, and a server that shares the real tables; one for all of them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from lakeport.spark.native.jar import JAR
from tests.conftest import missing

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
def native_jar() -> None:
    """What lets Spark's own reader read scans; `make setup` builds it where there is a JDK."""
    if not JAR.exists():
        missing(f"there is no {JAR}: install a JDK, 17 or newer, and run make setup")
