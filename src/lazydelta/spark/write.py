"""`write`: the rows of a DataFrame become one version of a table; executors write the files.

Planning and committing are those of `lazydelta.write`; the one difference is who makes the files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lazydelta.config import Config
from lazydelta.operations import WriteRequest, WriteResult, plan_write
from lazydelta.spark.conf import storage_options_file
from lazydelta.spark.jobs import named
from lazydelta.spark.shipped import Address, open_here
from lazydelta.spark.write_tasks import (
    REPORT,
    PlannedWrite,
    collected,
    in_one_thread,
    incoming_schema,
    write_rows,
)

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence
    from typing import Literal

    from pyspark.sql import DataFrame

    from lazydelta.config import WriteOptions
    from lazydelta.operations import WriteMode, Writing
    from lazydelta.scan import Where
    from lazydelta.store import Store

__all__ = ["write"]


def write(
    df: DataFrame,
    url: str | os.PathLike[str],
    mode: WriteMode = "error",
    *,
    partition_by: Sequence[str] | str | None = None,
    schema_mode: Literal["merge", "overwrite"] | None = None,
    predicate: Where = None,
    properties: Mapping[str, Any] | None = None,
    name: str | None = None,
    description: str | None = None,
    app_id: str | None = None,
    app_version: int | None = None,
    commit_metadata: Mapping[str, Any] | None = None,
    storage_options: Mapping[str, str] | None = None,
    config: Config | None = None,
    options: WriteOptions | None = None,
    rebalance: bool | None = None,
) -> WriteResult:
    """Write the rows of a DataFrame as one new version; the first write creates the table.

    Executors cast and check the rows, write the files and collect their statistics; only the names
    of the files and what is known of them come to this process, which commits once. A task that
    fails, or is done twice, leaves at most files that no version names.

    Args:
        df: The rows, of a session whose executors have lazydelta installed and reach the store.
        url: The table's address.
        mode: As for `lazydelta.write`: a table that exists already is an error by default.
        partition_by: Names of the columns to partition a new table by.
        schema_mode: What to do if the rows have other columns: refuse (None), "merge" them in, or
            "overwrite" the table's schema together with all its rows.
        predicate: Which rows an overwrite replaces; every new row must match it. Rows that stay of
            a file that matches in part are written again by this process; so are, where the table
            records its changes, all rows that went or came, for the change feed.
        properties: Table properties of a new table.
        name: A name for people, of a new table.
        description: A text for people, of a new table.
        app_id: With `app_version`: a step of an application, which is written only once.
        app_version: The number of the step; it grows.
        commit_metadata: Facts of the caller's own, kept in the table's history.
        storage_options: Settings of the store for this process. Executors never get them from
            here, but from their environment or from the file that the session's
            `spark.lazydelta.storageOptionsFile` names.
        config: Settings of the engine; by default those of the `LAZYDELTA_*` environment.
        options: How files are written; a task encodes one file at a time unless they say more.
        rebalance: Whether Spark first brings rows of one partition together, in tasks of about
            equal size, which costs a shuffle. By default it does where the table is partitioned:
            else each task would write a small file for each partition that it has a row of.

    Raises:
        TableExistsError: There is a table, and the mode is "error".
        SchemaMismatchError: The rows do not fit the table; the text shows how.
        ConstraintViolationError: Rows break a rule of the table; nothing was committed.
        CommitConflictError: Another writer's commit contradicts this one.
        UnsupportedFeatureError: The table needs what lazydelta cannot write.
        PySparkException: Tasks failed for other reasons; nothing was committed.
    """
    config = Config.from_env() if config is None else config
    columns = (partition_by,) if isinstance(partition_by, str) else partition_by
    request = WriteRequest(
        mode=mode,
        partition_by=None if columns is None else tuple(columns),
        schema_mode=schema_mode,
        predicate=predicate,
        properties=properties or {},
        name=name,
        description=description,
        app_id=app_id,
        app_version=app_version,
        commit_metadata=commit_metadata or {},
        options=options,
    )
    store = open_here(url, storage_options, config, storage_options_file(df.sparkSession))
    return _write(df, store, config, in_one_thread(request, config), rebalance)


def _write(
    df: DataFrame, store: Store, config: Config, request: WriteRequest, rebalance: bool | None
) -> WriteResult:
    writing = plan_write(store, config, incoming_schema(df.schema, store.root), request)
    if isinstance(writing, WriteResult):
        return writing
    address = Address.of(store, config, storage_options_file(df.sparkSession))
    return _written(df, writing, PlannedWrite.of(writing, request, address), rebalance)


def _written(
    df: DataFrame, writing: Writing, planned: PlannedWrite, rebalance: bool | None
) -> WriteResult:
    """Let executors write the files, and commit them."""
    replaced = writing.replaced()  # what cannot be replaced is refused before a task runs
    columns = _partition_columns(df, writing.intake.metadata.partition_columns)
    if columns if rebalance is None else rebalance:
        df = df.hint("rebalance", *columns)
    # PySpark looks columns up by their names, and takes a dot or a backtick in one for its own.
    df = df.toDF(*(f"column{at}" for at in range(len(df.columns))))
    reports = df.mapInArrow(named("write_rows", write_rows, planned), REPORT).toArrow()
    return writing.finish(collected(reports), replaced)


def _partition_columns(df: DataFrame, partition_columns: Sequence[str]) -> list[str]:
    """Return the frame's columns that rows are partitioned by, as Spark quotes them."""
    given = {column.lower(): column for column in df.columns}
    # A column that the table computes from others is not there to go by.
    names = [given[name.lower()] for name in partition_columns if name.lower() in given]
    return [f"`{column.replace('`', '``')}`" for column in names]
