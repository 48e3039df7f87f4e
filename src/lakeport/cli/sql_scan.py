"""A frame as something that DuckDB scans: it asks for columns and a filter, and gets no others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset

from lakeport.cli.arrow_filters import columns_in_arrow_filter, parse_arrow_filter
from lakeport.frame import Frame


class FrameDataset(pa.dataset.Dataset):  # type: ignore[misc]  # pyarrow has no types
    """What DuckDB takes an Arrow dataset for. Every scan of it reads the frame, at one version of the table.

    `error` is what went wrong in the last scan that failed; DuckDB has only its text."""

    def __init__(self, frame: Frame) -> None:
        self._frame = frame
        self.error: Exception | None = None

    @property
    def schema(self) -> pa.Schema:
        return self._frame.schema

    def scanner(
        self, columns: list[str] | None = None, filter: pc.Expression | None = None, **_: Any
    ) -> pa.dataset.Scanner:
        """The rows for which the filter holds. It is applied here to all that the frame gives, which leaves out what it
        can."""
        wanted = self.schema.names if columns is None else columns
        names = list(dict.fromkeys([*wanted, *columns_in_arrow_filter(filter, self.schema)]))
        narrowed = self._frame.select(*(f"`{name.replace('`', '``')}`" for name in names))
        understood = None if filter is None else parse_arrow_filter(filter, self.schema)
        if understood is not None:
            narrowed = narrowed.where(understood)
        batches = self._remembering(narrowed)
        return pa.dataset.Scanner.from_batches(batches, schema=narrowed.schema, columns=wanted, filter=filter)

    def _remembering(self, frame: Frame) -> Iterator[pa.RecordBatch]:
        try:
            yield from frame.to_batches()
        except Exception as error:
            self.error = error
            raise
