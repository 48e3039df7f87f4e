"""What a Delta library on Spark does to make one table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Step = str | Callable[[Any, str], object]
"""SQL, in which {t} is the table, or a function of the Spark session and the table's folder."""


@dataclass(frozen=True)
class Table:
    steps: Sequence[Step]
    settings: Mapping[str, str] = field(default_factory=dict)
    """Settings of the Spark session, beyond `spark_writer.SETTINGS`."""
    loses_versions: bool = False
    """Whether its first versions have lost their files or their log in the end."""


def set_to(**settings: str) -> list[Step]:
    """Change settings between steps; `__` stands for a dot."""
    return [f"SET {name.replace('__', '.')} = {value}" for name, value in settings.items()]
