"""`read`: a table as a DataFrame, row for row what the reader in this process gives.

Decides who finds the files (`spark.adaptive`) and who reads them: Spark's own scan
(`spark.native`), or this package's reader in executors (`spark.arrow_path`). `explain_read` tells
what was decided, and why.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

import pyarrow as pa
import pyarrow.compute as pc

from lazydelta.config import Config
from lazydelta.errors import ConfigError
from lazydelta.expr import Column, as_predicate
from lazydelta.scan import Scan
from lazydelta.scan.plan import Explanation, live_adds
from lazydelta.spark.adaptive import choose_replay, explain_replay
from lazydelta.spark.arrow_path import FILES, read_found, read_listed, tasks_for
from lazydelta.spark.arrow_rows import shown_schema
from lazydelta.spark.conf import replay_settings, storage_options_file
from lazydelta.spark.native import (
    MOST_CONNECT_FILES,
    MOST_SCANS,
    NativeFiles,
    file_obstacles,
    is_connect,
    table_obstacle,
)
from lazydelta.spark.predicate import row_condition
from lazydelta.spark.replay import check_guard, distributed_log_replay, pruner_of
from lazydelta.spark.shipped import ShippedSnapshot, open_here
from lazydelta.spark.tasks import SnapshotRead
from lazydelta.table import Table

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql import types as t

    from lazydelta.scan import Where
    from lazydelta.snapshot import Snapshot
    from lazydelta.spark.adaptive import ReplayChoice

__all__ = ["ReadPath", "explain_read", "read", "read_snapshot"]

ReadPath = Literal["auto", "native", "arrow"]


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
    path: ReadPath = "auto",
) -> DataFrame:
    """Return the rows of one version of a table, read by executors; the version is fixed now.

    Args:
        spark: A session, classic or Spark Connect; its executors must have lazydelta installed
            and reach the table's store.
        url: The table's address.
        version: The version to read; the newest by default.
        timestamp: Read the version of that time instead.
        where: Only rows that match: a predicate, SQL text, DNF tuples or an equality map. Files
            without one are left out, whichever path is taken.
        columns: The columns to show, in this order; None is all.
        storage_options: Settings of the store for this process. Executors never get them from
            here, but from their environment or from the file that the session's
            `spark.lazydelta.storageOptionsFile` names.
        config: Settings of the engine; by default those of the `LAZYDELTA_*` environment.
        path: `native` for Spark's own scan, `arrow` for the reader of this package, or `auto`.

    Raises:
        ConfigError: The path asked for cannot be taken; or executors would lack credentials.
        ColumnNotFoundError: There is no such column.
        SchemaError: A column is of a type that cannot be read.
    """
    snapshot = _snapshot(spark, url, (version, timestamp), storage_options, config)
    return read_snapshot(spark, snapshot, where=where, columns=columns, path=path)


def read_snapshot(
    spark: SparkSession,
    snapshot: Snapshot,
    *,
    where: Where = None,
    columns: Sequence[str] | None = None,
    path: ReadPath = "auto",
) -> DataFrame:
    """Return the rows of a snapshot; see `read`."""
    return _Plan.make(spark, snapshot, where, columns, path).frame()


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
    path: ReadPath = "auto",
) -> Explanation:
    """Return who would find and read the files of `read`, called in the same way, and why."""
    snapshot = _snapshot(spark, url, (version, timestamp), storage_options, config)
    plan = _Plan.make(spark, snapshot, where, columns, path)
    return Explanation(**explain_replay(spark, snapshot), rows=plan.described())


def _snapshot(
    spark: SparkSession,
    url: str | os.PathLike[str],
    when: tuple[int | None, datetime | str | None],
    storage_options: Mapping[str, str] | None,
    config: Config | None,
) -> Snapshot:
    config = Config.from_env() if config is None else config
    store = open_here(url, storage_options, config, storage_options_file(spark))
    return Table(store, config).snapshot(*when)


@dataclass(frozen=True, kw_only=True)
class _Plan:
    """What is to be done: files for Spark's scan, files for our reader, or all by our reader."""

    spark: SparkSession
    read: SnapshotRead
    snapshot: Snapshot
    where: Where
    schema: t.StructType
    choice: ReplayChoice
    reason: str
    native: NativeFiles | None = None
    listed: pa.RecordBatch | None = None
    """The files for our reader; None if executors find them."""

    @classmethod
    def make(
        cls,
        spark: SparkSession,
        snapshot: Snapshot,
        where: Where,
        columns: Sequence[str] | None,
        path: ReadPath,
    ) -> _Plan:
        if path not in get_args(ReadPath):
            known = ", ".join(get_args(ReadPath))
            raise ConfigError("path", f"must be one of {known}, not {path!r}")
        scan = Scan(snapshot, where=where, columns=columns)
        _ = scan.presentation()  # a type that cannot be shown is refused by name
        check_guard(snapshot)
        start = cls(
            spark=spark,
            read=SnapshotRead(
                shipped=ShippedSnapshot.of(snapshot, storage_options_file(spark)),
                columns=scan.columns,
                where=as_predicate(where),
            ),
            snapshot=snapshot,
            where=where,
            schema=shown_schema(snapshot, scan.columns),
            choice=choose_replay(snapshot, replay_settings(spark)),
            reason="it was asked for",
        )
        return start._routed(scan, path)

    def _routed(self, scan: Scan, path: ReadPath) -> _Plan:
        """Decide who reads which files."""
        if self.choice.distributed and path != "native":
            reason = "executors find the files" if path == "auto" else self.reason
            return self._with(reason=reason)
        files = self._list()
        if not files.num_rows:
            return self._with(listed=files, reason="it has no files to read")
        if path == "arrow":
            return self._with(listed=files)
        names = tuple(dict.fromkeys((*scan.names, *_filtered(scan))))
        obstacle = table_obstacle(self.spark, self.snapshot, names)
        if obstacle is None:
            return self._split(files, names, path)
        if path == "native":
            raise ConfigError("path", f"native cannot read {self.snapshot.store.root}: {obstacle}")
        return self._with(listed=files, reason=obstacle)

    def _split(self, files: pa.RecordBatch, names: Sequence[str], path: ReadPath) -> _Plan:
        odd = file_obstacles(self.snapshot, files)
        native = NativeFiles.of(self.snapshot, files.filter(pc.invert(odd)), names)
        count = files.num_rows - odd.true_count
        reason = "Spark can read its files" if path == "auto" else self.reason
        if odd.true_count:
            reason += f", but {odd.true_count} with deleted rows or out of its sight"
        if path == "auto" and len(native.groups) > MOST_SCANS:
            reason = f"{len(native.groups)} sets of partition values are too many scans"
        elif path == "auto" and is_connect(self.spark) and count > MOST_CONNECT_FILES:
            reason = f"through Spark Connect, {count} files would each take a task to look at"
        elif count:
            return self._with(native=native, listed=files.filter(odd), reason=reason)
        return self._with(listed=files, reason=reason)

    def _list(self) -> pa.RecordBatch:
        adds = live_adds(self.snapshot, FILES, pruner_of(self.snapshot, self.where))
        found = [batch.select(FILES.names) for batch in adds]
        return pa.concat_batches(found or [pa.RecordBatch.from_pylist([], FILES)])

    def _with(self, **changed: object) -> _Plan:
        return _Plan(**{**self.__dict__, **changed})

    def frame(self) -> DataFrame:
        """Return the rows."""
        if self.listed is None:
            settings = replay_settings(self.spark)
            files = distributed_log_replay(
                self.spark,
                self.snapshot,
                settings.num_partitions,
                where=self.where,
                fields=FILES.names,
            )
            return read_found(files, self.read, self.schema, tasks=self._tasks())
        if self.native is None:
            return read_listed(self.spark, self.read, self.listed, self.schema)
        rows = self.native.frame(self.spark)
        if self.where is not None:
            rows = rows.where(row_condition(self.snapshot, self.where))
        rows = rows.select(*(f"`{name.replace('`', '``')}`" for name in self.schema.names))
        if not self.listed.num_rows:
            return rows
        return rows.unionAll(read_listed(self.spark, self.read, self.listed, self.schema))

    def _tasks(self) -> int:
        least = replay_settings(self.spark).num_partitions
        return tasks_for(self.choice.estimated_files, least)

    def described(self) -> dict[str, object]:
        """Return what was decided."""
        native = 0 if self.native is None else sum(len(g.paths) for g in self.native.groups)
        paths = {"native": native > 0, "arrow": self.listed is None or self.listed.num_rows > 0}
        return {
            "path": " and ".join(name for name, taken in paths.items() if taken) or "arrow",
            "reason": self.reason,
            "native_files": native,
            "native_scans": 0 if self.native is None else len(self.native.groups),
            "arrow_files": None if self.listed is None else self.listed.num_rows,
        }


def _filtered(scan: Scan) -> list[str]:
    """Return the columns that the predicate names."""
    nodes = () if scan.predicate is None else scan.predicate.walk()
    return [node.path[0] for node in nodes if isinstance(node, Column)]
