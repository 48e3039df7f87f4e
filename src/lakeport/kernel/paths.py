"""Where a path of the log points: the log writes URIs, storage takes plain text.

A path is decoded exactly once: the directory `a%3Ab` on disk is `a%253Ab` in the log.
"""

import re
from urllib.parse import quote, unquote_to_bytes

ABSOLUTE = re.compile(r"^/|^[a-zA-Z][a-zA-Z0-9+.-]*:/")
"""What a plain path begins with if it is not relative to the table."""

_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:/")
_FILE = re.compile(r"file:(?://(?:localhost)?)?(?=/)", re.IGNORECASE)
_ESCAPED = re.compile(
    r"[^\w/:=@!$&'()*+,;~.\-\x80-\U0010ffff]|[\x80-\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]"
)
_AUTHORITY = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*://[^/]*")


def parse_target(target: object) -> str:
    """The text of a path or a URL that a person gave, as text or as a path object. Raises `ValueError`."""
    text = str(target) if hasattr(target, "__fspath__") else target
    if not isinstance(text, str) or not text.strip():
        raise ValueError(f"{target!r} is no place for a table: give a path or a URL")
    return text


def resolve_path(root: str, uri: str) -> str:
    """The plain path of `uri` in the table at `root`, which is plain text itself.

    A relative URI is below `root`; `file:/x` and `file:///x` are `/x`; another scheme stays. A path that starts with
    `/` but has no scheme is in the storage of `root`. `a:b.parquet` is a file name, for `:` makes a scheme only
    before `/`. Percent sequences that are invalid, or that are not UTF-8, stand for themselves.
    """
    if file := _FILE.match(uri):
        return _decode(uri[file.end() :])
    if _SCHEME.match(uri):
        return _decode(uri)
    if uri.startswith("/"):
        authority = _AUTHORITY.match(root)
        return (authority[0] if authority else "") + _decode(uri)
    return f"{root.rstrip('/')}/{_decode(uri)}"


def _decode(uri: str) -> str:
    try:
        return unquote_to_bytes(uri).decode()
    except UnicodeError:
        return uri


def encode_path(plain: str) -> str:
    """A plain path, relative to the table or absolute, as the log writes it.

    Letters beyond ASCII stay as they are, but for spaces and controls, as in Java's URIs: VACUUM of Delta's Spark
    library compares the text of paths, and would delete a live file whose path is spelled in another way."""
    return _ESCAPED.sub(lambda found: quote(found[0], safe=""), plain)
