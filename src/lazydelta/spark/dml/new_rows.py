"""New rows of UPDATE and MERGE: executors enforce the table's rules and write the files."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import orjson
import pyarrow as pa

from lazydelta.operations import FileTask, RowTracking, WriteRequest, WrittenRows
from lazydelta.schema.mapping import without_metadata
from lazydelta.spark.arrow_conversion import arrow_schema, serialize_table
from lazydelta.spark.column_functions import quoted
from lazydelta.spark.conf import storage_options_file
from lazydelta.spark.dml.frame_columns import SOURCE_ROW
from lazydelta.spark.jobs import named_task
from lazydelta.spark.planner import map_splits, split_by_size
from lazydelta.spark.serialized_snapshot import SerializedSnapshot
from lazydelta.spark.spark_releases import collect_arrow, rebalance
from lazydelta.spark.write_tasks import (
    RESULT,
    PlannedWrite,
    collect_tables,
    concat,
    incoming_schema,
    task_result,
)
from lazydelta.transaction import ADDS, CHANGE_FILES
from lazydelta.writer.columns import furthest_values
from lazydelta.writer.enforcement import plan_enforcement
from lazydelta.writer.files import DataLayout, read_added_rows, write_change_files

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

    from lazydelta.operations.dml import Verb
    from lazydelta.spark.dml.source_numbers import SourceNumbers
    from lazydelta.writer.columns import TableDefinition
    from lazydelta.writer.enforcement import Enforcement

__all__ = ["RowWriter"]

_MARKS = b"highWaterMarks"
"""Key of the high-water marks of a task in the metadata of its adds."""
ChangeType = Literal["insert", "update_postimage"]


@dataclass(frozen=True, kw_only=True)
class RowWriter:
    """Writes new rows of a verb, and change files of them."""

    spark: SparkSession
    verb: Verb
    definition: TableDefinition
    """The table after the operation."""

    def plan(self, rows: DataFrame, *, is_update: bool) -> Enforcement:
        """Plan the enforcement of the table's rules on changed or inserted rows.

        Raises:
            SchemaMismatchError: The rows do not fit.
        """
        definition = self.definition
        schema = definition.schema
        if is_update:  # rows keep their identity values
            schema = without_metadata(schema, lambda key: key.startswith("delta.identity."))
        return plan_enforcement(
            table=definition.table,
            protocol=definition.protocol,
            metadata=definition.metadata,
            schema=schema,
            incoming=incoming_schema(rows.schema, definition.table),
            schema_mode=None,
        )

    def write(
        self,
        rows: DataFrame,
        enforcement: Enforcement,
        *,
        keeps_ids: bool = False,
        numbers: SourceNumbers | None = None,
    ) -> WrittenRows:
        """Write rows to data files.

        Args:
            rows: The rows.
            enforcement: The plan of their columns.
            keeps_ids: Whether the last column has row ids, if the table tracks rows.
            numbers: Converts the last column, `SOURCE_ROW`, for identity columns.

        Raises:
            ConstraintViolationError: A row violates a constraint of the table.
            IdentityExhaustedError: An identity column has too few values left.
        """
        tracking = RowTracking.of(self.verb.snapshot) if keeps_ids else RowTracking()
        planned = PlannedWrite(
            location=self._snapshot.location,
            request=WriteRequest(),
            base=None,
            task=FileTask(
                enforcement=enforcement,
                layout=tracking.layout(self._layout),
                tracking=tracking,
                row_number=None if numbers is None else SOURCE_ROW,
            ),
        )
        partitions = self.definition.metadata.partition_columns
        by = [quoted(name) for name in partitions if name in rows.columns]
        rows = rebalance(rows, by)  # few changed rows of many files become few files
        # PySpark resolves columns by name, and would parse a dot or a backtick in one.
        rows = rows.toDF(*(f"column{index}" for index in range(len(rows.columns))))
        task = named_task("write_rows", _write_numbered_rows, planned, numbers)
        tables, count = collect_tables(collect_arrow(rows.mapInArrow(task, RESULT)))
        adds = concat(ADDS, tables)
        marks = furthest_values(enforcement.identity, map(_high_water_marks, tables))
        return WrittenRows(adds, count, marks)

    def write_changes(self, adds: pa.Table, enforcement: Enforcement, kind: ChangeType) -> pa.Table:
        """Write the rows of new data files to change files."""
        if not adds.num_rows:
            return CHANGE_FILES.empty_table()
        sizes = adds.column("size").to_numpy()
        parts = [serialize_table(adds.slice(run.start, len(run))) for run in split_by_size(sizes)]
        changes = _AddedChanges(
            snapshot=self._snapshot,
            enforcement=enforcement,
            layout=self._layout,
            kind=kind,
        )
        found = map_splits(self.spark, parts, changes.write_changes, arrow_schema(RESULT))
        tables, _ = collect_tables(collect_arrow(found))
        return concat(CHANGE_FILES, tables)

    @property
    def _snapshot(self) -> SerializedSnapshot:
        return SerializedSnapshot.of(self.verb.snapshot, storage_options_file(self.spark))

    @property
    def _layout(self) -> DataLayout:
        """The layout of new files; a task writes one file at a time."""
        definition, options = self.definition, self.verb.config.write
        if options.files_at_once is None:
            options = replace(options, files_at_once=1)
        return DataLayout.of(
            definition.schema,
            definition.protocol,
            definition.metadata,
            options,
            clustered_by=self.verb.snapshot.clustering_columns(),
        )


def _write_numbered_rows(
    planned: PlannedWrite, numbers: SourceNumbers | None, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Write the rows of a task; its result has the high-water marks too."""
    names = planned.task.input_columns

    def named() -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = batch.rename_columns(names)
            yield rows if numbers is None else numbers.converted(rows)

    def write() -> tuple[pa.Table, int]:
        written = planned.write(named())
        marks = orjson.dumps(dict(written.high_water_marks))
        return written.adds.replace_schema_metadata({_MARKS: marks}), written.rows

    return task_result(write)


def _high_water_marks(adds: pa.Table) -> dict[str, int]:
    marks: dict[str, int] = orjson.loads((adds.schema.metadata or {}).get(_MARKS, b"{}"))
    return marks


@dataclass(frozen=True, kw_only=True)
class _AddedChanges:
    """Data files whose rows are written to change files; it can be pickled."""

    snapshot: SerializedSnapshot
    enforcement: Enforcement
    layout: DataLayout
    kind: ChangeType

    def write_changes(self, part: bytes) -> Iterator[pa.RecordBatch]:
        """Write the rows of the files of a task."""

        def work() -> tuple[pa.Table, int]:
            adds, snapshot = pa.ipc.open_stream(part).read_all(), self.snapshot.open()
            store, layout = snapshot.store, self.layout
            with read_added_rows(adds, snapshot, self.enforcement) as rows:
                files = write_change_files(rows, self.kind, store=store, layout=layout)
            return files, files.num_rows

        return task_result(work)
