"""DuckDB with its Iceberg extension. `readers.py` starts this with a Python that has them: `duckdb_worker.py SOCKET`.

It answers as `tests/interop/peer_worker.py` does.
"""

import sys
from multiprocessing.connection import Connection
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "interop"))

import duckdb
import duckdb_extension_avro
import duckdb_extension_iceberg
from peer_worker import serve

if __name__ == "__main__":
    connection = duckdb.connect()
    for package in (duckdb_extension_avro, duckdb_extension_iceberg):
        (extension,) = Path(package.__file__).parent.rglob("*.duckdb_extension")
        connection.execute(f"LOAD '{extension}'")
    connection.execute("SET GLOBAL TimeZone = 'UTC'")
    with Connection(int(sys.argv[1])) as socket:
        serve(connection.execute, lambda sql: connection.cursor().execute(sql).to_arrow_table(), socket)
