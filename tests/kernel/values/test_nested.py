"""Nested arrays, taken apart and put together."""

import pyarrow as pa
import pytest

from lakeport.kernel.values import (
    child_arrays,
    child_fields,
    child_names,
    is_any_list,
    item_offsets,
    visible_children,
    with_children,
    with_items,
)

LISTS = pa.array([[1, 2], None, [], [3]], pa.list_(pa.int64()))
MAPS = pa.array([[("a", 1), ("b", None)], None, [], [("c", 3)]], pa.map_(pa.string(), pa.int64()))
STRUCTS = pa.array([{"a": 1, "b": "x"}, None, {"a": None, "b": "y"}])
EMPTY = pa.array([{}, None, {}], pa.struct([]))


@pytest.mark.parametrize("array", [LISTS, MAPS, STRUCTS, EMPTY])
def test_an_array_is_its_children_put_together(array: pa.Array) -> None:
    for part in (array, array.slice(1), array.slice(0, 2), array.slice(1, 1), array.slice(0, 0)):
        assert with_children(part, part.type, child_arrays(part)).to_pylist() == part.to_pylist()


def test_the_types_of_the_children_win() -> None:
    wide = with_children(LISTS, LISTS.type, [LISTS.values.cast(pa.float64())])
    assert wide.type == pa.list_(pa.float64())
    assert wide.to_pylist() == LISTS.to_pylist()


@pytest.mark.parametrize("array", [LISTS, MAPS, LISTS.cast(pa.large_list(pa.int64()))])
def test_visible_items_are_those_of_the_rows(array: pa.Array) -> None:
    target = MAPS.type if pa.types.is_map(array.type) else LISTS.type
    for part in (array, array.slice(1), array.slice(3), array.slice(0, 1)):
        offsets, children = item_offsets(part), visible_children(part)
        assert offsets[-1] == len(children[0]) == sum(len(row or []) for row in part.to_pylist())
        assert with_items(part, target, offsets, children).to_pylist() == part.to_pylist()


def test_items_of_null_lists_are_not_visible() -> None:
    validity = pa.py_buffer(bytes([0b101]))
    offsets = pa.py_buffer(b"".join(n.to_bytes(4, "little") for n in (0, 1, 2, 3)))
    hidden = pa.Array.from_buffers(pa.list_(pa.int64()), 3, [validity, offsets], children=[pa.array([1, 2, 3])])
    assert visible_children(hidden)[0].to_pylist() == [1, 3]
    assert item_offsets(hidden).tolist() == [0, 1, 1, 2]
    assert child_arrays(hidden)[0].to_pylist() == [1, 2, 3]


def test_children_of_a_null_struct_are_null() -> None:
    assert visible_children(STRUCTS)[1].to_pylist() == ["x", None, "y"]


def test_children_have_names_whatever_arrow_calls_them() -> None:
    assert child_names(LISTS.type) == ["element"]
    assert [field.name for field in child_fields(LISTS.type)] == ["item"]
    assert child_names(MAPS.type) == ["key", "value"]
    assert child_names(STRUCTS.type) == ["a", "b"]
    assert child_names(pa.int64()) == child_fields(pa.int64()) == child_arrays(pa.array([1])) == []


@pytest.mark.parametrize("kind", [pa.list_, pa.large_list, pa.list_view, pa.large_list_view, lambda t: pa.list_(t, 2)])
def test_every_kind_of_list_is_one(kind: object) -> None:
    assert callable(kind)
    data_type = kind(pa.int64())
    assert is_any_list(data_type)
    assert len(child_fields(data_type)) == 1
    assert not is_any_list(pa.int64())
