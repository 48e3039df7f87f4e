"""What files of a table have in common with those that they replace."""

from pathlib import Path
from urllib.parse import unquote

import pyarrow.parquet as pq

import lakeport
from tests.tables.modelled import logged


def chunks(path: Path) -> set[bytes]:
    """The bytes of the columns in a file."""
    data, metadata, found = path.read_bytes(), pq.read_metadata(path), set()
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        for column in map(group.column, range(group.num_columns)):
            start = min(filter(None, (column.dictionary_page_offset, column.data_page_offset)))
            found.add(data[start : start + column.total_compressed_size])
    return found


def kept_columns(path: str, version: int | None = None) -> list[int]:
    """For each file that a version adds, how many of its columns are, byte for byte, in a file that it removes."""
    version = lakeport.scan(path).version if version is None else version
    before, after = ([unquote(a["path"]) for a in logged(path, version, kind)] for kind in ("remove", "add"))
    removed = set[bytes]().union(*(chunks(Path(path, file)) for file in before))
    return [len(removed & chunks(Path(path, file))) for file in after if file not in before]
