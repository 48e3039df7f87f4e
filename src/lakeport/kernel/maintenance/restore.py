"""Restore an earlier version of a table: its definition, and the files to add and remove."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import msgspec

from lakeport.kernel.definition import TableDefinition, protocol_for, supported_features, with_history
from lakeport.kernel.scan import ScanFile
from lakeport.kernel.snapshot import Snapshot


def restored_definition(current: TableDefinition, target: Snapshot) -> TableDefinition:
    """The target's schema, partitioning, clustering and properties. Never downgrades the protocol, and keeps settings
    that the later log relies on. Raises `UnsupportedFeatureError` for a target that this kernel cannot write."""
    then = target.definition
    configuration = with_history(then.metadata.configuration, current.metadata.configuration)
    metadata = msgspec.structs.replace(then.metadata, id=current.metadata.id, configuration=configuration)
    protocol = protocol_for(current.protocol, metadata, then.schema, supported_features(target.protocol))
    restored = replace(current, protocol=protocol, metadata=metadata, clustering_columns=then.clustering_columns)
    return restored.checked(then)


@dataclass(frozen=True)
class RestorePlan:
    removed: list[ScanFile]
    restored: list[ScanFile]
    rewound: frozenset[str]
    """Paths of restored files that the table still has, with other deleted rows."""


def plan_restore(now: Iterable[ScanFile], then: Iterable[ScanFile]) -> RestorePlan:
    """The files to remove and to add back. A file with other deleted rows is in both."""
    current, target = ({file.key: file for file in files} for files in (now, then))
    paths = {file.path: file for file in current.values()}
    restored = [_with_row_ids(file, paths.get(file.path)) for key, file in target.items() if key not in current]
    return RestorePlan(
        removed=[file for key, file in current.items() if key not in target],
        restored=restored,
        rewound=frozenset(file.path for file in restored if file.path in paths),
    )


def _with_row_ids(file: ScanFile, now: ScanFile | None) -> ScanFile:
    """Rows keep ids assigned since then."""
    if now is None or file.base_row_id is not None:
        return file
    return msgspec.structs.replace(
        file, base_row_id=now.base_row_id, default_row_commit_version=now.default_row_commit_version
    )
