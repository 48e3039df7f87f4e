"""`lakeport head` and `lakeport count`."""

import pytest

from lakeport.cli import display
from tests.cli.conftest import Run

VARIANT = {"a": [1, None, 2.5], "b": "é"}
NESTED = {"when": "2026-01-31T12:00:00Z", "v": VARIANT}


def test_head_prints_ten_rows_and_no_more(lakeport: Run, orders: str) -> None:
    result = lakeport("head", orders)
    lines = result.out.splitlines()
    assert result.code == 0
    assert lines[0].split() == ["id", "amount", "day"]
    assert len(lines) == 2 + 10


def test_head_prints_as_many_rows_as_it_is_told(lakeport: Run, orders: str) -> None:
    assert len(lakeport("head", orders, "-n", 3, "--json").documents) == 3
    assert len(lakeport("head", orders, "--limit", 100, "--json").documents) == 13
    assert lakeport("head", orders, "-n", 0, "--json").out == ""
    assert lakeport("head", orders, "-n", 0).out.split()[:3] == ["id", "amount", "day"]


def test_head_prints_the_columns_in_the_order_asked_for(lakeport: Run, orders: str) -> None:
    result = lakeport("head", orders, "--columns", "day,id", "--where", "id = 6", "--json")
    assert result.out == '{"day":"2026-01-02","id":6}\n'
    again = lakeport("head", orders, "--columns", "day", "--columns", "`id`", "--where", "id = 6", "--json")
    assert again.out == result.out


def test_head_prints_one_field_of_a_struct(lakeport: Run, everything: str) -> None:
    result = lakeport("head", everything, "--columns", "point.when", "-n", 1, "--json")
    assert result.documents == [{"point": {"when": "2026-01-31T12:00:00Z"}}]


def test_head_prints_an_earlier_version(lakeport: Run, orders: str) -> None:
    assert len(lakeport("head", orders, "--version", 0, "-n", 99, "--json").documents) == 10


def test_json_loses_nothing(lakeport: Run, everything: str) -> None:
    result = lakeport("head", everything, "--json")
    first, second = result.documents
    assert '"price":12345678901234567890123456789.000000001' in result.out
    assert '"float":0.1,' in result.out
    del first["price"]
    assert first == {
        **{"byte": -128, "long": 2**63 - 1, "float": 0.1, "double": None, "flag": True},
        **{"text": 'a "b"\n,[red]\x1b[31m', "raw": "AP8=", "day": "2026-01-31"},
        **{"at": "2026-01-31T12:00:00.000001Z", "local": "2026-01-31T12:00:00", "point": NESTED, "v": VARIANT},
        **{"list": [NESTED, None], "days": {"2026-01-31": VARIANT, "2026-02-01": None}},
    }
    assert set(second.values()) == {None}


def test_a_table_for_people_has_a_line_per_row_and_no_control_characters(lakeport: Run, everything: str) -> None:
    out = lakeport("head", everything).out
    assert len(out.splitlines()) == 4
    assert "\x1b" not in out
    assert 'a "b"\\n,[red]\\x1b[31m' in out
    assert "nan" in out


def test_columns_that_do_not_fit_a_terminal_are_named_instead(
    lakeport: Run, everything: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "60")
    out = lakeport("head", everything).out
    assert "more columns: " in out
    assert "days" in out.splitlines()[-1]
    assert display._that_fit([10, 10, 10], 34) == 3
    assert display._that_fit([10, 10, 10], 33) == 2
    assert display._that_fit([100], 33) == 1


def test_count_counts(lakeport: Run, orders: str) -> None:
    assert lakeport("count", orders).out == "13\n"
    assert lakeport("count", orders, "--where", "amount >= 10").out == "5\n"
    assert lakeport("count", orders, "--version", 1, "--json").out == '{"count":15}\n'
    assert lakeport("count", orders, "--limit", 4).out == "4\n"
