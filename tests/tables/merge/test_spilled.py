"""Merges whose source is larger than their memory limit: the same as those held in memory, and within the limit."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lakeport
from lakeport import tables
from lakeport.errors import ConstraintError, InvalidDataError, StorageError
from lakeport.kernel.schema import PrimitiveType, StructField, StructType
from lakeport.tables import Merge
from tests.conftest import ROOT as PROJECT
from tests.properties import FEED, TRACKING, VECTORS
from tests.rows import counted

PROPERTIES = [{}, VECTORS, FEED | TRACKING, FEED | TRACKING | VECTORS]
LIMIT = 90_000
"""For sources that are larger: they are looked up in many blocks of many parts."""


def everything(merge: Merge) -> Merge:
    return (
        merge.when_matched_delete("source.n % 7 = 0")
        .when_matched_update({"n": "source.n + target.n", "text": "source.text"}, "source.n % 7 < 5")
        .when_not_matched_insert_all("source.n % 5 > 0")
        .when_not_matched_by_source_update({"text": "'gone'"}, "target.n % 3 = 0")
        .when_not_matched_by_source_delete("target.n % 3 = 1")
    )


def merged(
    path: Path,
    target: Any,
    source: Any,
    on: str,
    clauses: Callable[[Merge], Merge] = everything,
    *,
    limit: int | None,
    properties: Mapping[str, str] = {},
) -> tuple[Any, ...]:
    """Rows, changes and counts of a merge into a new table of two files."""
    half = target.num_rows // 2
    tables.create(str(path), target[:half], properties=dict(properties))
    tables.append(str(path), target[half:])
    result = clauses(tables.merge(str(path), source, on, memory_limit=limit)).execute()
    frame = lakeport.scan(str(path))
    rows = (frame.with_row_tracking() if TRACKING.items() <= properties.items() else frame).to_arrow().to_pylist()
    changes = (
        frame.changes(2).to_arrow().drop_columns("_commit_timestamp").to_pylist()
        if FEED.items() <= properties.items()
        else []
    )
    counts = {name: count for name, count in result.metrics.items() if "Rows" in name}
    return counted(rows), counted(changes), counts


def same_held_and_spilled(folder: Path, *given: Any, limit: int = LIMIT, **more: Any) -> dict[str, int]:
    """Does the merge in both ways, and compares; its counts of rows."""
    held = merged(folder / "held", *given, limit=None, **more)
    spilled = merged(folder / "spilled", *given, limit=limit, **more)
    assert spilled == held
    counts: dict[str, int] = held[-1]
    return counts


def some_rows(ids: Any) -> pa.Table:
    ids = np.asarray(ids)
    texts = [None if n % 11 == 3 else f"text {n}" for n in ids.tolist()]
    numbers = pa.array((ids * 31) % 1009, pa.int64(), mask=ids % 13 == 4)
    return pa.table({"id": ids, "n": numbers, "text": texts, "s": [{"a": n, "b": [f"{n}"]} for n in ids.tolist()]})


# The same result


@pytest.mark.parametrize("properties", PROPERTIES)
def test_a_large_source_has_the_same_effect_as_one_in_memory(tmp_path: Path, properties: dict[str, str]) -> None:
    random = np.random.default_rng(3)
    target, source = some_rows(random.permutation(8_000)), some_rows(random.permutation(8_000) + 3_000)
    assert source.nbytes > 4 * LIMIT
    counts = same_held_and_spilled(tmp_path, target, source, "target.id = source.id", properties=properties)
    assert all(counts[f"numTargetRows{name}"] for name in ("Inserted", "MatchedUpdated", "MatchedDeleted"))
    assert all(counts[f"numTargetRowsNotMatchedBySource{name}"] for name in ("Updated", "Deleted"))


@pytest.mark.parametrize(
    "on",
    [
        "target.id = source.id AND target.text = source.text",
        "target.id = source.id AND target.text <=> source.text",
        "target.text = source.text AND target.n <> 5",
        "target.id = source.id AND source.n > 100 AND target.n < source.n + 500",
        "lower(target.text) = lower(source.text)",
        "target.s.a = source.id",
        "target.id + 4000 < source.id AND target.id % 2000 = 7 AND source.id % 2000 = 9",
    ],
)
def test_every_condition_has_the_same_effect(tmp_path: Path, on: str) -> None:
    random = np.random.default_rng(5)
    target, source = some_rows(random.permutation(4_000)), some_rows(random.permutation(4_000) + 1_000)
    counts = same_held_and_spilled(tmp_path, target, source, on)
    assert counts["numTargetRowsMatchedUpdated"]


KEYS = {
    "doubles": pa.array([0.0, -0.0, math.nan, 1.5, -1.5, math.inf, None] * 40),
    "floats": pa.array([0.0, -0.0, math.nan, 1.5, -1.5, math.inf, None] * 40, pa.float32()),
    "decimals": pa.array([Decimal("1.10"), Decimal("-1.10"), Decimal("0"), None, Decimal("98765432109876.54")] * 40),
    "texts": pa.array(["", "a", "a\0", "ä" * 300, "ä" * 301, None, "long" * 70 + "x"] * 40),
    "bytes": pa.array([b"", b"\0", b"\0\0", b"a" * 9, None] * 40),
    "booleans": pa.array([True, False, None] * 40),
    "times": pa.array([0, -1, 2**50, None] * 40, pa.timestamp("us", "UTC")),
}


@pytest.mark.parametrize("null_safe", [False, True])
@pytest.mark.parametrize("kind", KEYS)
def test_every_key_has_the_same_matches(tmp_path: Path, kind: str, null_safe: bool) -> None:
    keys = KEYS[kind].slice(0, 7)
    target = pa.table({"k": keys, "n": range(len(keys)), "text": ["old"] * len(keys)})
    source = pa.table({"k": KEYS[kind], "n": range(len(KEYS[kind])), "text": ["new"] * len(KEYS[kind])})
    on = "target.k <=> source.k" if null_safe else "target.k = source.k"

    def clauses(merge: Merge) -> Merge:
        return merge.when_matched_delete().when_not_matched_insert_all().when_not_matched_by_source_update({"n": "-1"})

    same_held_and_spilled(tmp_path, target, source, on, clauses, limit=1)


def test_columns_may_have_any_name(tmp_path: Path) -> None:
    names = ["number", "place", "clause"]
    for number, key in enumerate(names):
        target, source = (pa.table({name: range(start, start + 9) for name in names}) for start in (0, 5))
        others = {name: f"source.{name} + 100" for name in names if name != key}

        def clauses(merge: Merge, others: dict[str, str] = others) -> Merge:
            return merge.when_matched_update(others).when_not_matched_insert_all()

        on = f"target.{key} = source.{key}"
        same_held_and_spilled(tmp_path / str(number), target, source, on, clauses, limit=1)


def test_generated_columns_follow_and_defaults_fill(tmp_path: Path) -> None:
    long = PrimitiveType("long")
    doubled = StructField("doubled", long, metadata={"delta.generationExpression": "n * 2"})
    with_default = StructField("d", long, metadata={"CURRENT_DEFAULT": "7"})
    schema = StructType((StructField("id", long), StructField("n", long), doubled, with_default))
    path = str(tmp_path / "t")
    tables.create(path, schema=schema, properties={"delta.feature.allowColumnDefaults": "supported"})
    tables.append(path, {"id": range(3_000), "n": range(3_000), "d": [0] * 3_000})
    source = pa.table({"id": range(1_000, 11_000), "n": range(10_000)})
    merge = tables.merge(path, source, "target.id = source.id", memory_limit=LIMIT)
    merge.when_matched_update({"n": "source.n"}).when_not_matched_insert_all().execute()
    rows = lakeport.scan(path).to_arrow().sort_by("id")
    expected = [*range(1_000), *range(10_000)]
    assert rows["n"].to_pylist() == expected
    assert rows["doubled"].to_pylist() == [2 * n for n in expected]
    assert rows["d"].to_pylist() == [0] * 3_000 + [7] * 8_000


@pytest.mark.parametrize("limit", [None, LIMIT, 1])
def test_rows_that_are_refused_are_named_by_their_number_in_the_whole_source(tmp_path: Path, limit: int | None) -> None:
    path = str(tmp_path / "t")
    tables.create(path, {"id": [1, 2], "n": [1, 2]}, properties={"delta.constraints.positive": "n > 0"})
    before = {str(file) for file in Path(path).rglob("*")}
    count = 20 if limit == 1 else 20_000
    for bad in (1, count - 3):
        source = pa.table({"id": range(count), "n": [-1 if n == bad else 1 for n in range(count)]})
        merge = tables.merge(path, source, "target.id = source.id", memory_limit=limit)
        with pytest.raises(ConstraintError, match=f"^row {bad} of the source violates") as caught:
            merge.when_matched_update_all().when_not_matched_insert_all().execute()
        assert caught.value.row == bad
    assert {str(file) for file in Path(path).rglob("*")} == before


# Many rows with one key


def test_an_ambiguous_row_is_refused_in_the_same_words(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    tables.create(path, {"id": range(100), "n": range(100)})
    ids = [*range(1_000, 21_000), 70, *range(30_000, 40_000), 70, 70, 70]
    source = pa.table({"id": ids, "n": range(len(ids))})
    messages = set()
    for limit in (None, LIMIT):
        merge = tables.merge(path, source, "target.id = source.id", memory_limit=limit)
        with pytest.raises(InvalidDataError, match=r"\(id = 70\) is matched by 4 rows .*n = 20000.*n = 30001") as e:
            merge.when_matched_update_all().execute()
        assert e.value.row == 30_001
        messages.add(str(e.value))
    assert len(messages) == 1
    assert lakeport.scan(path).version == 0


SKEWED = 300_000
"""Rows with one key: their pairs would take hours and terabytes."""


@pytest.mark.parametrize("limit", [None, 4 << 20])
def test_a_key_of_most_rows_on_both_sides_is_refused_at_once_if_it_is_ambiguous(
    tmp_path: Path, limit: int | None
) -> None:
    path = str(tmp_path / "t")
    tables.create(path, pa.table({"k": np.zeros(SKEWED, np.int64), "n": np.arange(SKEWED)}))
    source = pa.table({"k": np.zeros(SKEWED, np.int64), "n": np.arange(SKEWED)})
    merge = tables.merge(path, source, "target.k = source.k", memory_limit=limit)
    with pytest.raises(InvalidDataError, match=f"is matched by {SKEWED} rows of the source"):
        merge.when_matched_update_all().execute()


@pytest.mark.parametrize("limit", [None, 4 << 20])
def test_a_key_of_most_rows_on_both_sides_takes_no_longer_than_others(tmp_path: Path, limit: int | None) -> None:
    path = str(tmp_path / "t")
    keys = np.zeros(SKEWED, np.int64)
    keys[:10] = -1
    tables.create(path, pa.table({"k": keys, "n": np.arange(SKEWED)}))
    keys[:10] = range(1, 11)
    source = pa.table({"k": keys, "n": np.arange(SKEWED)})
    merge = tables.merge(path, source, "target.k = source.k", memory_limit=limit)
    counts = merge.when_not_matched_insert_all().execute().metrics
    assert (counts["numTargetRowsInserted"], counts["numTargetRowsUpdated"]) == (10, 0)
    assert merge.when_matched_delete().execute().metrics["numTargetRowsDeleted"] == SKEWED
    assert sorted(lakeport.scan(path).to_arrow()["k"].to_pylist()) == [-1] * 10


def test_the_target_may_have_one_key_only(tmp_path: Path) -> None:
    target = pa.table({"k": np.zeros(50_000, np.int64), "n": np.arange(50_000)})
    source = pa.table({"k": np.arange(50_000), "n": -np.arange(50_000)})

    def clauses(merge: Merge) -> Merge:
        return merge.when_matched_update({"n": "target.n + source.k + 1"}).when_not_matched_insert_all()

    counts = same_held_and_spilled(tmp_path, target, source, "target.k = source.k", clauses)
    assert (counts["numTargetRowsUpdated"], counts["numTargetRowsInserted"]) == (50_000, 49_999)


# The limit, and temporary files


LIMITED = """
import resource, sys
import numpy as np, pyarrow as pa, pyarrow.parquet
from lakeport import tables
from lakeport.errors import OutOfSpaceError

path, rows, limit, file_size = sys.argv[1], *map(int, sys.argv[2:])

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10

def batches():
    noise = np.random.default_rng(1)
    for start in range(rows // 2, rows // 2 + rows, 50_000):
        ids = np.arange(start, start + 50_000) ^ 0x5555
        yield pa.record_batch({"id": ids, **{name: noise.integers(0, 1 << 60, 50_000) for name in "abcdefg"}})

before = peak()
merge = tables.merge(path, batches(), "target.id = source.id", memory_limit=limit)
merge = merge.when_matched_update_all().when_not_matched_insert_all()
if file_size:
    resource.setrlimit(resource.RLIMIT_FSIZE, (file_size, file_size))
try:
    metrics = merge.execute().metrics
except OutOfSpaceError as error:
    sys.exit(str(error))
assert metrics["numTargetRowsUpdated"] == metrics["numTargetRowsInserted"] == rows // 2
print(peak() - before)
"""


def limited(folder: Path, rows: int, limit: int, file_size: int = 0) -> subprocess.CompletedProcess[str]:
    """Merges so many rows of 64 bytes, of which a half is in the table, in a process of its own: the bytes of memory
    that it took. No file is larger than `file_size`, if any is given."""
    path, temporary = folder / "t", folder / "temporary"
    temporary.mkdir()
    ids = np.arange(rows)
    tables.create(str(path), pa.table({"id": ids, **dict.fromkeys("abcdefg", ids)}))
    command = [sys.executable, "-c", LIMITED, str(path), *map(str, (rows, limit, file_size))]
    environment = {**os.environ, "TMPDIR": str(temporary)}
    done = subprocess.run(command, capture_output=True, text=True, cwd=PROJECT, env=environment)
    assert not list(temporary.iterdir())
    return done


@pytest.mark.exhaustive(instead="the tests of what is spilled")
def test_a_source_of_four_times_the_limit_takes_little_more_memory_than_the_limit(tmp_path: Path) -> None:
    """`make soak` has a larger limit: `LAKEPORT_MERGE_LIMIT_MIB=512`."""
    limit, besides = int(os.environ.get("LAKEPORT_MERGE_LIMIT_MIB", "256")) << 20, 150 << 20
    done = limited(tmp_path, 4 * limit // 3_200_000 * 50_000, limit)
    assert not done.returncode, done.stderr
    assert int(done.stdout) < limit + besides


def test_a_full_disk_is_told_with_the_directory_and_loses_nothing(tmp_path: Path) -> None:
    done = limited(tmp_path, rows=500_000, limit=8 << 20, file_size=20 << 20)
    assert done.stderr.startswith("no space left for temporary files: free some, point TMPDIR to a directory with more")
    assert str(tmp_path / "temporary") in done.stderr
    assert [len(list((tmp_path / "t").glob(kind))) for kind in ("*.parquet", "_delta_log/*.json")] == [1, 1]
    assert lakeport.scan(str(tmp_path / "t")).count() == 500_000


def test_a_directory_that_is_missing_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    tables.create(str(tmp_path / "t"), {"id": [1]})
    merge = tables.merge(str(tmp_path / "t"), {"id": [1, 2]}, "target.id = source.id", memory_limit=1)
    with pytest.raises(StorageError, match=r"temporary files failed: .*; point TMPDIR to another .*nowhere"):
        merge.when_matched_delete().execute()


def test_temporary_files_have_no_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So not even a killed process leaves them behind."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    tables.create(str(tmp_path / "t"), {"id": [1]})

    def open_files() -> int:
        links = [Path("/proc/self/fd", name) for name in os.listdir("/proc/self/fd")]
        return sum(os.readlink(link).startswith(f"{temporary}/") for link in links if link.is_symlink())

    def batches() -> Iterator[pa.RecordBatch]:
        for number in range(3):
            yield pa.record_batch({"id": [number]})
            seen.append((open_files(), list(temporary.iterdir())))

    seen: list[tuple[int, list[Path]]] = []
    merge = tables.merge(str(tmp_path / "t"), batches(), "target.id = source.id", memory_limit=1)
    merge.when_not_matched_insert_all().execute()
    assert seen[-1] == (1, [])
    assert open_files() == 0
