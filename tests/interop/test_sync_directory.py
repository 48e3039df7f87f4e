"""Copies of tables that are shared by their directories only: read with temporary credentials, and nothing else.

A provider's table is written on a disk and brought into a bucket as it grows, so that the two can be compared.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import obstore
import pytest

import lakeport
from lakeport import tables
from lakeport.cli.app import run
from lakeport.client import ClientOptions
from lakeport.client.sync import SyncResult
from lakeport.client.sync.destination import Destination
from lakeport.client.sync.run import sync_from
from lakeport.client.sync.sources import DirectorySource
from lakeport.engine import default_engine
from lakeport.errors import CorruptTableError, MissingFileError, SharingError, SyncError
from lakeport.sharing.names import parse_table_name
from tests.client.shares import profile_text
from tests.client.syncing import changes, data_files, snapshot, synced_version
from tests.interop.buckets import options
from tests.interop.directories import Provider as DirectoryProvider
from tests.interop.directories import clone, reachable, spoilt
from tests.interop.minio_role import ROLE
from tests.interop.servers import Bucket, azure_container, s3_bucket
from tests.interop.shareable import OWN, orders, write_orders
from tests.rows import texts_of
from tests.server.running import Running, running, sharing

TABLE = "s.d.orders"


@dataclass(frozen=True)
class Provider:
    """A server that shares a table in a bucket, below `prefix`: what `folder` was when it was published last."""

    server: Running
    bucket: Bucket
    prefix: str
    folder: Path
    profile: Path
    published: dict[str, int] = field(default_factory=dict)

    @property
    def path(self) -> str:
        return str(self.folder)

    def publish(self) -> None:
        """Brings the bucket up to what the disk has; commits come last."""
        files = {str(file.relative_to(self.folder)): file for file in self.folder.rglob("*") if file.is_file()}
        store = self.bucket.store()
        for gone in sorted(self.published.keys() - files.keys()):
            obstore.delete(store, f"{self.prefix}{gone}")
            del self.published[gone]
        for name in sorted(files, key=lambda name: ("_delta_log" in name, name)):
            changed = files[name].stat().st_mtime_ns
            if self.published.get(name) != changed:
                self.bucket.put(f"{self.prefix}{name}", files[name].read_bytes())
                self.published[name] = changed

    def change(self, **fields: Any) -> None:
        """What the provider's catalog says of the table from now on."""
        source = self.server.source
        assert source is not None
        (table,) = source.content.tables
        source.content = replace(source.content, tables=(replace(table, **fields),))
        self.server.app.services.watcher.look()

    def client(self, **chosen: Any) -> ClientOptions:
        return ClientOptions(storage_options=reachable(self.bucket), **chosen)

    def sync(self, dest: Path, *, access: Any = None, **more: Any) -> SyncResult:
        return lakeport.sync(f"{self.profile}#{TABLE}", str(dest), client=self.client(access=access), **more)


@contextmanager
def providing(bucket: Bucket, folder: Path, prefix: str, **settings: Any) -> Iterator[Provider]:
    """A table of five versions with deletion vectors, column mapping and a change data feed."""
    storage = {name: str(value).lower() if value is True else value for name, value in options(bucket).items()}
    location = f"{bucket.url}/{prefix}".rstrip("/")
    content = sharing({TABLE: location}, access_modes=("dir",), history_shared=True)
    with running(content, storage=storage, **settings) as server:
        profile = folder / "ann.share"
        profile.write_text(profile_text(server.endpoint))
        provider = Provider(server, bucket, prefix, folder / "orders", profile)
        write_orders(provider.path, OWN["advanced"])
        provider.publish()
        yield provider


@pytest.fixture(scope="module")
def minio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bucket]:
    with s3_bucket(tmp_path_factory.mktemp("minio")) as bucket:
        yield bucket


@pytest.fixture
def provider(minio: Bucket, tmp_path: Path) -> Iterator[Provider]:
    with providing(minio, tmp_path, f"{tmp_path.name}/", temporary_credentials={"aws": {"roleArn": ROLE}}) as found:
        yield found


def write_more(provider: Provider) -> None:
    """Five versions: rows are inserted, moved, deleted and changed, and a property is set."""
    path = provider.path
    tables.append(path, orders(30, 40))
    tables.optimize(path)
    tables.delete(path, "id % 10 = 5")
    tables.update(path, {"amount": "0.0"}, "id < 3")
    tables.set_properties(path, {"quality": "gold"})
    provider.publish()


def assert_follows(provider: Provider, dest: Path) -> None:
    """The copy is made, and follows every version."""
    first = provider.sync(dest, verify=True)
    assert (first.version, first.source_version, first.commits) == (0, 4, 1)
    assert sorted(data_files(dest).values()) == sorted(data_files(provider.path).values())
    assert first.fetched_bytes == sum(map(len, data_files(dest).values()))
    assert snapshot(dest).protocol == snapshot(provider.path).protocol
    assert snapshot(dest).metadata.id == snapshot(provider.path).metadata.id
    write_more(provider)
    assert provider.sync(dest, dry_run=True).commits == 5
    result = provider.sync(dest, verify=True)
    assert (result.version, result.source_version, result.commits) == (5, 9, 5)
    assert result.verified_files == len(lakeport.scan(provider.path).files())
    assert [texts_of(dest, version) for version in range(6)] == [
        texts_of(provider.path, version) for version in range(4, 10)
    ]
    assert changes(dest, 1) == changes(provider.path, 5)
    assert snapshot(dest).properties["quality"] == "gold"
    assert provider.sync(dest).commits == 0
    assert provider.sync(dest, full=True).fetched_files == 0


def test_a_copy_of_a_directory_in_s3_has_its_bytes_and_follows_every_version(
    provider: Provider, tmp_path: Path
) -> None:
    assert_follows(provider, tmp_path / "copy")


def test_a_copy_of_a_container_of_azure_has_its_bytes_and_follows_every_version(tmp_path: Path) -> None:
    (tmp_path / "azurite").mkdir()
    with azure_container(tmp_path / "azurite") as bucket, providing(bucket, tmp_path, "") as provider:
        assert_follows(provider, tmp_path / "copy")


def test_a_sync_that_ends_early_is_gone_on_with(provider: Provider, tmp_path: Path) -> None:
    dest = tmp_path / "copy"

    def stop(done: int, total: int) -> None:
        if done > total // 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        provider.sync(dest, progress=stop)
    assert not (dest / "_delta_log").exists()
    there = {file.name for file in dest.glob("*.parquet")}
    assert there
    result = provider.sync(dest, verify=True)
    assert result.fetched_files == result.added_files - len(there)
    assert there <= data_files(dest).keys()


def test_rows_that_are_only_moved_are_no_changes(provider: Provider, tmp_path: Path) -> None:
    provider.sync(tmp_path / "copy")
    tables.optimize(provider.path)
    provider.publish()
    assert provider.sync(tmp_path / "copy").removed_files > 0
    assert changes(tmp_path / "copy", 1) == []


def test_files_and_vectors_are_fetched_once(provider: Provider, tmp_path: Path) -> None:
    dest = tmp_path / "copy"
    provider.sync(dest)
    tables.delete(provider.path, "id = 7")
    provider.publish()
    deleted = provider.sync(dest)
    assert (deleted.added_files, deleted.removed_files, deleted.fetched_files) == (1, 1, 0)
    tables.restore(provider.path, version=4)
    provider.publish()
    assert provider.sync(dest, verify=True).fetched_files == 0


def test_a_copy_goes_on_by_the_way_by_which_it_came(provider: Provider, tmp_path: Path) -> None:
    """By another one, its files would be fetched again."""
    dest = tmp_path / "copy"
    provider.sync(dest)
    provider.change(access_modes=("url", "dir"))
    tables.append(provider.path, orders(30, 40))
    provider.publish()
    assert provider.sync(dest).fetched_files == 2
    assert snapshot(dest).properties["lakeport.sync.access"] == "dir"


@pytest.mark.parametrize(("before", "after"), [("dir", "url"), ("url", "dir")])
def test_a_copy_goes_on_by_another_way_if_only_that_is_offered(
    provider: Provider, tmp_path: Path, before: str, after: str
) -> None:
    dest = tmp_path / "copy"
    provider.change(access_modes=(before,))
    provider.sync(dest)
    provider.change(access_modes=(after,))
    write_more(provider)
    result = provider.sync(dest, verify=True)
    assert (result.version, result.source_version) == (5, 9)
    assert [texts_of(dest, version) for version in range(6)] == [
        texts_of(provider.path, version) for version in range(4, 10)
    ]
    assert changes(dest, 2) == changes(provider.path, 6)
    assert snapshot(dest).properties.get("lakeport.sync.access") == (None if after == "url" else "dir")
    tables.delete(provider.path, "id = 7")
    provider.publish()
    assert provider.sync(dest, verify=True).fetched_files == 0


def test_a_way_that_is_asked_for_is_taken(provider: Provider, tmp_path: Path) -> None:
    with pytest.raises(SharingError, match="by its directory only"):
        provider.sync(tmp_path / "copy", access="url")
    provider.change(access_modes=("url", "dir"))
    provider.sync(tmp_path / "by urls")
    provider.sync(tmp_path / "by directory", access="dir")
    assert sorted(data_files(tmp_path / "by urls").values()) == sorted(data_files(tmp_path / "by directory").values())
    assert not data_files(tmp_path / "by urls").keys() & data_files(tmp_path / "by directory").keys()


def test_versions_that_the_provider_has_cleaned_up_or_vacuumed_come_with_a_later_one(
    provider: Provider, tmp_path: Path
) -> None:
    dest = tmp_path / "copy"
    provider.sync(dest)
    write_more(provider)
    tables.checkpoint(provider.path)
    tables.append(provider.path, orders(40, 50))
    for version in range(9):
        (provider.folder / "_delta_log" / f"{version:020d}.json").unlink()
    tables.vacuum(provider.path, retention=0, enforce_retention=False, dry_run=False)
    provider.publish()
    result = provider.sync(dest, verify=True)
    assert (result.source_version, result.commits) == (12, 4)
    copied = {int(c.info["operationParameters"]["version"]): c.version for c in lakeport.scan(str(dest)).history()}
    assert sorted(copied) == [4, 9, 10, 11, 12]
    assert texts_of(dest, copied[9]) == texts_of(provider.path, 9)
    assert texts_of(dest) == texts_of(provider.path)


def test_a_file_that_is_gone_or_cut_ends_the_sync_and_the_copy_stays(provider: Provider, tmp_path: Path) -> None:
    dest = tmp_path / "copy"
    provider.sync(dest)
    tables.append(provider.path, orders(30, 40))
    newest = max(provider.folder.rglob("*.parquet"), key=lambda file: file.stat().st_mtime_ns)
    data = newest.read_bytes()
    newest.write_bytes(data[:-100] + data[-8:])
    provider.publish()
    with pytest.raises(CorruptTableError, match="ends before"):
        provider.sync(dest)
    newest.unlink()
    provider.publish()
    with pytest.raises(MissingFileError):
        provider.sync(dest)
    assert synced_version(dest) == 4
    newest.write_bytes(data)
    provider.publish()
    assert provider.sync(dest, verify=True).commits == 1


def test_a_table_that_was_made_anew_is_refused(provider: Provider, tmp_path: Path) -> None:
    dest = tmp_path / "copy"
    provider.sync(dest)
    shutil.rmtree(provider.path)
    tables.create(provider.path, orders(0, 3))
    provider.publish()
    with pytest.raises(SyncError, match="not the table that was copied here"):
        provider.sync(dest)
    provider.sync(dest, full=True, verify=True)
    assert texts_of(dest) == texts_of(provider.path)


def test_credentials_that_the_storage_refuses_are_renewed(provider: Provider, tmp_path: Path) -> None:
    server = spoilt(DirectoryProvider(provider.bucket, provider.profile), lambda number: number == 0)
    source = DirectorySource(server, parse_table_name(TABLE), reachable(provider.bucket))
    result = sync_from(source, Destination(default_engine(), str(tmp_path / "copy")), verify=True)
    assert result.verified_files == len(lakeport.scan(provider.path).files())
    assert server.given == 2


def test_files_in_another_directory_are_copied_too(provider: Provider, tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    tables.create(str(plain), orders(0, 10))
    tables.append(str(plain), orders(10, 20))
    for file in plain.rglob("*"):
        if file.is_file():
            provider.bucket.put(f"{provider.prefix}original/{file.relative_to(plain)}", file.read_bytes())
    original = f"{provider.bucket.url}/{provider.prefix}original"
    clone(provider.bucket, original, f"{provider.prefix}clone")
    provider.change(location=original.replace("original", "clone"), auxiliary_locations=(original,))
    provider.sync(tmp_path / "copy", verify=True)
    assert texts_of(tmp_path / "copy") == texts_of(plain)
    assert all(Path(file.path).parent == tmp_path / "copy" for file in lakeport.scan(str(tmp_path / "copy")).files())


def test_the_command_copies_a_directory(provider: Provider, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pairs = [
        f"--shared-option={name}={str(value).lower() if value is True else value}"
        for name, value in reachable(provider.bucket).items()
    ]
    given = ["sync", f"{provider.profile}#{TABLE}", str(tmp_path / "copy"), *pairs]
    assert run([*given, "--json", "--verify"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["verified_files"] == len(lakeport.scan(provider.path).files())
    assert run([*given, "--access", "dir"]) == 0
    assert "nothing to do" in capsys.readouterr().out
    assert run([*given, "--access", "url"]) == 1
    assert "by its directory only" in capsys.readouterr().err
