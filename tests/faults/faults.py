"""The planted faults: each is one realistic mistake, made by replacing a text that occurs exactly once in a file.

If a text has moved or changed, `test_faults.py` fails and names the fault: point it to the new place. Keep `old` short,
so that other edits leave it alone.
"""

from __future__ import annotations

from dataclasses import dataclass

ROOMS = ("kernel", "engine", "tables", "server", "client", "iceberg", "spark", "jvm")
PLACES = {room: (f"src/lakeport/{room}/",) for room in ROOMS} | {"jvm": ("jvm/io/lakeport/spark/",)}
PLACES["engine"] += ("src/lakeport/workers/",)


@dataclass(frozen=True)
class Fault:
    """One mistake. `first` are the files or tests most likely to find it: they run before the rest of the suite."""

    name: str
    feature: str
    file: str
    old: str
    new: str
    seen: str
    """What a user would see."""
    first: tuple[str, ...]

    @property
    def room(self) -> str:
        return self.name.partition("-")[0]

    def apply(self, text: str) -> str:
        """Return the faulty text. Raises `ValueError` if the old text does not occur exactly once."""
        found = text.count(self.old)
        if found != 1:
            raise ValueError(f"{self.name}: {self.file} has the old text {found} times, not once: {self.old!r}")
        return text.replace(self.old, self.new)


FAULTS = (
    # kernel
    Fault(
        "kernel-compaction-past-version",
        feature="log compaction, time travel",
        file="src/lakeport/kernel/log/segment.py",
        old="if version < c.last <= last]",
        new="if version < c.last]",
        seen="An older version shows rows of later versions, if a log compaction reaches past it.",
        first=("tests/kernel/log/test_log.py", "tests/kernel/log/test_replay.py"),
    ),
    Fault(
        "kernel-checkpoint-missing-part",
        feature="multi-part checkpoints",
        file="src/lakeport/kernel/log/segment.py",
        old="set(found) == set(range(1, count + 1))",
        new="max(found) == count",
        seen="Rows are missing, because a checkpoint that lacks a part is taken for a complete one.",
        first=("tests/kernel/log/test_log.py",),
    ),
    Fault(
        "kernel-refresh-forgets-removes",
        feature="snapshot refresh over a checkpoint",
        file="src/lakeport/kernel/log/replay.py",
        old="[*self.keys.chunks, *older.keys.chunks]",
        new="[*self.keys.chunks]",
        seen="After a refresh, rows of files removed earlier are back.",
        first=("tests/kernel/log/test_replay.py", "tests/kernel/test_snapshot.py"),
    ),
    Fault(
        "kernel-vector-last-row",
        feature="deletion vectors on rows with gaps",
        file="src/lakeport/kernel/deletion_vectors.py",
        old="self._between(first, last + 1)",
        new="self._between(first, last)",
        seen="A deleted row stays, if it is the last of a batch that has other rows missing.",
        first=("tests/kernel/deletion_vectors/test_deletion_vectors.py",),
    ),
    Fault(
        "kernel-skipping-cut-string",
        feature="file skipping, truncated string statistics",
        file="src/lakeport/kernel/data_files/statistics.py",
        old="cut = pc.or_(marked, pc.greater_equal(pc.binary_length(upper), _CUT))",
        new="cut = pc.or_(marked, pc.greater(pc.binary_length(upper), _CUT))",
        seen="A filter on a long string misses rows beyond a maximum that was cut to 32 characters.",
        first=(
            "tests/kernel/data_files/test_skipping.py::test_a_greatest_text_of_32_characters_may_be_cut_and_a_shorter_one_not",
            "tests/kernel/data_files/test_skipping.py",
            "tests/kernel/data_files/test_statistics.py",
        ),
    ),
    Fault(
        "kernel-skipping-not-equal",
        feature="file skipping, NaN and cut strings",
        file="src/lakeport/kernel/data_files/skipping.py",
        old='case "<>" if bounds.exact:',
        new='case "<>":',
        seen="A filter with <> misses NaN, and long strings that differ after the cut.",
        first=("tests/kernel/data_files/test_skipping.py",),
    ),
    Fault(
        "kernel-nested-ids",
        feature="column mapping by id, nested columns",
        file="src/lakeport/kernel/data_files/columns.py",
        old="lambda inner: physical_field(inner, mapping_mode))",
        new='lambda inner: physical_field(inner, "name" if mapping_mode == "id" else mapping_mode))',
        seen="Fields inside structs are null, if another writer's files name them differently.",
        first=("tests/kernel/data_files/test_columns.py", "tests/kernel/scan/test_scan.py"),
    ),
    Fault(
        "kernel-time-travel-boundary",
        feature="in-commit timestamps, time travel",
        file="src/lakeport/kernel/log/times.py",
        old="in_commit = timestamp >= self._enabled_at",
        new="in_commit = timestamp > self._enabled_at",
        seen="Reading at the very moment when in-commit timestamps were turned on gives the version before.",
        first=("tests/kernel/test_snapshot.py", "tests/kernel/changes/test_changes.py"),
    ),
    Fault(
        "kernel-feed-rows-back",
        feature="change data feed of replaced deletion vectors",
        file="src/lakeport/kernel/changes/plan.py",
        old="if old is not None and inserts:",
        new="if old is not None and new is None and inserts:",
        seen="The change feed misses rows that a restore brought back, if the file still has a deletion vector.",
        first=("tests/kernel/changes/test_changes.py",),
    ),
    Fault(
        "kernel-partition-zone",
        feature="timestamp partition values",
        file="src/lakeport/kernel/data_files/partition_values.py",
        old="return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)",
        new="return moment.replace(tzinfo=UTC)",
        seen="Timestamps of partitions are hours off, if the log writes them with a zone other than UTC.",
        first=(
            "tests/kernel/data_files/test_partitions.py::test_text_becomes_a_value_of_the_type",
            "tests/kernel/data_files/test_partitions.py",
        ),
    ),
    Fault(
        "kernel-row-ids-after-race",
        feature="row tracking, concurrent appends",
        file="src/lakeport/kernel/transaction/commit.py",
        old="highest = max(base.highest_row_id, high_water_mark(domains, self.root))",
        new="highest = base.highest_row_id",
        seen="Two rows have the same row id after two writers appended at the same time.",
        first=("tests/kernel/transaction/test_commit.py", "tests/kernel/definition/test_row_tracking.py"),
    ),
    Fault(
        "kernel-vector-in-parts",
        feature="deletion vectors in the mirror",
        file="src/lakeport/kernel/deletion_vectors.py",
        old="yield _to_numpy(bitmap[start : start + _PART_LENGTH])",
        new="yield _to_numpy(bitmap[start : start + _PART_LENGTH - 1])",
        seen="Deleted rows come back in the mirror, if a file has more than 65,535 of them.",
        first=("tests/iceberg/delta/test_vectors.py",),
    ),
    # engine
    Fault(
        "engine-split-positions",
        feature="files read in parts, deletion vectors",
        file="src/lakeport/engine/parquet/reading.py",
        old="start = starts[run[0]]",
        new="start = starts[run[0]] - starts[split.first_row_group]",
        seen="Wrong rows of a large file are deleted, if Spark reads it in parts.",
        first=("tests/engine/test_contracts.py", "tests/spark/test_tasks.py"),
    ),
    Fault(
        "engine-rename-replaces",
        feature="put-if-absent on disks without hard links",
        file="src/lakeport/engine/storage/disk.py",
        old="_AT_FDCWD, _RENAME_NOREPLACE = -100, 1",
        new="_AT_FDCWD, _RENAME_NOREPLACE = -100, 0",
        seen="Two writers overwrite each other's commits on a disk without hard links.",
        first=("tests/engine/storage/test_local_files.py",),
    ),
    Fault(
        "engine-row-group-nulls",
        feature="row group skipping without null counts",
        file="src/lakeport/engine/parquet/row_groups.py",
        old="s.has_null_count else None for s in statistics]",
        new="s.has_null_count else 0 for s in statistics]",
        seen="IS NULL misses rows of files whose footers have no null counts.",
        first=("tests/engine/test_contracts.py",),
    ),
    Fault(
        "engine-unbounded-reading",
        feature="bounded memory while reading",
        file="src/lakeport/workers/ordered.py",
        old="= Queue(ahead)",
        new="= Queue()",
        seen="A slow consumer runs out of memory: files are read as far ahead as they go.",
        first=(
            "tests/workers/test_ordered.py",
            "tests/workers/test_threads.py",
            "tests/test_frame.py",
        ),
    ),
    # tables
    Fault(
        "tables-merge-ambiguous",
        feature="merge, several source rows for one target row",
        file="src/lakeport/tables/merge/clauses.py",
        old='[(clause.action, clause.condition is None) for clause in self.matched] == [("delete", True)]',
        new='any(clause.action == "delete" for clause in self.matched)',
        seen="A merge with a delete clause takes any of several matching source rows instead of refusing.",
        first=("tests/tables/merge/test_merge.py",),
    ),
    Fault(
        "tables-merge-null-keys",
        feature="merge on null-safe keys, file pruning",
        file="src/lakeport/tables/merge/pruning.py",
        old="return found | column.is_null() if key.null_safe and seen.has_null else found",
        new="return found",
        seen="A merge on <=> inserts a second row for a null key, if the first is in a file of its own.",
        first=("tests/tables/merge/test_matching.py", "tests/tables/merge/test_merge.py"),
    ),
    Fault(
        "tables-feed-whole-files",
        feature="change data feed of a merge that deletes whole files",
        file="src/lakeport/tables/rows/execution.py",
        old="or (self.imaged and change.deletes_rows)",
        new="or (self.imaged and change.deletes_rows and not change.is_whole)",
        seen="The change feed of a merge misses deleted rows, if a file lost all of its rows.",
        first=("tests/tables/rows/test_row_changes.py", "tests/tables/merge/test_merge.py"),
    ),
    Fault(
        "tables-vacuum-race",
        feature="vacuum beside other writers",
        file="src/lakeport/tables/vacuum.py",
        old="if started.version > snapshot.version + 1:",
        new="if started.version > snapshot.version + 2:",
        seen="Vacuum deletes files that another writer restored meanwhile: the table cannot be read any more.",
        first=("tests/tables/test_vacuum.py",),
    ),
    Fault(
        "tables-restore-lost-vector",
        feature="restore after a vacuum",
        file="src/lakeport/tables/restore.py",
        old="return data if location is None else {*data, location}",
        new="return data",
        seen="Restore commits a version whose deletion vector is gone: the table cannot be read any more.",
        first=("tests/tables/test_restore.py",),
    ),
    # server
    Fault(
        "server-grant-prefix",
        feature="grants of schemas",
        file="src/lakeport/server/catalog/index.py",
        old='any(".".join(parts[:end]).lower() in names for end in range(1, len(parts) + 1))',
        new='any(".".join(parts).lower().startswith(name) for name in names)',
        seen="A recipient of sales.eu reads the tables of sales.europe too.",
        first=("tests/server/catalog/test_index.py",),
    ),
    Fault(
        "server-page-of-other-filter",
        feature="page tokens",
        file="src/lakeport/server/answers/versions.py",
        old="request, page_token=None, max_files=None, include_refresh_token=None,",
        new="request, json_predicate_hints=None, page_token=None, max_files=None, include_refresh_token=None,",
        seen="A page token is accepted with another filter: files are missing from the answer.",
        first=(
            "tests/conformance/test_pages.py::test_tokens_that_are_not_of_this_query_are_refused",
            "tests/conformance/test_pages.py",
        ),
    ),
    Fault(
        "server-limit-counts-deleted",
        feature="limit hints, deletion vectors",
        file="src/lakeport/server/answers/snapshot.py",
        old="return max(0, records - (row.vector.cardinality if row.vector else 0))",
        new="return records",
        seen="A query with a limit returns too few rows of a table with deleted rows.",
        first=("tests/server/answers/test_query_snapshots.py",),
    ),
    Fault(
        "server-url-expiry-unsigned",
        feature="signed URLs of files on disks",
        file="src/lakeport/server/signing/disk.py",
        old='return f"file url\\0{expires}\\0{location}\\0{table_id}\\0{recipient_id}\\0".encode()',
        new='return f"file url\\0{location}\\0{table_id}\\0{recipient_id}\\0".encode()',
        seen="A recipient edits the expiry of a URL and keeps reading after its access was revoked.",
        first=("tests/server/signing/test_signing.py", "tests/server/files/test_files.py"),
    ),
    Fault(
        "server-range-page-metadata",
        feature="pages of a range of versions",
        file="src/lakeport/server/answers/range.py",
        old="following = Cursor(held_since) if held else Cursor(version, index)",
        new="following = Cursor(version, index)",
        seen="A stream misses a schema change, if a page ends right before the version after it.",
        first=("tests/server/answers/test_query_ranges.py", "tests/conformance/test_ranges.py"),
    ),
    # client
    Fault(
        "client-second-renewal",
        feature="renewal of URLs",
        file="src/lakeport/client/tables/by_urls.py",
        old="if answer.end is not None and answer.end.refresh_token:",
        new="if answer.end is not None and self._request.refresh_token is None:",
        seen="A read that outlives its first refresh token fails, or is refused as another version.",
        first=(
            "tests/client/tables/test_urls.py::test_each_renewal_has_the_token_of_the_answer_before",
            "tests/client/test_faults.py",
            "tests/client/test_upstream_promises.py",
        ),
    ),
    Fault(
        "client-missing-end",
        feature="answers that are cut off",
        file="src/lakeport/client/rest/answers.py",
        old="if end is None and capabilities.include_end_stream_action:",
        new="if end is None and capabilities.include_end_stream_action and not answer.tells_its_length:",
        seen="An answer without its promised end is taken for a whole one: rows are missing.",
        first=("tests/client/rest/test_answers.py",),
    ),
    Fault(
        "client-unpinned-version",
        feature="one version for all threads of a frame",
        file="src/lakeport/client/tables/by_urls.py",
        old="if answer.version != pin.version:  # another thread has pinned it meanwhile",
        new="if answer.version > pin.version:  # another thread has pinned it meanwhile",
        seen="Threads that first read a frame while the provider commits get rows of two versions.",
        first=(
            "tests/client/tables/test_shared_table.py::test_threads_that_first_use_a_frame_while_there_is_a_commit_read_one_version",
            "tests/client/test_faults.py",
            "tests/client/test_upstream_promises.py",
        ),
    ),
    Fault(
        "client-sync-old-vector",
        feature="sync of replaced deletion vectors",
        file="src/lakeport/client/sync/plan.py",
        old="if key not in wanted or key not in kept],",
        new="if key[0] not in {name for name, _ in wanted} or key not in kept],",
        seen="A synced copy has rows twice after the provider deleted others from the same file.",
        first=("tests/client/sync/test_sync.py",),
    ),
    # iceberg
    Fault(
        "iceberg-nan-upper-bound",
        feature="metrics of floats in the mirror",
        file="src/lakeport/iceberg/snapshots/entries.py",
        old='return [b""] * len(bounds) if upper else _encode_lower_floats(key, bounds, iceberg_type)',
        new="return _encode_lower_floats(key, bounds, iceberg_type)",
        seen="Iceberg readers miss NaN in filters with >, because an upper bound leaves it out.",
        first=("tests/iceberg/snapshots/test_metrics.py",),
    ),
    Fault(
        "iceberg-expires-too-early",
        feature="clean-up of snapshots",
        file="src/lakeport/iceberg/cleaning.py",
        old='snapshot["snapshot-id"]: following["timestamp-ms"]',
        new='snapshot["snapshot-id"]: snapshot["timestamp-ms"]',
        seen="Clean removes a snapshot that was the latest one yesterday, because it was made long ago.",
        first=("tests/iceberg/cleaning/test_clean.py",),
    ),
    Fault(
        "iceberg-restored-rows",
        feature="deletion vectors that a restore takes away",
        file="src/lakeport/iceberg/delta/change.py",
        old="elif former:",
        new="elif former and now:",
        seen="Rows stay deleted in the mirror after a restore brought all rows of a file back.",
        first=("tests/iceberg/delta/test_source.py", "tests/iceberg/test_increments.py"),
    ),
    # spark
    Fault(
        "spark-filter-nan",
        feature="filter pushdown of floats",
        file="src/lakeport/spark/formats.py",
        old="isinstance(found, pushed.GreaterThan | pushed.GreaterThanOrEqual)",
        new="isinstance(found, pushed.GreaterThan)",
        seen="A filter with >= on a double misses NaN, which Spark has above all numbers.",
        first=(
            "tests/spark/formats/test_filters.py::test_filters_that_mean_something_else_in_spark_are_left_to_it",
            "tests/spark/formats/test_filters.py",
        ),
    ),
    Fault(
        "spark-stream-first-batch",
        feature="restart of a stream in its first batch",
        file="src/lakeport/spark/stream/backlog.py",
        old="        start = start_of(start, end)\n",
        new="",
        seen="A stream that fails in its first batch loses rows after the restart, if the table grew meanwhile.",
        first=(
            "tests/spark/stream/test_stream.py::test_a_first_batch_that_is_done_again_after_a_restart_is_the_same",
            "tests/spark/stream/test_stream.py",
        ),
    ),
    Fault(
        "spark-split-repeats",
        feature="files read in parts",
        file="src/lakeport/spark/tasks.py",
        old="return splits[self.part] if self.part < len(splits) else None",
        new="return splits[min(self.part, len(splits) - 1)]",
        seen="Rows come twice from a large file that has few row groups.",
        first=("tests/spark/test_tasks.py",),
    ),
    Fault(
        "spark-feed-split-update",
        feature="limits of a stream of changes",
        file="src/lakeport/spark/stream/offsets.py",
        old="((whole and end > first) or self._has_room())",
        new="self._has_room()",
        seen="A batch has what an update made of a row, and the next batch what the row was before.",
        first=("tests/spark/stream/test_limits.py", "tests/spark/stream/test_stream.py"),
    ),
    Fault(
        "spark-native-microseconds",
        feature="filters on timestamps in Spark's own reader",
        file="src/lakeport/spark/native/conditions.py",
        old="F.timestamp_micros(F.lit(microseconds_of(value)))",
        new="F.timestamp_micros(F.lit(microseconds_of(value) // 1000 * 1000))",
        seen="A filter on an exact timestamp misses its row: the literal loses its microseconds.",
        first=(
            "tests/spark/native/test_tables.py::test_a_filter_on_a_timestamp_keeps_its_microseconds",
            "tests/spark/native/test_tables.py::test_filters_of_a_frame_keep_the_rows_that_the_kernel_keeps",
            "tests/spark/native/test_tables.py",
        ),
    ),
    # jvm
    Fault(
        "jvm-resumed-range",
        feature="ranges that break off",
        file="jvm/io/lakeport/spark/files/HttpRanges.java",
        old="                    start += got;\n",
        new="",
        seen="A Spark task reads damaged bytes after a connection broke off in the middle of a range.",
        first=(
            "tests/spark/native/test_shared.py::test_a_storage_that_does_harm_gives_the_right_rows",
            "tests/spark/native/test_shared.py",
        ),
    ),
    Fault(
        "jvm-skipped-pages",
        feature="deletion vectors where pages are skipped",
        file="jvm/io/lakeport/spark/rows/MarkedRows.java",
        old="column.getLong(rows - 1) - start == rows - 1)",
        new="column.getLong(rows - 1) - start >= rows - 1)",
        seen="A filter brings back deleted rows, if Spark's reader skips pages of the file.",
        first=(
            "tests/spark/native/test_tables.py::test_deleted_rows_stay_away_where_pages_are_skipped",
            "tests/spark/native/test_tables.py::test_deleted_rows_stay_away_whatever_is_skipped",
            "tests/spark/native/test_tables.py",
        ),
    ),
    Fault(
        "jvm-refused-url",
        feature="renewal of URLs that the storage refuses",
        file="jvm/io/lakeport/spark/files/Driver.java",
        old='renewed(file, "&refused=" + digest(url));',
        new='renewed(file, "");',
        seen="A Spark query fails when the storage revokes a URL before it expires.",
        first=(
            "tests/spark/native/test_shared.py::test_a_url_that_is_refused_for_good_is_renewed",
            "tests/spark/native/test_shared.py::test_many_ranges_that_are_refused_at_once_get_new_urls",
            "tests/spark/native/test_shared.py",
        ),
    ),
)
