"""Rows are sorted by keys, in memory and by files."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from lakeport.workers.sorting import END, RowSorter

GREATEST = 2**64 - 1
PLENTY, LITTLE = 1 << 30, 1 << 14


def batches(count: int, rows: int, texts: int = 5) -> list[tuple[pa.RecordBatch, np.ndarray]]:
    random = np.random.default_rng(7)
    found = []
    for number in range(count):
        keys = random.integers(0, 1 << 62, rows).astype(np.uint64)
        text = pa.array([f"text {key % texts}" for key in keys.tolist()])
        columns = {"key again": pa.array(keys), "text": text.dictionary_encode() if number % 3 else text}
        found.append((pa.record_batch(columns), keys))
    return found


@pytest.mark.parametrize("held", [PLENTY, LITTLE])
@pytest.mark.parametrize("parts", [1, 4])
def test_rows_come_in_the_order_of_their_keys(tmp_path: Path, held: int, parts: int) -> None:
    given = batches(40, 500)
    with RowSorter(tmp_path, held) as sorter:
        for rows, keys in given:
            sorter.add(rows, keys)
        sorter.finish()
        assert bool(list(tmp_path.iterdir())) == (held == LITTLE)
        cuts = sorter.cuts(parts)
        found = [[row for batch in sorter.between(*cut) for row in batch.to_pylist()] for cut in pairwise(cuts)]
    rows = [row for part in found for row in part]
    assert [row["key again"] for row in rows] == sorted(key for _, keys in given for key in keys.tolist())
    assert all(row["text"] == f"text {row['key again'] % 5}" for row in rows)
    assert all(13_000 < len(part) * parts < 27_000 for part in found)


def test_several_windows_are_merged_from_many_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakeport.workers.sorting._MERGED_BYTES", 1 << 14)
    monkeypatch.setattr("lakeport.workers.sorting._BATCH_BYTES", 1 << 11)
    given = batches(30, 400, texts=3000)
    with RowSorter(tmp_path, LITTLE) as sorter:
        for rows, keys in given:
            sorter.add(rows, keys)
        sorter.finish()
        found = list(sorter.between(0, END))
    assert len(found) > 10
    assert [key for batch in found for key in batch["key again"].to_pylist()] == sorted(
        key for _, keys in given for key in keys.tolist()
    )


def test_equal_keys_stay_together_and_the_greatest_is_not_lost(tmp_path: Path) -> None:
    with RowSorter(tmp_path, PLENTY) as sorter:
        for _ in range(3):
            sorter.add(pa.record_batch({"n": [1, 2, 3]}), np.array([0, GREATEST, GREATEST], np.uint64))
        sorter.finish()
        parts = [sum(batch.num_rows for batch in sorter.between(*cut)) for cut in pairwise(sorter.cuts(4))]
    assert sorted(parts) == [0, 3, 6] or sorted(parts) == [3, 6]


def test_cuts_are_round(tmp_path: Path) -> None:
    with RowSorter(tmp_path, PLENTY) as sorter:
        sorter.add(pa.record_batch({"n": range(1024)}), np.arange(1024, dtype=np.uint64))
        sorter.finish()
        assert sorter.cuts(3) == [0, 0b110000000, 0b1010000000, END]
        assert sorter.cuts(4) == [0, 256, 512, 768, END]


def test_no_rows_are_one_empty_part(tmp_path: Path) -> None:
    with RowSorter(tmp_path, PLENTY) as sorter:
        sorter.finish()
        assert [list(sorter.between(*cut)) for cut in pairwise(sorter.cuts(3))] == [[]]
