"""The base class of all engine contracts."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lakeport.errors import MissingFileError
from lakeport.kernel.engine import Engine, FileStatus


class Contract:
    """The fixtures and helpers of a contract. Subclasses give both fixtures."""

    @pytest.fixture
    def engine(self) -> Engine:
        """The engine under test."""
        raise NotImplementedError

    @pytest.fixture
    def root(self) -> str:
        """An empty directory of `engine.storage`, as `resolve` returns it."""
        raise NotImplementedError

    def write(self, engine: Engine, path: str, data: bytes) -> FileStatus:
        engine.storage.write(path, data)
        return FileStatus(path, len(data))

    def names(self, engine: Engine, root: str) -> set[str]:
        return {file.path.removeprefix(f"{root}/") for file in engine.storage.list_all(root)}


def check_is_missing(file: FileStatus, attempt: Callable[[], object]) -> None:
    """Check that reading the file raises an error that is both Lakeport's and plain Python's."""
    with pytest.raises(MissingFileError) as caught:
        attempt()
    assert caught.value.path == file.path
    assert isinstance(caught.value, FileNotFoundError)
