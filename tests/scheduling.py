"""How the workers of pytest-xdist share the tests (`--dist loadfile`): a file is one worker's, and so is the session of
Spark that the tests in `tests/spark` share, because to start one takes longer than most tests. What takes long comes
first, so that no worker is left alone with it in the end."""

from __future__ import annotations

from pathlib import PurePosixPath

import pytest
from xdist.scheduler import LoadFileScheduling

ONE_SESSION = "tests/spark"
PROCESSES = "tests/spark/processes"
"""They start Spark in processes of its own, each file for itself."""
TABLES_OF_SPARK = "tests/interop/test_spark_written.py"
"""It shares tables with `tests/interop/test_delta_spark.py`: Delta on Spark takes long to write them."""
FIRST = (
    ONE_SESSION,
    "tests/interop/test_written_tables.py",
    "tests/interop/test_spark_beside_delta.py",
    TABLES_OF_SPARK,
    "tests/interop/test_spark_versions.py",
    "tests/interop/test_iceberg_spark.py",
    "tests/interop/test_spark_object_store.py",
    PROCESSES,
    "tests/whole/test_documentation.py",
    "tests/client/sync/test_killed.py",
    "tests/iceberg",
    "tests/whole/test_concurrent_writers.py",
    "tests/client",
)


class Scheduling(LoadFileScheduling):  # type: ignore[misc]  # xdist has no types
    """One worker for each unit."""

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)


class LongestFirst:
    """A pytest plugin that puts in front what takes long."""

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        if hasattr(config, "workerinput"):
            items.sort(key=lambda item: _rank(unit_of(item.nodeid)))

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: object) -> Scheduling | None:
        if config.getoption("dist") != "loadfile":
            return None
        config.option.loadscopereorder = False
        return Scheduling(config, log)


def unit_of(nodeid: str) -> str:
    """What one worker does: a file, or files that share what takes long to make."""
    file = nodeid.partition("::")[0]
    if file.startswith(f"{ONE_SESSION}/") and not file.startswith(f"{PROCESSES}/"):
        return ONE_SESSION
    return TABLES_OF_SPARK if file == "tests/interop/test_delta_spark.py" else file


def _rank(unit: str) -> int:
    places = [unit, *map(str, PurePosixPath(unit).parents)]
    return next((FIRST.index(place) for place in places if place in FIRST), len(FIRST))
