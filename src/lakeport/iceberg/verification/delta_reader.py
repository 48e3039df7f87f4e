"""An independent Delta reader: a bug in our kernel would show in the mirror too, and comparing the two would not find
it. deltalake is an optional package."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lakeport.iceberg.verification.fingerprint import Fingerprint
from lakeport.locations import is_url


@dataclass(frozen=True)
class SecondOpinion:
    """The findings of another reader in a Delta table."""

    reader: str | None
    """The reader and its version; None if none could read the table."""
    why_not: str | None = None
    """Why there is no reader."""
    difference: str | None = None
    """The difference from our rows."""


def ask_another_reader(
    root: str, version: int, ours: pa.RecordBatchReader, options: Mapping[str, Any]
) -> SecondOpinion:
    """Compare `ours`, the rows of a version as read by our kernel, with those of another reader."""
    try:
        import deltalake
    except ImportError:
        return SecondOpinion(None, "deltalake is not installed")
    if is_url(root) and not options:  # it might search for credentials for minutes
        return SecondOpinion(None, "deltalake needs storage options to read the table")
    names = ours.schema.names
    name = f"deltalake {deltalake.__version__}"
    try:
        table = deltalake.DeltaTable(root, version=version, storage_options={k: str(v) for k, v in options.items()})
        rows = pa.RecordBatchReader.from_stream(table.scan())
        if sorted(rows.schema.names) != sorted(names):
            return SecondOpinion(
                name, difference=f"{name} finds the columns {', '.join(rows.schema.names)} in the table"
            )
        theirs = Fingerprint.of(names, rows)
    except Exception as error:  # a reader's own limits do not affect the mirror
        return SecondOpinion(None, f"{name} cannot read the table: {' '.join(str(error).split())[:200]}")
    what = Fingerprint.of(names, ours).difference(theirs)
    return SecondOpinion(name, difference=what and f"{name} reads the Delta table differently from Lakeport: {what}")
