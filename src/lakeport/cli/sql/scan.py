"""A frame that DuckDB scans with projection and filter pushdown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset

from lakeport.cli.sql.arrow_filters import columns_in_arrow_filter, parse_arrow_filter
from lakeport.frame import Frame
from lakeport.kernel.schema import quoted


class FrameDataset(pa.dataset.Dataset):  # type: ignore[misc]  # pyarrow has no types
    """A frame in the form of an Arrow dataset for DuckDB. All scans read the same version of the table.

    `error` is the error of the last failed scan; DuckDB keeps only its text."""

    def __init__(self, frame: Frame) -> None:
        self._frame = frame
        self.error: Exception | None = None

    @property
    def schema(self) -> pa.Schema:
        return self._frame.schema

    def scanner(self, columns: list[str] | None = None, filter: pc.Expression | None = None, **_: Any) -> FrameScanner:
        """Scan the rows that match the filter. The frame applies the filter if it can be translated; otherwise it is
        applied to all rows of the frame."""
        wanted = self.schema.names if columns is None else columns
        understood = None if filter is None else parse_arrow_filter(filter, self.schema)
        if understood is not None:
            return FrameScanner(self, _selected(self._frame, wanted).where(understood), None, wanted)
        needed = dict.fromkeys([*wanted, *columns_in_arrow_filter(filter, self.schema)])
        return FrameScanner(self, _selected(self._frame, list(needed)), filter, wanted)


class FrameScanner(pa.dataset.Scanner):  # type: ignore[misc]  # pyarrow has no types
    """One scan, which reads on demand. An Arrow scanner over the frame's batches would read ahead in its own threads,
    which cannot be stopped."""

    def __init__(self, dataset: FrameDataset, frame: Frame, filter: pc.Expression | None, columns: list[str]) -> None:
        self._dataset, self._frame, self._filter, self._columns = dataset, frame, filter, columns

    @property
    def dataset_schema(self) -> pa.Schema:
        """The columns read from the frame."""
        return self._frame.schema

    @property
    def projected_schema(self) -> pa.Schema:
        """The columns returned."""
        return pa.schema([self._frame.schema.field(name) for name in self._columns])

    def to_reader(self) -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(self.projected_schema, self._batches())

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        try:
            for batch in self._frame.to_batches():
                held = batch if self._filter is None else batch.filter(self._filter)
                yield held.select(self._columns)
        except Exception as error:
            self._dataset.error = error
            raise


def _selected(frame: Frame, names: list[str]) -> Frame:
    return frame.select(*map(quoted, names))
