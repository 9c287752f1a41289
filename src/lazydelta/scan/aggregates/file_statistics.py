"""What the log tells of the rows of a planned file, as columns: how many, between which bounds.

Knows statistics, partition values and deletion vectors' sizes; opens no data file. Null is
"not told": counts that cannot be true are not told either.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lazydelta._arrow import from_mask, from_numpy, to_mask, true_mask
from lazydelta._parallel import prefetch
from lazydelta._stream import Stream
from lazydelta.errors import PredicateError
from lazydelta.expressions import Predicate, col, evaluate, split_conjuncts
from lazydelta.expressions.nodes import Column, Constant, In, Literal, Stat
from lazydelta.formats import parse_stats
from lazydelta.replay.skipping import Pruner, sanitize_stats
from lazydelta.scan.plan.partition_arrays import partition_columns
from lazydelta.scan.plan.run import ScanRun
from lazydelta.schema import DataType, DecimalType, PrimitiveType, to_arrow_type
from lazydelta.schema.mapping import physical_path

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lazydelta.scan.read.reading import ReadableScan

__all__ = ["Bounds", "FileStatistics"]

_FIELDS = ("path", "size", "partitionValues", "deletionVector")
_LONG, _BOOLEAN = PrimitiveType("long"), PrimitiveType("boolean")
_EXACT_TYPES = ("byte", "short", "integer", "long", "date")
_BOUNDED_TYPES = (*_EXACT_TYPES, "string", "timestamp", "timestamp_ntz")
_EXACT_DIGITS = 15  # decimals that survive a writer who keeps statistics as doubles


class Bounds(NamedTuple):
    """Bounds of one column for each file of a batch.

    Attributes:
        low: Not above any value; null if not known.
        high: Not below any value; null if not known.
        are_values: Whether both are values of rows of the scan.
        may_have_values: Whether rows might have values that are not known yet.
    """

    low: pa.Array
    high: pa.Array
    are_values: pa.BooleanArray
    may_have_values: pa.BooleanArray


class _View:
    """A scan as its reader sees it, with columns of its own and without a limit."""

    def __init__(self, scan: ReadableScan, columns: tuple[str, ...]) -> None:
        self.snapshot = scan.snapshot
        self.columns: tuple[str, ...] | None = columns
        self.limit: int | None = None
        self.predicate = scan.predicate
        self._pruner = scan._pruner  # noqa: SLF001 - one room
        self._choice = scan._choice  # noqa: SLF001
        self._last_run = scan._last_run  # noqa: SLF001


class FileStatistics:
    """The planned files of a scan, and what the log tells of them."""

    def __init__(self, scan: ReadableScan) -> None:
        self._of = scan
        self._snapshot = scan.snapshot
        self._exact, self._residual = None, None
        if scan.predicate is not None:
            self._exact, self._residual = split_conjuncts(scan.predicate)
        self._misses = None if self._residual is None else self._pruner_of_misses(self._residual)

    def view(self, columns: tuple[str, ...]) -> ReadableScan:
        """Return the scan as its reader sees it: these columns, no limit."""
        return _View(self._of, columns)

    def planned(self, *, counts: bool = True, stats: bool = True) -> Iterator[pa.RecordBatch]:
        """Yield the adds that the partition values do not rule out.

        Args:
            counts: Whether `live_rows` is going to be asked.
            stats: Whether `bounds` is; `all_match` makes its own wishes known.
        """
        fields = (*_FIELDS, "numRecords") if counts else _FIELDS
        if stats or self._misses is not None:  # most of the log's bytes
            fields = (*fields, "stats")
        run = ScanRun(
            self._snapshot,
            pruner=self._of._pruner,  # noqa: SLF001 - one room
            fields=fields,
            limit=None,
            choice=self._of._choice,  # noqa: SLF001
        )
        run.metrics.take(0)
        self._of._last_run = run.metrics  # noqa: SLF001
        depth = self._snapshot.config.prefetch_batches
        with Stream(prefetch(run.batches, depth=depth)) as planned:
            for adds in planned:
                decided = self._decided(adds)
                run.metrics.take(decided.num_rows)
                yield decided

    def _decided(self, adds: pa.RecordBatch) -> pa.RecordBatch:
        if self._exact is None:
            return adds
        names = {node.path[0] for node in self._exact.walk() if isinstance(node, Column)}
        values = partition_columns(self._snapshot, adds.column("partitionValues"), names)
        keep = evaluate(self._exact, lambda column: values[column.path[0]], adds.num_rows)
        return adds.filter(keep)

    def live_rows(self, adds: pa.RecordBatch) -> pa.Int64Array:
        """Return the number of rows that are not deleted, null where the log does not tell."""
        counts = adds.column("numRecords")
        vectors = adds.column("deletionVector")
        if vectors.null_count == len(vectors):
            return _not_negative(counts)
        deleted = pc.struct_field(vectors, "cardinality").cast(pa.int64())
        live = pc.subtract(counts, pc.coalesce(deleted, _zero()))
        senseless = true_mask(pc.less(deleted, _zero()))
        return pc.if_else(from_mask(senseless), pa.nulls(1, pa.int64())[0], _not_negative(live))

    def all_match(self, adds: pa.RecordBatch) -> np.ndarray:
        """Return for which files every row satisfies the predicate."""
        if self._residual is None:
            return np.ones(adds.num_rows, bool)
        if self._misses is None:
            return np.zeros(adds.num_rows, bool)
        if self._misses.matches_nothing:
            return np.ones(adds.num_rows, bool)
        some_may_miss = self._misses.mask(adds)
        if some_may_miss is None:
            return np.zeros(adds.num_rows, bool)
        return ~to_mask(some_may_miss)

    def _pruner_of_misses(self, residual: Predicate) -> Pruner | None:
        """Return what finds files with rows that do not satisfy the predicate.

        Such rows make it false, or unknown, and unknown it is only where a column is NULL:
        that holds if all its values are columns and constants that are not NULL.
        """
        nodes = [node for node in residual.walk() if not isinstance(node, Predicate)]
        columns = {node.path for node in nodes if isinstance(node, Column)}
        if any(node.parts() for node in nodes) or any(len(path) != 1 for path in columns):
            return None
        if any(map(_is_unknown, residual.walk())):
            return None
        misses = ~residual
        for path in sorted(columns):
            misses |= col(path).is_null()
        try:
            return Pruner.build(
                misses,
                schema=self._snapshot.schema,
                partition_columns=self._snapshot.partition_columns,
                mapping_mode=self._snapshot.column_mapping_mode,
                generated=self._snapshot.generates_columns,
            )
        except PredicateError:
            return None

    # --- bounds

    def bounds(self, adds: pa.RecordBatch, column: str, kind: DataType) -> Bounds:
        """Return what is known of the values of a column."""
        live = self.live_rows(adds)
        some_live = true_mask(pc.greater(live, _zero()))
        no_live = true_mask(pc.equal(live, _zero()))
        every_row = self.all_match(adds)
        if column in self._snapshot.partition_columns:
            values = adds.column("partitionValues")
            value = partition_columns(self._snapshot, values, [column])[column]
            valid = to_mask(value.is_valid())
            are_values = valid & some_live & every_row
            open_question = valid & ~no_live & ~are_values
            return Bounds(value, value, from_mask(are_values), from_mask(open_question))
        low, high, tight, nulls = self._statistics(adds, column, kind)
        vectors = to_mask(adds.column("deletionVector").is_null())
        told = to_mask(pc.and_(low.is_valid(), high.is_valid()))
        are_values = told & vectors & every_row & tight & _is_exact(kind)
        only_nulls = true_mask(pc.equal(nulls, _counts_without_vectors(live, vectors)))
        open_question = ~are_values & ~no_live & ~only_nulls
        return Bounds(low, high, from_mask(are_values), from_mask(open_question))

    def _statistics(
        self, adds: pa.RecordBatch, column: str, kind: DataType
    ) -> tuple[pa.Array, pa.Array, np.ndarray, pa.Array]:
        """Return low, high, whether they are tight, and how many values are null."""
        path = physical_path(self._snapshot.schema, (column,), self._snapshot.column_mapping_mode)
        wanted: dict[tuple[str, ...], DataType] = {
            ("tightBounds",): _BOOLEAN,
            ("nullCount", *path): _LONG,
        }
        if _is_bounded(kind):
            wanted |= {("minValues", *path): kind, ("maxValues", *path): kind}
        found = parse_stats(adds.column("stats"), wanted)
        unknown = pa.nulls(adds.num_rows, to_arrow_type(kind))
        low = found.get(("minValues", *path), unknown)
        high = found.get(("maxValues", *path), unknown)
        if _is_bounded(kind):
            low, high = (
                sanitize_stats(Stat(side, (column,), kind), values)
                for side, values in (("min", low), ("max", high))
            )
        tight = ~true_mask(pc.invert(found["tightBounds",]))
        sane = true_mask(pc.less_equal(low, high))
        if not sane.all():  # a least value above the greatest tells nothing
            keep = from_mask(sane)
            low, high = (pc.if_else(keep, side, unknown[:1][0]) for side in (low, high))
        return low, high, tight, found["nullCount", *path]


def _is_unknown(node: object) -> bool:
    """Whether a part of a predicate is NULL in itself, or among the options that it gives."""
    match node:
        case Literal(None, _) | Constant(None):
            return True
        case In(_, options):
            return any(option.value is None for option in options)
    return False


def _counts_without_vectors(live: pa.Array, has_no_vector: np.ndarray) -> pa.Array:
    """Return the row counts of files without deleted rows; null for the others."""
    return pc.if_else(from_mask(has_no_vector), live, pa.nulls(1, pa.int64())[0])


def _is_exact(kind: DataType) -> bool:
    small = isinstance(kind, DecimalType) and kind.precision <= _EXACT_DIGITS
    return small or str(kind) in _EXACT_TYPES


def _is_bounded(kind: DataType) -> bool:
    return _is_exact(kind) or str(kind) in _BOUNDED_TYPES


def _zero() -> pa.Scalar:
    return from_numpy(np.zeros(1, np.int64))[0]


def _not_negative(counts: pa.Array) -> pa.Array:
    wrong = true_mask(pc.less(counts, _zero()))
    if not wrong.any():
        return counts
    return pc.if_else(from_mask(wrong), pa.nulls(1, pa.int64())[0], counts)
