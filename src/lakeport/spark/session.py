"""A Spark session with everything configured, and without the startup messages that users cannot act on."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

from pyspark.sql import SparkSession
from pyspark.util import is_remote_only

from lakeport.spark.native.document import FIELD_IDS
from lakeport.spark.native.jar import JAR

if not is_remote_only():  # PySpark without a JVM has neither
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

_PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
_BATCH_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
_UNLIMITED = str(2**31 - 1)
"""Below this, Spark adds up the sizes of all columns after each row sent to Python, which takes longer than writing the
rows. Another setting limits the rows per batch."""
_REDACTION = "spark.redaction.regex"
_SECRETS = "(?i)secret|password|token|access[.]?key|account[._]?key|sas|credential"
"""Options whose values Spark redacts: its own, and those of storages."""
_JARS = "spark.jars"
LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")
_OPTIONS = "SPARK_SUBMIT_OPTS"
"""Java options of a driver. Those in Spark's settings follow on the command line, and win."""
_INCUBATOR = b"WARNING: Using incubator modules: "
"""Printed by Java before any configuration is read: Spark uses such a module in every session."""
_STDERR = 2


def session(name: str = "lakeport", **conf: str) -> SparkSession:
    """The existing session, or a new one: its workers use this interpreter, the formats accept filters, rows reach
    Python at full speed, and Spark's own reader is used if possible, even for tables with column mapping by id. `conf`
    are Spark settings, with underscores for dots: `spark_sql_shuffle_partitions="4"`."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings = {_PUSHDOWN: "true", FIELD_IDS: "true", _BATCH_BYTES: _UNLIMITED, _REDACTION: _SECRETS}
    settings |= {key.replace("_", "."): value for key, value in conf.items()}
    if JAR.exists():
        settings[_JARS] = ",".join(filter(None, [settings.get(_JARS), str(JAR)]))
    launch_quietly({**settings, "spark.app.name": name})
    builder = SparkSession.builder.appName(name)
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def launch_quietly(settings: Mapping[str, str]) -> None:
    """Start a JVM and a Spark context with these settings, unless this process has a JVM or uses Spark Connect."""
    if _connects(settings) or "PYSPARK_GATEWAY_PORT" in os.environ:
        return
    if SparkContext._gateway is not None:
        return
    conf = SparkConf()
    for key, value in settings.items():
        conf.set(key, value)
    with log_settings(), _filtered_stderr() as stderr:
        gateway = launch_gateway(conf, {"stderr": stderr})  # type: ignore[no-untyped-call]
    SparkContext(conf=conf, gateway=gateway)


def _connects(settings: Mapping[str, str]) -> bool:
    """Whether PySpark would use Spark Connect."""
    default = "connect" if os.environ.get("SPARK_CONNECT_MODE") == "1" else "classic"
    mode = settings.get("spark.api.mode") or os.environ.get("SPARK_API_MODE") or default
    named = {"SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED"} & os.environ.keys() or "spark.remote" in settings
    return mode.lower() == "connect" or bool(named) or is_remote_only()


@contextmanager
def log_settings() -> Iterator[None]:
    """Make a JVM started in this block log according to `log4j2.properties`, unless the user has their own file."""
    given = os.environ.get(_OPTIONS)
    if not _has_log_settings():
        os.environ[_OPTIONS] = f'"-Dlog4j2.configurationFile={LOG_SETTINGS.as_uri()}" {given or ""}'
    try:
        yield
    finally:
        if given is None:
            os.environ.pop(_OPTIONS, None)
        else:
            os.environ[_OPTIONS] = given


def _has_log_settings() -> bool:
    """Whether log4j finds a user's configuration by itself."""
    home = os.environ.get("SPARK_HOME")
    places = [os.environ.get("SPARK_CONF_DIR"), home and os.path.join(home, "conf")]
    found = (file for place in places if place for file in Path(place).glob("log4j2*"))
    return "LOG4J_CONFIGURATION_FILE" in os.environ or any(file.suffix != ".template" for file in found)


@contextmanager
def _filtered_stderr() -> Iterator[int]:
    """A file descriptor for this process's stderr, which drops Java's warning until the block ends."""
    reading, writing = os.pipe()
    started = Event()
    Thread(target=_relay, args=(reading, started), name="lakeport-spark-stderr", daemon=True).start()
    try:
        yield writing
    finally:
        started.set()
        os.close(writing)


def _relay(reading: int, started: Event) -> None:
    """Copy a pipe to stderr until all its writers exit: the JVM, and the Python workers that it starts."""
    pending = b""
    while chunk := os.read(reading, 1 << 16):
        pending += chunk
        if not started.is_set():
            *lines, pending = pending.split(b"\n")
            text = b"".join(line + b"\n" for line in lines if not line.startswith(_INCUBATOR))
            if pending and not _INCUBATOR.startswith(pending[: len(_INCUBATOR)]):
                text, pending = text + pending, b""
        else:
            text, pending = pending, b""
        _write(text)
    _write(pending)
    os.close(reading)


def _write(text: bytes) -> None:
    try:
        while text:
            text = text[os.write(_STDERR, text) :]
    except OSError:  # stderr is closed: keep draining so that Spark does not block on a full pipe
        pass
