"""The contract of an engine: every obligation in the docstrings of `lakeport.kernel.engine`, as tests.

A subclass gives an engine and a place where it may write; pytest collects the subclass.
"""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import pytest

from lakeport.errors import LakeportError
from lakeport.kernel.engine import Engine
from lakeport.kernel.expressions import col
from lakeport.kernel.schema import StructField
from lakeport.testing.builder import TableBuilder, mapped, protocol, read, rows, struct
from lakeport.testing.contracts.contract import Contract
from lakeport.testing.contracts.expressions import ExpressionContract
from lakeport.testing.contracts.json import JsonContract
from lakeport.testing.contracts.parquet_reading import ParquetReadingContract
from lakeport.testing.contracts.parquet_writing import ParquetWritingContract
from lakeport.testing.contracts.storage import StorageContract


class TableContract(Contract):
    """Whole tables read through all handlers together."""

    FORMS = (
        "classic",
        "parts",
        "v2-json",
        "v2-parquet",
        "v2-json-sidecars",
        "v2-parquet-sidecars",
        "v2-classic-sidecars",
    )

    @pytest.mark.parametrize("form", FORMS)
    @pytest.mark.parametrize("mode", ["none", "name", "id"])
    def test_a_table_reads_the_same_through_every_engine(self, engine: Engine, root: str, form: str, mode: str) -> None:
        inner = struct(x="long", y="string")
        schema = struct(StructField("id", inner.fields[0].type), s=inner, day="date", t="timestamp")
        schema = schema if mode == "none" else mapped(schema)
        features = ["deletionVectors", "v2Checkpoint", *(["columnMapping"] if mode != "none" else [])]
        table = TableBuilder(
            engine, f"{root}/t", schema, ["day"], {"delta.columnMapping.mode": mode}, protocol(features=features)
        )
        names = [f.name for f in table.physical_schema()]
        inside = [f.name for f in table.physical_schema().field(1).type]
        day = next(f for f in schema if f.name == "day")
        day_name = day.physical_name(mode)
        moment = datetime(2026, 1, 1, 12, 30, 15, 123456, UTC)

        def add(first: int, text: str | None, **options: Any) -> dict[str, Any]:
            ids = list(range(first, first + 6))
            structs = [None if i % 3 == 0 else {inside[0]: i, inside[1]: f"n{i}"} for i in ids]
            data = dict(zip(names, (ids, structs, [moment, None] * 3), strict=True))
            return table.add(data, {day_name: text}, row_group_size=2, **options)

        first, second, third = add(0, "2026-01-01"), add(10, None), add(20, "2026-01-02")
        table.create(first, second)
        table.commit(third)
        table.commit(*table.delete(first, [1, 4]), *table.delete(second, [0, 5], "i"))
        table.checkpoint(form=form)
        table.commit({"remove": {"path": third["add"]["path"], "dataChange": True}}, add(30, ""))

        def row(i: int, text: date | None, offset: int) -> tuple[Any, ...]:
            return (i, None if i % 3 == 0 else {"x": i, "y": f"n{i}"}, text, None if offset % 2 else moment)

        expected = [row(i, date(2026, 1, 1), i) for i in (0, 2, 3, 5)]
        expected += [row(10 + i, None, i) for i in (1, 2, 3, 4)] + [row(30 + i, None, i) for i in range(6)]
        snapshot = table.snapshot()
        assert snapshot.segment.checkpoint is not None
        assert rows(snapshot) == sorted(expected, key=repr)
        assert rows(snapshot, batch_size=1) == sorted(expected, key=repr)
        assert rows(snapshot, (col("id") > 3) & (col("s.y") < "n2")) == sorted(
            (r for r in expected if r[0] > 3 and r[1] and r[1]["y"] < "n2"), key=repr
        )
        assert rows(snapshot, col("day") == date(2026, 1, 1)) == sorted(expected[:4], key=repr)
        pruned = snapshot.scan_builder().with_read_schema(snapshot.schema.select([("s", "y"), ("day",)])).build()
        assert read(snapshot, scan=pruned).column_names == ["s", "day"]

    def test_damage_to_a_table_is_a_typed_error_in_every_engine(self, engine: Engine, root: str) -> None:
        table = TableBuilder(engine, f"{root}/t", struct(id="long")).create()
        table.commit(table.add({"id": [1, 2]}, name="data.parquet"))
        table.write(f"{root}/t/data.parquet", b"PAR1 damaged PAR1")
        with pytest.raises(LakeportError, match=r"data\.parquet"):
            rows(table.snapshot())


class EngineContract(
    StorageContract,
    JsonContract,
    ParquetReadingContract,
    ParquetWritingContract,
    ExpressionContract,
    TableContract,
):
    """The contracts of all handlers, and of tables read through them."""
