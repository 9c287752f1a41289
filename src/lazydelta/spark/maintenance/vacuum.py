"""VACUUM on Spark: executors list, compare and delete; the driver commits START and END."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from lazydelta.operations.maintenance import Maintained, VacuumRequest, vacuum_table
from lazydelta.spark.maintenance.dead_file_search import find_on_executors
from lazydelta.spark.maintenance.open_table import OpenTable
from lazydelta.spark.spark_errors import raises_spark_errors

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence
    from datetime import timedelta

    from pyspark.sql import SparkSession

    from lazydelta.config import Config
    from lazydelta.operations.maintenance import VacuumMode, VacuumResult
    from lazydelta.scan import Where
    from lazydelta.store.cloud import Credential

__all__ = ["vacuum"]


@raises_spark_errors
def vacuum(
    spark: SparkSession,
    url: str | os.PathLike[str],
    retention: timedelta | float | str | None = None,
    mode: VacuumMode = "lite",
    *,
    where: Where = None,
    inventory: Any = None,
    keep_versions: Sequence[int] = (),
    dry_run: bool = True,
    force: bool = False,
    record: bool = True,
    commit_metadata: Mapping[str, Any] | None = None,
    storage_options: Mapping[str, str] | None = None,
    config: Config | None = None,
    credential: Credential | None = None,
) -> VacuumResult:
    """Delete files that no version inside the retention needs; by default only report them.

    The files, the result and the commits are those of `Table.vacuum`. Executors read the log, list
    storage in ranges of names, take the exact difference, and delete. A task that is repeated
    deletes its files again, which changes nothing.

    Args:
        spark: A session, as for `optimize`.
        url: The table's location.
        retention: A timedelta, hours, or an interval such as "7 days"; by default the table's
            `delta.deletedFileRetentionDuration`.
        mode: "lite" deletes what the log's tombstones name; "full" lists storage.
        where: Only partitions that match this predicate over partition columns.
        inventory: With "full": the objects of the table instead of a listing. A DataFrame, the path
            of a Parquet or CSV file that Spark can open, or Arrow data.
        keep_versions: Older versions whose data files and deletion vectors stay.
        dry_run: Whether to report what would be deleted, and delete nothing.
        force: Whether a retention shorter than the table's is allowed.
        record: Whether VACUUM START and VACUUM END are committed, as Delta Spark does.
        commit_metadata: User metadata for these commits.
        storage_options: Store settings of this process, as for `read`.
        config: Engine settings; by default those of the `LAZYDELTA_*` environment.
        credential: A function of a module that returns a token or keys.

    Raises:
        ConfigError: The retention is too short, or an option is invalid.
        UnsupportedFeatureError: The table needs a feature that lazydelta cannot write.
        PySparkException: Tasks failed; VACUUM END then says FAILED.
    """
    request = VacuumRequest(
        retention=retention,
        mode=mode,
        where=where,
        inventory=inventory,
        keep_versions=tuple(keep_versions),
        dry_run=dry_run,
        force=force,
        record=record,
    )
    table = OpenTable.at(spark, url, storage_options, config, credential)
    maintained = Maintained(
        store=table.store, config=table.config, commit_metadata=commit_metadata or {}
    )
    return vacuum_table(maintained, request, partial(find_on_executors, table))
