"""A provider that offers the directories of its tables."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

import lakeport
from lakeport import tables
from lakeport.client import ClientOptions, open_server
from lakeport.client.rest.server import SharingServer
from lakeport.server.catalog.model import Table
from lakeport.sharing.models import Credentials
from lakeport.sharing.names import TableName
from tests.client.shares import profile_text
from tests.interop.buckets import options
from tests.interop.minio_role import ROLE
from tests.interop.servers import NAME, Bucket, s3_bucket
from tests.server.running import running, sharing

KEYS = ("access_key_id", "secret_access_key", "account_key")


def reachable(bucket: Bucket) -> dict[str, Any]:
    """Where the storage is, and no key to it."""
    return {name: value for name, value in options(bucket).items() if name not in KEYS}


@dataclass(frozen=True)
class Provider:
    """A server that shares tables in a bucket by their directories."""

    bucket: Bucket
    profile: Path

    def connect(self, **more: Any) -> lakeport.Connection:
        return lakeport.connect(self.profile, storage_options=reachable(self.bucket), **more)


@pytest.fixture(scope="module")
def minio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Provider]:
    """`orders` is offered by its directory only, `both` by URLs too; `clone` has its files in another directory."""
    folder = tmp_path_factory.mktemp("minio")
    with s3_bucket(folder) as bucket:
        own = options(bucket)
        orders = f"{bucket.url}/data/orders"
        feed = {"delta.enableChangeDataFeed": "true", "delta.enableDeletionVectors": "true"}
        tables.create(orders, {"id": [1, 2, 3], "city": ["Oslo", "Cork", "Oslo"]}, properties=feed, storage_options=own)
        tables.append(orders, {"id": [4], "city": ["Bari"]}, storage_options=own)
        tables.delete(orders, "id = 2", storage_options=own)
        clone(bucket, orders, "clones/c")
        places = {
            "s.d.orders": orders,
            "s.d.both": orders.replace("s3:", "s3a:"),
            "s.d.clone": f"{bucket.url}/clones/c",
        }
        content = sharing(places, access_modes=("dir",), history_shared=True)
        content = replace(content, tables=tuple(map(offered, content.tables)))
        storage = {name: str(value).lower() if value is True else value for name, value in own.items()}
        with running(content, storage=storage, temporary_credentials={"aws": {"roleArn": ROLE}}) as server:
            profile = folder / "config.share"
            profile.write_text(profile_text(server.endpoint))
            yield Provider(bucket, profile)


def offered(table: Table) -> Table:
    if table.name == "both":
        return replace(table, access_modes=("url", "dir"))
    if table.name == "clone":
        return replace(table, auxiliary_locations=(f"s3a://{NAME}/data/orders",))
    return table


def clone(bucket: Bucket, root: str, path: str) -> None:
    """A table whose log names the files of another one by their whole paths."""
    frame = lakeport.scan(root, storage_options=options(bucket)).at(version=1)
    first = [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}]
    first += [{"metaData": msgspec.to_builtins(frame.snapshot.metadata)}]
    adds = [
        {"add": {"path": f.path, "partitionValues": {}, "size": f.size, "modificationTime": 0, "dataChange": True}}
        for f in frame.files()
    ]
    lines = b"\n".join(msgspec.json.encode(action) for action in [*first, *adds])
    bucket.put(f"{path}/_delta_log/{0:020d}.json", lines + b"\n")


class Spoilt(SharingServer):
    """A server whose credentials are sometimes not good any more when they are used."""

    spoil: Callable[[int], bool]
    given = 0

    def credentials(self, table: TableName, location: str | None = None) -> Credentials:
        found = super().credentials(table, location)
        keys = found.aws_temp_credentials
        assert keys is not None
        if self.spoil(self.given):
            keys = msgspec.structs.replace(keys, session_token=keys.session_token[:-8] + "AAAAAAAA")
        self.given += 1
        return msgspec.structs.replace(found, aws_temp_credentials=keys)


def spoilt(minio: Provider, spoil: Callable[[int], bool]) -> Spoilt:
    opened = open_server(minio.profile, ClientOptions())
    server = Spoilt(opened.profile, opened.http)
    server.spoil = spoil
    return server
