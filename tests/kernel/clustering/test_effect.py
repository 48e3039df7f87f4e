"""The files that filters read, by their statistics."""

import json

from lakeport.engine import default_engine
from lakeport.kernel.clustering import FilterCost, costs_of_filters
from lakeport.kernel.schema import parse_schema_text

SCHEMA = parse_schema_text("a long, s struct<b: string>")


def stats(least: int, greatest: int, texts: str | None) -> str:
    low, high = ({"b": texts[0]}, {"b": texts[1]}) if texts else ({}, {})
    values = {"minValues": {"a": least, "s": low}, "maxValues": {"a": greatest, "s": high}}
    return json.dumps({"numRecords": 5, **values, "nullCount": {"a": 0, "s": {"b": 0 if texts else 5}}})


FILES = [(stats(0, 9, "mz"), 100), (stats(5, 19, "af"), 20), (stats(20, 29, None), 3), (None, 1000)]


def test_a_filter_reads_the_files_whose_bounds_admit_it() -> None:
    rows = [{("a",): 7, ("s", "b"): "n"}, {("a",): 25, ("s", "b"): None}]
    both, first, second = costs_of_filters(default_engine(None), SCHEMA, "none", FILES, rows)
    assert both == FilterCost(("a", "s.b"), 2.0, (1100 + 1003) / 2, 4, 1123)
    assert first == FilterCost(("a",), 2.5, (1120 + 1003) / 2, 4, 1123)
    assert second == FilterCost(("s.b",), 2.0, (1100 + 1003) / 2, 4, 1123)


def test_one_column_has_one_cost_and_no_row_none() -> None:
    [cost] = costs_of_filters(default_engine(None), SCHEMA, "none", FILES, [{("a",): 100}])
    assert (cost.files, cost.bytes) == (1, 1000)
    assert costs_of_filters(default_engine(None), SCHEMA, "none", FILES, []) == []
