"""Operations by a driver in another process, compared with the same ones in this process."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.properties import FEED, VECTORS
from tests.rows import rows_of
from tests.spark.distributed import SMALL_FILES, changes_of, copy_of, operate, table_in
from tests.spark.processes.servers import run_driver


def compare_operations(folder: Path, master: str) -> None:
    """The operations by a driver of a cluster, or of Connect, do the same as in this process."""
    target = table_in(folder, VECTORS, FEED, SMALL_FILES)
    distributed = copy_of(target)
    expected = operate(target, None)
    found = run_driver(master, "tests.spark.processes.distribution_driver", distributed)
    assert found["elsewhere"]
    assert found["mirrored"] == [max(version for version, _ in found["results"])] * 2
    assert "ConstraintError" in found["message"]
    assert rows_of(distributed) == rows_of(target)
    for (version, metrics), result in zip(found["results"], expected[:3], strict=False):
        assert version == result.version
        assert changed_rows(metrics) == changed_rows(result.metrics)
        assert changes_of(distributed, version) == changes_of(target, version)


def changed_rows(metrics: Mapping[str, int]) -> dict[str, int]:
    """How many rows were deleted, updated and inserted. How many were copied depends on the files that they were in."""
    names = [name for name in metrics if "Rows" in name and "Copied" not in name and "Output" not in name]
    return {name: metrics[name] for name in names}
