"""Makes a small Delta table, changes it and reads it with Lakeport: `make demo`."""

import importlib.util
import subprocess
import sys
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import lakeport
from lakeport import tables


def orders_of(city: str, ids: range) -> pa.Table:
    return pa.table(
        {
            "id": list(ids),
            "city": [city] * len(ids),
            "item": [f"item {i}" for i in ids],
            "amount": [i * 10 for i in ids],
        }
    )


def say(heading: str) -> None:
    print(f"\n\033[1m{heading}\033[0m" if sys.stdout.isatty() else f"\n{heading}")


def write_table(path: str) -> None:
    say("A table with deletion vectors and a change data feed, partitioned by city")
    properties = {"delta.enableDeletionVectors": "true", "delta.enableChangeDataFeed": "true"}
    first = pa.concat_tables([orders_of("Oslo", range(0, 100)), orders_of("Cork", range(100, 200))])
    made = tables.create(path, first, partition_by=["city"], properties=properties)
    print(f"  version {made.version}: {made.metrics['numOutputRows']} rows in {made.metrics['numFiles']} files")

    say("More rows")
    added = tables.append(path, orders_of("São Paulo", range(200, 300)))
    print(f"  version {added.version}: {added.metrics['numOutputRows']} rows")

    say("Some rows go: they are marked in a deletion vector, and no data file is written again")
    files = sorted(Path(path).rglob("*.parquet"))
    gone = tables.delete(path, "id <= 2 OR id = 50")
    print(f"  version {gone.version}: {gone.metrics['numDeletedRows']} rows are gone")
    assert (gone.metrics["numDeletedRows"], sorted(Path(path).rglob("*.parquet"))) == (4, files)

    say("A merge: order 100 has a new amount, order 101 is cancelled, order 300 is new")
    news = pa.table(
        {
            "id": [100, 101, 300],
            "city": ["Cork", "Cork", "Oslo"],
            "item": ["item 100", "item 101", "item 300"],
            "amount": [7, 0, 3000],
            "cancelled": [False, True, False],
        }
    )
    values = {name: f"source.{name}" for name in ("id", "city", "item", "amount")}
    merged = (
        tables.merge(path, news, "target.id = source.id")
        .when_matched_delete("source.cancelled")
        .when_matched_update({"amount": "source.amount"})
        .when_not_matched_insert(values)
        .execute()
    )
    counts = [merged.metrics[f"numTargetRows{what}"] for what in ("Updated", "Deleted", "Inserted")]
    print(f"  version {merged.version}: {counts[0]} updated, {counts[1]} deleted, {counts[2]} inserted")
    assert counts == [1, 1, 1]


def read_table(path: str) -> None:
    orders = lakeport.scan(path)
    say(f"Reading it: version {orders.version} has {orders.count()} rows, counted from the log alone")
    assert (orders.version, orders.count()) == (3, 296)
    for commit in orders.history():
        print(f"  {commit.version}  {commit.operation}")

    say("A filter reads only the files that can have such rows")
    large = orders.select("city", "id", "amount").where("city <> 'Cork' AND amount >= 2960")
    print("\n".join(f"  {line}" for line in large.explain().replace(path, "…/orders").splitlines()))
    rows = large.to_arrow().sort_by("id")
    assert rows["id"].to_pylist() == [296, 297, 298, 299, 300]
    print(f"  → orders {rows['id'].to_pylist()}")

    say("What the merge changed, by the change data feed")
    changes = orders.changes(start=3).select("_change_type", "id", "amount").to_arrow()
    for change in changes.sort_by("id").to_pylist():
        print(f"  {change['_change_type']:<17}{change['id']:>4}{change['amount']:>6}")
    assert sorted(changes["_change_type"].to_pylist()) == ["delete", "insert", "update_postimage", "update_preimage"]

    say("Version 1 is still there: the rows that were deleted, and the amount that order 100 had")
    before = orders.at(version=1)
    then = before.where("id <= 2 OR id IN (50, 100)").to_arrow().sort_by("id")
    print(f"  orders {then['id'].to_pylist()}, amounts {then['amount'].to_pylist()}")
    assert (before.count(), then["amount"].to_pylist()) == (300, [0, 10, 20, 500, 1000])

    if importlib.util.find_spec("pandas"):
        say("In pandas, what each city spent")
        sums = orders.to_pandas().groupby("city")["amount"].sum()
        print("\n".join(f"  {city:<12}{amount:>8,}" for city, amount in sums.items()))
        assert sums["Oslo"] == sum(range(0, 1000, 10)) - 530 + 3000


def use_commands(path: str) -> None:
    pq.write_table(orders_of("Rome", range(400, 403)), Path(path).with_name("rome.parquet"))
    run("append", "orders", "rome.parquet", folder=path)
    run("head", "orders", "--where", "city = 'Rome'", folder=path)
    assert lakeport.scan(path).where("city = 'Rome'").count() == 3


def run(*arguments: str, folder: str) -> None:
    shown = [f'"{argument}"' if " " in argument else argument for argument in arguments]
    say(f"$ lakeport {' '.join(shown)}")
    sys.stdout.flush()
    subprocess.run([sys.executable, "-m", "lakeport", *arguments], check=True, cwd=Path(folder).parent)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        table = str(Path(folder).resolve() / "orders")
        write_table(table)
        read_table(table)
        use_commands(table)
