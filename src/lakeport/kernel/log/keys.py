"""Keys of the files in a log: decoded path and deletion vector."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakeport.errors import CorruptTableError
from lakeport.kernel.log.names import log_path
from lakeport.kernel.paths import ABSOLUTE, resolve_path
from lakeport.kernel.values import array_of, from_numpy, scalar_of

_AT, _EMPTY, _NUL = (scalar_of(text, pa.string()) for text in ("@", "", "\0"))


def present_actions(column: pa.StructArray, root: str) -> pa.StructArray:
    """The actions in a column of log lines. Raises `CorruptTableError` for a file action without a path."""
    kept = column.drop_null() if column.null_count else column
    if kept.type.get_field_index("path") >= 0 and kept.field("path").null_count:
        raise CorruptTableError("a file action in the log has no path", path=log_path(root))
    return kept


def file_keys(paths: pa.Array, deletion_vectors: pa.Array) -> pa.Array:
    """The key of each file: its path and, after a NUL, the unique id of its deletion vector."""
    if deletion_vectors.null_count == len(deletion_vectors):
        return paths
    offsets = pc.binary_join_element_wise(_AT, deletion_vectors.field("offset").cast(pa.string()), _EMPTY)
    unique_ids = pc.binary_join_element_wise(
        deletion_vectors.field("storageType"),
        deletion_vectors.field("pathOrInlineDv"),
        pc.coalesce(offsets, _EMPTY),
        _EMPTY,
    )
    with_vector = pc.binary_join_element_wise(paths, unique_ids, _NUL)
    return pc.if_else(deletion_vectors.is_valid(), pc.coalesce(with_vector, paths), paths)


def keys_of(actions: pa.StructArray, root: str) -> pa.Array:
    """The keys of file actions."""
    return file_keys(decode_paths(actions.field("path"), root), actions.field("deletionVector"))


def decode_paths(paths: pa.Array, root: str) -> pa.Array:
    """Paths as plain text: absolute, or relative to the table's root. Free for the many that need no decoding."""
    text = paths.buffers()[2]
    plain = text is None or not any(sign in text.to_pybytes() for sign in (b"%", b":"))
    if plain and not pc.starts_with(paths, "/").true_count:
        return paths
    encoded = pc.match_substring_regex(paths, f"%|{ABSOLUTE.pattern}")
    decoded = [_plain_path(path, root) for path in paths.filter(encoded).to_pylist()]
    return pc.replace_with_mask(paths, encoded, array_of(decoded, pa.string()))


def _plain_path(path: str, root: str) -> str:
    whole = resolve_path(root, path)
    relative = whole.removeprefix(f"{root}/")
    return whole if ABSOLUTE.match(relative) else relative


def first_occurrences(
    keys: list[pa.Array], files: list[npt.NDArray[np.int64]]
) -> list[np.ndarray[tuple[int], np.dtype[np.bool_]]]:
    """For each key, whether it is the first occurrence, file by file. Compares only keys with equal hashes."""
    lengths = [len(part) for part in keys]
    hashes = np.empty(sum(lengths), dtype=np.int32)  # half a hash saves memory, and collisions are rare
    start = 0
    for part in keys:
        whole = np.fromiter(map(hash, part.to_pylist()), np.int64, len(part))
        hashes[start : start + len(part)] = whole.astype(np.int32)
        start += len(part)
    first = np.ones(len(hashes), dtype=np.bool_)
    ordered = np.sort(hashes)
    repeated = ordered[1:][ordered[1:] == ordered[:-1]]
    if len(repeated):
        flat = pa.chunked_array(keys, pa.string())
        candidates = np.flatnonzero(np.isin(hashes, repeated))
        candidates = candidates[np.argsort(np.concatenate(files)[candidates], kind="stable")]
        seen: set[str] = set()
        for row, key in zip(candidates.tolist(), flat.take(from_numpy(candidates)).to_pylist(), strict=True):
            first[row] = key not in seen
            seen.add(key)
    return np.split(first, np.cumsum(lengths)[:-1]) if lengths else []
