"""Every error that Lakeport raises on purpose.

    LakeportError
    ├ TableNotFoundError        (also FileNotFoundError)   .path
    ├ VersionNotFoundError      .version .earliest .latest
    ├ CorruptTableError         .path
    │ └ MissingFileError        (also FileNotFoundError)   a file that the log names is gone
    ├ UnsupportedFeatureError   .features
    ├ ChangeFeedError           .version                   a range of versions whose changes cannot be read
    ├ StreamError               .version                   a stream that cannot go on over what a version did
    ├ InvalidFilterError        (also ValueError)          .position
    │ └ UnsupportedExpressionError                         an engine that does not know an expression
    ├ UnknownColumnError        (also ValueError)          .column
    ├ InvalidDataError          (also ValueError)          .column .row
    │ └ ConstraintError                                    .constraint
    ├ CommitConflictError       .version
    ├ CommitUnknownError        .version                   may have landed: never retried blindly
    ├ CatalogError              (also ValueError)          a catalog of shares, or a change of it, that makes no sense
    ├ SharingError              .status .code              what a sharing server answers instead of a table
    │ ├ AuthenticationError                                the token is wrong or has expired
    │ ├ PermissionDeniedError                              the token is good, but not for this
    │ └ UnavailableError                                   no answer, or "come again later", for as long as was waited
    ├ ConversionError           .reason                    a table that Iceberg cannot express, or no mirror of it
    ├ SyncError                 a copy of a shared table that cannot be brought up to date, or is not what is shared
    └ StorageError              (also OSError)             .path
      ├ AccessDeniedError       (also PermissionError)
      ├ UnusableStorageError                               it cannot even be opened: its URL or an option is wrong
      └ OutOfSpaceError                                    the disk is full: nothing was written

A message says what, where, and what to do. Bad arguments are `ValueError`s.
"""

from collections.abc import Iterable
from typing import Any


class LakeportError(Exception):
    """The root of the tree: catching it catches everything that Lakeport raises on purpose. It can be pickled, so that
    it comes back from a worker as it is."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (type(self), self.args, self.__dict__)

    def __str__(self) -> str:
        """Servers' words are in many messages: what would move a terminal's cursor or colour it is shown escaped."""
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


class ChangeFeedError(LakeportError):
    """The changes of the range cannot be read because of what the table is, or holds, at `version`."""

    def __init__(self, message: str, *, version: int) -> None:
        super().__init__(message)
        self.version = version


class StreamError(LakeportError):
    """A stream that reads a table cannot go on because of what the table is, or what was done to it, at `version`."""

    def __init__(self, message: str, *, version: int) -> None:
        super().__init__(message)
        self.version = version


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


class InvalidDataError(LakeportError, ValueError):
    """Data that cannot be written: it does not fit the schema, or an expression over it fails. `row` counts from 0 in
    what was given, if it is known."""

    def __init__(self, message: str, *, column: str | None = None, row: int | None = None) -> None:
        super().__init__(message)
        self.column, self.row = column, row


class ConstraintError(InvalidDataError):
    """A row breaks a constraint of the table."""

    def __init__(self, message: str, *, constraint: str, column: str | None = None, row: int | None = None) -> None:
        super().__init__(message, column=column, row=row)
        self.constraint = constraint


class CommitConflictError(LakeportError):
    """Another writer's commit, `version`, contradicts what this transaction read or changes. Nothing was written to
    the log: read the table again and repeat the operation."""

    def __init__(self, message: str, *, version: int) -> None:
        super().__init__(message)
        self.version = version


class CommitUnknownError(LakeportError):
    """The storage did not tell whether `version` was written, and could not be asked. Look at the table's history
    before repeating the operation."""

    def __init__(self, message: str, *, version: int) -> None:
        super().__init__(message)
        self.version = version


class CatalogError(LakeportError, ValueError):
    """A catalog of shares, or a change of it, that makes no sense: a name that is taken, or that nothing has."""


class SharingError(LakeportError):
    """A sharing server's answer that is not a success: the status of HTTP and the protocol's `errorCode`."""

    def __init__(self, message: str, *, status: int, code: str) -> None:
        super().__init__(message)
        self.status, self.code = status, code


class AuthenticationError(SharingError):
    """The server, or the one that gives tokens for it, does not accept the credentials of the profile: they are wrong
    or have expired. A provider can send a new profile."""


class PermissionDeniedError(SharingError):
    """The server knows the recipient and refuses this request: the provider has to grant it."""


class UnavailableError(SharingError):
    """The server did not answer, broke its answer off, or is overloaded: the same request may succeed later. The status
    is 0 if there was no whole answer. `wait_seconds` is how long the server asked to be left alone, if it did."""

    def __init__(self, message: str, *, status: int, code: str, wait_seconds: float = 0.0) -> None:
        super().__init__(message, status=status, code=code)
        self.wait_seconds = wait_seconds


class SyncError(LakeportError):
    """A copy of a shared table cannot be brought up to date: it is no copy, or no longer one, or the shared table is
    another now. Or it is not what is shared."""


class ConversionError(LakeportError):
    """The table cannot be converted, or what is at the target is no mirror of it. `reason` says why in a few words, the
    same for all tables with the same obstacle: `type void`, `widening integer to double`, `another table` …"""

    def __init__(self, message: str, *, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


class StorageError(LakeportError, OSError):
    """The storage did not answer, or answered with a failure."""

    def __init__(self, message: str, *, path: str) -> None:
        super().__init__(f"{message} [{path}]")
        self.path = path


class UnusableStorageError(StorageError):
    """The storage of `path` cannot be opened: its URL, or an option, is not one that such a storage has."""


class OutOfSpaceError(StorageError):
    """There is no room for `path`: it was not written."""


class AccessDeniedError(StorageError, PermissionError):
    """The storage refused access to `path`: check the credentials and the permissions."""
