"""Field ids in data files. Iceberg's readers go by them where a file has any, and by the name mapping where it has
none: ids that are not the mirror's, or not on every column, would give them nulls or the wrong columns.

Ids come from the writer, so of a change with many files the footers of some are looked at. All of them are where there
are few, and where the table is bound to have files that Iceberg cannot read: with column mapping, Delta's writers give
ids to columns and to fields of structs, but not to what is in lists and maps, unless the table asks for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.parquet as pq

from lakeport.errors import ConversionError, CorruptTableError, MissingFileError
from lakeport.iceberg.names import FIRST_NESTED_ID, FieldIds, Path
from lakeport.kernel.engine import FIELD_ID, Engine
from lakeport.kernel.scan_files import ScanFile

FOREIGN_IDS = "field ids in files"
"""The reason of a refusal."""
_SAMPLE = 4
_FEW = 100
"""Of so many files all are looked at."""
_THREADS = 16


def check_field_ids(engine: Engine, files: Sequence[ScanFile], ids: FieldIds, *, is_mapped: bool) -> None:
    """Raises `ConversionError` if a data file has field ids that contradict `ids`, the mirror's."""
    lacks_ids = is_mapped and any(number >= FIRST_NESTED_ID for path, number in ids.by_path.items() if len(path) > 1)
    chosen = files if lacks_ids or len(files) <= _FEW else files[:: len(files) // _SAMPLE]
    if not chosen:
        return
    with ThreadPoolExecutor(min(_THREADS, len(chosen)), "lakeport-footers") as pool:
        for file, schema in zip(chosen, pool.map(lambda file: _read_schema(engine, file), chosen), strict=True):
            _check_file(file, dict(_ids_in(schema, ())), ids)


def _read_schema(engine: Engine, file: ScanFile) -> pa.Schema:
    """The columns of a file; none if it is gone, for who reads its version cannot read it either."""
    try:
        with engine.storage.open_input(file.status) as source, pq.ParquetFile(source) as parquet:
            return parquet.schema_arrow
    except MissingFileError:
        return pa.schema([])
    except pa.ArrowInvalid as error:
        raise CorruptTableError(f"the data file is no Parquet file: {error}", path=file.path) from error


def _check_file(file: ScanFile, found: dict[Path, int | None], ids: FieldIds) -> None:
    if not any(number is not None for number in found.values()):
        return
    for path, number in found.items():
        wanted = ids.by_path.get(path)
        is_foreign = len(path) == 1 and wanted is not None and wanted >= FIRST_NESTED_ID  # no column of the table
        if wanted is not None and number != wanted and not is_foreign:
            what = "no field id" if number is None else f"the field id {number}, not {wanted}"
            raise ConversionError(
                f"the column {'.'.join(path)!r} has {what} in a data file whose other columns have ids: Iceberg would "
                "not find it; rewrite the table without field ids, or with ids for lists and maps too (the table "
                f"feature icebergCompatV2) [{file.path}]",
                reason=FOREIGN_IDS,
            )


def _ids_in(fields: pa.Schema | pa.DataType, parents: Path) -> Iterator[tuple[Path, int | None]]:
    for field in fields:
        yield from _ids_of(field, (*parents, field.name))


def _ids_of(field: pa.Field, path: Path) -> Iterator[tuple[Path, int | None]]:
    text = (field.metadata or {}).get(FIELD_ID)
    yield path, None if text is None else int(text)
    if pa.types.is_struct(field.type):
        yield from _ids_in(field.type, path)
    elif pa.types.is_map(field.type):
        yield from _ids_of(field.type.key_field, (*path, "key"))
        yield from _ids_of(field.type.item_field, (*path, "value"))
    elif pa.types.is_list(field.type):
        yield from _ids_of(field.type.value_field, (*path, "element"))
