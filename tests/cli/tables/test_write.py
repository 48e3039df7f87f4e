"""`lakeport create`, `append`, `overwrite`, `delete`, `update` and `merge`."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import typer
from deltalake import DeltaTable

import lakeport as package
from lakeport import tables
from lakeport.cli.tables.write import parse_application
from lakeport.cli.writing import working
from tests.cli.conftest import Run
from tests.rows import ids

PROGRAM = [sys.executable, "-m", "lakeport"]


@pytest.fixture
def people(lakeport: Run, tmp_path: Path) -> Path:
    """Version 0: three people of two cities."""
    (tmp_path / "people.csv").write_text("id,name,city\n1,Ann,Oslo\n2,Bob,Rome\n3,Cleo,Oslo\n")
    assert lakeport("create", tmp_path / "people", tmp_path / "people.csv", "--partition-by", "city").code == 0
    return tmp_path / "people"


def version(table: Path) -> int:
    return package.scan(str(table)).version


def written(path: Path, *rows: dict[str, object]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_a_table_is_created_appended_to_and_deleted_from(lakeport: Run, people: Path, tmp_path: Path) -> None:
    more = written(tmp_path / "more.jsonl", {"id": 4, "city": "Rome"}, {"id": 5, "name": "Eve"})
    assert lakeport("append", people, more).out.startswith("appended 2 rows in 2 files (")
    assert lakeport("count", people).out == "5\n"
    result = lakeport("delete", people, "--where", "city = 'Oslo'")
    assert (result.code, result.out) == (0, f"deleted 2 rows; {people} is at version 2\n")
    assert lakeport("count", people).out == "3\n"
    assert sorted(DeltaTable(str(people)).to_pyarrow_table()["id"].to_pylist()) == [2, 4, 5]
    operations = [commit.info["operation"] for commit in package.scan(str(people)).history()]
    assert operations == ["DELETE", "WRITE", "CREATE TABLE AS SELECT"]


def test_a_result_for_machines_is_one_object(lakeport: Run, people: Path, tmp_path: Path) -> None:
    more = written(tmp_path / "more.jsonl", {"id": 4})
    [document] = lakeport("append", people, more, "--json").documents
    assert list(document) == ["table", "version", "metrics"]
    assert (document["table"], document["version"]) == (str(people), 1)
    assert document["metrics"]["numOutputRows"] == document["metrics"]["numFiles"] == 1


def test_a_table_can_be_made_without_rows(lakeport: Run, tmp_path: Path) -> None:
    result = lakeport(
        *["create", tmp_path / "t", "--schema", "id long not null, day date", "--partition-by", "day"],
        *["--property", "delta.enableDeletionVectors=true", "--property", "a.b=c"],
        *["--name", "visits", "--description", "Who came"],
    )
    assert (result.code, result.out) == (0, f"created; {tmp_path / 't'} is at version 0\n")
    snapshot = package.scan(str(tmp_path / "t")).snapshot
    assert [(field.name, field.nullable) for field in snapshot.schema] == [("id", False), ("day", True)]
    assert snapshot.partition_columns == ("day",)
    assert snapshot.properties["a.b"] == "c"
    columns = "id long comment 'which one', n int default 7, twice int generated always as (n * 2)"
    assert lakeport("create", tmp_path / "u", "--schema", columns).code == 0
    lakeport("append", tmp_path / "u", written(tmp_path / "u.jsonl", {"id": 1}))
    assert lakeport("head", tmp_path / "u", "--json").documents == [{"id": 1, "n": 7, "twice": 14}]
    assert (snapshot.metadata.name, snapshot.metadata.description) == ("visits", "Who came")


def test_a_table_is_clustered_by_columns(lakeport: Run, tmp_path: Path) -> None:
    assert lakeport("create", tmp_path / "t", "--schema", "id long, day date", "--cluster-by", "day,id").code == 0
    assert "clustering" in (package.scan(str(tmp_path / "t")).snapshot.protocol.writer_features or ())


def test_new_columns_come_only_when_asked_for(lakeport: Run, people: Path, tmp_path: Path) -> None:
    more = written(tmp_path / "more.jsonl", {"id": 4, "age": 40})
    refused = lakeport("append", people, more)
    assert (refused.code, version(people)) == (1, 0)
    assert "no column 'age'" in refused.err
    assert "--merge-schema" in refused.err
    assert lakeport("append", people, more, "--merge-schema").code == 0
    assert lakeport("count", people, "--where", "age = 40").out == "1\n"


def test_an_application_does_its_work_once(lakeport: Run, people: Path, tmp_path: Path) -> None:
    more = written(tmp_path / "more.jsonl", {"id": 4})
    for expected in ("appended 1 row", "nothing to do"):
        assert lakeport("append", people, more, "--application", "job:a:7").out.startswith(expected)
    assert (ids(people), version(people)) == ([1, 2, 3, 4], 1)
    assert parse_application("job:a:7") == ("job:a", 7)
    refused = lakeport("append", people, more, "--application", "job")
    assert (refused.code, "NAME:VERSION" in refused.err) == (2, True)


@pytest.mark.parametrize(
    "command",
    [
        ["delete", "{}", "--where", "id = 1"],
        ["update", "{}", "--set", "id=id + 1", "--all"],
        ["merge", "{}", "{}.csv", "--on", "target.id = source.id", "--delete-matched"],
        ["overwrite", "{}", "{}.csv"],
    ],
    ids=lambda command: command[0],
)
def test_every_change_of_rows_is_done_once_for_an_application(lakeport: Run, people: Path, command: list[str]) -> None:
    arguments = [argument.format(people) for argument in command]
    assert not lakeport(*arguments, "--application", "job:7").out.startswith("nothing to do")
    assert lakeport(*arguments, "--application", "job:7").out.startswith("nothing to do")
    assert version(people) == 1


def test_overwrite_replaces_all_rows_or_those_of_a_condition(lakeport: Run, people: Path, tmp_path: Path) -> None:
    rome = written(tmp_path / "rome.jsonl", {"id": 7, "city": "Rome"})
    assert lakeport("overwrite", people, rome, "--where", "city = 'Rome'").code == 0
    assert ids(people) == [1, 3, 7]
    refused = lakeport("overwrite", people, rome, "--where", "city = 'Oslo'")
    assert (refused.code, ids(people)) == (1, [1, 3, 7])
    oslo = written(tmp_path / "oslo.jsonl", {"id": 8, "city": "Oslo"})
    assert lakeport("overwrite", people, oslo, "--dynamic").code == 0
    assert ids(people) == [7, 8]
    assert lakeport("overwrite", people, rome).code == 0
    assert ids(people) == [7]


def test_overwrite_can_change_the_columns(lakeport: Run, people: Path, tmp_path: Path) -> None:
    other = written(tmp_path / "other.jsonl", {"id": "seven", "city": "Rome", "age": 1.5})
    assert lakeport("overwrite", people, other).code == 1
    assert lakeport("overwrite", people, other, "--overwrite-schema").code == 0
    assert package.scan(str(people)).to_arrow().to_pylist() == [{"id": "seven", "city": "Rome", "age": 1.5}]
    refused = lakeport("overwrite", people, other, "--overwrite-schema", "--where", "id = 7")
    assert (refused.code, version(people)) == (2, 1)
    assert "drop the condition, dynamic partitions and schema merging" in refused.err
    assert "overwrite_schema" not in refused.err


def test_update_computes_values_in_the_rows_of_a_condition(lakeport: Run, people: Path) -> None:
    result = lakeport("update", people, "--set", "id = id + 10", "--set", "name='it''s'", "--where", "city = 'Oslo'")
    assert (result.code, result.out) == (0, f"updated 2 rows; {people} is at version 1\n")
    assert ids(people) == [2, 11, 13]
    assert lakeport("count", people, "--where", "name = 'it''s'").out == "2\n"


def test_merge_updates_inserts_and_deletes(lakeport: Run, people: Path, tmp_path: Path) -> None:
    changes = written(
        tmp_path / "c.jsonl", {"id": 1, "name": "Anna", "city": "Oslo"}, {"id": 9, "name": "Ida", "city": "Rome"}
    )
    arguments = ["merge", people, changes, "--on", "target.id = source.id", "--memory-limit", "1k"]
    result = lakeport(*arguments, "--update-matched", "--insert-new", "--delete-missing")
    assert result.out.startswith("inserted 1 row, updated 1 row, deleted 2 rows; ")
    assert ids(people) == [1, 9]
    assert lakeport("count", people, "--where", "name = 'Anna'").out == "1\n"
    assert lakeport(*arguments, "--delete-matched").code == 0
    assert ids(people) == []
    assert lakeport(*arguments, "--delete-matched", "--update-matched").code == 2


@pytest.mark.parametrize("command", [["delete"], ["update", "--set", "id=0"]])
def test_a_condition_is_not_forgotten_by_accident(lakeport: Run, people: Path, command: list[str]) -> None:
    first, *rest = command
    assert "--all" in lakeport(first, people, *rest).err
    assert lakeport(first, people, *rest, "--all", "--where", "id = 1").code == 2
    assert version(people) == 0
    assert lakeport(first, people, *rest, "--all").code == 0
    assert set(ids(people)) == ({0} if rest else set())


def test_a_broken_constraint_is_told_with_the_row_of_the_file(lakeport: Run, people: Path, tmp_path: Path) -> None:
    tables.add_constraint(str(people), "positive", "id > 0")
    good = written(tmp_path / "good.jsonl", {"id": 4}, {"id": 5})
    bad = written(tmp_path / "bad.jsonl", {"id": 6}, {"id": -7})
    for command in ("append", "overwrite"):
        result = lakeport(command, people, good, bad)
        assert (result.code, result.out, result.err.count("\n")) == (1, "", 1)
        assert f"row 2 of {bad} violates the constraint 'positive' (id > 0): id = -7" in result.err
    assert (ids(people), version(people)) == ([1, 2, 3], 1)


def test_a_null_in_a_required_column_is_told_with_the_row_of_the_file(lakeport: Run, tmp_path: Path) -> None:
    lakeport("create", tmp_path / "t", "--schema", "id long not null")
    (tmp_path / "a.csv").write_text('id\n1\n""\n')
    result = lakeport("append", tmp_path / "t", tmp_path / "a.csv")
    assert result.code == 1
    assert f"row 2 of {tmp_path / 'a.csv'}: the column 'id' is null" in result.err


@pytest.mark.parametrize(
    ("arguments", "message", "code"),
    [
        (["create", "{}", "{}.csv"], "the table already exists", 2),
        (["create", "{}/new"], "data or a schema", 2),
        (["create", "{}/new", "{}.csv", "--property", "x"], "--property takes KEY=VALUE", 2),
        (["create", "{}/new", "{}.csv", "--partition-by", "nope"], "nope", 2),
        (["append", "{}/nowhere", "{}.csv"], "there is no Delta table", 1),
        (["append", "{}", "{}/nothing.csv"], "no such file", 1),
        (["append", "{}", "{}.txt"], "--format", 2),
        (["append", "{}"], "SOURCE", 2),
        (["overwrite", "{}", "{}.csv", "--where", "nope = 1"], "nope", 2),
        (["delete", "{}", "--where", "nope = 1"], "unknown column 'nope'", 2),
        (["update", "{}", "--all", "--set", "nope=1"], "nope", 2),
        (["update", "{}", "--all", "--set", "id"], "--set takes KEY=VALUE", 2),
        (["update", "{}", "--all"], "--set", 2),
        (["merge", "{}", "{}.csv", "--on", "target.id = source.id"], "--insert-new, --delete-missing", 2),
        (
            ["merge", "{}", "{}.csv", "--on", "true", "--insert-new", "--memory-limit", "0"],
            "--memory-limit takes a size such as 128mb, not '0'",
            2,
        ),
        (["append", "{}", "{}.csv", "--application", f"job:{2**63}"], "from 0 to 2**63 - 1", 2),
    ],
)
def test_a_failure_is_told_in_one_line_and_changes_nothing(
    lakeport: Run, people: Path, arguments: list[str], message: str, code: int
) -> None:
    result = lakeport(*(argument.format(people) for argument in arguments))
    assert (result.code, result.out) == (code, "")
    assert result.err.startswith("lakeport: ")
    assert message in result.err
    assert result.err.count("\n") == 1
    assert version(people) == 0
    assert not (people / "new").exists()


def test_progress_is_shown_on_a_terminal_only(
    lakeport: Run, people: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = written(tmp_path / "more.jsonl", {"id": 4}, {"id": 5, "city": "Rome"})
    assert lakeport("append", people, more, "--json").err == ""
    monkeypatch.setenv("FORCE_COLOR", "1")
    result = lakeport("append", people, more, "--json")
    assert "2 rows" in result.err
    assert "2 files, " in result.err
    assert result.documents[0]["version"] == 2


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupt_leaves_the_table_as_it_was_and_says_so(people: Path, sent: signal.Signals, code: int) -> None:
    with subprocess.Popen(
        [*PROGRAM, "append", str(people), "-", "--format", "jsonl"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        bufsize=1,
    ) as process:
        assert process.stdin is not None
        line = json.dumps({"id": 4, "name": "x" * 1000, "city": "Rome"}) + "\n"
        for _ in range(50_000):  # enough to open a file, and then it waits for more
            process.stdin.write(line)
        process.stdin.flush()
        wait_for_files(people / "city=Rome", 2)
        process.send_signal(sent)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (code, "")
    assert err == f"lakeport: interrupted: {people} is unchanged\n"
    assert (ids(people), version(people)) == ([1, 2, 3], 0)
    assert len(list((people / "city=Rome").iterdir())) == 1


def test_an_interrupt_after_the_commit_says_that_the_version_may_be_there(
    people: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def delete() -> None:
        with working("deleting", str(people), None) as work:
            tables.delete(str(people), "id = 1", engine=work.engine)
            raise KeyboardInterrupt

    with pytest.raises(typer.Exit) as stopped:
        delete()
    assert stopped.value.exit_code == 130
    assert "version 1 of" in capsys.readouterr().err
    assert version(people) == 1


def wait_for_files(folder: Path, number: int) -> None:
    end = time.monotonic() + 60
    while len(list(folder.iterdir())) < number:
        assert time.monotonic() < end, f"no {number} files in {folder}"
        time.sleep(0.05)
