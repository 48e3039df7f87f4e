"""Predicate hints of a query, with which a server skips files.

Hints are read in their widest sense: a file is skipped only if no row in it can match. Invalid hints raise here;
callers ignore them.
"""

from lakeport.sharing.predicates.formatting import format_json_predicate
from lakeport.sharing.predicates.json import parse_json_predicate
from lakeport.sharing.predicates.sql import parse_sql_predicate

__all__ = ["format_json_predicate", "parse_json_predicate", "parse_sql_predicate"]
