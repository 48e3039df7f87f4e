"""Run operations as tasks of a Spark cluster, through classic Spark or Spark Connect.

Items are sent as rows of a frame, each to its task; results come back as rows. A failing task returns its error as a
result, which the driver reraises unchanged; a Spark failure would be retried and hide the message. If a worker is lost,
Spark retries its tasks; files it wrote belong to no table version, and the next vacuum deletes them.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
from pyspark import cloudpickle

from lakeport.kernel.engine import Engine
from lakeport.workers.workplace import Workplace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_T = TypeVar("_T")
_R = TypeVar("_R")
_Work = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]
_Outcome = tuple[bool, Any]
"""Whether it succeeded, and the result or the error."""

_PARALLELISM = "spark.sql.shuffle.partitions"
"""Spark setting: the maximum number of tasks; beyond it, a task takes several items."""
_JOB_BYTES = 64 << 20
"""Maximum bytes of items per job, which the driver holds in memory."""
_THREADS = 2
"""Read the next file while processing the rows of the current one."""
_ITEMS = pa.schema([("task", pa.int32()), ("number", pa.int64()), ("item", pa.binary())])
_OUTCOMES = pa.schema([("number", pa.int64()), ("outcome", pa.binary())])


class SparkWorkers:
    """Workers whose tasks run on a cluster. The engine is sent along and opens the same storage there, with the same
    options and that machine's environment."""

    here = None

    def __init__(self, spark: SparkSession, engine: Engine) -> None:
        """Raises `ValueError` if `spark` is not a session or the engine cannot be pickled."""
        if not hasattr(spark, "createDataFrame"):
            raise ValueError(f"`spark` must be a SparkSession, not a {type(spark).__name__}")
        self._spark, self._engine = spark, _encode_engine(engine)

    def groups(self, items: Iterable[_T], weigh: Callable[[_T], int], most: int) -> list[list[_T]]:
        found: list[list[_T]] = []
        weight = 0
        for item in items:
            if not found or weight + weigh(item) > most:
                found.append([])
                weight = 0
            found[-1].append(item)
            weight += weigh(item)
        return found

    def map(
        self,
        task: Callable[[Workplace, _T], _R],
        items: Iterable[_T],
        undo: Callable[[_R], object] | None = None,
    ) -> Iterator[_R]:
        made: list[_R] = []
        work = _work(self._engine, _encode(task))
        try:
            for encoded in _in_jobs(map(_encode, items)):
                outcomes = self._run(work, encoded)
                made += [outcome for is_result, outcome in outcomes if is_result]
                for is_result, outcome in outcomes:
                    if not is_result:
                        raise outcome
            yield from made
        except BaseException:
            if undo is not None:
                for result in made:
                    undo(result)
            raise

    def _run(self, work: _Work, items: list[bytes]) -> list[_Outcome]:
        """Run one job: a task per item, or per several items if there are many."""
        tasks = min(len(items), int(self._spark.conf.get(_PARALLELISM) or 1))
        rows = [
            pa.array([number % tasks for number in range(len(items))], pa.int32()),
            pa.array(range(len(items)), pa.int64()),
            pa.array(items, pa.binary()),
        ]
        frame = self._spark.createDataFrame(pa.Table.from_arrays(rows, schema=_ITEMS))
        placed = frame.repartitionById(tasks, frame["task"])
        done = placed.mapInArrow(work, "number bigint, outcome binary").toArrow()
        found = dict(zip(done.column("number").to_pylist(), done.column("outcome").to_pylist(), strict=True))
        return [pickle.loads(found[number]) for number in range(len(items))]


def _encode_engine(engine: Engine) -> bytes:
    try:
        return pickle.dumps(engine)
    except Exception as error:
        raise ValueError(
            f"`spark` needs an engine that can be pickled ({error}): drop `engine` and pass `storage_options`"
        ) from error


def _encode(value: Any) -> bytes:
    encoded: bytes = cloudpickle.dumps(value)  # type: ignore[no-untyped-call]  # PySpark's copy is untyped
    return encoded


def _in_jobs(items: Iterable[bytes]) -> Iterator[list[bytes]]:
    job: list[bytes] = []
    size = 0
    for item in items:
        if job and size + len(item) > _JOB_BYTES:
            yield job
            job, size = [], 0
        job.append(item)
        size += len(item)
    if job:
        yield job


# On the workers


def _work(engine: bytes, task: bytes) -> _Work:
    """The function that Spark sends to its workers; a closure, because Spark requires a function's code."""

    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return run_tasks(engine, task, batches)

    return work


def run_tasks(engine: bytes, task: bytes, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The outcomes of the items, one by one."""
    place = Workplace(_open_engine(engine), _THREADS)
    function = pickle.loads(task)
    for batch in batches:
        for number, item in zip(batch.column("number").to_pylist(), batch.column("item"), strict=True):
            outcome = _outcome(function, place, item.as_buffer())
            yield pa.RecordBatch.from_arrays([pa.array([number]), pa.array([outcome], pa.binary())], schema=_OUTCOMES)


@lru_cache(maxsize=4)
def _open_engine(encoded: bytes) -> Engine:
    """One engine, with its connections, for all tasks of a process."""
    engine: Engine = pickle.loads(encoded)
    return engine


def _outcome(function: Callable[[Workplace, Any], Any], place: Workplace, item: pa.Buffer) -> bytes:
    try:
        with _one_core():
            return _encoded(True, function(place, pickle.loads(item)))
    except Exception as error:
        return _encoded_error(error)


def _encoded(is_result: bool, outcome: Any) -> bytes:
    return _encode((is_result, outcome))


def _encoded_error(error: Exception) -> bytes:
    try:
        encoded = _encoded(False, error)
        pickle.loads(encoded)
    except Exception:  # an unpicklable error, as in some third-party libraries
        return _encoded(False, RuntimeError(f"{type(error).__name__}: {error}"))
    return encoded


@contextmanager
def _one_core() -> Iterator[None]:
    """Use one core, as Spark allots to a task: other tasks use the others."""
    cores = pa.cpu_count()
    pa.set_cpu_count(1)
    try:
        yield
    finally:
        pa.set_cpu_count(cores)
