"""An Iceberg mirror of a Delta table: made, kept up to date, read at two versions, verified and cleaned."""

import tempfile
from pathlib import Path

from pyiceberg.table import StaticTable

from lakeport import iceberg, tables


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder, "orders"))
        rows = {"id": list(range(1000)), "country": ["fr", "de", "it", "es"] * 250}
        vectors = {"delta.enableDeletionVectors": "true"}
        tables.create(path, rows, partition_by=["country"], properties=vectors)
        print("mirror:", iceberg.convert(path, format_version=3).kind)
        tables.delete(path, "id % 10 = 0")
        mirror = iceberg.convert(path)
        print(f"mirror: {mirror.kind}, shows version {mirror.version}")
        table = StaticTable.from_metadata(mirror.metadata_location)
        for snapshot in table.snapshots():
            count = table.scan(snapshot_id=snapshot.snapshot_id).to_arrow().num_rows
            version = snapshot.summary["lakeport.delta.version"] if snapshot.summary else None
            print(f"pyiceberg, version {version}: {count} rows")
        print("verified:", iceberg.verify(path, rows=True).is_equal)
        print(f"to clean: {len(iceberg.clean(path, retention='0 seconds').expired)} snapshot")


if __name__ == "__main__":
    main()
