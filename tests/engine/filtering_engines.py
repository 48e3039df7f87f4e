"""The default engine with one way to find a filter's rows, used for every file, however small."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from lakeport.engine import ComposedEngine, default_engine
from lakeport.engine.parquet import ParquetFiles
from lakeport.engine.parquet.polars_rows import PolarsRows
from lakeport.engine.parquet.row_filter import ColumnsFirst, RowFilter
from lakeport.kernel.engine import FileStatus, StorageClient
from lakeport.kernel.expressions import Expression

Way = type[ColumnsFirst] | type[PolarsRows]


def filtering_files(way: Way, storage: StorageClient) -> ParquetFiles:
    def row_filters(file: FileStatus, predicate: Expression, schema: pa.Schema) -> list[RowFilter]:
        found = way.of(predicate, schema)
        return [] if found is None else [found]

    return ParquetFiles(storage, row_filters=row_filters)


def filtering_engine(way: Way) -> ComposedEngine:
    engine = default_engine()
    return replace(engine, parquet=filtering_files(way, engine.storage))


FILTERING = {way.__name__: filtering_engine(way) for way in (ColumnsFirst, PolarsRows)}
