"""Rebase dates and timestamps of Spark's legacy hybrid calendar to the proleptic Gregorian one.

Before 1582-10-15 the hybrid calendar is Julian: a rebased date keeps its year, month and day.
Timestamps before 1900 also depend on the time zone of the writer, whose local mean time the legacy
calendar ignores, so only those of UTC are rebased. Spark marks such files in the footer.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from functools import lru_cache, reduce
from typing import TYPE_CHECKING, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from lazydelta._arrow import validity_buffer

if TYPE_CHECKING:
    from collections.abc import Collection

    import pyarrow.parquet as pq

    from lazydelta.schema import DataType

__all__ = ["LegacyCalendar", "LegacyTimestampError", "first_unambiguous", "legacy_calendar"]

RebaseMode = Literal["exception", "corrected", "null"]

_SPARK = b"org.apache.spark."
_DATETIMES, _INT96 = _SPARK + b"legacyDateTime", _SPARK + b"legacyINT96"
_VERSION, _ZONE = _SPARK + b"version", _SPARK + b"timeZone"

_FIRST_GREGORIAN_DAY = -141_427
"""1582-10-15, in days since 1970."""
_FIRST_UNAMBIGUOUS_TIME = -2_208_988_800_000_000
"""1900-01-01 UTC, in microseconds since 1970: from here on both calendars agree in every zone."""
_UTC = frozenset(("UTC", "Etc/UTC", "GMT", "Etc/GMT", "Z"))
_FIRST_MARCH = -719_470
"""0000-03-01 in the Julian calendar: counted from there, a leap day is the last day of a year."""
_DAY = 86_400_000_000
_PARTITION_VALUES = "partitionValues_parsed"
_ZONED = (pa.timestamp("us", "UTC"), pa.timestamp("ms", "UTC"))


class LegacyTimestampError(ValueError):
    """Timestamps that cannot be rebased; the caller adds the file and the column."""

    cure = (
        "Read them as stored with ReadOptions(datetime_rebase_mode='corrected'), or let Spark "
        "rewrite them with datetimeRebaseModeInWrite=CORRECTED"
    )

    def __init__(self, zone: str | None) -> None:
        written_in = "an unknown time zone" if zone is None else f"the time zone {zone!r}"
        super().__init__(
            f"timestamps before 1900 in Spark's legacy calendar, written in {written_in}; only "
            "those of UTC can be rebased"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LegacyCalendar:
    """Which columns of a file are in the legacy calendar."""

    datetimes: bool
    """Whether dates and integer timestamps are."""
    int96: bool
    """Whether INT96 timestamps are."""
    zone: str | None
    """Time zone of the writer; None if the footer does not have it."""
    mode: RebaseMode = "exception"
    """What becomes of timestamps that cannot be rebased: an error, as stored, or null."""

    def rebase_dates(self, dates: pa.Array) -> pa.Array:
        """Return rebased dates."""
        if not _has_below(dates, _FIRST_GREGORIAN_DAY):
            return dates
        days = _numbers(dates, np.int32).astype(np.int64)
        return _like(dates, (days - _lag(days)).astype(np.int32))

    def rebase_timestamps(self, times: pa.Array) -> pa.Array:
        """Return rebased timestamps; they are in microseconds.

        Raises:
            LegacyTimestampError: They cannot be rebased, and the mode is `exception`.
        """
        if not _has_below(times, _FIRST_UNAMBIGUOUS_TIME):
            return times
        if self.zone in _UTC:
            micros = _numbers(times, np.int64)
            return _like(times, micros - _lag(micros // _DAY) * _DAY)
        if self.mode == "exception":
            raise LegacyTimestampError(self.zone)
        if self.mode == "corrected":
            return times
        first = pa.scalar(_FIRST_UNAMBIGUOUS_TIME, times.type)
        return pc.if_else(pc.less(times, first), pa.scalar(None, times.type), times)

    def rebase_batch(self, batch: pa.RecordBatch, int96: Collection[str]) -> pa.RecordBatch:
        """Return a batch with its columns rebased (`rebase`).

        Raises:
            LegacyTimestampError: Timestamps cannot be rebased, and the mode is `exception`.
        """
        columns = zip(batch.columns, batch.schema.names, strict=True)
        rebased = [self.rebase(values, name, int96) for values, name in columns]
        return pa.RecordBatch.from_arrays(rebased, schema=batch.schema)

    def rebase(self, values: pa.Array, path: str, int96: Collection[str]) -> pa.Array:
        """Return a column with its dates and timestamps rebased, also inside of structs and lists.

        The same array if no value changes. Maps are not rebased.

        Args:
            values: As stored.
            path: Of the column.
            int96: Paths of the INT96 leaves.

        Raises:
            LegacyTimestampError: Timestamps cannot be rebased, and the mode is `exception`.
        """
        kind = values.type
        if pt.is_struct(kind):
            names = [f"{path}.{kind.field(index).name}" for index in range(kind.num_fields)]
            parts = [values.field(index) for index in range(kind.num_fields)]
        elif pt.is_list(kind):
            names, parts = [f"{path}.list.{kind.value_field.name}"], [values.values]
        else:
            return self._rebase_leaf(values, is_int96=path in int96)
        children = [self.rebase(part, name, int96) for part, name in zip(parts, names, strict=True)]
        if all(map(operator.is_, children, parts)):
            return values
        if pt.is_list(kind):
            return pa.Array.from_buffers(
                kind, len(values), values.buffers()[:2], offset=values.offset, children=children
            )
        rebased = pa.Array.from_buffers(
            kind, len(values), [validity_buffer(values)], values.null_count, children=children
        )
        if self.mode == "null" and path.endswith(_PARTITION_VALUES):
            return _null_where_nulled(rebased, values)
        return rebased

    def _rebase_leaf(self, values: pa.Array, *, is_int96: bool) -> pa.Array:
        kind = values.type
        if pt.is_date32(kind):
            return self.rebase_dates(values) if self.datetimes else values
        is_legacy = self.int96 if is_int96 else self.datetimes and kind in _ZONED
        if not (pt.is_timestamp(kind) and is_legacy):
            return values
        micros = values.cast(pa.timestamp("us", kind.tz))
        rebased = self.rebase_timestamps(micros)
        return values if rebased is micros else rebased.cast(kind)


def legacy_calendar(
    metadata: pq.FileMetaData, mode: RebaseMode = "exception"
) -> LegacyCalendar | None:
    """Return which columns of a file are in the legacy calendar; None if none are.

    Args:
        metadata: The footer.
        mode: What becomes of timestamps that cannot be rebased.
    """
    notes = metadata.metadata or {}
    before_3_0, before_3_1 = _is_legacy_version(notes.get(_VERSION, b""))
    datetimes, int96 = before_3_0 or _DATETIMES in notes, before_3_1 or _INT96 in notes
    if not (datetimes or int96):
        return None
    zone = notes.get(_ZONE)
    name = None if zone is None else zone.decode(errors="replace")
    return LegacyCalendar(datetimes=datetimes, int96=int96, zone=name, mode=mode)


def first_unambiguous(metadata: pq.FileMetaData, kind: DataType) -> int | None:
    """Return the first bound in a footer that needs no rebase; None if no bound needs one."""
    first = {"date": _FIRST_GREGORIAN_DAY, "timestamp": _FIRST_UNAMBIGUOUS_TIME}.get(str(kind))
    if first is None:
        return None
    calendar = legacy_calendar(metadata)
    return first if calendar is not None and calendar.datetimes else None


@lru_cache(maxsize=256)
def _is_legacy_version(version: bytes) -> tuple[bool, bool]:
    """Return whether a Spark version is before 3.0, and before 3.1; both False without one."""
    parts = version.split(b".")[:2]
    if len(parts) < 2 or not all(part.isdigit() for part in parts):
        return False, False
    parsed = int(parts[0]), int(parts[1])
    return parsed < (3, 0), parsed < (3, 1)


def _lag(days: np.ndarray) -> np.ndarray:
    """Return how many days the Julian calendar is ahead at each day; 0 from 1582-10-15 on.

    It changes on March 1 of each century year that is no Gregorian leap year. The Julian leap day
    before it, which the Gregorian calendar lacks, becomes March 1 too.
    """
    years = (4 * (days - _FIRST_MARCH) + 3) // 1461
    lag: np.ndarray = np.where(
        days < _FIRST_GREGORIAN_DAY, years // 100 - years // 400 - 2, np.int64(0)
    )
    return lag


def _null_where_nulled(rebased: pa.StructArray, values: pa.StructArray) -> pa.StructArray:
    """Return structs that are null where a field was nulled.

    For typed partition values, of which a null field means NULL and a null struct unknown.
    """
    nulled = [
        pc.and_(new.is_null(), old.is_valid())
        for new, old in zip(rebased.flatten(), values.flatten(), strict=True)
    ]
    is_null = reduce(pc.or_, nulled, values.is_null())
    return pa.StructArray.from_arrays(rebased.flatten(), fields=list(rebased.type), mask=is_null)


def _has_below(values: pa.Array, first: int) -> bool:
    lowest = pc.min(values)
    return lowest.is_valid and lowest.value < first


def _numbers(values: pa.Array, kind: type[np.generic]) -> np.ndarray:
    raw = np.frombuffer(values.buffers()[1], kind)
    return raw[values.offset : values.offset + len(values)]


def _like(values: pa.Array, numbers: np.ndarray) -> pa.Array:
    """Return an array of these numbers, null where `values` is."""
    return pa.Array.from_buffers(
        values.type,
        len(values),
        [validity_buffer(values), pa.py_buffer(numbers)],
        values.null_count,
    )
