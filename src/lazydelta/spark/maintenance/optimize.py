"""OPTIMIZE and REORG on Spark: the run is that of one process, with executors as its workers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lazydelta.operations.optimize import OptimizeRequest, optimize_table, purge_table
from lazydelta.spark.maintenance.bin_workers import ExecutorWorkers
from lazydelta.spark.maintenance.open_table import OpenTable
from lazydelta.spark.spark_errors import raises_spark_errors

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

    from pyspark.sql import SparkSession

    from lazydelta.config import Config
    from lazydelta.operations.optimize import OptimizeResult
    from lazydelta.scan import Where
    from lazydelta.store.cloud import Credential

__all__ = ["optimize", "purge"]


@raises_spark_errors
def optimize(
    spark: SparkSession,
    url: str | os.PathLike[str],
    where: Where = None,
    *,
    target_size: int | None = None,
    min_file_size: int | None = None,
    max_bytes: int | None = None,
    batch_bytes: int | None = None,
    z_order: Sequence[str] | str | None = None,
    cluster: bool | None = None,
    full: bool = False,
    commit_metadata: Mapping[str, Any] | None = None,
    dry_run: bool = False,
    storage_options: Mapping[str, str] | None = None,
    config: Config | None = None,
    credential: Credential | None = None,
) -> OptimizeResult:
    """Rewrite small files into larger ones, or cluster rows; executors read and write.

    The arguments, the result and the commits are those of `Table.optimize`. Each bin of a
    compaction is one task. Rows of a large clustering are shuffled by ranges of the curve, and each
    range is a task that writes its files. Executors also select the files of a table whose log they
    replay. Tasks that fail or run twice leave at most files that no version references.

    Args:
        spark: A session, classic or Spark Connect; its executors need lazydelta installed and
            access to the table's store.
        url: The table's location.
        where: Which partitions to optimize; a predicate over partition columns only.
        target_size: Bytes of a new file; by default as for writes.
        min_file_size: Files from this size on are left alone, unless many of their rows are
            deleted; by default three quarters of the target size.
        max_bytes: Rewrite at most so many bytes in this run, smallest files first.
        batch_bytes: Bytes that are rewritten for one commit, and at once; by default 64 GiB.
        z_order: Sort the rows of all selected files along a Z-order curve of these columns.
        cluster: Whether to cluster by the table's clustering columns; by default if it has any.
        full: Whether to cluster all files again.
        commit_metadata: User metadata for the commits.
        dry_run: Whether to return what would be rewritten, and write nothing.
        storage_options: Store settings of this process, as for `read`.
        config: Engine settings; by default those of the `LAZYDELTA_*` environment.
        credential: A function of a module that returns a token or keys.

    Raises:
        ConfigError: Options contradict each other, or the table.
        PredicateError: `where` uses a column that is not a partition column.
        CommitConflictError: A concurrent commit changed the table's definition.
        UnsupportedFeatureError: The table needs a feature that lazydelta cannot write.
        PySparkException: Tasks failed; batches that are committed stay.
    """
    request = OptimizeRequest(
        where=where,
        target_size=target_size,
        min_file_size=min_file_size,
        max_bytes=max_bytes,
        batch_bytes=batch_bytes,
        z_order=(z_order,) if isinstance(z_order, str) else tuple(z_order or ()),
        cluster=cluster,
        full=full,
        commit_metadata=commit_metadata or {},
        dry_run=dry_run,
    )
    table = OpenTable.at(spark, url, storage_options, config, credential)
    return optimize_table(table.store, table.config, request, workers=ExecutorWorkers(table))


@raises_spark_errors
def purge(
    spark: SparkSession,
    url: str | os.PathLike[str],
    where: Where = None,
    *,
    max_bytes: int | None = None,
    batch_bytes: int | None = None,
    commit_metadata: Mapping[str, Any] | None = None,
    dry_run: bool = False,
    storage_options: Mapping[str, str] | None = None,
    config: Config | None = None,
    credential: Credential | None = None,
) -> OptimizeResult:
    """Rewrite the files that store deleted rows or dropped columns; executors read and write.

    The result and the commits are those of `Table.purge`.

    Args:
        spark: A session, as for `optimize`.
        url: The table's location.
        where: Which partitions to purge; a predicate over partition columns only.
        max_bytes: Rewrite at most so many bytes in this run, smallest files first.
        batch_bytes: Bytes that are rewritten for one commit, and at once; by default 64 GiB.
        commit_metadata: User metadata for the commits.
        dry_run: Whether to return what would be rewritten, and write nothing.
        storage_options: Store settings of this process, as for `read`.
        config: Engine settings; by default those of the `LAZYDELTA_*` environment.
        credential: A function of a module that returns a token or keys.

    Raises the errors of `optimize`.
    """
    request = OptimizeRequest(
        where=where,
        max_bytes=max_bytes,
        batch_bytes=batch_bytes,
        commit_metadata=commit_metadata or {},
        dry_run=dry_run,
    )
    table = OpenTable.at(spark, url, storage_options, config, credential)
    return purge_table(table.store, table.config, request, workers=ExecutorWorkers(table))
