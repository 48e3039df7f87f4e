"""Make tests/corpus anew: python -m tests.corpus.make"""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from tests.corpus.make import deltalake_writer
from tests.corpus.make.describe import describe

CORPUS = Path(__file__).resolve().parents[1]
ROOT = CORPUS.parents[1]
PEERS = ROOT / ".peers"
LIMIT = 4_000_000
ABOUT = {
    "layout": "tables/<path>; expected/<name>/v<N>.parquet (rows, unordered: compare as a multiset), "
    "expected/<name>/changes-<start>-<end>.parquet (no _commit_timestamp); equal rows share a file",
    "source": "each table's own writer read these rows back; make corpus makes all of it",
    "arrow_types": "variants are JSON text with sorted keys",
}


def versions() -> dict[str, str]:
    """Versions of the writers, as the scripts that install them have them."""
    scripts = "".join((ROOT / "scripts" / name).read_text() for name in ("peers.sh", "corpus-writers.sh"))
    return dict(re.findall(r"^(\w+)=([\d.]+)", scripts, re.MULTILINE))


def run(environment: str, module: str, folder: Path, *arguments: str | Path) -> None:
    """Run a module of this package with the Python of a peer."""
    log = folder / f"{module}.log"
    command = [PEERS / environment / "bin" / "python", "-m", f"tests.corpus.make.{module}", *arguments]
    with log.open("wb") as output:
        environ = {**os.environ, "PYTHONPATH": str(ROOT), "SPARK_LOCAL_IP": "127.0.0.1"}
        done = subprocess.run(command, cwd=folder, env=environ, stderr=output, check=False)
    if done.returncode:
        raise SystemExit(log.read_text()[-2000:])


def make_all(folder: Path) -> dict[str, str]:
    """Let all writers make their tables. Return what the writers call themselves, by their names here."""
    version = versions()
    deltalake_writer.make_tables(folder)
    run("spark", "spark_writer", folder, "delta44,kernel44", PEERS / "jars", folder)
    old_jars = PEERS / f"delta-{version['OLD_DELTA']}-jars"
    run(f"old-spark-{version['OLD_PYSPARK']}", "spark_writer", folder, "delta33", old_jars, folder)
    deltalake_writer.make_bases(folder)
    run("duckdb", "duckdb_writer", folder, folder)
    return {
        "delta44": f"delta-spark {version['DELTA']}",
        "delta33": f"delta-spark {version['OLD_DELTA']}",
        "kernel44": f"delta-kernel-java {version['DELTA']}",
        "deltalake": f"deltalake {importlib.metadata.version('deltalake')}",
        "duckdb": f"duckdb {version['DUCKDB']}",
    }


def tidy(folder: Path) -> None:
    """Remove Hadoop's own checksums, which begin with a dot, and folders without files."""
    for file in folder.rglob(".*.crc"):
        file.unlink()
    for path in sorted((p for p in folder.rglob("*") if p.is_dir()), reverse=True):
        if not any(path.iterdir()):
            path.rmdir()


def publish(made: Path, writers: dict[str, str]) -> int:
    """Put what was made in the place of what is there. Return the number of tables."""
    names = sorted(path.name for path in (made / "tables").iterdir())
    entries: list[dict[str, Any]] = [describe(made, name, writers[name.partition("--")[0]]) for name in names]
    for part in ("tables", "expected"):
        shutil.rmtree(CORPUS / part, ignore_errors=True)
        shutil.copytree(made / part, CORPUS / part)
    manifest = {"about": ABOUT, "tables": entries}
    (CORPUS / "MANIFEST.json").write_text(json.dumps(manifest, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return len(names)


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="corpus-") as temporary:
        folder = Path(temporary)
        writers = make_all(folder)
        tidy(folder)
        count = publish(folder, writers)
    size = sum(file.stat().st_size for file in CORPUS.rglob("*") if file.is_file() and "__pycache__" not in file.parts)
    print(f"{count} tables, {size:,} bytes in tests/corpus")
    if size > LIMIT:
        raise SystemExit(f"tests/corpus may have {LIMIT:,} bytes at most: make its tables smaller")


if __name__ == "__main__":
    main()
