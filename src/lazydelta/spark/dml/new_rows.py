"""New rows of UPDATE and MERGE: executors enforce the table's rules and write the files."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Literal

import pyarrow as pa

from lazydelta.errors import UnsupportedFeatureError
from lazydelta.operations import FileTask, RowTracking, WriteRequest
from lazydelta.schema.mapping import without_metadata
from lazydelta.spark.arrow_conversion import serialize_table
from lazydelta.spark.conf import storage_options_file
from lazydelta.spark.dml.frame_columns import quoted
from lazydelta.spark.jobs import named_task
from lazydelta.spark.serialized_snapshot import SerializedSnapshot
from lazydelta.spark.tasks import split_by_size
from lazydelta.spark.tuning import READ_TASKS
from lazydelta.spark.write_tasks import (
    RESULT,
    PlannedWrite,
    collect_results,
    collect_tables,
    incoming_schema,
    task_result,
    write_rows,
)
from lazydelta.transaction import CHANGE_FILES
from lazydelta.writer.enforcement import plan_enforcement
from lazydelta.writer.files import DataLayout, read_added_rows, write_change_files

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from lazydelta.operations import WrittenRows
    from lazydelta.operations.dml import Verb
    from lazydelta.writer.columns import TableDefinition
    from lazydelta.writer.enforcement import Enforcement

__all__ = ["RowWriter"]

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
            UnsupportedFeatureError: Values of an identity column would have to be generated.
        """
        definition = self.definition
        schema = definition.schema
        if is_update:  # rows keep their identity values
            schema = without_metadata(schema, lambda key: key.startswith("delta.identity."))
        enforcement = plan_enforcement(
            table=definition.table,
            protocol=definition.protocol,
            metadata=definition.metadata,
            schema=schema,
            incoming=incoming_schema(rows.schema, definition.table),
            schema_mode=None,
        )
        for column in enforcement.identity:
            reason = f"identity column {column.name!r} needs a single process"
            raise UnsupportedFeatureError(
                definition.table, ("identityColumns",), "write", f"{reason}; use Table.merge"
            )
        return enforcement

    def write(
        self, rows: DataFrame, enforcement: Enforcement, *, keeps_ids: bool = False
    ) -> WrittenRows:
        """Write rows to data files.

        Args:
            rows: The rows.
            enforcement: The plan of their columns.
            keeps_ids: Whether the last column has row ids, if the table tracks rows.

        Raises:
            ConstraintViolationError: A row violates a constraint of the table.
        """
        tracking = RowTracking.of(self.verb.snapshot) if keeps_ids else RowTracking()
        planned = PlannedWrite(
            location=self._snapshot.location,
            request=WriteRequest(),
            base=None,
            task=FileTask(
                enforcement=enforcement, layout=tracking.layout(self._layout), tracking=tracking
            ),
        )
        partitions = self.definition.metadata.partition_columns
        by = [quoted(name) for name in partitions if name in rows.columns]
        rows = rows.hint("rebalance", *by)  # few changed rows of many files become few files
        # PySpark resolves columns by name, and would parse a dot or a backtick in one.
        rows = rows.toDF(*(f"column{index}" for index in range(len(rows.columns))))
        task = named_task("write_rows", write_rows, planned)
        return collect_results(rows.mapInArrow(task, RESULT).toArrow())

    def write_changes(self, adds: pa.Table, enforcement: Enforcement, kind: ChangeType) -> pa.Table:
        """Write the rows of new data files to change files."""
        if not adds.num_rows:
            return CHANGE_FILES.empty_table()
        sizes = adds.column("size").to_numpy()
        parts = [
            serialize_table(adds.slice(run.start, len(run)))
            for run in split_by_size(sizes, READ_TASKS)
        ]
        changes = _AddedChanges(
            snapshot=self._snapshot,
            enforcement=enforcement,
            layout=self._layout,
            kind=kind,
            parts=tuple(parts),
        )
        numbers = self.spark.range(0, len(parts), 1, len(parts))
        task = named_task("write_changes", _write_added_changes, changes)
        tables, _ = collect_tables(numbers.mapInArrow(task, RESULT).toArrow())
        return pa.concat_tables([CHANGE_FILES.empty_table(), *tables]).combine_chunks()

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


@dataclass(frozen=True, kw_only=True)
class _AddedChanges:
    """Data files whose rows are written to change files. Pickles."""

    snapshot: SerializedSnapshot
    enforcement: Enforcement
    layout: DataLayout
    kind: ChangeType
    parts: Sequence[bytes]

    def write(self, number: int) -> tuple[pa.Table, int]:
        adds = pa.ipc.open_stream(self.parts[number]).read_all()
        snapshot = self.snapshot.open()
        with read_added_rows(adds, snapshot, self.enforcement) as rows:
            files = write_change_files(rows, self.kind, store=snapshot.store, layout=self.layout)
        return files, files.num_rows


def _write_added_changes(
    changes: _AddedChanges, numbers: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for batch in numbers:
        for number in batch.column(0).to_pylist():
            yield from task_result(partial(changes.write, number))
