"""UPDATE on Spark: changed rows are written to new files, and deleted from the old ones."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as f

from lazydelta.operations import UncommittedFiles
from lazydelta.operations.dml import (
    DmlRequest,
    DmlResult,
    RowChanges,
    assignment_tree,
    has_change_feed,
)
from lazydelta.spark.arrow_conversion import read_schema
from lazydelta.spark.column_functions import quoted
from lazydelta.spark.dml.delete import matching_rows
from lazydelta.spark.dml.new_rows import RowWriter
from lazydelta.spark.dml.start import TableAccess, start_verb
from lazydelta.spark.dml.stored_values import StoredValues, leaves
from lazydelta.spark.dml.verb_run import check_count, load_rows
from lazydelta.spark.session_sql import mentioned_columns
from lazydelta.spark.spark_errors import raises_spark_errors
from lazydelta.writer.columns import TableDefinition
from lazydelta.writer.enforcement import GENERATION_EXPRESSION

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from pyspark.sql import Column, SparkSession

    from lazydelta.config import Config
    from lazydelta.scan import Where
    from lazydelta.schema import StructField
    from lazydelta.snapshot import SnapshotState
    from lazydelta.spark.dml.conditions import RowCondition
    from lazydelta.spark.dml.verb_run import VerbRun
    from lazydelta.store.cloud import Credential

__all__ = ["row_ids", "update"]


@raises_spark_errors
def update(
    spark: SparkSession,
    url: str | os.PathLike[str],
    set: Mapping[str, Any],  # noqa: A002 - SQL's word
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
    """Change columns of the matching rows as one new version; of all rows without `where`.

    The result is that of `Table.update`. Executors find, change and write the rows; the driver
    receives add actions and descriptors, and commits once.

    Args:
        spark: A session, classic or Spark Connect; its executors need lazydelta installed and
            access to the table's store.
        url: The table's location.
        set: For each column, or field of a struct, an SQL expression over the old row that Spark
            evaluates, or a `lit` or `col` expression. Values are cast as Spark's store assignment
            does: one that does not fit is an error.
        where: Which rows to change, as for `delete`.
        app_id: With `app_version`: makes the operation idempotent.
        app_version: The version of the application's transaction; it must increase.
        commit_metadata: User metadata for the commit.
        dry_run: Whether to return what would happen, and write nothing.
        storage_options: Store settings of this process, as for `read`.
        config: Engine settings; by default those of the `LAZYDELTA_*` environment.
        credential: A function of a module that returns a token or keys.

    Raises:
        ConfigError: There are no assignments, or two of one column.
        ColumnNotFoundError: An assignment names a column that the table does not have.
        SchemaMismatchError: A value cannot be stored in its column.
        ConstraintViolationError: A changed row violates a constraint; nothing is committed.
        PySparkException: Spark refuses an expression, or tasks failed; nothing is committed.

    Raises the errors of `delete` too.
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
    started = start_verb(spark, "UPDATE", access, request)
    if isinstance(started, DmlResult):
        return started
    verb, condition = started
    columns, values = _new_columns(spark, verb.snapshot, set)
    with matching_rows(spark, verb, condition) as run:
        return _finish(run, condition, columns, values)


def _new_columns(
    spark: SparkSession, snapshot: SnapshotState, assigned: Mapping[str, Any]
) -> tuple[list[str], list[Column]]:
    """Return the columns of old rows that are needed, and those of the new rows."""
    schema = snapshot.schema
    tree = assignment_tree(assigned, schema, is_update=True)
    expressions = leaves(tree)
    read = set(mentioned_columns(snapshot, expressions))
    for field in schema:
        if isinstance(tree.get(field.name), dict) or _is_kept(field, tree):
            read.add(field.name)
    columns = [field.name for field in schema if field.name in read]
    rows = spark.createDataFrame([], read_schema(snapshot, columns))
    stored = replace(StoredValues.of(rows, expressions, snapshot.store.root), old=())
    values = stored.columns(tree, read_schema(snapshot, None))
    new = []
    for field in schema:
        if field.name in values:
            new.append(values[field.name].alias(field.name))
        elif _is_kept(field, tree):
            new.append(f.col(quoted(field.name)))
    return columns, new


def _is_kept(field: StructField, tree: Mapping[str, Any]) -> bool:
    """Whether the new row has the old value: a generated one is computed anew."""
    return field.name not in tree and GENERATION_EXPRESSION not in field.metadata


def _finish(
    run: VerbRun, condition: RowCondition, columns: list[str], values: list[Column]
) -> DmlResult:
    """Write the files of an UPDATE, and commit them."""
    verb, found = run.verb, time.monotonic()
    metrics = {} if run.num_rows is None else {"numUpdatedRows": run.num_rows}
    if verb.request.dry_run:
        return verb.nothing({**metrics, **verb.file_metrics(run.deletion)}, dry_run=True)
    if not run.touched.num_rows:
        return verb.nothing({"numUpdatedRows": 0})
    with UncommittedFiles(verb.store, None) as files:

        def again(added: pa.Table) -> RowChanges:
            with matching_rows(run.target.spark, verb, condition, added) as more:
                return _changes(more, columns, values, files)

        first = _changes(run, columns, values, files).timed(verb.phases(found))
        parameters = {"predicate": condition.shown}
        return verb.commit(first, parameters, files, again=again, load_rows=load_rows)


def _changes(
    run: VerbRun, columns: list[str], values: list[Column], files: UncommittedFiles
) -> RowChanges:
    """Write the new versions of the matching rows, and delete the old ones."""
    verb, spark = run.verb, run.target.spark
    if not run.touched.num_rows:
        written = run.write_deletion(files)
        return RowChanges(deletion=run.deletion, written=written, metrics={})
    writer = RowWriter(spark=spark, verb=verb, definition=TableDefinition.of(verb.snapshot))
    old = run.old_rows(columns, {0})
    enforcement = writer.plan(old.select(*values), is_update=True)
    rows = old.select(*values, *row_ids(run))
    changed = writer.write(rows, enforcement, keeps_ids=True)
    files.add(changed.adds)
    check_count("changed rows", changed.rows, run.num_rows)
    written = run.write_deletion(files)
    if has_change_feed(verb.snapshot):
        before = files.add(run.write_changes({0: "update_preimage"}))
        after = files.add(writer.write_changes(changed.adds, enforcement, "update_postimage"))
        written = replace(written, changes=pa.concat_tables([before, after]))
    written = replace(written, adds=pa.concat_tables([changed.adds, written.adds]))
    metrics = {"numUpdatedRows": changed.rows}
    return RowChanges(deletion=run.deletion, written=written, metrics=metrics)


def row_ids(run: VerbRun) -> list[Column]:
    """Return the column of row ids of old rows, if the table tracks rows."""
    name = run.tracking.row_id
    return [] if name is None else [f.col(quoted(name))]
