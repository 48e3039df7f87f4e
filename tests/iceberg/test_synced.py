"""A shared table, copied by its recipient: the copy has a mirror that follows from sync to sync."""

from __future__ import annotations

from pathlib import Path

import pytest

import lakeport
from lakeport import iceberg, tables
from tests.client.syncing import providing
from tests.iceberg.changing import FORMATS
from tests.iceberg.readers import Reader, assert_mirrors, canonical
from tests.interop.shareable import OWN, orders, write_orders
from tests.rows import texts_of


def append_and_delete(path: str) -> None:
    tables.append(path, orders(30, 40))
    tables.delete(path, "id % 10 = 5")


def update_and_optimize(path: str) -> None:
    tables.update(path, {"amount": "0.0"}, "id < 3")
    tables.optimize(path)


@FORMATS
@pytest.mark.parametrize("name", OWN)
def test_the_copy_of_a_shared_table_is_mirrored_from_sync_to_sync(
    reader: Reader, tmp_path: Path, name: str, version: int
) -> None:
    copy = tmp_path / "copy"
    with providing(tmp_path / "provider", *OWN) as provider:
        source = provider.path(name)
        write_orders(source, OWN[name])
        provider.sync(name, copy)
        conversion = iceberg.convert(str(copy), format_version=version)
        assert conversion.kind == "full"
        for change in (append_and_delete, update_and_optimize):
            change(source)
            assert provider.sync(name, copy).commits == 2
            conversion = iceberg.convert(str(copy))
            assert (conversion.kind, len(conversion.versions)) == ("incremental", 2)
            assert texts_of(copy) == texts_of(source)
            shown = reader.read(conversion.metadata_location, conversion.snapshot_id)
            assert canonical(shown) == canonical(lakeport.scan(source).to_arrow())
    assert_mirrors(reader, str(copy), conversion, [0, 1, 2, 3, 4])
    assert iceberg.verify(str(copy), rows=True).is_equal
