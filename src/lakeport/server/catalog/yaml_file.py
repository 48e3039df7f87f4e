"""YAML settings files: read, expanded from the environment, and converted, with errors that name the key."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar, get_args

import msgspec
import yaml

from lakeport.errors import CatalogError

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_PLACE = re.compile(r" - at `\$\.?(.*)`$")
_NULL, _MERGE = "tag:yaml.org,2002:null", "tag:yaml.org,2002:merge"

T = TypeVar("T")


class _TextLoader(yaml.SafeLoader):
    """Keeps scalars as text, because the type of a setting decides what they mean: a share may be called `2024` or
    `no`, and timestamps stay text. Only null is null."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - overrides PyYAML's
        first: [(tag, pattern) for tag, pattern in pairs if tag in (_NULL, _MERGE)]
        for first, pairs in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if key.tag != _MERGE and str(key.value) in seen:
                raise yaml.constructor.ConstructorError(None, None, f"duplicate key {key.value}", key.start_mark)
            seen.add(str(key.value))
        return super().construct_mapping(node, deep)


def read_yaml(path: str | Path) -> dict[str, Any]:
    """The mapping in the file, with `${NAME}` replaced from the environment.

    Raises `CatalogError` if the file is not YAML or not a mapping, or if a variable is not set."""
    try:
        with Path(path).open(encoding="utf-8") as file:
            document = yaml.load(file, _TextLoader)  # a SafeLoader
    except UnicodeDecodeError:
        raise CatalogError(f"{path} is not a UTF-8 text file") from None
    except yaml.MarkedYAMLError as error:  # its snippet of the file might contain a secret
        mark = error.problem_mark
        place = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise CatalogError(f"{path} is not valid YAML: {error.problem}{place}") from None
    except (yaml.YAMLError, RecursionError) as error:
        raise CatalogError(f"{path} is not valid YAML ({type(error).__name__})") from None
    if not isinstance(document, dict):
        raise CatalogError(f"{path} has no settings: it must be a mapping of keys to values")
    filled: dict[str, Any] = _filled(document, "", path)
    return filled


def convert(document: Mapping[str, Any], kind: type[T], path: str | Path) -> T:
    """Convert the document to settings; null means missing.

    Raises `CatalogError` that names the key but never shows its value."""
    try:
        return msgspec.convert(_without_nulls(document), kind, strict=False)
    except msgspec.ValidationError as error:
        text = str(error)
        place = _PLACE.search(text)
        key = place[1] if place else ""
        reason = text[: place.start()] if place else text
        raise CatalogError(f"{path}: {key + ': ' if key else ''}{reason[0].lower()}{reason[1:]}") from None


def unknown_keys(value: Any, kind: Any, key: str = "") -> Iterator[str]:
    """The keys of a document that the settings do not have."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from unknown_keys(item, kind, f"{key}[{index}]")
    elif isinstance(value, dict) and (struct := _struct(kind)) is not None:
        fields = {field.encode_name: field.type for field in msgspec.structs.fields(struct)}
        for name, inner in value.items():
            if name not in fields:
                yield _below(key, name)
            else:
                yield from unknown_keys(inner, fields[name], _below(key, name))


def empty_keys(value: Any, key: str = "") -> Iterator[str]:
    """The keys and list positions of a document whose value is missing or an empty list."""
    if value is None or value == []:
        yield key
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from empty_keys(item, f"{key}[{index}]")
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield from empty_keys(inner, _below(key, name))


def _struct(kind: Any) -> type[msgspec.Struct] | None:
    """The settings type inside `X`, `X | None`, `tuple[X, ...]` and the like."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return kind
    return next((found for part in get_args(kind) if (found := _struct(part)) is not None), None)


def _filled(value: Any, key: str, path: str | Path) -> Any:
    if isinstance(value, dict):
        return {str(k): _filled(v, _below(key, k), path) for k, v in value.items()}
    if isinstance(value, list):
        return [_filled(v, f"{key}[{i}]", path) for i, v in enumerate(value)]
    if value is None:
        return None
    return _VARIABLE.sub(lambda found: _variable(found[1], key, path), str(value))


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_nulls(v) for k, v in value.items() if v is not None}
    if isinstance(value, list):
        return [_without_nulls(v) for v in value if v is not None]
    return value


def _variable(name: str, key: str, path: str | Path) -> str:
    try:
        return os.environ[name]
    except KeyError:
        raise CatalogError(f"{path}: {key}: the environment variable {name} is not set") from None


def _below(key: str, name: object) -> str:
    return f"{key}.{name}" if key else str(name)
