"""Names of the files in `_delta_log`."""

from __future__ import annotations

import re

LOG_NAME = re.compile(
    r"(?P<version>\d{20})(?:"
    r"(?P<commit>\.json)"
    r"|\.(?P<end>\d{20})\.compacted\.json"
    r"|(?P<crc>\.crc)"
    r"|\.checkpoint\.(?P<part>\d{10})\.(?P<parts>\d{10})\.parquet"
    r"|\.checkpoint(?P<uuid>\.[0-9a-fA-F-]{36})?\.(?:parquet|json)"
    r"|\.(?P<staged>[0-9a-fA-F-]{36})\.json)"
)


def log_path(root: str) -> str:
    return f"{root}/_delta_log"


def last_checkpoint_path(root: str) -> str:
    return f"{log_path(root)}/_last_checkpoint"


def commit_path(root: str, version: int) -> str:
    return f"{log_path(root)}/{version_name(version)}.json"


def checksum_path(root: str, version: int) -> str:
    return f"{log_path(root)}/{version_name(version)}.crc"


def checkpoint_path(root: str, version: int, unique_id: object = None) -> str:
    """The path of a checkpoint in one file: a classic one, or a V2 checkpoint with a unique id."""
    own = "" if unique_id is None else f".{unique_id}"
    return f"{log_path(root)}/{version_name(version)}.checkpoint{own}.parquet"


def version_name(version: int) -> str:
    return f"{version:020d}"


def parse_version(path: str) -> int | None:
    """The version in a log file's name (the first one for a compaction); None for any other file."""
    match = LOG_NAME.fullmatch(path.rpartition("/")[2])
    return int(match["version"]) if match else None


def is_commit(path: str, version: int) -> bool:
    """Whether a log file is the published commit of a version."""
    return path.endswith(f"/{version_name(version)}.json")


def is_checkpoint(path: str) -> bool:
    return ".checkpoint." in path.rpartition("/")[2]
