"""A table's log, or a link in its directory, that points elsewhere: the server reads and tells nothing."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from lakeport.engine.storage import confined
from lakeport.engine.storage.confined import ConfinedStorage
from lakeport.engine.storage.storage import Storage
from lakeport.errors import (
    AccessDeniedError,
    CorruptTableError,
    LakeportError,
    MissingFileError,
    SharingError,
    StorageError,
)
from lakeport.kernel.engine import FileStatus
from lakeport.server.answers.table_request import TableRequest
from lakeport.server.files import open_file
from lakeport.testing.builder import TableBuilder
from lakeport.testing.http import reply, scripted
from tests.server.asking import (
    DELTA,
    FEED,
    PARQUET,
    built,
    changes,
    ids,
    lines,
    pretended,
    query,
    service,
    table_request,
)

SECRET = "salary-of-ann"
MANIFEST = "00000000000000000000.checkpoint.11111111-1111-4111-8111-111111111111.json"


def other_table(folder: Path) -> Path:
    """A table that nobody shares, whose statistics hold a secret; its checkpoint has one sidecar."""
    table = built(folder / "others").create(pretended("x.parquet", stats=json.dumps({"minValues": {"id": SECRET}})))
    table.checkpoint(form="v2-json-sidecars", parts=1)
    (sidecar,) = (folder / "others" / "_delta_log" / "_sidecars").iterdir()
    return sidecar


def with_sidecar(folder: Path, uri: str) -> Path:
    """A table of a checkpoint alone, whose files are in a sidecar at `uri`."""
    table = built(folder / "shared").create()
    (folder / "shared" / "_delta_log" / "_sidecars").mkdir()
    actions = [*table.versions[0], {"checkpointMetadata": {"version": 0}}]
    actions.append({"sidecar": {"path": uri, "sizeInBytes": 1000, "modificationTime": 0}})
    table.write(table.log_file(MANIFEST), "".join(json.dumps(action) + "\n" for action in actions))
    Path(table.log_file("00000000000000000000.json")).unlink()
    return folder / "shared"


def refused(asked: Callable[[], object]) -> LakeportError:
    with pytest.raises((CorruptTableError, AccessDeniedError, SharingError)) as failed:
        asked()
    assert SECRET not in str(failed.value)
    return failed.value


def listed(by: TableRequest) -> list[str]:
    return ids(lines(query(service(), by)))


@pytest.mark.parametrize("spelled", ["file://{}", "{}", "../../../others/_delta_log/_sidecars/{0.name}"])
@pytest.mark.parametrize("capabilities", [DELTA, PARQUET])
def test_sidecars_of_another_table_are_not_read(tmp_path: Path, spelled: str, capabilities: str) -> None:
    shared = with_sidecar(tmp_path, spelled.format(other_table(tmp_path)))
    assert "sidecar" in str(refused(lambda: listed(table_request(shared, capabilities))))


def test_a_sidecar_at_a_url_is_not_sent_for(tmp_path: Path) -> None:
    with scripted(lambda _: reply(b"", 404)) as elsewhere:
        shared = with_sidecar(tmp_path, f"{elsewhere.url}/x.parquet")
        refused(lambda: listed(table_request(shared)))
        assert elsewhere.asked == []


def test_a_sidecar_may_be_spelled_with_its_whole_path(tmp_path: Path) -> None:
    other_table(tmp_path)
    table = TableBuilder(built(tmp_path).engine, str(tmp_path / "others"), built(tmp_path).schema)
    (name,) = (tmp_path / "others" / "_delta_log").glob("*.checkpoint.*")
    (sidecar,) = (tmp_path / "others" / "_delta_log" / "_sidecars").iterdir()
    name.write_text(name.read_text().replace(sidecar.name, f"file://{sidecar}"))
    (tmp_path / "others" / "_delta_log" / "00000000000000000000.json").unlink()
    assert len(table.snapshot().segment.commits) == 0
    assert len(listed(table_request(tmp_path / "others"))) == 1


def symlinked_log(folder: Path) -> Path:
    built(folder / "others").create(pretended("x.parquet", stats=SECRET))
    (folder / "shared").mkdir()
    (folder / "shared" / "_delta_log").symlink_to(folder / "others" / "_delta_log")
    return folder / "shared"


def symlinked_commit(folder: Path) -> Path:
    built(folder / "others").create(pretended("x.parquet", stats=SECRET))
    (folder / "shared" / "_delta_log").mkdir(parents=True)
    name = "00000000000000000000.json"
    (folder / "shared" / "_delta_log" / name).symlink_to(folder / "others" / "_delta_log" / name)
    return folder / "shared"


def symlinked_checkpoint(folder: Path) -> Path:
    table = built(folder / "others").create(pretended("x.parquet", stats=SECRET))
    (name,) = table.checkpoint()
    (folder / "shared" / "_delta_log").mkdir(parents=True)
    (folder / "shared" / "_delta_log" / name).symlink_to(folder / "others" / "_delta_log" / name)
    return folder / "shared"


@pytest.mark.parametrize("made", [symlinked_log, symlinked_commit, symlinked_checkpoint])
def test_links_out_of_the_table_are_not_followed(tmp_path: Path, made: Callable[[Path], Path]) -> None:
    shared = made(tmp_path)
    assert "a link leads outside the table's location" in str(refused(lambda: listed(table_request(shared))))


@pytest.mark.parametrize("made", [symlinked_log, symlinked_commit, symlinked_checkpoint])
def test_links_into_auxiliary_locations_are_followed(tmp_path: Path, made: Callable[[Path], Path]) -> None:
    shared = made(tmp_path)
    assert len(listed(table_request(shared, auxiliary_locations=(str(tmp_path / "others"),)))) == 1


def test_a_location_that_is_a_link_itself_is_the_table(tmp_path: Path) -> None:
    built(tmp_path / "table").create(pretended("x.parquet"))
    (tmp_path / "link").symlink_to("table")
    assert len(listed(table_request(tmp_path / "link"))) == 1


def test_the_size_of_a_removed_file_elsewhere_is_not_looked_up(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"x" * 4321)
    with scripted(lambda _: reply(b"", 200, {"content-length": "7"})) as elsewhere:
        for number, path in enumerate([f"file://{tmp_path}/secret", f"{elsewhere.url}/x", "../secret"]):
            table = built(tmp_path / f"table-{number}", properties=FEED).create(pretended("a.parquet"))
            table.commit({"remove": {"path": path, "dataChange": True, "deletionTimestamp": 1}})
            by = table_request(tmp_path / f"table-{number}", DELTA)
            refused(lambda by=by: lines(changes(service(), by, 0)))  # type: ignore[misc]
        assert elsewhere.asked == []


@pytest.mark.parametrize(
    "path", ["../others/x.parquet", "a/../../others/x.parquet", "http://127.0.0.1:9/x", "s3://b/x"]
)
def test_files_elsewhere_are_not_listed(tmp_path: Path, path: str) -> None:
    built(tmp_path / "shared").create(pretended(path, stats=SECRET))
    refused(lambda: listed(table_request(tmp_path / "shared")))


def test_tables_that_differ_in_their_auxiliary_locations_are_told_apart(tmp_path: Path) -> None:
    shared = symlinked_log(tmp_path)
    to = service()
    assert len(ids(lines(query(to, table_request(shared, auxiliary_locations=(str(tmp_path / "others"),)))))) == 1
    refused(lambda: lines(query(to, table_request(shared))))


@pytest.fixture(params=["O_PATH", "none"])
def _systems(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that have O_PATH, and those that do not."""
    if request.param == "none":
        monkeypatch.setattr(confined, "_DIRECTORY", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


Opening = Callable[[Path, str], bytes]


def read_confined(root: Path, name: str) -> bytes:
    return ConfinedStorage(Storage(), [str(root)]).read(f"{root}/{name}")


def read_served(root: Path, name: str) -> bytes:
    with closing(open_file(str(root), name)) as file:
        return file.read(0, file.state.size)


@pytest.mark.usefixtures("_systems")
@pytest.mark.parametrize("read", [read_confined, read_served])
def test_files_are_read_through_links_inside(tmp_path: Path, read: Opening) -> None:
    (tmp_path / "table" / "a" / "b").mkdir(parents=True)
    (tmp_path / "table" / "a" / "b" / "file").write_bytes(b"inside")
    (tmp_path / "table" / "link").symlink_to("a/b")
    (tmp_path / "table" / "absolute").symlink_to(tmp_path / "table" / "link" / "file")
    for name in ("a/b/file", "link/file", "absolute"):
        assert read(tmp_path / "table", name) == b"inside"
    with pytest.raises(MissingFileError):
        read(tmp_path / "table", "a/c/file")
    with pytest.raises(MissingFileError):
        read(tmp_path / "table", "a/b/file/x")


@pytest.mark.usefixtures("_systems")
@pytest.mark.parametrize("read", [read_confined, read_served])
@pytest.mark.parametrize("swapped", ["a", "a/b", "a/b/file"])
def test_a_link_that_appears_after_the_check_is_not_followed(
    tmp_path: Path, read: Opening, swapped: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for root in ("table", "others"):
        (tmp_path / root / "a" / "b").mkdir(parents=True)
        (tmp_path / root / "a" / "b" / "file").write_text(SECRET if root == "others" else "")
    resolve = os.path.realpath

    def resolve_and_swap(path: str) -> str:
        real = resolve(path)
        if path.endswith("file"):
            (tmp_path / "table" / swapped).rename(tmp_path / "aside")
            (tmp_path / "table" / swapped).symlink_to(tmp_path / "others" / swapped)
        return real

    monkeypatch.setattr("lakeport.engine.storage.confined.os.path.realpath", resolve_and_swap)
    with pytest.raises((StorageError, MissingFileError)):
        read(tmp_path / "table", "a/b/file")


def test_a_loop_of_links_is_refused(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    for read in (read_confined, read_served):
        with pytest.raises(StorageError):
            read(tmp_path, "loop")


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_what_is_no_regular_file_is_refused_at_once_and_closed(tmp_path: Path, make: Callable[[Path], None]) -> None:
    odd = tmp_path / "odd"
    make(odd)
    storage = ConfinedStorage(Storage(), [str(tmp_path)])
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        with pytest.raises(StorageError, match="not a regular file"):
            storage.read(str(odd))
        with pytest.raises(StorageError, match="not a regular file"):
            storage.open_input(FileStatus(str(odd), 1, 0))
    assert len(os.listdir("/proc/self/fd")) == before
