"""Finds and reads the manifests of a mirror that have given files."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from lakeport.iceberg.manifests.manifest import Entry, ManifestLayout, decode_manifest, read_keys
from lakeport.iceberg.manifests.manifest_list import ManifestFile
from lakeport.kernel.engine import StorageClient
from lakeport.workers.ordered import map_ordered

Keys = npt.NDArray[np.uint64]

_THREADS = 16


class ManifestReader:
    """Reads each manifest at most once: only its index, unless it has a wanted entry."""

    def __init__(self, storage: StorageClient) -> None:
        self._storage = storage
        self._keys: dict[str, Keys | None] = {}
        self._begun: dict[str, bytes] = {}
        """The first bytes of manifests with wanted entries."""
        self._decoded: dict[str, tuple[ManifestLayout, list[Entry]]] = {}

    def find(self, manifests: Sequence[ManifestFile], wanted: Mapping[int, Collection[int]]) -> list[bool]:
        """Whether each manifest may have an entry with one of the wanted keys of its content. Raises
        `CorruptTableError` and `MissingFileError`."""
        keys = {content: np.array(sorted(found), dtype=np.uint64) for content, found in wanted.items()}
        asked = [manifest for manifest in manifests if len(keys[manifest.content])]
        if not asked:
            return [False] * len(manifests)
        hits = map_ordered(lambda one: self._may_have(one, keys[one.content]), asked, _THREADS, "manifests")
        found = {manifest.path for manifest, hit in zip(asked, hits, strict=True) if hit}
        return [manifest.path in found for manifest in manifests]

    def read(self, manifest: ManifestFile, format_version: int) -> tuple[ManifestLayout, list[Entry]]:
        """See `decode_manifest`. Raises like `find`."""
        if manifest.path not in self._decoded:
            begun = self._begun.pop(manifest.path, b"")
            rest = self._storage.read(manifest.path, len(begun)) if len(begun) < manifest.length else b""
            self._decoded[manifest.path] = decode_manifest(begun + rest, manifest, format_version)
        return self._decoded[manifest.path]

    def learn(self, path: str, keys: list[int]) -> None:
        """Cache the keys of a manifest that has just been written."""
        self._keys[path] = np.array(keys, dtype=np.uint64)

    def forget(self, manifests: Iterable[ManifestFile]) -> None:
        """Drop all but the keys of these manifests: the next snapshot looks for other entries."""
        kept = {manifest.path for manifest in manifests}
        self._keys = {path: keys for path, keys in self._keys.items() if path in kept}
        self._begun.clear()
        self._decoded.clear()

    def _may_have(self, manifest: ManifestFile, wanted: Keys) -> bool:
        data = b""
        if manifest.path not in self._keys:
            self._keys[manifest.path], data = read_keys(self._storage, manifest)
        keys = self._keys[manifest.path]
        is_hit = keys is None or bool(np.isin(wanted, keys).any())
        if is_hit and data:
            self._begun[manifest.path] = data
        return is_hit
