"""The manifest: what each table is, from its log and from what its writer said."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

Entry = dict[str, Any]
Action = dict[str, Any]

COMMIT = re.compile(r"^(\d{20})\.json$")
COMPACTION = re.compile(r"^\d{20}\.\d{20}\.compacted\.json$")
CHECKPOINTS = {
    "classic": re.compile(r"^(\d{20})\.checkpoint\.parquet$"),
    "multipart({}/{})": re.compile(r"^(\d{20})\.checkpoint\.(\d{10})\.(\d{10})\.parquet$"),
    "v2-uuid-json": re.compile(r"^(\d{20})\.checkpoint\.[0-9a-f-]{36}\.json$"),
    "v2-uuid-parquet": re.compile(r"^(\d{20})\.checkpoint\.[0-9a-f-]{36}\.parquet$"),
}
STATE = {"add", "txn", "domainMetadata", "protocol", "metaData", "sidecar"}
TAGGED_TYPES = {"array", "binary", "decimal", "map", "struct", "timestamp", "timestamp_ntz", "variant", "void"}


def describe(corpus: Path, name: str, writer: str) -> Entry:
    """The entry of a table in the manifest. `said` holds what its writer reads."""
    table, said = corpus / "tables" / name, json.loads((corpus / "said" / f"{name}.json").read_text())
    files = sorted(file.name for file in (table / "_delta_log").iterdir() if file.is_file())
    commits = {int(m[1]): read_json(table / "_delta_log" / m[0]) for m in map(COMMIT.match, files) if m}
    state = replay(table, files, commits)
    protocol, metadata = state["protocol"], state["metadata"]
    types = sorted(type_names(json.loads(metadata["schemaString"])))
    last = max(commits)
    entry = {
        "name": name,
        "path": name,
        "writer": writer,
        "size_bytes": sum(file.stat().st_size for file in table.rglob("*") if file.is_file()),
        "versions": {"first": min(commits), "last": last, "n_commits": len(commits)},
        "log": describe_log(table, files),
        "protocol": {
            "minReaderVersion": protocol["minReaderVersion"],
            "minWriterVersion": protocol["minWriterVersion"],
            "readerFeatures": sorted(protocol.get("readerFeatures") or ()),
            "writerFeatures": sorted(protocol.get("writerFeatures") or ()),
        },
        "partition_columns": metadata["partitionColumns"],
        "configuration": dict(sorted(metadata["configuration"].items())),
        "types": types,
        "state": {
            "version": last,
            "active_files": said["active_files"],
            "txn": state["txn"],
            "domain_metadata": state["domains"],
        },
        "expected": {"kind": "rows", **said["versions"][str(last)]},
        "expected_versions": said["versions"],
    }
    if said["changes"]:
        entry["expected_cdf"] = said["changes"]
    if state["files"] != said["active_files"]:
        raise ValueError(f"{name}: the log has {state['files']} files, its writer sees {said['active_files']}")
    entry["tags"] = sorted(tags(entry, commits, metadata, table))
    return entry


def describe_log(table: Path, files: list[str]) -> Entry:
    log = table / "_delta_log"
    checkpoints: dict[str, list[str]] = {}
    for file in files:
        for kind, pattern in CHECKPOINTS.items():
            if match := pattern.match(file):
                version, *parts = match.groups()
                checkpoints.setdefault(str(int(version)), []).append(kind.format(*parts))
    hint = json.loads((log / "_last_checkpoint").read_text()) if "_last_checkpoint" in files else None
    return {
        "checkpoints": checkpoints,
        "last_checkpoint": hint and {key: hint[key] for key in ("version", "size", "parts") if key in hint},
        "compacted": [file for file in files if COMPACTION.match(file)],
        "crc": sum(file.endswith(".crc") for file in files),
        "sidecars": len(list((log / "_sidecars").glob("*.parquet"))),
    }


def read_json(file: Path) -> list[Action]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line]


def read_checkpoint(table: Path, version: int, files: list[str]) -> Iterator[Action]:
    """The actions of a checkpoint, in all its parts and sidecars."""
    mine = [file for file in files if file.startswith(f"{version:020d}.checkpoint.")]
    (pattern, *_) = [pattern for pattern in CHECKPOINTS.values() if any(map(pattern.match, mine))]
    for file in filter(pattern.match, mine):
        path = table / "_delta_log" / file
        for action in read_json(path) if file.endswith(".json") else read_parquet(path):
            yield action
            if action.get("sidecar"):
                yield from read_parquet(table / "_delta_log" / "_sidecars" / Path(action["sidecar"]["path"]).name)


def read_parquet(file: Path) -> Iterator[Action]:
    """Actions as in JSON: without what is null, and with maps as dictionaries."""
    whole = pq.ParquetFile(file).read()
    columns = [name for name in whole.column_names if name in STATE]
    for row in whole.select(columns).to_pylist(maps_as_pydicts="strict"):
        yield {name: value for name, value in row.items() if value is not None}


def replay(table: Path, files: list[str], commits: dict[int, list[Action]]) -> Entry:
    """The latest state, from the latest checkpoint, if the first commits are gone, and all commits after it."""
    actions: list[Action] = []
    start = min(commits)
    if start > 0:
        start = max(int(m[1]) for file in files for p in CHECKPOINTS.values() if (m := p.match(file)))
        actions += read_checkpoint(table, start, files)
        start += 1
    for version in sorted(v for v in commits if v >= start):
        actions += sorted(commits[version], key=lambda action: "remove" not in action)
    state: Entry = {"txn": {}, "domains": {}}
    live = set()
    for action in actions:
        if protocol := action.get("protocol"):
            state["protocol"] = protocol
        if metadata := action.get("metaData"):
            state["metadata"] = metadata
        if txn := action.get("txn"):
            state["txn"][txn["appId"]] = txn["version"]
        if domain := action.get("domainMetadata"):
            if domain["removed"]:
                state["domains"].pop(domain["domain"], None)
            else:
                state["domains"][domain["domain"]] = domain["configuration"]
        if add := action.get("add"):
            live.add(file_key(add))
        if remove := action.get("remove"):
            live.discard(file_key(remove))
    return state | {"files": len(live)}


def file_key(action: Action) -> tuple[Any, ...]:
    vector = action.get("deletionVector") or {}
    return action["path"], vector.get("storageType"), vector.get("pathOrInlineDv"), vector.get("offset")


def type_names(kind: Any) -> set[str]:
    """The names of a type and of all types in it, without that of the schema itself."""
    if isinstance(kind, str):
        return {kind.partition("(")[0]}
    if kind["type"] == "struct":
        return set().union(*({inner_name(f["type"])} | type_names(f["type"]) for f in kind["fields"]))
    inner = [kind["elementType"]] if kind["type"] == "array" else [kind["keyType"], kind["valueType"]]
    return {kind["type"]}.union(*({inner_name(item)} | type_names(item) for item in inner))


def inner_name(kind: Any) -> str:
    return (kind if isinstance(kind, str) else str(kind["type"])).partition("(")[0]


def tags(entry: Entry, commits: dict[int, list[Action]], metadata: Action, table: Path) -> set[str]:
    """What is in the table, in the words that acceptance tests choose tables by."""
    actions = [action for version in sorted(commits) for action in commits[version]]
    kinds = ("add", "remove", "cdc", "metaData", "protocol", "txn")
    of = {kind: [action[kind] for action in actions if action.get(kind)] for kind in kinds}
    paths = [action["path"] for kind in ("add", "remove", "cdc") for action in of[kind]]
    vectors = [action["deletionVector"] for action in of["add"] if action.get("deletionVector")]
    log, schema, configuration = entry["log"], metadata["schemaString"], entry["configuration"]
    features = {*entry["protocol"]["readerFeatures"], *entry["protocol"]["writerFeatures"]}
    checkpoints = {re.sub(r"\(.*", "", kind) for version in log["checkpoints"].values() for kind in version}
    mapping = configuration.get("delta.columnMapping.mode", "none")
    found = {
        "multi-version": len(commits) > 1,
        "removes": of["remove"],
        "partitioned": entry["partition_columns"],
        "app-txn": of["txn"],
        "cdc-files": of["cdc"],
        "cdf": entry.get("expected_cdf"),
        "cdf-enabled": configuration.get("delta.enableChangeDataFeed") == "true",
        "dataChange-false": any(not action["dataChange"] for action in of["add"] + of["remove"]),
        "metadata-change": len(of["metaData"]) > 1,
        "protocol-change": len(of["protocol"]) > 1,
        "percent-encoded-path": any("%" in path for path in paths),
        "absolute-path": any(path.startswith("/") or "://" in path for path in paths),
        "dv": vectors,
        "sidecars": log["sidecars"],
        "log-compaction": log["compacted"],
        "crc": log["crc"],
        "stats-as-struct": any(has_parsed_statistics(file) for file in (table / "_delta_log").rglob("*.parquet")),
        "checkpoint-without-last_checkpoint": log["checkpoints"] and not log["last_checkpoint"],
        "truncated-log": entry["versions"]["first"] > 0,
        "column-mapping-name": mapping == "name",
        "column-mapping-id": mapping == "id",
        "type-widening": "delta.typeChanges" in schema,
        "default-columns": "CURRENT_DEFAULT" in schema,
        "generated-columns": "delta.generationExpression" in schema,
        "identity-columns": "delta.identity." in schema,
        "nested-field-ids": "nested.ids" in schema,
        "iceberg-compat": any("icebergCompat" in feature for feature in features),
        "check-constraints": any(key.startswith("delta.constraints.") for key in configuration),
        "domain-metadata": entry["state"]["domain_metadata"],
        "row-tracking": configuration.get("delta.enableRowTracking") == "true",
        "in-commit-timestamp": configuration.get("delta.enableInCommitTimestamps") == "true",
    }
    return {
        *(tag for tag, there in found.items() if there),
        *(f"dv-{vector['storageType']}" for vector in vectors),
        *(f"checkpoint-{kind}" for kind in checkpoints),
        *(f"feature:{feature}" for feature in features),
        *(f"type:{kind}" for kind in TAGGED_TYPES & set(entry["types"])),
    }


def has_parsed_statistics(file: Path) -> bool:
    schema = pq.read_schema(file)
    return "add" in schema.names and schema.field("add").type.get_field_index("stats_parsed") >= 0
