"""Write options, with the names used by Delta's own connector.

Spark passes neither a writer's `partitionBy` nor the case of option names. So a new table's partition columns are an
option here, and table properties are matched regardless of case.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, Self

import msgspec

from lakeport.kernel.definition import spelled_property
from lakeport.kernel.schema import parse_column_list
from lakeport.sharing.names import is_table_url
from lakeport.spark.options.parsing import Flag, Form, Number, Options, word


def _columns(text: str) -> tuple[str, ...] | None:
    paths = parse_column_list(text)
    return None if any(len(path) > 1 for path in paths) else tuple(path[0] for path in paths)


class WriteOptions(Options, frozen=True, kw_only=True):
    """`parse` raises `ValueError` for invalid options."""

    path: Annotated[str, Form("the path of a table", str.strip)] = ""
    partition_by: Annotated[
        tuple[str, ...] | None, Form("a list of columns, as 'day, region' (put dots in backticks)", _columns)
    ] = None
    """None if not given: a new table is then unpartitioned, an existing one keeps its partitioning."""
    merge_schema: Flag = False
    overwrite_schema: Flag = False
    replace_where: str | None = None
    partition_overwrite_mode: Annotated[Literal["dynamic", "static"], word("dynamic", "static")] = "static"
    txn_app_id: str | None = None
    txn_version: Number = None
    checkpoint_location: str | None = None
    """Like the next one, for Spark itself."""
    query_name: str | None = None
    delta: Mapping[str, str] = msgspec.field(default_factory=dict, name="delta.")
    storage_options: Mapping[str, str] = msgspec.field(default_factory=dict, name="storage.")

    @classmethod
    def parse(cls, options: Mapping[str, str], *, overwrite: bool, stream: bool = False) -> Self:
        """Parse write options; `overwrite` is Spark's flag for overwrite and complete mode."""
        parsed = cls.read(options)
        parsed._check()
        parsed._check_mode(overwrite)
        if stream:
            parsed._check_stream()
        elif (parsed.txn_app_id is None) != (parsed.txn_version is None):
            raise ValueError("txnAppId and txnVersion work only together: give both")
        return parsed

    @property
    def application(self) -> tuple[str, int] | None:
        """The application id and version of a batch, if given."""
        return None if self.txn_app_id is None or self.txn_version is None else (self.txn_app_id, self.txn_version)

    @property
    def properties(self) -> dict[str, str]:
        """Table properties, for a new table."""
        return {spelled_property(f"delta.{name}"): value for name, value in self.delta.items()}

    @property
    def partitions(self) -> Literal["all", "dynamic"]:
        """The partitions that an overwrite replaces."""
        return "dynamic" if self.partition_overwrite_mode == "dynamic" else "all"

    def _check(self) -> None:
        if not self.path:
            raise ValueError("no table was given: save('the path of a table'), or the option path")
        if is_table_url(self.path):
            raise ValueError(f"{self.path!r} names a shared table, which can only be read: give the path of a table")
        if self.txn_app_id == "":
            raise ValueError("the option txnAppId is empty: give a name that no other application uses")

    def _check_mode(self, overwrite: bool) -> None:
        where = ("replaceWhere", self.replace_where is not None)
        dynamic = ("partitionOverwriteMode=dynamic", self.partitions == "dynamic")
        if not overwrite:
            _refuse("needs the mode overwrite", where, dynamic, ("overwriteSchema", self.overwrite_schema))
        if self.overwrite_schema:
            _refuse("cannot be combined with overwriteSchema", where, dynamic, ("mergeSchema", self.merge_schema))
        if self.replace_where is not None:
            _refuse("cannot be combined with replaceWhere", dynamic)

    def _check_stream(self) -> None:
        if self.txn_version is not None:
            raise ValueError("leave out txnVersion: a stream uses the number of each batch")
        if self.replace_where is not None or self.partitions == "dynamic":
            raise ValueError("a stream in complete mode replaces the whole table: leave out replaceWhere and dynamic")


def _refuse(why: str, *options: tuple[str, bool]) -> None:
    """Raises `ValueError` for the first option that is given."""
    for name, is_given in options:
        if is_given:
            raise ValueError(f"the option {name} {why}")
