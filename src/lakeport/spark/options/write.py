"""Write options, with the names used by Delta's own connector.

Spark passes neither a writer's `partitionBy` nor the case of option names. So a new table's partition columns are an
option here, and table properties are matched regardless of case.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Self

from lakeport.kernel.definition import spelled_property
from lakeport.kernel.schema import parse_column_list
from lakeport.sharing.names import is_table_url
from lakeport.spark.options.given import GivenOptions

_PROPERTY = "delta."
_SPARKS_OWN = ("checkpointLocation", "queryName")
_KNOWN = (
    "path",
    "partitionBy",
    "mergeSchema",
    "overwriteSchema",
    "replaceWhere",
    "partitionOverwriteMode",
    "txnAppId",
    "txnVersion",
)


@dataclass(frozen=True, kw_only=True)
class WriteOptions:
    """`parse` raises `ValueError` for invalid options."""

    target: str
    partition_by: tuple[str, ...] | None = None
    """None if not given: a new table is then unpartitioned, an existing one keeps its partitioning."""
    properties: Mapping[str, str] = field(default_factory=dict)
    """Table properties, for a new table."""
    merge_schema: bool = False
    overwrite_schema: bool = False
    replace_where: str | None = None
    partitions: Literal["all", "dynamic"] = "all"
    """The partitions that an overwrite replaces."""
    app_id: str | None = None
    app_version: int | None = None
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def parse(cls, options: Mapping[str, str], *, overwrite: bool, stream: bool = False) -> Self:
        """Parse write options; `overwrite` is Spark's flag for overwrite and complete mode."""
        given = GivenOptions(options, (*_KNOWN, *_SPARKS_OWN), prefixes=(_PROPERTY,))
        parsed = cls(
            target=_target(given),
            partition_by=_columns(given, "partitionBy"),
            properties=_properties(options),
            merge_schema=given.flag("mergeSchema"),
            overwrite_schema=given.flag("overwriteSchema"),
            replace_where=given.text("replaceWhere"),
            partitions="dynamic" if given.word("partitionOverwriteMode", ("dynamic", "static")) == "dynamic" else "all",
            app_id=_name(given, "txnAppId"),
            app_version=given.number("txnVersion"),
            storage_options=given.storage_options,
        )
        parsed._check_mode(overwrite)
        if stream:
            parsed._check_stream()
        elif (parsed.app_id is None) != (parsed.app_version is None):
            raise ValueError("txnAppId names the caller's own work, and txnVersion counts it: give both")
        return parsed

    @property
    def application(self) -> tuple[str, int] | None:
        """The application id and version of a batch, if given."""
        return None if self.app_id is None or self.app_version is None else (self.app_id, self.app_version)

    def _check_mode(self, overwrite: bool) -> None:
        where = ("replaceWhere", self.replace_where is not None)
        dynamic = ("partitionOverwriteMode=dynamic", self.partitions == "dynamic")
        if not overwrite:
            _refuse("goes with the mode overwrite only", where, dynamic, ("overwriteSchema", self.overwrite_schema))
        if self.overwrite_schema:
            _refuse("does not go with overwriteSchema", where, dynamic, ("mergeSchema", self.merge_schema))
        if self.replace_where is not None:
            _refuse("does not go with replaceWhere", dynamic)

    def _check_stream(self) -> None:
        if self.app_version is not None:
            raise ValueError("a stream has no txnVersion: the number of each batch is the version")
        if self.replace_where is not None or self.partitions == "dynamic":
            raise ValueError("a stream in complete mode replaces the whole table: leave out replaceWhere and dynamic")


def _refuse(why: str, *options: tuple[str, bool]) -> None:
    """Raises `ValueError` for the first option that is given."""
    for name, is_given in options:
        if is_given:
            raise ValueError(f"the option {name} {why}")


def _target(given: GivenOptions) -> str:
    if not (target := (given.text("path") or "").strip()):
        raise ValueError("no table was given: save('the path of a table'), or the option path")
    if is_table_url(target):
        raise ValueError(f"{target!r} names a shared table, which can only be read: give the path of a table")
    return target


def _name(given: GivenOptions, name: str) -> str | None:
    text = given.text(name)
    if text == "":
        raise ValueError(f"the option {name} is empty: give a name that no other application has")
    return text


def _columns(given: GivenOptions, name: str) -> tuple[str, ...] | None:
    text = given.text(name)
    if text is None:
        return None
    paths = parse_column_list(text)
    if any(len(path) > 1 for path in paths):
        raise ValueError(
            f"the option {name} is a list of columns, as 'day, region', not {text!r}; put dots in backticks"
        )
    return tuple(path[0] for path in paths)


def _properties(options: Mapping[str, str]) -> dict[str, str]:
    return {spelled_property(key): value for key, value in options.items() if key.lower().startswith(_PROPERTY)}
