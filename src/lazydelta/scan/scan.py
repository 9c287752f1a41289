"""`Scan`: a read of one version, described. Nothing is read until it is iterated.

Listing files and reading rows start here. How files are found is `scan.plan.run`'s business, how they
become rows `scan.read.reading`'s, and how rows are shown and where they can go `scan.row_feed`'s.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import pyarrow as pa

from lazydelta._parallel import prefetch
from lazydelta._stream import FlatStream, Stream
from lazydelta.config import ReadOptions, ScanStrategy, Strategy, given_number
from lazydelta.errors import ConfigError
from lazydelta.expressions import Predicate, as_predicate
from lazydelta.replay.skipping import Pruner
from lazydelta.scan.aggregates.count_min_max import MinMax, count, min_max
from lazydelta.scan.aggregates.distinct_partitions import partition_values
from lazydelta.scan.pagination import FilePage, Pages
from lazydelta.scan.plan.add_columns import ALL_FIELDS, PLAN_FIELDS, adds_schema
from lazydelta.scan.plan.explain import Explanation, explain
from lazydelta.scan.plan.run import ScanRun
from lazydelta.scan.plan.scan_files import FileBatches, FileColumns, ScanFile
from lazydelta.scan.plan.scan_metrics import ScanMetrics
from lazydelta.scan.plan.strategy import Choice, choose_strategy
from lazydelta.scan.read.output_schema import columns_to_read
from lazydelta.scan.read.reading import Reading
from lazydelta.scan.row_feed import Feed, RowSource
from lazydelta.schema.mapping import physical_name
from lazydelta.snapshot import BYTES_PER_ADD, SnapshotState

if TYPE_CHECKING:
    from lazydelta.schema import StructType

__all__ = ["Scan", "Where"]

_MOST = 2**63 - 1

Where = Predicate | str | Sequence[Any] | dict[str, Any] | None


class _Listing(NamedTuple):
    """A run that listed files, with its own limit and hence its own choice of strategy."""

    run: ScanMetrics
    choice: Choice
    limit: int | None


class Scan(Feed):
    """A scan of one snapshot: which rows and columns, and the files that may hold them.

    Args:
        snapshot: The version to scan.
        where: Keep rows that match, and files that may hold one: a predicate, a SQL string, DNF
            tuples or an equality map.
        columns: The columns to read; None means all.
        limit: The maximum number of rows to read. It does not apply to files: a scan with a limit
            does not list files, and `files(limit=...)` counts files.
        strategy: `reverse` (newest first), `forward` (checkpoint first) or `auto`.
        options: How rows are read and presented; by default `Config.read`.
    """

    def __init__(
        self,
        snapshot: SnapshotState,
        *,
        where: Where = None,
        columns: Sequence[str] | None = None,
        limit: int | None = None,
        strategy: Strategy = "auto",
        options: ReadOptions | None = None,
    ) -> None:
        if strategy not in tuple(ScanStrategy):
            names = ", ".join(ScanStrategy)
            raise ConfigError("strategy", f"must be one of {names}, not {strategy!r}")
        limit = _checked_limit(limit)
        self.snapshot = snapshot
        self.columns = self._resolved_columns(columns)
        self.limit = limit
        self.options = snapshot.config.read
        self.options = self._resolved(options)
        self._pruner = Pruner.build(
            as_predicate(where),
            schema=snapshot.schema,
            partition_columns=snapshot.partition_columns,
            mapping_mode=snapshot.column_mapping_mode,
            generated=snapshot.generates_columns,
        )
        self._requested: Strategy = ScanStrategy(strategy).value
        self._choice = _choice(snapshot, limit, self._requested)
        self._listing: _Listing | None = None
        self._last_run: ScanMetrics | None = None
        self._pages = Pages()

    @property
    def predicate(self) -> Predicate | None:
        """The predicate, bound to the schema."""
        return self._pruner.predicate

    @property
    def strategy(self) -> Strategy:
        """The strategy chosen; `explain()` says why."""
        return self._choice.strategy

    @property
    def metrics(self) -> dict[str, float]:
        """Counters of the latest run, under their `delta.lazy.*` names."""
        return {} if self._last_run is None else self._last_run.named()

    def __repr__(self) -> str:
        where = "" if self.predicate is None else f", where={str(self.predicate)!r}"
        return f"Scan({self.snapshot!r}{where}, limit={self.limit}, strategy={self.strategy!r})"

    def file_batches(
        self, *, limit: int | None = None, all_fields: bool = False
    ) -> Stream[pa.RecordBatch]:
        """Return the matching live files as Arrow batches, as they are discovered.

        Columns: `path`, `size`, `modification_time`, `partition_values`, `deletion_vector`,
        `version` (of the commit; null for files from a checkpoint).

        Args:
            limit: The maximum number of files to list.
            all_fields: Also `num_records`, `stats`, `tags`, `base_row_id`,
                `default_row_commit_version` and `clustering_provider`. Statistics are most of a
                checkpoint's bytes, so they are read only on request.

        Raises:
            ConfigError: The scan has a limit, which counts rows.
        """
        shape = self._shape()
        batches = self._adds(ALL_FIELDS if all_fields else PLAN_FIELDS, limit)
        return Stream(_mapped(batches, shape.planned))

    @property
    def file_schema(self) -> pa.Schema:
        """The schema of the batches of `file_batches()`."""
        nothing = pa.RecordBatch.from_pylist([], adds_schema(PLAN_FIELDS))
        return self._shape().planned(nothing).schema

    def page(self, size: int = 1000, token: str | None = None) -> FilePage:
        """Return some of the files, and a token for the page after them.

        For callers that cannot keep a stream: each page may be asked of another process. Asking
        one scan for page after page costs no more than `file_batches()`.

        Args:
            size: The maximum number of files of the page.
            token: The token of the previous page; None starts with the first.

        Raises:
            PageTokenError: The token is of another scan, or the log has changed since.
            ConfigError: The scan has a limit, which counts rows.
        """
        return self._pages.read(self, size, token)

    def add_batches(self) -> Stream[pa.RecordBatch]:
        """Return the same files as their add actions state them: paths and names not decoded."""
        return Stream(self._adds(PLAN_FIELDS))

    def files(self, limit: int | None = None) -> Stream[ScanFile]:
        """Return the matching live files one by one, each with every field of its add action.

        Args:
            limit: The maximum number of files to list.

        Raises:
            ConfigError: The scan has a limit, which counts rows.
        """
        return FlatStream(self._file_lists(self._adds(ALL_FIELDS, limit)))

    def _file_lists(self, found: Iterator[pa.RecordBatch]) -> Iterator[Iterable[ScanFile]]:
        shape = self._shape()
        with Stream(found) as batches:
            for adds in batches:
                columns = FileColumns(shape.planned(adds), adds.column("path"), shape)
                yield map(partial(ScanFile, columns), range(len(columns)))

    def _adds(self, fields: Sequence[str], limit: int | None = None) -> Iterator[pa.RecordBatch]:
        if self.limit is not None:
            raise ConfigError(
                "limit", "of a scan counts rows; list files with scan().files(limit=...)"
            )
        limit = _checked_limit(limit)
        choice = _choice(self.snapshot, limit, self._requested)
        run = ScanRun(self.snapshot, pruner=self._pruner, fields=fields, limit=limit, choice=choice)
        self._last_run = run.metrics
        self._listing = _Listing(run.metrics, choice, limit)
        return prefetch(run.batches, depth=self.snapshot.config.prefetch_batches)

    def _shape(self) -> FileBatches:
        snapshot, mode = self.snapshot, self.snapshot.column_mapping_mode
        by_name = {field.name: field for field in snapshot.schema.fields}
        fields = [by_name[name] for name in snapshot.partition_columns]
        return FileBatches(
            snapshot.resolver,
            {field.name: field.type for field in fields},
            {physical_name(field, mode): field.name for field in fields},
        )

    # --- rows

    @property
    def _shown_version(self) -> SnapshotState:
        return self.snapshot

    @property
    def _readable(self) -> StructType:
        return self.snapshot.schema

    def _source(self, options: ReadOptions) -> RowSource:
        columns = columns_to_read(options.schema, self.columns, self._readable.names)
        views = options.schema_force_view_types and options.schema is None
        reading = Reading(self, options, None, columns, views=views)
        kept = partial(reading.batches, keeps_all=True)
        return RowSource(reading.projection.schema, reading.batches, kept)

    def _asked(
        self, where: Predicate | None, columns: Sequence[str] | None, limit: int | None
    ) -> Self:
        return type(self)(
            self.snapshot,
            where=where,
            columns=columns,
            limit=limit,
            strategy=self.strategy,
            options=self.options,
        )

    def count(self) -> int:
        """Return how many rows match, from the log alone where it tells exactly."""
        return count(self)

    def min_max(self, column: str) -> MinMax:
        """Return minimum and maximum of a column, as Python values.

        The log's statistics decide where they are exact; other files are read.
        """
        return min_max(self, column)

    def partition_values(self) -> pa.Table:
        """Return the partitions with matching rows, one row for each, typed.

        From the log alone where it tells that a partition has one; of the others files are read
        until a row is found. A table without partition columns has one row without columns.
        """
        return partition_values(self)

    def explain(self, *, count_files: bool = True) -> Explanation:
        """Return what was chosen and, once the scan has run, what it read and pruned.

        `scanned` and `pruned` files add up to the files of the version. Where neither the scan nor
        a checksum tells how many those are, they are counted, once, if the scan saw the whole log.

        Args:
            count_files: Whether the log may be read for that; if not, `pruned` may be None.
        """
        run = self._last_run or ScanMetrics()
        if count_files and run.complete and run.reached_end and run.live_files is None:
            run.live_files = self._counted_files()
        predicate = None if self.predicate is None else str(self.predicate)
        listing = self._listing
        if listing is None or listing.run is not run:  # rows were read, or nothing yet
            listing = _Listing(run, self._choice, None)
        plan = {"predicate": predicate, "row_limit": self.limit, "file_limit": listing.limit}
        return explain(self.snapshot, listing.choice, plan, run)

    def _counted_files(self) -> int:
        """Return how many files the version has: a pass over the keys in the log."""
        unobserved = replace(self.snapshot.config, observer=None)
        every_file = ScanRun(
            replace(self.snapshot, config=unobserved),
            pruner=Pruner(),
            fields=("path", "deletionVector"),
            limit=None,
            choice=self._choice,
        )
        return sum(batch.num_rows for batch in every_file.batches())


def _checked_limit(limit: int | None) -> int | None:
    if limit is None:
        return None
    if given_number("limit", limit) < 0:
        raise ConfigError("limit", f"must be at least 0, not {limit}")
    return min(given_number("limit", limit), _MOST)  # Arrow counts no further


def _choice(snapshot: SnapshotState, limit: int | None, asked: Strategy) -> Choice:
    segment, hint = snapshot.segment, snapshot.hint
    files: int | None = None
    if segment.checkpoint is None:
        files = 0
    elif hint is not None and hint.version == segment.base_version:
        files = hint.add_files
    return choose_strategy(
        asked,
        limit=limit,
        tail_files=sum(file.size for file in segment.tail) // BYTES_PER_ADD,
        tail_commits=len(segment.tail),
        checkpoint_files=files,
        forward_tail_commits=snapshot.config.forward_tail_commits,
    )


def _mapped(
    batches: Iterator[pa.RecordBatch], function: Callable[[pa.RecordBatch], pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    with Stream(batches) as stream:
        for batch in stream:
            yield function(batch)
