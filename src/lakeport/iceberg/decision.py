"""`decide`: plan a conversion from values alone, without I/O."""

from __future__ import annotations

from dataclasses import dataclass

from lakeport.errors import ConversionError
from lakeport.iceberg.table.metadata import DELTA_LOCATION, DELTA_TABLE_ID, is_in_step, mirrored_version
from lakeport.iceberg.targets.target import Published

_DEFAULT_FORMAT_VERSION = 2


@dataclass(frozen=True)
class Wanted:
    """The options of `convert` that affect the plan."""

    format_version: int | None = None
    since: int | None = None
    full: bool = False
    squash: bool = False


@dataclass(frozen=True)
class DeltaState:
    """The facts about the Delta table that affect the plan."""

    root: str
    id: str
    version: int
    """The latest one."""
    mirrored_id: str | None = None
    """The table's id at the mirrored version; None if not needed, or no longer in the log."""
    is_followed: bool = True
    """False if the commits after the mirrored version are gone, or cannot be applied to the mirror."""
    has_new_column_ids: bool = False
    """Whether columns have other ids than in the mirror."""


@dataclass(frozen=True)
class Plan:
    """Mirror the version `whole`, if any, in one snapshot, then the commits after the version `after`, if any."""

    format_version: int
    whole: int | None = None
    after: int | None = None
    squash: bool = False
    """Whether the commits become one snapshot instead of one each."""
    is_new: bool = False
    """Whether the mirror starts empty: earlier snapshots and column ids are discarded."""

    @property
    def kind(self) -> str:
        """See `Conversion.kind`."""
        if self.whole is not None:
            return "full"
        return "none" if self.after is None else "incremental"


def decide(base: Published | None, table: DeltaState, wanted: Wanted) -> Plan:
    """Plan how to bring the mirror to the latest version of its table. `base` is None if there is no mirror yet.

    Raises `ConversionError` if `base` is not a mirror of this table, or has a later format version than wanted."""
    if base is None:
        return _start(table, wanted, wanted.format_version or _DEFAULT_FORMAT_VERSION)
    mirror, version = base.metadata, _checked_version(base, table)
    format_version = _upgraded(mirror["format-version"], wanted.format_version)
    is_moved = mirror["properties"].get(DELTA_LOCATION) != table.root
    if is_moved or table.has_new_column_ids or _is_another(mirror["properties"].get(DELTA_TABLE_ID), version, table):
        return _start(table, wanted, format_version)
    is_rolled_back = version > table.version
    # Somebody else may have written to the mirror, or rolled it back.
    if wanted.full or is_rolled_back or not is_in_step(mirror) or not table.is_followed:
        return Plan(format_version, whole=table.version)
    if version == table.version:
        return Plan(format_version)
    return Plan(format_version, after=version, squash=wanted.squash)


def _start(table: DeltaState, wanted: Wanted, format_version: int) -> Plan:
    if wanted.since in (None, table.version) or table.has_new_column_ids:
        return Plan(format_version, whole=table.version, is_new=True)
    return Plan(format_version, whole=wanted.since, after=wanted.since, squash=wanted.squash, is_new=True)


def _checked_version(base: Published, table: DeltaState) -> int:
    """The mirrored version. Raises `ConversionError` if `base` mirrors neither this table nor one at its location."""
    version, properties = mirrored_version(base.metadata), base.metadata.get("properties", {})
    if version is None:
        raise ConversionError(
            f"the target is an Iceberg table that Lakeport did not create; choose another directory [{base.path}]",
            reason="no mirror",
        )
    if properties.get(DELTA_LOCATION) != table.root and properties.get(DELTA_TABLE_ID) != table.id:
        raise ConversionError(
            f"the target is the mirror of another table, {properties.get(DELTA_LOCATION)}; choose another directory "
            f"[{base.path}]",
            reason="another table",
        )
    return version


def _is_another(mirrored_id: str | None, version: int, table: DeltaState) -> bool:
    """Whether another table, with its own log, has taken the place of the mirrored one. A table replaced in the
    same log has a new id, but its log still has the old id at the mirrored version."""
    if mirrored_id == table.id:
        return False
    return version > table.version or table.mirrored_id not in (None, mirrored_id)


def _upgraded(given: int, wanted: int | None) -> int:
    if wanted is not None and wanted < given:
        raise ConversionError(
            f"the mirror has format version {given}, and cannot go back to {wanted}; choose another directory",
            reason="format version",
        )
    return wanted or given
