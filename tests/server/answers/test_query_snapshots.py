"""The files of one version: pages, limits, predicates, tokens, and what is shared of a table."""

from __future__ import annotations

import json
import random
import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeport import tables
from lakeport.errors import CorruptTableError, SharingError, VersionNotFoundError
from lakeport.kernel.log import format_time
from lakeport.kernel.schema import PrimitiveType, StructField
from lakeport.server.answers import snapshot as snapshot_query
from lakeport.server.answers.answer_lines import FileSigner, error_line, write_answer
from lakeport.server.answers.plan import Files
from lakeport.server.answers.service import TableService
from lakeport.server.answers.snapshot import SnapshotFiles
from lakeport.sharing.models import QueryRequest
from lakeport.sharing.requests import parse_changes_request
from lakeport.testing.builder import TableBuilder, mapped, protocol, struct
from tests.acceptance import odd_tables
from tests.server.asking import (
    DELTA,
    FEED,
    PARQUET,
    VECTORS,
    Clock,
    Line,
    built,
    changes,
    ids,
    lines,
    pages,
    pretended,
    query,
    service,
    table_request,
    told,
)
from tests.tables.maintained import numbers


def odd_names(path: Path) -> TableBuilder:
    """Names that sort otherwise as text, as bytes, or as the log writes them."""
    names = [
        "a b.parquet",
        "a%20b.parquet",
        "ä.parquet",
        "z.parquet",
        "Z.parquet",
        "d=1/x.parquet",
        "\U0001f600",
        "\uffee",
    ]
    table = built(path)
    encoded = [name.replace("%", "%25").replace(" ", "%20") for name in names]
    return table.create(*(pretended(name) for name in encoded))


def with_vectors(path: Path) -> TableBuilder:
    table = built(path, protocol=VECTORS)
    adds = [table.add({"id": [number, number + 100]}) for number in range(5)]
    table.create(*adds)
    table.commit(*table.delete(adds[0], [0]), *table.delete(adds[1], [1], "i"))
    return table


def with_mapping(path: Path) -> TableBuilder:
    table = built(
        path,
        mapped(struct(id="long", day="string")),
        partition_by=["day"],
        properties={"delta.columnMapping.mode": "name"},
        protocol=protocol(reader=2, writer=5),
    )
    return table.create(*(table.add({"col-1": [number]}, {"col-2": f"{number % 2}"}) for number in range(6)))


def from_checkpoint(path: Path) -> TableBuilder:
    table = built(path)
    table.create(*(pretended(f"first-{number}") for number in range(7)))
    table.commit({"remove": {"path": "first-3", "dataChange": True, "deletionTimestamp": 1}})
    table.checkpoint(form="parts", parts=3)
    return table.commit(*(pretended(f"later-{number}") for number in range(4)))


def without_files(path: Path) -> TableBuilder:
    return built(path).create()


TABLES = [odd_names, with_vectors, with_mapping, from_checkpoint, without_files]


@pytest.mark.parametrize("build", TABLES)
@pytest.mark.parametrize("at_once", [0, 2, 100_000])
def test_pages_of_any_size_make_up_the_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, build: Any, at_once: int
) -> None:
    monkeypatch.setattr(snapshot_query, "_SORTED_AT_ONCE", at_once)
    table = build(tmp_path / "t")
    to, by = service(), table_request(table.root)
    whole = lines(query(to, by))
    for size in range(1, len(whole)):
        found = list(pages(to, by, size))
        files = [entry for page in found for entry in told(page[2:])]
        assert sorted(files) == sorted(told(whole[2:]))
        assert all(page[:2] == whole[:2] for page in found)
        assert [len(ids(page[2:])) for page in found[:-1]] == [size] * (len(found) - 1)
        assert len(found) == max(1, -(-len(files) // size))


def test_no_page_is_larger_than_the_server_allows(tmp_path: Path) -> None:
    table = from_checkpoint(tmp_path / "t")
    found = list(pages(service(page_size_limit=3), table_request(table.root), 100))
    assert [len(ids(page[2:])) for page in found] == [3, 3, 3, 1]


def test_without_pages_every_file_is_told(tmp_path: Path) -> None:
    table = from_checkpoint(tmp_path / "t")
    assert len(ids(lines(query(service(page_size_limit=3), table_request(table.root)))[2:])) == 10


@pytest.mark.parametrize(
    ("build", "capabilities"), [*((build, DELTA) for build in TABLES), (odd_names, PARQUET), (from_checkpoint, PARQUET)]
)
def test_files_and_bytes_are_counted_as_they_are_told(tmp_path: Path, build: Any, capabilities: str) -> None:
    table = build(tmp_path / "t")
    answer = query(service(), table_request(table.root, capabilities))
    protocol, metadata, *rest = answer.chunks
    assert protocol[1:] == metadata[1:] == (0, 0)
    told = json.loads(metadata.lines)["metaData"]
    assert (sum(chunk.files for chunk in rest), sum(chunk.size for chunk in rest)) == (told["numFiles"], told["size"])
    assert answer.details["version"] == table.version


# Limits and predicates


def random_table(path: Path, chance: random.Random) -> sqlite3.Connection:
    """Files of rows, some without statistics; and the same rows in a database, with the names of their files."""
    table = built(path, struct(id="long", name="string", day="string"), partition_by=["day"])
    database = sqlite3.connect(":memory:")
    database.execute("CREATE TABLE rows (file TEXT, id INTEGER, name TEXT, day TEXT)")
    adds = []
    for number in range(8):
        day = chance.choice(["a", "b", None])
        size = chance.randint(1, 4)
        numbers = [chance.choice([None, *range(6)]) for _ in range(size)]
        names = [chance.choice([None, "x", "y", "z"]) for _ in range(size)]
        file = f"{number}.parquet"
        data = {"id": numbers, "name": names}
        adds.append(table.add(data, {"day": day}, name=file, stats=chance.random() > 0.2))
        database.executemany(
            "INSERT INTO rows VALUES (?, ?, ?, ?)", [(file, *row, day) for row in zip(numbers, names, strict=True)]
        )
    table.create(*adds)
    return database


def random_predicate(chance: random.Random) -> str:
    simple = [
        f"id {chance.choice(['=', '<', '>', '<=', '>=', '<>'])} {chance.randint(0, 5)}",
        f"name = '{chance.choice('xyz')}'",
        f"day = '{chance.choice('ab')}'",
        "day IS NULL",
        "id IS NOT NULL",
        f"{chance.randint(0, 5)} < id",
    ]
    first, second = chance.choice(simple), chance.choice(simple)
    return chance.choice([first, f"NOT ({first})", f"({first}) OR ({second})", f"({first}) AND NOT ({second})"])


@pytest.mark.parametrize("seed", range(10))
def test_no_limit_cuts_rows_off_that_a_predicate_keeps(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    database = random_table(tmp_path / "t", chance)
    to, by = service(), table_request(tmp_path / "t", PARQUET)
    for _ in range(15):
        predicates = [random_predicate(chance) for _ in range(chance.randint(1, 2))]
        where = " AND ".join(f"({predicate})" for predicate in predicates)
        kept = dict(database.execute(f"SELECT file, count(*) FROM rows WHERE {where} GROUP BY file").fetchall())
        hints: dict[str, Any] = {"predicate_hints": predicates + ["absent = 1"] * chance.randint(0, 1)}
        for limit in (None, chance.randint(0, 6)):
            enough = sum(kept.values()) if limit is None else min(limit, sum(kept.values()))
            whole = lines(query(to, by, limit_hint=limit, **hints))
            paged = [line for page in pages(to, by, 2, limit_hint=limit, **hints) for line in page]
            for found in (whole, paged):
                assert sum(kept.get(name, 0) for name in _names(found)) >= enough
    database.close()


def _names(some: list[Line]) -> set[str]:
    return {line["file"]["url"].split("?")[0].rpartition("/")[2] for line in some if "file" in line}


def test_a_limit_counts_the_rows_that_are_left(tmp_path: Path) -> None:
    table = built(tmp_path / "t", protocol=VECTORS)
    adds = [table.add({"id": [1, 2, 3]}) for _ in range(3)]
    table.create(*adds)
    table.commit(*(action for add in adds for action in table.delete(add, [0, 1])))
    to, by = service(), table_request(table.root)
    assert [len(ids(lines(query(to, by, limit_hint=limit))[2:])) for limit in (0, 1, 2, 3, 4)] == [0, 1, 2, 3, 3]


def test_a_file_whose_rows_are_not_known_counts_as_none(tmp_path: Path) -> None:
    table = built(tmp_path / "t")
    table.create(*(table.add({"id": [1, 2, 3]}, stats=False) for _ in range(3)))
    to, by = service(), table_request(table.root)
    assert len(ids(lines(query(to, by, limit_hint=1))[2:])) == 3


ID_IS_1 = json.dumps(
    {"op": "equal", "children": [
        {"op": "column", "name": "id", "valueType": "long"}, {"op": "literal", "value": "1", "valueType": "long"},
    ]}
)  # fmt: skip


def test_hints_can_be_turned_off(tmp_path: Path) -> None:
    table = built(tmp_path / "t")
    table.create(table.add({"id": [1]}), table.add({"id": [5]}))
    by = table_request(table.root)

    def count(to: TableService, **hints: Any) -> int:
        return len(ids(lines(query(to, by, limit_hint=1, **hints))[2:]))

    sql, as_json = {"predicate_hints": ["id = 5"]}, {"json_predicate_hints": ID_IS_1}
    assert count(service(), **sql) == count(service(), **as_json) == 1
    assert count(service(use_sql_hints=False), **sql) == 2
    assert count(service(use_json_hints=False), **as_json) == 2


def test_hints_keep_files_from_before_a_float_became_a_double(tmp_path: Path) -> None:
    change = {"delta.typeChanges": [{"fromType": "float", "toType": "double", "tableVersion": 1}]}
    schema = struct(StructField("id", PrimitiveType("double"), metadata=change))
    table = built(tmp_path / "t", schema=schema)
    bounds = {"id": 3.4}  # the shortest digits of the float, which is 3.4000000953674316 as a double
    stats = json.dumps({"numRecords": 1, "minValues": bounds, "maxValues": bounds, "nullCount": {"id": 0}})
    table.create(table.add(pa.table({"id": pa.array([3.4], pa.float32())}), stats=stats))
    column, literal = {"name": "id", "valueType": "double"}, {"value": "3.4", "valueType": "double"}
    as_json = {"op": "greaterThan", "children": [{"op": "column", **column}, {"op": "literal", **literal}]}
    for hints in ({"json_predicate_hints": json.dumps(as_json)}, {"predicate_hints": ["id > 3.4"]}):
        assert len(lines(query(service(), table_request(table.root), **hints))[2:]) == 1


def test_a_hint_that_is_ignored_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    table = from_checkpoint(tmp_path / "t")
    caplog.set_level("INFO", "lakeport.server.answers.snapshot")
    lines(query(service(), table_request(table.root), predicate_hints=["absent = 1"], json_predicate_hints="{"))
    assert len([record for record in caplog.records if "ignored" in record.getMessage()]) == 2


def test_the_log_does_not_take_a_hint_of_any_length(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    table = from_checkpoint(tmp_path / "t")
    caplog.set_level("INFO", "lakeport.server.answers.snapshot")
    lines(query(service(), table_request(table.root), json_predicate_hints=ID_IS_1.replace("id", "x" * 100_000)))
    (record,) = caplog.records
    assert "ignored" in record.getMessage()
    assert len(record.getMessage()) < 2_000


# Tokens


def refused(to: TableService, by: Any, *words: str, **request: Any) -> None:
    with pytest.raises(SharingError) as caught:
        lines(query(to, by, **request))
    assert (caught.value.status, caught.value.code) == (400, "INVALID_PARAMETER_VALUE")
    for word in words:
        assert word in str(caught.value)


def json_terms(count: int) -> str:
    column = {"op": "column", "name": "id", "valueType": "long"}
    literals = [{"op": "literal", "value": str(number + 1000), "valueType": "long"} for number in range(count)]
    return json.dumps({"op": "or", "children": [{"op": "equal", "children": [column, one]} for one in literals]})


@pytest.mark.parametrize(
    ("hints", "used"),
    [
        ({"json_predicate_hints": json_terms(600)}, True),
        ({"json_predicate_hints": json_terms(1600)}, False),
        ({"predicate_hints": [" or ".join(f"id = {number + 1000}" for number in range(200))]}, True),
        ({"predicate_hints": [" or ".join(f"id = {number + 1000}" for number in range(1600))]}, False),
        ({"predicate_hints": ["id = 1000"] * 1600}, False),
    ],
    ids=["json", "much json", "sql", "much sql", "many sql"],
)
def test_hints_that_cost_more_than_they_save_are_ignored(tmp_path: Path, hints: Any, used: bool) -> None:
    table = built(tmp_path / "t")
    table.create(table.add({"id": [1]}))
    assert len(ids(lines(query(service(), table_request(table.root), **hints)))) == (0 if used else 1)


def two_vectors(table: TableBuilder) -> None:
    first = table.add({"id": [1, 2, 3]}, name="m")
    table.create(first, *(table.delete(first, [row])[1] for row in range(2)), pretended("a"), pretended("z"))


def twice_in_a_checkpoint(table: TableBuilder) -> None:
    table.create(pretended("a"), pretended("m"), pretended("z"))
    path = Path(table.log_file(f"{0:020d}.checkpoint.parquet"))
    table.checkpoint(0)
    rows = pq.read_table(path)
    pq.write_table(pa.concat_tables([rows, rows.slice(rows.num_rows - 2)]), path)


@pytest.mark.parametrize("build", [two_vectors, twice_in_a_checkpoint])
@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_a_log_that_names_a_path_several_times_has_pages(tmp_path: Path, build: Any, size: int) -> None:
    table = built(tmp_path / "t", protocol=VECTORS)
    build(table)
    to, by = service(), table_request(table.root)
    whole = told(lines(query(to, by)))[1:]
    assert len(whole) == 5
    assert len({entry[1] for entry in whole}) == 3
    paged = [entry for page in pages(to, by, size) for entry in told(page)[1:]]
    assert sorted(paged, key=repr) == sorted(whole, key=repr)


@pytest.mark.parametrize("name", odd_tables.TABLES)
def test_pages_of_an_odd_table_make_up_the_whole(tmp_path: Path, name: str) -> None:
    odd = odd_tables.TABLES[name]
    partition_by = ["city"] if odd.partitioned else []
    table = built(tmp_path / "t", odd_tables.SCHEMA, partition_by=partition_by, protocol=odd.protocol or protocol())
    odd.build(table)
    to, by = service(), table_request(table.root)
    whole = sorted(told(lines(query(to, by)))[1:], key=repr)
    for size in (1, 2):
        found = list(pages(to, by, size))
        assert sorted((entry for page in found for entry in told(page)[1:]), key=repr) == whole
        assert max(len(ids(page)) for page in found) <= size


def test_a_page_token_is_good_on_every_server_and_without_a_size(tmp_path: Path) -> None:
    by = table_request(from_checkpoint(tmp_path / "t").root)
    page = lines(query(service(), by, max_files=2))[-1]["endStreamAction"]["nextPageToken"]
    assert len(lines(query(service(), by, page_token=page))) == 2 + 8 + 1


def test_tokens_expire(tmp_path: Path) -> None:
    clock = Clock()
    table = from_checkpoint(tmp_path / "t")
    to, by = service(clock, page_token_seconds=100, refresh_token_seconds=50), table_request(table.root)
    end = lines(query(to, by, max_files=2, include_refresh_token=True))[-1]["endStreamAction"]
    clock.now += 49
    lines(query(to, by, refresh_token=end["refreshToken"]))
    clock.now += 50
    refused(to, by, "expired", refresh_token=end["refreshToken"])
    lines(query(to, by, page_token=end["nextPageToken"]))
    clock.now += 10
    refused(to, by, "expired", page_token=end["nextPageToken"])


def test_a_refresh_stays_at_its_version_while_others_write(tmp_path: Path) -> None:
    target = str(tmp_path / "t")
    tables.create(target, numbers(0, 3))
    to, by = service(), table_request(target, history_shared=False)
    first = lines(query(to, by, include_refresh_token=True))
    token = first[-1]["endStreamAction"]["refreshToken"]
    for number in range(8):
        tables.overwrite(target, numbers(number, 3))
        answer = query(to, by, refresh_token=token, include_refresh_token=True)
        again = lines(answer)
        assert answer.version == 0
        assert told(again) == told(first)
        token = again[-1]["endStreamAction"]["refreshToken"]
    assert lines(query(service(), by, refresh_token=token))[2]["file"]["id"] == first[2]["file"]["id"]


def test_pages_stay_at_their_version_though_the_history_is_not_shared(tmp_path: Path) -> None:
    target = str(tmp_path / "t")
    tables.create(target, numbers(0, 3))
    tables.append(target, numbers(3, 3))
    to, by = service(), table_request(target, history_shared=False)
    whole = ids(lines(query(to, by))[2:])
    first = lines(query(to, by, max_files=1))
    tables.overwrite(target, numbers(9, 3))
    rest = lines(query(to, by, page_token=first[-1]["endStreamAction"]["nextPageToken"]))
    assert sorted(ids(first[2:]) + ids(rest[2:])) == sorted(whole)


# Versions and times


def test_what_is_before_the_first_version_that_is_shared_is_refused_everywhere(tmp_path: Path) -> None:
    table = built(tmp_path / "t", properties=FEED)
    table.create(table.add({"id": [0]}))
    for number in range(1, 4):
        table.commit(table.add({"id": [number]}))
    to, by = service(), table_request(table.root, start_version=2)
    stamps = {v: format_time(table.snapshot(v).timestamp) for v in range(4)}
    asked: list[Any] = [
        lambda: to.version(by, stamps[1]),
        lambda: to.metadata(by, 1),
        lambda: to.metadata(by, None, stamps[1]),
        lambda: query(to, by, version=1),
        lambda: query(to, by, timestamp=stamps[1]),
        lambda: query(to, by, starting_version=1),
        lambda: changes(to, by, 1),
        lambda: to.changes(by, parse_changes_request({"startingTimestamp": stamps[1]})),
        lambda: to.version(table_request(table.root, start_version=4)),
        lambda: to.metadata(table_request(table.root, start_version=4)),
        lambda: query(to, table_request(table.root, start_version=4)),
    ]
    for ask in asked:
        with pytest.raises(SharingError) as caught:
            ask()
        assert (caught.value.status, caught.value.code) == (400, "INVALID_PARAMETER_VALUE")
        assert "the first shared version is" in str(caught.value)
    assert to.version(by, stamps[2]) == 2
    assert to.metadata(by, 2).version == query(to, by, version=2).version == query(to, by, starting_version=2).version
    assert changes(to, by, 2).version == 2


def test_in_commit_timestamps_are_the_times_of_versions(tmp_path: Path) -> None:
    table = built(
        tmp_path / "t",
        properties={"delta.enableInCommitTimestamps": "true"} | FEED,
        protocol=protocol(writer_only=["inCommitTimestamp", "changeDataFeed"]),
    )

    def stamp(version: int) -> Line:
        return {"commitInfo": {"inCommitTimestamp": 1_700_000_000_000 + version * 1000}}

    table.commit(stamp(0), table.protocol, table.metadata, table.add({"id": [0]}))
    for version in range(1, 4):
        table.commit(stamp(version), table.add({"id": [version]}))
    to, by = service(), table_request(table.root)
    for version in range(4):
        text = format_time(1_700_000_000_000 + version * 1000)
        assert to.version(by, text) == version
        answer = query(to, by, timestamp=text)
        assert answer.version == version
        assert {line["file"]["timestamp"] for line in lines(answer)[2:]} == {1_700_000_000_000 + version * 1000}
        assert to.metadata(by, None, text).version == version
        assert to.changes(by, parse_changes_request({"startingTimestamp": text})).version == version
    files = lines(query(to, by, starting_version=1))[2:]
    assert [line["file"]["timestamp"] for line in files] == [1_700_000_000_000 + v * 1000 for v in (1, 2, 3)]
    assert to.version(by, "2000-01-01T00:00:00Z") == 0
    assert to.version(by, format_time(1_700_000_000_500)) == 1


def cleaned(path: Path) -> TableBuilder:
    """Commits of versions 0 to 4 are gone."""
    table = built(path, properties=FEED)
    table.create(table.add({"id": [0]}))
    for number in range(1, 8):
        table.commit(table.add({"id": [number]}))
    table.checkpoint(5)
    for version in range(5):
        Path(table.log_file(f"{version:020d}.json")).unlink()
    return table


def test_versions_that_are_cleaned_up_are_not_there(tmp_path: Path) -> None:
    to, by = service(), table_request(cleaned(tmp_path / "t").root)
    for version in (0, 4):
        with pytest.raises(VersionNotFoundError):
            query(to, by, version=version)
        with pytest.raises(VersionNotFoundError):
            query(to, by, starting_version=version)
        with pytest.raises(VersionNotFoundError):
            changes(to, by, version)
    assert len(lines(query(to, by, version=5))) == 2 + 6
    assert len(lines(query(to, by, starting_version=6))) == 2 + 2
    assert len(lines(changes(to, by, 6))) == 2 + 2
    assert to.version(by, "2000-01-01T00:00:00Z") == 5


# Files elsewhere


def test_files_elsewhere_are_shared_if_the_place_is(tmp_path: Path) -> None:
    source = built(tmp_path / "source", protocol=VECTORS)
    add = source.add({"id": [1, 2, 3]}, name="day one/part 1.parquet")
    vector = source.deletion_vector([1], "p")
    clone = built(tmp_path / "clone", protocol=VECTORS)
    path = (Path(source.root) / "day one/part 1.parquet").as_uri()
    clone.create({"add": add["add"] | {"path": path, "deletionVector": vector}}, clone.add({"id": [4]}))
    to = service()
    for request in ({}, {"starting_version": 0}):
        with pytest.raises(SharingError) as caught:
            lines(query(to, table_request(clone.root), **request))
        assert (caught.value.status, caught.value.code) == (400, "UNSUPPORTED_OPERATION")
        assert "auxiliaryLocations" in str(caught.value)
        assert str(tmp_path) not in str(caught.value)
    found = lines(query(to, table_request(clone.root, auxiliary_locations=(source.root,))))
    assert len(found) == 4
    urls = [line["file"]["deltaSingleAction"]["add"]["path"] for line in found[2:]]
    assert any("part%201.parquet?" in url for url in urls)
    assert len(set(ids(found[2:]))) == 2


def test_an_absolute_path_below_the_table_has_the_id_of_the_relative_one(tmp_path: Path) -> None:
    table = built(tmp_path / "t")
    add = table.add({"id": [1]}, name="part.parquet")
    table.create(add)
    other = built(tmp_path / "t2")
    absolute = other.add({"id": [1]}, name="part.parquet")
    other.create({"add": absolute["add"] | {"path": f"{other.root}/part.parquet"}})
    to = service()
    assert ids(lines(query(to, table_request(table.root)))[2:]) == ids(lines(query(to, table_request(other.root)))[2:])


# Between plan and answer


def test_a_function_from_plan_to_plan_decides_what_is_signed_and_counted(tmp_path: Path) -> None:
    to, by = service(), table_request(from_checkpoint(tmp_path / "t").root)
    shared, page = to.versions.of_query(by, QueryRequest())
    plan = SnapshotFiles(shared, QueryRequest(), None).plan(page, None)
    parts = (replace(part, rows=part.rows[:3]) if isinstance(part, Files) else part for part in plan.parts)
    signer = FileSigner(to.signers.for_table(by.table, by.public_url, by.recipient.id), to.now)
    chunks = list(write_answer(replace(plan, parts=parts), by, signer, None).chunks)
    assert sum(chunk.files for chunk in chunks) == 3
    assert b"".join(chunk.lines for chunk in chunks).count(b'{"file":') == 3


# Failures


def test_a_failure_in_the_middle_comes_after_what_was_told_before_it(tmp_path: Path) -> None:
    table = built(tmp_path / "t", properties=FEED)
    table.create(table.add({"id": [1]}))
    table.commit(table.add({"id": [2]}))
    table.commit(table.add({"id": [3]}))
    table.checkpoint()
    Path(table.log_file(f"{1:020d}.json")).write_text('{"add": {"path": 5}}\n')
    to, by = service(), table_request(table.root)
    for answer in (query(to, by, starting_version=0), changes(to, by, 0)):
        found = [next(answer.chunks), next(answer.chunks), next(answer.chunks)]
        assert [(chunk.lines.count(b"\n"), chunk.files) for chunk in found] == [(1, 0), (1, 0), (1, 1)]
        with pytest.raises(CorruptTableError):
            next(answer.chunks)
        line = json.loads(error_line("it broke", 500))
        assert line == {"endStreamAction": {"errorMessage": "it broke", "httpStatusErrorCode": 500}}


def test_a_table_of_nested_columns_is_told_without_what_delta_notes_on_them(tmp_path: Path) -> None:
    schema = pa.schema(
        [pa.field("id", pa.int64(), metadata={"comment": "the key"}), pa.field("s", pa.struct([("x", pa.int32())]))]
    )
    tables.create(str(tmp_path / "t"), schema=schema)
    found = lines(query(service(), table_request(tmp_path / "t", PARQUET)))
    fields = json.loads(found[1]["metaData"]["schemaString"])["fields"]
    assert [set(field["metadata"]) <= {"comment"} for field in fields] == [True, True]


@pytest.mark.parametrize("capabilities", [PARQUET, DELTA])
def test_places_are_told_of_a_table_that_is_shared_by_them_but_never_paths_of_the_server(
    tmp_path: Path, capabilities: str
) -> None:
    table = built(tmp_path / "t")
    table.create()
    elsewhere = ("s3://bucket/more", str(tmp_path / "more"))

    def told_of(*modes: str) -> Line:
        by = table_request(table.root, capabilities, access_modes=modes, auxiliary_locations=elsewhere)
        metadata: Line = lines(service().metadata(by))[1]["metaData"]
        return {key: metadata[key] for key in ("location", "auxiliaryLocations", "accessModes") if key in metadata}

    assert told_of("url") == {}
    assert told_of("url", "dir") == {"auxiliaryLocations": ["s3://bucket/more"], "accessModes": ["url", "dir"]}
