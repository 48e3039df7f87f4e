"""Real tables of other implementations: a mirror shows what the Delta table shows, at every version, or is refused with
a reason."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from lakeport.errors import ConversionError
from lakeport.iceberg import Conversion
from tests.acceptance.real_tables import named
from tests.iceberg.readers import DuckDb, PyIceberg, Reader, ids_of, running_duckdb
from tests.iceberg.real_tables import (
    DUCKDB_FAULTS,
    NAMES,
    NOT_COMPARED,
    PYICEBERG_FAULTS,
    REFUSED,
    WITH_VARIANTS,
    assert_rows,
    convert,
    convertible,
    failing,
)

FORMATS = (2, 3)
READERS = {"pyiceberg": PYICEBERG_FAULTS, "duckdb": DUCKDB_FAULTS}
Mirrors = Callable[[str, int], Conversion]


def cases(names: Mapping[int, Sequence[str]]) -> Any:
    """Tables in format versions."""
    listed = [pytest.param(name, number, id=f"{name}-v{number}") for number in FORMATS for name in names[number]]
    return pytest.mark.parametrize(("name", "format_version"), listed)


def without_faults(reader: str) -> Any:
    """Tables that a reader has no fault with; those with variants have a test of their own."""
    faults = READERS[reader]
    return cases({n: [name for name in convertible(n) if name not in {*faults[n], *WITH_VARIANTS}] for n in FORMATS})


def with_faults(reader: str) -> Any:
    return cases({n: [name for name in convertible(n) if name in READERS[reader][n]] for n in FORMATS})


@pytest.fixture(scope="module")
def mirrors(tmp_path_factory: pytest.TempPathFactory) -> Mirrors:
    """Makes the mirror of a table, once."""
    folder = tmp_path_factory.mktemp("mirrors")
    made: dict[tuple[str, int], Conversion] = {}

    def make(name: str, format_version: int) -> Conversion:
        if (name, format_version) not in made:
            made[name, format_version] = convert(name, format_version, folder)
        return made[name, format_version]

    return make


def compare(
    reader: Reader, conversion: Conversion, name: str, wrong: tuple[str, ...] = (), sometimes: bool = False
) -> None:
    is_wrong = [
        assert_rows(reader.read(conversion.metadata_location, snapshot_id), name, version, wrong)
        for version, snapshot_id in ids_of(conversion).items()
    ]
    assert sometimes or any(is_wrong) == bool(wrong), "it reads these columns rightly by now"


@without_faults("pyiceberg")
def test_pyiceberg_sees_the_rows_of_every_version(mirrors: Mirrors, name: str, format_version: int) -> None:
    compare(PyIceberg(), mirrors(name, format_version), name)


@with_faults("pyiceberg")
def test_pyiceberg_has_faults_of_its_own(mirrors: Mirrors, name: str, format_version: int) -> None:
    fault = PYICEBERG_FAULTS[format_version][name]
    with failing(fault) as wrong:
        compare(PyIceberg(), mirrors(name, format_version), name, wrong, fault.sometimes)


@without_faults("duckdb")
def test_duckdb_sees_the_rows_of_every_version(
    duckdb: DuckDb, mirrors: Mirrors, name: str, format_version: int
) -> None:
    compare(duckdb, mirrors(name, format_version), name)


VARIANTS_IN_SQL = {
    "spark--variant-stats-nested-no-checkpoint": "i, {'v': s.v::JSON::VARCHAR} AS s",
    "spark--variant-stats-state-reconstruction": "v::JSON::VARCHAR AS v",
    "spark--variant-stats-with-struct-no-checkpoint": "v::JSON::VARCHAR AS v, s",
}


@named([name for name in NAMES if name in VARIANTS_IN_SQL])
def test_duckdb_sees_variants(duckdb: DuckDb, mirrors: Mirrors, name: str) -> None:
    conversion = mirrors(name, 3)
    for version, snapshot_id in ids_of(conversion).items():
        scan = f"iceberg_scan('{conversion.metadata_location}', snapshot_from_id = {snapshot_id})"
        (found,) = duckdb.peer.read(f"SELECT {VARIANTS_IN_SQL[name]} FROM {scan}")
        assert_rows(found, name, version)


@with_faults("duckdb")
def test_duckdb_has_faults_of_its_own(tmp_path: Path, mirrors: Mirrors, name: str, format_version: int) -> None:
    conversion = mirrors(name, format_version)
    with running_duckdb(tmp_path) as reader, failing(DUCKDB_FAULTS[format_version][name]) as wrong:  # some break it
        compare(reader, conversion, name, wrong)


@cases({number: [name for name in NAMES if name in REFUSED[number]] for number in FORMATS})
def test_what_cannot_be_mirrored_is_refused_with_its_reason(tmp_path: Path, name: str, format_version: int) -> None:
    refusal = REFUSED[format_version][name]
    with pytest.raises(refusal.error, match=refusal.text) as caught:
        convert(name, format_version, tmp_path)
    if isinstance(caught.value, ConversionError):
        assert caught.value.reason == refusal.reason
    assert not any(file.is_file() for file in tmp_path.rglob("*")), "something is left"


@pytest.mark.shared
def test_no_refusal_is_listed_for_a_table_that_is_not_there() -> None:
    for number in FORMATS:
        assert {*REFUSED[number], *NOT_COMPARED} <= {*NAMES}
