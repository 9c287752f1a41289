"""Count, minimum and maximum from the statistics of the log.

The results are exact. A file whose statistics do not decide (none, wide bounds, a truncated string,
a predicate that only some rows may satisfy) is read, with the required columns only.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lazydelta._arrow import from_mask, from_numpy, to_mask, to_numpy, true_mask
from lazydelta._stream import Stream
from lazydelta.config import ReadOptions
from lazydelta.errors import ConfigError, SchemaError
from lazydelta.scan import read
from lazydelta.scan.aggregates import tuning
from lazydelta.scan.aggregates.file_statistics import FileStatistics
from lazydelta.schema import to_arrow_type

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from lazydelta.scan.read.reading import ReadableScan
    from lazydelta.schema import StructField

__all__ = ["MinMax", "count", "count_from_log", "min_max"]

_NULL_TYPES = ("void", "null")


class MinMax(NamedTuple):
    """Minimum and maximum of a column as Python values; None without values, NaN is greatest."""

    min: Any
    max: Any


def count(scan: ReadableScan) -> int:
    """Return the number of rows of a scan.

    Uses the row count of the log for files whose rows all match. Of the other files it reads the
    footer if all rows match, else the columns of the predicate.
    """
    statistics = FileStatistics(scan)
    total = 0

    def undecided() -> Generator[pa.RecordBatch]:
        nonlocal total
        for adds in statistics.planned_adds(stats=False):
            rows = statistics.live_rows(adds)
            is_exact = to_mask(rows.is_valid()) & statistics.all_match(adds)
            total += pc.sum(rows.filter(from_mask(is_exact))).as_py() or 0
            if not is_exact.all():
                yield adds.filter(from_mask(~is_exact))
            if scan.limit is not None and total >= scan.limit:
                return

    rows_read = 0
    with closing(undecided()) as files:
        first = next(files, None)
        if first is not None:  # else the row reader is not even imported
            with _read_rows(statistics, lambda: chain((first,), files), ()) as batches:
                rows_read = sum(batch.num_rows for batch in batches)
    rows = total + rows_read
    return rows if scan.limit is None else min(rows, scan.limit)


def count_from_log(scan: ReadableScan) -> int | None:
    """Return the number of rows of a scan without a limit; None if files would have to be read."""
    statistics = FileStatistics(scan)
    total = 0
    with Stream(statistics.planned_adds(stats=False)) as planned:
        for adds in planned:
            rows = statistics.live_rows(adds)
            if rows.null_count or not statistics.all_match(adds).all():
                return None
            total += pc.sum(rows).as_py() or 0
    return total


def min_max(scan: ReadableScan, column: str) -> MinMax:
    """Return the minimum and maximum of a column in the rows of a scan.

    Tight bounds are used as values. Other files are read if their bounds allow a smaller or greater
    value than those found so far.

    Raises:
        ColumnNotFoundError: The table has no such column.
        SchemaError: Its type has no order, or Python cannot represent one of the values.
        ConfigError: The scan has a limit, which does not define which rows it returns.
    """
    if scan.limit is not None:
        raise ConfigError("limit", "min_max() needs all rows; use a scan without a limit")
    field = _ordered_field(scan, column)
    column, kind = field.name, field.type
    if str(kind) in _NULL_TYPES:
        return MinMax(None, None)
    statistics = FileStatistics(scan)
    search = _Search(statistics, column, to_arrow_type(kind))
    for adds in statistics.planned_adds():
        bounds = statistics.bounds(adds, column, kind)
        search.add_values(
            bounds.low.filter(bounds.are_values), bounds.high.filter(bounds.are_values)
        )
        undecided = bounds.may_have_values
        search.add_files(
            adds.filter(undecided), bounds.low.filter(undecided), bounds.high.filter(undecided)
        )
    return MinMax(*(_python_value(value, column, scan) for value in search.result()))


def _python_value(value: pa.Array, column: str, scan: ReadableScan) -> Any:
    """Return the value of an array of length 0 or 1."""
    try:
        return value[0].as_py() if len(value) else None
    except (ValueError, OverflowError) as error:
        reason = f"Python cannot represent the minimum or maximum of column {column!r}: {error}"
        raise SchemaError(reason, scan.snapshot.store.root) from None


def _read_rows(
    statistics: FileStatistics,
    adds: Callable[[], Iterator[pa.RecordBatch]],
    columns: tuple[str, ...],
) -> Stream[pa.RecordBatch]:
    """Return the matching rows of some files."""
    view = statistics.view(columns)
    options = ReadOptions(datetime_rebase_mode=view.snapshot.config.read.datetime_rebase_mode)
    return Stream(read.Reading(view, options, adds).batches())


# --- minimum and maximum ------------------------------------------------------------------------


def _ordered_field(scan: ReadableScan, column: str) -> StructField:
    field = scan.snapshot.schema.find((column,))[0]
    kind = field.type
    is_simple = hasattr(kind, "name") or hasattr(kind, "precision")
    if not is_simple or str(kind) == "variant":
        reason = f"values of column {field.name!r} ({kind}) have no order"
        raise SchemaError(reason, scan.snapshot.store.root)
    return field


@dataclass(slots=True)
class _Search:
    """The minimum and maximum found so far, and the files that may still change them."""

    statistics: FileStatistics
    column: str
    type: pa.DataType
    low: pa.Array = field(init=False)
    high: pa.Array = field(init=False)
    pending: list[pa.RecordBatch] = field(default_factory=list)
    lows: list[pa.Array] = field(default_factory=list)
    highs: list[pa.Array] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.low = self.high = pa.nulls(0, self.type)

    def add_values(self, lows: pa.Array, highs: pa.Array) -> None:
        """Add values of rows."""
        self.low = _extreme(pa.concat_arrays([self.low, lows]), "min")
        self.high = _extreme(pa.concat_arrays([self.high, highs]), "max")

    def add_files(self, adds: pa.RecordBatch, lows: pa.Array, highs: pa.Array) -> None:
        """Add undecided files; unknown bounds are null."""
        if not adds.num_rows:
            return
        self.pending.append(adds)
        self.lows.append(lows)
        self.highs.append(highs)
        if sum(batch.num_rows for batch in self.pending) >= tuning.MAX_PENDING_FILES:
            self._read_pending()

    def result(self) -> tuple[pa.Array, pa.Array]:
        """Read the pending files and return both values, as arrays of length 0 or 1."""
        if self.pending:
            self._read_pending()
        return self.low, self.high

    def _read_pending(self) -> None:
        """Read pending files, most extreme bounds first, until no other can change the result."""
        adds = pa.Table.from_batches(self.pending).combine_chunks().to_batches()[0]
        lows, highs = pa.concat_arrays(self.lows), pa.concat_arrays(self.highs)
        self.pending, self.lows, self.highs = [], [], []
        wave = tuning.FIRST_WAVE_FILES
        while len(candidates := self._candidates(lows, highs, wave)):
            self._read(adds.take(from_numpy(candidates)))
            rest = np.ones(len(lows), bool)
            rest[candidates] = False
            keep = from_mask(rest)
            adds, lows, highs = adds.filter(keep), lows.filter(keep), highs.filter(keep)
            wave = min(2 * wave, tuning.MAX_WAVE_FILES)

    def _candidates(self, lows: pa.Array, highs: pa.Array, count: int) -> np.ndarray:
        """Return the positions of the files most likely to change the result, `count` per side."""
        smaller = _rank_bounds(lows, self.low, pc.less, "ascending")
        greater = _rank_bounds(highs, self.high, pc.greater, "descending")
        return np.unique(np.concatenate([smaller[:count], greater[:count]]))

    def _read(self, adds: pa.RecordBatch) -> None:
        with _read_rows(self.statistics, lambda: iter((adds,)), (self.column,)) as batches:
            for batch in batches:
                values = batch.column(0)
                self.add_values(values, values)


def _rank_bounds(
    bounds: pa.Array, current: pa.Array, is_beyond: Callable[..., pa.Array], order: str
) -> np.ndarray:
    """Return the positions of bounds that allow a more extreme value, the most extreme first.

    Unknown bounds are first. NaN, which Arrow's comparisons ignore, is the greatest value.
    """
    missing = to_mask(bounds.is_null())
    ranked = to_numpy(pc.sort_indices(bounds, sort_keys=[("", order)]))
    ranked = ranked[: len(ranked) - np.count_nonzero(missing)]  # nulls are at the end
    if len(current):
        if _is_nan(current) and order == "descending":
            return np.zeros(0, np.int64)
        beyond = true_mask(is_beyond(bounds, current[0]))
        if pa.types.is_floating(bounds.type):
            nan = true_mask(pc.is_nan(bounds))
            beyond = ~nan if _is_nan(current) else beyond | (nan & (order == "descending"))
        ranked = ranked[beyond[ranked]]
    return np.concatenate([np.flatnonzero(missing), ranked]).astype(np.int64)


def _is_nan(value: pa.Array) -> bool:
    return pa.types.is_floating(value.type) and bool(pc.is_nan(value[0]).as_py())


def _extreme(values: pa.Array, side: str) -> pa.Array:
    """Return the minimum or maximum as an array of length 1, or 0 without values."""
    values = values.drop_null()
    if pa.types.is_floating(values.type) and len(values):
        nan = pc.is_nan(values)
        if nan.true_count:
            if side == "max" or nan.true_count == len(values):
                return values.filter(nan).slice(0, 1)
            values = values.filter(pc.invert(nan))
    if not len(values):
        return values
    extreme = pc.min_max(values)[side]
    return values.filter(pc.equal(values, extreme)).slice(0, 1)
