"""What a disk does that other storages do not: it fills up, it refuses, it has links, and it crashes."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pytest

from lakeport import scan, tables
from lakeport.engine import default_engine
from lakeport.engine.storage.disk import LocalFiles
from lakeport.errors import AccessDeniedError, OutOfSpaceError, StorageError
from lakeport.testing.builder import TableBuilder, rows, struct

FILES = LocalFiles()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 256 KiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", disk], capture_output=True)
    if mounted.returncode != 0:
        pytest.skip(f"a small disk cannot be mounted, which takes root: {mounted.stderr.decode().strip()}")
    yield disk
    subprocess.run(["umount", disk], check=True)


FULL = "the disk is full: free some space"


def test_a_commit_on_a_full_disk_says_so_and_leaves_nothing(small_disk: Path) -> None:
    target = small_disk / "_delta_log" / "0.json"
    with pytest.raises(StorageError, match=FULL) as caught:
        FILES.write(str(target), b"x" * (1 << 20))
    assert caught.value.path == str(target)
    assert list(FILES.list_all(str(small_disk))) == []
    FILES.write(str(target), b"x" * 1000)
    assert target.stat().st_size == 1000


@pytest.mark.parametrize("size", [1 << 20, (256 << 10) + 100])
def test_an_output_on_a_full_disk_says_so_and_leaves_nothing(small_disk: Path, size: int) -> None:
    target = small_disk / "data.parquet"
    output = FILES.open_output(str(target))

    def fill() -> None:
        for _ in range(size // 100):
            output.write(b"x" * 100)
        output.close()

    with pytest.raises(StorageError, match=FULL) as caught:
        fill()
    assert caught.value.path == str(target)
    output.abort()
    assert list(small_disk.iterdir()) == []


def test_a_parquet_file_on_a_full_disk_says_so_and_leaves_nothing(small_disk: Path) -> None:
    batch = pa.record_batch({"n": [os.urandom(1000) for _ in range(1000)]})
    writer = default_engine().parquet.open_writer(str(small_disk / "data.parquet"), batch.schema)
    writer.write(batch)
    with pytest.raises(StorageError, match=FULL):
        writer.close()
    writer.abort()
    assert list(small_disk.iterdir()) == []


def test_a_full_disk_at_the_commit_is_a_sure_failure_and_leaves_no_data(small_disk: Path) -> None:
    tables.create(str(small_disk / "t"), {"n": [1]})
    before = sorted(small_disk.rglob("*"))
    with suppress(OSError), (small_disk / "ballast").open("wb", buffering=0) as ballast:
        while True:
            ballast.write(b"x" * 4096)
    with pytest.raises(OutOfSpaceError, match=FULL):
        tables.set_properties(str(small_disk / "t"), {"owner": "me"})
    assert sorted(small_disk.rglob("*")) == sorted([*before, small_disk / "ballast"])


def test_a_read_only_disk_is_a_sure_failure(small_disk: Path) -> None:
    tables.create(str(small_disk / "t"), {"n": [1]})
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    with pytest.raises(AccessDeniedError, match="read-only"):
        tables.set_properties(str(small_disk / "t"), {"owner": "me"})
    assert scan(str(small_disk / "t")).version == 0


AS_NOBODY = """
import os, sys
from lakeport.engine.storage.disk import LocalFiles
from lakeport.errors import AccessDeniedError
files, path = LocalFiles(), sys.argv[1]
if os.getuid() == 0:
    os.setuid(65534)
for attempt in (
    lambda: files.write(f"{path}/new", b""),
    lambda: files.open_output(f"{path}/new"),
    lambda: files.open_output(f"{path}/deeper/new"),
    lambda: files.delete([f"{path}/old"]),
):
    try:
        attempt()
    except AccessDeniedError as error:
        print(error.path.removeprefix(path))
"""


def test_a_directory_that_may_not_be_changed_is_access_denied() -> None:
    with TemporaryDirectory() as name:  # pytest's own directories are closed to other users
        path = Path(name)
        (path / "old").touch()
        path.chmod(0o555)
        done = subprocess.run([sys.executable, "-c", AS_NOBODY, path], capture_output=True, text=True)
        path.chmod(0o755)
    assert (done.stdout.split(), done.stderr) == (["/new", "/new", "/deeper/new", "/old"], "")


def test_a_file_in_the_place_of_a_directory_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (f"{tmp_path}/file/x", f"{tmp_path}/file/deeper/x"):
        for attempt in (lambda path=path: FILES.write(path, b""), lambda path=path: FILES.open_output(path)):
            with pytest.raises(StorageError, match=r"cannot be created: .*directory") as caught:
                attempt()
            assert caught.value.path == path


def test_a_file_that_cannot_be_deleted_does_not_keep_the_others(tmp_path: Path) -> None:
    (tmp_path / "directory").mkdir()
    for name in ("a", "b"):
        (tmp_path / name).touch()
    with pytest.raises(StorageError) as caught:
        FILES.delete([f"{tmp_path}/{name}" for name in ("a", "directory", "b")])
    assert caught.value.path == f"{tmp_path}/directory"
    assert os.listdir(tmp_path) == ["directory"]


def test_links_to_directories_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "precious").touch()
    table = tmp_path / "table"
    table.mkdir()
    (table / "data").write_bytes(b"123")
    (table / "linked").symlink_to(tmp_path / "outside")
    (table / "above").symlink_to(tmp_path)
    (table / "broken").symlink_to(tmp_path / "nowhere")
    (table / "file").symlink_to(table / "data")
    assert {(f.path, f.size) for f in FILES.list_all(str(table))} == {(f"{table}/data", 3), (f"{table}/file", 3)}
    (tmp_path / "alias").symlink_to(table)
    assert {f.path for f in FILES.list_all(f"{tmp_path}/alias")} == {f"{tmp_path}/alias/data", f"{tmp_path}/alias/file"}
    FILES.delete([f"{table}/file"])
    assert (table / "data").exists()


def test_an_output_file_never_replaces_another(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"old")
    with pytest.raises(FileExistsError):
        FILES.open_output(f"{tmp_path}/f")
    assert (tmp_path / "f").read_bytes() == b"old"


@pytest.mark.parametrize("error", [errno.EPERM, errno.ENOTSUP, errno.ENOSYS])
def test_a_disk_without_hard_links_creates_a_file_only_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: int
) -> None:
    def link(source: str, target: str) -> None:
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr(os, "link", link)
    FILES.write(f"{tmp_path}/0.json", b"first")
    with pytest.raises(FileExistsError):
        FILES.write(f"{tmp_path}/0.json", b"second")
    assert (tmp_path / "0.json").read_bytes() == b"first"
    assert os.listdir(tmp_path) == ["0.json"]


def test_a_disk_with_no_safe_way_to_commit_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def link(source: str, target: str) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", link)
    monkeypatch.setattr("ctypes.CDLL", lambda *_, **__: object())
    with pytest.raises(StorageError, match=r"neither hard links nor .*another disk or an object store"):
        FILES.write(f"{tmp_path}/0.json", b"first")
    assert os.listdir(tmp_path) == []


def test_what_a_killed_writer_leaves_disturbs_nobody(tmp_path: Path) -> None:
    table = TableBuilder(default_engine(), str(tmp_path / "t"), struct(id="long")).create()
    table.commit(table.add({"id": [1, 2]}))
    log = tmp_path / "t" / "_delta_log"
    for name in ("00000000000000000002.json", "00000000000000000001.checkpoint.parquet", "_last_checkpoint"):
        (log / f".{name}.{'0' * 32}.tmp").write_bytes(b"half")
    (tmp_path / "t" / "half.parquet").write_bytes(b"PAR1")
    assert table.snapshot().version == 1
    table.commit(table.add({"id": [3]}))
    assert rows(table.snapshot()) == [(1,), (2,), (3,)]
    table.checkpoint()
    assert rows(table.snapshot()) == [(1,), (2,), (3,)]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is synchronised with the disk, and when files get their names."""
    recorded: list[str] = []
    fsync, link, replace = os.fsync, os.link, os.replace

    def named(name: str) -> str:
        return "temporary file" if name.endswith(".tmp") else name

    def recording_fsync(descriptor: int) -> None:
        recorded.append(f"sync {named(os.path.basename(os.readlink(f'/proc/self/fd/{descriptor}')))}")
        fsync(descriptor)

    def recording_link(source: str, target: str) -> None:
        recorded.append(f"link {os.path.basename(target)}")
        link(source, target)

    def recording_replace(source: str, target: str) -> None:
        recorded.append(f"replace {os.path.basename(target)}")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", recording_fsync)
    monkeypatch.setattr(os, "link", recording_link)
    monkeypatch.setattr(os, "replace", recording_replace)
    return recorded


def test_a_commit_survives_a_crash_once_it_is_reported(tmp_path: Path, calls: list[str]) -> None:
    FILES.write(f"{tmp_path}/t/_delta_log/0.json", b"x")
    new_directories = [f"sync {tmp_path.name}", "sync t"]
    assert calls == [*new_directories, "sync temporary file", "link 0.json", "sync _delta_log"]
    calls.clear()
    FILES.write(f"{tmp_path}/t/_delta_log/0.json", b"x", overwrite=True)
    assert calls == ["sync temporary file", "replace 0.json", "sync _delta_log"]


def test_a_data_file_survives_a_crash_once_it_is_closed(tmp_path: Path, calls: list[str]) -> None:
    output = FILES.open_output(f"{tmp_path}/t/p=1/f")
    output.write(b"x" * 100)
    output.close()
    assert calls == [f"sync {tmp_path.name}", "sync t", "sync f", "sync p=1"]
    assert (tmp_path / "t/p=1/f").stat().st_size == 100


def test_a_directory_is_listed_alone(tmp_path: Path) -> None:
    for name in ("a", "b/c", "b/d/e", ".hidden/f"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"12")
    (tmp_path / "link").symlink_to(tmp_path / "b")
    files, directories = FILES.list_directory(str(tmp_path))
    assert [(file.path, file.size) for file in files] == [(f"{tmp_path}/a", 2)]
    assert sorted(directories) == [f"{tmp_path}/.hidden", f"{tmp_path}/b"]
    assert FILES.list_directory(f"{tmp_path}/nowhere") == ([], [])
