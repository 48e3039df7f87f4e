"""The contract of a `StorageClient`, and of an engine's clock."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime

import pytest

from lakeport.kernel.engine import Engine, FileStatus
from lakeport.testing.contracts.contract import Contract, check_is_missing

LARGE = bytes(range(256)) * (100 << 10)  # 25 MiB: no storage takes it in one piece


class StorageContract(Contract):
    """Files are listed, read, written and deleted as `StorageClient` specifies."""

    def test_the_time_is_in_milliseconds(self, engine: Engine) -> None:
        before = time.time()
        assert before - 1 <= engine.now() / 1000 <= time.time() + 1

    def test_a_resolved_path_is_absolute_and_ends_in_no_slash(self, engine: Engine, root: str) -> None:
        assert engine.storage.resolve(f"{root}/table/") == f"{root}/table"
        assert engine.storage.resolve(f"{root}/table") == f"{root}/table"

    def test_a_listing_is_sorted_and_starts_with_the_first_name(self, engine: Engine, root: str) -> None:
        for name in ("b", "a", "c.json", "c", "B", "ü", "deeper/x"):
            engine.storage.write(f"{root}/{name}", b"12345")
        found = list(engine.storage.list_from(root, ""))
        assert [f.path.removeprefix(f"{root}/") for f in found] == ["B", "a", "b", "c", "c.json", "ü"]
        assert all(f.size == 5 and abs(f.modification_time / 1000 - datetime.now().timestamp()) < 600 for f in found)
        assert [f.path for f in engine.storage.list_from(root, "b")] == [
            f"{root}/{n}" for n in ("b", "c", "c.json", "ü")
        ]
        assert [f.path for f in engine.storage.list_from(root, "bb")] == [f"{root}/{n}" for n in ("c", "c.json", "ü")]
        assert list(engine.storage.list_from(root, "\U0010ffff")) == []

    def test_a_directory_that_does_not_exist_lists_nothing(self, engine: Engine, root: str) -> None:
        assert list(engine.storage.list_from(f"{root}/nowhere", "")) == []

    def test_a_read_ends_where_the_file_ends(self, engine: Engine, root: str) -> None:
        path = f"{root}/with space & %25"
        engine.storage.write(path, b"0123456789")
        assert engine.storage.read(path) == b"0123456789"
        assert engine.storage.read(path, 3) == b"3456789"
        assert engine.storage.read(path, 3, 4) == b"3456"
        assert engine.storage.read(path, 8, 100) == b"89"
        assert engine.storage.read(path, 50, 10) == b""

    def test_a_missing_file_raises_with_its_path(self, engine: Engine, root: str) -> None:
        gone = FileStatus(f"{root}/gone", 10)
        for attempt in (
            lambda: engine.storage.read(gone.path),
            lambda: engine.storage.read(gone.path, 2, 3),
            lambda: list(engine.storage.read_many([gone])),
            lambda: engine.storage.open_input(gone).read(),
        ):
            check_is_missing(gone, attempt)

    def test_many_files_are_read_in_order(self, engine: Engine, root: str) -> None:
        files = [self.write(engine, f"{root}/{i}", str(i).encode()) for i in (5, 3, 9, 1, *range(20, 60))]
        assert list(engine.storage.read_many(files)) == [f.path.rpartition("/")[2].encode() for f in files]
        assert list(engine.storage.read_many([])) == []

    def test_an_opened_file_is_read_at_random(self, engine: Engine, root: str) -> None:
        data = bytes(range(256)) * 20_000  # larger than what may be fetched whole
        with engine.storage.open_input(self.write(engine, f"{root}/large", data)) as file:
            assert file.size() == len(data)
            file.seek(4_000_007)
            assert file.read(10) == data[4_000_007:4_000_017]
            file.seek(0)
            assert file.read(3) == data[:3]

    def test_a_file_is_created_only_once(self, engine: Engine, root: str) -> None:
        path = f"{root}/new/0.json"
        engine.storage.write(path, b"first")
        with pytest.raises(FileExistsError):
            engine.storage.write(path, b"second")
        assert engine.storage.read(path) == b"first"
        engine.storage.write(path, b"third", overwrite=True)
        assert engine.storage.read(path) == b"third"
        assert [f.path for f in engine.storage.list_from(f"{root}/new", "")] == [path]

    # Writing

    def test_a_listing_of_all_has_every_file_at_any_depth(self, engine: Engine, root: str) -> None:
        names = {"a", "b/c", "b/d/e.json", "_delta_log/0.json", "_change_data/x", ".hidden/y", "b/.z.tmp", "p=a b%20/ü"}
        for name in names:
            engine.storage.write(f"{root}/t/{name}", b"12345")
        engine.storage.write(f"{root}/t2/other", b"not below t")
        found = list(engine.storage.list_all(f"{root}/t"))
        assert {file.path.removeprefix(f"{root}/t/") for file in found} == names
        assert len(found) == len(names)
        assert all(f.size == 5 and abs(f.modification_time / 1000 - time.time()) < 600 for f in found)
        assert {f.path for f in engine.storage.list_all(f"{root}/t/b/d")} == {f"{root}/t/b/d/e.json"}

    def test_all_of_a_directory_that_does_not_exist_is_nothing(self, engine: Engine, root: str) -> None:
        engine.storage.write(f"{root}/file", b"")
        assert list(engine.storage.list_all(f"{root}/nowhere")) == []
        assert list(engine.storage.list_all(f"{root}/file")) == []
        assert list(engine.storage.list_all(f"{root}/fil")) == []

    def test_deleted_files_are_gone_and_missing_ones_are_no_error(self, engine: Engine, root: str) -> None:
        for name in ("a", "b/c", "b/d %25", "kept"):
            engine.storage.write(f"{root}/{name}", b"")
        engine.storage.delete([f"{root}/{name}" for name in ("a", "gone", "b/c", "nowhere/x", "b/d %25", "kept/x")])
        assert self.names(engine, root) == {"kept"}
        engine.storage.delete([])
        engine.storage.delete([f"{root}/a"])
        engine.storage.write(f"{root}/a", b"again")
        assert self.names(engine, root) == {"a", "kept"}

    def test_many_files_are_deleted(self, engine: Engine, root: str) -> None:
        paths = [f"{root}/d/{i:04}" for i in range(300)]
        with ThreadPoolExecutor(16) as pool:
            list(pool.map(lambda path: engine.storage.write(path, b"x"), paths))
        engine.storage.delete(paths[:-1])
        assert [file.path for file in engine.storage.list_all(root)] == paths[-1:]

    def test_of_many_who_create_one_file_exactly_one_succeeds(self, engine: Engine, root: str) -> None:
        def create(writer: int) -> bytes | None:
            try:
                engine.storage.write(f"{root}/_delta_log/0.json", b"%d" % writer)
            except FileExistsError:
                return None
            return b"%d" % writer

        with ThreadPoolExecutor(8) as pool:
            winners = [data for data in pool.map(create, range(32)) if data is not None]
        assert winners == [engine.storage.read(f"{root}/_delta_log/0.json")]
        assert self.names(engine, root) == {"_delta_log/0.json"}

    @pytest.mark.parametrize("pieces", [[], [b""], [b"one"], [b"one", b"", b"two"], [b"", LARGE, b"end"], [b"x"] * 999])
    def test_an_output_file_holds_what_was_written(self, engine: Engine, root: str, pieces: list[bytes]) -> None:
        path = f"{root}/new/p=a b/file"
        output = engine.storage.open_output(path)
        assert [output.write(memoryview(piece)) for piece in pieces] == [len(piece) for piece in pieces]
        output.close()
        assert engine.storage.read(path) == b"".join(pieces)
        (file,) = engine.storage.list_all(f"{root}/new")
        assert (file.path, file.size) == (path, sum(map(len, pieces)))

    @pytest.mark.parametrize("size", [0, 10, len(LARGE)])
    def test_an_aborted_file_leaves_nothing(self, engine: Engine, root: str, size: int) -> None:
        output = engine.storage.open_output(f"{root}/new/file")
        output.write(LARGE[:size])
        output.abort()
        output.abort()
        assert self.names(engine, root) == set()

    def test_an_abort_after_the_close_changes_nothing(self, engine: Engine, root: str) -> None:
        for name, data in (("small", b"12345"), ("large", LARGE)):
            output = engine.storage.open_output(f"{root}/{name}")
            output.write(data)
            output.close()
            output.abort()
            assert engine.storage.read(f"{root}/{name}") == data

    def test_files_are_written_by_several_threads_at_once(self, engine: Engine, root: str) -> None:
        def write(number: int) -> None:
            output = engine.storage.open_output(f"{root}/{number}")
            for _ in range(12):
                output.write(bytes([number]) * (1 << 20))
            output.close()

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(write, range(4)))
        for number in range(4):
            assert engine.storage.read(f"{root}/{number}") == bytes([number]) * (12 << 20)
