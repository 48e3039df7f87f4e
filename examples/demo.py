"""Makes a small Delta table and reads it with Lakeport: `make demo`.

Lakeport does not write tables yet, so the first half writes one by hand, which shows how little a Delta table is:
Parquet files, and a log of JSON lines that says which of them count.
"""

import importlib.util
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import lakeport
from lakeport.kernel.deletion_vectors import encode_deletion_vector, encode_inline

SCHEMA = pa.schema([("id", pa.int64()), ("item", pa.string()), ("amount", pa.int64())])
DELTA_TYPES = {"id": "long", "item": "string", "amount": "long", "city": "string"}

# 1. The table, by hand


def commit(table: Path, version: int, operation: str, *actions: dict[str, Any]) -> None:
    """A version of the table is a file of actions; its name makes it so."""
    info = {"commitInfo": {"timestamp": time.time_ns() // 1_000_000, "operation": operation}}
    path = table / "_delta_log" / f"{version:020}.json"
    path.write_text("".join(json.dumps(action) + "\n" for action in (info, *actions)))


def create() -> list[dict[str, Any]]:
    """What a new table says of itself: which readers it needs, its columns, and what it is partitioned by."""
    fields = [{"name": n, "type": t, "nullable": True, "metadata": {}} for n, t in DELTA_TYPES.items()]
    features = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
    metadata = {"id": "demo", "format": {"provider": "parquet", "options": {}}, "partitionColumns": ["city"]}
    metadata |= {"schemaString": json.dumps({"type": "struct", "fields": fields}), "configuration": {}}
    return [{"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **features}}, {"metaData": metadata}]


def add(table: Path, city: str, ids: range) -> dict[str, Any]:
    """A data file with orders of one city, and the action that adds it; the city is in the log, not in the file."""
    rows = pa.table([list(ids), [f"item {i}" for i in ids], [i * 10 for i in ids]], schema=SCHEMA)
    path = f"city={quote(city, safe='')}/{ids.start}.parquet"
    (table / path).parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, table / path)
    low, high = {"id": ids[0], "amount": ids[0] * 10}, {"id": ids[-1], "amount": ids[-1] * 10}
    stats = {"numRecords": len(ids), "minValues": low, "maxValues": high, "nullCount": {"id": 0, "amount": 0}}
    told = {"path": quote(path, safe="/="), "partitionValues": {"city": city}, "size": (table / path).stat().st_size}
    return {"add": told | {"modificationTime": 0, "dataChange": True, "stats": json.dumps(stats)}}


def delete_rows(added: dict[str, Any], positions: list[int]) -> list[dict[str, Any]]:
    """Rows are deleted without touching the data file: it is added again, with a vector of the rows that are gone."""
    vector = encode_deletion_vector(np.array(positions, dtype=np.uint64))
    told = {"storageType": "i", "pathOrInlineDv": encode_inline(vector), "sizeInBytes": len(vector)}
    told |= {"cardinality": len(positions)}
    return [
        {"remove": {"path": added["add"]["path"], "dataChange": True}},
        {"add": added["add"] | {"deletionVector": told}},
    ]


def make_table(table: Path) -> None:
    (table / "_delta_log").mkdir(parents=True)
    oslo, cork = add(table, "Oslo", range(0, 100)), add(table, "Cork", range(100, 200))
    commit(table, 0, "CREATE TABLE AS SELECT", *create(), oslo, cork)
    commit(table, 1, "WRITE", add(table, "São Paulo", range(200, 300)))
    commit(table, 2, "DELETE", *delete_rows(oslo, [0, 1, 2, 50]))


# 2. Reading it


def read_table(table: Path) -> None:
    orders = lakeport.scan(str(table))
    print(f"The table is at version {orders.version} and has {orders.count()} rows, counted from the log alone.")
    assert (orders.version, orders.count()) == (2, 296)  # 300, less 4 deleted by the vector

    print("\nIts history:")
    for change in orders.history():
        print(f"  {change.version}  {change.operation}")

    large = orders.select("city", "id", "amount").where("city <> 'Cork' AND amount >= 2950")
    print(f"\nA filter reads only the files that can have such rows:\n\n{large.explain()}\n")
    rows = large.to_arrow()
    assert rows.to_pylist() == [{"city": "São Paulo", "id": i, "amount": i * 10} for i in range(295, 300)]
    assert len(large.files()) == 1
    print(f"It gives {rows.num_rows} rows: {rows['id'].to_pylist()}")

    before = orders.at(version=0)
    print(f"\nVersion 0 is still there, with {before.count()} rows; the deleted ones came back:")
    gone = before.where("id <= 2 OR id = 50").to_arrow()
    assert (before.count(), gone["id"].to_pylist()) == (200, [0, 1, 2, 50])
    assert orders.where("id <= 2 OR id = 50").count() == 0
    print(f"  {gone['item'].to_pylist()}")

    if importlib.util.find_spec("pandas"):
        sums = orders.to_pandas().groupby("city")["amount"].sum()
        print(f"\nIn pandas, what each city spent:\n{sums.to_string()}")
        assert sums["Oslo"] == sum(range(0, 1000, 10)) - 530

    print("\nThe same on the command line: lakeport head orders --where \"city = 'Cork'\" -n 3\n", flush=True)
    command = [sys.executable, "-m", "lakeport", "head", str(table), "--where", "city = 'Cork'", "-n", "3"]
    subprocess.run(command, check=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        make_table(Path(folder) / "orders")
        read_table(Path(folder) / "orders")
