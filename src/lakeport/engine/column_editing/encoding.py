"""Columns of a row group, encoded anew."""

from __future__ import annotations

import pyarrow as pa

from lakeport.engine.column_editing.original import Original
from lakeport.engine.parquet.writing import open_encoder


def encode(columns: pa.Table, compression: str, *, page_index: bool) -> Original:
    """Encode columns as a file in memory, of one row group; of none if they are empty."""
    sink = pa.BufferOutputStream()
    with open_encoder(sink, columns, compression, write_page_index=page_index) as encoder:
        if columns.num_rows:
            encoder.write_table(columns, row_group_size=columns.num_rows)
    return Original(pa.BufferReader(sink.getvalue()))
