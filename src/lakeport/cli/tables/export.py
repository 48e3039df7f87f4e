"""`export`: rows of a table into a file."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Annotated, BinaryIO
from uuid import uuid4

import typer

from lakeport.cli.display import print_json
from lakeport.cli.files.formats import Format, format_of, open_writer
from lakeport.cli.options import (
    Access,
    Cache,
    Columns,
    Json,
    Limit,
    ReadTarget,
    StorageOption,
    Timestamp,
    Version,
    Where,
    open_frame,
)
from lakeport.cli.progress import expected_rows, showing


def export(
    target: ReadTarget,
    out: Annotated[str, typer.Argument(metavar="OUT", help="The file to write.", show_default=False)],
    format: Annotated[Format | None, typer.Option(help="By default, what the name of OUT ends with.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace OUT if it exists.")] = False,
    where: Where = None,
    columns: Columns = None,
    limit: Limit = None,
    version: Version = None,
    timestamp: Timestamp = None,
    json: Json = False,
    access: Access = None,
    cache: Cache = None,
    option: StorageOption = None,
) -> None:
    """Write the rows to a Parquet, CSV, JSON lines or Arrow file, whole or not at all."""
    kind = format or format_of(out)
    frame = open_frame(
        target, option, version, timestamp, access=access, cache=cache, where=where, columns=columns, limit=limit
    )
    schema, rows = frame.schema, 0
    with (
        replacing(out, force=force) as file,
        closing(open_writer(kind, file, schema)) as writer,
        showing("exporting") as bar,
    ):
        bar.expect(lambda: expected_rows(frame, limit) if where is None else None)
        for batch in frame.to_batches():
            writer.write(batch)
            rows += batch.num_rows
            bar.advance(batch.num_rows)
    if json:
        print_json({"path": os.path.abspath(out), "format": kind, "rows": rows, "version": frame.version})


@contextmanager
def replacing(path: str, *, force: bool) -> Iterator[BinaryIO]:
    """A file that takes the place of `path` when the block ends well, and is gone when it does not.

    Without `force`, a file that is there already is never touched: `FileExistsError`."""
    if "://" in path:
        raise ValueError(f"OUT is a file on this machine, not a URL: {path}")
    folder, name = os.path.split(os.path.abspath(path))
    if not os.path.isdir(folder):
        raise FileNotFoundError(errno.ENOENT, "there is no such directory", folder)
    if os.path.lexists(path) and not (force and os.path.isfile(path)):
        raise _exists(path)
    temporary = os.path.join(folder, f".{name}.{uuid4().hex}.tmp")
    try:
        with open(temporary, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        _publish(temporary, path, force)
    finally:
        if os.path.exists(temporary):
            os.unlink(temporary)


def _publish(temporary: str, path: str, force: bool) -> None:
    if not force:
        try:
            os.link(temporary, path)
            return
        except FileExistsError:
            raise _exists(path) from None
        except OSError:  # a file system without links: a look before the leap has to do
            if os.path.lexists(path):
                raise _exists(path) from None
    os.replace(temporary, path)


def _exists(path: str) -> FileExistsError:
    hint = "it exists and is not a file" if not os.path.isfile(path) else "the file exists; --force replaces it"
    return FileExistsError(errno.EEXIST, hint, path)
