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


@pytest.fixture(scope="module")
def large_table(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Large enough for Polars to filter its file."""
    path = str(tmp_path_factory.mktemp("start_up") / "large")
    create(path, pa.table({"id": range(400_000), "name": [f"name {number % 977}" for number in range(400_000)]}))
    return path


@pytest.mark.parametrize(
    "work",
    [
        "assert table.where(\"id < 20 AND name > 'name 1'\").to_arrow().num_rows == 18",
        "assert table.where(\"id < 20 AND name > 'x'\").to_arrow().num_rows == 0",
        "assert table.to_polars(lazy=True).filter(polars.col('id') == 2).collect().height == 1",
        "assert table.to_polars().height == 400_000",
    ],
)
def test_rows_are_filtered_by_polars_and_become_its_frames_without_pandas(large_table: str, work: str) -> None:
    loaded = newly_loaded(f"import lakeport, polars; table = lakeport.scan({large_table!r}); {work}")
    assert "polars" in loaded
    assert loaded.isdisjoint({"pandas", "pyarrow.parquet", "pyarrow.dataset"})


@pytest.mark.parametrize(
    "query",
    [
        "lakeport.sql(f\"SELECT count(*) FROM '{path}' WHERE name = 'b'\").to_arrow_table()",
        "lakeport.scan(path).where('id > 1').to_duckdb().fetchall()",
    ],
)
def test_duckdb_reads_files_without_pandas_and_storage_clients(table: str, query: str) -> None:
    loaded = newly_loaded(f"import lakeport; path = {table!r}; {query}")
    assert "duckdb" in loaded
    assert loaded.isdisjoint({"pyarrow.parquet", "pyarrow.fs", "pyarrow.dataset", *_NOT_FOR_LOCAL_TABLES} - {"duckdb"})


@pytest.mark.parametrize("command", ["head", "count", "files", "history", "schema"])
def test_a_command_loads_nothing_to_check_texts_and_defaults(table: str, command: str) -> None:
    arguments = ["lakeport", command, table]
    loaded = newly_loaded(
        f"sys.argv = {arguments!r}\nfrom lakeport.cli import main\ntry: main()\nexcept SystemExit: pass"
    )
    assert "typer" in loaded
    assert loaded.isdisjoint({"pydantic", "pyarrow.csv", "pyarrow.dataset", "pyarrow.parquet", *_NOT_FOR_LOCAL_TABLES})


def test_a_query_that_prints_json_loads_nothing_for_other_formats_and_for_terminals(table: str) -> None:
    arguments = ["lakeport", "sql", f"select * from '{table}'", "--json"]
    loaded = newly_loaded(
        f"sys.argv = {arguments!r}\nfrom lakeport.cli import main\ntry: main()\nexcept SystemExit: pass"
    )
    assert "duckdb" in loaded
    unneeded = {"rich", "pydantic", "pyarrow.csv", "pyarrow.dataset", "pyarrow.parquet", *_NOT_FOR_LOCAL_TABLES} - {
        "duckdb"
    }
    assert loaded.isdisjoint(unneeded)


def test_reading_a_local_table_loads_nothing_for_other_places_and_tools(table: str) -> None:
    loaded = newly_loaded(f"import lakeport; lakeport.scan({table!r}).where({CONDITION!r}).to_arrow()")
    assert "pyarrow._parquet" in loaded
    assert loaded.isdisjoint({"pyarrow.parquet", "pyarrow.fs", "pyarrow.dataset", *_NOT_FOR_LOCAL_TABLES})
