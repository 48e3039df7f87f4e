"""`optimize`: rewrite rows into fewer, larger files, without deleted rows, and in an order that helps filters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakeport.kernel.definition import TARGET_FILE_SIZE
from lakeport.kernel.engine import Engine
from lakeport.kernel.expressions import Expression, format_expression, parse_filter
from lakeport.kernel.maintenance import plan_bins
from lakeport.kernel.scan import Scan
from lakeport.kernel.snapshot import Snapshot
from lakeport.kernel.transaction import update_table
from lakeport.tables.clustering.effect import FilterEffect, effect_of
from lakeport.tables.clustering.layout import Layout, choose_layout
from lakeport.tables.clustering.reorder import ReorderFiles, plan_reordering
from lakeport.tables.compaction import RewriteBin, rewrite, rewriting_context, rewriting_scan, stage_rewritten
from lakeport.tables.operation import Progress, Result, StorageOptions, finish, open_snapshot, paths_of
from lakeport.workers import open_workers
from lakeport.workers.reading import RowReader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class OptimizeResult(Result):
    """`effect` is empty unless rows were ordered."""

    effect: tuple[FilterEffect, ...] = ()


def optimize(
    target: str,
    *,
    where: str | Expression | None = None,
    zorder_by: Sequence[str] = (),
    cluster_by: Sequence[str] = (),
    full: bool = False,
    target_size: int | None = None,
    purge: bool = False,
    progress: Progress | None = None,
    storage_options: StorageOptions = None,
    engine: Engine | None = None,
    spark: SparkSession | None = None,
) -> OptimizeResult:
    """Compact small files, partition by partition, up to `target_size` bytes (default: the table's
    `delta.targetFileSize`), and rewrite files with more than 5 % deleted rows; with `purge`, every file with a deletion
    vector. `where` selects partitions. Rows and row ids do not change, and the change data feed shows nothing.

    `zorder_by` and `cluster_by` rewrite all files, in the order of a Z-order or a Hilbert curve over some columns, so
    that filters on any of them skip files. A clustered table is always ordered by its own columns, but only the rows
    added since, together with files ordered earlier as long as those are few; with `full`, also files ordered by other
    columns. Memory is bounded: rows are sorted in a temporary directory (`TMPDIR`).

    Makes one commit, or none if there is nothing to do. Concurrent appends are fine; raises `CommitConflictError` if
    another writer changes or removes one of the files, and `ValueError` if `where` needs more than partition columns,
    or a column does not fit. `progress` receives the bytes of rewritten files. `spark` is as for `delete`; the rows of
    a partition are ordered by one task."""
    if target_size is not None and target_size < 1:
        raise ValueError(f"the target size must be a number of bytes, 1 or more, not {target_size}")
    snapshot = open_snapshot(target, engine, storage_options)
    transaction = update_table(snapshot, "OPTIMIZE")
    layout = choose_layout(transaction, zorder_by, cluster_by)
    if full and not (layout and layout.is_own):
        raise ValueError("full is for clustered tables: this one is not clustered")
    scan = _plan_scan(snapshot, where)
    size = target_size or TARGET_FILE_SIZE.of(snapshot.properties)
    context = rewriting_context(transaction, size)
    files = list(scan.files())
    if layout is None:
        task: RewriteBin | ReorderFiles = RewriteBin(RowReader.for_scan(scan), context)
        bins = plan_bins(files, size, purge=purge)
    else:
        task = ReorderFiles.of(scan, context, layout, size)
        bins = plan_reordering(files, layout, full=full, purge=purge)
    outcomes = rewrite(open_workers(snapshot.engine, spark), task, bins, snapshot.engine, progress)
    rewritten, adds = [file for found in bins for file in found], [add for outcome in outcomes for add in outcome.adds]
    stage_rewritten(transaction, rewritten, adds)
    transaction.parameters |= _describe(scan.filter, layout, full)
    probes = [probe for outcome in outcomes for probe in outcome.probes]
    effect = effect_of(snapshot, files, rewritten, adds, probes)
    result = finish(transaction, paths_of(transaction.root, adds))
    return OptimizeResult(result.version, result.metrics, effect)


def _plan_scan(snapshot: Snapshot, where: str | Expression | None) -> Scan:
    builder = rewriting_scan(snapshot)
    if where is not None:
        builder = builder.with_filter(parse_filter(where) if isinstance(where, str) else where)
    scan = builder.build()
    if scan.remaining_filter is not None:
        columns = ", ".join(snapshot.partition_columns) or "none: the table is not partitioned"
        raise ValueError(
            f"a condition for optimize can only choose partitions, but {format_expression(scan.remaining_filter)} "
            f"needs the rows; partition columns are {columns}"
        )
    return scan


def _describe(where: Expression | None, layout: Layout | None, full: bool) -> dict[str, Any]:
    """The operation's parameters, under the names other writers use."""
    return {
        "predicate": [] if where is None else [format_expression(where)],
        "zOrderBy": layout.names if layout and layout.curve == "zorder" else [],
        "clusterBy": layout.names if layout and layout.curve == "hilbert" else [],
        **({"isFull": str(full).lower()} if layout and layout.is_own else {}),
        "auto": "false",
    }
