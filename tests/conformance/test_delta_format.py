"""The lines of an answer in the delta format."""

from __future__ import annotations

import json

import pytest

from tests.conformance.reading import fetch
from tests.conformance.roles import ROLES
from tests.conformance.target import DELTA, Answer, SharedTable, Target

pytestmark = pytest.mark.section("API Response Actions in Delta Format")


@pytest.mark.section("JSON Wrapper Object In Each Line in Delta")
@pytest.mark.parametrize("role", list(ROLES))
def test_a_line_has_one_thing_in_it(target: Target, role: str) -> None:
    answer = target.table(role).query(DELTA)
    assert all(len(line) == 1 and set(line) <= {"protocol", "metaData", "file"} for line in answer.lines)
    assert all(len(file.body["deltaSingleAction"]) == 1 for file in answer.files)


@pytest.mark.section("Protocol in Delta Format")
def test_the_protocol_is_that_of_the_table(plain: SharedTable, vectors: SharedTable, mapped: SharedTable) -> None:
    for table in (plain, vectors, mapped):
        assert set(table.query(DELTA).protocol) == {"deltaProtocol"}
    assert plain.query(DELTA).protocol["deltaProtocol"]["minReaderVersion"] == 1
    protocol = vectors.query(DELTA).protocol["deltaProtocol"]
    assert (protocol["minReaderVersion"], protocol["minWriterVersion"]) == (3, 7)
    assert "deletionVectors" in protocol["readerFeatures"]
    assert "deletionVectors" in protocol["writerFeatures"]
    protocol = mapped.query(DELTA).protocol["deltaProtocol"]
    assert protocol["minReaderVersion"] == 2 or "columnMapping" in protocol["readerFeatures"]


@pytest.mark.section("Metadata in Delta Format", "What clients need")
@pytest.mark.parametrize("role", list(ROLES))
def test_the_metadata_are_those_of_the_table(target: Target, role: str) -> None:
    answer = target.table(role).query(DELTA)
    known = {"deltaMetadata", "version", "size", "numFiles", "location", "auxiliaryLocations", "accessModes"}
    assert {"deltaMetadata", "size", "numFiles"} <= set(answer.metadata) <= known
    delta = answer.delta_metadata
    assert {"id", "format", "schemaString", "partitionColumns", "configuration"} <= set(delta)
    assert delta["format"] == {"provider": "parquet", "options": {}}
    assert None not in delta.values()
    assert answer.metadata["numFiles"] == len(answer.files)
    assert answer.metadata["size"] == sum(file.action["size"] for file in answer.files)


@pytest.mark.section("Metadata in Delta Format")
def test_the_metadata_keep_what_delta_notes_on_columns(mapped: SharedTable) -> None:
    answer = mapped.query(DELTA)
    assert answer.delta_metadata["configuration"]["delta.columnMapping.mode"] == "name"
    physical = {field["name"]: field["metadata"]["delta.columnMapping.physicalName"] for field in answer.fields}
    assert set(physical) == {"id", "name", "Sum total", "day"}
    for file in answer.files:
        assert set(file.action["partitionValues"]) == {physical["day"]}


@pytest.mark.section("File in Delta Format", "What clients need")
@pytest.mark.parametrize("role", list(ROLES))
def test_a_file_has_what_is_required(target: Target, role: str) -> None:
    known = {"id", "deletionVectorFileId", "version", "timestamp", "expirationTimestamp", "deltaSingleAction", "size"}
    answer = target.table(role).query(DELTA)
    for file in answer.files:
        assert {"id", "deltaSingleAction"} <= set(file.body) <= known
        assert set(file.body["deltaSingleAction"]) == {"add"}
        assert {"path", "partitionValues", "size", "modificationTime", "dataChange"} <= set(file.action)
        assert isinstance(file.action["modificationTime"], int)
        assert isinstance(file.action["dataChange"], bool)
        assert None not in file.action.values()
        assert len(fetch(file.url)) == file.action["size"] == file.body.get("size", file.action["size"])
    assert len({file.body["id"] for file in answer.files}) == len(answer.files)


@pytest.mark.section("File in Delta Format", "What clients need")
@pytest.mark.parametrize("role", ["feed", "vectors", "mapped"])
def test_a_file_of_changes_has_what_is_required(target: Target, role: str) -> None:
    table = target.table(role)
    for answer in (table.changes(DELTA, startingVersion=2), table.query(DELTA, startingVersion=0)):
        assert answer.files
        for file in answer.files:
            assert {"id", "deltaSingleAction", "version", "timestamp"} <= set(file.body)
            assert {"path", "partitionValues", "size", "dataChange"} <= set(file.action)
            assert len(fetch(file.url)) == file.action["size"]
            assert None not in file.action.values()


@pytest.mark.section("File in Delta Format", "What clients need")
def test_a_deletion_vector_is_a_signed_file_or_inline(vectors: SharedTable) -> None:
    answers = [
        vectors.query(DELTA),
        *(vectors.query(DELTA, version=version) for version in range(5)),
        vectors.query(DELTA, startingVersion=0),
        vectors.changes(DELTA, startingVersion=0),
    ]
    seen = 0
    for file in (file for answer in answers for file in answer.files):
        vector = file.action.get("deletionVector")
        if vector is None:
            assert "deletionVectorFileId" not in file.body
        elif vector["storageType"] == "p":
            content = fetch(vector["pathOrInlineDv"])
            assert len(content) >= vector["offset"] + vector["sizeInBytes"]
            assert vector["cardinality"] > 0
            assert file.body["deletionVectorFileId"]
            seen += 1
        else:
            assert vector["storageType"] == "i"
            assert "deletionVectorFileId" not in file.body
            seen += 1
    vectors.target.requires("deletion vectors", present=seen > 0)


@pytest.mark.section("File in Delta Format")
def test_ids_of_files_and_vectors_are_the_same_in_every_answer(vectors: SharedTable) -> None:
    def ids(answer: Answer) -> set[tuple[str, str | None]]:
        return {(f.body["id"], f.body.get("deletionVectorFileId")) for f in answer.files if f.kind == "add"}

    assert ids(vectors.query(DELTA)) == ids(vectors.query(DELTA)) == ids(vectors.query(DELTA, version=4))
    assert ids(vectors.query(DELTA)) <= ids(vectors.query(DELTA, startingVersion=0))


@pytest.mark.section("File in Delta Format")
def test_statistics_stay_as_the_log_has_them(vectors: SharedTable) -> None:
    for file in vectors.query(DELTA).files:
        assert json.loads(file.action["stats"])["numRecords"] > 0


@pytest.mark.section("What clients need")
def test_urls_have_the_sign_of_a_store_in_their_query(plain: SharedTable) -> None:
    signs = ("X-Amz-Signature=", "sp=", "X-Goog-Credential=", "X-OSS-Credential=", "X-Databricks-Signature=")
    for file in plain.query(DELTA).files:
        assert any(sign in file.url.partition("?")[2] for sign in signs)
