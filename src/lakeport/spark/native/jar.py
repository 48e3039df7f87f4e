"""Loads the jar of `jvm/` into a Spark session, even a running one."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from pyspark import SparkContext
from pyspark.sql import SparkSession

JAR = Path(__file__).with_name("lakeport-spark.jar")
_VERSIONS = ("4.1.", "4.2.", "4.3.")
"""The jar uses Spark internals, so it supports only these versions."""
_SCAN_FRAMES = "io.lakeport.spark.ScanFrames"
_KNOWN: WeakKeyDictionary[SparkContext, Any] = WeakKeyDictionary()


def why_not(spark: SparkSession) -> str | None:
    """Why the jar cannot be used in a session; None if it can."""
    if getattr(spark, "_jvm", None) is None:
        return "the session is remote (Spark Connect)"
    if not spark.version.startswith(_VERSIONS):
        return f"the jar does not support Spark {spark.version}"
    if not JAR.exists():
        return "the package was built without a JDK, so it has no jar"
    return None


def scan_frames(spark: SparkSession) -> Any:
    """The session's `ScanFrames`, which builds frames in its JVM; adds the jar on first use."""
    context = spark.sparkContext
    if context not in _KNOWN:
        gateway: Any = context._gateway
        none = {kind: gateway.new_array(getattr(gateway.jvm.java.lang, kind), 0) for kind in ("Class", "Object")}
        _KNOWN[context] = _loaded(spark).getConstructor(none["Class"]).newInstance(none["Object"])
    return _KNOWN[context]


def _loaded(spark: SparkSession) -> Any:
    jvm: Any = spark._jvm
    loader = jvm.org.apache.spark.util.Utils.getContextOrSparkClassLoader()
    try:
        return jvm.java.lang.Class.forName(_SCAN_FRAMES, True, loader)
    except Exception:  # py4j has one exception class for all of Java's
        return jvm.java.lang.Class.forName(_SCAN_FRAMES, True, _add(spark))


def _add(spark: SparkSession) -> Any:
    """The class loader with the jar. Hadoop has its own, which it uses to find file systems."""
    session: Any = spark._jsparkSession
    loader = session.sharedState().jarClassLoader()
    if str(JAR.as_uri()) not in [url.toString() for url in loader.getURLs()]:
        session.sparkContext().addJar(str(JAR))
        loader.addURL(spark._jvm.java.io.File(str(JAR)).toURI().toURL())  # type: ignore[union-attr]
    session.sparkContext().hadoopConfiguration().setClassLoader(loader)
    return loader
