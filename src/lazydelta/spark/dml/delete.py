"""DELETE on Spark: executors find the rows, and write deletion vectors or rewrite files."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import orjson
from pyspark.sql import functions as f

from lazydelta.operations import UncommittedFiles
from lazydelta.operations.dml import (
    DmlRequest,
    DmlResult,
    RowChanges,
    has_change_feed,
)
from lazydelta.spark.dml.frame_columns import CLAUSE
from lazydelta.spark.dml.positions import find_positions, read_positions
from lazydelta.spark.dml.start import TableAccess, start_verb
from lazydelta.spark.dml.target import TargetFiles
from lazydelta.spark.dml.target_candidates import candidate_files, split_files
from lazydelta.spark.dml.verb_run import load_rows, matched_rows
from lazydelta.spark.session_sql import mentioned_columns
from lazydelta.spark.spark_errors import raises_spark_errors
from lazydelta.transaction import ADDS

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping
    from contextlib import AbstractContextManager

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from lazydelta.config import Config
    from lazydelta.operations.dml import Verb
    from lazydelta.scan import Where
    from lazydelta.spark.dml.conditions import RowCondition
    from lazydelta.spark.dml.target_candidates import Candidates
    from lazydelta.spark.dml.verb_run import VerbRun
    from lazydelta.store.cloud import Credential

__all__ = ["delete", "matching_rows"]


@raises_spark_errors
def delete(
    spark: SparkSession,
    url: str | os.PathLike[str],
    where: Where = None,
    *,
    app_id: str | None = None,
    app_version: int | None = None,
    commit_metadata: Mapping[str, Any] | None = None,
    dry_run: bool = False,
    storage_options: Mapping[str, str] | None = None,
    config: Config | None = None,
    credential: Credential | None = None,
) -> DmlResult:
    """Delete the matching rows as one new version; all rows without `where`.

    The result is that of `Table.delete`. Executors find the rows and write deletion vectors, or
    rewrite files; the driver receives descriptors and commits once. Without undecided files (a
    condition on partition values, for example) no data file is opened, and no job starts unless
    executors replay the log. Without a match there is no commit.

    Args:
        spark: A session, classic or Spark Connect; its executors need lazydelta installed and
            access to the table's store.
        url: The table's location.
        where: Which rows to delete. Spark evaluates SQL that our grammar does not have; then no
            file is skipped.
        app_id: With `app_version`: makes the operation idempotent.
        app_version: The version of the application's transaction; it must increase.
        commit_metadata: User metadata for the commit.
        dry_run: Whether to return what would happen, and write nothing.
        storage_options: Store settings of this process, as for `read`.
        config: Engine settings; by default those of the `LAZYDELTA_*` environment.
        credential: A function of a module that returns a token or keys.

    Raises:
        AppendOnlyError: The table is append-only.
        CommitConflictError: A concurrent commit conflicts with this one.
        UnsupportedFeatureError: The table needs a feature that lazydelta cannot write.
        PySparkException: Spark refuses the condition, or tasks failed; nothing is committed.
    """
    request = DmlRequest(
        where=where,
        app_id=app_id,
        app_version=app_version,
        commit_metadata=commit_metadata or {},
        dry_run=dry_run,
    )
    access = TableAccess(
        url=url, storage_options=storage_options, config=config, credential=credential
    )
    started = start_verb(spark, "DELETE", access, request)
    if isinstance(started, DmlResult):
        return started
    with matching_rows(spark, *started) as run:
        return _finish(run, started[1], time.monotonic())


def matching_rows(
    spark: SparkSession, verb: Verb, condition: RowCondition, files: pa.Table | None = None
) -> AbstractContextManager[VerbRun]:
    """Find the rows that match a condition, in add actions of files or in the table."""
    snapshot, undecided = verb.snapshot, None
    if condition.sql is None:
        decided, undecided = split_files(spark, snapshot, condition.predicate, files)
    else:  # only Spark knows
        decided = TargetFiles.listed(spark, snapshot, ADDS.empty_table())
        if files is None:
            undecided = candidate_files(spark, snapshot, condition.predicate)
        else:
            undecided = TargetFiles.listed(spark, snapshot, files)
    positions = None if undecided.is_empty else _positions(undecided, condition)
    return matched_rows(verb, undecided, decided, positions)


def _positions(target: Candidates, condition: RowCondition) -> DataFrame:
    if condition.predicate is not None:
        return read_positions(target, condition.predicate)
    sql = condition.sql or "true"
    rows = target.rows(mentioned_columns(target.snapshot, [sql])).where(sql)
    return find_positions(rows.withColumn(CLAUSE, f.lit(0)), target.num_tasks)


def _finish(run: VerbRun, condition: RowCondition, found: float) -> DmlResult:
    """Write the files of a DELETE, and commit them."""
    verb, deletion = run.verb, run.deletion
    metrics = {"numDeletedRows": run.num_rows}
    if verb.request.dry_run:
        shown = {name: value for name, value in metrics.items() if value is not None}
        return verb.nothing({**shown, **verb.file_metrics(deletion)}, dry_run=True)
    if not run.touched.num_rows:
        return verb.nothing({"numDeletedRows": 0})
    # Without change files a removed file means that all its rows were deleted.
    feed = bool(deletion.partial.num_rows) and has_change_feed(verb.snapshot)
    sql = orjson.dumps([condition.shown]).decode()
    with UncommittedFiles(verb.store, None) as files:

        def again(added: pa.Table) -> RowChanges | None:
            with matching_rows(run.target.spark, verb, condition, added) as more:
                if more.deletion.partial.num_rows and has_change_feed(verb.snapshot) and not feed:
                    return None  # the rows of whole files are in no change file
                return _changes(more, files, feed=feed)

        first = _changes(run, files, feed=feed).timed(verb.phases(found))
        return verb.commit(first, {"predicate": sql}, files, again=again, load_rows=load_rows)


def _changes(run: VerbRun, files: UncommittedFiles, *, feed: bool) -> RowChanges:
    """Delete the matching rows, and write them to change files."""
    written = run.write_deletion(files)
    if feed and run.touched.num_rows:
        written = replace(written, changes=files.add(run.write_changes({0: "delete"})))
    metrics = {"numDeletedRows": run.num_rows}
    return RowChanges(deletion=run.deletion, written=written, metrics=metrics)
