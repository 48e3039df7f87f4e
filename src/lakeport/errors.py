"""Every error that Lakeport raises on purpose.

    LakeportError
    ├ TableNotFoundError        (also FileNotFoundError)   .path
    ├ VersionNotFoundError      .version .earliest .latest
    ├ CorruptTableError         .path
    │ └ MissingFileError        (also FileNotFoundError)   a file in the log is missing from storage
    ├ UnsupportedFeatureError   .features
    ├ ChangeFeedError           .version                   the changes of a version range cannot be read
    ├ StreamError               .version                   a stream cannot continue past a version
    ├ InvalidFilterError        (also ValueError)          .position
    │ └ UnsupportedExpressionError                         the engine cannot evaluate an expression
    ├ UnknownColumnError        (also ValueError)          .column
    ├ InvalidDataError          (also ValueError)          .column .row
    │ └ ConstraintError                                    .constraint
    ├ CommitConflictError       .version
    ├ CommitUnknownError        .version                   may have landed: never retried blindly
    ├ CatalogError              (also ValueError)          an invalid catalog of shares, or an invalid change to it
    ├ SharingError              .status .code              a sharing server's error response
    │ ├ AuthenticationError                                the token is wrong or has expired
    │ ├ PermissionDeniedError                              the token is valid, but not for this
    │ └ UnavailableError                                   no response, or "try again later", until the timeout
    ├ ConversionError           .reason                    not expressible in Iceberg, or the target is not a mirror
    ├ SyncError                 a copy of a shared table cannot be updated, or differs from the shared table
    └ StorageError              (also OSError)             .path
      ├ AccessDeniedError       (also PermissionError)
      ├ UnusableStorageError                               it cannot be opened: its URL or an option is wrong
      └ OutOfSpaceError                                    the disk is full: nothing was written

A message says what happened, where, and what to do. Bad arguments raise `ValueError`.
"""

from collections.abc import Iterable
from typing import Any


class LakeportError(Exception):
    """The root of the tree: catch it to catch every error that Lakeport raises on purpose. Picklable, so it survives
    the trip back from a worker."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (type(self), self.args, self.__dict__)

    def __str__(self) -> str:
        """Escape terminal control sequences: many messages quote a server."""
        return visible(super().__str__())


def visible(text: str) -> str:
    """The text with control characters escaped, except line breaks."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char == "\n" else repr(char)[1:-1] for char in text)


def _restored(kind: type[LakeportError], args: tuple[Any, ...], state: dict[str, Any]) -> LakeportError:
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(state)
    return error


class TableNotFoundError(LakeportError, FileNotFoundError):
    """No Delta table at `path`."""

    def __init__(self, message: str, *, path: str) -> None:
        super().__init__(message)
        self.path = path


class VersionNotFoundError(LakeportError):
    """No such version, or none at that time; the readable versions are `earliest` to `latest`."""

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
    """The log lists the file at `path`, but storage does not have it."""


class UnsupportedFeatureError(LakeportError):
    """The table needs `features` that this version of Lakeport does not support."""

    def __init__(self, message: str, *, features: Iterable[str]) -> None:
        super().__init__(message)
        self.features = tuple(features)


class ChangeFeedError(LakeportError):
    """The changes cannot be read because of the table's state or content at `version`."""

    def __init__(self, message: str, *, version: int) -> None:
        super().__init__(message)
        self.version = version


class StreamError(LakeportError):
    """A stream cannot continue because of the table's state, or a change to it, at `version`."""

    def __init__(self, message: str, *, version: int) -> None:
        super().__init__(message)
        self.version = version


class InvalidFilterError(LakeportError, ValueError):
    """A filter does not parse or does not fit the schema; `position` is the offset into its text, if known."""

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


class InvalidDataError(LakeportError, ValueError):
    """Data cannot be written: it does not fit the schema, or an expression over it fails. `row`, if known, counts from
    0 in the input."""

    def __init__(self, message: str, *, column: str | None = None, row: int | None = None) -> None:
        super().__init__(message)
        self.column, self.row = column, row


class ConstraintError(InvalidDataError):
    """A row violates a constraint of the table."""

    def __init__(self, message: str, *, constraint: str, column: str | None = None, row: int | None = None) -> None:
        super().__init__(message, column=column, row=row)
        self.constraint = constraint


class CommitConflictError(LakeportError):
    """Another writer's commit, `version`, conflicts with what this transaction read or changes. Nothing was written to
    the log: reload the table and retry the operation."""

    def __init__(self, message: str, *, version: int) -> None:
        super().__init__(message)
        self.version = version


class CommitUnknownError(LakeportError):
    """Storage did not confirm whether `version` was written, and checking failed too. Check the table's history before
    retrying."""

    def __init__(self, message: str, *, version: int) -> None:
        super().__init__(message)
        self.version = version


class CatalogError(LakeportError, ValueError):
    """An invalid catalog of shares, or an invalid change to it: a name is taken or does not exist."""


class SharingError(LakeportError):
    """A sharing server's error response: the HTTP status and the protocol's `errorCode`."""

    def __init__(self, message: str, *, status: int, code: str) -> None:
        super().__init__(message)
        self.status, self.code = status, code


class AuthenticationError(SharingError):
    """The server, or its token endpoint, rejected the profile's credentials: they are wrong or have expired. Ask the
    provider for a new profile."""


class PermissionDeniedError(SharingError):
    """The server knows the recipient and refuses this request: the provider has to grant access."""


class UnavailableError(SharingError):
    """The server did not respond, broke off, or is overloaded; a retry may succeed. The status is 0 without a complete
    response. `wait_seconds` is the delay that the server asked for, if any."""

    def __init__(self, message: str, *, status: int, code: str, wait_seconds: float = 0.0) -> None:
        super().__init__(message, status=status, code=code)
        self.wait_seconds = wait_seconds


class SyncError(LakeportError):
    """A copy of a shared table cannot be updated: it is not a copy, another writer changed it, or the shared table was
    replaced. Or it differs from the shared table."""


class ConversionError(LakeportError):
    """The table cannot be converted, or the target is not its mirror. `reason` is a short phrase, the same for every
    table with the same obstacle: `type void`, `widening integer to double`, `another table` …"""

    def __init__(self, message: str, *, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


class StorageError(LakeportError, OSError):
    """Storage did not respond, or the request failed."""

    def __init__(self, message: str, *, path: str) -> None:
        super().__init__(f"{message} [{path}]")
        self.path = path


class UnusableStorageError(StorageError):
    """The storage of `path` cannot be opened: its URL or an option is invalid."""


class OutOfSpaceError(StorageError):
    """No space left for `path`: it was not written."""


class AccessDeniedError(StorageError, PermissionError):
    """Storage denied access to `path`: check the credentials and permissions."""
