"""Tables that hints are tried on."""

from lakeport.engine import memory_engine
from lakeport.kernel.snapshot import Snapshot
from lakeport.testing.builder import TableBuilder, struct
from tests.sharing.predicates.hints import PARTITIONED

PARTITION_COLUMNS = [f"p_{kind}" for kind in PARTITIONED]


def three_files() -> Snapshot:
    """Files 0, 1 and 2: `id` is ten times as much, up to 9 more; file 2 also has a null in it."""
    schema = struct(id="long", name="string", at="timestamp", price="double", part="integer", flag="boolean")
    table = TableBuilder(memory_engine(), "memory:///t", schema, ["part", "flag"]).create()
    for part in range(3):
        ids: list[int | None] = [part * 10, part * 10 + 9, *([None] if part == 2 else [])]
        texts = [None if i is None else f"n{i:02d}" for i in ids]
        values = {"id": ids, "name": texts, "price": [None if i is None else i / 2 for i in ids]}
        table.commit(table.add(values, {"part": str(part), "flag": str(part == 1).lower()}, name=f"{part}.parquet"))
    return table.snapshot()
