"""What a start costs: the modules that a first import and `lakeport --version` load, written down."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest


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


@pytest.mark.parametrize("library", ["pandas", "polars", "duckdb", "pyspark", "obstore", "urllib3", "sqlglot"])
def test_a_scan_of_a_local_table_does_not_load(library: str) -> None:
    loaded = newly_loaded("import lakeport; lakeport.scan('nowhere')")
    assert "lakeport.frame" in loaded
    assert library not in {name.partition(".")[0] for name in loaded}
