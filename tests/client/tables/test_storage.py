"""The storage of shared tables: logs in memory, files behind URLs, and nothing that can be written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from lakeport.client.tables.shared_storage import SharedStorage
from lakeport.engine.storage.signing import SignedUrl
from lakeport.errors import AccessDeniedError, LakeportError, MissingFileError, StorageError
from lakeport.kernel.engine import FileStatus
from lakeport.testing.http import Asked, Steps, reply, scripted
from tests.client.timing import pool

ROOT = "delta-sharing://log/0/a.b.c"
LOG = f"{ROOT}/_delta_log"
SIZE = 3_000_000
CONTENT = bytes(range(250)) * (SIZE // 250)
PATH = f"delta-sharing:///a.b.c/id/{SIZE}"


@dataclass
class Urls:
    """Gives the URLs of a list one after the other, each until it is refused."""

    urls: list[str]
    refusals: list[str] = field(default_factory=list)

    def signed(self, path: str, refused: str | None = None) -> SignedUrl:
        self.refusals += [refused] if refused else []
        return SignedUrl(self.urls[len(self.refusals)])


def serve(asked: Asked) -> Steps:
    """A range of the content; the path says how else."""
    if asked.path != "/good":
        return reply(b"no", int(asked.path[1:]))
    first, last = map(int, asked.headers["range"].removeprefix("bytes=").split("-"))
    return reply(CONTENT[first : last + 1], 206, {"content-range": f"bytes {first}-{last}/{SIZE}"})


def opened(url: str, *paths: str) -> tuple[SharedStorage, Urls]:
    storage, urls = SharedStorage(pool()), Urls([f"{url}/{path}" for path in paths])
    storage.add_files([PATH], urls, "table")
    return storage, urls


def test_logs_are_listed_and_read() -> None:
    storage = SharedStorage(pool())
    storage.add_log(ROOT, {"00000000000000000002.json": (b"two", 20), "00000000000000000001.json": (b"one", 10)})
    first, second = storage.list_from(LOG, "0")
    assert first == FileStatus(f"{LOG}/00000000000000000001.json", 3, 10)
    assert list(storage.list_from(LOG, "00000000000000000002")) == [second]
    assert list(storage.list_all(LOG)) == [first, second]
    assert list(storage.list_from("delta-sharing://log/9/x/_delta_log", "")) == []
    assert storage.status(first.path) == first
    assert storage.status(f"{LOG}/none") is None
    assert list(storage.read_many([second, first])) == [b"two", b"one"]
    assert storage.read(first.path, 1, 1) == b"n"
    assert storage.read(first.path, 1) == b"ne"
    with pytest.raises(MissingFileError):
        storage.read(f"{LOG}/none")


def test_a_file_is_read_by_ranges() -> None:
    with scripted(serve) as server:
        storage, _ = opened(server.url, "good")
        assert storage.read(PATH, 10, 20) == CONTENT[10:30]
        assert storage.read(PATH, SIZE - 5, 20) == CONTENT[-5:]
        assert storage.read(PATH, SIZE) == b""
        assert storage.read(PATH) == CONTENT
        before = len(server.asked)
        with storage.open_input(FileStatus(PATH, SIZE)) as file:
            assert file.size() == SIZE
            assert file.read_at(1000, SIZE - 1000) == CONTENT[-1000:]
            file.seek(7)
            assert file.read(2_500_000) == CONTENT[7:2_500_007]
            assert file.read() == CONTENT[2_500_007:]
            assert file.read() == b""
        assert len(server.asked) - before == 3


def test_a_small_file_is_one_request() -> None:
    with scripted(serve) as server:
        storage, urls = opened(server.url, "good")
        storage.add_files(["delta-sharing:///a.b.c/id/1000"], urls, "table")
        with storage.open_input(FileStatus("delta-sharing:///a.b.c/id/1000", 1000)) as file:
            assert file.read_at(10, 900) == CONTENT[900:910]
            assert file.read_at(10, 0) == CONTENT[:10]
        assert [asked.headers["range"] for asked in server.asked] == ["bytes=0-999"]


@pytest.mark.parametrize("status", ["401", "403", "404", "410", "400"])
def test_a_url_that_is_refused_is_replaced(status: str) -> None:
    with scripted(serve) as server:
        storage, urls = opened(server.url, status, status, "good")
        assert storage.read(PATH, 0, 5) == CONTENT[:5]
        assert urls.refusals == [f"{server.url}/{status}"] * 2


@pytest.mark.parametrize(("status", "error"), [("403", AccessDeniedError), ("404", MissingFileError)])
def test_urls_that_are_all_refused_are_an_error(status: str, error: type[LakeportError]) -> None:
    with scripted(serve) as server:
        storage, _ = opened(server.url, *[status] * 3)
        with pytest.raises(error, match=f"status {status}") as failed:
            storage.read(PATH, 0, 5)
        assert server.url not in str(failed.value)


def test_a_file_that_is_not_shared_is_missing() -> None:
    with pytest.raises(MissingFileError, match="did not share this file"):
        SharedStorage(pool()).read("delta-sharing:///a.b.c/other/5")


@pytest.mark.parametrize(
    "write",
    [
        lambda storage: storage.write(PATH, b""),
        lambda storage: storage.open_output(PATH),
        lambda storage: storage.delete([PATH]),
    ],
    ids=["write", "open_output", "delete"],
)
def test_nothing_can_be_written(write: Callable[[SharedStorage], object]) -> None:
    with pytest.raises(StorageError, match="can only be read"):
        write(SharedStorage(pool()))
