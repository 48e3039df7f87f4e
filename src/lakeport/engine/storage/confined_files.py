"""Opens files that must lie in certain directories, wherever links lead."""

from __future__ import annotations

import os
from collections.abc import Sequence

from lakeport.errors import AccessDeniedError
from lakeport.kernel.paths import is_within

_DIRECTORY = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC
"""Where a system has no O_PATH (macOS), directories must be readable to be passed through."""
_FILE = os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK  # a FIFO would wait for a writer


def open_within(directories: Sequence[str], path: str) -> tuple[int, str]:
    """A descriptor of what is at `path`, for reading, and its real path. Raises `OSError`, and as `real_place` does.

    Links may change between a check and its use: once they are resolved, no more of them are followed."""
    place, below = real_place(directories, path)
    descriptor = os.open(place, _DIRECTORY)
    *parents, name = below.split("/")
    for parent in parents:
        descriptor = _enter(descriptor, parent, _DIRECTORY)
    return _enter(descriptor, name, _FILE), f"{place.rstrip('/')}/{below}"


def real_place(directories: Sequence[str], path: str) -> tuple[str, str]:
    """The real path of the directory that has what is at `path`, and where it is below that (`.`: at the same place).

    Raises `AccessDeniedError` if it is in none of the directories."""
    real = os.path.realpath(path)
    for place in map(os.path.realpath, directories):
        if is_within(real, place):
            return place, real[len(place) :].lstrip("/") or "."
    raise AccessDeniedError(
        "a link leads out of the table's location: to share what it leads to, add the target's directory to the "
        "table's auxiliaryLocations",
        path=path,
    )


def _enter(directory: int, name: str, flags: int) -> int:
    """Opens what is in a directory, which is closed."""
    try:
        return os.open(name, flags | os.O_NOFOLLOW, dir_fd=directory)
    finally:
        os.close(directory)
