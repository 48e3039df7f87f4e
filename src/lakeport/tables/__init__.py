"""Operations on Delta tables.

    from lakeport import tables
    tables.create("orders", data, partition_by=["day"], properties={"delta.enableDeletionVectors": "true"})
    tables.append("orders", more)
    tables.delete("orders", "amount < 0")

Each operation is one atomic transaction.
"""

from lakeport.tables.columns import (
    add_columns, drop_columns, drop_not_null, rename_column, set_comment, set_default, widen_column,
)  # fmt: skip
from lakeport.tables.clustering.alter import cluster_by
from lakeport.tables.clustering.effect import FilterEffect
from lakeport.tables.log import checkpoint, history
from lakeport.tables.merge.merge import Merge, merge
from lakeport.tables.operation import Result
from lakeport.tables.optimize import OptimizeResult, optimize
from lakeport.tables.properties import add_constraint, drop_constraint, set_properties, unset_properties
from lakeport.tables.restore import restore
from lakeport.tables.rows.delete import delete
from lakeport.tables.rows.update import update
from lakeport.tables.vacuum import VacuumResult, vacuum
from lakeport.tables.write.append import append, create
from lakeport.tables.write.overwrite import overwrite

__all__ = [
    "FilterEffect", "Merge", "OptimizeResult", "Result", "VacuumResult", "add_columns", "add_constraint", "append",
    "checkpoint", "cluster_by", "create", "delete", "drop_columns", "drop_constraint", "drop_not_null", "history",
    "merge", "optimize", "overwrite", "rename_column", "restore", "set_comment", "set_default", "set_properties",
    "unset_properties", "update", "vacuum", "widen_column",
]  # fmt: skip
