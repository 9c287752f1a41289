"""Days and times of Spark's legacy calendar. What is expected is what Spark 4.2 read, on Java 17."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lazydelta.parquet.datetime_rebase import LegacyCalendar, first_certain, legacy_calendar
from lazydelta.parquet.zones import UnknownZoneError, old_zone
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
MOVED_BY = {
    "UTC": [172800, -432000, -432000, -864000, 0, 0, 0, 0, 0, 0],
    "America/Los_Angeles": [
        172378, -432422, -432422, -864422, -864422, -422, -422, 0, 0, 0,
    ],
    "PST": [172378, -432422, -432422, -864422, -864422, -422, -422, 0, 0, 0],
    "Europe/Amsterdam": [175350, -429450, -429450, 2550, 2550, 2550, 2550, 2550, 3600, 0],
    "Asia/Kolkata": [171392, -433408, -433408, -1408, -1408, -1408, 530, 530, 530, 0],
    "Asia/Tokyo": [171661, -433139, -433139, -1139, -1139, -1139, -1139, -1139, 0, 0],
    "Africa/Monrovia": [175388, -429412, -429412, -861412, 2588, 2588, 2588, 2588, 2588, 0],
    "Australia/Sydney": [172508, -432292, -432292, -292, -292, -292, -292, -292, 0, 0],
    "Asia/Manila": [258960, -345840, -345840, 86160, 86160, 86160, -240, -240, 0, 0],
    "GMT-03:30": [172800, -432000, -432000, -864000, -864000, 0, 0, 0, 0, 0],
    "+01:00": [172800, -432000, -432000, -864000, 0, 0, 0, 0, 0, 0],
    "EST": [172800, -432000, -432000, -864000, -864000, 0, 0, 0, 0, 0],
}  # fmt: skip


def calendar(zone="UTC", *, datetimes=True, int96=True, table="t"):
    return LegacyCalendar(table=table, datetimes=datetimes, int96=int96, zone=zone)


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


def test_days_keep_their_names():
    found = calendar().days(dates(list(DAYS)))
    assert numbers(found, pa.int32()) == list(DAYS.values())


@pytest.mark.parametrize("zone", MOVED_BY)
def test_times_keep_what_the_clock_showed(zone):
    stored = [seconds * 1_000_000 + 5 for seconds in TIMES]
    found = numbers(calendar(zone).times(times(stored)))
    pairs = zip(found, stored, strict=True)
    assert [(new - old) / 1_000_000 for new, old in pairs] == MOVED_BY[zone]


def test_nulls_stay_and_parts_of_arrays_are_parts():
    kept = dates([None, -141428, None, 0, -317696])
    assert numbers(calendar().days(kept.slice(1, 3)), pa.int32()) == [-141438, None, 0]
    old = times([None, -12219292801_000_000, None, 0])
    assert numbers(calendar().times(old.slice(1))) == [-12220156801_000_000, None, 0]


def test_what_is_not_old_is_not_copied():
    new = dates([-141427, None, 5])
    assert calendar().days(new) is new
    late = times([-2208988800_000_000, None])
    assert calendar("No/Where").times(late) is late
    assert calendar("No/Where").times(times([])).equals(times([]))
    assert calendar("No/Where").times(times([None])).null_count == 1


def test_parts_of_structs_are_moved_by_what_they_are():
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
    found = calendar().moved(pa.concat_arrays([rows, rows]).slice(1, 2), "s", {"s.int96"})
    assert found.type == rows.type
    assert found.is_null().to_pylist() == [True, False]
    assert numbers(found.field(0), pa.int32())[1] == -141438
    assert [numbers(found.field(at))[1] for at in range(1, 6)] == [
        moved, moved // 1000, moved, old, old,
    ]  # fmt: skip
    half = calendar(datetimes=False).moved(rows, "s", {"s.int96"})
    assert numbers(half.field(0), pa.int32())[0] == -141428
    assert [numbers(half.field(at))[0] for at in (1, 3)] == [old, moved]


def test_columns_without_old_values_are_the_same_arrays():
    fields = [dates([0]), times([0]), pa.array([0], pa.timestamp("ms", "UTC")), pa.array([[0]])]
    rows = pa.StructArray.from_arrays(fields, names=["day", "us", "ms", "list"])
    assert calendar().moved(rows, "s", set()) is rows
    many = pa.ListArray.from_arrays([0, 1], rows)
    assert calendar().moved(many, "s", set()) is many


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
def test_what_a_footer_says_of_it(notes, expected):
    found = legacy_calendar(footer(notes), "t")
    assert (found and (found.datetimes, found.int96, found.zone)) == expected
    bounds = [first_certain(footer(notes), PrimitiveType(kind)) for kind in ("date", "timestamp")]
    is_old = expected is not None and expected[0]
    assert bounds == ([-141427, -2208988800_000_000] if is_old else [None, None])
    assert first_certain(footer(notes), PrimitiveType("timestamp_ntz")) is None


@pytest.mark.parametrize(
    ("name", "hours"),
    [
        ("UTC", 0), ("GMT", 0), ("Z", 0), ("", 0), ("+01:00", 0), ("UTC+01:00", 0), ("UT-3", 0),
        ("GMT+24:00", 0), ("GMT+1", 1), ("GMT+01:00", 1), ("GMT-930", -9.5), ("GMT+0930", 9.5),
        ("EST", -5), ("CET", 1), ("Etc/GMT+5", -5),
    ],
)  # fmt: skip
def test_zones_that_are_offsets_as_java_reads_them(name, hours):
    zone = old_zone(name)
    assert zone.standard == hours * 3_600_000_000
    assert zone.offsets.tolist() == [zone.standard]


@pytest.mark.parametrize("name", ["No/Where", "America", "../etc/passwd", "x\0y", "/etc/passwd"])
def test_a_zone_that_is_not_known_names_itself_and_the_cure(name):
    with pytest.raises(UnknownZoneError, match="pip install tzdata") as raised:
        calendar(name).times(times([-12219292801_000_000]))
    assert repr(name) in str(raised.value)


def test_times_without_a_zone_are_of_utc_and_that_is_told_once_for_a_table(caplog):
    old = times([-12219292801_000_000])
    silent = calendar(None, table="quiet")
    silent.times(times([0]))
    silent.days(dates([-141428]))
    assert not caplog.text
    for _ in range(2):
        found = calendar(None, table="told-once").times(old)
        assert numbers(found) == numbers(calendar("UTC").times(old))
    assert caplog.text.count("told-once has times before 1900") == 1
