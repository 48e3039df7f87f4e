"""How many rows a file has, where the log does not tell."""

from __future__ import annotations

from typing import Any

import msgspec
import pyarrow as pa

from lakeport.kernel.data_files import decode_num_records
from lakeport.kernel.engine import ROW_INDEX, Engine, FileSplit
from lakeport.kernel.scan import ScanFile
from lakeport.workers import Workplace


def counted_stats(engine: Engine, file: ScanFile) -> str:
    """The statistics of a file, with `numRecords`: as the log has it, else counted in the file."""
    if file.stats is not None and decode_num_records(file.stats) is not None:
        return file.stats
    batches = engine.parquet.read_parquet_files([FileSplit(file.status)], pa.schema([ROW_INDEX]))
    counted = {"numRecords": sum(batch.num_rows for batch in batches)}
    return msgspec.json.encode(_decode_object(file.stats) | counted).decode()


def count_rows(place: Workplace, file: ScanFile) -> str:
    """The same as a task."""
    return counted_stats(place.engine, file)


def _decode_object(stats: str | None) -> dict[str, Any]:
    """With the texts that it has: decimals keep their digits. Empty for what is no statistics."""
    try:
        return msgspec.json.decode(stats, type=dict[str, msgspec.Raw]) if stats else {}
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return {}
