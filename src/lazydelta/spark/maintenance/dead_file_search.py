"""The files that VACUUM deletes, found and deleted by executors.

The difference between candidates and retained files is an anti join of paths. It is computed once
and persisted; if a block is lost, it is computed again from the same version and cutoff, so that it
can only name files that may be deleted.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as f

from lazydelta._arrow import from_numpy
from lazydelta.operations.maintenance.distributed import (
    INVENTORY,
    OTHER_LOG,
    Deletion,
    RetainedVersions,
    VacuumParts,
    check_inventory,
    foreign_inventory,
    incomplete_log,
    listing_ranges,
    next_version,
    paths_added_since,
    skipped_tables,
)
from lazydelta.snapshot import load_snapshot
from lazydelta.spark import tuning
from lazydelta.spark.arrow_conversion import spark_schema
from lazydelta.spark.conf import replay_settings
from lazydelta.spark.jobs import named_task
from lazydelta.spark.planner import choose_replay, live_files, map_splits
from lazydelta.spark.spark_releases import frame_of_arrow
from lazydelta.store import is_local, lists_from_offsets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pyspark.sql import DataFrame

    from lazydelta.log import LogFile
    from lazydelta.operations.maintenance import VacuumRequest
    from lazydelta.operations.maintenance.distributed import PartitionScope
    from lazydelta.spark.maintenance.open_table import OpenTable
    from lazydelta.spark.serialized_snapshot import SerializedSnapshot

__all__ = ["find_on_executors"]

_PATHS = pa.schema([("path", pa.string())])
_FILES = pa.schema([("path", pa.string()), ("size", pa.int64())])
_NAMES = pa.list_(pa.field("element", pa.string()))
_DELETED = pa.schema([
    ("directory", pa.string()), ("files", pa.int64()), ("bytes", pa.int64()),
    ("failed", pa.int64()), ("failures", _NAMES),
])  # fmt: skip
"""A directory with a deleted file, or the counts of a task."""


def find_on_executors(
    table: OpenTable, versions: RetainedVersions, scope: PartitionScope, request: VacuumRequest
) -> DistributedFiles:
    """Find the files to delete.

    Args:
        table: The table.
        versions: The retained versions.
        scope: The partitions.
        request: The options.
    """
    task = _VacuumTask(
        snapshot=table.saved(versions.snapshot),
        cutoff_ms=versions.cutoff_ms,
        oldest=versions.oldest,
        scope=scope,
    )
    search = _Search(table=table, versions=versions, task=task)
    persisted = ExitStack()
    try:
        return _found(search, request, persisted)
    except BaseException:
        persisted.close()
        raise


def _found(search: _Search, request: VacuumRequest, persisted: ExitStack) -> DistributedFiles:
    retained = _persist(search.retained(request.keep_versions), persisted)
    warnings: tuple[str, ...] = ()
    if request.mode == "lite":
        first = next_version(search.table.store)
        warnings = incomplete_log(search.versions, first)
        candidates = search.named(first)
    elif request.inventory is not None:
        candidates = search.in_inventory(request.inventory)
    else:
        candidates = search.listed(retained)
    dead = _persist(candidates.join(retained, "path", "left_anti"), persisted)
    found = DistributedFiles(dead, search, warnings, persisted)
    if request.inventory is not None and not found.files:
        search.check_owner(request.inventory)
    return found


def _persist(frame: DataFrame, persisted: ExitStack) -> DataFrame:
    persisted.callback(frame.unpersist)
    return frame.persist()


class DistributedFiles:
    """The files to delete, as a persisted DataFrame."""

    def __init__(
        self, dead: DataFrame, search: _Search, warnings: tuple[str, ...], persisted: ExitStack
    ) -> None:
        self._persisted = persisted
        self._search = search
        logs = dead.where(f.endswith("path", f.lit(OTHER_LOG))).collect()
        nested = [row["path"].removesuffix(OTHER_LOG) for row in logs]
        for name in nested:
            dead = dead.where(~f.startswith("path", f.lit(f"{name}/")))
        self.warnings = (*warnings, *skipped_tables(nested))
        self._count(dead)

    def _count(self, dead: DataFrame) -> None:
        self._dead = dead
        (row,) = dead.agg(f.count("*").alias("files"), f.sum("size").alias("bytes")).collect()
        self.files: int = row["files"]
        self.bytes: int = row["bytes"] or 0
        listed = dead.select("path").limit(tuning.LISTED_PATHS) if self.files else None
        self.paths = [] if listed is None else [row["path"] for row in listed.collect()]

    def delete(self, progress: Callable[[int], None]) -> Deletion:
        """Delete them in tasks, and return what the store confirmed."""
        self._leave_out_added()
        num_tasks = -(-self.files // tuning.DELETED_IN_ONE_TASK)
        num_tasks = max(1, min(num_tasks, tuning.DELETE_TASKS))
        spread = self._dead.repartition(num_tasks, "path")
        done = spread.mapInArrow(named_task("delete_files", self._search.task.delete),
            spark_schema(_DELETED))  # fmt: skip
        (row,) = done.agg(
            *(f.coalesce(f.sum(name), f.lit(0)).alias(name)
              for name in ("files", "bytes", "failed")),
            f.count_distinct("directory").alias("directories"),
            f.slice(f.flatten(f.collect_list("failures")), 1, tuning.LISTED_FAILURES)
            .alias("failures"),
        ).collect()  # fmt: skip
        progress(row["files"])
        return Deletion(
            files=row["files"],
            bytes=row["bytes"],
            failed=row["failed"],
            num_directories=row["directories"],
            failures=list(row["failures"]),
        )

    def _leave_out_added(self) -> None:
        """Leave out the files that commits have added since the search began."""
        arrays = [*paths_added_since(self._search.versions.snapshot)]
        if arrays:
            paths = pa.table([pa.concat_arrays(arrays)], _PATHS)
            added = frame_of_arrow(self._search.table.spark, paths, spark_schema(_PATHS))
            self._count(self._dead.join(f.broadcast(added), "path", "left_anti"))

    def close(self) -> None:
        """Release the blocks in executors."""
        self._persisted.close()


@dataclass(frozen=True, kw_only=True)
class _Search:
    """The DataFrames of one VACUUM."""

    table: OpenTable
    versions: RetainedVersions
    task: _VacuumTask

    def retained(self, keep_versions: Sequence[int]) -> DataFrame:
        """Return the paths of the files that stay."""
        spark, snapshot = self.table.spark, self.versions.snapshot
        kept = [
            snapshot,
            *(load_snapshot(snapshot.store, snapshot.config, version=n) for n in keep_versions),
        ]
        live = named_task("retained_paths", self.task.live)
        frames = [
            live_files(spark, one, fields=["deletionVector"]).mapInArrow(live, spark_schema(_PATHS))
            for one in kept
        ]
        removes = _runs(self.versions.commits_with_removes)
        changes = _runs(self.versions.later_commits)
        frames += [
            map_splits(spark, removes, self.task.removed, _PATHS),
            map_splits(spark, changes, self.task.changed, _PATHS),
        ]
        if snapshot.segment.checkpoint is not None:
            frames.append(map_splits(spark, [None], self.task.removed_before, _PATHS))
        united = frames[0]
        for frame in frames[1:]:
            united = united.unionByName(frame)
        return united

    def named(self, first: int) -> DataFrame:
        """Return the files that the log names as removed, each once."""
        versions = self.versions
        runs = _runs([c for c in versions.commits if first <= c.version <= versions.oldest])
        if not versions.has_commits_since(first):
            runs.append(())
        found = map_splits(self.table.spark, runs, self.task.named, _FILES)
        return found.groupBy("path").agg(f.max("size").alias("size"))

    def listed(self, retained: DataFrame) -> DataFrame:
        """Return the objects in storage that are old enough."""
        snapshot = self.versions.snapshot
        sample: set[str] = set()
        if lists_from_offsets(snapshot.store) or is_local(snapshot.store):
            estimated = choose_replay(snapshot, replay_settings(self.table.spark)).estimated_files
            share = min(1.0, tuning.SAMPLED_PATHS / max(estimated, 1))
            rows = retained.sample(fraction=share, seed=0).limit(2 * tuning.SAMPLED_PATHS)
            sample = {row["path"] for row in rows.collect()}
        if is_local(snapshot.store):  # a directory is read as a whole
            sample = {f"{path.rpartition('/')[0]}/" for path in sample if "/" in path}
        inside = [path for path in sample if not path.startswith("/") and "://" not in path]
        ranges = listing_ranges(inside, tuning.LISTING_TASKS)
        return map_splits(self.table.spark, ranges, self.task.listed, _FILES)

    def in_inventory(self, inventory: Any) -> DataFrame:
        """Return the objects of an inventory that are old enough, each once."""
        task = named_task("inventory_objects", self.task.inventory)
        found = self._inventory(inventory).mapInArrow(task, spark_schema(_FILES))
        return found.groupBy("path").agg(f.max("size").alias("size"))

    def check_owner(self, inventory: Any) -> None:
        """Refuse an inventory without an object of the table.

        Raises:
            ConfigError: It is of another table.
        """
        frame = self._inventory(inventory)
        task = named_task("own_objects", self.task.owned)
        objects = frame.count()
        if objects and not frame.mapInArrow(task, spark_schema(_PATHS)).count():
            raise foreign_inventory(self.versions.snapshot, objects)

    def _inventory(self, inventory: Any) -> DataFrame:
        spark = self.table.spark
        if isinstance(inventory, str):
            if inventory.lower().endswith((".csv", ".csv.gz")):
                frame = spark.read.csv(inventory, header=True, inferSchema=True)
            else:
                frame = spark.read.parquet(inventory)
        elif hasattr(inventory, "__arrow_c_stream__"):
            rows = pa.RecordBatchReader.from_stream(inventory).read_all()
            frame = frame_of_arrow(spark, rows, spark_schema(rows.schema))
        else:
            frame = inventory
        check_inventory(frame.columns)
        return frame.select(*INVENTORY)


def _runs(commits: Sequence[LogFile]) -> list[tuple[LogFile, ...]]:
    """Return commits in consecutive runs, one for each task."""
    step = max(tuning.COMMITS_IN_ONE_TASK, -(-len(commits) // tuning.COMMIT_TASKS))
    return [tuple(commits[at : at + step]) for at in range(0, len(commits), step)]


@dataclass(frozen=True, kw_only=True)
class _VacuumTask:
    """The tasks of a VACUUM; it can be pickled."""

    snapshot: SerializedSnapshot
    cutoff_ms: int
    oldest: int
    scope: PartitionScope

    def _parts(self) -> VacuumParts:
        versions = RetainedVersions(
            snapshot=self.snapshot.open(), cutoff_ms=self.cutoff_ms, oldest=self.oldest, commits=()
        )
        return VacuumParts(versions=versions, scope=self.scope)

    def live(self, adds: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the paths of live data files and their deletion vectors."""
        return _paths(self._parts().live(adds))

    def removed(self, commits: Sequence[LogFile]) -> Iterator[pa.RecordBatch]:
        """Yield the retained files that commits remove."""
        return _paths(self._parts().removed(commits))

    def removed_before(self, _: None) -> Iterator[pa.RecordBatch]:
        """Yield the retained files of the checkpoint's tombstones."""
        return _paths(self._parts().removed_before())

    def changed(self, commits: Sequence[LogFile]) -> Iterator[pa.RecordBatch]:
        """Yield the change data files of commits."""
        return _paths(self._parts().changed(commits))

    def named(self, commits: Sequence[LogFile]) -> Iterator[pa.RecordBatch]:
        """Yield the candidates of commits, or of the oldest checkpoint."""
        return _sized(self._parts().named(commits))

    def listed(self, ends: tuple[str, str | None]) -> Iterator[pa.RecordBatch]:
        """Yield the candidates of a range of paths."""
        return _sized(self._parts().listed(*ends))

    def inventory(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the candidates of an inventory."""
        return _sized(self._parts().inventory(batches))

    def owned(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the paths of an inventory that are the table's."""
        return _paths(batch.column("path") for batch in self._parts().owned(batches))

    def delete(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Delete files, and yield what the store confirmed."""
        done = self._parts().delete(batches)
        names: list[str | None] = [None, *sorted(done.directories)]
        counts = (done.files, done.bytes, done.failed)
        columns = [
            pa.array(names, pa.string()),
            *(from_numpy(np.array([n, *[0] * len(done.directories)], np.int64)) for n in counts),
            pa.array([done.failures, *[[]] * len(done.directories)], _NAMES),
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=_DELETED)


def _paths(arrays: Iterable[pa.Array]) -> Iterator[pa.RecordBatch]:
    for paths in arrays:
        if len(paths):
            yield pa.RecordBatch.from_arrays([paths], schema=_PATHS)


def _sized(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if batch.num_rows:
            yield batch.select(_FILES.names)
