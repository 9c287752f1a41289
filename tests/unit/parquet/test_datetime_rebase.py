"""Rebase of Spark's legacy calendar. Expected values are what Spark 4.2 reads, on Java 17."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lazydelta.parquet.datetime_rebase import (
    LegacyCalendar,
    LegacyTimestampError,
    first_unambiguous,
    legacy_calendar,
)
from lazydelta.schema import PrimitiveType

SPARK = "org.apache.spark."
DAYS = {
    -800000: -799996,
    -719164: -719162,  # 0001-01-01
    -682946: -682944,  # 0100-02-29, a day that ours does not have
    -682945: -682944,  # 0100-03-01
    -317696: -317702,
    -317695: -317702,
    -141428: -141438,  # 1582-10-04, the last
    -141427: -141427,  # 1582-10-15, the first
    0: 0,
}
TIMES = [
    -62135510400, -30610224000, -30604953600, -12219292801, -12219292800,
    -5000000000, -2717640001, -2717640000, -2208988801, -2208988800,
]  # fmt: skip
REBASED_BY = [172800, -432000, -432000, -864000, 0, 0, 0, 0, 0, 0]


def calendar(zone="UTC", *, datetimes=True, int96=True, mode="exception"):
    return LegacyCalendar(datetimes=datetimes, int96=int96, zone=zone, mode=mode)


def numbers(array, kind=pa.int64()):
    return array.cast(kind).to_pylist()


def dates(days):
    return pa.array(days, pa.int32()).cast(pa.date32())


def times(micros):
    return pa.array(micros, pa.timestamp("us", "UTC"))


def footer(notes):
    sink = io.BytesIO()
    rows = pa.table({"a": [1]}).replace_schema_metadata({SPARK + k: v for k, v in notes.items()})
    pq.write_table(rows, sink)
    return pq.read_metadata(sink)


def test_rebased_dates_keep_year_month_and_day():
    found = calendar().rebase_dates(dates(list(DAYS)))
    assert numbers(found, pa.int32()) == list(DAYS.values())


@pytest.mark.parametrize("zone", ["UTC", "Etc/UTC", "GMT", "Z"])
def test_timestamps_of_utc_are_rebased(zone):
    stored = [seconds * 1_000_000 + 5 for seconds in TIMES]
    found = numbers(calendar(zone).rebase_timestamps(times(stored)))
    pairs = zip(found, stored, strict=True)
    assert [(new - old) / 1_000_000 for new, old in pairs] == REBASED_BY


def test_nulls_and_slices():
    kept = dates([None, -141428, None, 0, -317696])
    assert numbers(calendar().rebase_dates(kept.slice(1, 3)), pa.int32()) == [-141438, None, 0]
    old = times([None, -12219292801_000_000, None, 0])
    assert numbers(calendar().rebase_timestamps(old.slice(1))) == [-12220156801_000_000, None, 0]


def test_recent_values_are_not_copied():
    new = dates([-141427, None, 5])
    assert calendar().rebase_dates(new) is new
    late = times([-2208988800_000_000, None])
    assert calendar("No/Where").rebase_timestamps(late) is late
    assert calendar("No/Where").rebase_timestamps(times([])).equals(times([]))
    assert calendar("No/Where").rebase_timestamps(times([None])).null_count == 1


def test_struct_fields_are_rebased_by_their_type():
    old = -12219292801_000_000
    moved = -12220156801_000_000
    fields = {
        "day": dates([-141428, None]),
        "us": times([old, None]),
        "ms": pa.array([old // 1000, None], pa.timestamp("ms", "UTC")),
        "int96": pa.array([old, None], pa.timestamp("us")),
        "plain": pa.array([old, None], pa.timestamp("us")),
        "number": pa.array([old, None]),
    }
    rows = pa.StructArray.from_arrays(
        [*fields.values()], names=[*fields], mask=pa.array([False, True])
    )
    found = calendar().rebase(pa.concat_arrays([rows, rows]).slice(1, 2), "s", {"s.int96"})
    assert found.type == rows.type
    assert found.is_null().to_pylist() == [True, False]
    assert numbers(found.field(0), pa.int32())[1] == -141438
    assert [numbers(found.field(at))[1] for at in range(1, 6)] == [
        moved, moved // 1000, moved, old, old,
    ]  # fmt: skip
    half = calendar(datetimes=False).rebase(rows, "s", {"s.int96"})
    assert numbers(half.field(0), pa.int32())[0] == -141428
    assert [numbers(half.field(at))[0] for at in (1, 3)] == [old, moved]


def test_columns_without_legacy_values_are_the_same_arrays():
    fields = [dates([0]), times([0]), pa.array([0], pa.timestamp("ms", "UTC")), pa.array([[0]])]
    rows = pa.StructArray.from_arrays(fields, names=["day", "us", "ms", "list"])
    assert calendar().rebase(rows, "s", set()) is rows
    many = pa.ListArray.from_arrays([0, 1], rows)
    assert calendar().rebase(many, "s", set()) is many


@pytest.mark.parametrize(
    ("notes", "expected"),
    [
        ({}, None),
        ({"version": "4.2.0"}, None),
        ({"version": "3.1.0"}, None),
        ({"version": "10.0.0"}, None),
        ({"version": "next"}, None),
        ({"timeZone": "UTC"}, None),
        ({"version": "2.4.8"}, (True, True, None)),
        ({"version": "3.0.3", "timeZone": "CET"}, (False, True, "CET")),
        ({"version": "3.5.0", "legacyDateTime": "", "timeZone": "UTC"}, (True, False, "UTC")),
        ({"version": "3.5.0", "legacyINT96": "", "timeZone": "UTC"}, (False, True, "UTC")),
        ({"legacyDateTime": ""}, (True, False, None)),
    ],
    ids=repr,
)
def test_legacy_calendar_of_footers(notes, expected):
    found = legacy_calendar(footer(notes))
    assert (found and (found.datetimes, found.int96, found.zone)) == expected
    bounds = [
        first_unambiguous(footer(notes), PrimitiveType(kind)) for kind in ("date", "timestamp")
    ]
    is_old = expected is not None and expected[0]
    assert bounds == ([-141427, -2208988800_000_000] if is_old else [None, None])
    assert first_unambiguous(footer(notes), PrimitiveType("timestamp_ntz")) is None


OLD, LATE = -2208988801_000_000, -2208988800_000_000


@pytest.mark.parametrize("zone", ["America/Los_Angeles", "GMT+01:00", "No/Where", None])
def test_timestamps_before_1900_of_other_zones(zone):
    stored = times([OLD, None, LATE, 0])
    with pytest.raises(LegacyTimestampError, match="only those of UTC can be") as raised:
        calendar(zone).rebase_timestamps(stored)
    assert ("an unknown time zone" if zone is None else repr(zone)) in str(raised.value)
    assert "datetime_rebase_mode='corrected'" in raised.value.cure
    assert calendar(zone, mode="corrected").rebase_timestamps(stored) is stored
    assert numbers(calendar(zone, mode="null").rebase_timestamps(stored)) == [None, None, LATE, 0]


def test_typed_partition_values_that_cannot_be_rebased_are_unknown():
    """A null field means that the partition value is NULL; a null struct that it is unknown."""
    values = pa.StructArray.from_arrays(
        [times([OLD, None, 0, OLD]), pa.array([1, 2, None, 4])], names=["t", "n"],
        mask=pa.array([False, False, False, True]),
    )  # fmt: skip
    lossy = calendar("Asia/Tokyo", mode="null")
    found = lossy.rebase(values, "add.partitionValues_parsed", ())
    assert found.is_null().to_pylist() == [True, False, False, True]
    assert found.slice(1, 2).equals(values.slice(1, 2))
    bounds = lossy.rebase(values, "add.stats_parsed.minValues", ())
    assert bounds.is_null().to_pylist() == [False, False, False, True]
    assert numbers(bounds.flatten()[0]) == [None, None, 0, None]
    assert bounds.flatten()[1].to_pylist() == [1, 2, None, None]
