"""A frame that DuckDB scans as an Arrow dataset, with projection and filter pushdown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset

from lakeport.kernel.schema import quoted
from lakeport.relations.arrow_filters import columns_in_arrow_filter, parse_arrow_filter

if TYPE_CHECKING:
    from lakeport.frame import Rows


class FrameDataset(pa.dataset.Dataset):  # type: ignore[misc]  # pyarrow has no types
    """A frame in the form of an Arrow dataset for DuckDB. All scans read the same version of the table.

    `error` is the error of the last failed scan; DuckDB keeps only its text."""

    def __init__(self, rows: Rows[Any]) -> None:
        self._rows = rows
        self.error: Exception | None = None

    @property
    def schema(self) -> pa.Schema:
        return self._rows.schema

    def scanner(self, columns: list[str] | None = None, filter: pc.Expression | None = None, **_: Any) -> FrameScanner:
        """Scan the rows that match the filter. The frame applies the filter if it can be translated and may come before
        the frame's limit; otherwise it is applied to all rows of the frame."""
        wanted = self.schema.names if columns is None else columns
        understood = None
        if filter is not None and self._rows.narrows_by_name and self._rows.row_limit is None:
            understood = parse_arrow_filter(filter, self.schema)
        if understood is not None:
            return FrameScanner(self, self._selected(wanted).where(understood), None, wanted)
        needed = dict.fromkeys([*wanted, *columns_in_arrow_filter(filter, self.schema)])
        return FrameScanner(self, self._selected(list(needed)), filter, wanted)

    def _selected(self, names: list[str]) -> Rows[Any]:
        """The rows with at least these columns."""
        return self._rows.select(*map(quoted, names)) if self._rows.narrows_by_name else self._rows


class FrameScanner(pa.dataset.Scanner):  # type: ignore[misc]  # pyarrow has no types
    """One scan, which reads on demand. An Arrow scanner over the frame's batches would read ahead in its own threads,
    which cannot be stopped."""

    def __init__(
        self, dataset: FrameDataset, rows: Rows[Any], filter: pc.Expression | None, columns: list[str]
    ) -> None:
        self._dataset, self._rows, self._filter, self._columns = dataset, rows, filter, columns

    @property
    def dataset_schema(self) -> pa.Schema:
        """The columns read from the frame."""
        return self._rows.schema

    @property
    def projected_schema(self) -> pa.Schema:
        """The columns returned."""
        return pa.schema([self._rows.schema.field(name) for name in self._columns])

    def to_reader(self) -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(self.projected_schema, self._batches())

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        try:
            for batch in self._rows.to_batches():
                held = batch if self._filter is None else batch.filter(self._filter)
                yield held.select(self._columns)
        except Exception as error:
            self._dataset.error = error
            raise
