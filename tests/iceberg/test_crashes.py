"""A conversion that is broken off: the mirror shows a whole version, and the next run completes it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

import lakeport
from lakeport import iceberg, tables
from lakeport.engine import default_engine, engine_over
from lakeport.iceberg.targets.target import PathTarget
from lakeport.kernel.engine import OutputFile, StorageClient
from lakeport.testing.counting import CountingStorage
from tests.iceberg.changing import change_in_all_ways, numbers
from tests.iceberg.readers import PyIceberg, assert_mirrors, canonical
from tests.properties import VECTORS


class PowerCut(BaseException):
    """The machine is off."""


class FailingStorage(CountingStorage):
    """Works for so many changes; then nothing works any more, so that nobody can clean up. `torn` leaves the file of
    the last change behind."""

    def __init__(self, storage: StorageClient, changes: int, *, torn: bool) -> None:
        super().__init__(storage)
        self.left, self._torn = changes, torn

    def _spend(self) -> None:
        if self.left <= 0:
            raise PowerCut
        self.left -= 1

    def write(self, path: str, data: bytes, *, overwrite: bool = False) -> None:
        self._spend()
        super().write(path, data, overwrite=overwrite)
        if self._torn and self.left == 0:
            raise PowerCut

    def open_output(self, path: str) -> OutputFile:
        self._spend()
        return super().open_output(path)

    def delete(self, paths: Sequence[str]) -> None:
        self._spend()
        super().delete(paths)


@pytest.mark.parametrize("torn", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("version", [2, 3])
def test_a_conversion_that_is_broken_off_anywhere_is_completed_by_the_next(
    tmp_path: Path, version: int, torn: bool
) -> None:
    table = str(tmp_path / "table")
    tables.create(table, numbers(0, 100), partition_by=["g"], properties=VECTORS)
    change_in_all_ways(table)
    tables.delete(table, "id % 11 = 0")
    for changes in range(0, 200, 3):
        out = str(tmp_path / f"mirror{changes}")
        storage = FailingStorage(default_engine().storage, changes, torn=torn)
        try:
            iceberg.convert(table, out=out, since=4, format_version=version, engine=engine_over(storage))
        except PowerCut:
            seen = opened_version(out)
            assert seen in (None, 10)
        else:
            assert changes > 20
            break
        if changes % 4 == 0:  # reading takes most of the time
            conversion = iceberg.convert(table, out=out, since=4, format_version=version)
            assert_mirrors(PyIceberg(), table, conversion, list(range(4, 11)))


def opened_version(out: str) -> int | None:
    """The version that the mirror shows."""
    found = PathTarget(default_engine(), out).load()
    return None if found is None else int(found.metadata["properties"]["lakeport.delta.version"])


def test_an_increment_that_is_broken_off_leaves_the_former_version(tmp_path: Path) -> None:
    table = str(tmp_path / "table")
    tables.create(table, numbers(0, 100), partition_by=["g"], properties=VECTORS)
    first = iceberg.convert(table)
    tables.delete(table, "id % 7 = 0")
    for changes in range(8):
        storage = FailingStorage(default_engine().storage, changes, torn=False)
        try:
            iceberg.convert(table, engine=engine_over(storage))
        except PowerCut:
            seen = opened_version(first.location)
            assert seen in (0, 1)
            if seen == 0:
                rows = PyIceberg().read(f"{first.location}/metadata/v1.metadata.json", first.snapshot_id)
                expected = lakeport.scan(table).at(version=0).to_arrow()
                assert canonical(rows) == canonical(expected)
    conversion = iceberg.convert(table)
    assert conversion.version == 1
    assert_mirrors(PyIceberg(), table, conversion, [0, 1])
    assert (Path(conversion.location) / "metadata" / "version-hint.text").read_text() == "2"
