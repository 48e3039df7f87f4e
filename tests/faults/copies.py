"""Copies of the work tree in which a fault can be planted."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.faults.faults import Fault

ROOT = Path(__file__).resolve().parents[2]
_JAR = "src/lakeport/spark/native/lakeport-spark.jar"


@contextmanager
def work_tree(fault: Fault | None = None, commit: str | None = None) -> Iterator[Path]:
    """A temporary copy of the work tree, or of a commit, with the fault in it.

    `.venv`, `.peers` and `../shared` are links. Raises `ValueError` if the fault cannot be applied, and
    `CalledProcessError` if the jar cannot be built."""
    with tempfile.TemporaryDirectory(prefix="lakeport-fault-") as directory:
        copy = Path(directory, ROOT.name)
        copy.mkdir()
        if commit is not None:
            archive = subprocess.run(["git", "archive", commit], cwd=ROOT, check=True, capture_output=True).stdout
            subprocess.run(["tar", "-x"], cwd=copy, check=True, input=archive)
        # The runner's own plugin is always the newest.
        for name in _files("." if commit is None else "tests/faults"):
            if (ROOT / name).is_file():
                (copy / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, copy / name)
        for name in (".venv", ".peers", "../shared"):
            if (ROOT / name).is_dir():
                os.symlink((ROOT / name).resolve(), copy / name)
        if (ROOT / _JAR).is_file():
            shutil.copy2(ROOT / _JAR, copy / _JAR)
        if fault is not None:
            path = copy / fault.file
            path.write_text(fault.apply(path.read_text()))
            if fault.room == "jvm":
                subprocess.run([copy / "jvm/build.sh"], env=os.environ | {"PYTHON": sys.executable}, check=True)
        yield copy


def environment(copy: Path) -> dict[str, str]:
    """Variables with which the copy's packages are imported, not those of the editable install."""
    return os.environ | {"PYTHONPATH": str(copy / "src")}


def _files(below: str) -> list[str]:
    """The files of the work tree, new ones included, without those that git ignores."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", below]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    return [name for name in listed.stdout.split("\0") if name]
