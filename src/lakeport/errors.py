"""Every error that Lakeport raises on purpose.

    LakeportError
    ├ TableNotFoundError        (also FileNotFoundError)   .path
    ├ VersionNotFoundError      .version .earliest .latest
    ├ CorruptTableError         .path
    │ └ MissingFileError        (also FileNotFoundError)   a file that the log names is gone
    ├ UnsupportedFeatureError   .features
    ├ InvalidFilterError        (also ValueError)          .position
    │ └ UnsupportedExpressionError                         an engine that does not know an expression
    ├ UnknownColumnError        (also ValueError)          .column
    └ StorageError              (also OSError)             .path
      └ AccessDeniedError       (also PermissionError)

A message says what, where, and what to do. Bad arguments are `ValueError`s.
"""

from collections.abc import Iterable


class LakeportError(Exception):
    """The root of the tree: catching it catches everything that Lakeport raises on purpose."""


class TableNotFoundError(LakeportError, FileNotFoundError):
    """There is no Delta table at `path`."""

    def __init__(self, message: str, *, path: str) -> None:
        super().__init__(message)
        self.path = path


class VersionNotFoundError(LakeportError):
    """The table has no such version, or no version at such a time; it can read `earliest` to `latest`."""

    def __init__(
        self, message: str, *, version: int | None = None, earliest: int | None = None, latest: int | None = None
    ) -> None:
        super().__init__(message)
        self.version, self.earliest, self.latest = version, earliest, latest


class CorruptTableError(LakeportError):
    """The file at `path` is damaged, or contradicts the rest of the table."""

    def __init__(self, message: str, *, path: str) -> None:
        super().__init__(f"{message} [{path}]" if path and path not in message else message)
        self.path = path


class MissingFileError(CorruptTableError, FileNotFoundError):
    """The log names the file at `path`, but the storage does not have it."""


class UnsupportedFeatureError(LakeportError):
    """The table needs `features` that this version of Lakeport does not read."""

    def __init__(self, message: str, *, features: Iterable[str]) -> None:
        super().__init__(message)
        self.features = tuple(features)


class InvalidFilterError(LakeportError, ValueError):
    """A filter that does not parse or does not fit the schema; `position` is an offset into its text, if known."""

    def __init__(self, message: str, *, position: int | None = None) -> None:
        super().__init__(message)
        self.position = position


class UnsupportedExpressionError(InvalidFilterError):
    """The engine cannot evaluate this expression."""


class UnknownColumnError(LakeportError, ValueError):
    """The schema has no such column."""

    def __init__(self, message: str, *, column: str) -> None:
        super().__init__(message)
        self.column = column


class StorageError(LakeportError, OSError):
    """The storage did not answer, or answered with a failure."""

    def __init__(self, message: str, *, path: str) -> None:
        super().__init__(f"{message} [{path}]")
        self.path = path


class AccessDeniedError(StorageError, PermissionError):
    """The storage refused access to `path`: check the credentials and the permissions."""
