"""Questions that the log answers without rows: how many, least and greatest.

Each answer is exact. Where the log cannot tell for a file (no statistics, wide bounds, a cut text,
a condition that only some rows meet), that file is read, and only of it the columns that matter.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lazydelta._arrow import from_mask, from_numpy, to_mask, to_numpy, true_mask
from lazydelta._stream import Stream
from lazydelta.errors import ConfigError, SchemaError
from lazydelta.scan.aggregates.file_statistics import FileStatistics
from lazydelta.scan.read.reading import ReadableScan, Reading, ReadOptions
from lazydelta.schema import to_arrow_type

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lazydelta.schema import StructField

__all__ = ["MinMax", "count", "min_max"]

_FIRST_WAVE, _LAST_WAVE = 2, 1024  # files read at once, on each side
_PENDING_FILES = 65_536
_ONLY_NULLS = ("void", "null")


class MinMax(NamedTuple):
    """Minimum and maximum of a column as Python values, None if it has none; NaN is the maximum."""

    min: Any
    max: Any


def count(scan: ReadableScan) -> int:
    """Return how many rows a scan has.

    Counts of the log are used where every row of a file is wanted; other files are read, only
    their footer where the whole file is wanted, else the columns of the predicate.
    """
    known = FileStatistics(scan)
    total = 0

    def undecided() -> Iterator[pa.RecordBatch]:
        nonlocal total
        for adds in known.planned(stats=False):
            rows = known.live_rows(adds)
            sure = to_mask(rows.is_valid()) & known.all_match(adds)
            decided = pc.sum(rows.filter(from_mask(sure))).as_py() or 0
            total += decided
            if not sure.all():
                yield adds.filter(from_mask(~sure))
            if scan.limit is not None and total >= scan.limit:
                return

    with _rows_of(known, undecided, ()) as batches:
        read = sum(batch.num_rows for batch in batches)
    return total + read if scan.limit is None else min(total + read, scan.limit)


def min_max(scan: ReadableScan, column: str) -> MinMax:
    """Return the least and the greatest value of a column in the rows of a scan.

    Statistics decide where they are values and not mere bounds; of the other files, those are
    read whose bounds leave room for a lesser or greater value than is known already.

    Raises:
        ColumnNotFoundError: The table has no such column.
        SchemaError: Its values have no order, or Python has no form for one of the two.
        ConfigError: The scan has a limit: which rows it takes is left open.
    """
    if scan.limit is not None:
        raise ConfigError("limit", "least and greatest are of all rows; ask a scan without limit")
    field = _ordered_field(scan, column)
    column, kind = field.name, field.type
    if str(kind) in _ONLY_NULLS:
        return MinMax(None, None)
    known = FileStatistics(scan)
    search = _Search(known, column, to_arrow_type(kind))
    for adds in known.planned():
        bounds = known.bounds(adds, column, kind)
        search.learn(bounds.low.filter(bounds.are_values), bounds.high.filter(bounds.are_values))
        open_question = bounds.may_have_values
        search.consider(
            adds.filter(open_question),
            bounds.low.filter(open_question),
            bounds.high.filter(open_question),
        )
    return MinMax(*(_python_value(found, column, scan) for found in search.answer()))


def _python_value(found: pa.Array, column: str, scan: ReadableScan) -> Any:
    """Return the value of an array of at most one."""
    try:
        return found[0].as_py() if len(found) else None
    except (ValueError, OverflowError) as error:
        reason = f"Python cannot hold the minimum or maximum of column {column!r}: {error}"
        raise SchemaError(reason, scan.snapshot.store.root) from None


def _rows_of(
    known: FileStatistics, adds: Callable[[], Iterator[pa.RecordBatch]], columns: tuple[str, ...]
) -> Stream[pa.RecordBatch]:
    """Return the rows of chosen files that satisfy the predicate."""
    view = known.view(columns)
    options = ReadOptions(datetime_rebase_mode=view.snapshot.config.read.datetime_rebase_mode)
    return Stream(Reading(view, options, adds).batches())


# --- least and greatest -------------------------------------------------------------------------


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
    """What is known of the least and greatest value, and the files that may still change it."""

    known: FileStatistics
    column: str
    type: pa.DataType
    low: pa.Array = field(init=False)
    high: pa.Array = field(init=False)
    pending: list[pa.RecordBatch] = field(default_factory=list)
    lows: list[pa.Array] = field(default_factory=list)
    highs: list[pa.Array] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.low = self.high = pa.nulls(0, self.type)

    def learn(self, lows: pa.Array, highs: pa.Array) -> None:
        """Take notice of values that rows have."""
        self.low = _least(pa.concat_arrays([self.low, lows]))
        self.high = _greatest(pa.concat_arrays([self.high, highs]))

    def consider(self, adds: pa.RecordBatch, lows: pa.Array, highs: pa.Array) -> None:
        """Keep files in mind; their bounds are null where they are not known."""
        if not adds.num_rows:
            return
        self.pending.append(adds)
        self.lows.append(lows)
        self.highs.append(highs)
        if sum(batch.num_rows for batch in self.pending) >= _PENDING_FILES:
            self._look()

    def answer(self) -> tuple[pa.Array, pa.Array]:
        """Read what is left to read; return both as arrays of one value, or of none."""
        if self.pending:
            self._look()
        return self.low, self.high

    def _look(self) -> None:
        """Read pending files, the most promising first, until no other can change the answer."""
        adds = pa.Table.from_batches(self.pending).combine_chunks().to_batches()[0]
        lows, highs = pa.concat_arrays(self.lows), pa.concat_arrays(self.highs)
        self.pending, self.lows, self.highs = [], [], []
        wave = _FIRST_WAVE
        while len(chosen := self._promising(lows, highs, wave)):
            self._read(adds.take(from_numpy(chosen)))
            rest = np.ones(len(lows), bool)
            rest[chosen] = False
            keep = from_mask(rest)
            adds, lows, highs = adds.filter(keep), lows.filter(keep), highs.filter(keep)
            wave = min(2 * wave, _LAST_WAVE)

    def _promising(self, lows: pa.Array, highs: pa.Array, most: int) -> np.ndarray:
        """Return the places of files that may change the answer, the best of them."""
        least = _places(lows, self.low, pc.less, "ascending")
        greatest = _places(highs, self.high, pc.greater, "descending")
        return np.unique(np.concatenate([least[:most], greatest[:most]]))

    def _read(self, adds: pa.RecordBatch) -> None:
        with _rows_of(self.known, lambda: iter((adds,)), (self.column,)) as batches:
            for batch in batches:
                values = batch.column(0)
                self.learn(values, values)


def _places(
    bounds: pa.Array, known: pa.Array, beats: Callable[..., pa.Array], order: str
) -> np.ndarray:
    """Return which bounds leave room for a better value than the known one, the best first.

    What has no bound comes before all others. NaN, which compares with nothing, is the greatest.
    """
    missing = to_mask(bounds.is_null())
    ranked = to_numpy(pc.sort_indices(bounds, sort_keys=[("", order)]))
    ranked = ranked[: len(ranked) - np.count_nonzero(missing)]  # nulls are at the end
    if len(known):
        if _is_nan(known) and order == "descending":
            return np.zeros(0, np.int64)
        better = true_mask(beats(bounds, known[0]))
        if pa.types.is_floating(bounds.type):
            nan = true_mask(pc.is_nan(bounds))
            better = ~nan if _is_nan(known) else better | (nan & (order == "descending"))
        ranked = ranked[better[ranked]]
    return np.concatenate([np.flatnonzero(missing), ranked]).astype(np.int64)


def _is_nan(known: pa.Array) -> bool:
    return pa.types.is_floating(known.type) and bool(pc.is_nan(known[0]).as_py())


def _least(values: pa.Array) -> pa.Array:
    return _extreme(values, "min")


def _greatest(values: pa.Array) -> pa.Array:
    return _extreme(values, "max")


def _extreme(values: pa.Array, side: str) -> pa.Array:
    """Return the least or greatest value as an array of one, of none if there is no value."""
    values = values.drop_null()
    if pa.types.is_floating(values.type) and len(values):
        nan = pc.is_nan(values)
        if nan.true_count:
            if side == "max" or nan.true_count == len(values):
                return values.filter(nan).slice(0, 1)
            values = values.filter(pc.invert(nan))
    if not len(values):
        return values
    found = pc.min_max(values)[side]
    return values.filter(pc.equal(values, found)).slice(0, 1)
