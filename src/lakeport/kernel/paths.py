"""Resolve paths of the log: the log holds URIs, storage takes plain text.

Paths are decoded exactly once: the directory `a%3Ab` on disk is `a%253Ab` in the log.
"""

import re
from urllib.parse import quote

from lakeport.errors import CorruptTableError
from lakeport.locations import Cloud, cloud_of, decode_uri, file_path, respelled, scheme_of, store_root

ABSOLUTE = re.compile(r"^/|^[a-zA-Z][a-zA-Z0-9+.-]*:/")
"""The start of a plain path that is not relative to the table."""

_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:/")
_ESCAPED = re.compile(
    r"[^\w/:=@!$&'()*+,;~.\-\x80-\U0010ffff]|[\x80-\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]"
)
_CLIMBS = re.compile(r"/\.\.(?:/|$)")
_HTTP = ("http", "https")


def parse_target(target: object) -> str:
    """The text of a user's path or URL, given as text or path object. Raises `ValueError`."""
    text = str(target) if hasattr(target, "__fspath__") else target
    if not isinstance(text, str) or not text.strip():
        raise ValueError(f"{target!r} is not a table location: pass a path or a URL")
    return text


def resolve_path(root: str, uri: str) -> str:
    """The plain path of `uri` in the table at the plain path `root`.

    A relative URI is below `root`; `file:/x` and `file:///x` are `/x`; other schemes are kept. A path that starts with
    `/` and has no scheme is in the storage of `root`. `a:b.parquet` is a file name, because `:` ends a scheme only
    before `/`. Percent sequences that are invalid or not UTF-8 are kept literally.
    """
    if _SCHEME.match(uri):
        return file_path(uri) or decode_uri(uri)
    above = store_root(root) if uri.startswith("/") else f"{root.rstrip('/')}/"
    return above + decode_uri(uri)


def within_reach(path: str, root: str) -> str:
    """Return the plain, absolute `path` if the log of the table at `root` may refer to it.

    Below the root it must not contain `..`. Elsewhere (shallow clones) it must be in the same kind of storage: a log in
    a bucket never refers to the reader's disk, and no log sends requests to another HTTP host. Raises
    `CorruptTableError`.
    """
    root = root.rstrip("/")
    if path.startswith(f"{root}/"):
        reaches = ".." not in path or not _CLIMBS.search(path, len(root))
    else:
        kind = _storage_kind(path)
        same_host = kind not in _HTTP or store_root(path).lower() == store_root(root).lower()
        reaches = kind == _storage_kind(root) and same_host
    if reaches:
        return path
    raise CorruptTableError(
        f"the log names {path!r}, which is outside the table and not in its storage; a file there is never read. "
        "Restore the log from a backup, or copy the file into the table and rewrite the log",
        path=root,
    )


def is_within(path: str, directory: str) -> bool:
    """Whether a plain path is a directory or below it, in any spelling of the scheme; never if it contains `..`."""
    path, directory = f"{respelled(path)}/", f"{respelled(directory).rstrip('/')}/"
    return path.startswith(directory) and not _CLIMBS.search(path, len(directory) - 1)


def _storage_kind(path: str) -> Cloud | str:
    """A key shared by all paths that the same credentials may open; empty for disks."""
    return cloud_of(path) or scheme_of(path)


def encode_path(plain: str) -> str:
    """Encode a plain path, relative to the table or absolute, for the log.

    Non-ASCII characters are kept, except spaces and controls, as in Java's URIs: VACUUM of Delta's Spark library
    compares paths as text, and would delete a live file whose path is spelled differently."""
    return _ESCAPED.sub(lambda found: quote(found[0], safe=""), plain)


def whole_path(path: str, root: str) -> str:
    """A plain path of the log in storage form. Raises `CorruptTableError` if the table may not refer to it."""
    return within_reach(path if ABSOLUTE.match(path) else f"{root}/{path}", root)
