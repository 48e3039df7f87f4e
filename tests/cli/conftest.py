"""Tables to look at from the command line, and the program itself."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from lakeport.cli.app import run
from lakeport.engine import default_engine
from lakeport.kernel.schema import ArrayType, MapType, PrimitiveType, StructField
from lakeport.kernel.variant import encode_variant
from lakeport.testing.builder import Action, TableBuilder, protocol, struct

VARIANT = PrimitiveType("variant")


@dataclass(frozen=True)
class Result:
    """What a run of the program left."""

    code: int
    out: str
    err: str

    @property
    def documents(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


Run = Callable[..., Result]


@pytest.fixture
def lakeport(capsys: pytest.CaptureFixture[str]) -> Run:
    """The program, in this process."""

    def call(*arguments: object) -> Result:
        code = run([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return Result(code, out, err)

    return call


@pytest.fixture
def orders(tmp_path: Path) -> str:
    """Version 0: ten orders of two days; 1: five more; 2: two of the first day deleted by a vector."""
    schema = struct(StructField("id", PrimitiveType("long"), nullable=False), amount="decimal(10,2)", day="date")
    table = TableBuilder(
        default_engine(),
        str(tmp_path / "orders"),
        schema,
        ["day"],
        {"a.b": "c"},
        protocol(features=["deletionVectors"]),
    )
    adds = [table.add(order_rows(start), {"day": day}) for start, day in ((0, "2026-01-01"), (5, "2026-01-02"))]
    table.create(*adds, told("CREATE TABLE AS SELECT"))
    table.commit(table.add(order_rows(10), {"day": None}), told("WRITE", mode="Append"))
    table.commit(*table.delete(adds[0], [1, 3]), told("DELETE", predicate='["id IN (1, 3)"]'))
    return table.root


def order_rows(start: int) -> dict[str, list[Any]]:
    ids = list(range(start, start + 5))
    return {"id": ids, "amount": [Decimal(i) + Decimal("0.50") for i in ids]}


def told(operation: str, **parameters: str) -> Action:
    return {"commitInfo": {"timestamp": 0, "operation": operation, "operationParameters": parameters}}


@pytest.fixture
def everything(tmp_path: Path) -> str:
    """A row with a value of each type, and a row of nulls."""
    inner = struct(when="timestamp", v=VARIANT)
    schema = struct(
        **{"byte": "byte", "long": "long", "float": "float", "double": "double", "flag": "boolean"},
        **{"text": "string", "raw": "binary", "price": "decimal(38,9)", "day": "date"},
        **{"at": "timestamp", "local": "timestamp_ntz", "point": inner, "v": VARIANT},
        **{"list": ArrayType(inner), "days": MapType(PrimitiveType("date"), VARIANT)},
    )
    metadata, value = encode_variant({"a": [1, None, Decimal("2.5")], "b": "é"})
    variant = {"metadata": metadata, "value": value}
    nested = {"when": datetime(2026, 1, 31, 12, tzinfo=UTC), "v": variant}
    row = {"byte": -128, "long": 2**63 - 1, "float": 0.1, "double": float("nan"), "flag": True}
    row |= {
        "text": 'a "b"\n,[red]\x1b[31m',
        "raw": b"\0\xff",
        "price": Decimal("12345678901234567890123456789.000000001"),
    }
    row |= {"day": date(2026, 1, 31), "at": datetime(2026, 1, 31, 12, 0, 0, 1, tzinfo=UTC)}
    row |= {"local": datetime(2026, 1, 31, 12), "point": nested, "v": variant}
    row |= {"list": [nested, None], "days": [(date(2026, 1, 31), variant), (date(2026, 2, 1), None)]}
    features = protocol(features=["variantType", "timestampNtz"])
    table = TableBuilder(default_engine(), str(tmp_path / "everything"), schema, protocol=features)
    table.create(table.add({name: [value, None] for name, value in row.items()}, stats='{"numRecords":2}'))
    return table.root
