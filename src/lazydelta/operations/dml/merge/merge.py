"""MERGE: one commit that updates, deletes and inserts rows by comparing them with a source."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING

import pyarrow as pa

from lazydelta._arrow import empty_table
from lazydelta._failpoints import failpoint
from lazydelta.operations.dml.matched_files import split_matches
from lazydelta.operations.dml.merge import tuning
from lazydelta.operations.dml.merge.changed_rows import (
    InsertedRows,
    updated_by_source,
    updated_matches,
)
from lazydelta.operations.dml.merge.matching import Matching
from lazydelta.operations.dml.merge.merge_changes import write_merge_changes
from lazydelta.operations.dml.merge.merge_plan import MergePlan
from lazydelta.operations.dml.merge.source_chunks import SourceChunks
from lazydelta.operations.dml.request import DmlResult
from lazydelta.operations.dml.row_deletion import plan_deletion
from lazydelta.operations.dml.table_rules import has_change_feed
from lazydelta.operations.dml.verb import Verb
from lazydelta.operations.dml.verb_changes import RowChanges, WrittenChanges
from lazydelta.operations.row_tracking import RowTracking
from lazydelta.operations.uncommitted_files import UncommittedFiles
from lazydelta.transaction import ADDS
from lazydelta.writer.files import write_data_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from lazydelta.config import Config
    from lazydelta.operations.dml.merge.clauses import MergeRequest
    from lazydelta.operations.dml.merge.matching import TouchedRows
    from lazydelta.operations.dml.merge.source_chunks import SourceChunk
    from lazydelta.protocol import TableMetadata, TableProtocol
    from lazydelta.snapshot import SnapshotState
    from lazydelta.store import Store
    from lazydelta.writer import RowSource

__all__ = ["METRIC_NAMES", "merge_metrics", "merge_rows"]

logger = logging.getLogger(__name__)

METRIC_NAMES = {
    "numAddedFiles": "numTargetFilesAdded",
    "numAddedBytes": "numTargetBytesAdded",
    "numRemovedFiles": "numTargetFilesRemoved",
    "numRemovedBytes": "numTargetBytesRemoved",
    "numCopiedRows": "numTargetRowsCopied",
    "numAddedChangeFiles": "numTargetChangeFilesAdded",
    "numDeletionVectorsAdded": "numTargetDeletionVectorsAdded",
    "numDeletionVectorsRemoved": "numTargetDeletionVectorsRemoved",
    "numDeletionVectorsUpdated": "numTargetDeletionVectorsUpdated",
}
"""Metrics of MERGE that Delta Spark names otherwise than those of DELETE and UPDATE."""


def merge_rows(
    store: Store,
    config: Config,
    source: RowSource,
    request: MergeRequest,
    *,
    known: SnapshotState | None = None,
    remember: Callable[[SnapshotState | None], None] = lambda _: None,
) -> DmlResult:
    """Merge a source into a table as one version; no commit if no row changes.

    Args:
        store: The table's store.
        config: Settings of the engine.
        source: The rows to merge.
        request: The condition, clauses and options.
        known: The last snapshot that the caller has of the table; may be outdated.
        remember: Receives the committed snapshot, or None if it is not known.

    Raises:
        MultipleMatchesError: Several source rows change one row.
        ConfigError: There is no clause, or two assignments of one column.
        ConstraintViolationError: A new row violates a constraint; nothing is committed.

    Raises the errors of `delete_rows` and `update_rows` too.
    """
    config = _bounded(config)
    verb = Verb.start(
        "MERGE", store, config, request.options,
        known=known, remember=remember, only_appends=request.only_inserts,
    )  # fmt: skip
    if isinstance(verb, DmlResult):
        return verb
    chunks = SourceChunks(source, chunk_bytes=_share(config))
    plan = MergePlan.build(verb.snapshot, request, chunks.schema)
    verb = replace(
        verb, metric_names=METRIC_NAMES, reads_unchanged_rows=request.reads_unchanged_rows
    )
    with chunks:
        run = _Run(verb, plan, chunks)
        return run.dry() if request.options.dry_run else run.execute()


def _share(config: Config) -> int:
    return max(1, config.operation_memory // tuning.MEMORY_SHARE)


def _bounded(config: Config) -> Config:
    """Return settings in which the buffers of readers and writers fit in the memory of a MERGE."""
    read, write, share = config.read, config.write, _share(config)
    return replace(
        config,
        read=replace(read, memory_limit=min(read.memory_limit, share)),
        write=replace(write, memory_limit=min(write.memory_limit, share)),
    )


@dataclass(slots=True)
class _Run:
    """One run of a planned MERGE."""

    verb: Verb
    plan: MergePlan
    source: SourceChunks
    matching: Matching = field(init=False)
    inserted: InsertedRows = field(init=False)
    touched: list[TouchedRows] = field(default_factory=list)
    scan_seconds: float = 0.0
    warnings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.matching = Matching(self.verb.snapshot, self.plan)
        self.inserted = InsertedRows(self.plan, RowTracking.of(self.verb.snapshot))
        if not self.plan.condition.keys:
            reason = "the condition has no equality between target and source"
            warning = f"MERGE compares every row with every source row, which is slow: {reason}"
            logger.warning("%s: %s", self.verb.store.root, warning)
            self.warnings = (warning,)

    def _warn(self) -> None:
        """Warn if every file is read because nothing is known of the keys in it."""
        if self.matching.reads_all and self.plan.condition.keys and not self.warnings:
            names = ", ".join(str(key.target) for key in self.plan.condition.keys)
            warning = (
                f"MERGE reads the key of all {self.matching.reads_all} files: the log has no "
                f"statistics of {names}; a condition on a partition or clustered column in `on` "
                "excludes files"
            )
            logger.warning("%s: %s", self.verb.store.root, warning)
            self.warnings = (warning,)

    def dry(self) -> DmlResult:
        """Return what would happen."""
        for chunk in self.source:
            self.matching.chunk(chunk)
            self._warn()
            self.inserted.count(chunk, self.matching.matched_sources[chunk.index])
            del chunk
        if self.plan.not_matched_by_source:
            self.matching.not_matched_by_source()
        result = self.verb.would_change(self._metrics(), self.matching.result())
        return replace(result, warnings=self.warnings)

    def execute(self) -> DmlResult:
        """Write the changes and commit them."""
        verb, started = self.verb, time.monotonic()
        with UncommittedFiles(verb.store, None) as files:
            changed, inserted = self._write(files)
            if not self.touched and not self.inserted.num_rows:
                return replace(verb.nothing(self._metrics()), warnings=self.warnings)
            deletion = plan_deletion(verb.snapshot, self.matching.result())
            written = verb.write_deletion(deletion, files)
            if self.touched and has_change_feed(verb.snapshot):
                changes = write_merge_changes(verb, self.plan, self.touched, changed, inserted)
                written = replace(written, changes=files.add(changes))
            adds = pa.concat_tables([changed, inserted, written.adds])
            seconds = time.monotonic() - started
            protocol, metadata = self._definition()
            changes = RowChanges(
                deletion=deletion,
                written=replace(written, adds=adds),
                metrics={**self._metrics(), **self._output_metrics(written, seconds)},
                protocol=protocol,
                metadata=metadata,
            )
            reads = None if self.plan.not_matched_by_source else self.matching.bounds.predicate()
            verb = replace(verb, predicate=reads)
            parameters = self.plan.request.parameters()
            result = verb.commit(changes, parameters, files, again=self._again)
            return replace(result, warnings=(*self.warnings, *result.warnings))

    def _again(self, added: pa.Table) -> RowChanges | None:
        """Return no changes for files that a concurrent commit added, if none of their rows match.

        If one does, its source row may have been inserted already: that is a conflict, None.
        """
        if self.plan.not_matched_by_source:
            return None
        for chunk in self.source:
            if self.matching.has_match(chunk, added):
                return None
            del chunk
        nothing = split_matches(self.verb.snapshot, added.slice(0, 0), [])
        deletion = plan_deletion(self.verb.snapshot, nothing)
        empty = empty_table(ADDS)
        written = WrittenChanges(adds=empty, marked=empty)
        return RowChanges(deletion=deletion, written=written, metrics={})

    def _write(self, files: UncommittedFiles) -> tuple[pa.Table, pa.Table]:
        """Write changed and new rows; apart if the change feed has to tell them apart."""
        verb = self.verb
        layout = RowTracking.of(verb.snapshot).layout(self.plan.layout(verb))

        def write(rows: Iterator[pa.RecordBatch]) -> pa.Table:
            return files.add(write_data_files(rows, store=verb.store, layout=layout))

        if has_change_feed(verb.snapshot):
            return write(self._changed_rows()), write(self._inserted_rows())
        return write(chain(self._changed_rows(), self._inserted_rows())), empty_table(ADDS)

    def _changed_rows(self) -> Iterator[pa.RecordBatch]:
        for chunk in self.source:
            yield from self._changed_by(chunk)
            del chunk  # before the next one is loaded
        if self.plan.not_matched_by_source:
            started = time.monotonic()
            touched = self.matching.not_matched_by_source()
            self.scan_seconds += time.monotonic() - started
            if touched.files.num_rows:
                self.touched.append(touched)
                yield from updated_by_source(self.verb, self.plan, touched)

    def _changed_by(self, chunk: SourceChunk) -> Iterator[pa.RecordBatch]:
        started = time.monotonic()
        touched, finder = self.matching.chunk(chunk)
        self._warn()
        failpoint("verb-matched")
        self.scan_seconds += time.monotonic() - started
        if touched.files.num_rows:
            self.touched.append(touched)
            yield from updated_matches(self.verb, self.plan, touched, finder)

    def _inserted_rows(self) -> Iterator[pa.RecordBatch]:
        if not self.plan.not_matched:
            return
        for chunk in self.source:
            matched = self.matching.matched_sources[chunk.index]
            if not matched.all():
                yield from self.inserted.batches(chunk, matched)
            del chunk

    def _definition(self) -> tuple[TableProtocol | None, TableMetadata | None]:
        """Return the table's new protocol and metadata; None where they do not change."""
        snapshot, after = self.verb.snapshot, self.plan.definition
        metadata = after.metadata
        clauses = [c.assignments for c in self.plan.not_matched if c.assignments is not None]
        if clauses:
            metadata = clauses[0].enforcement.advanced_metadata(self.inserted.high_water_marks)
        return (
            None if after.protocol == snapshot.protocol else after.protocol,
            None if metadata == snapshot.metadata else metadata,
        )

    def _metrics(self) -> dict[str, int]:
        return merge_metrics(self.matching.counts, self.source.num_rows, self.inserted.num_rows)

    def _output_metrics(self, written: WrittenChanges, seconds: float) -> dict[str, int]:
        metrics = self._metrics()
        new = metrics["numTargetRowsInserted"] + metrics["numTargetRowsUpdated"]
        return {
            "numOutputRows": new + written.copied_rows,
            "scanTimeMs": int(self.scan_seconds * 1000),
            "rewriteTimeMs": int((seconds - self.scan_seconds) * 1000),
        }


def merge_metrics(
    counts: Mapping[tuple[str, str], int], source_rows: int, inserted: int
) -> dict[str, int]:
    """Return the numbers of rows under the names of Delta Spark.

    Args:
        counts: Changed rows by kind of clause and action.
        source_rows: Rows of the source.
        inserted: New rows.
    """
    updated, deleted = (
        [counts.get((kind, action), 0) for kind in ("matched", "not_matched_by_source")]
        for action in ("update", "delete")
    )
    return {
        "numSourceRows": source_rows,
        "numTargetRowsInserted": inserted,
        "numTargetRowsUpdated": sum(updated),
        "numTargetRowsDeleted": sum(deleted),
        "numTargetRowsMatchedUpdated": updated[0],
        "numTargetRowsMatchedDeleted": deleted[0],
        "numTargetRowsNotMatchedBySourceUpdated": updated[1],
        "numTargetRowsNotMatchedBySourceDeleted": deleted[1],
    }
