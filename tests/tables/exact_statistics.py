"""Whether the statistics in a log are exact."""

import json

import pyarrow.parquet as pq

import lakeport
from lakeport.engine import default_engine
from lakeport.kernel.write import StatsCollector
from lakeport.tables.operation import begin_unless_done, open_snapshot


def check_statistics(path: str) -> None:
    """The statistics in the log are those of the files' rows."""
    engine = default_engine()
    transaction = begin_unless_done(open_snapshot(path, engine, None), "TEST")
    assert transaction is not None
    for file in lakeport.scan(path).files():
        collector = StatsCollector(transaction.write_context().stats_columns)
        for batch in pq.ParquetFile(file.path).iter_batches():
            collector.add(batch)
        found, wanted = json.loads(file.stats or "{}"), json.loads(collector.to_json(None))
        found.pop("tightBounds", None)
        assert found == wanted
