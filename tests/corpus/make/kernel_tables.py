"""The tables that Delta Kernel (Java) writes. Delta's Spark library, in whose JVM it runs, reads them back."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.corpus.make.delta_internals import Step
from tests.corpus.make.table import Table

COLUMNS = {"id": "long", "n": "double", "name": "string"}


def create(
    columns: Mapping[str, str], *, partitions: Sequence[str] = (), clusters: Sequence[str] = (), **properties: str
) -> Step:
    """Commit a table without rows; in the names of properties, `_` stands for a dot."""

    def step(spark: Any, path: str) -> None:
        kernel, engine = start(spark)
        fields = [{"name": n, "type": t, "nullable": True, "metadata": {}} for n, t in columns.items()]
        schema = json.dumps({"type": "struct", "fields": fields})
        builder = kernel.Table.forPath(engine, path).createTransactionBuilder(
            engine, "corpus", kernel.Operation.CREATE_TABLE
        )
        builder = builder.withSchema(engine, kernel.internal.types.DataTypeJsonSerDe.deserializeStructType(schema))
        if partitions:
            builder = builder.withPartitionColumns(engine, list(partitions))
        if clusters:
            builder = builder.withClusteringColumns(engine, [kernel.expressions.Column(name) for name in clusters])
        if properties:
            values = {f"delta.{name.replace('_', '.')}": value for name, value in properties.items()}
            builder = builder.withTableProperties(engine, values)
        finish(kernel, engine, builder.build(engine))

    return step


def append(*rows: Mapping[str, Any], partition: Mapping[str, str | None] = {}, compact_every: int = 0) -> Step:
    """Commit rows, all of one partition. `compact_every` commits, write a compaction of the log, too."""

    def step(spark: Any, path: str) -> None:
        kernel, engine = start(spark)
        builder = kernel.Table.forPath(engine, path).createTransactionBuilder(engine, "corpus", kernel.Operation.WRITE)
        if compact_every:
            builder = builder.withLogCompactionInverval(compact_every)
        transaction = builder.build(engine)
        state = transaction.getTransactionState(engine)
        literal = kernel.expressions.Literal
        values = {
            name: literal.ofNull(kernel.types.StringType.STRING) if value is None else literal.ofString(value)
            for name, value in partition.items()
        }
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            file.write("".join(json.dumps({**partition, **row}) + "\n" for row in rows))
            file.flush()
            source = kernel.utils.FileStatus.of(file.name, Path(file.name).stat().st_size, 0)
            batches = engine.getJsonHandler().readJsonFiles(
                kernel.internal.util.Utils.singletonCloseableIterator(source),
                transaction.getSchema(engine),
                spark._jvm.java.util.Optional.empty(),
            )
            batches.hasNext()  # next() alone finds nothing
            batch = kernel.data.FilteredColumnarBatch(batches.next(), spark._jvm.java.util.Optional.empty())
            batches.close()
        logical = kernel.internal.util.Utils.singletonCloseableIterator(batch)
        physical = kernel.Transaction.transformLogicalData(engine, state, logical, values)
        context = kernel.Transaction.getWriteContext(engine, state, values)
        files = engine.getParquetHandler().writeParquetFiles(
            context.getTargetDirectory(), physical, context.getStatisticsColumns()
        )
        actions = kernel.Transaction.generateAppendActions(engine, state, files, context)
        finish(kernel, engine, transaction, kernel.utils.CloseableIterable.inMemoryIterable(actions))

    return step


def set_domain(domain: str, configuration: str) -> Step:
    def step(spark: Any, path: str) -> None:
        kernel, engine = start(spark)
        operation = kernel.Operation.MANUAL_UPDATE
        builder = kernel.Table.forPath(engine, path).createTransactionBuilder(engine, "corpus", operation)
        transaction = builder.withTransactionId(engine, domain, 3).withDomainMetadataSupported().build(engine)
        transaction.addDomainMetadata(domain, configuration)
        finish(kernel, engine, transaction)

    return step


def start(spark: Any) -> tuple[Any, Any]:
    kernel = spark._jvm.io.delta.kernel
    return kernel, kernel.defaults.engine.DefaultEngine.create(spark._jsc.hadoopConfiguration())


def finish(kernel: Any, engine: Any, transaction: Any, actions: Any = None) -> None:
    """Commit, and do what Kernel proposes after it: checksums, checkpoints, compactions."""
    result = transaction.commit(engine, actions or kernel.utils.CloseableIterable.emptyIterable())
    for hook in result.getPostCommitHooks():
        hook.threadSafeInvoke(engine)


def row(id: int, **others: Any) -> dict[str, Any]:
    return {"id": id, "n": id * 1.5, "name": f"name {id}", **others}


TABLES = {
    "appended": Table(
        [create(COLUMNS, checkpointInterval="3"), append(row(1), row(2, n=None)), append(row(3)), append(row(4))]
    ),
    "partitioned": Table(
        [
            create(COLUMNS, partitions=["name"]),
            append(row(1), partition={"name": "a b/c"}),
            append(row(2), partition={"name": None}),
        ]
    ),
    "clustered": Table([create(COLUMNS, clusters=["id"]), append(row(1), row(2)), set_domain("app.a", '{"x": 1}')]),
    "log-compacted": Table(
        [create(COLUMNS), *(append(row(id), compact_every=3) for id in range(1, 8))],
    ),
    "row-tracking": Table(
        [
            create(COLUMNS, enableRowTracking="true", enableInCommitTimestamps="true"),
            append(row(1), row(2)),
            append(row(3)),
        ]
    ),
    "mapped": Table(
        [
            create({"the id": "long", "a.b": "string"}, columnMapping_mode="name", enableIcebergCompatV2="true"),
        ]
    ),
}
