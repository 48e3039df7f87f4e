"""Shared tables in their own directories: read with temporary credentials, which are renewed.

MinIO holds sessions to their policies: what is read is read with nothing but the credentials that the server gives.
"""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

import lakeport
from lakeport import tables
from lakeport.cli.app import run
from lakeport.client.tables.by_directory import DirectoryStorage, DirectoryTable
from lakeport.errors import AccessDeniedError, SharingError, StorageError
from lakeport.frame import Frame
from lakeport.sharing.names import parse_table_name
from lakeport.source import PathTable
from tests.client.shares import profile_text
from tests.interop.buckets import options
from tests.interop.directories import Provider, reachable, spoilt
from tests.interop.servers import NAME, azure_container
from tests.rows import ids
from tests.server.running import running, sharing


def test_a_table_that_is_offered_by_its_directory_only_is_read_there(minio: Provider) -> None:
    with minio.connect() as connection:
        orders = connection.scan("s.d.orders")
        assert orders.version == 2
        assert ids(orders) == [1, 3, 4]
        assert orders.count() == 3
        assert ids(orders.where("city = 'Oslo'").select("id")) == [1, 3]
        assert ids(orders.at(version=0)) == [1, 2, 3]
        assert [commit.version for commit in orders.history()] == [2, 1, 0]
        assert sorted(orders.changes(start=2).to_arrow()["_change_type"].to_pylist()) == ["delete"]
        assert orders.files()[0].path.startswith(f"s3://{NAME}/data/orders/")


def test_scan_reads_the_directory_too(minio: Provider) -> None:
    assert ids(lakeport.scan(f"{minio.profile}#s.d.orders", storage_options=reachable(minio.bucket))) == [1, 3, 4]


def test_a_table_that_is_offered_both_ways_is_read_in_its_directory_if_asked_for(minio: Provider) -> None:
    by_urls = minio.connect().scan("s.d.both")
    by_directory = minio.connect(access="dir").scan("s.d.both")
    assert ids(by_urls) == ids(by_directory) == [1, 3, 4]
    assert by_urls.files()[0].path.startswith("delta-sharing:///")
    assert by_directory.files()[0].path.startswith(f"s3a://{NAME}/data/orders/")
    scanned = lakeport.scan(f"{minio.profile}#s.d.both", access="dir", storage_options=reachable(minio.bucket))
    assert ids(scanned) == [1, 3, 4]
    assert scanned.files() == by_directory.files()


def test_threads_that_first_use_a_directory_at_once_read_one_version(
    minio: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    barrier, opened = Barrier(2), PathTable.snapshot

    def open_together(*given: Any) -> Any:
        found = opened(*given)
        barrier.wait(60)
        return found

    monkeypatch.setattr(PathTable, "snapshot", open_together)
    frame = minio.connect().scan("s.d.orders")
    with ThreadPoolExecutor(2) as threads:
        one, other = (threads.submit(getattr, frame, name) for name in ("definition", "snapshot"))
        assert one.result(60) is other.result(60)


def test_files_in_another_directory_of_the_table_are_read_by_credentials_of_their_own(minio: Provider) -> None:
    assert ids(minio.connect().scan("s.d.clone")) == [1, 2, 3, 4]


def test_the_commands_read_a_directory(minio: Provider, capsys: pytest.CaptureFixture[str]) -> None:
    pairs = [
        f"--option={name}={str(value).lower() if value is True else value}"
        for name, value in reachable(minio.bucket).items()
    ]
    assert run(["count", f"{minio.profile}#s.d.orders", *pairs]) == 0
    assert capsys.readouterr().out == "3\n"
    assert run(["history", f"{minio.profile}#s.d.both", "--access", "dir", "--json", *pairs]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3
    query = ["sql", "select count(*) as n from s.d.both", "--profile", str(minio.profile), "--json"]
    assert run([*query, "--access", "dir", *pairs]) == 0
    assert capsys.readouterr().out == '{"n":3}\n'


def test_credentials_that_the_storage_refuses_are_renewed(minio: Provider) -> None:
    server = spoilt(minio, lambda number: number == 0)
    table = DirectoryTable(server, parse_table_name("s.d.orders"), reachable(minio.bucket))
    assert ids(Frame.of(table)) == [1, 3, 4]
    assert server.given == 2


def test_credentials_that_are_refused_again_are_an_error(minio: Provider) -> None:
    server = spoilt(minio, lambda number: True)
    table = DirectoryTable(server, parse_table_name("s.d.orders"), reachable(minio.bucket))
    with pytest.raises((AccessDeniedError, StorageError)) as failed:
        Frame.of(table).to_arrow()
    assert server.given == 2
    assert "AAAAAAAA" not in str(failed.value)


def test_a_listing_goes_on_where_the_credentials_were_refused(minio: Provider) -> None:
    server = spoilt(minio, lambda number: number == 0)
    storage = DirectoryStorage(server, parse_table_name("s.d.orders"), reachable(minio.bucket))
    log = f"{storage.location}/_delta_log"
    commits = [file.path[-6:] for file in storage.list_from(log, "0") if file.path.endswith(".json")]
    assert commits == ["0.json", "1.json", "2.json"]
    assert server.given == 2
    files = [file for file in storage.list_all(log) if file.path.endswith(".json")]
    assert [len(content) for content in storage.read_many(files)] == [file.size for file in files]


def test_nothing_can_be_written(minio: Provider) -> None:
    frame = minio.connect().scan("s.d.orders")
    assert frame.version == 2
    with pytest.raises(StorageError, match="can only be read"):
        frame.engine.storage.write(f"{frame.snapshot.root}/x", b"")
    with pytest.raises(StorageError, match="can only be read"):
        frame.engine.storage.delete([f"{frame.snapshot.root}/x"])


def test_a_server_that_gives_no_credentials_is_told(minio: Provider) -> None:
    with running(sharing({"s.d.t": "/nowhere"}, access_modes=("url",), history_shared=True)) as server:
        connection = lakeport.connect(profile_text(server.endpoint), access="dir")
        with pytest.raises(SharingError, match="not shared by its directory"):
            connection.scan("s.d.t").to_arrow()


def test_a_container_of_azure_is_read_by_a_signature(tmp_path: Path) -> None:
    with azure_container(tmp_path) as bucket:
        own = options(bucket)
        tables.create(bucket.url, {"id": [1, 2]}, storage_options=own)
        storage = {name: str(value).lower() if value is True else value for name, value in own.items()}
        content = sharing({"s.d.t": bucket.url}, access_modes=("dir",), history_shared=True)
        with running(content, storage=storage) as server:
            connection = lakeport.connect(profile_text(server.endpoint), storage_options=reachable(bucket))
            assert ids(connection.scan("s.d.t")) == [1, 2]
