"""Deletion vectors for tests, in files and inline, with any bytes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from lakeport.iceberg.delta.change import InternalDeletionVector
from lakeport.kernel.deletion_vectors import (
    DeletionVectorDescriptor,
    encode_deletion_vector,
    encode_inline,
    frame_payload,
)
from lakeport.kernel.engine import Engine

DATA_FILE = "/tables/orders/day=2026-01-01/part-00000-3c1805f0.c000.snappy.parquet"


def vector_in_file(engine: Engine, path: str, payload: bytes, cardinality: int, *, gap: int = 0) -> Any:
    """Writes a file with one vector, `gap` bytes behind the version."""
    engine.storage.write(path, b"\x01" + b"?" * gap + frame_payload(payload), overwrite=True)
    descriptor = DeletionVectorDescriptor("p", path, len(payload), cardinality, 1 + gap)
    return InternalDeletionVector(DATA_FILE, descriptor, path)


def inline_vector(payload: bytes, cardinality: int) -> InternalDeletionVector:
    descriptor = DeletionVectorDescriptor("i", encode_inline(payload), len(payload), cardinality)
    return InternalDeletionVector(DATA_FILE, descriptor, None)


def described(vector: InternalDeletionVector, **changes: object) -> InternalDeletionVector:
    """The vector with a descriptor that says something else."""
    return replace(vector, descriptor=msgspec.structs.replace(vector.descriptor, **changes))


def to_positions(values: Iterable[int]) -> npt.NDArray[np.uint64]:
    return np.array(sorted(set(values)), dtype=np.uint64)


def encode(values: Iterable[int]) -> bytes:
    return encode_deletion_vector(to_positions(values))


def all_ordinals(vector: InternalDeletionVector, engine: Engine) -> npt.NDArray[np.uint64]:
    parts = list(vector.ordinals(engine))
    assert all(0 < len(part) <= 65_536 for part in parts)
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.uint64)


def _spread(base: int, kind: str, seed: int, count: int) -> list[int]:
    """So many positions near a base: as a run, as few scattered ones, as many."""
    if kind == "run":
        return list(range(base, base + count))
    width = 65_536 if kind == "dense" else 65_536 * 50
    found = np.random.default_rng(seed).integers(0, width, count)
    return [base + int(value) for value in found]


_BASES = st.one_of(
    st.integers(0, 1 << 20), st.sampled_from([65_535, 65_536, (1 << 32) - 3, 1 << 32, (1 << 40) + 7, (1 << 62) + 5])
)
_CLUSTERS = st.builds(
    _spread, _BASES, st.sampled_from(["run", "scattered", "dense"]), st.integers(0, 1 << 16), st.integers(1, 9000)
)
position_sets = st.lists(_CLUSTERS, max_size=5).map(
    lambda parts: to_positions(value for part in parts for value in part)
)
"""Sets of positions whose bitmaps have runs, arrays and bits, in one or several buckets of 2**32."""
