"""The jar of `jvm/` in a Spark session, also in one that runs already."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

JAR = Path(__file__).with_name("lakeport-spark.jar")
FILE_SYSTEM = "io.lakeport.spark.ScanFileSystem"
LIVING_ROWS = "io.lakeport.spark.LivingRows"
LIFETIME = "io.lakeport.spark.Lifetime"


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


def new_instance(spark: SparkSession, name: str, *texts: str) -> Any:
    """An object of a class of the jar, whose constructor takes texts."""
    gateway: Any = spark.sparkContext._gateway
    kinds = _array(gateway, "java.lang.Class", [_class_of(spark, "java.lang.String")] * len(texts))
    return load_class(spark, name).getConstructor(kinds).newInstance(_array(gateway, "java.lang.Object", texts))


def call_static(spark: SparkSession, name: str, method: str, subject: Any, *texts: str) -> None:
    """Calls a method of a class of the jar that takes any object, and texts."""
    gateway: Any = spark.sparkContext._gateway
    kinds = [_class_of(spark, "java.lang.Object"), *[_class_of(spark, "java.lang.String")] * len(texts)]
    found = load_class(spark, name).getMethod(method, _array(gateway, "java.lang.Class", kinds))
    found.invoke(None, _array(gateway, "java.lang.Object", [subject, *texts]))


def _class_of(spark: SparkSession, name: str) -> Any:
    return spark._jvm.java.lang.Class.forName(name)  # type: ignore[union-attr]


def _array(gateway: Any, kind: str, values: Sequence[Any]) -> Any:
    array = gateway.new_array(getattr(gateway.jvm.java.lang, kind.rpartition(".")[2]), len(values))
    for number, value in enumerate(values):
        array[number] = value
    return array


def _add(spark: SparkSession) -> Any:
    """The class loader that has the jar. Hadoop keeps one of its own, in which it looks for file systems."""
    session: Any = spark._jsparkSession
    loader = session.sharedState().jarClassLoader()
    if str(JAR.as_uri()) not in [url.toString() for url in loader.getURLs()]:
        session.sparkContext().addJar(str(JAR))
        loader.addURL(spark._jvm.java.io.File(str(JAR)).toURI().toURL())  # type: ignore[union-attr]
    session.sparkContext().hadoopConfiguration().setClassLoader(loader)
    return loader
