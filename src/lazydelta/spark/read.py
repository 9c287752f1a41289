"""`read`: a table as a DataFrame, with the rows of a scan in one process.

Chooses where the log is replayed (`spark.planner`) and how files are read: by Spark's Parquet scan
(`spark.native_scan`), or by the reader of this package (`spark.arrow_reader`). `explain_read` shows
the choice and its reason.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as f

from lazydelta.config import Config
from lazydelta.errors import ConfigError
from lazydelta.expressions import as_predicate
from lazydelta.expressions.nodes import Column
from lazydelta.scan import Scan
from lazydelta.scan.plan import Explanation, live_adds
from lazydelta.spark import tuning
from lazydelta.spark.arrow_conversion import (
    arrow_schema,
    conform_batches,
    declared_schema,
    described_schema,
    serialize_table,
)
from lazydelta.spark.arrow_reader import (
    FILE_FIELDS,
    read_file_frame,
    read_file_list,
)
from lazydelta.spark.conf import is_connect, replay_settings, storage_options_file
from lazydelta.spark.jobs import named_task
from lazydelta.spark.native_scan import NativeScan, unsupported_files, unsupported_reason
from lazydelta.spark.option_parsing import PINNED_PATH
from lazydelta.spark.planner import (
    check_retention_guard,
    choose_replay,
    distributed_log_replay,
    explain_replay,
    few_live_files,
    list_files,
    num_read_tasks,
    pruner_for,
)
from lazydelta.spark.pushdown import with_pushdown
from lazydelta.spark.row_filter import row_condition, untranslatable_reason
from lazydelta.spark.serialized_snapshot import SerializedSnapshot, open_table_store
from lazydelta.spark.spark_errors import raises_spark_errors
from lazydelta.spark.spark_releases import collect_arrow, with_schema
from lazydelta.spark.tasks import SnapshotRead
from lazydelta.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql import types as t

    from lazydelta.expressions import Predicate
    from lazydelta.scan import Where
    from lazydelta.snapshot import SnapshotState
    from lazydelta.spark.planner import ReplayChoice
    from lazydelta.store.cloud import Credential

__all__ = ["ReadPath", "explain_read", "read", "read_snapshot", "to_arrow"]

ReadPath = Literal["auto", "native", "arrow"]


@raises_spark_errors
def read(
    spark: SparkSession,
    url: str | os.PathLike[str],
    *,
    version: int | None = None,
    timestamp: datetime | str | None = None,
    where: Where = None,
    columns: Sequence[str] | None = None,
    storage_options: Mapping[str, str] | None = None,
    config: Config | None = None,
    credential: Credential | None = None,
    path: ReadPath = "auto",
) -> DataFrame:
    """Return the rows of one version of a table, read by executors; the call fixes the version.

    Args:
        spark: A session, classic or Spark Connect; its executors need lazydelta installed and
            access to the table's store.
        url: The table's location; `url@v12` for a version.
        version: The version to read; the latest by default.
        timestamp: Read the version at this time instead.
        where: Only rows that match: a predicate, SQL string, DNF tuples or an equality map. Both
            paths skip files that cannot contain one.
        columns: The columns to return, in this order; None is all.
        storage_options: Store settings of this process. Executors never receive them; they use
            their environment or the file that the session's
            `spark.lazydelta.storageOptionsFile` names.
        credential: A function of a module that returns a token or keys. Executors import and call
            it too, so no secret is part of a plan.
        config: Engine settings; by default those of the `LAZYDELTA_*` environment.
        path: `native` for Spark's Parquet scan, `arrow` for the reader of this package, or `auto`.

    Raises:
        ConfigError: The requested path cannot read the table, or executors would lack credentials.
        ColumnNotFoundError: An unknown column.
        SchemaError: A column has a type that cannot be read.
    """
    snapshot = _snapshot(
        spark, url, (version, timestamp), storage_options, config, credential=credential
    )
    return read_snapshot(spark, snapshot, where=where, columns=columns, path=path)


def read_snapshot(
    spark: SparkSession,
    snapshot: SnapshotState,
    *,
    where: Where = None,
    columns: Sequence[str] | None = None,
    path: ReadPath = "auto",
) -> DataFrame:
    """Return the rows of a snapshot; see `read`."""
    plan = _Plan.make(spark, snapshot, where, columns, path)
    frame = with_schema(plan.frame(), declared_schema(snapshot, plan.read.columns))
    return with_pushdown(frame, plan)


@raises_spark_errors
def explain_read(
    spark: SparkSession,
    url: str | os.PathLike[str],
    *,
    version: int | None = None,
    timestamp: datetime | str | None = None,
    where: Where = None,
    columns: Sequence[str] | None = None,
    storage_options: Mapping[str, str] | None = None,
    config: Config | None = None,
    credential: Credential | None = None,
    path: ReadPath = "auto",
) -> Explanation:
    """Return how `read` with the same arguments would find and read the files, and why."""
    snapshot = _snapshot(
        spark, url, (version, timestamp), storage_options, config, credential=credential
    )
    plan = _Plan.make(spark, snapshot, where, columns, path)
    return Explanation(**explain_replay(spark, snapshot), rows=plan.explain())


def to_arrow(df: DataFrame) -> pa.Table:
    """Collect a DataFrame as Arrow, also one with null variants.

    PySpark's `df.toArrow()` raises "nulls in input cannot be viewed as non-nullable" for them: it
    casts to a type whose variants have non-nullable parts. This collects serialized batches.
    """
    # PySpark resolves columns by name, and would parse a dot or a backtick in one.
    renamed = df.toDF(*(f"column{index}" for index in range(len(df.columns))))
    task = named_task("serialize_rows", _serialize)
    parts = collect_arrow(renamed.mapInArrow(task, "batch binary"))
    batches = (batch for part in parts.column(0) for batch in pa.ipc.open_stream(part.as_buffer()))
    # Spark sends times in the session's time zone.
    return pa.Table.from_batches(conform_batches(batches, df.schema), arrow_schema(df.schema))


def _serialize(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        data = serialize_table(pa.Table.from_batches([batch]))
        yield pa.RecordBatch.from_arrays([pa.array([data], pa.binary())], ["batch"])


def _snapshot(
    spark: SparkSession,
    url: str | os.PathLike[str],
    when: tuple[int | None, datetime | str | None],
    storage_options: Mapping[str, str] | None,
    config: Config | None,
    *,
    credential: Credential | None,
) -> SnapshotState:
    config = Config.from_env() if config is None else config
    if isinstance(url, list | tuple):
        raise ConfigError("url", "must be one location: unite DataFrames of several")
    pinned = PINNED_PATH.fullmatch(os.fspath(url))
    if pinned is not None and when == (None, None):
        url, when = pinned["path"], (int(pinned["version"]), None)
    store = open_table_store(
        url, storage_options, config, storage_options_file(spark), credential=credential
    )
    return Table(store, config).snapshot(*when)


@dataclass(frozen=True, kw_only=True)
class _Plan:
    """Plan of a read: files for Spark's scan, files for our reader, or all for our reader."""

    spark: SparkSession
    read: SnapshotRead
    snapshot: SnapshotState
    where: Where
    schema: t.StructType
    path: ReadPath
    choice: ReplayChoice
    reason: str
    native: NativeScan | None = None
    listed: pa.RecordBatch | None = None
    """Files for our reader; None if executors find them."""

    @classmethod
    def make(
        cls,
        spark: SparkSession,
        snapshot: SnapshotState,
        where: Where,
        columns: Sequence[str] | None,
        path: ReadPath,
    ) -> _Plan:
        if path not in get_args(ReadPath):
            known = ", ".join(get_args(ReadPath))
            raise ConfigError("path", f"must be one of {known}, not {path!r}")
        scan = Scan(snapshot, where=where, columns=columns)
        _ = scan.output_schema()  # raises for unsupported types
        check_retention_guard(snapshot)
        start = cls(
            spark=spark,
            read=SnapshotRead(
                snapshot=SerializedSnapshot.of(snapshot, storage_options_file(spark)),
                columns=scan.columns,
                where=as_predicate(where),
            ),
            snapshot=snapshot,
            where=where,
            schema=described_schema(snapshot, scan.columns),
            path=path,
            choice=choose_replay(snapshot, replay_settings(spark)),
            reason="requested by the caller",
        )
        return start._routed(scan)

    def _routed(self, scan: Scan) -> _Plan:
        """Choose the reader of each file."""
        path = self.path
        files = few_live_files(self.spark, self.snapshot, self.where, FILE_FIELDS)
        if files is None and path == "native":
            files = self._list()
        if files is None:
            most = replay_settings(self.spark).file_threshold
            reason = f"executors replay the log, and more than {most:,} files may match"
            return self._with(reason=reason if path == "auto" else self.reason)
        if not files.num_rows:
            return self._with(listed=files, reason="there are no files to read")
        if path == "arrow":
            return self._with(listed=files)
        names = tuple(dict.fromkeys((*scan.names, *_filtered(scan))))
        obstacle = unsupported_reason(self.spark, self.snapshot, names)
        obstacle = obstacle or untranslatable_reason(self.snapshot, self.where)
        if obstacle is None:
            return self._split(files, names, path)
        if path == "native":
            raise ConfigError("path", f"native cannot read {self.snapshot.store.root}: {obstacle}")
        return self._with(listed=files, reason=obstacle)

    def _split(self, files: pa.RecordBatch, names: Sequence[str], path: ReadPath) -> _Plan:
        unsupported = unsupported_files(self.snapshot, files)
        native = NativeScan.of(self.snapshot, files.filter(pc.invert(unsupported)), names)
        count = files.num_rows - unsupported.true_count
        reason = "Spark can read its files" if path == "auto" else self.reason
        if unsupported.true_count:
            reason += (
                f", except {unsupported.true_count} with a deletion vector or an unsupported path"
            )
        if path == "auto" and len(native.groups) > tuning.MAX_SCANS:
            reason = f"{len(native.groups)} tuples of partition values are too many scans"
        elif path == "auto" and is_connect(self.spark) and count > tuning.MAX_CONNECT_FILES:
            reason = f"Spark Connect would list {count} files with one task each"
        elif count:
            return self._with(native=native, listed=files.filter(unsupported), reason=reason)
        return self._with(listed=files, reason=reason)

    def _list(self) -> pa.RecordBatch | None:
        adds = live_adds(self.snapshot, FILE_FIELDS, pruner_for(self.snapshot, self.where))
        return list_files(adds, FILE_FIELDS)

    def _with(self, **changed: object) -> _Plan:
        return _Plan(**{**self.__dict__, **changed})

    @property
    def predicate(self) -> Predicate | None:
        """Predicate of the rows."""
        return self.read.where

    @property
    def native_files(self) -> int | None:
        """Number of files if Spark's own scan reads all of them."""
        if self.native is None or self.listed is None or self.listed.num_rows:
            return None
        return sum(len(group.paths) for group in self.native.groups)

    def again(self, where: Predicate | None, columns: Sequence[str]) -> _Plan:
        """Plan a read of other rows and columns of the snapshot."""
        return self.make(self.spark, self.snapshot, where, columns, self.path)

    def frame(self) -> DataFrame:
        """Return the rows."""
        if self.listed is None:
            settings = replay_settings(self.spark)
            files = distributed_log_replay(
                self.spark,
                self.snapshot,
                settings.num_partitions,
                where=self.where,
                fields=FILE_FIELDS.names,
                estimated_rows=tuning.MAX_ESTIMATED_ROWS,
            )
            return read_file_frame(files, self.read, self.schema, tasks=self._tasks())
        if self.native is None:
            return read_file_list(self.spark, self.read, self.listed, self.schema)
        rows = self.native.frame(self.spark)
        if self.where is not None:
            rows = rows.where(row_condition(self.snapshot, self.where))
        if self.native.names != tuple(self.schema.names) or any(c.metadata for c in self.schema):
            rows = rows.select(*map(_described, self.schema))
        if not self.listed.num_rows:
            return rows
        return rows.unionAll(read_file_list(self.spark, self.read, self.listed, self.schema))

    def _tasks(self) -> int:
        least = replay_settings(self.spark).num_partitions
        return num_read_tasks(self.choice.estimated_files, least)

    def explain(self) -> dict[str, object]:
        """Return the choice and its reason."""
        native = 0 if self.native is None else sum(len(g.paths) for g in self.native.groups)
        paths = {"native": native > 0, "arrow": self.listed is None or self.listed.num_rows > 0}
        return {
            "path": " and ".join(name for name, taken in paths.items() if taken) or "arrow",
            "reason": self.reason,
            "native_files": native,
            "native_scans": 0 if self.native is None else len(self.native.groups),
            "arrow_files": None if self.listed is None else self.listed.num_rows,
        }


def _described(field: t.StructField) -> SparkColumn:
    """Return a column with its comment and metadata."""
    column = f.col(f"`{field.name.replace('`', '``')}`")
    return column.alias(field.name, metadata=field.metadata) if field.metadata else column


def _filtered(scan: Scan) -> list[str]:
    """Return the columns of the predicate."""
    nodes = () if scan.predicate is None else scan.predicate.walk()
    return [node.path[0] for node in nodes if isinstance(node, Column)]
