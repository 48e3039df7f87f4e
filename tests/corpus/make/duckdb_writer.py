"""Insert into tables with DuckDB's Delta extension, and read them back. Runs with the Python of .peers/duckdb:

python -m tests.corpus.make.duckdb_writer FOLDER

DuckDB does not create Delta tables: other writers did.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.corpus.make.duckdb_tables import STATEMENTS
from tests.corpus.make.expected import Expectations, versions_of
from tests.interop import peer_worker


def main(folder: Path) -> None:
    run, query = peer_worker.duckdb("")
    for name, statements in STATEMENTS.items():
        print(f"duckdb--{name}", flush=True)
        path = folder / "tables" / f"duckdb--{name}"
        run(f"ATTACH '{path}' AS t (TYPE delta)")
        for statement in statements:
            run(statement)
        run("DETACH t")
        expectations = Expectations(folder, path.name)
        for version in versions_of(path):
            expectations.add_version(version, query(f"SELECT * FROM delta_scan('{path}', version = {version})"))
        files = query(f"SELECT data_file FROM delta_list_files('{path}')")
        expectations.active_files = files.num_rows
        expectations.save()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
