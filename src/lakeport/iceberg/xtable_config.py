"""Apache XTable's dataset configuration, usable unchanged.

sourceFormat: DELTA
targetFormats: [ICEBERG]
datasets:
  - tableBasePath: s3://bucket/orders
    tableName: orders
    namespace: sales.eu
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec


@dataclass(frozen=True)
class Dataset:
    """A Delta table to convert, and its name in a catalog."""

    path: str
    name: str
    namespace: str | None = None

    @property
    def identifier(self) -> str:
        """The name in a catalog."""
        return f"{self.namespace or 'default'}.{self.name}"


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    table_base_path: str
    table_name: str | None = None
    namespace: str | None = None
    table_data_path: str | None = None
    partition_spec: str | None = None
    """This and `table_data_path` are for other formats: Delta's log has both."""


class _Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    datasets: list[_Table]
    source_format: str = "DELTA"
    target_formats: list[str] = []


def parse_datasets(text: str) -> tuple[Dataset, ...]:
    """The datasets of a configuration. Raises `ValueError` if it is malformed, or asks for other formats."""
    config = _parse(text)
    if config.source_format.upper() != "DELTA":
        raise ValueError(f"sourceFormat is {config.source_format}, but Lakeport converts only from DELTA")
    others = [name for name in config.target_formats if name.upper() != "ICEBERG"]
    if others:
        raise ValueError(f"targetFormats has {', '.join(others)}, but Lakeport converts only to ICEBERG")
    return tuple(_dataset(table) for table in config.datasets)


def _parse(text: str) -> _Config:
    import yaml  # from the extra `iceberg`

    try:
        return msgspec.convert(yaml.safe_load(text), _Config)
    except (yaml.YAMLError, msgspec.ValidationError) as error:
        raise ValueError(f"this is not a configuration of datasets: {error}") from error


def _dataset(table: _Table) -> Dataset:
    path = table.table_base_path.rstrip("/")
    return Dataset(path, table.table_name or path.rpartition("/")[2], table.namespace)
