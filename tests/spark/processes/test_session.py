"""New sessions: they find the formats and show no secret; `lakeport.spark.session()` starts quietly."""

import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pyspark
import pytest

from tests.client.shares import sharing_tables
from tests.server.running import TOKEN

SESSION = import_module("lakeport.spark.session")  # the package has a function of this name
STARTING = """
import lakeport.spark
spark = lakeport.spark.session(
    spark_master="local[1]", spark_ui_enabled="false", spark_ui_showConsoleProgress="false"
)
assert spark.range(2).toPandas()["id"].tolist() == [0, 1]
spark.sparkContext._jvm.org.apache.logging.log4j.LogManager.getLogger("test").warn("a warning")
spark.sparkContext._jvm.System.err.print("no newline")
spark.stop()
"""


def test_a_session_prints_warnings_but_not_those_of_every_start() -> None:
    run = subprocess.run([sys.executable, "-W", "always", "-c", STARTING], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    *lines, last = run.stderr.splitlines()
    assert [line.partition(" WARN ")[2] for line in lines] == ["test: a warning"], run.stderr
    assert last == "no newline"


def test_log_settings_among_the_options_of_the_driver_win() -> None:
    """Java takes the last one of several."""
    options = "spark.driver.extraJavaOptions=-Dlog4j2.configurationFile=mine"
    home = Path(pyspark.__file__).parent
    launcher = ["java", "-cp", f"{home}/jars/*", "org.apache.spark.launcher.Main"]
    with SESSION.log_settings():
        command = [*launcher, "org.apache.spark.deploy.SparkSubmit", "--conf", options, "pyspark-shell"]
        environment = {**os.environ, "SPARK_HOME": str(home), "SPARK_SCALA_VERSION": "2.13"}
        run = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    given = [part for part in run.stdout.split("\0") if part.startswith("-Dlog4j2")]
    assert given == [f"-Dlog4j2.configurationFile={place}" for place in (SESSION.LOG_SETTINGS.as_uri(), "mine")]


@pytest.mark.parametrize(
    ("name", "is_found"), [("log4j2.properties", True), ("log4j2.xml", True), ("log4j2.properties.template", False)]
)
def test_a_file_in_the_directory_of_settings_is_left_alone(
    name: str, is_found: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / name).touch()
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-Dmine=1")
    with SESSION.log_settings():
        given = os.environ["SPARK_SUBMIT_OPTS"]
    assert (given == "-Dmine=1") == is_found
    assert given.endswith("-Dmine=1")
    assert os.environ["SPARK_SUBMIT_OPTS"] == "-Dmine=1"


@pytest.mark.parametrize("variable", ["SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED", "PYSPARK_GATEWAY_PORT"])
def test_no_driver_is_started_where_there_is_one(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, "1")
    monkeypatch.setattr(SESSION, "launch_gateway", None)
    SESSION.launch_quietly({})


FRESH = """
import sys, os
os.environ["PYSPARK_PYTHON"] = sys.executable
from pyspark.sql import SparkSession

folder, target, endpoint, token = sys.argv[1:]
spark = (
    SparkSession.builder.master("local[1]")
    .config("spark.ui.enabled", "false")
    .config("spark.driver.host", "127.0.0.1")
    .config("spark.eventLog.enabled", "true")
    .config("spark.eventLog.compress", "false")
    .config("spark.eventLog.dir", folder)
    .config("spark.sql.python.filterPushdown.enabled", "true")
    .getOrCreate()
)
spark.sparkContext.setLogLevel("INFO")
inline = {"endpoint": endpoint, "bearerToken": token}
frame = spark.read.format("deltaSharing").options(**inline).load("sales.eu.orders").where("id > 1")
frame.explain(extended=True)
print("rows:", frame.count(), spark.read.format("deltaSharing").load(target).count())
import lakeport
late = lakeport.scan(target).to_spark(spark)
late.explain(extended=True)
print("frame:", late.count())
spark.sql(f"CREATE TEMPORARY VIEW v USING deltaSharing OPTIONS (path 'sales.eu.orders', shareCredentialsVersion '1', "
          f"endpoint '{endpoint}', bearerToken '{token}')")
print("view:", spark.sql("SELECT * FROM v").count())
try:
    spark.read.format("deltaSharing").options(**inline, versionAsOf="99").load("sales.eu.orders").count()
except Exception as error:
    print(error)
spark.stop()
"""


def test_a_new_session_finds_the_formats_and_shows_no_secret(tmp_path: Path) -> None:
    """Neither plans nor logs nor the event log, which is what the UI shows, have a token or a signature."""
    events = tmp_path / "events"
    events.mkdir()
    script = tmp_path / "fresh.py"
    script.write_text(FRESH)
    with sharing_tables(tmp_path) as shared:
        arguments = [str(events), shared.target("sales.eu.orders"), shared.server.endpoint, TOKEN]
        ran = subprocess.run([sys.executable, str(script), *arguments], capture_output=True, text=True, timeout=600)
    assert ran.returncode == 0, ran.stderr[-3000:]
    assert "rows: 3 4" in ran.stdout
    assert "frame: 4" in ran.stdout
    assert "view: 4" in ran.stdout
    assert "no version 99" in ran.stdout
    logged = {path.name: path.read_text(errors="replace") for path in events.rglob("*") if path.is_file()}
    assert any("SparkListenerSQLExecutionStart" in text for text in logged.values())
    for name, text in {**logged, "out": ran.stdout, "err": ran.stderr}.items():
        for secret in (TOKEN, "X-Amz-Signature", "expires="):
            assert secret not in text, (name, text[max(0, text.find(secret) - 300) :][:600])
