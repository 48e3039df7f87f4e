"""The tables that `deltalake` (delta-rs) writes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
from deltalake import (
    CommitProperties,
    DeltaTable,
    PostCommitHookProperties,
    TableFeatures,
    Transaction,
    WriterProperties,
    write_deltalake,
)

DAY = 86_400
FEED = {"delta.enableChangeDataFeed": "true"}
AT = datetime(2026, 1, 31, 12, 34, 56, 789012)


def rows(first: int, last: int) -> pa.Table:
    schema = pa.schema([("id", pa.int64()), ("n", pa.int64()), ("name", pa.string())])
    return pa.Table.from_pylist([{"id": i, "n": i * 10, "name": f"name {i}"} for i in range(first, last)], schema)


def append(path: str, first: int, last: int) -> None:
    write_deltalake(path, rows(first, last), mode="append")


def changed(path: str) -> None:
    """Each kind of change of rows."""
    write_deltalake(path, rows(0, 10))
    append(path, 10, 15)
    DeltaTable(path).delete("id % 4 = 1")
    DeltaTable(path).update({"n": "-n"}, predicate="id < 5")
    merge(path)
    DeltaTable(path).optimize.compact()
    DeltaTable(path).optimize.z_order(["n"])
    write_deltalake(path, rows(50, 52), mode="overwrite")
    DeltaTable(path).restore(4)


def merge(path: str) -> None:
    merger = DeltaTable(path).merge(rows(8, 20), "s.id = t.id", source_alias="s", target_alias="t")
    merger = merger.when_matched_delete("s.id = 10").when_matched_update({"name": "'merged'"})
    merger.when_not_matched_insert_all().execute()


def feed(path: str) -> None:
    write_deltalake(path, rows(0, 10), configuration=FEED)
    append(path, 10, 15)
    DeltaTable(path).delete("id % 4 = 1")
    DeltaTable(path).update({"n": "-n"}, predicate="id < 5")
    merge(path)
    write_deltalake(path, rows(50, 52), mode="overwrite", predicate="id >= 15")
    DeltaTable(path).delete()


def feed_partitioned(path: str) -> None:
    data = pa.table({"id": [1, 2, 3, 4], "part": ["a", "c", None, "d"], "day": [date(2026, 1, 31)] * 3 + [None]})
    write_deltalake(path, data, partition_by=["part", "day"], configuration=FEED)
    DeltaTable(path).update({"part": "'moved'"}, predicate="id = 2")
    DeltaTable(path).delete("part = 'a'")
    write_deltalake(path, data.slice(2, 1), mode="append")


def classic_checkpoint(path: str) -> None:
    write_deltalake(path, rows(0, 3), configuration={"delta.checkpointInterval": "2"})
    for first in (3, 5, 7, 9):
        append(path, first, first + 2)
    DeltaTable(path).delete("id = 4")


def v2_checkpoint(path: str) -> None:
    write_deltalake(path, rows(0, 3), configuration={"delta.checkpointPolicy": "v2"})
    append(path, 3, 5)
    DeltaTable(path).delete("id = 4")
    DeltaTable(path).create_checkpoint()
    append(path, 5, 7)


def compacted_log(path: str) -> None:
    write_deltalake(path, rows(0, 3))
    append(path, 3, 5)
    DeltaTable(path).delete("id = 4")
    DeltaTable(path).optimize.compact()
    DeltaTable(path).compact_logs(1, 3)
    append(path, 5, 7)
    append(path, 7, 9)
    DeltaTable(path).compact_logs(4, 5)


def truncated_log(path: str) -> None:
    write_deltalake(path, rows(0, 3), configuration={"delta.logRetentionDuration": "interval 1 days"})
    for first in (3, 5, 7):
        append(path, first, first + 2)
    DeltaTable(path).create_checkpoint()
    then = time.time() - 3 * DAY
    for file in sorted(Path(path, "_delta_log").glob("*.json")):
        os.utime(file, (then, then))
    append(path, 9, 11)
    DeltaTable(path).cleanup_metadata()
    append(path, 11, 13)


def partitions(path: str) -> None:
    kinds = {
        "text": ["a b", "50%", "%20", "x/y", "#?&=+", "10:30", "São Paulo", "北京", 'a"b', " ", None],
        "whole": [-(2**63), 2**63 - 1, 0, 1, 2, 3, 4, 5, 6, 7, None],
        "flag": [True, False] * 5 + [None],
        "day": [date(1, 1, 1), date(9999, 12, 31), date(1969, 12, 31)] + [date(2026, 1, 31)] * 7 + [None],
        "at": [
            AT.replace(tzinfo=UTC),
            datetime(1900, 1, 1, tzinfo=UTC),
            *[datetime(2026, 1, 31, tzinfo=UTC)] * 8,
            None,
        ],
        "price": [Decimal("0.001"), Decimal("999999.999")] + [Decimal("1.500")] * 8 + [None],
    }
    data = pa.table({"id": range(11), **kinds})
    write_deltalake(path, data, partition_by=list(kinds))
    DeltaTable(path).delete("text = 'x/y'")


def nested(path: str) -> None:
    inner = pa.struct([("x", pa.int32()), ("list", pa.list_(pa.struct([("y", pa.string())])))])
    schema = pa.schema(
        [
            pa.field("id", pa.int64(), nullable=False),
            ("inner", inner),
            ("pairs", pa.map_(pa.string(), inner)),
            ("lists", pa.list_(pa.list_(pa.int8()))),
        ]
    )
    value = {"x": 1, "list": [{"y": "text"}, None, {"y": None}]}
    data = [
        {"id": 1, "inner": value, "pairs": [("k", value), ("none", None)], "lists": [[1, None], [], None]},
        {"id": 2, "inner": None, "pairs": None, "lists": None},
        {"id": 3, "inner": {"x": None, "list": []}, "pairs": [], "lists": []},
    ]
    write_deltalake(path, pa.Table.from_pylist(data, schema))
    DeltaTable(path).delete("id = 2")


def types(path: str) -> None:
    data = pa.table(
        {
            "b": pa.array([-128, None], pa.int8()),
            "s": pa.array([-32768, None], pa.int16()),
            "i": pa.array([2**31 - 1, None], pa.int32()),
            "l": pa.array([-(2**63), None], pa.int64()),
            "f": pa.array([float("inf"), None], pa.float32()),
            "d": pa.array([float("nan"), None], pa.float64()),
            "flag": pa.array([True, None]),
            "text": pa.array(["é\n", None], pa.large_string()),
            "raw": pa.array([b"\x00\xff", None]),
            "day": pa.array([date(1, 1, 1), None]),
            "big": pa.array([Decimal("9" * 38), None], pa.decimal128(38, 0)),
            "small": pa.array([Decimal("-0.01"), None], pa.decimal128(5, 2)),
            "at": pa.array([AT, None], pa.timestamp("us", "UTC")),
            "ntz": pa.array([AT, None], pa.timestamp("us")),
        }
    )
    write_deltalake(path, data)
    write_deltalake(path, data, mode="append", writer_properties=WriterProperties(compression="ZSTD"))
    DeltaTable(path).create_checkpoint()


def evolved(path: str) -> None:
    write_deltalake(path, rows(0, 3))
    write_deltalake(path, pa.table({"id": [3], "more": [1.5]}), mode="append", schema_mode="merge")
    write_deltalake(path, pa.table({"other": ["x"]}), mode="overwrite", schema_mode="overwrite")
    DeltaTable(path).alter.set_table_description("changed")
    DeltaTable(path).alter.set_table_properties({"delta.appendOnly": "true"})
    write_deltalake(path, pa.table({"other": ["y"]}), mode="append")


def upgraded(path: str) -> None:
    write_deltalake(path, rows(0, 3))
    DeltaTable(path).alter.add_constraint({"positive": "id >= 0"})
    DeltaTable(path).alter.set_table_properties(FEED)
    DeltaTable(path).delete("id = 1")
    DeltaTable(path).alter.add_feature(TableFeatures.TimestampWithoutTimezone, allow_protocol_versions_increase=True)
    ntz = pa.table({"id": [9], "ntz": pa.array([AT], pa.timestamp("us"))})
    write_deltalake(path, ntz, mode="append", schema_mode="merge")


def transactions(path: str) -> None:
    write_deltalake(path, rows(0, 2))
    for app, version in [("app one", 1), ("app two", 7), ("app one", 2)]:
        properties = CommitProperties(app_transactions=[Transaction(app, version, 1_700_000_000_000)])
        write_deltalake(path, rows(version, version + 1), mode="append", commit_properties=properties)
    DeltaTable(path).create_checkpoint()
    append(path, 20, 21)


def vacuumed(path: str) -> None:
    write_deltalake(path, rows(0, 5))
    DeltaTable(path).delete("id = 1")
    append(path, 5, 7)
    DeltaTable(path).vacuum(0, dry_run=False, enforce_retention_duration=False)
    append(path, 7, 8)


def empty(path: str) -> None:
    DeltaTable.create(path, rows(0, 0).schema, partition_by=["name"], name="nothing", description="no rows")


def without_statistics(path: str) -> None:
    configuration = {"delta.dataSkippingNumIndexedCols": "0"}
    write_deltalake(path, rows(0, 5), configuration=configuration, post_commithook_properties=quiet())
    DeltaTable(path).alter.set_table_properties({"delta.dataSkippingStatsColumns": "id,name"})
    append(path, 5, 8)


def quiet() -> PostCommitHookProperties:
    return PostCommitHookProperties(create_checkpoint=False)


def row_groups(path: str) -> None:
    properties = WriterProperties(max_row_group_size=5, write_batch_size=5, data_page_row_count_limit=2)
    write_deltalake(path, rows(0, 20), writer_properties=properties)
    DeltaTable(path).delete("id = 7")


MAKERS: dict[str, Callable[[str], None]] = {
    "changed": changed,
    "cdf": feed,
    "cdf-partitioned": feed_partitioned,
    "checkpoint-classic": classic_checkpoint,
    "checkpoint-v2": v2_checkpoint,
    "log-compacted": compacted_log,
    "truncated-log": truncated_log,
    "partition-values": partitions,
    "nested": nested,
    "types": types,
    "evolved": evolved,
    "upgraded": upgraded,
    "app-transactions": transactions,
    "vacuumed": vacuumed,
    "empty": empty,
    "few-statistics": without_statistics,
    "row-groups": row_groups,
}
LOSE_VERSIONS = {"truncated-log", "vacuumed"}
"""Tables whose first versions cannot be read in the end."""
