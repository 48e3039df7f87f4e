"""Columns of a row group, encoded anew."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

import pyarrow as pa

from lakeport.engine.column_editing.original import Original
from lakeport.engine.parquet.bounds import EncodedBounds
from lakeport.engine.parquet.encoded import decoded
from lakeport.engine.parquet.leaves import Path
from lakeport.engine.parquet.writing import open_encoder
from lakeport.workers.memory import arrow_pool_for

if TYPE_CHECKING:
    import pyarrow.parquet as pq


def encode(columns: pa.Table, compression: str, *, page_index: bool) -> Original:
    """Encode columns as a file in memory, of one row group; of none if they are empty."""
    return encode_bounded(columns, compression, (), page_index=page_index)[0]


def encode_bounded(
    columns: pa.Table, compression: str, bounded: Collection[Path], *, page_index: bool
) -> tuple[Original, EncodedBounds]:
    """The same, with the bounds of some columns' values."""
    sink, footers = pa.BufferOutputStream(arrow_pool_for(columns.nbytes)), list["pq.FileMetaData"]()
    bounds, rows = EncodedBounds(decoded(columns.schema), bounded), columns.unify_dictionaries()
    with open_encoder(sink, rows, compression, write_page_index=page_index, metadata_collector=footers) as encoder:
        if rows.num_rows:
            encoder.write_table(rows, row_group_size=rows.num_rows)
            bounds.add(rows)
    bounds.finish(footers[0])
    return Original(pa.BufferReader(sink.getvalue())), bounds
