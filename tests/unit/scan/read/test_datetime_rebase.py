"""Tables with files in Spark's legacy hybrid calendar."""

from __future__ import annotations

import io
import json
from contextlib import nullcontext
from datetime import UTC, date, datetime, timedelta
from unittest.mock import patch

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from lazydelta import Config, ReadOptions, Table
from lazydelta.errors import ConfigError, DataFileError
from lazydelta.parquet import matching_row_groups, tuning
from lazydelta.parquet.pages.page_filter import PageFilter
from tests.builders import TableBuilder
from tests.native.support import without_decoder
from tests.unit.scan.read.tables import Rows, field, with_ids

SPARK = "org.apache.spark."
VERSION = {SPARK + "version": "3.5.0"}
NOTES = VERSION | {
    SPARK + "legacyDateTime": "",
    SPARK + "legacyINT96": "",
    SPARK + "timeZone": "UTC",
}
TOKYO = NOTES | {SPARK + "timeZone": "Asia/Tokyo"}
CORRECTED = ReadOptions(datetime_rebase_mode="corrected")
DAY = date(1500, 3, 1)
NOON = datetime(1500, 3, 1, 12, tzinfo=UTC)
EPOCH = date(1970, 1, 1)


def stored_day(day):
    """Return the days since 1970 of a Julian date; the year starts in March in this formula."""
    is_early = day.month < 3
    year, month = day.year + 4800 - is_early, day.month + 12 * is_early - 3
    since = day.day + (153 * month + 2) // 5 + 365 * year + year // 4
    return since - 32083 - 2440588


def days(*found):
    return pa.array(map(stored_day, found), pa.int32()).cast(pa.date32())


def noon(kind):
    """Return noon of the date as Spark stores it in the legacy calendar."""
    seconds = stored_day(DAY) * 86400 + 12 * 3600
    scale = 1_000_000 if kind.unit == "us" else 1000
    return pa.array([seconds * scale], pa.int64()).cast(kind)


ZONED = pa.timestamp("us", "UTC")


def old(columns, notes=NOTES):
    return pa.table(columns).replace_schema_metadata(notes)


@pytest.fixture(params=["decoder", "pyarrow"])
def _read_by(request):
    with without_decoder() if request.param == "pyarrow" else nullcontext():
        yield


def test_stored_day_is_the_julian_calendar():
    assert stored_day(date(1582, 10, 4)) == -141428
    assert stored_day(date(1, 1, 1)) == -719164


@pytest.mark.usefixtures("_read_by")
def test_dates_and_timestamps(tmp_path):
    fields = [field("d", "date"), field("t", "timestamp"), field("n", "timestamp_ntz")]
    made = Rows(tmp_path / "t", fields, features=["timestampNtz"])
    plain = noon(pa.timestamp("us"))
    made.file("a.parquet", old({"d": days(DAY), "t": noon(ZONED), "n": plain}))
    (found,) = made.rows()
    assert (found["d"], found["t"]) == (DAY, NOON)
    assert found["n"] == plain[0].as_py(), "a time without a zone is in no calendar"


@pytest.mark.usefixtures("_read_by")
@pytest.mark.parametrize("kind", ["int96", "ms"])
def test_other_timestamp_encodings(tmp_path, kind):
    made = Rows(tmp_path / "t", [field("t", "timestamp")])
    times = noon(pa.timestamp("us") if kind == "int96" else pa.timestamp("ms", "UTC"))
    made.file("a.parquet", old({"t": times}), use_deprecated_int96_timestamps=kind == "int96")
    assert made.rows() == [{"t": NOON}]


def test_only_columns_named_by_the_footer_are_rebased(tmp_path):
    made = Rows(tmp_path / "t", [field("d", "date"), field("t", "timestamp")])
    columns = {"d": days(DAY), "t": noon(pa.timestamp("us"))}
    notes = [VERSION, {SPARK + "version": "3.0.1"}, {SPARK + "version": "2.4.8"}]
    for at, note in enumerate(notes):
        rows = old(columns, {**note, SPARK + "timeZone": "UTC"})
        made.file(f"{at}.parquet", rows, use_deprecated_int96_timestamps=True)
    found = made.open().to_arrow(ReadOptions(ordered=True)).to_pylist()
    as_stored = (columns["d"][0].as_py(), columns["t"][0].as_py().replace(tzinfo=UTC))
    assert [(row["d"], row["t"]) for row in found] == [
        as_stored, (as_stored[0], NOON), (DAY, NOON),
    ]  # fmt: skip


def test_nested_values(tmp_path):
    struct = {"type": "struct", "fields": [field("d", "date"), field("t", "timestamp")]}
    items = {"type": "array", "elementType": struct, "containsNull": True}
    pairs = {"type": "map", "keyType": "date", "valueType": items, "valueContainsNull": True}
    made = Rows(tmp_path / "t", [field("s", struct), field("l", items), field("m", pairs)])
    inner = pa.StructArray.from_arrays([days(DAY), noon(ZONED)], names=["d", "t"])
    one = pa.ListArray.from_arrays([0, 1], inner)
    nested = pa.MapArray.from_arrays([0, 1], days(DAY), one)
    rows = old({"s": inner, "l": one, "m": nested})
    made.file("a.parquet", pa.concat_tables([rows, rows.slice(0, 0), rows]))
    expected = {"d": DAY, "t": NOON}
    row = {"s": expected, "l": [expected], "m": [(DAY, [expected])]}
    assert made.rows() == [row, row]
    assert made.rows(f"s.d = date '{DAY}'", ["l"]) == [{"l": [expected]}] * 2


def shredded(day, time):
    """Return a shredded variant: a list of two objects with a date and a timestamp."""

    def typed(values):
        return pa.StructArray.from_arrays(
            [pa.nulls(len(values), pa.binary()), values], names=["value", "typed_value"]
        )

    parts = pa.StructArray.from_arrays([typed(day), typed(time)], names=["d", "t"])
    items = pa.ListArray.from_arrays([0, 2], typed(pa.concat_arrays([parts, parts])))
    metadata = pa.array([b"\x01\x02\x00\x01\x02dt"], pa.binary())
    return pa.StructArray.from_arrays(
        [metadata, pa.nulls(1, pa.binary()), items], names=["metadata", "value", "typed_value"]
    )


def test_shredded_variants(tmp_path):
    """As Spark 4.2 writes and reads them."""
    found = []
    for name, notes, day, time in [
        ("new", VERSION, pa.array([DAY]), pa.array([NOON], ZONED)),
        ("old", NOTES, days(DAY), noon(ZONED)),
    ]:
        made = Rows(tmp_path / name, [field("v", "variant")], features=["variantType"])
        made.file("a.parquet", old({"v": shredded(day, time)}, notes))
        found.append(made.rows())
    assert found[0] == found[1]
    assert len(found[0][0]["v"]["value"]) > 20


@pytest.mark.parametrize("mode", ["name", "id"])
def test_column_mapping_and_widened_dates(tmp_path, mode):
    fields = [
        field("day", "date", physical="c1", column_id=1),
        field("wide", "timestamp_ntz", physical="c2", column_id=2),
    ]
    configuration = {"delta.columnMapping.mode": mode}
    features = ["timestampNtz", "typeWidening"]
    made = Rows(tmp_path / "t", fields, configuration=configuration, features=features)
    rows = old({"c1": days(DAY), "c2": days(DAY)})
    schema = with_ids(rows.schema, {"c1": 1, "c2": 2}).with_metadata(rows.schema.metadata)
    made.file("a.parquet", rows.cast(schema))
    assert made.rows() == [
        {"day": DAY, "wide": NOON.replace(tzinfo=None, hour=0, minute=0, second=0)}
    ]
    assert made.rows("wide = timestamp_ntz '1500-03-01 00:00:00'", ["day"]) == [{"day": DAY}]


def many_days(count=4000):
    """Return dates on both sides of the calendar switch."""
    first = date(1577, 4, 30)
    named = [first + timedelta(days=at) for at in range(count)]
    return [day for day in named if not date(1582, 10, 4) < day < date(1582, 10, 15)]


def as_spark_has_them(named):
    first = date(1582, 10, 15)
    found = [stored_day(day) if day < first else (day - EPOCH).days for day in named]
    return pa.array(found, pa.int32()).cast(pa.date32())


@pytest.mark.sample(2)
@pytest.mark.usefixtures("_read_by")
@pytest.mark.parametrize("pages", [False, True])
def test_row_group_and_page_bounds_lose_no_row(tmp_path, monkeypatch, pages):
    """Bounds are in the legacy calendar: ten days off before the switch."""
    if pages:
        monkeypatch.setattr(tuning, "PAGE_FILTER_BYTES", 0)
        monkeypatch.setattr(PageFilter, "is_cheap", lambda *_: True)
    named = many_days()
    rows = old({"d": as_spark_has_them(named), "k": list(range(len(named)))})
    made = Rows(tmp_path / "t", [field("d", "date"), field("k", "long")])
    made.file(
        "a.parquet", rows, row_group_size=2000 if pages else 50, write_page_index=pages,
        data_page_size=64, write_batch_size=8, use_dictionary=False,
    )  # fmt: skip
    table = made.open()
    for at in [0, 3, 49, 50, 51, 1982, 1983, 1984, 1985, 1990, 2500, len(named) - 1]:
        found = table.scan(f"d = date '{named[at]}'").to_arrow()
        assert found["k"].to_pylist() == [at]
        before = table.scan(f"d < date '{named[at]}'", ["k"]).to_arrow()
        assert before.num_rows == at
        assert table.scan(f"d >= date '{named[at]}'").count() == len(named) - at


def test_row_groups_after_the_switch_are_skipped(tmp_path):
    named = many_days()
    sink = io.BytesIO()
    rows = old({"d": as_spark_has_them(named)})
    pq.write_table(rows, sink, row_group_size=500)
    made = Rows(tmp_path / "t", [field("d", "date")])
    scan = made.file("a.parquet", rows).open().scan(f"d > date '{named[3600]}'")
    with patch(
        "lazydelta.scan.read.file_reader.matching_row_groups", wraps=matching_row_groups
    ) as called:
        assert scan.to_arrow().num_rows == len(named) - 3601
    _, rule, leaves, partition = called.call_args.args
    kept = matching_row_groups(pq.read_metadata(sink), rule, leaves, partition)
    assert kept == [0, 1, 2, 3, 7], "those before the switch are not known"


def test_predicates_apply_to_rebased_timestamps(tmp_path):
    made = Rows(tmp_path / "t", [field("t", "timestamp"), field("k", "long")])
    hours = pa.array(range(-3_900_000, -600_000, 15_000), pa.int64())
    stored = pc.multiply(hours, 3_600_000_000).cast(ZONED)
    made.file("a.parquet", old({"t": stored, "k": hours}), row_group_size=10)
    table = made.open()
    every = table.to_arrow()
    assert (every["t"].to_pylist()[0] - stored[0].as_py()).days < -8
    for at in range(0, every.num_rows, 7):
        found = table.scan(f"t = timestamp '{every['t'][at].as_py().isoformat()}'").to_arrow()
        assert found["k"].to_pylist() == [every["k"][at].as_py()]


def test_change_feed(tmp_path):
    configuration = {"delta.enableChangeDataFeed": "true"}
    made = Rows(tmp_path / "t", [field("d", "date")], configuration=configuration)
    made.file("a.parquet", old({"d": days(DAY)})).commit()
    rows = made.open().changes(starting_version=0).to_arrow().to_pylist()
    assert [(row["d"], row["_change_type"]) for row in rows] == [(DAY, "insert")]


@pytest.mark.usefixtures("_read_by")
@pytest.mark.parametrize("notes", [TOKYO, {SPARK + "version": "2.4.8"}], ids=["tokyo", "unknown"])
def test_timestamps_before_1900_of_other_zones_are_refused(tmp_path, notes):
    made = Rows(tmp_path / "t", [field("t", "timestamp"), field("d", "date")])
    late = pa.array([datetime(1900, 1, 1, tzinfo=UTC)], ZONED)
    made.file("late.parquet", old({"t": late, "d": days(DAY)}, notes))
    assert made.rows() == [{"t": late[0].as_py(), "d": DAY}]
    made.file("old.parquet", old({"t": noon(ZONED), "d": days(DAY)}, notes))
    reason = r"old\.parquet.*column 't'.*before 1900.*datetime_rebase_mode='corrected'"
    with pytest.raises(DataFileError, match=reason) as raised:
        made.rows()
    assert "backup" not in str(raised.value), "the file is not damaged"
    found = made.open().scan().to_arrow(CORRECTED)
    assert set(found["t"].to_pylist()) == {late[0].as_py(), noon(ZONED)[0].as_py()}
    assert found["d"].to_pylist() == [DAY, DAY], "dates do not depend on the zone"
    assert made.rows(columns=["d"]) == [{"d": DAY}] * 2, "what is not read is not refused"


def test_nested_timestamps_of_other_zones_are_refused_by_their_path(tmp_path):
    struct = {"type": "struct", "fields": [field("t", "timestamp")]}
    made = Rows(tmp_path / "t", [field("s", struct)])
    made.file(
        "a.parquet", old({"s": pa.StructArray.from_arrays([noon(ZONED)], names=["t"])}, TOKYO)
    )
    with pytest.raises(DataFileError, match=r"column 's\.t' has timestamps before 1900"):
        made.rows()
    assert made.open().to_arrow(CORRECTED)["s"].to_pylist() == [{"t": noon(ZONED)[0].as_py()}]


def test_variants_changes_and_aggregates_of_other_zones(tmp_path):
    configuration = {"delta.enableChangeDataFeed": "true"}
    features = ["variantType"]
    fields = [field("v", "variant"), field("t", "timestamp")]
    made = Rows(tmp_path / "t", fields, configuration=configuration, features=features)
    rows = old({"v": shredded(days(DAY), noon(ZONED)), "t": noon(ZONED)}, TOKYO)
    made.file("a.parquet", rows).commit()
    table = made.open()
    with pytest.raises(DataFileError, match="column 'v' has timestamps before 1900"):
        table.scan(columns=["v"]).to_arrow()
    assert table.scan(columns=["v"]).to_arrow(CORRECTED).num_rows == 1
    with pytest.raises(DataFileError, match="has timestamps before 1900"):
        table.changes(starting_version=0).to_arrow()
    where = "t < timestamp '1800-01-01T00:00:00Z'"
    with pytest.raises(DataFileError, match="before 1900"):
        table.scan(where).count()
    as_stored = Table.open(tmp_path / "t", config=Config(read=CORRECTED))
    assert as_stored.changes(starting_version=0).to_arrow().num_rows == 1
    assert as_stored.scan(where).count() == 1


def test_an_unknown_rebase_mode():
    with pytest.raises(ConfigError, match="exception, corrected, not 'legacy'"):
        ReadOptions(datetime_rebase_mode="legacy")


@pytest.mark.parametrize("stats", ["stats", "partition"])
@pytest.mark.parametrize("int96", [False, True])
@pytest.mark.parametrize("notes", [NOTES, TOKYO], ids=["utc", "tokyo"])
def test_typed_values_of_a_checkpoint_are_rebased(tmp_path, stats, int96, notes):
    """Spark writes checkpoints in the same calendar as rows."""
    parted = ("d",) if stats == "partition" else ()
    made = TableBuilder(
        tmp_path, schema={"d": "date", "t": "timestamp", "k": "long"}, partition_by=parted
    )
    day = (EPOCH + timedelta(days=stored_day(DAY))).isoformat()
    time = noon(ZONED)[0].as_py().strftime("%Y-%m-%d %H:%M:%S").rjust(19, "0") + "Z"
    values = {"d": day, "t": time}
    bounds = {"minValues": values, "maxValues": values, "nullCount": {"d": 0, "t": 0}}
    add = {
        "partitionValues": {"d": day} if parted else {},
        "size": 1,
        "modificationTime": 0,
        "dataChange": True,
        "stats": json.dumps({"numRecords": 1} if parted else {"numRecords": 1, **bounds}),
    }
    made.commit(*({"add": {"path": f"{at}.parquet", **add}} for at in range(3)))
    made.checkpoint(
        stats_json=False, stats_parsed=True, partition_values_parsed=bool(parted), row_group_rows=1
    )
    (place,) = (tmp_path / "_delta_log").glob("*.checkpoint.parquet")
    rows = pq.read_table(place).replace_schema_metadata(notes)
    pq.write_table(rows, place, row_group_size=1, use_deprecated_int96_timestamps=int96)
    table = Table.open(tmp_path)

    def kept(where):
        return sum(batch.num_rows for batch in table.scan(where).file_batches())

    assert kept(f"d = date '{DAY}'") == 3
    assert kept(f"d = date '{day}'") == 0
    if parted:
        return
    assert kept(f"t = timestamp '{NOON.isoformat()}'") == 3
    assert kept("t < timestamp '1500-02-28T00:00:00Z'") == (0 if notes is NOTES else 3)
    table.checkpoint()
    assert kept(f"t = timestamp '{NOON.isoformat()}'") == 3


def test_typed_partition_values_of_other_zones_are_unknown(tmp_path):
    made = TableBuilder(tmp_path, schema={"t": "timestamp", "k": "long"}, partition_by=("t",))
    time = noon(ZONED)[0].as_py().strftime("%Y-%m-%d %H:%M:%S").rjust(19, "0")
    late = "2020-01-01 00:00:00"
    add = {"size": 1, "modificationTime": 0, "dataChange": True}
    made.commit(
        *(
            {"add": {"path": f"{at}.parquet", "partitionValues": {"t": value}, **add}}
            for at, value in enumerate([time, late])
        )
    )
    made.checkpoint(stats_parsed=True, partition_values_parsed=True)
    (place,) = (tmp_path / "_delta_log").glob("*.checkpoint.parquet")
    pq.write_table(pq.read_table(place).replace_schema_metadata(TOKYO), place)
    table = Table.open(tmp_path)

    def kept(where):
        return sum(batch.num_rows for batch in table.scan(where).file_batches())

    assert kept(f"t = timestamp '{noon(ZONED)[0].as_py().isoformat()}'") == 1
    assert kept("t = timestamp '2020-01-01T00:00:00Z'") >= 1
    assert kept("t > timestamp '2021-01-01T00:00:00Z'") <= 1
