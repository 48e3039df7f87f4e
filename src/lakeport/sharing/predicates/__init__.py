"""Hints of a query, by which a server leaves out files that the client does not need.

Hints are read for the widest that they can mean: a file is left out only if no row in it can match. What cannot be
read is refused here, and then is to be ignored.
"""

from lakeport.sharing.predicates.formatting import format_json_predicate
from lakeport.sharing.predicates.json import parse_json_predicate
from lakeport.sharing.predicates.sql import parse_sql_predicate

__all__ = ["format_json_predicate", "parse_json_predicate", "parse_sql_predicate"]
