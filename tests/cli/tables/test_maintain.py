"""`lakeport optimize`, `vacuum`, `restore`, `set` and `checkpoint`."""

from pathlib import Path

import pytest

import lakeport as package
from lakeport.cli.tables import maintain
from tests.cli.conftest import Run


@pytest.fixture
def numbers(lakeport: Run, tmp_path: Path) -> Path:
    """Versions 0 to 3: a file each, with two rows."""
    (tmp_path / "n.csv").write_text("id\n1\n2\n")
    assert lakeport("create", tmp_path / "t", tmp_path / "n.csv").code == 0
    for _ in range(3):
        assert lakeport("append", tmp_path / "t", tmp_path / "n.csv").code == 0
    return tmp_path / "t"


def data_files(table: Path) -> set[str]:
    return {path.name for path in table.glob("*.parquet")}


def test_optimize_puts_files_together(lakeport: Run, numbers: Path) -> None:
    result = lakeport("optimize", numbers)
    assert result.code == 0
    assert result.out.startswith("rewrote 4 files (")
    assert " as 1 file (" in result.out
    assert len(package.scan(str(numbers)).files()) == 1
    assert lakeport("count", numbers).out == "8\n"
    assert lakeport("optimize", numbers).out == f"nothing to do; {numbers} is at version 4\n"


def test_optimize_tells_machines_its_metrics(lakeport: Run, numbers: Path) -> None:
    [document] = lakeport("optimize", numbers, "--target-size", "1gb", "--json").documents
    assert (document["version"], document["metrics"]["numRemovedFiles"]) == (4, 4)


def test_optimize_purges_deleted_rows(lakeport: Run, numbers: Path) -> None:
    lakeport("set", numbers, "delta.enableDeletionVectors=true")
    lakeport("optimize", numbers)
    lakeport("delete", numbers, "--where", "id = 1")
    assert lakeport("files", numbers, "--json").documents[0]["deletionVector"] is not None
    assert lakeport("optimize", numbers, "--purge").code == 0
    assert lakeport("files", numbers, "--json").documents[0]["deletionVector"] is None
    assert lakeport("count", numbers).out == "4\n"


def test_vacuum_lists_what_it_would_delete_and_deletes_nothing(lakeport: Run, numbers: Path) -> None:
    lakeport("optimize", numbers)
    before = data_files(numbers)
    assert lakeport("vacuum", numbers).out == "nothing to delete\n"
    result = lakeport("vacuum", numbers, "--retention", "0 hours", "--no-retention-check")
    assert result.code == 0
    assert sum(line.endswith(".parquet") and "bytes" in line for line in result.out.splitlines()) == 4
    assert "4 files (" in result.out
    assert "can be deleted: run again with --delete" in result.out
    assert (data_files(numbers), package.scan(str(numbers)).version) == (before, 4)


def test_vacuum_deletes_when_told_to(lakeport: Run, numbers: Path) -> None:
    lakeport("optimize", numbers)
    arguments = ["vacuum", numbers, "--retention", "0 hours", "--no-retention-check"]
    [planned] = lakeport(*arguments, "--json").documents
    assert (planned["deleted"], len(planned["files"]), planned["version"]) == (False, 4, 4)
    result = lakeport(*arguments, "--delete")
    assert result.out.startswith("deleted 4 files (")
    assert len(data_files(numbers)) == 1
    assert not data_files(numbers) & set(planned["files"])
    assert lakeport("count", numbers).out == "8\n"
    gone = lakeport("restore", numbers, "--version", 0)
    assert (gone.code, "pass --ignore-missing-files" in gone.err) == (1, True)
    assert lakeport("restore", numbers, "--version", 0, "--ignore-missing-files").code == 0


def test_a_long_list_is_cut_for_people(lakeport: Run, numbers: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maintain, "_SHOWN", 3)
    lakeport("optimize", numbers)
    out = lakeport("vacuum", numbers, "--retention", "0 hours", "--no-retention-check").out
    assert out.count(".parquet") == 3
    assert "and 1 more; --json lists all of them" in out


def test_a_short_retention_is_refused_in_the_words_of_the_command_line(lakeport: Run, numbers: Path) -> None:
    result = lakeport("vacuum", numbers, "--retention", "1 hour", "--delete")
    assert (result.code, result.out) == (2, "")
    assert "--no-retention-check" in result.err


def test_restore_makes_an_earlier_version_the_newest(lakeport: Run, numbers: Path) -> None:
    result = lakeport("restore", numbers, "--version", 1)
    assert result.out == f"restored version 1: 0 files added, 2 removed; {numbers} is at version 4\n"
    assert lakeport("count", numbers).out == "4\n"
    first = lakeport("history", numbers, "--json").documents[-1]
    assert lakeport("restore", numbers, "--timestamp", first["timestamp"]).code == 0
    assert lakeport("count", numbers).out == "2\n"
    assert lakeport("restore", numbers).code == 2


def test_properties_are_set_and_taken_away(lakeport: Run, numbers: Path) -> None:
    assert lakeport("set", numbers, "delta.enableChangeDataFeed=true", "a=b=c").out == (
        f"set delta.enableChangeDataFeed, a; {numbers} is at version 4\n"
    )
    assert package.scan(str(numbers)).snapshot.properties["a"] == "b=c"
    [document] = lakeport("set", numbers, "--unset", "a", "--json").documents
    assert document["version"] == 5
    assert "a" not in package.scan(str(numbers)).snapshot.properties


def test_a_checkpoint_is_written(lakeport: Run, numbers: Path) -> None:
    assert lakeport("checkpoint", numbers).out == f"wrote a checkpoint; {numbers} is at version 3\n"
    assert list((numbers / "_delta_log").glob("*3.checkpoint*.parquet"))
    assert lakeport("count", numbers).out == "8\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["optimize", "{}", "--target-size", "big"], "128mb"),
        (["optimize", "{}", "--where", "id = 1"], "partition"),
        (["vacuum", "{}", "--retention", "a while"], "7 days"),
        (["set", "{}"], "KEY=VALUE"),
        (["set", "{}", "a"], "KEY=VALUE"),
        (["set", "{}", "delta.nonsense=1"], "delta.nonsense"),
        (["set", "{}", "a=b", "--unset", "c"], "--unset"),
    ],
)
def test_a_wrong_call_is_told_in_one_line_and_changes_nothing(
    lakeport: Run, numbers: Path, arguments: list[str], message: str
) -> None:
    result = lakeport(*(argument.format(numbers) for argument in arguments))
    assert (result.code, result.out, result.err.count("\n")) == (2, "", 1)
    assert message in result.err
    assert package.scan(str(numbers)).version == 3


def test_progress_is_shown_on_a_terminal_only(lakeport: Run, numbers: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert lakeport("vacuum", numbers).err == ""
    monkeypatch.setenv("FORCE_COLOR", "1")
    result = lakeport("optimize", numbers, "--json")
    assert "optimizing" in result.err
    assert "1 file, " in result.err
    assert "optimizing" not in result.out


def test_optimize_prints_what_filters_read(lakeport: Run, tmp_path: Path) -> None:
    data, target = tmp_path / "n.csv", tmp_path / "t"
    data.write_text("id,name\n1,a\n2,b\n")
    lakeport("create", target, data)
    lakeport("append", target, data)
    both, of_id, of_name, summary = lakeport("optimize", target, "--zorder-by", "id, name").out.splitlines()
    assert both.startswith("a filter on id and name reads 1.0 of 1 file (")
    assert ", before 2.0 of 2 files (" in both
    assert (of_id.split()[3], of_name.split()[3]) == ("id", "name")
    assert summary.startswith("rewrote 2 files (")
    assert lakeport("count", target).out == "4\n"


def test_optimize_tells_machines_what_filters_read(lakeport: Run, numbers: Path) -> None:
    [document] = lakeport("optimize", numbers, "--cluster-by", "id", "--json").documents
    [effect] = document["effect"]
    assert effect["columns"] == ["id"]
    assert effect["before"]["of_files"] == 4
    assert (effect["after"]["files"], effect["after"]["of_files"]) == (1.0, 1)


def test_optimize_names_the_options_that_do_not_fit(lakeport: Run, numbers: Path) -> None:
    result = lakeport("optimize", numbers, "--zorder-by", "id", "--cluster-by", "id")
    assert result.code == 2
    assert result.err.startswith("lakeport: pass --zorder-by or --cluster-by, not both")
