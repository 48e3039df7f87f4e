"""Which commits of other writers contradict a transaction, and which it is simply put on top of."""

from collections.abc import Callable

import pytest

from lakeport.engine import memory_engine
from lakeport.errors import CommitConflictError, CorruptTableError
from lakeport.kernel.expressions import Expression, col
from lakeport.kernel.snapshot import Snapshot
from lakeport.kernel.transaction import Transaction, create_table, update_table
from lakeport.kernel.transaction.transaction import replace_table
from lakeport.testing.builder import read, struct
from tests.kernel.writing import actions_of, add, data_files, latest, new_table, only, removing, values

ROOT = "memory://table"
SCHEMA = struct(id="long", day="string")
SERIALIZABLE = {"delta.isolationLevel": "Serializable"}

Begin = Callable[[Snapshot], Transaction]


def two_days(properties: dict[str, str] | None = None) -> Snapshot:
    """Ids 1 and 2 on day a, 3 and 4 on day b: two files."""
    rows = {"id": [1, 2, 3, 4], "day": ["a", "a", "b", "b"]}
    return new_table(memory_engine(), ROOT, SCHEMA, ["day"], properties, rows)


def appending(*ids: int, day: str = "a") -> Begin:
    return lambda snapshot: add(update_table(snapshot, "WRITE"), {"id": list(ids), "day": [day] * len(ids)})


def deleting(where: Expression | None = None) -> Begin:
    return lambda snapshot: removing(snapshot, where)


def reading_and_adding(where: Expression | None, *ids: int, day: str = "c") -> Begin:
    """What an INSERT … SELECT from the table itself does."""

    def begin(snapshot: Snapshot) -> Transaction:
        transaction = update_table(snapshot, "WRITE")
        builder = snapshot.scan_builder()
        transaction.plan((builder if where is None else builder.with_filter(where)).build())
        return add(transaction, {"id": list(ids), "day": [day] * len(ids)})

    return begin


def rearranging(where: Expression) -> Begin:
    """What OPTIMIZE does: the same rows in other files."""

    def begin(snapshot: Snapshot) -> Transaction:
        transaction = update_table(snapshot, "OPTIMIZE")
        scan = snapshot.scan_builder().with_log_details().with_filter(where).build()
        transaction.remove_files(transaction.plan(scan), data_change=False)
        transaction.add_files(data_files(transaction, read(snapshot, where)), data_change=False)
        return transaction

    return begin


def with_property(name: str, value: str = "true") -> Begin:
    def begin(snapshot: Snapshot) -> Transaction:
        transaction = update_table(snapshot, "SET TBLPROPERTIES")
        transaction.definition = transaction.definition.with_properties({name: value})
        return transaction

    return begin


def with_application(app_id: str, version: int) -> Begin:
    def begin(snapshot: Snapshot) -> Transaction:
        transaction = appending(version)(snapshot)
        transaction.set_application_version(app_id, version)
        return transaction

    return begin


def with_domain(domain: str, configuration: str = "{}") -> Begin:
    def begin(snapshot: Snapshot) -> Transaction:
        transaction = update_table(snapshot, "WRITE")
        transaction.set_domain(domain, configuration)
        return transaction

    return begin


def race(snapshot: Snapshot, loser: Begin, *winners: Begin) -> Snapshot:
    """Commits the winners' transactions between the beginning and the commit of the loser's."""
    late = loser(snapshot)
    for winner in winners:
        winner(latest(snapshot.engine, ROOT)).commit()
    late.commit()
    return latest(snapshot.engine, ROOT)


def conflict(snapshot: Snapshot, loser: Begin, *winners: Begin) -> CommitConflictError:
    with pytest.raises(CommitConflictError) as caught:
        race(snapshot, loser, *winners)
    after = latest(snapshot.engine, ROOT)
    assert after.version == snapshot.version + len(winners), "what conflicts must not be committed"
    assert "read the table again and repeat the operation" in str(caught.value)
    return caught.value


DAY_A, DAY_B = col("day") == "a", col("day") == "b"

# What passes


def test_appends_pass_one_another() -> None:
    after = race(two_days(), appending(10), appending(11), appending(12, day="b"), appending(13, day="new"))
    assert after.version == 4
    assert values(after) == [1, 2, 3, 4, 10, 11, 12, 13]


def test_an_append_passes_a_delete_and_a_rearrangement() -> None:
    after = race(two_days(), appending(10), deleting(DAY_B), rearranging(DAY_A))
    assert values(after) == [1, 2, 10]


def test_deletes_of_different_files_pass() -> None:
    assert values(race(two_days(), deleting(DAY_A), deleting(DAY_B))) == []


def test_a_blind_append_of_matching_rows_passes_a_delete_as_if_it_had_come_later() -> None:
    assert values(race(two_days(), deleting(DAY_A), appending(10, day="a"))) == [3, 4, 10]


def test_in_a_serializable_table_an_append_of_rows_that_do_not_match_passes() -> None:
    by_partition = race(two_days(SERIALIZABLE), deleting(DAY_A), appending(10, day="b"))
    assert values(by_partition) == [3, 4, 10]
    by_statistics = race(two_days(SERIALIZABLE), deleting((col("id") <= 2) & DAY_A), appending(10, day="a"))
    assert values(by_statistics) == [3, 4, 10]


def test_a_rearrangement_passes_appends_even_in_a_serializable_table() -> None:
    assert values(race(two_days(SERIALIZABLE), rearranging(DAY_A), appending(10))) == [1, 2, 3, 4, 10]


def test_a_reader_passes_rows_that_are_only_rearranged_elsewhere() -> None:
    assert values(race(two_days(), reading_and_adding(DAY_A, 10), rearranging(DAY_B))) == [1, 2, 3, 4, 10]


def test_applications_and_domains_of_other_names_pass() -> None:
    after = race(two_days(), with_application("mine", 7), with_application("other", 8))
    assert (after.transaction_version("mine"), after.transaction_version("other")) == (7, 8)
    table = two_days({"delta.feature.domainMetadata": "supported"})
    assert race(table, with_domain("mine"), with_domain("other")).domain_metadata == {"mine": "{}", "other": "{}"}


# What conflicts


def test_two_deletes_of_one_file_conflict() -> None:
    error = conflict(two_days(), deleting(DAY_A), deleting(DAY_A))
    assert error.version == 1
    assert "another writer committed version 1 (DELETE) first" in str(error)
    assert "it changes or removes a file that this transaction also changes" in str(error)


def test_the_version_is_that_of_the_commit_that_contradicts() -> None:
    assert conflict(two_days(), deleting(DAY_A), appending(10), appending(11), deleting(DAY_A)).version == 3


def test_a_delete_conflicts_with_a_rearrangement_of_its_file_and_the_other_way_round() -> None:
    conflict(two_days(), deleting(DAY_A), rearranging(DAY_A))
    conflict(two_days(), rearranging(DAY_A), deleting(DAY_A))


def test_a_file_that_was_read_and_is_gone_conflicts() -> None:
    error = conflict(two_days(), reading_and_adding(DAY_A, 10), deleting(DAY_A))
    assert "it changes or removes a file that this transaction has read" in str(error)
    conflict(two_days(), reading_and_adding(None, 10), deleting(DAY_B))


def test_in_a_serializable_table_an_append_of_matching_rows_conflicts() -> None:
    error = conflict(two_days(SERIALIZABLE), deleting(DAY_A), appending(10, day="a"))
    assert "it adds rows that this transaction would have had to read" in str(error)
    conflict(two_days(SERIALIZABLE), deleting(col("id") > 3), appending(10, day="new"))
    conflict(two_days(SERIALIZABLE), deleting(), appending(10, day="new"))
    conflict(two_days(SERIALIZABLE), deleting(DAY_A), appending(10, day="b"), appending(11, day="a"))


def test_an_append_that_depends_on_what_it_read_conflicts_with_who_would_have_read_it() -> None:
    conflict(two_days(), deleting(col("day") == "c"), reading_and_adding(DAY_A, 10, day="c"))
    after = race(two_days(), deleting(col("day") == "d"), reading_and_adding(DAY_A, 10, day="c"))
    assert values(after) == [1, 2, 3, 4, 10]


def test_rows_without_statistics_may_match_anything() -> None:
    snapshot = two_days(SERIALIZABLE | {"delta.dataSkippingNumIndexedCols": "0"})
    conflict(snapshot, deleting(col("id") > 100), appending(10))


def test_everything_conflicts_with_a_change_of_the_metadata_or_the_protocol() -> None:
    for loser in (appending(10), deleting(DAY_A), rearranging(DAY_A), with_property("delta.appendOnly")):
        error = conflict(two_days(), loser, with_property("user.text"))
        assert "it changes the table's schema or properties" in str(error)
        error = conflict(two_days(), loser, with_property("delta.enableDeletionVectors"))
        assert "it changes the table's protocol" in str(error)


def test_a_change_of_the_metadata_passes_blind_appends_but_a_replacement_does_not() -> None:
    after = race(two_days(), with_property("user.text"), appending(10))
    assert values(after) == [1, 2, 3, 4, 10]
    other = struct(id="string")
    conflict(two_days(), lambda snapshot: replace_table(snapshot, other), appending(10))


def test_work_of_the_same_application_conflicts() -> None:
    error = conflict(two_days(), with_application("mine", 7), with_application("mine", 7))
    assert "it also has the application transaction 'mine'" in str(error)


def test_the_same_domain_conflicts() -> None:
    table = two_days({"delta.feature.domainMetadata": "supported"})
    assert "it also sets the metadata domain 'mine'" in str(conflict(table, with_domain("mine"), with_domain("mine")))


def test_a_table_that_another_writer_created_meanwhile_conflicts() -> None:
    engine = memory_engine()
    late = create_table(engine, ROOT, struct(other="string"))
    new_table(engine, ROOT, SCHEMA, rows={"id": [1], "day": ["a"]})
    with pytest.raises(CommitConflictError, match="another writer created the table first") as caught:
        late.commit()
    assert caught.value.version == 0
    assert latest(engine, ROOT).schema.names == ("id", "day")


def test_a_conflict_is_found_by_column_names_that_are_mapped_too() -> None:
    mapping = {"delta.columnMapping.mode": "name"} | SERIALIZABLE
    assert values(race(two_days(mapping), deleting(DAY_A), appending(10, day="b"))) == [3, 4, 10]
    conflict(two_days(mapping), deleting(DAY_A), appending(10, day="a"))
    conflict(two_days(mapping), deleting(col("id") > 3), appending(10, day="x"))


def test_paths_are_compared_whatever_way_they_are_written() -> None:
    """Other writers may percent-encode non-ASCII characters."""
    rows = {"id": [1], "day": ["ü x"]}
    snapshot = new_table(memory_engine(), ROOT, SCHEMA, ["day"], rows=rows)
    late = removing(snapshot)
    path = only(actions_of(snapshot.engine, ROOT, 0), "add")[0]["path"]
    encoded = path.replace("ü", "%C3%BC")
    assert encoded != path
    remove = f'{{"remove":{{"path":"{encoded}","dataChange":true}}}}'
    snapshot.engine.storage.write(f"{ROOT}/_delta_log/{1:020d}.json", remove.encode())
    with pytest.raises(CommitConflictError, match="also changes"):
        late.commit()


@pytest.mark.parametrize("text", ["not json", '{"add": {"path": 1}}', '{"add": '])
def test_a_commit_that_cannot_be_read_is_an_error_with_its_path(text: str) -> None:
    snapshot = two_days()
    late = appending(10)(snapshot)
    path = f"{ROOT}/_delta_log/{1:020d}.json"
    snapshot.engine.storage.write(path, text.encode())
    with pytest.raises(CorruptTableError, match="a line that is not valid") as caught:
        late.commit()
    assert caught.value.path == path


def test_what_a_newer_writer_says_besides_is_ignored() -> None:
    snapshot = two_days()
    late = appending(10)(snapshot)
    text = '{"commitInfo":{"operation":"WRITE"}}\n{"novelty":{"x":1}}\n'
    snapshot.engine.storage.write(f"{ROOT}/_delta_log/{1:020d}.json", text.encode())
    assert late.commit().version == 2
