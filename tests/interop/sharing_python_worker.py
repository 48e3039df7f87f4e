"""The `delta-sharing` client from PyPI. `sharing_clients.py` starts this with the client's Python:

    sharing_python_worker.py SOCKET

On SOCKET, a file descriptor, it takes lists of calls of the client's functions, and answers each call with an Arrow
stream for rows, with the value for anything else, or with `Refused`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import Any

import delta_sharing
import pandas as pd
import pyarrow as pa


def call(function: str, arguments: dict[str, Any], schema: bytes | None) -> tuple[str, Any]:
    """What it is, and it: `rows`, `value` or `error`. Rows come in the types of `schema`."""
    try:
        found = getattr(delta_sharing, function)(**arguments)
        return ("rows", encode_rows(found, schema)) if isinstance(found, pd.DataFrame) else ("value", found)
    except BaseException as error:  # its kernel panics with exceptions that are no `Exception`
        return "error", f"{type(error).__name__}: {error}"[:2000]


def listing(profile: str) -> dict[str, list[str]]:
    """Everything that the client lists, by what it is asked for."""
    client = delta_sharing.SharingClient(profile)
    shares = client.list_shares()
    schemas = [schema for share in shares for schema in client.list_schemas(share)]
    tables = [table for schema in schemas for table in client.list_tables(schema)]
    return {
        "shares": [share.name for share in shares],
        "schemas": [f"{schema.share}.{schema.name}" for schema in schemas],
        "tables": [f"{table.share}.{table.schema}.{table.name}" for table in tables],
        "all tables": [f"{table.share}.{table.schema}.{table.name}" for table in client.list_all_tables()],
    }


def encode_rows(frame: pd.DataFrame, schema: bytes | None) -> bytes:
    wanted = pa.ipc.read_schema(pa.py_buffer(schema)) if schema else None
    assert wanted is None or list(frame.columns) == wanted.names, f"columns {list(frame.columns)}"
    rows = pa.Table.from_pandas(frame, wanted, preserve_index=False)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_table(rows)
    return bytes(sink.getvalue())


def serve(connection: Connection) -> None:
    """Answers until the other side hangs up."""
    while True:
        try:
            calls: Sequence[tuple[str, dict[str, Any], bytes | None]] = connection.recv()
        except EOFError:
            return
        connection.send([call(*one) for one in calls])


if __name__ == "__main__":
    delta_sharing.listing = listing
    with Connection(int(sys.argv[1])) as connection:
        serve(connection)
