"""Checksum files: right step by step, never in the way."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from deltalake import DeltaTable

from lakeport.engine import default_engine, memory_engine
from lakeport.errors import StorageError
from lakeport.kernel.actions import Add, DomainMetadata, Metadata, Protocol, Remove, Transaction
from lakeport.kernel.deletion_vectors import DeletionVectorDescriptor
from lakeport.kernel.log import Checksum, next_checksum, read_checksum, write_checksum
from lakeport.kernel.maintenance import write_checkpoint
from lakeport.testing.builder import Action, TableBuilder, protocol, remove, rows, struct

PLAIN = Protocol(min_reader_version=1, min_writer_version=2)
WITH_VECTORS = Protocol(
    min_reader_version=3,
    min_writer_version=7,
    reader_features=("deletionVectors",),
    writer_features=("deletionVectors",),
)
METADATA = Metadata(id="m", schema_string='{"type":"struct","fields":[]}', configuration={"a": "b"})
STATE: dict[str, Any] = {"protocol": PLAIN, "metadata": METADATA}
ROOT = "memory:///t"


def add(path: str, size: int, deleted: int = 0) -> Add:
    return Add(
        path=path,
        partition_values={},
        size=size,
        modification_time=0,
        data_change=True,
        deletion_vector=vector(deleted) if deleted else None,
    )


def gone(file: Add, size: int | None = -1) -> Remove:
    known = file.size if size == -1 else size
    return Remove(path=file.path, data_change=True, size=known, deletion_vector=file.deletion_vector)


def vector(deleted: int) -> DeletionVectorDescriptor:
    return DeletionVectorDescriptor(
        storage_type="u", path_or_inline_dv="x", offset=1, size_in_bytes=9, cardinality=deleted
    )


def first(*adds: Add, **state: Any) -> Checksum:
    checksum = next_checksum(None, 0, adds, [], **STATE | state)
    assert checksum is not None
    return checksum


def test_a_checksum_follows_from_the_one_before_and_the_commit() -> None:
    a, b, c = add("a", 10), add("b", 20), add("c", 5)
    one = first(a, b, txn_id="t0", in_commit_timestamp=7)
    assert (one.num_files, one.table_size_bytes, one.txn_id, one.in_commit_timestamp_opt) == (2, 30, "t0", 7)
    two = next_checksum(one, 1, [c], [gone(a)], **STATE)
    assert two is not None
    assert (two.num_files, two.table_size_bytes, two.txn_id) == (2, 25, None)
    assert (two.num_metadata, two.num_protocol) == (1, 1)
    assert two.num_deletion_vectors_opt is None


def test_what_is_not_known_is_not_written() -> None:
    a = add("a", 10)
    known = first(a)
    assert next_checksum(None, 1, [a], [], **STATE) is None
    assert next_checksum(known, 1, [], [gone(a, None)], **STATE) is None
    assert next_checksum(msgspec.structs.replace(known, num_files=None), 1, [], [], **STATE) is None
    vague = next_checksum(
        msgspec.structs.replace(known, set_transactions=None), 1, [], [], transactions=[Transaction("a", 1)], **STATE
    )
    assert vague is not None
    assert (vague.set_transactions, vague.domain_metadata) == (None, ())


def test_transactions_and_domains_are_those_that_live() -> None:
    domain, other = DomainMetadata("d", "1"), DomainMetadata("e", "2")
    one = first(transactions=[Transaction("a", 1), Transaction("b", 1)], domains=[domain, other])
    two = next_checksum(
        one, 1, [], [], transactions=[Transaction("a", 2)], domains=[DomainMetadata("d", "", True)], **STATE
    )
    assert two is not None
    assert two.set_transactions == (Transaction("a", 2), Transaction("b", 1))
    assert two.domain_metadata == (other,)


def test_deletion_vectors_are_counted_from_their_feature_on() -> None:
    a = add("a", 10)
    plain = first(a)
    after, state = add("a", 10, deleted=3), STATE | {"protocol": WITH_VECTORS}
    enabled = next_checksum(plain, 1, [after], [gone(a)], **state)
    assert enabled is not None
    assert (enabled.num_files, enabled.num_deletion_vectors_opt, enabled.num_deleted_records_opt) == (1, 1, 3)
    more = next_checksum(enabled, 2, [add("a", 10, deleted=5)], [gone(after)], **state)
    assert more is not None
    assert (more.num_deletion_vectors_opt, more.num_deleted_records_opt) == (1, 5)
    unknown = msgspec.structs.replace(enabled, num_deletion_vectors_opt=None)
    assert (uncounted := next_checksum(unknown, 2, [], [gone(after)], **state)) is not None
    assert (uncounted.num_files, uncounted.num_deletion_vectors_opt, uncounted.num_deleted_records_opt) == (
        0,
        None,
        None,
    )


def test_what_is_written_is_read_again_without_nulls() -> None:
    engine = memory_engine()
    checksum = first(add("a", 1), transactions=[Transaction("a", 1)], protocol=WITH_VECTORS)
    write_checksum(engine, ROOT, 3, checksum)
    path = f"{ROOT}/_delta_log/00000000000000000003.crc"
    assert read_checksum(engine, path) == checksum
    assert b"null" not in engine.storage.read(path)
    stored = json.loads(engine.storage.read(path))
    assert stored["metadata"]["format"] == {"provider": "parquet", "options": {}}
    assert (stored["numMetadata"], stored["numProtocol"]) == (1, 1)


def test_a_checksum_is_never_overwritten_and_never_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = memory_engine()
    path = f"{ROOT}/_delta_log/00000000000000000000.crc"
    engine.storage.write(path, b"other")
    write_checksum(engine, ROOT, 0, first())
    assert engine.storage.read(path) == b"other"

    def refuse(path: str, data: bytes, *, overwrite: bool = False) -> None:
        raise StorageError("the disk is full", path=path)

    monkeypatch.setattr(engine.storage, "write", refuse)
    write_checksum(engine, ROOT, 1, first())


@pytest.mark.parametrize("text", ["", "{", "[]", '{"protocol": {}}', '{"metadata": 1, "protocol": 2}', "\ud800"])
def test_a_damaged_checksum_says_nothing(text: str) -> None:
    engine = memory_engine()
    path = f"{ROOT}/_delta_log/00000000000000000000.crc"
    engine.storage.write(path, text.encode(errors="surrogatepass"))
    assert read_checksum(engine, path) is None
    assert read_checksum(engine, f"{path}.missing") is None


def to_struct(action: Action) -> Add | Remove:
    kind: type[Add] | type[Remove] = Add if "add" in action else Remove
    return msgspec.convert(action[kind.__name__.lower()], kind)


def test_step_by_step_or_counted_whole_it_is_the_same(tmp_path: Path) -> None:
    """As many commits as it takes to add, remove and delete by vector."""
    which = protocol(features=["deletionVectors"])
    table = TableBuilder(default_engine(), str(tmp_path), struct(id="long"), protocol=which)
    files = [table.add({"id": [n, n + 1]}) for n in range(4)]
    old, new = table.delete(files[0], [1])
    for removal, of in ((old, files[0]), (dropped := remove(files[1]), files[1])):
        removal["remove"]["size"] = of["add"]["size"]
    commits = [files[:3], [old, new], [dropped], [files[3]]]
    checksum = None
    for version, actions in enumerate(commits):
        table.create(*actions) if version == 0 else table.commit(*actions)
        structs = [to_struct(action) for action in actions]
        snapshot = table.snapshot()
        checksum = next_checksum(
            checksum,
            version,
            [s for s in structs if isinstance(s, Add)],
            [s for s in structs if isinstance(s, Remove)],
            protocol=snapshot.protocol,
            metadata=snapshot.metadata,
        )
    write_checkpoint(table.engine, table.snapshot())
    assert read_checksum(table.engine, table.log_file(f"{table.version:020d}.crc")) == checksum
    assert rows(table.snapshot()) == [(0,), (2,), (3,), (3,), (4,)]
    assert DeltaTable(tmp_path).version() == 3
