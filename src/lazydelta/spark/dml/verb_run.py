"""One run of a verb on Spark: from the positions of rows to the files of the commit.

The driver plans with the code of the verbs in one process and commits once. Executors find the
rows, and write vectors, data files and change files.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as f
from pyspark.sql import types as t

from lazydelta.errors import InternalError
from lazydelta.formats import num_records
from lazydelta.operations import RowTracking
from lazydelta.operations.dml import (
    RowDeletion,
    WrittenChanges,
    plan_counted_deletion,
    with_vectors,
)
from lazydelta.spark.dml.changed_files import (
    VECTORS,
    FileTask,
    copy_rows,
    read_matched_rows,
    write_matched_changes,
    write_vectors,
)
from lazydelta.spark.dml.frame_columns import CLAUSE, POSITIONS
from lazydelta.spark.dml.positions import load_bitmap
from lazydelta.spark.dml.target import UNTRACKED, RowRead, TargetFiles, rows_schema
from lazydelta.spark.jobs import named_task
from lazydelta.spark.spark_releases import collect_arrow, frame_of_arrow
from lazydelta.spark.write_tasks import RESULT, collect_tables, concat
from lazydelta.transaction import ADDS, CHANGE_FILES

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame

    from lazydelta.operations import UncommittedFiles
    from lazydelta.operations.dml import Verb
    from lazydelta.spark.dml.target_candidates import Candidates
    from lazydelta.spark.jobs import ArrowTask

__all__ = ["FileRows", "VerbRun", "check_count", "load_rows", "matched_rows"]

_ALL_ROWS = 0
"""The clause of files that statistics decide."""


@dataclass(frozen=True, kw_only=True)
class VerbRun:
    """The rows that a verb changes: their positions in Spark, their numbers in the driver."""

    verb: Verb
    target: TargetFiles
    """The files with changed rows."""
    positions: DataFrame | None
    """In the schema of `POSITIONS`; None if statistics decide all files."""
    decided: frozenset[int]
    """Numbers of the files that statistics decide: all their rows match."""
    rows: Mapping[int, int]
    """For each clause the number of rows, without the files that statistics decide."""
    has_repeats: bool
    """Whether a row is in two clauses, or twice in one."""
    num_rows: int | None
    """The number of all rows; None if a file that statistics decide has no row count."""
    deletion: RowDeletion

    @property
    def touched(self) -> pa.Table:
        """The files with changed rows."""
        return pa.concat_tables([self.deletion.removed, self.deletion.marked])

    def write_deletion(self, files: UncommittedFiles) -> WrittenChanges:
        """Write vectors, and copy the other rows of rewritten files."""
        marked, rewritten = self.deletion.marked, self.deletion.rewritten
        adds, copied = ADDS.empty_table(), 0
        if marked.num_rows:
            chosen = self._files(marked)
            tables, count = self._run("write_vectors", write_vectors, chosen)
            check_count("deletion vectors", count, marked.num_rows)
            marked = _with_vectors(self.deletion, chosen.numbers, pa.concat_tables(tables))
        if rewritten.num_rows:
            chosen = self._files(rewritten)
            tables, copied = self._run("copy_rows", copy_rows, chosen, tracking=self.tracking)
            check_count("copied rows", copied, _kept_rows(self.deletion))
            adds = files.add(concat(ADDS, tables))
        return WrittenChanges(adds=adds, marked=marked, copied_rows=copied)

    def write_changes(self, kinds: Mapping[int, str]) -> pa.Table:
        """Write the old rows of clauses to change files; `kinds` has the type of each clause."""
        task = write_matched_changes
        tables, count = self._run("write_changes", task, self.target, dict(kinds))
        known = self.num_rows is not None and kinds.keys() >= {*self.rows}
        check_count("changed rows", count, self.num_rows if known else None)
        return concat(CHANGE_FILES, tables)

    @property
    def tracking(self) -> RowTracking:
        """The row ids that rows keep in new files."""
        return RowTracking.of(self.target.snapshot)

    def old_rows(self, columns: Sequence[str], clauses: Collection[int]) -> DataFrame:
        """Return columns of the rows of clauses, row ids, `FILE`, `ROW` and `CLAUSE`."""
        schema = rows_schema(self.target.snapshot, columns, self.tracking)
        schema = t.StructType([*schema, t.StructField(CLAUSE, t.IntegerType())])
        files = self._task(self.target, columns, tracking=self.tracking)
        task = named_task("read_rows", read_matched_rows, files, schema, frozenset(clauses))
        return self._positions(self.target).mapInArrow(task, schema)

    def _files(self, adds: pa.Table) -> TargetFiles:
        """Return some of the files."""
        paths = self.target.adds.column("path").combine_chunks()
        places = pc.index_in(adds.column("path").combine_chunks(), paths)
        return replace(self.target, adds=adds, numbers=self.target.numbers.take(places))

    def _run(
        self,
        name: str,
        function: ArrowTask,
        chosen: TargetFiles,
        *arguments: object,
        tracking: RowTracking = UNTRACKED,
    ) -> tuple[list[pa.Table], int]:
        files = self._task(chosen, tracking=tracking)
        task = named_task(name, function, files, *arguments)
        return collect_tables(collect_arrow(self._positions(chosen).mapInArrow(task, RESULT)))

    def _task(
        self,
        chosen: TargetFiles,
        columns: Sequence[str] | None = None,
        *,
        tracking: RowTracking,
    ) -> FileTask:
        layout = tracking.layout(self.verb.layout())
        if layout.options.files_at_once is None:  # a task writes one file at a time
            layout = replace(layout, options=replace(layout.options, files_at_once=1))
        snapshot = chosen.snapshot
        names = [field.name for field in snapshot.schema] if columns is None else columns
        return FileTask(
            read=RowRead.of(chosen.spark, snapshot, names, tracking=tracking),
            files=chosen.numbered().serialize().to_pybytes(),
            layout=layout,
        )

    def _positions(self, chosen: TargetFiles) -> DataFrame:
        """Return positions in tasks by file: those of some files, and perhaps others."""
        frames = [] if self.positions is None else [self.positions]
        if decided := [number for number in chosen.numbers.to_pylist() if number in self.decided]:
            entries = pa.table([pa.array(decided, pa.int64())], ["file"])
            files = frame_of_arrow(self.target.spark, entries, "file long")
            tasks = min(len(decided), self.target.num_tasks)
            names = ("count", "repeated", "rows")
            columns = (f"CAST(NULL AS {POSITIONS[n].dataType.simpleString()}) {n}" for n in names)
            spread = files.repartition(tasks, "file")
            frames.append(spread.selectExpr("file", f"{_ALL_ROWS} AS clause", *columns))
        return frames[0] if len(frames) == 1 else frames[0].unionAll(frames[1])


def check_count(what: str, found: int, expected: int | None) -> None:
    """Refuse to commit if tasks did not write what the driver counted; None is not known.

    Raises:
        InternalError: The numbers differ.
    """
    if expected is not None and found != expected:
        raise InternalError(f"tasks wrote {found} {what} where {expected} are expected")


@dataclass(frozen=True, slots=True)
class FileRows:
    """Rows of a file by their number; Spark has the positions."""

    positions: DataFrame
    """Those of this file and others, in the schema of `POSITIONS`."""
    file: int
    count: int

    def __len__(self) -> int:
        """Return the number of rows."""
        return self.count


def load_rows(rows: Sequence[Any]) -> list[Any]:
    """Return the bitmaps of rows that Spark has; bitmaps as they are.

    After a lost race the driver needs those of the files that the winner changed too.
    """
    frames = {id(one.positions): one.positions for one in rows if isinstance(one, FileRows)}
    bitmaps: dict[tuple[int, int], Any] = {}
    for key, frame in frames.items():
        numbers = [one.file for one in rows if getattr(one, "positions", None) is frame]
        found = collect_arrow(frame.where(f.col("file").isin(numbers)).select("file", "rows"))
        for file, data in zip(*(column.to_pylist() for column in found.columns), strict=True):
            known = bitmaps.get((key, file))
            bitmaps[key, file] = load_bitmap(data) | known if known else load_bitmap(data)
    return [
        bitmaps[id(one.positions), one.file] if isinstance(one, FileRows) else one for one in rows
    ]


@contextmanager
def matched_rows(
    verb: Verb,
    undecided: Candidates,
    decided: TargetFiles,
    positions: DataFrame | None,
) -> Iterator[VerbRun]:
    """Count the rows that a verb changes; their positions are persisted inside the block.

    Args:
        verb: The verb.
        undecided: The files that may have such rows.
        decided: The files of which all rows match by statistics.
        positions: The rows of the undecided files, as `POSITIONS`; None if there are none.
    """
    counts = pa.table({"file": [], "clause": [], "count": [], "repeated": []})
    positions = None if positions is None else positions.persist()
    try:
        if positions is not None:
            counts = collect_arrow(positions.select(*counts.column_names))
        sums = _sums(counts, "file", "count")
        touched = undecided.chosen(list(sums))
        rows = []
        if positions is not None:
            rows = [FileRows(positions, file, count) for file, count in sums.items()]
        deletion, num_rows = plan_counted_deletion(verb.snapshot, decided.adds, touched.adds, rows)
        yield VerbRun(
            verb=verb,
            target=touched.united(decided),
            positions=positions,
            decided=frozenset(decided.numbers.to_pylist()),
            rows=_sums(counts, "clause", "count"),
            has_repeats=bool(pc.sum(counts.column("repeated")).as_py()),
            num_rows=num_rows,
            deletion=deletion,
        )
    finally:
        if positions is not None:
            positions.unpersist()


def _sums(counts: pa.Table, key: str, value: str) -> dict[int, int]:
    if not counts.num_rows:
        return {}
    summed = counts.group_by(key, use_threads=False).aggregate([(value, "sum")])
    keys, sums = summed.column(key).to_pylist(), summed.column(f"{value}_sum").to_pylist()
    return dict(zip(keys, sums, strict=True))


def _with_vectors(deletion: RowDeletion, numbers: pa.Array, vectors: pa.Table) -> pa.Table:
    """Return the adds of marked files with their new vectors."""
    by_file = {row.pop("index"): row for row in vectors.cast(VECTORS).to_pylist()}
    descriptors = [by_file[number] for number in numbers.to_pylist()]
    return with_vectors(deletion.marked, descriptors, deletion.marked_counts)


def _kept_rows(deletion: RowDeletion) -> int | None:
    """Return how many rows of rewritten files are kept; None without row counts."""
    files = deletion.rewritten
    counts = num_records(files.column("stats").combine_chunks())
    if counts.null_count:
        return None
    vectors = files.column("deletionVector").combine_chunks()
    deleted = pc.sum(pc.struct_field(vectors, "cardinality")).as_py() or 0
    return int(pc.sum(counts).as_py()) - deleted - sum(map(len, deletion.rewritten_rows))
