"""Answers of servers that this project did not write: those that the protocol's document shows, served as they stand.

Only what cannot be kept is replaced: the host of the files, and their sizes, since the files are made here.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeport.frame import Frame
from lakeport.testing.http import Asked, Steps, reply, scripted
from tests.client.reading import frame_of, server_at
from tests.client.timing import pool
from tests.conftest import require_shared

pytestmark = pytest.mark.shared

HOST = re.compile(r"https://<s3-bucket-name>[^/]*")
SNAPSHOT = "#### Example for snapshot query"
CHANGES = "changes?startingVersion=0&endingVersion=2`"
METADATA = "tables/table_name/metadata`"
EARLY, LATE = datetime(2021, 4, 28, 23, 33, 48, 719000, UTC), datetime(2021, 4, 28, 23, 33, 57, 955000, UTC)
DAY = date(2021, 4, 28)


@pytest.fixture(scope="module")
def document() -> str:
    return (require_shared() / "spec" / "PROTOCOL.md").read_text(encoding="utf-8")


def example(document: str, after: str) -> list[dict[str, Any]]:
    """The objects of the answer that is shown after a text: the first block that begins with a protocol, or the first
    one if there is none such."""
    blocks = re.findall(r"```json\n(.*?)```", document[document.index(after) :], re.DOTALL)
    shown = [objects(block) for block in blocks[:2]]
    return next((found for found in shown if "protocol" in found[0]), shown[0])


def objects(text: str) -> list[dict[str, Any]]:
    decoder, found, position = json.JSONDecoder(), [], 0
    while text[position:].strip():
        position += len(text[position:]) - len(text[position:].lstrip())
        value, position = decoder.raw_decode(text, position)
        found.append(value)
    return found


def data_file(moment: datetime, **more: str) -> bytes:
    content = io.BytesIO()
    pq.write_table(
        pa.table({"eventTime": pa.array([moment], pa.timestamp("us", "UTC")), **more_columns(more)}), content
    )
    return content.getvalue()


def more_columns(values: dict[str, str]) -> dict[str, pa.Array]:
    return {name: pa.array([value]) for name, value in values.items()}


FILES = {
    "8b0086f2-7b27-4935-ac5a-8ed6215a6640": data_file(LATE),
    "591723a8-6a27-4240-a90e-57426f4736d2": data_file(EARLY),
}
CHANGED = data_file(EARLY, _change_type="update_postimage")


@dataclass
class Recorded:
    """Serves answers by the ends of paths, and the files. `names` are the paths that were asked for."""

    answers: dict[str, tuple[list[dict[str, Any]], dict[str, str]]]
    url: str = ""
    names: list[str] = field(default_factory=list)

    def __call__(self, asked: Asked) -> Steps:
        self.names.append(asked.path.rpartition("/")[2])
        if asked.path.endswith(".parquet"):
            return self._file(asked)
        lines, headers = self.answers[self.names[-1]]
        text = "".join(json.dumps(sized(line)) + "\n" for line in lines)
        return reply(HOST.sub(self.url, text).encode(), headers=headers)

    def _file(self, asked: Asked) -> Steps:
        content = content_of(asked.path)
        first, last = map(int, asked.headers["range"].removeprefix("bytes=").split("-"))
        return reply(content[first : last + 1], 206, {"content-range": f"bytes {first}-{last}/{len(content)}"})


def content_of(path: str) -> bytes:
    return CHANGED if "_change_data" in path else next(data for id, data in FILES.items() if id in path)


def sized(line: dict[str, Any]) -> dict[str, Any]:
    """The line with the size that the file has here."""
    (kind,) = line
    path = str(line[kind].get("url") or line[kind].get("deltaSingleAction", ""))
    return {kind: {**line[kind], "size": len(content_of(path))}} if "size" in line[kind] and path else line


@pytest.fixture
def recorded(document: str) -> Iterator[Recorded]:
    version = {"delta-table-version": "123", "content-type": "application/x-ndjson; charset=utf-8"}
    served = Recorded(
        {
            "query": (example(document, SNAPSHOT), version),
            "metadata": (example(document, METADATA), version),
            "changes": (example(document, CHANGES), {**version, "delta-table-version": "0"}),
        }
    )
    with scripted(served) as server:
        served.url = server.url
        yield served


def frame(recorded: Recorded) -> Frame:
    return frame_of(server_at(recorded.url, pool()), "share_name.schema_name.table_name")


def test_the_snapshot_in_the_parquet_format(recorded: Recorded) -> None:
    found = frame(recorded).to_arrow()
    assert sorted(found.column("eventTime").to_pylist()) == [EARLY, LATE]
    assert found.column("date").to_pylist() == [DAY, DAY]
    assert frame(recorded).version == 123


def test_the_schema_comes_from_the_metadata_alone(recorded: Recorded) -> None:
    assert frame(recorded).schema.names == ["eventTime", "date"]
    assert recorded.names == ["metadata"]


def test_files_are_skipped_by_the_statistics_that_are_shown(recorded: Recorded) -> None:
    found = frame(recorded).where("eventTime > TIMESTAMP '2021-04-28T23:33:50Z'").to_arrow()
    assert found.column("eventTime").to_pylist() == [LATE]
    assert len([name for name in recorded.names if name.endswith(".parquet")]) == 1


def test_the_count_is_told_by_the_statistics(recorded: Recorded) -> None:
    assert frame(recorded).count() == 2
    assert recorded.names == ["query"]


def test_the_changes_in_the_parquet_format(recorded: Recorded) -> None:
    found = frame(recorded).changes(0, 2).to_arrow().to_pylist()
    kinds = [(row["_change_type"], row["_commit_version"], row["eventTime"]) for row in found]
    assert kinds == [("insert", 0, LATE), ("update_postimage", 1, EARLY), ("delete", 2, LATE)]
    times = [int(row["_commit_timestamp"].timestamp() * 1000) for row in found]
    assert times == [1652140000000, 1652141000000, 1652142000000]


@pytest.fixture
def in_delta(document: str, recorded: Recorded) -> Recorded:
    headings = ("### Protocol in Delta Format", "### Metadata in Delta Format", "### File in Delta Format")
    lines = [line for heading in headings for line in example(document, heading)]
    headers = {"delta-table-version": "20", "delta-sharing-capabilities": "responseformat=delta"}
    recorded.answers["query"] = (lines, headers)
    return recorded


def test_the_snapshot_in_the_delta_format(in_delta: Recorded) -> None:
    """The URLs that are shown have expired long ago: others are asked for, and those that come are taken."""
    found = frame(in_delta)
    assert found.to_arrow().to_pylist() == [{"eventTime": EARLY, "date": DAY}]
    assert found.version == 20


def test_the_document_is_the_one_that_is_meant(document: str) -> None:
    assert [next(iter(line)) for line in example(document, SNAPSHOT)] == ["protocol", "metaData", "file", "file"]
    assert [next(iter(line)) for line in example(document, CHANGES)][2:] == ["add", "cdf", "remove"]
