"""Tables like those in the test data of other engines.

All partition types at their extremes, every type widening at every depth, empty files, and legacy
Parquet layouts of lists, maps, decimals and timestamps.
"""

from __future__ import annotations

import base64
import json
import zlib
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lazydelta import errors
from tests.unit.scan.read.tables import Rows, field, inline

LEGACY = (
    "eNqtV1toHFUY/uey12zSij2HGVgwDO6wK+uaTbLZNSyiCEVCCCH0Qaimmd2djWtmNtudSU0MKVJ8CAF9EB+kzYMPQa"
    "WoBLRQqoiCFJFYRGJJi0LRl6ggvliKF+o5M7OzO83m1jVsZs+c8/3/93//5ZCMPzWRRoB6UQ79vX3xHX8U8eQ1iIIA"
    "8UuP/QvPvgLuD9P8Jqg+9CS6sPbl++E88iO+AV8DmKII1sGyMHWLmWKoic3y1feXfmGihIEnZv4WFmrBha3nEZZ7E2"
    "yTYTSBfvhi+SFqAa0W2w0Ljj7LbYMElEcjaPmjC9+xtq4W+w2AZcuUuHCNWMhJk2Ndtm0OjaNzn/x4g9lhe8vhtp9c"
    "+/yEkYTe/XT1GyaP2GZ+4jZsxqaIokG09fP2tzyl8CSkdg8F9z/EBEggVbu6cu1coGHulnnKMefu3r0G0G9LoPDXfr"
    "t5nvNIIFD4+mSAev3gxsOOZ55oufPnH+ucraSlgY5StwQkPsCKQrARF1k2QkOsiNscs63Hoszze3vgKUQcgv1wIA4R"
    "JQQI+wJl3gmLmaG/92wewI4mkzxJPh2NURxEZQzWapNxl1dYdNZZXubQvLNc593d2z5UoPaYp29bfvfgegBNOsuVEB"
    "rBdgz/PPhMxKgp9ZlTRvEFVVfQUVKgGAhspQQZEBiNlNM/mqdgPsYLPqVeVxboCatV3aMML3AFZRqxFMR6QForyD7Y"
    "3aPRDmzHw8xb4egEwY4mbURoRl04dUbR5lTaSIAiBMeRvRiMRm33IPisc0A9pINZgSnFwnTeks/RJ8X4qVbTANIUUX"
    "FVBtKTYgyCIk0AimAej+GyHMw369YsJoZ4m12SX0S7nAWiA9/sRsfwZgg9AY5rPy/GGc3RFsFBvMbgDUbeZORqtNnI"
    "XhK2DUnSmh3WnifClaBdD/j3boTxG2F0vMEHfjFHSkXL00JaxmflK2x7Vfw+qhLu8AB+tYfQbYXRuJfO0ecS8vhFPC"
    "9f5u4vjYnmFAI+Txnf60ITXkbD5mLmLTYqb52/TzY6koDXKc9fXU4iI1bhcozebDnaaBbZy/giI9/2yR/6omTyyYdQ"
    "WN87i2TdPNT71R4UxZ9H0COtKlq9223ritnydyTmJyrm14gjpkfMgJ90OGM3+HE8KV8P5IcgTm8f6yLy9vAdar3e7Q"
    "TrF2NBXqQzY1nX8NuMvBKSPw5GhUjrXe99I5HucbozU4T29SMIA/4sgHk5iDdCxyhKEGbr0ymlppC7KmVdW6kzat2o"
    "zFYF32CqP9UHQmIHwjitpcji9JxqpuqzL6V01VRKiqkIbwUWJXOhpkrDkmHW54qmlJTKFVUrGdLwyUWpquj0qFIi2w"
    "5Mm61Ok7fqnKYpBY3slBXNUJNSw6U0vLi0lHRNNdfSJbLalGyrmqqrVfOEx29xtmoqlaoxRvw7vpcOwVbtiI5k4FBs"
    "BxXXifQOE2IcNsQ92mD+kF3wfMfh6zuj15Ua2SS3xAk33ooVi3VdeDNqbT3dUQQtnV9SixVd0eKZZH/Co522za4OzG"
    "YFJLOiq4ap6LUDpA6EEWdiH9Xrvc6I96ZT6WyqrzdemKtopd6yUuwrZgeHMgP9anpgoKAWHu/PKdnykJJVM9lCJt1X"
    "GMxmlXRCXCV/Dez2AT4EME7+s/kPfxGMOQ=="
)
"""A file of two rows that Spark 4.2 wrote with `spark.sql.parquet.writeLegacyFormat` and INT96."""


def array_of(kind):
    return {"type": "array", "elementType": kind, "containsNull": True}


def map_of(key, value):
    return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}


def struct_of(**kinds):
    return {"type": "struct", "fields": [field(name, kind) for name, kind in kinds.items()]}


def wall_time(text):
    """Return a timestamp without a zone."""
    return datetime.fromisoformat(text)


# --- layouts


@pytest.fixture
def legacy(tmp_path):
    kinds = {
        "id": "long",
        "l": array_of("long"),
        "ln": array_of("long"),
        "ll": array_of(array_of("long")),
        "ls": array_of(struct_of(x="long")),
        "m": map_of("string", "long"),
        "d": "decimal(5,2)",
        "ts": "timestamp",
    }
    made = Rows(tmp_path / "t", [field(name, kind) for name, kind in kinds.items()])
    data = zlib.decompress(base64.b64decode(LEGACY))
    (made.path / "f.parquet").write_bytes(data)
    add = {"path": "f.parquet", "size": len(data), "partitionValues": {}}
    made.actions.append({"add": {**add, "modificationTime": 0, "dataChange": True}})
    return made


def test_legacy_lists_maps_decimals_and_timestamps(legacy):
    moment = datetime(1900, 1, 1, 0, 0, 0, 123456, tzinfo=UTC)
    expected = [
        {
            "id": at,
            "l": [at, at + 1],
            "ln": [at, None],
            "ll": [[at]],
            "ls": [{"x": at}],
            "m": [("k", at)],
            "d": Decimal(at) - Decimal("0.50"),
            "ts": moment,
        }
        for at in range(2)
    ]
    assert legacy.rows() == expected
    for name in expected[0]:
        assert legacy.rows(columns=[name]) == [{name: row[name]} for row in expected]


def test_predicates_on_legacy_layouts(legacy):
    assert [row["id"] for row in legacy.rows("d > 0")] == [1]
    assert len(legacy.rows("ts = '1900-01-01T00:00:00.123456Z'")) == 2
    assert legacy.rows("ts > '1900-01-01T00:00:00.123456Z'") == []


def test_empty_files_and_row_groups(tmp_path):
    made = Rows(tmp_path / "t", [field("x", "long")], features=("deletionVectors",))
    nothing = pa.table({"x": pa.array([], pa.int64())})
    made.file("empty.parquet", nothing).file("marked.parquet", nothing, vector=inline([]))
    made.file("some.parquet", nothing, vector=inline([1]))
    with pq.ParquetWriter(made.path / "some.parquet", nothing.schema) as writer:
        for values in ([], [1], [], [2, 3], []):
            writer.write_table(pa.table({"x": pa.array(values, pa.int64())}))
    with pq.ParquetWriter(made.path / "empty.parquet", nothing.schema):
        pass
    made.actions[-1]["add"]["size"] = (made.path / "some.parquet").stat().st_size
    made.actions[-3]["add"]["size"] = (made.path / "empty.parquet").stat().st_size
    scan = made.open().scan()
    assert sorted(scan.to_arrow()["x"].to_pylist()) == [1, 3]
    assert scan.count() == 2
    assert made.rows("x > 1") == [{"x": 3}]
    assert list(scan.min_max("x")) == [1, 3]


# --- partition values at their extremes

EXTREMES = {
    "string": [("a/b=c %25#?", "a/b=c %25#?"), (" ", " "), ("__HIVE_DEFAULT_PARTITION__",) * 2],
    "integer": [("-2147483648", -(2**31)), ("2147483647", 2**31 - 1), ("007", 7)],
    "long": [("-9223372036854775808", -(2**63)), ("9223372036854775807", 2**63 - 1)],
    "short": [("-32768", -(2**15)), ("32767", 2**15 - 1)],
    "byte": [("-128", -128), ("127", 127)],
    "float": [("3.4028235E38", 3.4028234663852886e38), ("1.4E-45", 1.401298464324817e-45)],
    "double": [("4.9E-324", 5e-324), ("-Infinity", float("-inf")), ("-0.0", 0.0)],
    "boolean": [("true", True), ("FALSE", False)],
    "date": [("0001-01-01", date(1, 1, 1)), ("9999-12-31", date(9999, 12, 31))],
    "decimal(10,2)": [("-123.45", Decimal("-123.45")), ("99999999.99", Decimal("99999999.99"))],
    "binary": [("\U0001f608", "\U0001f608".encode()), ("\x00\x7f", b"\x00\x7f")],
    "timestamp": [
        ("1970-01-01T00:00:00.000001Z", datetime(1970, 1, 1, 0, 0, 0, 1, tzinfo=UTC)),
        ("1969-12-31 23:59:59.999999", datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)),
        ("2020-01-01T00:00:00+02:00", datetime(2019, 12, 31, 22, tzinfo=UTC)),
    ],
    "timestamp_ntz": [
        ("9999-12-31 23:59:59.999999", wall_time("9999-12-31 23:59:59.999999")),
        ("2020-01-01 00:00:00", wall_time("2020-01-01")),
    ],
}


@pytest.mark.parametrize("kind", EXTREMES)
def test_partition_values_at_their_extremes(tmp_path, kind):
    fields = [field("id", "long"), field("p", kind)]
    made = Rows(tmp_path / "t", fields, partition_columns=["p"], features=("timestampNtz",))
    values = [*EXTREMES[kind], (None, None), ("", None)]
    for at, (text, _) in enumerate(values):
        made.file(f"{at}.parquet", pa.table({"id": [at]}), partition={"p": text})
    found = {row["id"]: row["p"] for row in made.rows()}
    assert found == {at: value for at, (_, value) in enumerate(values)}
    assert len(made.rows("p is null")) == 2
    assert len(made.rows("p = p")) == len(values) - 2


# --- type widening

WIDENINGS = [
    ("byte", "short", -128, -128),
    ("byte", "integer", 127, 127),
    ("byte", "long", -1, -1),
    ("byte", "double", -128, -128.0),
    ("byte", "decimal(10,0)", 7, Decimal(7)),
    ("short", "integer", -32768, -32768),
    ("short", "long", 32767, 32767),
    ("short", "double", 5, 5.0),
    ("short", "decimal(12,2)", -5, Decimal("-5.00")),
    ("integer", "long", -(2**31), -(2**31)),
    ("integer", "double", 2**31 - 1, float(2**31 - 1)),
    ("integer", "decimal(11,1)", 2**31 - 1, Decimal("2147483647.0")),
    ("long", "decimal(20,0)", -(2**63), Decimal(-(2**63))),
    ("long", "decimal(22,2)", 2**63 - 1, Decimal("9223372036854775807.00")),
    ("float", "double", 0.1, 0.10000000149011612),
    ("decimal(5,2)", "decimal(12,4)", Decimal("-999.99"), Decimal("-999.9900")),
    ("decimal(18,0)", "decimal(38,10)", Decimal(10**18 - 1), Decimal(10**18 - 1)),
    ("date", "timestamp_ntz", date(1969, 12, 31), wall_time("1969-12-31")),
    ("date", "timestamp_ntz", date(9999, 12, 31), wall_time("9999-12-31")),
]
ARROW = {
    "byte": pa.int8(), "short": pa.int16(), "integer": pa.int32(), "long": pa.int64(),
    "float": pa.float32(), "date": pa.date32(), "decimal(5,2)": pa.decimal128(5, 2),
    "decimal(18,0)": pa.decimal128(18, 0),
}  # fmt: skip


@pytest.mark.parametrize("as_integer", [False, True], ids=["plain", "decimals-as-integers"])
@pytest.mark.parametrize(("old", "new", "value", "widened"), WIDENINGS)
def test_every_type_widening_at_every_depth(tmp_path, old, new, value, widened, as_integer):
    fields = [
        field("c", new),
        field("s", struct_of(x=new)),
        field("l", array_of(new)),
        field("m", map_of(new, new)),
        field("n", array_of(map_of("string", struct_of(y=array_of(new))))),
        field("p", new),
    ]
    features = ("typeWidening", "timestampNtz")
    made = Rows(tmp_path / "t", fields, partition_columns=["p"], features=features)
    one = ARROW[old]
    nested = pa.list_(pa.map_(pa.string(), pa.struct([("y", pa.list_(one))])))
    data = {
        "c": pa.array([value, None], one),
        "s": pa.array([{"x": value}, None], pa.struct([("x", one)])),
        "l": pa.array([[value, None], None], pa.list_(one)),
        "m": pa.array([[(value, value)], []], pa.map_(one, one)),
        "n": pa.array([[[("k", {"y": [value]})]], None], nested),
    }
    made.file(
        "f.parquet", pa.table(data), partition={"p": str(value)},
        store_decimal_as_integer=as_integer,
    )  # fmt: skip
    # A serialized float is parsed in the new type, which may be another number.
    p = float(str(value)) if old == "float" else widened
    full = {"c": widened, "s": {"x": widened}, "l": [widened, None], "m": [(widened, widened)]}
    full |= {"n": [[("k", {"y": [widened]})]], "p": p}
    bare = {"c": None, "s": None, "l": None, "m": [], "n": None, "p": p}
    assert made.rows() == [full, bare]
    assert made.rows("c is not null and s.x = c") == [full]


@pytest.mark.parametrize(
    ("old", "new", "features", "is_refused"),
    [
        ("byte", "decimal(4,1)", ["typeWidening-preview"], False),  # as Delta 3.2 widened it
        ("long", "double", ["typeWidening"], True),
        ("string", "long", ["typeWidening"], True),
        ("string", "long", [], False),  # without the table feature type changes have no meaning
    ],
)
def test_an_unsupported_type_change_is_refused(tmp_path, old, new, features, is_refused):
    # PROTOCOL.md: readers must fail when finding any unsupported type change.
    changes = [{"fromType": "byte", "toType": "short"}, {"fromType": old, "toType": new}]
    inner = field("x", new) | {"metadata": {"delta.typeChanges": changes}}
    fields = [field("l", array_of({"type": "struct", "fields": [inner]})), field("id", "long")]
    made = Rows(tmp_path / "t", fields, features=features).file("f", pa.table({"id": [1]}))
    if is_refused:
        with pytest.raises(errors.SchemaError, match=f"'x' changed from {old} to {new}"):
            made.rows()
    else:
        assert made.rows() == [{"l": None, "id": 1}]


def test_statistics_in_the_old_type_lose_no_row(tmp_path):
    """Statistics keep the type of their file: `9` of an integer is `9.00` of a decimal."""
    made = Rows(tmp_path / "t", [field("c", "decimal(12,2)")], features=("typeWidening",))
    for at in (1, 9, 10):
        stats = {"numRecords": 1, "minValues": {"c": at}, "maxValues": {"c": at}}
        stats["nullCount"] = {"c": 0}
        rows = pa.table({"c": pa.array([at], pa.int32())})
        made.file(f"{at}.parquet", rows, action={"stats": json.dumps(stats)})
    found = made.open().scan("c > 8.5")
    assert sorted(found.to_arrow()["c"].to_pylist()) == [Decimal("9.00"), Decimal("10.00")]
    assert made.open().scan("c = 9").count() == 1


# --- times in nanoseconds

NANOS = pa.timestamp("ns", "UTC")
STRINGS = {1: "1970-01-01T00:00:00.000000123Z", 2: "1969-12-31T23:59:59.999999877Z"}


@pytest.fixture
def nanos(tmp_path):
    """A table with statistics truncated to milliseconds."""
    fields = [
        field("id", "long"),
        field("ts", "timestamp_nanos"),
        field("wall", "timestamp_nanos_ntz"),
        field("l", array_of("timestamp_nanos")),
        field("p", "timestamp_nanos"),
    ]
    features = ("timestampNanos", "timestampNtz")
    made = Rows(tmp_path / "t", fields, partition_columns=["p"], features=features)
    rows = {
        "id": [1, 2, 3],
        "ts": pa.array([123, -123, None], NANOS),
        "wall": pa.array([123, -123, None], pa.timestamp("ns")),
        "l": pa.array([[5], None, [None]], pa.list_(NANOS)),
    }
    low, high = "1969-12-31T23:59:59.999Z", "1970-01-01T00:00:00.000Z"
    stats = {"numRecords": 3, "minValues": {"ts": low}, "maxValues": {"ts": high}}
    action = {"stats": json.dumps({**stats, "nullCount": {"ts": 1}})}
    partition = {"p": "1970-01-01T00:00:00.123456789Z"}
    made.file("a.parquet", pa.table(rows), partition=partition, action=action)
    coarse = {"id": [4], "ts": pa.array([7], pa.timestamp("us", "UTC"))}
    return made.file("b.parquet", pa.table(coarse), partition={"p": None})


def test_nanoseconds_are_read_exactly(nanos):
    found = nanos.open().scan().to_arrow().sort_by("id")
    assert found["ts"].cast(pa.int64()).to_pylist() == [123, -123, None, 7000]
    assert found["wall"].cast(pa.int64()).to_pylist() == [123, -123, None, None]
    assert found["l"].combine_chunks().flatten().cast(pa.int64()).to_pylist() == [5, None]
    assert found["p"].cast(pa.int64()).to_pylist() == [123_456_789] * 3 + [None]
    assert found.schema.field("ts").type == NANOS
    assert found.schema.field("wall").type == pa.timestamp("ns")


@pytest.mark.parametrize(
    ("where", "ids"),
    [
        (f"ts = '{STRINGS[1]}'", [1]),
        (f"ts >= '{STRINGS[1]}'", [1, 4]),
        (f"wall <= '{STRINGS[2]}'", [2]),
        ("ts < timestamp '1970-01-01 00:00:00Z'", [2]),
        ("ts < timestamp '9999-01-01 00:00:00Z'", [1, 2, 4]),
        (f"ts in ('{STRINGS[2]}', '1970-01-01T00:00:00.000007Z')", [2, 4]),
        ("p = '1970-01-01T00:00:00.123456789Z'", [1, 2, 3]),
        ("p = '1970-01-01T00:00:00.123456Z'", []),
        ("ts is null or p is null", [3, 4]),
    ],
)
def test_nanoseconds_are_compared_exactly(nanos, where, ids):
    scan = nanos.open().scan(where)
    assert sorted(scan.to_arrow()["id"].to_pylist()) == ids
    again = nanos.open().scan(str(scan.predicate))
    assert again.count() == len(ids)


def test_min_max_of_nanoseconds(nanos):
    low, high = nanos.open().scan().min_max("ts")
    assert (low.value, high.value) == (-123, 7000)


def test_writes_to_a_table_with_nanoseconds_are_refused(nanos):
    with pytest.raises(errors.UnsupportedFeatureError, match="timestampNanos"):
        nanos.open().write(pa.table({"id": [5]}))
