"""Every Parquet encoding of a value: the same rows as DuckDB and deltalake.

DuckDB reads the data files, deltalake the table. Known differences are noted at their test.
"""

# ruff: noqa: DTZ001 - timestamps without a zone are tested

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lazydelta import Table
from tests.unit.scan.read.tables import Rows, entry, field, inline
from tests.unit.scan.read.tables import bitmap as payload_of

LONG_AGO, LATE = (
    datetime(1582, 10, 16, 1, 2, 3, 456_789),
    datetime(2999, 12, 31, 23, 59, 59, 999_999),
)
MOMENTS = [
    datetime(1970, 1, 1), datetime(1969, 12, 31, 23, 59, 59, 999_999), None, LONG_AGO, LATE,
    datetime(2024, 2, 29, 12, 30, 15, 123_456),
]  # fmt: skip
NEAR = [m for m in MOMENTS if m not in (LONG_AGO, LATE)]  # nanosecond timestamps end in 2262
WHOLE_MILLIS = [m and m.replace(microsecond=m.microsecond // 1000 * 1000) for m in MOMENTS]


def table_of(tmp_path, kind, data, **options):
    features = ("timestampNtz",) if kind == "timestamp_ntz" else ()
    made = Rows(tmp_path / "t", [field("k", "long"), field("x", kind)], features=features)
    whole = pa.table({"k": pa.array(range(len(data)), pa.int64()), "x": data})
    return made.file("a.parquet", whole, **options)


def shown(made):
    found = made.open().scan().to_arrow()
    found.validate(full=True)
    return found.sort_by("k")["x"].to_pylist()


def in_duckdb(made):
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect() as connection:
        query = f"select x from '{made.path}/a.parquet' order by k"
        return pa.table(connection.sql(query))["x"].to_pylist()


def in_deltalake(made):
    deltalake = pytest.importorskip("deltalake")
    query = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(str(made.path)))
    found = pa.table(query.execute("select x from t order by k").read_all())
    return found["x"].to_pylist()


# --- times ----------------------------------------------------------------------------------------

TIMES = [
    pytest.param("us", {}, MOMENTS, MOMENTS, id="microseconds"),
    pytest.param("ms", {}, WHOLE_MILLIS, WHOLE_MILLIS, id="milliseconds"),
    pytest.param("ns", {"version": "2.6"}, NEAR, NEAR, id="nanoseconds"),
    pytest.param("us", {"use_deprecated_int96_timestamps": True}, MOMENTS, MOMENTS, id="int96"),
]  # fmt: skip


@pytest.mark.parametrize("kind", ["timestamp", "timestamp_ntz"])
@pytest.mark.parametrize(("unit", "options", "written", "expected"), TIMES)
def test_timestamps_in_every_unit(tmp_path, kind, unit, options, written, expected):
    zone = "UTC" if kind == "timestamp" else None
    data = pa.array(written, pa.timestamp(unit, zone))
    made = table_of(tmp_path, kind, data, **options)
    if zone is not None:
        expected = [m and m.replace(tzinfo=UTC) for m in expected]
    found = shown(made)
    assert found == expected
    assert in_deltalake(made) == expected
    # INT96 has no zone: DuckDB reads a timestamp without zone.
    naive = [m and m.replace(tzinfo=None) for m in expected]
    assert [m and m.replace(tzinfo=None) for m in in_duckdb(made)] == naive


def test_nanoseconds_are_floored(tmp_path):
    """As in Spark; a cast would round timestamps before 1970 up."""
    data = pa.array([1_999, -1, -1_000, -1_001, None], pa.timestamp("ns"))
    found = shown(table_of(tmp_path, "timestamp_ntz", data))
    micros = [m and (m - datetime(1970, 1, 1)) // timedelta(microseconds=1) for m in found]
    assert micros == [1, -1, -1, -2, None]


# --- numbers --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("precision", "scale", "as_integer", "physical"),
    [
        pytest.param(9, 2, True, "INT32", id="int32"),
        pytest.param(18, 4, True, "INT64", id="int64"),
        pytest.param(9, 2, False, "FIXED_LEN_BYTE_ARRAY", id="fixed-4-bytes"),
        pytest.param(20, 0, False, "FIXED_LEN_BYTE_ARRAY", id="fixed-9-bytes"),
        pytest.param(38, 18, False, "FIXED_LEN_BYTE_ARRAY", id="fixed-16-bytes"),
    ],
)
def test_decimals_in_every_encoding(tmp_path, precision, scale, as_integer, physical):
    # From a string: decimal arithmetic would round to 28 digits.
    most = Decimal((0, (9,) * precision, -scale))
    least = most.copy_negate()
    values = [most, least, Decimal(0), None, Decimal(1).scaleb(-scale), Decimal(-1)]
    data = pa.array(values, pa.decimal128(precision, scale))
    kind = f"decimal({precision},{scale})"
    made = table_of(tmp_path, kind, data, store_decimal_as_integer=as_integer)
    assert pq.ParquetFile(made.path / "a.parquet").schema.column(1).physical_type == physical
    assert shown(made) == values
    assert in_deltalake(made) == values
    assert in_duckdb(made) == values
    found = made.open().scan(f"x <= {least}").to_arrow()
    assert found["x"].to_pylist() == [least]  # the bounds in the footer have the same encoding


INTEGERS = pa.array([0, -1, None, 2**31 - 1, -(2**31), 7] * 50, pa.int32())
STRINGS = pa.array(["", "a", None, "é" * 40, "prefix 1", "prefix 2"] * 50)
FLOATS = pa.array([0.0, -0.0, None, 1e308, 5e-324, float("inf")] * 50)


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("codec", ["none", "snappy", "gzip", "zstd", "lz4", "brotli"])
@pytest.mark.parametrize(
    ("kind", "data", "encoding"),
    [
        pytest.param("integer", INTEGERS, "PLAIN", id="plain"),
        pytest.param("integer", INTEGERS, "DELTA_BINARY_PACKED", id="delta"),
        pytest.param("integer", INTEGERS, None, id="dictionary"),
        pytest.param("string", STRINGS, "DELTA_BYTE_ARRAY", id="delta-byte-array"),
        pytest.param("string", STRINGS, "DELTA_LENGTH_BYTE_ARRAY", id="delta-length-byte-array"),
        pytest.param("string", STRINGS, None, id="dictionary-of-strings"),
        pytest.param("double", FLOATS, "BYTE_STREAM_SPLIT", id="byte-stream-split"),
    ],
)
def test_encodings_and_codecs(tmp_path, version, codec, kind, data, encoding):
    chosen = {"use_dictionary": True} if encoding is None else {
        "use_dictionary": False, "column_encoding": {"k": "PLAIN", "x": encoding},
    }  # fmt: skip
    made = table_of(
        tmp_path, kind, data, compression=codec, data_page_version=version, data_page_size=64,
        row_group_size=70, **chosen,
    )  # fmt: skip
    assert shown(made) == data.to_pylist()
    assert in_duckdb(made) == data.to_pylist()


# --- what holds other values ------------------------------------------------------------------------

DEEP = {
    "type": "array",
    "containsNull": True,
    "elementType": {
        "type": "map",
        "keyType": "string",
        "valueContainsNull": True,
        "valueType": {
            "type": "struct",
            "fields": [
                field("l", {"type": "array", "elementType": "decimal(9,2)", "containsNull": True}),
                field("t", "timestamp"),
            ],
        },
    },
}
INNER = pa.struct([("l", pa.list_(pa.decimal128(9, 2))), ("t", pa.timestamp("us", "UTC"))])
NESTED = [
    [[("a", {"l": [Decimal("1.50"), None], "t": LATE.replace(tzinfo=UTC)})], None, []],
    [],
    None,
    [[("b", None), ("c", {"l": None, "t": None})]],
    [[("d", {"l": [], "t": None})]] * 2,
]


@pytest.mark.parametrize("compliant", [True, False], ids=["element", "item"])
@pytest.mark.parametrize("stored", [True, False], ids=["arrow-schema", "parquet-alone"])
@pytest.mark.parametrize("large", [True, False], ids=["large-lists", "lists"])
def test_lists_of_maps_of_structs_of_lists(tmp_path, compliant, stored, large):
    outer = pa.large_list if large else pa.list_
    data = pa.array(NESTED, outer(pa.map_(pa.string(), INNER)))
    made = table_of(
        tmp_path, DEEP, data, use_compliant_nested_type=compliant, store_schema=stored,
        row_group_size=2,
    )  # fmt: skip
    assert shown(made) == NESTED
    assert in_deltalake(made) == NESTED
    assert in_duckdb(made) == NESTED


# --- partition values -------------------------------------------------------------------------------

VALUES = [
    ("string", "a/b=c?d&e%41 +é\u00a0🦆", "a/b=c?d&e%41 +é\u00a0🦆"),
    ("string", "__HIVE_DEFAULT_PARTITION__", "__HIVE_DEFAULT_PARTITION__"),
    ("string", "", None),
    ("string", None, None),
    ("string", "..", ".."),
    ("string", "x" * 4096, "x" * 4096),
    ("binary", "\u0000\u0001a", b"\x00\x01a"),
    ("byte", "-128", -128),
    ("long", "-9223372036854775808", -(2**63)),
    ("float", "1.5", 1.5),
    ("double", "-Infinity", float("-inf")),
    ("double", "1e308", 1e308),
    ("boolean", "true", True),
    ("decimal(38,0)", "9" * 38, Decimal("9" * 38)),
    ("date", "0001-01-01", date(1, 1, 1)),
    ("date", "9999-12-31", date(9999, 12, 31)),
    ("timestamp", "2024-02-29 12:30:00", datetime(2024, 2, 29, 12, 30, tzinfo=UTC)),
    ("timestamp", "2024-02-29T12:30:00.000001Z", datetime(2024, 2, 29, 12, 30, 0, 1, UTC)),
    ("timestamp_ntz", "1969-12-31 23:59:59.999999", datetime(1969, 12, 31, 23, 59, 59, 999_999)),
]


@pytest.mark.parametrize(
    ("kind", "text", "value"), VALUES, ids=[f"{k}-{t!r:.30}" for k, t, _ in VALUES]
)
def test_special_partition_values(tmp_path, kind, text, value):
    """An empty string is NULL in the protocol; deltalake 1.6 returns an empty string."""
    features = ("timestampNtz",) if kind == "timestamp_ntz" else ()
    made = Rows(
        tmp_path / "t", [field("k", "long"), field("x", kind)], partition_columns=["x"],
        features=features,
    )  # fmt: skip
    made.file("a.parquet", pa.table({"k": [0]}), partition={"x": text})
    assert shown(made) == [value]
    assert in_deltalake(made) == [value if text != "" else ""]
    assert made.open().scan("x is null").count() == (value is None)


PATHS = ["a b", "a%20b", "100%", "é", "a+b", "x=1/y=2/p", "#hash", "q?x=1", "[1]", "~", "a:b", "🦆"]


@pytest.mark.parametrize("path", PATHS)
def test_paths_with_escapes(tmp_path, path):
    made = Rows(tmp_path / "t", [field("k", "long"), field("x", "long")])
    made.file(path, pa.table({"k": [0], "x": [1]}), action={"path": quote(path)})
    assert shown(made) == [1]
    assert in_deltalake(made) == [1]


# --- vectors ----------------------------------------------------------------------------------------


def absolute(made, rows):
    data = b"\x01" + entry(payload_of(rows))
    (made.path / "v e c.bin").write_bytes(data)
    return {
        "storageType": "p", "pathOrInlineDv": f"file://{made.path}/v%20e%20c.bin", "offset": 1,
        "sizeInBytes": len(payload_of(rows)), "cardinality": len(rows),
    }  # fmt: skip


VECTORS = {
    "inline": lambda _, rows: inline(rows),
    "relative": lambda made, rows: made.vectors(rows)[0],
    "relative-with-a-prefix": lambda made, rows: made.vectors(rows, prefix="pre")[0],
    "second-in-its-file": lambda made, rows: made.vectors([1, 2, 3], rows)[1],
    "absolute": absolute,
}


@pytest.mark.parametrize("storage", sorted(VECTORS))
@pytest.mark.parametrize("rows", [[0], [4], [0, 1, 2, 3, 4], [1, 3]], ids=str)
def test_deletion_vectors_in_every_storage_type(tmp_path, storage, rows):
    made = Rows(
        tmp_path / "t", [field("k", "long"), field("x", "long")], features=("deletionVectors",)
    )
    data = pa.table({"k": range(5), "x": range(5)})
    made.file("a.parquet", data, row_group_size=2, vector=VECTORS[storage](made, rows))
    left = [x for x in range(5) if x not in rows]
    assert shown(made) == left
    assert in_deltalake(made) == left
    assert Table.open(made.path).scan("x >= 3").to_arrow()["x"].to_pylist() == [
        x for x in left if x >= 3
    ]
