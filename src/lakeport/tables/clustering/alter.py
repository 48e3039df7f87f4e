"""`cluster_by`: change the columns that a table is clustered by."""

from __future__ import annotations

from collections.abc import Sequence

from lakeport.kernel.engine import Engine
from lakeport.kernel.transaction import update_table
from lakeport.tables.clustering.layout import clustering_of, column_name
from lakeport.tables.operation import Result, StorageOptions, finish, open_snapshot


def cluster_by(
    target: str,
    columns: Sequence[str] | None,
    *,
    storage_options: StorageOptions = None,
    engine: Engine | None = None,
) -> Result:
    """Cluster the table by other columns, up to four; None or an empty list ends clustering. Changes no file: the next
    `optimize` orders rows added since then, or all rows if `full`.

    Raises `ValueError` for a partitioned table, and for a column without bounds in the statistics."""
    chosen = [columns] if isinstance(columns, str) else list(columns or ())
    transaction = update_table(open_snapshot(target, engine, storage_options), "CLUSTER BY")
    before = clustering_of(transaction.definition)
    names = list(map(column_name, before))
    if chosen or before:
        transaction.cluster_by(chosen)
    after = map(column_name, clustering_of(transaction.definition))
    transaction.parameters |= {"oldClusteringColumns": ",".join(names), "newClusteringColumns": ",".join(after)}
    return finish(transaction)
