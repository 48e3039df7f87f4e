import json

import pytest

from lakeport.spark.stream.offsets import StreamOffset, format_offset, parse_offset

OFFSET = StreamOffset("an-id", 7, 3, True)


def test_an_offset_has_the_shape_of_the_jvm_connector() -> None:
    assert json.dumps(format_offset(OFFSET)) == (
        '{"sourceVersion": 1, "tableId": "an-id", "tableVersion": 7, "index": 3, "isStartingVersion": true}'
    )


def test_an_offset_comes_back_from_a_checkpoint_as_the_same_text() -> None:
    text = json.dumps(format_offset(OFFSET))
    parsed = parse_offset(json.loads(text))
    assert parsed == OFFSET
    assert json.dumps(format_offset(parsed)) == text


def test_offsets_that_the_jvm_connector_wrote_are_understood() -> None:
    written = '{"sourceVersion":1,"tableId":"an-id","tableVersion":8,"index":-1,"isStartingVersion":false}'
    assert parse_offset(json.loads(written)) == StreamOffset("an-id", 8)


def test_positions_grow_within_a_version_and_from_one_to_the_next() -> None:
    start = StreamOffset("an-id", 2, is_starting_version=True)
    later = start.after(3)
    assert (later.index, later.is_starting_version) == (2, True)
    assert later.next_version() == StreamOffset("an-id", 3)
    assert start.position < later.position < later.next_version().position


@pytest.mark.parametrize("key", ["sourceVersion", "tableId", "tableVersion", "index", "isStartingVersion"])
def test_an_offset_that_lacks_something_says_what(key: str) -> None:
    given = {name: value for name, value in format_offset(OFFSET).items() if name != key}
    with pytest.raises(ValueError, match=key):
        parse_offset(given)


def test_an_offset_of_a_later_shape_is_refused() -> None:
    with pytest.raises(ValueError, match="has format 2, but"):
        parse_offset({**format_offset(OFFSET), "sourceVersion": 2})


def test_an_offset_of_another_source_is_refused() -> None:
    with pytest.raises(ValueError, match="from another source"):
        parse_offset({"reservoirId": "an-id", "reservoirVersion": 3, "index": 0, "sourceVersion": 1})


@pytest.mark.parametrize(("key", "value"), [("tableVersion", -1), ("index", -2), ("index", True)])
def test_an_offset_that_cannot_be_is_refused(key: str, value: object) -> None:
    with pytest.raises(ValueError, match=r"the checkpoint has (an invalid offset|no valid 'index')"):
        parse_offset({**format_offset(OFFSET), key: value})
