"""Checks for data file footers that Iceberg's readers would misinterpret.

Field ids: readers use them if a file has any, and the name mapping otherwise. Foreign or partial ids would give nulls
or the wrong columns. A name mapping does not help: Spark, pyiceberg and DuckDB prefer the ids of a file that has any.

Java's old calendar: no Iceberg reader supports it, so days before 1582-10-15 would differ.

So the footer of every new file is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from lakeport.engine.parquet.legacy_calendar import LegacyCalendar
from lakeport.engine.parquet.open_file import OpenFile
from lakeport.errors import ConversionError, CorruptTableError, MissingFileError
from lakeport.iceberg.table.schema import FIRST_NESTED_ID, FieldIds, Path
from lakeport.kernel.engine import FIELD_ID, Engine
from lakeport.kernel.scan import ScanFile
from lakeport.kernel.values import child_fields, child_names
from lakeport.workers.ordered import map_ordered

_FOREIGN_IDS = "field ids in files"
_OLD_CALENDAR = "Java's old calendar"
"""Reasons to reject a file."""
_THREADS = 16
_GREATEST_ID = 2147483446
"""Iceberg reserves the ids above it for metadata columns."""


def check_footers(engine: Engine, files: Sequence[ScanFile], ids: FieldIds, *, is_mapped: bool) -> None:
    """Raises `ConversionError` if a data file has field ids that contradict `ids`, the mirror's, or dates of another
    calendar. Without column mapping, the mirror numbers new columns itself: then ids that it may assign later are
    rejected too."""
    owners = {number: path for path, number in ids.by_path.items()}

    def check(file: ScanFile) -> None:
        _check_file(file, dict(_ids_in(pa.struct(list(_checked_schema(engine, file))), ())), ids, owners, is_mapped)

    for _ in map_ordered(check, files, _THREADS, "footers"):
        pass


def _checked_schema(engine: Engine, file: ScanFile) -> pa.Schema:
    """The columns of a file; none if the file is gone, since its version is unreadable anyway. Raises `ConversionError`
    for dates of another calendar."""
    try:
        with engine.storage.open_input(file.status) as source:
            parquet = OpenFile(source)
            calendar = LegacyCalendar.of_file(parquet, file.path)
            if calendar is not None and calendar.changes(parquet):
                raise ConversionError(
                    "the data file has dates or timestamps in Java's old calendar, which Iceberg's readers would "
                    f"misread: rewrite it with Spark 3 or later [{file.path}]",
                    reason=_OLD_CALENDAR,
                )
            return parquet.schema_arrow
    except MissingFileError:
        return pa.schema([])
    except pa.ArrowInvalid as error:
        raise CorruptTableError(f"the data file is not a Parquet file: {error}", path=file.path) from error


def _check_file(
    file: ScanFile, found: dict[Path, int | None], ids: FieldIds, owners: Mapping[int, Path], is_mapped: bool
) -> None:
    if not any(number is not None for number in found.values()):
        return
    for path, number in found.items():
        wanted = ids.by_path.get(path)
        is_column = wanted is not None and not (len(path) == 1 and wanted >= FIRST_NESTED_ID)
        if is_column and number is None:
            raise _refusal(path, "no field id in a data file whose other columns have ids", file)
        if is_column and number != wanted:
            raise _refusal(path, f"the field id {number}, not {wanted}, in a data file", file)
        owner = path if number is None else owners.get(number, path)
        if not is_column and owner != path:
            what = f"the field id {number}, which belongs to {'.'.join(owner)!r}, in a data file"
            raise _refusal(path, what, file)
        if wanted is None and number is not None and number <= _GREATEST_ID and not is_mapped:
            raise _refusal(path, f"the field id {number}, which a new column may get, in a data file", file)


def _refusal(path: Path, what: str, file: ScanFile) -> ConversionError:
    return ConversionError(
        f"the column {'.'.join(path)!r} has {what}: Iceberg would read the wrong column, or none; rewrite the table "
        f"without field ids, or with ids for lists and maps too (the table feature icebergCompatV2) [{file.path}]",
        reason=_FOREIGN_IDS,
    )


def _ids_in(data_type: pa.DataType, parents: Path) -> Iterator[tuple[Path, int | None]]:
    for name, field in zip(child_names(data_type), child_fields(data_type), strict=True):
        path, text = (*parents, name), (field.metadata or {}).get(FIELD_ID)
        yield path, None if text is None else int(text)
        yield from _ids_in(field.type, path)
