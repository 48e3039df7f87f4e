"""`lakeport sql`: DuckDB over shared tables and over Delta tables, once and at a prompt."""

import os
import pty
import select
import signal
import subprocess
import sys
import time
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from lakeport import scan, tables
from lakeport.errors import MissingFileError
from lakeport.queries import NamedTable, tables_in
from lakeport.relations.arrow_dataset import FrameDataset
from tests.cli.conftest import Run
from tests.client.shares import NOWHERE, Shared, profile_text, sharing_tables
from tests.server.running import running, sharing

duckdb = pytest.importorskip("duckdb")


def test_a_query_joins_shared_tables(lakeport: Run, shared: Shared) -> None:
    query = """select country, sum(amount) as total from sales.eu.orders o join sales.eu.cities c on o.city = c.name
               where id < 4 group by all order by total"""
    result = lakeport("sql", query, "--profile", shared.profile, "--json")
    assert (result.code, result.err) == (0, "")
    assert result.documents == [{"country": "IE", "total": 80}, {"country": "NO", "total": 160}]


def test_a_query_joins_a_shared_table_with_delta_tables_by_their_paths(lakeport: Run, shared: Shared) -> None:
    query = f"""select count(*) as n from sales.eu.orders join '{shared.folder}/cities' on city = name
                join 'file://{shared.folder}/orders' as own using (id)
                join '{shared.target("sales.eu.orders")}' as again using (id)"""
    assert lakeport("sql", query, "-p", shared.profile, "--json").documents == [{"n": 4}]


def test_a_query_of_paths_needs_no_profile(lakeport: Run, shared: Shared, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(shared.folder)
    assert lakeport("sql", "from 'cities' order by name limit 1", "--json").documents == [
        {"name": "Bari", "country": "IT"}
    ]
    result = lakeport("sql", "select * from sales.eu.orders")
    assert result.code == 2
    assert "set LAKEPORT_PROFILE" in result.err
    monkeypatch.setenv("LAKEPORT_PROFILE", "config.share")
    assert lakeport("sql", "select max(id) as id from sales.eu.orders", "--json").documents == [{"id": 4}]


def test_options_that_do_not_fit_together_are_refused_before_any_table_is_opened(lakeport: Run, tmp_path: Path) -> None:
    result = lakeport("sql", "select 1", "--access", "dir", "--cache", str(tmp_path))
    assert result.code == 2
    assert "cache" in result.err


def test_a_query_goes_over_several_profiles(lakeport: Run, shared: Shared, tmp_path: Path) -> None:
    with running(sharing({"stock.eu.items": shared.folder / "people", "HR.x.y": shared.folder / "people"})) as server:
        other = tmp_path / "other.share"
        other.write_text(profile_text(server.endpoint))
        both = ["-p", shared.profile, "-p", other, "--json"]
        query = "select o.id from sales.eu.orders o, stock.eu.items where id = 2"
        assert lakeport("sql", query, *both).documents == [{"id": 2}]
        twice = lakeport("sql", "select * from hr.team.people", *both)
        assert twice.code == 2
        assert "more than one profile has a share 'hr'" in twice.err
        assert lakeport("sql", f"from '{other}#HR.x.y'", *both).documents == [{"name": "Ann"}]
        nowhere = lakeport("sql", "from nope.a.b", *both)
        assert nowhere.code == 2
        assert "available: hr, hr, sales, stock" in nowhere.err


def test_names_with_odd_characters_are_quoted(lakeport: Run, shared: Shared) -> None:
    with running(
        sharing({"my-share.a-b.x-y": shared.folder / "people", "temp.a.b": shared.folder / "people"})
    ) as server:
        profile = profile_text(server.endpoint)
        assert lakeport("sql", 'from "my-share"."a-b"."x-y"', "-p", profile, "--json").documents == [{"name": "Ann"}]
        reserved = lakeport("sql", "from temp.a.b", "-p", profile)
        assert reserved.code == 2
        assert "DuckDB reserves the database name 'temp': write 'PROFILE#temp.a.b'" in reserved.err


def test_statements_run_one_after_the_other(lakeport: Run, shared: Shared) -> None:
    text = """create table mine as select id from sales.eu.orders where city = 'Oslo';
              select count(*) as n from mine; with mine as (select 1 as one) select one from mine"""
    assert lakeport("sql", text, "-p", shared.profile, "--json").documents[-2:] == [{"n": 2}, {"one": 1}]


def test_each_statement_sees_the_latest_version(lakeport: Run, tmp_path: Path) -> None:
    root = str(tmp_path / "t")
    tables.create(root, {"id": [1]})
    result = lakeport("sql", f"select count(*) as n from '{root}'", "--json")
    tables.append(root, {"id": [2], "more": ["x"]}, merge_schema=True)
    again = lakeport("sql", f"select count(more) as n from '{root}'; describe '{root}'", "--json")
    assert result.documents == [{"n": 1}]
    assert again.documents[0] == {"n": 1}
    assert [d["column_name"] for d in again.documents[1:]] == ["id", "more"]


def test_files_that_a_condition_rules_out_are_not_opened(lakeport: Run, tmp_path: Path) -> None:
    with sharing_tables(tmp_path) as shared:
        (gone,) = (tmp_path / "orders").glob("city=Cork/*.parquet")
        gone.unlink()
        for table in ("sales.eu.orders", f"'{tmp_path}/orders'"):
            found = lakeport(
                "sql", f"select id from {table} where city = 'Oslo' order by id", "-p", shared.profile, "--json"
            )
            assert found.documents == [{"id": 1}, {"id": 3}]
            failed = lakeport("sql", f"select * from {table}", "-p", shared.profile)
            assert failed.code == 1
            assert "denied access to the file" in failed.err or "does not exist" in failed.err
            assert len(failed.err.splitlines()) == 1


def test_only_the_columns_of_a_query_are_read(tmp_path: Path) -> None:
    root = str(tmp_path / "t")
    tables.create(root, {"a": [1, 2], "`odd`.name": [3, 4], "c": ["x", "y"]})
    dataset = FrameDataset(scan(root))
    scanner = dataset.scanner(columns=["`odd`.name"], filter=pc.field("a") > 1)
    assert scanner.to_reader().read_all().to_pydict() == {"`odd`.name": [4]}
    assert scanner.dataset_schema.names == ["`odd`.name"]
    unknown = dataset.scanner(columns=["c"], filter=pc.field("a") + 1 > 2)
    assert unknown.to_reader().read_all().to_pydict() == {"c": ["y"]}
    assert unknown.dataset_schema.names == ["c", "a"]


def test_a_query_that_needs_few_rows_stops_early_and_ends_well(tmp_path: Path) -> None:
    root = str(tmp_path / "t")
    for start in range(8):
        rows = {"id": list(range(start * 50_000, (start + 1) * 50_000))}
        tables.create(root, rows) if start == 0 else tables.append(root, rows)
    command = [sys.executable, "-m", "lakeport", "sql", f"select id from '{root}' limit 1", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("id") == 1


CONDITIONS = [
    *("i > 2", "i = 3 or i is null", "i in (1, 5, 7)", "i not in (1, 5)", "i between 2 and 4", "i <> 2"),
    *("s = 'b'", "s like 'a%'", "s >= 'é'", "s is null", "s in ('', 'a\"\\ ''')", "lower(s) = 'b'"),
    *("x > 1", "x = 'nan'", "x < 1", "not x > 1", "d = date '2026-01-02'", "d in ('2026-01-01')"),
    *("p > 1.25", "p = 1.5", "f", "not f", "f is null", "t >= '2026-01-01 12:00:00'", "n < '2026-01-02'"),
    *("st.a = 1", "i = 1 and s = 'a' or d > date '2026-01-01'", "i + 1 = 3", "i = 2 and x > 0"),
]


@pytest.fixture(scope="module")
def typed(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Rows with nulls, NaN and odd text, in two files."""
    root = str(tmp_path_factory.mktemp("typed") / "t")
    rows: list[dict[str, Any]] = []
    for i, s in enumerate(["a", "b", "é€", "", "a\"\\ '", None]):
        day, null = date(2026, 1, 1 + i % 3), i == 5
        rows.append(
            {
                **{"i": None if null else i, "s": s, "x": [0.5, float("nan"), 1.5, float("-inf"), 2.0, None][i]},
                **{"d": None if null else day, "p": None if null else Decimal(i) / 2, "f": [True, False, None][i % 3]},
                "t": None if null else datetime(2026, 1, 1 + i, tzinfo=UTC),
                "n": None if null else datetime(2026, 1, 1 + i),
                "st": None if null else {"a": i, "b": "x"},
            }
        )
    types = pa.schema(
        {
            **{"i": pa.int64(), "s": pa.string(), "x": pa.float64(), "d": pa.date32(), "p": pa.decimal128(10, 2)},
            **{"f": pa.bool_(), "t": pa.timestamp("us", "UTC"), "n": pa.timestamp("us")},
            "st": pa.struct({"a": pa.int64(), "b": pa.string()}),
        }
    )
    tables.create(root, pa.Table.from_pylist(rows[:3], types))
    tables.append(root, pa.Table.from_pylist(rows[3:], types))
    return root


@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_result_is_the_one_that_duckdb_has_over_the_same_rows_in_memory(
    lakeport: Run, typed: str, condition: str
) -> None:
    with duckdb.connect() as memory:
        memory.register("rows", scan(typed).to_arrow())
        expected = memory.sql(f"select i, s from rows where {condition} order by all").fetchall()
    result = lakeport("sql", f"select i, s from '{typed}' where {condition} order by all", "--json")
    assert result.code == 0, result.err
    assert [(d["i"], d["s"]) for d in result.documents] == expected


def test_rows_are_written_in_the_format_that_is_asked_for(lakeport: Run, shared: Shared, tmp_path: Path) -> None:
    query = f"select id, city from '{shared.folder}/orders' where id < 3 order by id"
    assert lakeport("sql", query, "--format", "csv").out == '"id","city"\n1,"Oslo"\n2,"Cork"\n'
    out = tmp_path / "rows.parquet"
    assert lakeport("sql", query, "--out", out).code == 0
    assert pq.read_table(out)["id"].to_pylist() == [1, 2]
    assert lakeport("sql", query, "--out", out).err.startswith("lakeport: the file exists; pass --force to replace it")
    assert lakeport("sql", query, "--out", out, "--force").code == 0
    assert lakeport("sql", query, "--out", tmp_path / "rows").code == 2


def test_a_table_for_people_has_each_column_once(lakeport: Run) -> None:
    lines = lakeport("sql", "select 1 as a, 2 as a, 3 as a_1, 'x'::enum('x') as e").out.splitlines()
    assert lines[0].split() == ["a", "a_1", "a_1_1", "e"]
    assert lines[2].split() == ["1", "2", "3", "x"]
    assert "\\n" not in lakeport("sql", "explain select 1").out


def test_what_is_wrong_with_a_query_is_told_with_its_place(lakeport: Run, shared: Shared) -> None:
    wrong = lakeport("sql", "selec 1")
    assert wrong.code == 2
    assert "syntax error" in wrong.err
    assert "^" in wrong.err
    assert lakeport("sql", "select nope from sales.eu.orders", "-p", shared.profile).code == 2
    missing = lakeport("sql", "select * from sales.eu.ordres", "-p", shared.profile)
    assert missing.code == 1
    assert "did you mean sales.eu.orders?" in missing.err
    failed = lakeport("sql", "select 'a'::int")
    assert failed.code == 1
    assert "Could not convert" in failed.err


def test_an_expired_profile_is_told(lakeport: Run) -> None:
    profile = profile_text(NOWHERE, expirationTime="2020-01-01T00:00:00Z")
    result = lakeport("sql", "from a.b.c", "-p", profile)
    assert result.code == 1
    assert "has expired" in result.err


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("select * from a.b.c", {("a", "b", "c")}),
        ('from "x.y".b."c d" where id in (select id from d.e.f)', {("x.y", "b", "c d"), ("d", "e", "f")}),
        ("with q as (from a.b.c) select * from q, '/data/t'", {("a", "b", "c"), ("", "", "/data/t")}),
        ("explain analyze select * from a.b.c", {("a", "b", "c")}),
        ("create view v as from a.b.c; insert into t from d.e.f", {("a", "b", "c"), ("d", "e", "f")}),
        ("select a.b.c from t", set()),
        ("selec", set()),
        ("select 'from a.b.c' -- from d.e.f", set()),
    ],
)
def test_the_tables_of_a_query_are_found(text: str, expected: set[tuple[str, str, str]]) -> None:
    assert tables_in(text, duckdb.connect()) == {NamedTable(*names) for names in expected}


def test_a_database_of_duckdb_itself_is_left_alone(lakeport: Run, tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "own.db")) as own:
        own.execute("create table main.t as select 7 as n")
    text = f"attach '{tmp_path}/own.db' as own; select * from own.main.t"
    assert lakeport("sql", text, "--json").documents[-1] == {"n": 7}


def test_the_failure_of_a_scan_is_the_one_that_is_raised(tmp_path: Path) -> None:
    root = tmp_path / "t"
    tables.create(str(root), {"a": [1]})
    next(root.glob("*.parquet")).unlink()
    dataset = FrameDataset(scan(str(root)))
    with pytest.raises(MissingFileError):
        dataset.scanner().to_reader().read_all()
    assert isinstance(dataset.error, MissingFileError)


class Prompt:
    """The program on a terminal of its own."""

    def __init__(self, home: Path, *arguments: str) -> None:
        self._ours, theirs = pty.openpty()
        environment = os.environ | {"HOME": str(home), "TERM": "dumb", "COLUMNS": "200"}
        command = [sys.executable, "-m", "lakeport", "sql", *arguments]
        self.process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
        os.close(theirs)
        self.said = ""

    def expect(self, text: str) -> str:
        """What is said up to the text, and with it."""
        ends = time.monotonic() + 60
        while text not in self.said:
            assert time.monotonic() < ends, f"{text!r} never came: {self.said!r}"
            if select.select([self._ours], [], [], 0.1)[0]:
                self.said += os.read(self._ours, 4096).decode()
        found, _, self.said = self.said.partition(text)
        return found + text

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def close(self) -> int:
        code = self.process.wait(60)
        os.close(self._ours)
        return code


def test_the_prompt_answers_until_it_is_left(shared: Shared, tmp_path: Path) -> None:
    prompt = Prompt(tmp_path, "-p", str(shared.profile))
    try:
        prompt.expect("lakeport> ")
        prompt.type("\\d\n")
        assert "sales.eu.orders" in prompt.expect("sales.eu.orders")
        prompt.expect("lakeport> ")
        prompt.type("select count(*) as orders\n")
        prompt.expect("...> ")
        prompt.type("from sales.eu.orders;\n")
        prompt.expect("     4")
        prompt.expect("lakeport> ")
        prompt.type("selec;\n")
        prompt.expect("syntax error")
        prompt.expect("lakeport> ")
        prompt.type("\\d sales.eu.cities\n")
        prompt.expect("country")
        prompt.expect("lakeport> ")
        prompt.type("select * from range(1000);\n")
        prompt.expect("only the first 200 rows are shown")
        prompt.expect("lakeport> ")
        prompt.type("\\nope\n")
        prompt.expect("unknown command")
        prompt.expect("lakeport> ")
        prompt.type("\\q\n")
        assert prompt.close() == 0
    finally:
        prompt.process.kill()
        prompt.process.wait()
    history = tmp_path / ".lakeport_history"
    assert "sales.eu.orders" in history.read_text()
    assert history.stat().st_mode & 0o777 == 0o600


ENDLESS = "select count(*) from range(1000000000000) as r where r.range % 7 = 3"


def test_an_interrupt_ends_a_query_and_not_the_prompt(tmp_path: Path) -> None:
    prompt = Prompt(tmp_path)
    try:
        prompt.expect("lakeport> ")
        prompt.type(f"{ENDLESS};\n")
        time.sleep(1)
        prompt.process.send_signal(signal.SIGINT)
        prompt.expect("interrupted")
        prompt.expect("lakeport> ")
        prompt.type("select 40 + 2;\n")
        prompt.expect("42")
        prompt.type("quit\n")
        assert prompt.close() == 0
    finally:
        prompt.process.kill()
        prompt.process.wait()


def test_an_interrupt_ends_a_query() -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "lakeport", "sql", f"select 1; {ENDLESS}"], stdout=subprocess.PIPE
    ) as program:
        try:
            assert program.stdout is not None
            assert program.stdout.readline().strip() == b"1"
            time.sleep(1)
            program.send_signal(signal.SIGINT)
            assert program.wait(30) == 130
        finally:
            program.kill()


def test_queries_come_from_a_pipe(shared: Shared) -> None:
    command = [sys.executable, "-m", "lakeport", "sql", "--json"]
    query = f"select id from '{shared.folder}/orders' where amount = 300"
    done = subprocess.run(command, input=query, capture_output=True, text=True, timeout=120)
    assert done.stdout == '{"id":4}\n'
