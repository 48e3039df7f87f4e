"""Deletion vectors are written so that every reader finds them."""

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from lakeport.engine import default_engine
from lakeport.errors import StorageError
from lakeport.kernel import deletion_vectors
from lakeport.kernel.deletion_vectors import read_deletion_vector, write_deletion_vectors
from tests.tables.modelled import FailingStorage

STORAGE = default_engine().storage


def positions(*values: int) -> npt.NDArray[np.uint64]:
    return np.array(values, dtype=np.uint64)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_vectors_of_a_commit_share_a_file_and_are_read_back(tmp_path: Path) -> None:
    vectors = [positions(0), positions(1, 5, 70_000), np.arange(100_000, dtype=np.uint64), positions(2**40)]
    written = write_deletion_vectors(STORAGE, str(tmp_path), vectors)
    assert len(names(tmp_path)) == 1
    for descriptor, vector in zip(written, vectors, strict=True):
        assert descriptor is not None
        assert descriptor.storage_type == "u"
        assert descriptor.cardinality == len(vector)
        assert read_deletion_vector(descriptor, str(tmp_path), STORAGE).positions.tolist() == vector.tolist()
    assert written[0] is not None
    assert written[0].offset == 1


def test_a_file_starts_with_its_version_and_holds_nothing_but_framed_vectors(tmp_path: Path) -> None:
    first, second = write_deletion_vectors(STORAGE, str(tmp_path), [positions(3), positions(4, 5)])
    assert first is not None
    assert second is not None
    (file,) = tmp_path.iterdir()
    data = file.read_bytes()
    assert data[0] == 1
    assert data[1:5] == first.size_in_bytes.to_bytes(4, "big")
    assert second.offset == 1 + 4 + first.size_in_bytes + 4
    assert len(data) == second.offset + 4 + second.size_in_bytes + 4


def test_a_vector_that_deletes_nothing_is_none(tmp_path: Path) -> None:
    assert write_deletion_vectors(STORAGE, str(tmp_path), [positions(), positions()]) == [None, None]
    assert names(tmp_path) == []
    empty, real = write_deletion_vectors(STORAGE, str(tmp_path), [positions(), positions(1)])
    assert empty is None
    assert real is not None


def test_no_vectors_make_no_file(tmp_path: Path) -> None:
    assert write_deletion_vectors(STORAGE, str(tmp_path), []) == []
    assert names(tmp_path) == []


def test_a_file_that_is_large_enough_gets_no_further_vector(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deletion_vectors, "_FILE_BYTES", 200)
    vectors = [positions(*range(0, 100 * i, 7)) for i in range(1, 6)]
    written = write_deletion_vectors(STORAGE, str(tmp_path), vectors)
    assert 1 < len(names(tmp_path)) < 5
    for descriptor, vector in zip(written, vectors, strict=True):
        assert descriptor is not None
        assert read_deletion_vector(descriptor, str(tmp_path), STORAGE).positions.tolist() == vector.tolist()


def test_if_a_later_file_fails_the_earlier_ones_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deletion_vectors, "_FILE_BYTES", 1)
    with pytest.raises(StorageError):
        write_deletion_vectors(FailingStorage(".bin", after=2), str(tmp_path), [positions(i) for i in range(4)])
    assert names(tmp_path) == []
