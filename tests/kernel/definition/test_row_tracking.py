"""Ids for the rows of new files, above the highest that the table has given out."""

import json

import pytest

from lakeport.errors import CorruptTableError, InvalidDataError
from lakeport.kernel.actions import Add, Metadata, Protocol
from lakeport.kernel.definition import assign_row_ids, assigns_row_ids, high_water_mark
from lakeport.kernel.definition.row_tracking import with_materialised_names


def file(records: int | None, base_row_id: int | None = None, version: int | None = None) -> Add:
    stats = None if records is None else json.dumps({"numRecords": records})
    return Add(
        path="f",
        partition_values={},
        size=1,
        modification_time=0,
        data_change=True,
        stats=stats,
        base_row_id=base_row_id,
        default_row_commit_version=version,
    )


def test_files_get_ids_one_after_the_other_and_the_domain_says_how_far_they_go() -> None:
    adds, domain = assign_row_ids([file(3), file(0), file(2)], highest=9, version=5)
    assert [(add.base_row_id, add.default_row_commit_version) for add in adds] == [(10, 5), (13, 5), (13, 5)]
    assert domain is not None
    assert (domain.domain, json.loads(domain.configuration)) == ("delta.rowTracking", {"rowIdHighWaterMark": 14})


def test_files_that_have_ids_keep_them() -> None:
    adds, domain = assign_row_ids([file(3, base_row_id=4, version=2)], highest=9, version=5)
    assert [(add.base_row_id, add.default_row_commit_version) for add in adds] == [(4, 2)]
    assert domain is None


def test_a_file_whose_rows_are_not_counted_is_refused() -> None:
    with pytest.raises(InvalidDataError, match="the file f has no numRecords"):
        assign_row_ids([file(None)], highest=-1, version=0)


def test_the_mark_of_a_table_without_one_is_below_zero() -> None:
    assert high_water_mark({}, "t") == -1
    assert high_water_mark({"delta.rowTracking": '{"rowIdHighWaterMark":7}'}, "t") == 7
    for damaged in ("", "{}", '{"rowIdHighWaterMark":"x"}'):
        with pytest.raises(CorruptTableError, match=r"the domain delta\.rowTracking is not valid"):
            high_water_mark({"delta.rowTracking": damaged}, "t")


def test_ids_are_assigned_where_the_protocol_has_the_feature_and_they_are_not_suspended() -> None:
    tracked = Protocol(min_reader_version=1, min_writer_version=7, writer_features=("rowTracking",))
    plain = Protocol(min_reader_version=1, min_writer_version=2)
    assert assigns_row_ids(tracked, Metadata(schema_string=""))
    assert not assigns_row_ids(plain, Metadata(schema_string=""))
    suspended = Metadata(schema_string="", configuration={"delta.rowTrackingSuspended": "true"})
    assert not assigns_row_ids(tracked, suspended)


def test_names_of_materialised_columns_are_chosen_once() -> None:
    assert with_materialised_names({}) == {}
    named = with_materialised_names({"delta.enableRowTracking": "true"})
    assert len(set(named.values())) == 3
    assert with_materialised_names(named) == named
