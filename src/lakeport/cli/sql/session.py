"""SQL over shared tables and Delta tables, run by DuckDB. Each statement sees the latest version of its tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, Self, TypeVar

import pyarrow as pa

from lakeport.cli.sql.tables import Catalog
from lakeport.errors import InvalidFilterError, LakeportError
from lakeport.queries import NamedTable, open_duckdb, tables_in

if TYPE_CHECKING:
    from lakeport.relations.arrow_dataset import FrameDataset

T = TypeVar("T")

_AGAIN_SECONDS = 0.2

_OWN_DATABASES = frozenset({"memory", "system", "temp", "main"})
"""Names that DuckDB reserves."""


class SqlSession:
    """Raises what reading the tables raises, `InvalidFilterError` for invalid SQL, and `LakeportError` for failures
    while it runs."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        try:
            self._duckdb = open_duckdb()
        except ModuleNotFoundError as error:
            raise LakeportError("SQL needs DuckDB: pip install 'lakeport[duckdb]'") from error
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="lakeport-sql")
        self._attached: set[str] = set()
        self._datasets: list[FrameDataset] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._worker.shutdown()
        self._duckdb.close()
        self.catalog.close()

    def run(self, text: str) -> Iterator[pa.RecordBatchReader]:
        """Yield the rows of each statement that has some. A statement runs once the rows before it are consumed."""
        with self._errors():
            statements = self._duckdb.extract_statements(text)
        for statement in statements:
            yield from self._run_one(statement.query)

    @contextmanager
    def reading(self, reader: pa.RecordBatchReader) -> Iterator[Iterator[pa.RecordBatch]]:
        """Yield the batches of a result; reading them raises the same errors as `run`."""
        with closing(reader):
            yield self._batches(reader)

    def _run_one(self, query: str) -> Iterator[pa.RecordBatchReader]:
        self._datasets.clear()
        for table in tables_in(query, self._duckdb):
            self._open(table)
        with self._errors():
            reader = self._wait_for(lambda: self._start(query))
        if reader is not None:
            yield reader

    def _start(self, query: str) -> pa.RecordBatchReader | None:
        relation: Any = self._duckdb.sql(query)  # None for statements without a result
        return None if relation is None else pa.RecordBatchReader.from_stream(relation)

    def _batches(self, reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
        batches = iter(reader)
        while True:
            with self._errors():
                batch = self._wait_for(lambda: next(batches, None))
            if batch is None:
                return
            yield batch

    def _wait_for(self, work: Callable[[], T]) -> T:
        """Run the work in another thread and return its result. This thread handles interrupts, which DuckDB does
        not."""
        done = self._worker.submit(work)
        try:
            return done.result()
        except KeyboardInterrupt:
            while not done.done():  # repeat: a call that has not started yet is not interrupted
                self._duckdb.interrupt()
                wait([done], _AGAIN_SECONDS)
            raise

    def _open(self, table: NamedTable) -> None:
        if table.database and table.database.lower() in self._databases() - self._attached:
            return
        frame = self.catalog.open(table)
        if frame is None:
            return
        from lakeport.relations.duckdb_relation import make_view  # imports DuckDB

        with self._errors():
            if table.database:
                self._attach(table)
            dataset = make_view(frame, self._duckdb, *filter(None, table))
        if dataset is not None:
            self._datasets.append(dataset)

    def _databases(self) -> set[str]:
        rows = self._duckdb.execute("SELECT database_name FROM duckdb_databases()").fetchall()
        return {name.lower() for (name,) in rows} - _OWN_DATABASES

    def _attach(self, table: NamedTable) -> None:
        """Create a database for the share, and in it the schema."""
        from lakeport.relations.duckdb_sql import name_of

        share = table.database.lower()
        if share in _OWN_DATABASES:
            raise ValueError(
                f"DuckDB reserves the database name {share!r}: write 'PROFILE#{'.'.join(table)}', with quotes"
            )
        if share not in self._attached:
            self._duckdb.execute(f"ATTACH ':memory:' AS {name_of(table.database)}")
            self._attached.add(share)
        self._duckdb.execute(f"CREATE SCHEMA IF NOT EXISTS {name_of(table.database)}.{name_of(table.schema)}")

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Translate errors of DuckDB and of Arrow reading its results; raise errors of a scan unchanged."""
        import duckdb

        try:
            yield
        except (duckdb.Error, pa.ArrowException, OSError) as error:
            for dataset in self._datasets:
                if dataset.error is not None:
                    raise dataset.error from None
            if isinstance(error, duckdb.ParserException | duckdb.BinderException | duckdb.CatalogException):
                raise InvalidFilterError(str(error)) from error
            raise LakeportError(f"query failed: {error}") from error
