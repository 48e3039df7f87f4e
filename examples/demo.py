"""Follow one table from a provider to the last reader: `make demo`, or `scripts/demo.sh` without make.

The pipeline on Spark is in pipeline.py. Exit codes: 0 success, 1 a row is wrong, 3 Spark was left out: no Java.
"""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, chdir, contextmanager, redirect_stderr, redirect_stdout
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lakeport
from lakeport import tables
from lakeport.cli.app import run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ACME, BIRCH = "acme/orders", "birch/clean_orders"
FROM_ACME, FROM_BIRCH = "birch/acme.share#sales.eu.orders", "cedar/birch.share#clean.eu.orders"
COLUMNS = ("id", "city", "amount")
ORDERS = [(1, "oslo", 120), (2, "CORK", 80), (3, "Oslo", 40), (4, "bari", None)]
CLEAN = [(1, "Oslo", 120), (2, "Cork", 80), (3, "Oslo", 40)]
CHANGED = [(1, "Oslo", 120), (3, "Oslo", 45), (4, "Bari", 300)]
PROPERTIES = {"delta.enableDeletionVectors": "true", "delta.enableChangeDataFeed": "true"}
JAVA = "install Java 17 or newer (Debian, Ubuntu: sudo apt-get install openjdk-17-jre-headless) or set JAVA_HOME"
WITHOUT_SPARK = 3

Rows = list[tuple[Any, ...]]


def main() -> int:
    started = time.monotonic()
    say("From a shop to an accountant by Delta Sharing, the open protocol for tables over HTTP:", bold=True)
    say("  Acme, a shop ── shares ──► Birch, with a pipeline on Spark ── shares ──► Cedar, an accountant")
    say("                               └── mirrors ──► any reader of Iceberg")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder, chdir(folder), ExitStack() as ends:
        for name in ("acme", "birch", "cedar"):
            Path(name).mkdir()
        with act(1, "Acme keeps its orders in a Delta table and lets Birch read it over HTTP."):
            share_orders(ends)
        with act(2, "Birch's Spark pipeline streams the orders, cleans them and merges them into its own table."):
            spark = start_spark(ends) if has_java() else None
            fill_table(spark)
        with act(3, "Birch mirrors its table for Iceberg readers, without copying data, and shares it with Cedar."):
            pass_on(ends)
        with act(4, "Acme changes and deletes orders, Birch runs its pipeline again, and every reader sees it."):
            change_orders(spark)
            show_downloads("acme", "birch")
            show_downloads("birch", "cedar")
    seconds = time.monotonic() - started
    if spark is None:
        say(f"\nDone in {seconds:.0f} s, without Spark: {JAVA}, and run the demo again.", bold=True)
        return WITHOUT_SPARK
    say(f"\nDone in {seconds:.0f} s; every row above is as expected. The pipeline: examples/pipeline.py", bold=True)
    return 0


def share_orders(ends: ExitStack) -> None:
    columns = dict(zip(COLUMNS, map(list, zip(*ORDERS, strict=True)), strict=True))
    tables.create(ACME, columns, properties=PROPERTIES)
    show({"Acme's table. Cities are spelled in different ways, and order 4 has no amount:": read(ACME)}, ORDERS)
    url, port = free_address()
    command("acme", "share add sales")
    command("acme", "table add sales.eu.orders orders --history")
    command("acme", f"recipient add birch --profile ../birch/acme.share --endpoint {url}")
    command("acme", "grant add birch sales")
    wait_for(start_server(ends, "acme", port), "acme")
    found = [(table.share, table.schema, table.name) for table in lakeport.connect("birch/acme.share").all_tables()]
    check("what Birch may read", found, [("sales", "eu", "orders")])
    say("  Birch got the file acme.share, with an address and a token, and can read one table: sales.eu.orders.")


def fill_table(spark: SparkSession | None) -> None:
    follow(spark, since=0)
    title = f"Birch's table, read by {reader(spark)}. Cities are spelled alike, and order 4 is left out:"
    show({title: read(BIRCH, spark)}, CLEAN)


def pass_on(ends: ExitStack) -> None:
    url, port = free_address()
    command("birch", "share add clean")
    command("birch", "table add clean.eu.orders clean_orders --history")
    command("birch", f"recipient add cedar --profile ../cedar/birch.share --endpoint {url}")
    command("birch", "grant add cedar clean")
    server = start_server(ends, "birch", port)
    files = data_files()
    command("birch", "convert clean_orders")
    check("data files that the mirror added", data_files() - files, set())
    mirror = read_mirror()
    wait_for(server, "birch")
    show({"The mirror, read by pyiceberg:": mirror, "Cedar's view, read by pandas:": read_as_cedar()}, CLEAN)


def change_orders(spark: SparkSession | None) -> None:
    command("acme", "update orders --set 'amount = 45' --where 'id = 3'")
    command("acme", "delete orders --where 'id = 2'")
    command("acme", "update orders --set 'amount = 300' --where 'id = 4'")
    before = marked_rows()
    follow(spark, since=1)
    merged = lakeport.scan(BIRCH).history()[0].info["operationMetrics"]
    counts = [int(merged[f"numTargetRows{change}"]) for change in ("Updated", "Deleted", "Inserted")]
    check("rows that the merge updated, deleted and inserted", counts, [1, 1, 1])
    after = marked_rows()
    check("data files that were rewritten", before.keys() - after.keys(), set())
    check("rows that deletion vectors mark", sum(after.values()), 2)
    say("  The pipeline resumed where it had stopped: in Birch's table, order 3 is updated, 2 deleted, 4 inserted.")
    say("  Birch's data files stay as they are: a deletion vector marks the old rows of orders 2 and 3.")
    command("birch", "convert clean_orders")
    views = {
        f"Birch's table, read by {reader(spark)}:": read(BIRCH, spark),
        "The mirror, read by pyiceberg:": read_mirror(),
        "Cedar's view, read by pandas:": read_as_cedar(),
    }
    show(views, CHANGED)


def show_downloads(provider: str, recipient: str) -> None:
    """Print what the provider's audit log says of downloads; fail if one is not the recipient's."""
    lines = map(json.loads, Path(provider, "audit.jsonl").read_text().splitlines())
    downloads = [line for line in lines if line["operation"] == "file"]
    check(f"who downloaded from {provider}", {line["recipient"] for line in downloads}, {recipient})
    files, size = (sum(line[name] for line in downloads) for name in ("files", "bytes"))
    check(f"whether {recipient} downloaded anything", (files > 0, size > 0), (True, True))
    say(f"  {provider}/audit.jsonl: {recipient} made {files} downloads, {size:,} bytes in all.")


def start_spark(ends: ExitStack) -> SparkSession:
    import lakeport.spark

    started = time.monotonic()
    spark = lakeport.spark.session(
        "demo",
        spark_master="local[2]",
        spark_driver_extraJavaOptions="-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",  # for a process that ends soon
        spark_driver_host="127.0.0.1",
        spark_sql_shuffle_partitions="2",
        spark_ui_enabled="false",
        spark_ui_showConsoleProgress="false",
    )
    ends.callback(spark.stop)
    say(f"  Spark {spark.version} has started, in {time.monotonic() - started:.1f} s.")
    return spark


def follow(spark: SparkSession | None, since: int) -> None:
    """Run the pipeline. Without Spark, do the same in this process, with the changes since a version."""
    import pipeline

    if spark is not None:
        pipeline.follow(spark, FROM_ACME, BIRCH)
        return
    say("  There is no Java, so Spark is left out: Lakeport reads and merges the changes in Python.")
    pipeline.create_once(BIRCH)
    changes = lakeport.scan(FROM_ACME).changes(start=since).where("_change_type <> 'update_preimage'").to_arrow()
    newest = {row["id"]: row for row in sorted(changes.to_pylist(), key=itemgetter("_commit_version"))}
    for row in newest.values():
        row["city"] = row["city"].strip().title()
        row["deleted"] = row["_change_type"] == "delete" or row["amount"] is None
    pipeline.merge_rows(BIRCH, list(newest.values()), None)


def reader(spark: SparkSession | None) -> str:
    return "Lakeport" if spark is None else "Spark"


def read(path: str, spark: SparkSession | None = None) -> Rows:
    frame = lakeport.scan(path).select(*COLUMNS)
    rows = frame.to_arrow().to_pylist() if spark is None else [row.asDict() for row in frame.to_spark(spark).collect()]
    return in_order(rows)


def read_mirror() -> Rows:
    from pyiceberg.table import StaticTable

    return in_order(StaticTable.from_metadata(f"{BIRCH}/_iceberg").scan().to_arrow().to_pylist())


def read_as_cedar() -> Rows:
    return in_order(lakeport.scan(FROM_BIRCH).to_pandas().to_dict("records"))


def in_order(rows: list[dict[str, Any]]) -> Rows:
    return sorted(tuple(row[name] for name in COLUMNS) for row in rows)


def marked_rows() -> dict[str, int]:
    """The data files of Birch's table, each with the number of rows that a deletion vector marks as deleted."""
    vectors = {file.path: file.deletion_vector for file in lakeport.scan(BIRCH).files()}
    return {path: vector.cardinality if vector else 0 for path, vector in vectors.items()}


def data_files() -> set[Path]:
    """All data files that there are, of Acme's table, Birch's and the mirror's."""
    return set(Path().rglob("*.parquet"))


@contextmanager
def act(number: int, line: str) -> Iterator[None]:
    started = time.monotonic()
    say(f"\nAct {number} of 4. {line}", bold=True)
    yield
    say(f"  Act {number} took {time.monotonic() - started:.1f} s.")


def say(text: str, bold: bool = False) -> None:
    print(f"\033[1m{text}\033[0m" if bold and sys.stdout.isatty() else text, flush=True)


def show(views: dict[str, Rows], expected: Rows) -> None:
    """Print the rows that readers see, side by side; fail unless each of them sees what it should."""
    blocks = [[title, *map(line_of, [COLUMNS, *rows])] for title, rows in views.items()]
    for lines in zip(*blocks, strict=False):
        say("  " + "".join(f"{line:<34}" for line in lines).rstrip())
    for title, rows in views.items():
        check(title, rows, expected)


def line_of(row: tuple[Any, ...]) -> str:
    number, city, amount = ("-" if value is None else value for value in row)
    return f"  {number:>2}  {city!s:<6}{amount:>7}"


def check(what: str, got: object, expected: object) -> None:
    if got != expected:
        sys.exit(f"The demo failed. {what.rstrip(':')}: expected {expected}, got {got}")


def command(folder: str, line: str) -> None:
    """Run a `lakeport` command in this process, in the folder of one of the three: that saves the start of another."""
    say(f"  {folder}$ lakeport {line}")
    output, errors = io.StringIO(), io.StringIO()
    with chdir(folder), redirect_stdout(output), redirect_stderr(errors):
        code = run(shlex.split(line))
    check(f"lakeport {line}: exit code ({errors.getvalue().strip()})", code, 0)


def start_server(ends: ExitStack, folder: str, port: int) -> subprocess.Popen[bytes]:
    """Start a sharing server that runs until the demo ends."""
    line = f"serve --port {port} --audit-log audit.jsonl"
    say(f"  {folder}$ lakeport {line} &")
    with Path(folder, "server.log").open("w") as log:
        server = subprocess.Popen([sys.executable, "-m", "lakeport", *line.split()], cwd=folder, stderr=log)
    ends.callback(server.wait, timeout=30)
    ends.callback(server.terminate)
    return server


def wait_for(server: subprocess.Popen[bytes], folder: str) -> None:
    while "listening on" not in (text := Path(folder, "server.log").read_text()):
        if server.poll() is not None:
            sys.exit(f"The demo failed: the server in {folder} stopped: {text}")
        time.sleep(0.05)


def free_address() -> tuple[str, int]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    return f"http://localhost:{port}/delta-sharing", port


def has_java() -> bool:
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=str(Path(home, "bin")) if home else None)
    if java is None:
        return False
    told = subprocess.run([java, "-version"], capture_output=True, text=True).stderr
    version = re.search(r'version "(\d+)', told)
    return version is not None and int(version[1]) >= 17


if __name__ == "__main__":
    sys.exit(main())
