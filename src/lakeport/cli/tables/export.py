"""`export`: write rows of a table to a file."""

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
from lakeport.locations import is_url


def export(
    target: ReadTarget,
    out: Annotated[str, typer.Argument(metavar="OUT", help="The file to write.", show_default=False)],
    format: Annotated[
        Format | None, typer.Option(help="The output format; by default, from the extension of OUT.")
    ] = None,
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
    """Write the rows to a Parquet, CSV, JSON lines or Arrow file, atomically."""
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
    """Yield a file that replaces `path` if the block succeeds, and is deleted if it fails.

    Without `force`, an existing file is never touched. Raises `FileExistsError`."""
    if is_url(path):
        raise ValueError(f"the output must be a local file, not a URL: {path}")
    folder, name = os.path.split(os.path.abspath(path))
    if not os.path.isdir(folder):
        raise FileNotFoundError(errno.ENOENT, "no such directory", folder)
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
        except OSError:  # no hard links here: fall back to a check, which can race
            if os.path.lexists(path):
                raise _exists(path) from None
    os.replace(temporary, path)


def _exists(path: str) -> FileExistsError:
    hint = "it exists and is not a file" if not os.path.isfile(path) else "the file exists; pass --force to replace it"
    return FileExistsError(errno.EEXIST, hint, path)
