"""The jar of `jvm/` in a Spark session, also in one that runs already."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

JAR = Path(__file__).with_name("lakeport-spark.jar")
FILE_SYSTEM = "io.lakeport.spark.ScanFileSystem"
LIVING_ROWS = "io.lakeport.spark.LivingRows"
_LOADED = "spark.hadoop.fs.lakeport.impl"


def why_not(spark: SparkSession) -> str | None:
    """Why the jar cannot be used in a session; None if it can."""
    if getattr(spark, "_jvm", None) is None:
        return "the session is remote (Spark Connect)"
    if not JAR.exists():
        return "the package was built without a JDK, and has no jar"
    return None


def load_class(spark: SparkSession, name: str) -> Any:
    """A class of the jar, as the session's JVM has it. The jar is added to the session the first time."""
    jvm: Any = spark._jvm
    loader = jvm.org.apache.spark.util.Utils.getContextOrSparkClassLoader()
    try:
        return jvm.java.lang.Class.forName(name, True, loader)
    except Exception:  # py4j has one class of error for all of Java's
        loader = _add(spark)
    return jvm.java.lang.Class.forName(name, True, loader)


def _add(spark: SparkSession) -> Any:
    """The class loader that has the jar. Hadoop keeps one of its own, in which it looks for file systems."""
    session: Any = spark._jsparkSession
    loader = session.sharedState().jarClassLoader()
    if str(JAR.as_uri()) not in [url.toString() for url in loader.getURLs()]:
        session.sparkContext().addJar(str(JAR))
        loader.addURL(spark._jvm.java.io.File(str(JAR)).toURI().toURL())  # type: ignore[union-attr]
    session.sparkContext().hadoopConfiguration().setClassLoader(loader)
    return loader
