"""Tables for jobs to change: copies that cost nothing, and what a job made of them."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

_COMPARED = 8


def fresh(path: str, name: str) -> Path:
    """An empty folder beside the one that the job is given."""
    target = Path(path).parent / f"written-by-{name}"
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    return target


def linked_copy(path: str, name: str) -> Path:
    """A table to change: its files are never overwritten, so that they need not be copied; its hint is."""
    target = fresh(path, name)
    shutil.copytree(path, target, copy_function=os.link, dirs_exist_ok=True)
    hint = target / "_delta_log" / "_last_checkpoint"
    if hint.exists():
        content = hint.read_bytes()
        hint.unlink()
        hint.write_bytes(content)
    return target


def source_of(table: Path | str, task: str) -> Path:
    """A Parquet file with rows to append to a table, or to merge into it."""
    return Path(f"{table}-{task}.parquet")


@dataclass(frozen=True)
class Changed:
    """A linked copy that a job has changed. It is looked at after the clock has stopped."""

    target: Path

    @property
    def written_mb(self) -> float:
        """The size of the data files that the job wrote: those without a link elsewhere."""
        files = (file.stat() for file in self.target.rglob("*") if file.is_file() and "_delta_log" not in file.parts)
        return sum(file.st_size for file in files if file.st_nlink == 1) / 1e6

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The table's rows, in some of its columns."""
        from lakeport import scan

        frame = scan(str(self.target))
        names = [field.name for field in frame.schema][:_COMPARED]
        return frame.select(*names).to_arrow().__arrow_c_stream__(requested_schema)
