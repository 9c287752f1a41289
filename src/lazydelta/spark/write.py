"""`write`: write the rows of a DataFrame as one version; executors write the data files.

The driver plans and commits with the code of `lazydelta.write`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lazydelta.config import Config
from lazydelta.operations import WriteRequest, WriteResult, plan_write
from lazydelta.spark.column_functions import quoted
from lazydelta.spark.conf import storage_options_file
from lazydelta.spark.delta_write_options import delta_arguments, with_session_defaults
from lazydelta.spark.jobs import named_task
from lazydelta.spark.serialized_snapshot import TableLocation, open_table_store
from lazydelta.spark.spark_errors import raises_spark_errors
from lazydelta.spark.spark_releases import collect_arrow
from lazydelta.spark.spark_releases import rebalance as rebalanced
from lazydelta.spark.write_tasks import (
    RESULT,
    PlannedWrite,
    collect_results,
    incoming_schema,
    single_threaded,
    write_rows,
)
from lazydelta.table import Table

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Literal

    from pyspark.sql import DataFrame

    from lazydelta.config import WriteOptions
    from lazydelta.operations import WriteMode, WriteOperation
    from lazydelta.scan import Where
    from lazydelta.store import Store
    from lazydelta.store.cloud import Credential

__all__ = ["write"]

_MODES = {"errorifexists": "error", "default": "error"}
"""Other names of Spark for modes."""


@raises_spark_errors
def write(
    df: DataFrame,
    url: str | os.PathLike[str],
    mode: WriteMode = "append",
    *,
    partition_by: Sequence[str] | str | None = None,
    schema_mode: Literal["merge", "overwrite"] | None = None,
    where: Where = None,
    properties: Mapping[str, Any] | None = None,
    name: str | None = None,
    description: str | None = None,
    app_id: str | None = None,
    app_version: int | None = None,
    commit_metadata: Mapping[str, Any] | None = None,
    storage_options: Mapping[str, str] | None = None,
    config: Config | None = None,
    credential: Credential | None = None,
    options: WriteOptions | Mapping[str, Any] | None = None,
    rebalance: bool | None = None,
) -> WriteResult:
    """Write the rows of a DataFrame as one new version; the first write creates the table.

    Executors cast and validate the rows, write the files and collect their statistics; the driver
    receives only add actions and commits once. A task that fails or runs twice leaves at most
    files that no version references.

    Args:
        df: The rows; the executors of its session need lazydelta installed and access to the
            table's store.
        url: The table's location.
        mode: As for `lazydelta.write`: "append" by default; "errorifexists" is "error", as in
            Spark.
        partition_by: Partition columns of a new table.
        schema_mode: What to do with columns that the table does not have: refuse (None), "merge"
            them, or "overwrite" the schema together with all rows.
        where: Rows that an overwrite replaces; every new row must match it. The driver
            rewrites the remaining rows of files that match in part and, if the change feed is
            enabled, writes the change files.
        properties: Table properties of a new table.
        name: Name of a new table.
        description: Description of a new table.
        app_id: With `app_version`: an application transaction, which is applied only once.
        app_version: The version of the transaction; it increases.
        commit_metadata: Custom metadata for the table's history.
        storage_options: Store settings of this process. Executors never receive them; they use
            their environment or the file that the session's
            `spark.lazydelta.storageOptionsFile` names.
        credential: A function of a module that returns a token or keys. Executors import and call
            it too, so no secret is part of a plan.
        config: Engine settings; by default those of the `LAZYDELTA_*` environment.
        options: How files are written; by default a task writes one file at a time. Or options
            of Delta's writer by name, `{"replaceWhere": "day = '2026-05-01'", "mergeSchema": True}`
            for example, instead of the arguments that mean the same. Defaults of
            `partitionOverwriteMode` and `mergeSchema` are those of the session, as in Delta Spark
            (`spark.sql.sources.partitionOverwriteMode`).
        rebalance: Whether Spark shuffles rows of one partition into the same tasks, of about equal
            size. By default it does if the table is partitioned: otherwise each task would write a
            small file for each partition of its rows.

    Raises:
        TableExistsError: The table exists, and the mode is "error".
        SchemaMismatchError: The rows do not fit the table's schema.
        ConstraintViolationError: Rows violate a constraint of the table; nothing is committed.
        CommitConflictError: A concurrent commit conflicts with this one.
        UnsupportedFeatureError: The table has a writer feature that lazydelta does not support.
        PySparkException: Tasks failed for other reasons; nothing is committed.
    """
    config = Config.from_env() if config is None else config
    columns = (partition_by,) if isinstance(partition_by, str) else partition_by
    given: dict[str, Any] = {
        "partition_by": None if columns is None else tuple(columns),
        "schema_mode": schema_mode,
        "where": where,
        "properties": properties or {},
        "name": name,
        "description": description,
        "app_id": app_id,
        "app_version": app_version,
        "commit_metadata": commit_metadata or {},
    }
    request, overwrite_mode = _request(url, mode, options, given)
    store = open_table_store(
        url, storage_options, config, storage_options_file(df.sparkSession), credential=credential
    )
    request = with_session_defaults(request, df, Table(store, config), overwrite_mode)
    return _write(df, store, config, single_threaded(request, config), rebalance)


def _request(
    url: str | os.PathLike[str],
    mode: str,
    options: WriteOptions | Mapping[str, Any] | None,
    given: Mapping[str, Any],
) -> tuple[WriteRequest, str | None]:
    """Return the request of the arguments and options, and the partition overwrite mode."""
    name = str(mode).lower()
    spelled: Any = _MODES.get(name, name)
    if isinstance(options, Mapping):
        found, overwrite_mode = delta_arguments(os.fspath(url), options, given)
        return WriteRequest(mode=spelled, **{**given, **found}), overwrite_mode
    return WriteRequest(mode=spelled, **given, options=options), None


def _write(
    df: DataFrame, store: Store, config: Config, request: WriteRequest, rebalance: bool | None
) -> WriteResult:
    writing = plan_write(store, config, incoming_schema(df.schema, store.root), request)
    if isinstance(writing, WriteResult):
        return writing
    location = TableLocation.of(store, config, storage_options_file(df.sparkSession))
    return _run(df, writing, PlannedWrite.of(writing, request, location), rebalance)


def _run(
    df: DataFrame, writing: WriteOperation, planned: PlannedWrite, rebalance: bool | None
) -> WriteResult:
    """Write the files on executors, and commit them."""
    replacement = writing.replacement()  # raises before any task runs
    columns = _partition_columns(df, writing.enforcement.metadata.partition_columns)
    if columns if rebalance is None else rebalance:
        df = rebalanced(df, columns)
    # PySpark resolves columns by name, and would parse a dot or a backtick in one.
    df = df.toDF(*(f"column{index}" for index in range(len(df.columns))))
    results = df.mapInArrow(named_task("write_rows", write_rows, planned), RESULT)
    return writing.finish(collect_results(collect_arrow(results)), replacement)


def _partition_columns(df: DataFrame, partition_columns: Sequence[str]) -> list[str]:
    """Return the quoted names of the partition columns in the DataFrame."""
    given = {column.lower(): column for column in df.columns}
    # Generated partition columns may be missing.
    names = [given[name.lower()] for name in partition_columns if name.lower() in given]
    return [quoted(column) for column in names]
