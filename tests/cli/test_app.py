"""The program as people and scripts meet it: exit codes, one-line errors, pipes and interrupts."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import lakeport as package
from lakeport.cli.options import parse_columns, parse_options
from tests.cli.conftest import Run

PROGRAM = [sys.executable, "-m", "lakeport"]


def start(*arguments: object) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([*PROGRAM, *map(str, arguments)], capture_output=True, text=True, timeout=60)


def test_the_program_runs_on_its_own(orders: str) -> None:
    done = start("count", orders, "--where", "id < 5")
    assert (done.returncode, done.stdout, done.stderr) == (0, "3\n", "")


def test_the_version_is_told() -> None:
    assert start("--version").stdout == f"lakeport {package.__version__}\n"


def test_without_a_command_the_help_is_shown(lakeport: Run) -> None:
    result = lakeport()
    assert result.code == 0
    for command in ("schema", "head", "count", "files", "history", "export"):
        assert command in result.out


def test_help_shows_flags_without_a_type_and_optional_arguments_once(lakeport: Run) -> None:
    for arguments in (["--help"], ["sql", "--help"], ["table", "add", "-h"]):
        assert "<bool>" not in lakeport(*arguments).out
    assert "[OPTIONS] [QUERY]" in lakeport("sql", "--help").out
    assert "{TARGET} {SOURCE}..." in lakeport("append", "--help").out


@pytest.mark.parametrize(
    ("code", "arguments", "message"),
    [
        (2, ["nonsense"], "No such command 'nonsense'"),
        (2, ["head"], "TARGET"),
        (2, ["head", "{}", "--nonsense"], "--nonsense"),
        (2, ["head", "{}", "-n", "many"], "-n"),
        (2, ["head", "{}", "--where", "nope = 1"], "unknown column 'nope'"),
        (2, ["head", "{}", "--columns", "nope"], "unknown column 'nope'"),
        (2, ["head", "{}", "--columns", "id,,amount"], "--columns takes names"),
        (2, ["count", "{}", "--version", "1", "--timestamp", "2026-01-01"], "either a version or a timestamp"),
        (2, ["count", "{}", "--timestamp", "yesterday"], "yesterday"),
        (2, ["count", "{}", "--option", "region"], "KEY=VALUE"),
        (2, ["export", "{}", "out.txt"], "--format"),
        (1, ["count", "{}/nowhere"], "there is no Delta table at"),
        (1, ["count", "{}", "--version", "9"], "no version 9"),
        (1, ["head", "{}", "--timestamp", "1999-01-01"], "earlier"),
        (1, ["export", "{}", "/no/such/folder/x.csv"], "/no/such/folder"),
    ],
)
def test_a_wrong_call_has_code_2_a_failure_1_and_both_are_told_in_one_line(
    lakeport: Run, orders: str, code: int, arguments: list[str], message: str
) -> None:
    result = lakeport(*(argument.format(orders) for argument in arguments))
    assert (result.code, result.out) == (code, "")
    assert result.err.startswith("lakeport: ")
    assert message in result.err
    assert result.err.count("\n") == 1


def test_a_bad_filter_is_shown_with_a_mark_under_the_place(lakeport: Run, orders: str) -> None:
    result = lakeport("count", orders, "--where", "id = = 1")
    assert result.code == 2
    first, text, mark = result.err.splitlines()
    assert first.startswith("lakeport: the filter cannot be read")
    assert text[mark.index("^")] == "="


def test_a_damaged_file_is_a_failure_and_not_a_wrong_call(lakeport: Run, orders: str) -> None:
    for file in Path(orders).glob("*.parquet"):
        file.write_bytes(b"PAR1 no more PAR1")
    result = lakeport("head", orders)
    assert result.code == 1
    assert ".parquet" in result.err


def test_debug_shows_where_a_failure_comes_from(lakeport: Run, orders: str) -> None:
    result = lakeport("count", f"{orders}/nowhere", "--debug")
    assert result.code == 1
    assert result.err.startswith("Traceback")
    assert "TableNotFoundError" in result.err
    assert lakeport("--debug", "count", orders).code == 0


def test_a_reader_that_stops_early_is_no_failure_to_hear_of(orders: str) -> None:
    command = f"{sys.executable} -m lakeport head {orders} --json | true"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("", "")


def test_an_interrupt_ends_with_130_and_says_nothing(orders: str) -> None:
    fifo = Path(orders) / "_delta_log" / "_last_checkpoint"
    os.mkfifo(fifo)  # whoever reads it waits until somebody has written
    with subprocess.Popen([*PROGRAM, "count", orders], stderr=subprocess.PIPE, text=True) as process:
        writing = open_for_writing(fifo)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
        os.close(writing)
    assert (process.returncode, err) == (130, "")


def test_an_interrupt_while_the_commands_are_loaded_says_nothing() -> None:
    code = """
import sys

class Interrupted:
    def find_spec(self, name, *_):
        if name == "typer":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupted())
from lakeport.cli import main
main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def open_for_writing(fifo: Path) -> int:
    """Opens it as soon as it is being read."""
    end = time.monotonic() + 30
    while time.monotonic() < end:
        try:
            return os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            time.sleep(0.05)
    raise TimeoutError(fifo)


def test_optional_and_heavy_libraries_are_not_loaded_to_count_rows(orders: str) -> None:
    code = "import sys; from lakeport.cli.app import run; run(sys.argv[1:]); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code, "count", orders], capture_output=True, text=True, timeout=60)
    loaded = set(done.stdout.splitlines()[1].split())
    assert not loaded & {"polars", "duckdb", "sqlglot", "pyarrow.dataset", "deltalake"}


def test_columns_are_split_at_commas_outside_backticks() -> None:
    assert parse_columns(["a, b.c", "`x,y`.`z`,w"]) == ["a", "b.c", "`x,y`.`z`", "w"]


def test_storage_options_keep_their_equals_signs() -> None:
    assert parse_options(["key=a=b==", "empty="]) == {"key": "a=b==", "empty": ""}
