"""Days and times of files in Spark's legacy calendar, brought to the one that tables are in.

Before 1582-10-15 that calendar is the Julian one: a day is a number of days off, and keeps its
name. Times are the reading of a clock besides, by rules of their own (`parquet.zones`). Spark notes
in the footer what of a file is in it. Knows footers and arrays; nothing of tables.
"""

from __future__ import annotations

import logging
import operator
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from lazydelta._arrow import validity
from lazydelta.parquet.zones import FIRST_CERTAIN_TIME, old_zone

if TYPE_CHECKING:
    from collections.abc import Collection

    import pyarrow.parquet as pq

    from lazydelta.schema import DataType

__all__ = ["LegacyCalendar", "first_certain", "legacy_calendar"]

_log = logging.getLogger(__name__)

_SPARK = b"org.apache.spark."
_DATETIMES, _INT96 = _SPARK + b"legacyDateTime", _SPARK + b"legacyINT96"
_VERSION, _ZONE = _SPARK + b"version", _SPARK + b"timeZone"

_FIRST_CERTAIN_DAY = -141_427
"""1582-10-15, as days since 1970."""
_FIRST_MARCH = -719_470
"""The first of March of the year 0 in the Julian calendar: its leap days end years from there."""
_DAY = 86_400_000_000
_ZONED = (pa.timestamp("us", "UTC"), pa.timestamp("ms", "UTC"))


@dataclass(frozen=True, slots=True, kw_only=True)
class LegacyCalendar:
    """What of a file is in the old calendar."""

    table: str
    """Whose file it is."""
    datetimes: bool
    """Whether dates are, and times that are whole numbers."""
    int96: bool
    """Whether times of 96 bits are."""
    zone: str | None
    """Where its writer was; None if the footer does not tell."""

    def days(self, dates: pa.Array) -> pa.Array:
        """Return dates by the names that they have in the file."""
        if not _has_below(dates, _FIRST_CERTAIN_DAY):
            return dates
        days = _numbers(dates, np.int32).astype(np.int64)
        return _like(dates, (days - _lag(days)).astype(np.int32))

    def times(self, times: pa.Array) -> pa.Array:
        """Return times, in microseconds, by what a clock showed in the file.

        Raises:
            UnknownZoneError: It is not known how clocks went there.
        """
        if not _has_below(times, FIRST_CERTAIN_TIME):
            return times
        if self.zone is None:
            _tell_once(self.table)
        zone = old_zone("UTC" if self.zone is None else self.zone)
        micros = _numbers(times, np.int64).copy()
        old = micros < FIRST_CERTAIN_TIME
        readings = micros[old] + zone.standard
        readings -= _lag(readings // _DAY) * _DAY
        micros[old] = zone.instants(readings)
        return _like(times, micros)

    def moved_batch(self, batch: pa.RecordBatch, int96: Collection[str]) -> pa.RecordBatch:
        """Return all columns of a file as `moved` does."""
        columns = zip(batch.columns, batch.schema.names, strict=True)
        moved = [self.moved(values, name, int96) for values, name in columns]
        return pa.RecordBatch.from_arrays(moved, schema=batch.schema)

    def moved(self, values: pa.Array, path: str, int96: Collection[str]) -> pa.Array:
        """Return a column with its dates and times moved, those of its parts as well; not of maps.

        The same array if none is: few tables have days that old, and it is asked of every batch.

        Args:
            values: As they are in the file.
            path: Of the column.
            int96: Paths of the leaves that have 96 bits.

        Raises:
            UnknownZoneError: It is not known how clocks went there.
        """
        kind = values.type
        if pt.is_struct(kind):
            names = [f"{path}.{kind.field(at).name}" for at in range(kind.num_fields)]
            parts = [values.field(at) for at in range(kind.num_fields)]
        elif pt.is_list(kind):
            names, parts = [f"{path}.list.{kind.value_field.name}"], [values.values]
        else:
            return self._moved_leaf(values, is_int96=path in int96)
        found = [self.moved(part, name, int96) for part, name in zip(parts, names, strict=True)]
        if all(map(operator.is_, found, parts)):
            return values
        if pt.is_list(kind):
            return pa.Array.from_buffers(
                kind, len(values), values.buffers()[:2], offset=values.offset, children=found
            )
        return pa.Array.from_buffers(
            kind, len(values), [validity(values)], values.null_count, children=found
        )

    def _moved_leaf(self, values: pa.Array, *, is_int96: bool) -> pa.Array:
        kind = values.type
        if pt.is_date32(kind):
            return self.days(values) if self.datetimes else values
        is_told = self.int96 if is_int96 else self.datetimes and kind in _ZONED
        if not (pt.is_timestamp(kind) and is_told):
            return values
        micros = values.cast(pa.timestamp("us", kind.tz))
        found = self.times(micros)
        return values if found is micros else found.cast(kind)


def legacy_calendar(metadata: pq.FileMetaData, table: str) -> LegacyCalendar | None:
    """Return what of a file is in the old calendar; None if nothing is.

    Args:
        metadata: The footer.
        table: Whose file it is, to tell of it.
    """
    notes = metadata.metadata or {}
    before_3_0, before_3_1 = _age(notes.get(_VERSION, b""))
    datetimes, int96 = before_3_0 or _DATETIMES in notes, before_3_1 or _INT96 in notes
    if not (datetimes or int96):
        return None
    zone = notes.get(_ZONE)
    said = None if zone is None else zone.decode(errors="replace")
    return LegacyCalendar(table=table, datetimes=datetimes, int96=int96, zone=said)


def first_certain(metadata: pq.FileMetaData, kind: DataType) -> int | None:
    """Return from which value on bounds of a footer are those of the rows; None if all are."""
    first = {"date": _FIRST_CERTAIN_DAY, "timestamp": FIRST_CERTAIN_TIME}.get(str(kind))
    if first is None:
        return None
    calendar = legacy_calendar(metadata, "")
    return first if calendar is not None and calendar.datetimes else None


@lru_cache(maxsize=256)
def _age(version: bytes) -> tuple[bool, bool]:
    """Return whether a version of Spark is before 3.0, and before 3.1; no version is neither."""
    parts = version.split(b".")[:2]
    if len(parts) < 2 or not all(part.isdigit() for part in parts):
        return False, False
    found = int(parts[0]), int(parts[1])
    return found < (3, 0), found < (3, 1)


@lru_cache(maxsize=256)
def _tell_once(table: str) -> None:
    _log.warning(
        "%s has times before 1900 in Spark's legacy calendar, in files that do not say in which "
        "zone they were written; they are taken to be of UTC",
        table,
    )


def _lag(days: np.ndarray) -> np.ndarray:
    """Return by how many days more a day that has some name is in the old calendar.

    That changes on the first of March of each century that is no leap year in ours. The leap day
    before it, which has no name in ours, becomes the first of March as well.
    """
    years = (4 * (days - _FIRST_MARCH) + 3) // 1461
    found: np.ndarray = np.where(
        days < _FIRST_CERTAIN_DAY, years // 100 - years // 400 - 2, np.int64(0)
    )
    return found


def _has_below(values: pa.Array, first: int) -> bool:
    least = pc.min(values)
    return least.is_valid and least.value < first


def _numbers(values: pa.Array, kind: type[np.generic]) -> np.ndarray:
    raw = np.frombuffer(values.buffers()[1], kind)
    return raw[values.offset : values.offset + len(values)]


def _like(values: pa.Array, numbers: np.ndarray) -> pa.Array:
    """Return an array of other values, null where the old one is."""
    return pa.Array.from_buffers(
        values.type, len(values), [validity(values), pa.py_buffer(numbers)], values.null_count
    )
