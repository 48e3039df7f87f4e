"""Tables of several files."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from lakeport import tables


def write_parts(path: Path | str, parts: Iterable[Any], **options: Any) -> None:
    """A table of which each version adds a part."""
    first, *others = parts
    tables.create(str(path), first, **options)
    for part in others:
        tables.append(str(path), part)
