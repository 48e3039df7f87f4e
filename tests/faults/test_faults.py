"""The planted faults can still be planted: each text is there once, and the faults cover every part."""

import ast
from collections import Counter
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.faults.__main__ import TARGETS, for_some_files, suite_runs
from tests.faults.faults import FAULTS, PLACES, ROOMS, Fault

LEAST = {"kernel": 8, "engine": 3, "tables": 4, "server": 4, "client": 3, "iceberg": 3, "spark": 3, "jvm": 2}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_applies(fault: Fault) -> None:
    faulty = fault.apply((ROOT / fault.file).read_text())
    if Path(fault.file).suffix == ".py":
        ast.parse(faulty, fault.file)
    assert fault.file.startswith(PLACES[fault.room]), f"{fault.name} is not in a file of its part"
    assert [test for test in fault.first if not _is_there(*test.split("::"))] == []
    assert fault.seen.endswith("."), f"{fault.name} does not tell what a user would see"


def _is_there(file: str, name: str = "") -> bool:
    return (ROOT / file).exists() and (not name or f"def {name}(" in (ROOT / file).read_text())


def test_a_text_that_moved_is_noticed() -> None:
    fault = Fault("kernel-x", "f", "a.py", "x = 1", "x = 2", "Wrong.", ())
    assert fault.apply("x = 1\n") == "x = 2\n"
    for text in ("x = 3\n", "x = 1\nx = 1\n"):
        with pytest.raises(ValueError, match=r"kernel-x: a\.py has the old text [02] times"):
            fault.apply(text)


def test_the_faults_cover_all_parts() -> None:
    assert len(FAULTS) >= 30
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)
    counts = Counter(fault.room for fault in FAULTS)
    assert set(counts) == set(ROOMS)
    assert {room: count for room, count in counts.items() if count < LEAST[room]} == {}


def test_the_suites_are_those_of_the_makefile() -> None:
    assert all(suite_runs(suite) for suite in TARGETS)
    given = ["-n", "2", "--sample", "--durations", "15", "-m", "not slow", "--ignore=tests/interop", "tests/kernel"]
    assert for_some_files(given) == ["--sample", "-m", "not slow"]
