"""`lakeport.sql`: queries over frames by name, and over tables by their quoted targets."""

import gc
from pathlib import Path

import duckdb
import pytest

import lakeport
from lakeport import tables
from lakeport.errors import TableNotFoundError
from tests.properties import FEED


@pytest.fixture
def orders(tmp_path: Path) -> str:
    root = str(tmp_path / "the orders")
    tables.create(root, {"id": [1, 2, 3], "city": ["Oslo", "Cork", "Oslo"]}, properties=FEED)
    tables.append(root, {"id": [4], "city": ["Bari"]})
    return root


def test_a_query_is_over_frames_by_their_names(orders: str) -> None:
    frame = lakeport.scan(orders)
    found = lakeport.sql(
        "select city, count(*) from orders join old using (id, city) group by city order by city",
        orders=frame,
        old=frame.at(version=0),
    )
    assert found.fetchall() == [("Cork", 1), ("Oslo", 2)]
    changed = lakeport.sql("select max(_commit_version) from c", c=frame.changes(0))
    gc.collect()
    assert changed.fetchall() == [(1,)]


def test_a_query_is_over_tables_by_their_quoted_targets(orders: str) -> None:
    assert lakeport.sql(f"select count(*) from '{orders}' where city = 'Oslo'").fetchall() == [(2,)]
    assert lakeport.sql("select max(id) from orders", orders=orders).fetchall() == [(4,)]
    with pytest.raises(TableNotFoundError):
        lakeport.sql("from orders", orders=f"{orders} of nowhere")


def test_python_variables_are_not_tables(orders: str) -> None:
    frame = lakeport.scan(orders).to_arrow()
    with pytest.raises(duckdb.CatalogException, match="frame"):
        lakeport.sql("from frame")
    assert frame.num_rows == 4
