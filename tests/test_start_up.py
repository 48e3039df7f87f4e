"""What a start costs: the modules that a first import and `lakeport --version` load, written down."""

from __future__ import annotations

import json
import subprocess
import sys

import pyarrow as pa
import pytest

from lakeport.tables import create


def newly_loaded(statement: str) -> set[str]:
    """The modules that a statement loads in a fresh interpreter, without those of the standard library."""
    code = (
        f"import sys, json\nbefore = set(sys.modules)\n{statement}\n"
        "print(json.dumps(sorted(set(sys.modules) - before)))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    names = json.loads(run.stdout.splitlines()[-1])
    return {name for name in names if name.partition(".")[0] not in sys.stdlib_module_names}


def test_the_first_import_loads_no_library() -> None:
    assert newly_loaded("import lakeport") == {"lakeport", "lakeport.errors", "lakeport.version"}


def test_the_version_is_printed_without_the_commands() -> None:
    statement = (
        "sys.argv = ['lakeport', '--version']\nfrom lakeport.cli import main\ntry: main()\nexcept SystemExit: pass"
    )
    assert newly_loaded(statement) == {"lakeport", "lakeport.cli", "lakeport.errors", "lakeport.version"}


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("start_up") / "table")
    create(path, pa.table({"id": [1, 2, 3], "name": ["a", "b", "c"]}))
    return path


_NOT_FOR_LOCAL_TABLES = {"pandas", "polars", "duckdb", "pyspark", "obstore", "urllib3", "sqlglot"}
CONDITION = "id = 2 AND (name LIKE 'b%' OR name IS NULL)"


def test_planning_a_read_of_a_local_table_loads_nothing_to_read_parquet_or_sql(table: str) -> None:
    loaded = newly_loaded(f"import lakeport; lakeport.scan({table!r}).where({CONDITION!r}).files()")
    assert "lakeport.kernel.scan" in loaded
    assert loaded.isdisjoint({"pyarrow.parquet", "pyarrow.fs", "pyarrow.dataset", *_NOT_FOR_LOCAL_TABLES})


def test_a_query_that_prints_json_loads_nothing_for_other_formats_and_for_terminals(table: str) -> None:
    arguments = ["lakeport", "sql", f"select * from '{table}'", "--json"]
    loaded = newly_loaded(
        f"sys.argv = {arguments!r}\nfrom lakeport.cli import main\ntry: main()\nexcept SystemExit: pass"
    )
    assert "duckdb" in loaded
    assert loaded.isdisjoint({"rich", "pyarrow.csv", "pyarrow.dataset", "sqlglot", "urllib3", "obstore"})


def test_reading_a_local_table_loads_nothing_for_other_places_and_tools(table: str) -> None:
    loaded = newly_loaded(f"import lakeport; lakeport.scan({table!r}).where({CONDITION!r}).to_arrow()")
    assert "pyarrow._parquet" in loaded
    assert loaded.isdisjoint({"pyarrow.parquet", "pyarrow.fs", "pyarrow.dataset", *_NOT_FOR_LOCAL_TABLES})
