"""Dates and timestamps of years before 1 and after 9999, in partitions and in rows, are found and changed."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lakeport
from lakeport import col, tables
from lakeport.engine import default_engine
from lakeport.errors import ConstraintError, InvalidDataError
from lakeport.kernel.expressions import Expression, lit
from lakeport.kernel.snapshot import Table
from lakeport.tables.write.overwrite import Replacing
from lakeport.tables.write.planned import commit_files, plan_overwrite, write_task

TEXTS = ["-5877641-06-23", "-0044-03-15", "0000-02-29", "0001-01-01", "9999-12-31", "12345-01-01", "32766-12-31"]
DAYS = [int(np.datetime64(text, "D").astype(np.int64)) for text in TEXTS]
DAY = 86_400_000_000
TYPES = {"date": pa.date32(), "timestamp": pa.timestamp("us", "UTC"), "timestamp_ntz": pa.timestamp("us")}

each_type = pytest.mark.parametrize("kind", TYPES)
each_layout = pytest.mark.parametrize("partitioned", [True, False], ids=["partitioned", "unpartitioned"])


def texts_of(kind: str) -> list[str]:
    return TEXTS if kind == "date" else TEXTS[1:]  # no timestamp is as early as the first


def column(kind: str, texts: list[str]) -> pa.Array:
    days = [DAYS[TEXTS.index(text)] for text in texts]
    if kind == "date":
        return pa.array(days, pa.int32()).cast(pa.date32())
    return pa.array([day * DAY for day in days], pa.int64()).cast(TYPES[kind])


def rows(kind: str, texts: list[str], value: str) -> pa.Table:
    return pa.table({"at": column(kind, texts), "text": texts, "v": [value] * len(texts)})


def create(path: Path, kind: str, partitioned: bool) -> str:
    target = str(path / "table")
    tables.create(target, rows(kind, texts_of(kind), "old"), partition_by=["at"] if partitioned else [])
    return target


def values(target: str, condition: str | Expression | None = None) -> dict[str, str]:
    """The values by the texts, which are checked against the dates."""
    frame = lakeport.scan(target)
    found = (frame if condition is None else frame.where(condition)).to_arrow()
    texts = found["text"].to_pylist()
    stored = pa.int32() if pa.types.is_date32(found["at"].type) else pa.int64()
    kind = next(name for name, data_type in TYPES.items() if data_type == found["at"].type)
    assert found["at"].cast(stored).to_pylist() == column(kind, texts).cast(stored).to_pylist()
    return dict(zip(texts, found["v"].to_pylist(), strict=True))


@each_type
@each_layout
@pytest.mark.parametrize("op", ["=", "<", ">=", "<>"])
def test_rows_are_found_by_every_spelling(tmp_path: Path, kind: str, partitioned: bool, op: Any) -> None:
    target, texts = create(tmp_path, kind, partitioned), texts_of(kind)
    for text, day in zip(TEXTS, DAYS, strict=True):
        if text not in texts:
            continue
        compare = {"=": day.__eq__, "<": day.__gt__, ">=": day.__le__, "<>": day.__ne__}[op]
        expected = {other for other in texts if compare(DAYS[TEXTS.index(other)])}
        signed = text if text[0] == "-" else f"+{text}"
        for spelled in (f"'{text}'", f"'{signed}'", f"{kind.upper()} '{text}'", f"CAST('{signed}' AS {kind.upper()})"):
            assert values(target, f"at {op} {spelled}").keys() == expected, spelled
    everything = values(target)
    assert values(target, col("at") >= np.datetime64("12345-01-01")).keys() == set(texts[-2:])
    assert values(target, f"at BETWEEN '{texts[0]}' AND '{texts[-1]}'") == everything
    assert values(target, f"coalesce(at, '{TEXTS[1]}') IN ('{TEXTS[1]}', '{TEXTS[2]}')").keys() == set(TEXTS[1:3])


@each_type
def test_dynamic_partitions_of_far_years_are_replaced(tmp_path: Path, kind: str) -> None:
    target, texts = create(tmp_path, kind, True), texts_of(kind)
    replaced = [texts[0], texts[-2]]
    tables.overwrite(target, rows(kind, replaced, "new"), partitions="dynamic")
    assert values(target) == {text: "new" if text in replaced else "old" for text in texts}


@each_type
def test_files_that_others_wrote_replace_dynamic_partitions(tmp_path: Path, kind: str) -> None:
    target, new = create(tmp_path, kind, True), rows(kind, ["12345-01-01"], "new")
    engine = default_engine()
    snapshot = Table.for_path(engine, target).latest_snapshot()
    planned = plan_overwrite(snapshot, snapshot.schema, Replacing(partitions="dynamic"))
    assert planned is not None
    commit_files(engine, planned, [write_task(engine, planned, new.to_batches())])
    assert values(target) == {text: "new" if text == "12345-01-01" else "old" for text in texts_of(kind)}


@each_type
@each_layout
def test_rows_of_far_years_are_deleted_and_updated(tmp_path: Path, kind: str, partitioned: bool) -> None:
    target, texts = create(tmp_path, kind, partitioned), texts_of(kind)
    tables.delete(target, "at = '-0044-03-15'")
    tables.update(target, {"v": "'later'"}, f"at > {kind.upper()} '+10000-01-01'")
    tables.update(target, {"v": "'moved'", "at": "'12345-01-01'", "text": "'12345-01-01'"}, "text = '32766-12-31'")
    assert "-0044-03-15" not in (left := values(target))
    assert set(left) == set(texts) - {"-0044-03-15", "32766-12-31"}
    assert left["9999-12-31"] == "old"
    assert lakeport.scan(target).where("at = '12345-01-01'").count() == 2


@each_type
def test_a_condition_on_far_years_replaces_rows_and_holds_for_new_ones(tmp_path: Path, kind: str) -> None:
    target = create(tmp_path, kind, True)
    for condition in ("at >= '12345-01-01'", col("at") >= lit(np.datetime64("12345-01-01"))):
        tables.overwrite(target, rows(kind, ["12345-01-01"], "new"), where=condition)
        assert values(target).keys() == set(texts_of(kind)[:-1])
        with pytest.raises(ConstraintError):
            tables.overwrite(target, rows(kind, ["9999-12-31"], "new"), where=condition)


@each_type
@each_layout
def test_far_years_are_keys_of_merges(tmp_path: Path, kind: str, partitioned: bool) -> None:
    target, texts = create(tmp_path, kind, partitioned), texts_of(kind)
    source = rows(kind, texts[-2:], "new")
    merge = tables.merge(target, source, "target.at = source.at")
    merge.when_matched_update({"v": "source.v"}).execute()
    assert values(target) == {text: "new" if text in texts[-2:] else "old" for text in texts}


def test_functions_of_dates_know_every_year(tmp_path: Path) -> None:
    frame = lakeport.scan(create(tmp_path, "date", False))
    for condition, expected in {
        "year(at) = 12345": "12345-01-01",
        "CAST(at AS STRING) LIKE '-58%'": "-5877641-06-23",
        "at > '0001-01-01' AND dayofyear(at) = 1": "12345-01-01",
        "add_months(at, 12) = '-5877640-06-23'": "-5877641-06-23",
    }.items():
        assert frame.where(condition).to_arrow()["text"].to_pylist() == [expected]


def test_a_date_that_no_timestamp_is_as_early_as_is_refused_by_name(tmp_path: Path) -> None:
    frame = lakeport.scan(create(tmp_path, "date", False))
    for condition in ("CAST(at AS TIMESTAMP) IS NULL", "at > CAST(text AS TIMESTAMP)"):
        with pytest.raises(
            InvalidDataError, match=r"CAST\(at AS TIMESTAMP\) cannot be computed where at = -5877641-06-23"
        ):
            frame.where(condition).to_arrow()
