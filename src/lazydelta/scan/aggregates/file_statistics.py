"""Row counts and bounds of planned files, as columns, from the log alone.

Combines statistics, partition values and cardinalities of deletion vectors. Null means unknown.
Counts that contradict each other are treated as unknown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lazydelta import expressions, formats
from lazydelta._arrow import from_mask, from_numpy, to_mask, true_mask
from lazydelta._parallel import prefetch
from lazydelta._stream import Stream
from lazydelta.errors import PredicateError
from lazydelta.expressions import nodes
from lazydelta.replay.skipping import Pruner, sanitize_stats
from lazydelta.scan.plan.partition_arrays import partition_columns
from lazydelta.scan.plan.run import ScanRun
from lazydelta.schema import DataType, DecimalType, PrimitiveType, to_arrow_type
from lazydelta.schema.mapping import physical_path

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lazydelta.expressions import Predicate
    from lazydelta.scan.read.reading import ReadableScan

__all__ = ["Bounds", "FileStatistics"]

_FIELDS: tuple[str, ...] = ("path", "size", "partitionValues", "deletionVector", "numRecords")
_LONG, _BOOLEAN = PrimitiveType("long"), PrimitiveType("boolean")
_EXACT_TYPES = ("byte", "short", "integer", "long", "date")
_BOUNDED_TYPES = (*_EXACT_TYPES, "string", "timestamp", "timestamp_ntz")
_EXACT_DIGITS = 15  # decimal digits that a double holds: some writers store bounds as doubles


class Bounds(NamedTuple):
    """Bounds of one column for each file of a batch.

    Attributes:
        low: Lower bound; null if unknown.
        high: Upper bound; null if unknown.
        are_values: Whether both bounds are values of matching rows.
        may_have_values: Whether the file must be read to know the values of its matching rows.
    """

    low: pa.Array
    high: pa.Array
    are_values: pa.BooleanArray
    may_have_values: pa.BooleanArray


class _View:
    """A scan for the row reader, with other columns and without a limit."""

    def __init__(self, scan: ReadableScan, columns: tuple[str, ...]) -> None:
        self.snapshot = scan.snapshot
        self.columns: tuple[str, ...] | None = columns
        self.limit: int | None = None
        self.predicate = scan.predicate
        self._pruner = scan._pruner  # noqa: SLF001 - one room
        self._choice = scan._choice  # noqa: SLF001
        self._last_run = scan._last_run  # noqa: SLF001


class FileStatistics:
    """The planned files of a scan, and their statistics."""

    def __init__(self, scan: ReadableScan) -> None:
        self._scan = scan
        self._snapshot = scan.snapshot
        self._partition_filter, self._residual = None, None
        if scan.predicate is not None:
            self._partition_filter, self._residual = expressions.split_conjuncts(scan.predicate)
        self._mismatch = None if self._residual is None else self._mismatch_pruner(self._residual)

    def view(self, columns: tuple[str, ...]) -> ReadableScan:
        """Return the scan with other columns and without a limit, for the row reader."""
        return _View(self._scan, columns)

    def planned_adds(self, *, stats: bool = True) -> Iterator[pa.RecordBatch]:
        """Yield the adds whose partition values satisfy the predicate.

        Args:
            stats: Whether to read the fields of `bounds`; those of `all_match` are always read.
        """
        fields = _FIELDS
        if stats or self._mismatch is not None:  # most of the log's bytes
            fields = (*fields, "stats")
        run = ScanRun(
            self._snapshot,
            pruner=self._scan._pruner,  # noqa: SLF001 - one room
            fields=fields,
            limit=None,
            choice=self._scan._choice,  # noqa: SLF001
        )
        run.metrics.take(0)
        self._scan._last_run = run.metrics  # noqa: SLF001
        depth = self._snapshot.config.prefetch_batches
        with Stream(prefetch(run.batches, depth=depth)) as planned:
            for adds in planned:
                matching = self._filter_partitions(adds)
                run.metrics.take(matching.num_rows)
                yield matching

    def _filter_partitions(self, adds: pa.RecordBatch) -> pa.RecordBatch:
        if self._partition_filter is None:
            return adds
        names = {
            node.path[0] for node in self._partition_filter.walk() if isinstance(node, nodes.Column)
        }
        values = partition_columns(self._snapshot, adds.column("partitionValues"), names)
        keep = expressions.evaluate(
            self._partition_filter, lambda column: values[column.path[0]], adds.num_rows
        )
        return adds.filter(keep)

    def live_rows(self, adds: pa.RecordBatch) -> pa.Int64Array:
        """Return the number of rows that are not deleted; null if unknown."""
        counts = adds.column("numRecords")
        vectors = adds.column("deletionVector")
        if vectors.null_count == len(vectors):
            return _null_if_negative(counts)
        deleted = pc.struct_field(vectors, "cardinality").cast(pa.int64())
        live = pc.subtract(counts, pc.coalesce(deleted, _zero()))
        is_invalid = true_mask(pc.less(deleted, _zero()))
        return pc.if_else(
            from_mask(is_invalid), pa.nulls(1, pa.int64())[0], _null_if_negative(live)
        )

    def all_match(self, adds: pa.RecordBatch) -> np.ndarray:
        """Return for each file whether all of its rows satisfy the predicate."""
        if self._residual is None:
            return np.ones(adds.num_rows, bool)
        if self._mismatch is None:
            return np.zeros(adds.num_rows, bool)
        if self._mismatch.matches_nothing:
            return np.ones(adds.num_rows, bool)
        may_mismatch = self._mismatch.mask(adds)
        if may_mismatch is None:
            return np.zeros(adds.num_rows, bool)
        return ~to_mask(may_mismatch)

    def _mismatch_pruner(self, residual: Predicate) -> Pruner | None:
        """Return a pruner for files with rows that do not satisfy the predicate.

        For such rows the predicate is false or NULL. If its operands are columns and non-null
        constants only, it is NULL only where a column is NULL. None for other predicates.
        """
        operands = [node for node in residual.walk() if not isinstance(node, nodes.Predicate)]
        columns = {node.path for node in operands if isinstance(node, nodes.Column)}
        if any(node.parts() for node in operands) or any(len(path) != 1 for path in columns):
            return None
        if any(map(_has_null_constant, residual.walk())):
            return None
        mismatch = ~residual
        for path in sorted(columns):
            mismatch |= expressions.col(path).is_null()
        try:
            return Pruner.build(
                mismatch,
                schema=self._snapshot.schema,
                partition_columns=self._snapshot.partition_columns,
                mapping_mode=self._snapshot.column_mapping_mode,
                generated=self._snapshot.generates_columns,
            )
        except PredicateError:
            return None

    # --- bounds

    def bounds(self, adds: pa.RecordBatch, column: str, kind: DataType) -> Bounds:
        """Return the bounds of a column."""
        live = self.live_rows(adds)
        has_rows = true_mask(pc.greater(live, _zero()))
        is_empty = true_mask(pc.equal(live, _zero()))
        every_row = self.all_match(adds)
        if column in self._snapshot.partition_columns:
            values = adds.column("partitionValues")
            value = partition_columns(self._snapshot, values, [column])[column]
            valid = to_mask(value.is_valid())
            are_values = valid & has_rows & every_row
            undecided = valid & ~is_empty & ~are_values
            return Bounds(value, value, from_mask(are_values), from_mask(undecided))
        low, high, tight, nulls = self._statistics(adds, column, kind)
        no_vector = to_mask(adds.column("deletionVector").is_null())
        is_bounded = to_mask(pc.and_(low.is_valid(), high.is_valid()))
        are_values = is_bounded & no_vector & every_row & tight & _is_exact(kind)
        only_nulls = true_mask(pc.equal(nulls, _counts_without_vectors(live, no_vector)))
        undecided = ~are_values & ~is_empty & ~only_nulls
        return Bounds(low, high, from_mask(are_values), from_mask(undecided))

    def _statistics(
        self, adds: pa.RecordBatch, column: str, kind: DataType
    ) -> tuple[pa.Array, pa.Array, np.ndarray, pa.Array]:
        """Return lower bound, upper bound, whether they are tight, and the null count."""
        path = physical_path(self._snapshot.schema, (column,), self._snapshot.column_mapping_mode)
        fields: dict[tuple[str, ...], DataType] = {
            ("tightBounds",): _BOOLEAN,
            ("nullCount", *path): _LONG,
        }
        if _is_bounded(kind):
            fields |= {("minValues", *path): kind, ("maxValues", *path): kind}
        stats = formats.parse_stats(adds.column("stats"), fields)
        unknown = pa.nulls(adds.num_rows, to_arrow_type(kind))
        low = stats.get(("minValues", *path), unknown)
        high = stats.get(("maxValues", *path), unknown)
        if _is_bounded(kind):
            low, high = (
                sanitize_stats(nodes.Stat(side, (column,), kind), values)
                for side, values in (("min", low), ("max", high))
            )
        tight = ~true_mask(pc.invert(stats["tightBounds",]))
        is_ordered = true_mask(pc.less_equal(low, high))
        if not is_ordered.all():  # contradictory bounds are unknown
            keep = from_mask(is_ordered)
            low, high = (pc.if_else(keep, side, unknown[:1][0]) for side in (low, high))
        return low, high, tight, stats["nullCount", *path]


def _has_null_constant(node: object) -> bool:
    """Whether a node of a predicate is a NULL constant or lists one."""
    match node:
        case nodes.Literal(None, _) | nodes.Constant(None):
            return True
        case nodes.In(_, options):
            return any(option.value is None for option in options)
    return False


def _counts_without_vectors(live: pa.Array, has_no_vector: np.ndarray) -> pa.Array:
    """Return the row counts of files without a deletion vector; null for the others."""
    return pc.if_else(from_mask(has_no_vector), live, pa.nulls(1, pa.int64())[0])


def _is_exact(kind: DataType) -> bool:
    small = isinstance(kind, DecimalType) and kind.precision <= _EXACT_DIGITS
    return small or str(kind) in _EXACT_TYPES


def _is_bounded(kind: DataType) -> bool:
    return _is_exact(kind) or str(kind) in _BOUNDED_TYPES


def _zero() -> pa.Scalar:
    return from_numpy(np.zeros(1, np.int64))[0]


def _null_if_negative(counts: pa.Array) -> pa.Array:
    is_negative = true_mask(pc.less(counts, _zero()))
    if not is_negative.any():
        return counts
    return pc.if_else(from_mask(is_negative), pa.nulls(1, pa.int64())[0], counts)
