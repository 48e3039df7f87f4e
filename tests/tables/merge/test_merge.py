"""`tables.merge`: what becomes of rows, as a model says that goes row by row; and what the log says of it."""

import itertools
import json
from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from hypothesis import given
from hypothesis import strategies as st

import lakeport
from lakeport import col, lit, tables
from lakeport.errors import (
    CommitConflictError,
    ConstraintError,
    InvalidDataError,
    InvalidFilterError,
    UnknownColumnError,
    UnsupportedFeatureError,
)
from lakeport.kernel.expressions import Expression
from lakeport.kernel.schema import PrimitiveType, StructField, StructType
from lakeport.testing.counting import counting_engine
from tests.examples import examples
from tests.properties import FEED, TRACKING, VECTORS
from tests.rows import counted
from tests.tables.merge.model import MergeModel, ModelClause
from tests.tables.modelled import KINDS, SCHEMA, ModelledTable, Row

T_ID, T_N, T_PART, T_TEXT = (col(("target", name)) for name in ("id", "n", "part", "text"))
S_ID, S_N, S_PART, S_TEXT, NEW_ID = (col(("source", name)) for name in ("id", "n", "part", "text", "new_id"))

SOURCE = pa.schema(
    [
        ("id", pa.int64()),
        ("new_id", pa.int16()),
        ("n", pa.int64()),
        ("part", pa.string()),
        ("text", pa.large_string()),
    ]
)

ON: dict[str, Expression] = {
    "one key": T_N == S_N,
    "turned around": S_N == T_N,
    "a key that may be null": T_N.equals_null_safe(S_N),
    "two keys": (T_N == S_N) & (T_TEXT == S_TEXT),
    "two keys that may be null": T_N.equals_null_safe(S_N) & T_PART.equals_null_safe(S_PART),
    "the partition": T_PART == S_PART,
    "a key and a comparison": (T_N == S_N) & (T_ID < S_ID),
    "no key": T_N < S_N,
    "a key or another": (T_N == S_N) | (T_ID == S_ID),
    "conditions on one side": (T_ID == S_ID) & (S_N > 1) & T_TEXT.is_not_null(),
    "never": (T_ID == S_ID) & (T_ID < 0),
}
MATCHED: list[Expression | None] = [None, T_N < S_N, S_TEXT.is_null(), T_PART == "p 1", S_N > 2]
OF_SOURCE: list[Expression | None] = [None, S_N > 1, S_TEXT == "x", S_PART.is_null()]
OF_TARGET: list[Expression | None] = [None, T_N > 2, T_PART == "p 0", T_TEXT.is_null()]
SETS: list[Mapping[str, Expression]] = [
    {"text": S_TEXT},
    {"n": S_N, "part": S_PART},
    {"text": lit("set"), "n": T_N, "s": lit(None)},
]
OWN_SETS: list[Mapping[str, Expression]] = [{"text": lit("gone")}, {"part": T_TEXT, "n": lit(None)}]
INSERTS: list[Mapping[str, Expression]] = [{"id": NEW_ID, "n": S_N, "part": S_PART, "text": S_TEXT}, {"id": NEW_ID}]

LIMITS = st.sampled_from([None, 2000, 1])
"""Memory limits: with the second, files hold some rows of the source at a time, and with the third one."""

some_n, some_part = st.none() | st.integers(0, 4), st.none() | st.sampled_from(["p 0", "p 1", "p 2"])
some_text = st.none() | st.sampled_from(["x", "y", "z"])
values = st.fixed_dictionaries({"n": some_n, "part": some_part, "text": some_text})


def clauses(
    actions: list[str], conditions: list[Expression | None], sets: list[Mapping[str, Expression]]
) -> st.SearchStrategy[list[ModelClause]]:
    """Up to three clauses, of which only the last may lack a condition."""

    def clause(action: str, condition: Expression | None, values: Mapping[str, Expression]) -> ModelClause:
        return ModelClause(action, condition, {} if action == "delete" else values)

    one = st.builds(clause, st.sampled_from(actions), st.sampled_from(conditions), st.sampled_from(sets))
    return st.lists(one, max_size=3).map(
        lambda found: [*(clause for clause in found[:-1] if clause.condition is not None), *found[-1:]]
    )


models = st.builds(
    MergeModel,
    st.sampled_from(list(ON.values())),
    clauses(["update", "delete"], MATCHED, SETS),
    clauses(["insert"], OF_SOURCE, INSERTS),
    clauses(["update", "delete"], OF_TARGET, OWN_SETS),
).filter(lambda model: bool([*model.matched, *model.not_matched, *model.by_source]))


def make_table(folder: Path, properties: Mapping[str, str], rows: list[Row], partition_by: list[str]) -> ModelledTable:
    """A table of two files or more, one of them with a deleted row where that leaves a trace."""
    path = str(folder / "table")
    tables.create(path, schema=SCHEMA, partition_by=partition_by, properties=dict(properties))
    extra = {**dict.fromkeys(SCHEMA.names), "id": -1, "part": "p 0"}
    middle = len(rows) // 2
    tables.append(path, pa.Table.from_pylist([extra, *rows[:middle]], SCHEMA))
    tables.append(path, pa.Table.from_pylist(rows[middle:], SCHEMA))
    tables.delete(path, "id = -1")
    table = ModelledTable(path, properties, rows)
    table.check()
    table.row_ids = table._read_row_ids()
    return table


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return (tmp_path_factory.mktemp("merge") for _ in itertools.count())


@examples(90)
@given(
    limit=LIMITS,
    kind=st.sampled_from(list(KINDS)),
    partition_by=st.sampled_from([[], ["part"]]),
    target=st.lists(values, min_size=1, max_size=8),
    source=st.lists(values, max_size=5),
    model=models,
)
def test_a_merge_does_what_the_model_says(
    folders: Any,
    limit: int | None,
    kind: str,
    partition_by: list[str],
    target: list[Row],
    source: list[Row],
    model: MergeModel,
) -> None:
    rows = [{"id": i, **row, "s": {"a": i, "b": "b"}} for i, row in enumerate(target)]
    given_rows = [{"id": i, "new_id": 100 + i, **row} for i, row in enumerate(source)]
    table = make_table(next(folders), KINDS[kind], rows, partition_by)
    version, files = table.version, table.files_on_disk()
    outcome = model.run(rows, given_rows)
    given_table = pa.Table.from_pylist(given_rows, SOURCE)
    merge = model.on_table(tables.merge(table.path, given_table, model.on, memory_limit=limit))
    if outcome is None:
        with pytest.raises(InvalidDataError, match=r"is matched by \d rows of the source"):
            merge.execute()
        assert table.files_on_disk() == files
        table.check()
        return
    result = merge.execute()
    table.rows = outcome.rows
    changed = any(outcome.changes.values())
    assert result.version == version + changed
    table.check(result.version, outcome.changes if changed else None)
    check_metrics(result.metrics, outcome.changes, len(given_rows))
    if "delta.enableRowTracking" in table.properties:
        versions = table.row_versions()
        touched = {row["id"] for row in [*outcome.after, *outcome.inserted]}
        assert {i for i, changed_in in versions.items() if changed_in == version + 1} == touched


def check_metrics(metrics: Mapping[str, int], changes: Mapping[str, list[Row]], source_rows: int) -> None:
    assert metrics["numSourceRows"] == source_rows
    assert metrics["numTargetRowsInserted"] == len(changes["insert"])
    assert metrics["numTargetRowsUpdated"] == len(changes["update_postimage"])
    assert metrics["numTargetRowsDeleted"] == len(changes["delete"])
    for action in ("Updated", "Deleted"):
        parts = [metrics[f"numTargetRows{kind}{action}"] for kind in ("Matched", "NotMatchedBySource")]
        assert metrics[f"numTargetRows{action}"] == sum(parts)


# Beside a peer


@pytest.mark.parametrize("condition", ["target.id = source.id", "target.id = source.id AND target.n < source.n"])
def test_a_merge_gives_what_deltalake_gives(tmp_path: Path, condition: str) -> None:
    target = pa.table({"id": range(200), "n": [i % 10 for i in range(200)], "t": [f"t{i}" for i in range(200)]})
    source = pa.table({"id": range(150, 250), "n": [i % 7 for i in range(100)], "t": [f"s{i}" for i in range(100)]})
    for name in ("ours", "theirs"):
        tables.create(str(tmp_path / name), target)
    (
        tables.merge(str(tmp_path / "ours"), source, condition)
        .when_matched_delete("source.n = 3")
        .when_matched_update({"n": "source.n + target.n"}, "target.n <> 5")
        .when_not_matched_insert_all("source.n < 5")
        .when_not_matched_by_source_update({"t": "'old'"}, "target.n = 1")
        .when_not_matched_by_source_delete("target.n = 2")
        .execute()
    )
    (
        DeltaTable(tmp_path / "theirs")
        .merge(source, condition, source_alias="source", target_alias="target")
        .when_matched_delete("source.n = 3")
        .when_matched_update({"n": "source.n + target.n"}, "target.n <> 5")
        .when_not_matched_insert_all("source.n < 5")
        .when_not_matched_by_source_update({"t": "'old'"}, "target.n = 1")
        .when_not_matched_by_source_delete("target.n = 2")
        .execute()
    )
    ours, theirs = (lakeport.scan(str(tmp_path / name)).to_arrow().to_pylist() for name in ("ours", "theirs"))
    assert counted(ours) == counted(theirs)


# Keys


@pytest.mark.parametrize(
    ("target", "source"),
    [
        (pa.array([1, 2, None], pa.int32()), pa.array([2, 3, None], pa.int64())),
        (pa.array([1, 2, None], pa.int8()), pa.array([Decimal("2.00"), Decimal("1.50"), None])),
        (pa.array([1.5, 2.0, float("nan")]), pa.array([2, 3, None], pa.int64())),
        (pa.array([1.5, 0.0, float("nan")]), pa.array([-0.0, float("nan"), None])),
        (pa.array([1.5, 2.0, None], pa.float32()), pa.array([2.0, float("nan"), None], pa.float64())),
        (pa.array([Decimal("1.0"), Decimal("2.0"), None]), pa.array([Decimal("2.000"), Decimal("2.001"), None])),
        (pa.array(["a", "b", None]), pa.array(["b", "", None]).dictionary_encode()),
        (pa.array([b"a", b"b", None]), pa.array([b"b", b"", None], pa.large_binary())),
        (pa.array([True, False, None]), pa.array([False, None, None])),
        (pa.array([date(2026, 1, 1), date(2026, 1, 2), None]), pa.array([datetime(2026, 1, 2), None, None])),
        (
            pa.array([datetime(2026, 1, 1), datetime(2026, 1, 2), None], pa.timestamp("us", "UTC")),
            pa.array([datetime(2026, 1, 2), datetime(2026, 1, 2, 1), None], pa.timestamp("ms")),
        ),
    ],
    ids=lambda array: str(array.type),
)
@pytest.mark.parametrize("limit", [None, 1])
def test_keys_of_different_types_are_compared_by_value(
    tmp_path: Path, target: pa.Array, source: pa.Array, limit: int | None
) -> None:
    path = str(tmp_path / "t")
    tables.create(path, pa.table({"k": target, "row": [0, 1, 2]}))
    result = (
        tables.merge(path, pa.table({"k": source}), "target.k = source.k", memory_limit=limit)
        .when_matched_update({"row": "row + 10"})
        .when_not_matched_insert({"row": "-1"})
        .execute()
    )
    assert sorted(lakeport.scan(path).to_arrow()["row"].to_pylist()) == [-1, -1, 0, 2, 11]
    assert result.metrics["numTargetRowsUpdated"] == 1


def test_a_long_that_is_compared_as_a_double_is_found_although_its_bounds_are_beside_it(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    tables.create(path, {"k": [2**53 + 1]})
    merged = tables.merge(path, {"k": [float(2**53)]}, "target.k = source.k").when_matched_delete().execute()
    assert merged.metrics["numTargetRowsDeleted"] == 1


def test_keys_may_be_computed(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    tables.create(path, {"k": ["A", "b"], "n": [1, 2]})
    tables.merge(path, {"k": ["a", "x"]}, "lower(target.k) = source.k").when_matched_update({"n": lit(9)}).execute()
    assert sorted(lakeport.scan(path).to_arrow()["n"].to_pylist()) == [2, 9]


# Clauses


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A table with the rows 1, 2 and 3 of `id`, `n` and `text`."""
    path = str(tmp_path / "t")
    tables.create(path, {"id": [1, 2, 3], "n": [10, 20, 30], "text": ["a", "b", "c"]})
    return path


def rows_of(path: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in lakeport.scan(path).to_arrow().to_pylist())


def test_two_rows_of_the_source_for_one_of_the_target_are_refused_with_both(path: str) -> None:
    source = {"id": [2, 2], "text": ["x", "y"]}
    merge = tables.merge(path, source, "target.id = source.id")
    with pytest.raises(
        InvalidDataError, match=r"target with \(id = 2\) is matched by 2 rows .*text = x.*text = y"
    ) as e:
        merge.when_matched_update({"text": "source.text"}).execute()
    assert e.value.row == 1
    with pytest.raises(InvalidDataError, match="is matched by 2 rows"):
        merge.when_matched_delete("source.text < 'z'").execute()
    assert lakeport.scan(path).version == 0


def test_two_rows_of_the_source_may_delete_the_same_row_or_leave_it_alone(path: str) -> None:
    source = {"id": [2, 2, 3, 3], "text": ["x", "y", "x", "y"]}
    merge = tables.merge(path, source, "target.id = source.id")
    merge.when_not_matched_insert({"id": "source.id"}).execute()
    merge.when_matched_update({"text": "source.text"}, "source.text = 'x' AND source.id = 3").execute()
    assert rows_of(path) == [(1, 10, "a"), (2, 20, "b"), (3, 30, "x")]
    result = merge.when_matched_delete().execute()
    assert rows_of(path) == [(1, 10, "a")]
    assert result.metrics["numTargetRowsDeleted"] == 2


def test_the_first_clause_that_holds_applies_and_a_condition_is_only_worked_out_where_it_is_asked(path: str) -> None:
    source = {"id": [1, 2], "d": [0, 5]}
    (
        tables.merge(path, source, "target.id = source.id")
        .when_matched_update({"text": "'zero'"}, "source.d = 0")
        .when_matched_update({"n": "n div source.d"}, "n div source.d > 1")
        .execute()
    )
    assert rows_of(path) == [(1, 10, "zero"), (2, 4, "b"), (3, 30, "c")]


def test_only_the_last_clause_of_a_kind_may_lack_a_condition(path: str) -> None:
    merge = tables.merge(path, {"id": [1]}, "target.id = source.id").when_matched_delete()
    with pytest.raises(ValueError, match="only the last clause of a kind can be without a condition"):
        merge.when_matched_update({"n": "1"})
    merge.when_not_matched_insert({"id": "source.id"}).when_not_matched_by_source_delete()
    with pytest.raises(ValueError, match="has no clauses"):
        tables.merge(path, {"id": [1]}, "target.id = source.id").execute()


def test_each_clause_gives_a_new_merge(path: str) -> None:
    merge = tables.merge(path, {"id": [1]}, "target.id = source.id")
    merge.when_matched_delete()
    merge.when_matched_update({"n": "0"}).execute()
    assert rows_of(path)[0] == (1, 0, "a")


def test_a_name_that_both_sides_have_needs_an_alias(path: str) -> None:
    merge = tables.merge(path, {"id": [1], "other": [7]}, "target.id = source.id")
    with pytest.raises(InvalidFilterError, match=r"id is ambiguous: write target.id or source.id"):
        merge.when_matched_delete("id = 1").execute()
    with pytest.raises(UnknownColumnError, match="unknown column 'nope': target has id, n, text; source has id, other"):
        merge.when_matched_delete("nope = 1").execute()
    merge.when_matched_update({"target.n": "n + other"}, "text = 'a'").execute()
    assert rows_of(path)[0] == (1, 17, "a")


def test_a_clause_sees_only_the_rows_that_it_has(path: str) -> None:
    merge = tables.merge(path, {"id": [1]}, "target.id = source.id")
    with pytest.raises(InvalidFilterError, match=r"target.n cannot be used here: .* only columns of source"):
        merge.when_not_matched_insert({"id": "source.id"}, "target.n = 1").execute()
    with pytest.raises(InvalidFilterError, match=r"source.id cannot be used here: .* only columns of target"):
        merge.when_not_matched_by_source_update({"n": "source.id"}).execute()


def test_aliases_are_the_callers_choice(path: str) -> None:
    source = {"id": [1]}
    merge = tables.merge(path, source, "t.id = s.id", source_alias="s", target_alias="t")
    merge.when_matched_update({"t.n": "t.n + s.id"}).execute()
    assert rows_of(path)[0] == (1, 11, "a")
    with pytest.raises(ValueError, match="different aliases"):
        tables.merge(path, source, "x", source_alias="s", target_alias="S").when_matched_delete().execute()


def test_all_columns_means_all(path: str) -> None:
    merge = tables.merge(path, {"id": [1], "text": ["x"]}, "target.id = source.id")
    with pytest.raises(InvalidDataError, match="update_all needs every column of the table, but the source lacks n"):
        merge.when_matched_update_all().execute()
    with pytest.raises(InvalidDataError, match="insert_all needs every column of the table, but the source lacks n"):
        merge.when_not_matched_insert_all().execute()


def test_columns_of_the_source_that_the_table_lacks_are_added_if_that_is_allowed(path: str) -> None:
    source = {"id": [1, 9], "text": ["x", "y"], "more": [True, False]}
    merge = tables.merge(path, source, "target.id = source.id", merge_schema=True)
    merge.when_matched_update_all().when_not_matched_insert_all().execute()
    assert rows_of(path) == [
        (1, 10, "x", True),
        (2, 20, "b", None),
        (3, 30, "c", None),
        (9, None, "y", False),
    ]


def test_one_field_of_a_struct_can_be_set(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    tables.create(path, pa.table({"id": [1, 2], "s": [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]}))
    merge = tables.merge(path, pa.table({"id": [2, 3], "s": [{"a": 7, "b": "z"}] * 2}), "target.id = source.id")
    merge.when_matched_update({"s.a": "source.s.a + target.s.a"}).when_not_matched_insert_all().execute()
    assert lakeport.scan(path).to_arrow().sort_by("id")["s"].to_pylist() == [
        {"a": 1, "b": "x"},
        {"a": 9, "b": "y"},
        {"a": 7, "b": "z"},
    ]
    with pytest.raises(InvalidDataError, match="insert the whole 's'"):
        merge.when_not_matched_insert({"s.a": "1"}).execute()


# What the table demands


def test_generated_columns_follow_and_defaults_fill(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    long = PrimitiveType("long")
    doubled = StructField("doubled", long, metadata={"delta.generationExpression": "n * 2"})
    with_default = StructField("d", long, metadata={"CURRENT_DEFAULT": "7"})
    schema = StructType((StructField("id", long), StructField("n", long), doubled, with_default))
    tables.create(path, schema=schema, properties={"delta.feature.allowColumnDefaults": "supported"})
    tables.append(path, {"id": [1, 2], "n": [1, 2], "d": [0, 0]})
    merge = tables.merge(path, {"id": [2, 3], "n": [20, 30]}, "target.id = source.id")
    merge.when_matched_update({"n": "source.n"}).when_not_matched_insert_all().execute()
    assert rows_of(path) == [(1, 1, 2, 0), (2, 20, 40, 0), (3, 30, 60, 7)]
    with pytest.raises(ConstraintError, match="the generated column 'doubled'"):
        merge.when_matched_update({"doubled": "1"}).execute()


@pytest.mark.parametrize("properties", [{}, VECTORS, FEED | VECTORS])
def test_a_row_that_breaks_a_constraint_leaves_nothing_behind(tmp_path: Path, properties: dict[str, str]) -> None:
    path = str(tmp_path / "t")
    tables.create(path, {"id": [1, 2], "n": [1, 2]}, properties={**properties, "delta.constraints.positive": "n > 0"})
    before = {str(file) for file in Path(path).rglob("*")}
    merge = tables.merge(path, {"id": [2, 3], "n": [-1, 5]}, "target.id = source.id")
    with pytest.raises(ConstraintError, match="positive"):
        merge.when_matched_update_all().when_not_matched_insert_all().execute()
    with pytest.raises(ConstraintError, match="positive"):
        merge.when_matched_delete().when_not_matched_insert({"id": "source.id", "n": "-source.n"}).execute()
    assert {str(file) for file in Path(path).rglob("*")} == before


@pytest.mark.parametrize("properties", [{}, VECTORS])
@pytest.mark.parametrize("matching", [1, 99], ids=["changes rows", "only appends"])
def test_a_row_that_is_refused_is_called_by_its_number_in_the_source(
    tmp_path: Path, properties: dict[str, str], matching: int
) -> None:
    path = str(tmp_path / "t")
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("n", pa.int64())])
    tables.create(path, schema=schema, properties={**properties, "delta.constraints.positive": "n > 0"})
    tables.append(path, {"id": [1, 2, 3], "n": [1, 2, 3]})
    source = {"id": [8, matching, 9, 7, 3], "n": [5, 5, 6, -4, 0]}
    merge = tables.merge(path, source, "target.id = source.id")
    inserted = merge.when_matched_update({"n": "1"}).when_not_matched_insert_all("source.n <> 5")
    with pytest.raises(
        ConstraintError, match=r"^row 3 of the source violates the constraint 'positive' \(n > 0\): n = -4"
    ) as caught:
        inserted.execute()
    assert caught.value.row == 3
    with pytest.raises(ConstraintError, match=r"^row 4 of the source violates the constraint 'positive'") as caught:
        merge.when_matched_update_all().execute()
    assert caught.value.row == 4
    with pytest.raises(ConstraintError, match=r"^row 2 of the source: the column 'id' is null") as caught:
        merge.when_not_matched_insert({"id": "nullif(source.id, 9)", "n": "1"}).execute()
    assert caught.value.row == 2


def test_a_row_of_the_table_that_is_refused_is_shown_as_it_was(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    tables.create(path, {"id": [1, 2], "n": [1, 2]}, properties={"delta.constraints.positive": "n > 0"})
    merge = tables.merge(path, {"id": [1]}, "target.id = source.id")
    with pytest.raises(
        ConstraintError, match=r"^the row with \(id = 2, n = 2\) violates the constraint 'positive' \(n > 0\): n = -2"
    ) as caught:
        merge.when_not_matched_by_source_update({"n": "-n"}).execute()
    assert caught.value.row is None


def test_a_time_that_no_delta_type_holds_is_called_by_its_row_of_the_source(path: str) -> None:
    source = pa.table({"id": [1, 2], "at": pa.array([0, 2**62], pa.timestamp("s"))})
    with pytest.raises(InvalidDataError, match="row 1 of the source") as caught:
        tables.merge(path, source, "target.id = source.id").when_matched_delete().execute()
    assert caught.value.row == 1


def test_an_append_only_table_takes_new_rows_only(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    tables.create(path, {"id": [1, 2]}, properties={"delta.appendOnly": "true"})
    merge = tables.merge(path, {"id": [2, 3]}, "target.id = source.id").when_not_matched_insert_all()
    assert merge.execute().metrics["numTargetRowsInserted"] == 1
    with pytest.raises(UnsupportedFeatureError, match="append-only"):
        merge.when_matched_delete().execute()


# How it is done


def test_files_without_matches_are_neither_read_nor_written() -> None:
    engine, storage = counting_engine()
    tables.create("t", {"id": list(range(100)), "n": [0] * 100}, engine=engine)
    for start in (100, 200):
        tables.append("t", {"id": list(range(start, start + 100)), "n": [0] * 100}, engine=engine)
    storage.opened.clear()
    merge = tables.merge("t", {"id": [150, 160]}, "target.id = source.id", engine=engine)
    result = merge.when_matched_update({"n": "1"}).execute()
    assert len({name for name in storage.opened if name.endswith(".parquet")}) == 1
    assert result.metrics["numTargetFilesRemoved"] == 1
    assert result.metrics["numTargetRowsCopied"] == 98


def test_an_insert_only_merge_is_an_append(path: str) -> None:
    merge = tables.merge(path, {"id": [3, 4], "n": [0, 40], "text": ["", "d"]}, "target.id = source.id")
    result = merge.when_not_matched_insert_all().execute()
    assert result.metrics["numTargetFilesRemoved"] == 0
    assert result.metrics["numTargetFilesAdded"] == 1
    assert rows_of(path)[2:] == [(3, 30, "c"), (4, 40, "d")]
    assert merge.when_not_matched_insert_all("source.n > 40").execute().version == 1, "nothing to do is no commit"


def test_an_empty_source_matches_nothing(path: str) -> None:
    merge = tables.merge(path, pa.table({"id": pa.array([], pa.int64())}), "target.id = source.id")
    assert merge.when_matched_delete().execute().version == 0
    assert merge.when_not_matched_by_source_delete("target.n > 10").execute().metrics["numTargetRowsDeleted"] == 2
    assert rows_of(path) == [(1, 10, "a")]


def test_a_target_without_rows_takes_all(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    tables.create(path, schema=pa.schema([("id", pa.int64())]))
    tables.merge(path, {"id": [1, 2]}, "target.id = source.id").when_not_matched_insert_all().execute()
    assert rows_of(path) == [(1,), (2,)]


def test_a_row_that_another_writer_inserts_meanwhile_is_a_conflict(path: str) -> None:
    def rows() -> Any:
        """The source is read after the table: another writer is faster meanwhile."""
        tables.merge(
            path, {"id": [4], "n": [0], "text": [""]}, "target.id = source.id"
        ).when_not_matched_insert_all().execute()
        yield pa.record_batch({"id": [4], "n": [40], "text": ["d"]})

    merge = tables.merge(path, rows(), "target.id = source.id").when_not_matched_insert_all()
    with pytest.raises(CommitConflictError, match="adds rows that this transaction would have had to read"):
        merge.execute()
    assert rows_of(path)[-1] == (4, 0, "")


def test_the_history_tells_the_clauses(path: str) -> None:
    (
        tables.merge(path, {"id": [1]}, col("target.id") == col("source.id"))
        .when_matched_delete("source.id > 5")
        .when_matched_update({"n": lit(0)})
        .when_not_matched_insert({"id": "source.id"})
        .when_not_matched_by_source_delete("target.n = 1")
        .execute()
    )
    commit = lakeport.scan(path).history()[0]
    assert commit.operation == "MERGE"
    found = {name: json.loads(text) for name, text in commit.info["operationParameters"].items()}
    assert found == {
        "predicate": ["target.id = source.id"],
        "matchedPredicates": [{"predicate": "source.id > 5", "actionType": "delete"}, {"actionType": "update"}],
        "notMatchedPredicates": [{"actionType": "insert"}],
        "notMatchedBySourcePredicates": [{"predicate": "target.n = 1", "actionType": "delete"}],
    }


def test_a_source_of_a_type_that_delta_lacks_is_refused(path: str) -> None:
    source = pa.table({"id": pa.array([1], pa.duration("s"))})
    with pytest.raises(InvalidDataError, match="the source cannot be merged: the column 'id'"):
        tables.merge(path, source, "target.id = source.id").when_matched_delete().execute()
    twice = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["id", "ID"])
    with pytest.raises(InvalidDataError, match="two columns with the name 'id'"):
        tables.merge(path, twice, "target.id = source.id").when_matched_delete().execute()


def test_the_work_of_an_application_is_done_once(path: str) -> None:
    merge = tables.merge(path, {"id": [1]}, "target.id = source.id", application=("nightly", 7))
    increased = merge.when_matched_update({"n": "n + 1"})
    assert [increased.execute().version, increased.execute().version] == [1, 1]
    assert rows_of(path)[0] == (1, 11, "a")


def test_a_condition_may_be_about_one_side_only_or_none(path: str) -> None:
    tables.merge(path, {"flag": [True]}, "flag").when_matched_update({"n": "n + 1"}).execute()
    assert rows_of(path) == [(1, 11, "a"), (2, 21, "b"), (3, 31, "c")]
    tables.merge(path, {"flag": [True]}, "text = 'a'").when_matched_update({"n": "0"}).execute()
    merge = tables.merge(path, {"flag": [False]}, "flag").when_not_matched_by_source_update({"text": "'x'"})
    merge.when_not_matched_insert({"id": "9"}).execute()
    assert rows_of(path)[:3] == [(1, 0, "x"), (2, 21, "x"), (3, 31, "x")]
    assert (
        tables.merge(path, {"flag": [True]}, "1 = 1").when_matched_delete().execute().metrics["numTargetRowsDeleted"]
        == 4
    )


def test_now_is_one_time_for_the_whole_merge(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    at = datetime(2026, 1, 1, tzinfo=UTC)
    tables.create(path, pa.table({"id": [1], "at": pa.array([at], pa.timestamp("us", "UTC"))}))
    merge = tables.merge(path, {"id": [1, 2]}, "target.id = source.id")
    values = {"at": "current_timestamp()"}
    merge.when_matched_update(values).when_not_matched_insert({"id": "source.id", **values}).execute()
    assert len(set(lakeport.scan(path).to_arrow()["at"].to_pylist()) - {at}) == 1


@pytest.mark.parametrize("properties", [{}, VECTORS, FEED | TRACKING | VECTORS])
def test_many_rows_are_merged(tmp_path: Path, properties: dict[str, str]) -> None:
    path = str(tmp_path / "t")
    ids = [(i * 7919) % 30_011 for i in range(30_011)]
    tables.create(path, {"id": ids[:15_000], "n": ids[:15_000]}, properties=properties)
    tables.append(path, {"id": ids[15_000:], "n": ids[15_000:]})
    source = {"id": list(range(20_000, 40_000)), "n": [-1] * 20_000}
    merge = tables.merge(path, source, "target.id = source.id")
    merge.when_matched_update_all("target.id % 2 = 0").when_matched_delete().when_not_matched_insert_all().execute()
    expected = [(i, i) for i in range(20_000)] + [(i, -1) for i in range(20_000, 40_000) if i > 30_010 or i % 2 == 0]
    assert rows_of(path) == expected
