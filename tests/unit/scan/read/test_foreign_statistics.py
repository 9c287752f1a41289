"""Statistics of other writers that are easily misread: no row may be lost."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lazydelta import col
from lazydelta.errors import SchemaError
from tests.unit.scan.read.tables import Rows, field


def stats_of(name, low, high, rows=1):
    bounds = {"minValues": {name: low}, "maxValues": {name: high}, "nullCount": {name: 0}}
    return {"stats": json.dumps({"numRecords": rows, **bounds})}


def check(table, where, expected):
    """Compare rows, count and files of a scan."""
    scan = table.scan(where)
    assert scan.to_arrow().num_rows == expected, where
    assert scan.count() == expected, where
    if expected:
        assert len(list(scan.files())) >= 1, where


# --- strings

BEYOND = "\U00020bb7野家"
"""Begins with a character of plane 2; JSON may write it as two escapes."""


def test_statistics_with_escaped_surrogate_pairs(tmp_path):
    made = Rows(tmp_path / "t", [field("s", "string")])
    made.file("a.parquet", pa.table({"s": [BEYOND]}), action=stats_of("s", BEYOND, BEYOND))
    table = made.open()
    assert rb"\\ud842\\udfb7" in (made.path / "_delta_log" / f"{0:020}.json").read_bytes()
    check(table, col("s") == BEYOND, 1)
    check(table, col("s") >= BEYOND, 1)
    check(table, col("s") == "\U00010bb7野家", 0)
    check(table, col("s") != "\U00010bb7野家", 1)
    table.checkpoint()
    adds = pq.read_table(next((made.path / "_delta_log").glob("*.checkpoint.parquet")))["add"]
    known = [add["stats_parsed"]["maxValues"]["s"] for add in adds.to_pylist() if add]
    assert known == [BEYOND]


def test_a_maximum_truncated_with_a_tie_breaker(tmp_path):
    value = "a" * 32 + "\U0001f600"
    made = Rows(tmp_path / "t", [field("s", "string")])
    action = stats_of("s", "a" * 32, "a" * 32 + "\ufffd")
    made.file("a.parquet", pa.table({"s": [value]}), action=action)
    made.file("b.parquet", pa.table({"s": ["a" * 33]}), action=stats_of("s", "a" * 33, "a" * 33))
    table = made.open()
    check(table, col("s") == value, 1)
    assert table.scan().min_max("s").max == value
    table.checkpoint()
    check(made.open(), col("s") == value, 1)


def test_bounds_in_another_sort_order_are_ignored(tmp_path):
    """A writer that orders strings by UTF-16 code units: its minimum is our maximum."""
    low, high = "\U00010000", "\uffff"
    made = Rows(tmp_path / "t", [field("s", "string")])
    made.file("a.parquet", pa.table({"s": [low, high]}), action=stats_of("s", low, high, 2))
    for table in (made.open(), made.open()):
        check(table, col("s") == low, 1)
        check(table, col("s") == high, 1)
        check(table, col("s") > "a", 2)
        table.checkpoint()


# --- numbers


@pytest.mark.parametrize("text", ["{}.0", "{}e0", '"{}"', "1.000000000000000001e18"])
@pytest.mark.parametrize("odd", ["", ',"more":[1]'])
def test_integers_beyond_double_precision(tmp_path, text, odd):
    value = 10**18 + 1
    written = text.format(value)
    bounds = f'"minValues":{{"a":{written}}},"maxValues":{{"a":{written}}}'
    stats = f'{{"numRecords":1,{bounds},"nullCount":{{"a":0}}{odd}}}'
    made = Rows(tmp_path / "t", [field("a", "long")])
    made.file("a.parquet", pa.table({"a": [value]}), action={"stats": stats})
    table = made.open()
    check(table, f"a = {value}", 1)
    check(table, f"a = {10**18}", 0)
    assert table.scan().min_max("a").max == value


ODD_TEXTS = ["x", 'x"']
"""Statistics with an escape are read in another way than those without."""


@pytest.mark.parametrize("odd", ODD_TEXTS)
@pytest.mark.parametrize(
    ("kind", "arrow", "value", "written"),
    [
        ("decimal(5,2)", pa.decimal128(5, 2), Decimal("0.58"), "0.5799999999999999"),
        ("decimal(5,2)", pa.decimal128(5, 2), Decimal("0.58"), "0.58"),
        ("decimal(38,10)", pa.decimal128(38, 10), Decimal("1234567890123.0123456789"), "1234567890123.0123456789"),
        ("long", pa.int64(), 12345678901234567, "12345678.901234567e9"),
        ("long", pa.int64(), -(2**63), str(-(2**63))),
        ("integer", pa.int32(), 7, "7.0"),
        ("timestamp_ntz", pa.timestamp("us"), datetime(2020, 1, 1), '"2020-01-01T00:00:00.000+05:30"'),  # noqa: DTZ001
        ("date", pa.date32(), date(2020, 1, 1), '"2020-01-01"'),
        ("double", pa.float64(), 0.1, "0.1"),
        ("float", pa.float32(), 0.5, "5e-1"),
    ],
)  # fmt: skip
def test_numbers_and_timestamps_keep_their_precision(tmp_path, odd, kind, arrow, value, written):
    fields = [field("a", kind), field("s", "string")]
    features = ("timestampNtz",) if kind == "timestamp_ntz" else ()
    made = Rows(tmp_path / "t", fields, features=features)
    text = json.dumps(odd)
    stats = (
        f'{{"numRecords":1,"minValues":{{"s":{text},"a":{written}}},'
        f'"maxValues":{{"s":{text},"a":{written}}},"nullCount":{{"s":0,"a":0}}}}'
    )
    rows = pa.table({"a": pa.array([value], arrow), "s": [odd]})
    made.file("a.parquet", rows, action={"stats": stats})
    table = made.open()
    check(table, col("a") == value, 1)
    check(table, col("a") < value, 0)
    assert table.scan().min_max("a").max == value


def test_decimal_bounds_stay_within_their_type(tmp_path):
    top = 10**18 - 1
    made = Rows(tmp_path / "t", [field("a", "decimal(18,0)"), field("b", "decimal(5,2)")])
    for name, value in (("a", top), ("b", -top)):
        rows = {"a": pa.array([Decimal(value)], pa.decimal128(18, 0))}
        rows["b"] = pa.array([Decimal(1)], pa.decimal128(5, 2))
        made.file(f"{name}.parquet", pa.table(rows), action=stats_of("a", value, value))
    table = made.open()
    for where in ("a > b", "b < a", "cast(a as decimal(20,2)) > 5", "a + 1 > b"):
        check(table, where, 1)
    assert table.scan("a != b").count() == 2


@pytest.mark.parametrize("checkpointed", [False, True])
def test_float_statistics_after_widening_to_double(tmp_path, checkpointed):
    changes = [{"fromType": "float", "toType": "double"}]
    wider = field("x", "double") | {"metadata": {"delta.typeChanges": changes}}
    made = Rows(tmp_path / "t", [wider], features=("typeWidening",))
    rows = pa.table({"x": pa.array([0.7], pa.float32())})
    made.file("a.parquet", rows, action=stats_of("x", 0.7, 0.7))
    table = made.open()
    if checkpointed:
        table.checkpoint()
    value = float(np.float32(0.7))
    assert value < 0.7
    check(table, col("x") < 0.7, 1)
    check(table, col("x") == value, 1)
    check(table, (col("x") >= 0.5) & (col("x") < 0.7), 1)
    check(table, col("x") >= 0.7, 0)
    check(table, col("x") > 0.75, 0)


# --- typed partition values in checkpoints


def with_typed_partition(path, name, kind, text, typed):
    """Make a table of one row with a typed partition value in its checkpoint, without commits."""
    made = Rows(path, [field("id", "long"), field(name, kind)], partition_columns=[name])
    made.file("a.parquet", pa.table({"id": [1]}), partition={name: text})
    made.commit()
    log = made.path / "_delta_log"
    commit = log / f"{0:020}.json"
    actions = [json.loads(line) for line in commit.read_text().splitlines()]
    merged = dict(chain.from_iterable(action.items() for action in actions))
    add = merged["add"] | {"partitionValues": list(merged["add"]["partitionValues"].items())}
    add["partitionValues_parsed"] = {name: typed.as_py()}
    metadata = merged["metaData"]
    metadata["format"] = {"provider": "parquet"}
    metadata["configuration"] = list(metadata["configuration"].items())
    string_map = pa.map_(pa.string(), pa.string())
    strings = pa.list_(pa.string())
    schema = pa.schema(
        [
            ("protocol", pa.struct([("minReaderVersion", pa.int32()), ("minWriterVersion", pa.int32()), ("readerFeatures", strings), ("writerFeatures", strings)])),
            ("metaData", pa.struct([("id", pa.string()), ("format", pa.struct([("provider", pa.string())])), ("schemaString", pa.string()), ("partitionColumns", strings), ("configuration", string_map)])),
            ("add", pa.struct([("path", pa.string()), ("partitionValues", string_map), ("size", pa.int64()), ("modificationTime", pa.int64()), ("dataChange", pa.bool_()), ("partitionValues_parsed", pa.struct([(name, typed.type)]))])),
        ]
    )  # fmt: skip
    lines = [{"protocol": merged["protocol"]}, {"metaData": metadata}, {"add": add}]
    checkpoint = pa.Table.from_pylist(lines, schema=schema)
    pq.write_table(checkpoint, log / f"{0:020}.checkpoint.parquet")
    commit.unlink()
    return made


@pytest.mark.parametrize("strategy", ["reverse", "forward"])
def test_a_timestamp_without_zone_is_the_serialized_value(tmp_path, strategy):
    """A writer in Los Angeles serialized 00:00 and typed 08:00 UTC; the serialized value counts."""
    typed = pa.scalar(datetime(2020, 1, 1, 8, tzinfo=UTC), pa.timestamp("us", "UTC"))
    made = with_typed_partition(tmp_path / "t", "ts", "timestamp", "2020-01-01 00:00:00", typed)
    table = made.open()
    shown = table.scan().to_arrow()["ts"][0].as_py()
    assert shown == datetime(2020, 1, 1, tzinfo=UTC)
    for hour, expected in ((0, 1), (8, 0)):
        where = f"ts = '2020-01-01T{hour:02}:00:00Z'"
        assert table.scan(where, strategy=strategy).to_arrow().num_rows == expected
        check(table, where, expected)


def test_a_float_partition_widened_to_double(tmp_path):
    typed = pa.scalar(0.1, pa.float32())
    made = with_typed_partition(tmp_path / "t", "p", "float", "0.1", typed)
    changes = [{"fromType": "float", "toType": "double"}]
    wider = field("p", "double") | {"metadata": {"delta.typeChanges": changes}}
    schema = json.dumps({"type": "struct", "fields": [field("id", "long"), wider]})
    features = {"readerFeatures": ["typeWidening"], "writerFeatures": ["typeWidening"]}
    made.actions = [
        {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **features}},
        {"metaData": {"id": "t", "format": {"provider": "parquet"}, "schemaString": schema,
                      "partitionColumns": ["p"], "configuration": {}}},
    ]  # fmt: skip
    table = made.open()
    assert table.scan().to_arrow()["p"].to_pylist() == [0.1]
    check(table, "p = 0.1", 1)
    check(table, "p <= 0.1", 1)
    check(table, "p < 0.1", 0)


@pytest.mark.parametrize("strategy", ["reverse", "forward"])
def test_a_typed_empty_string_is_null(tmp_path, strategy):
    made = with_typed_partition(tmp_path / "t", "p", "string", "", pa.scalar(""))
    table = made.open()
    assert table.scan().to_arrow()["p"].to_pylist() == [None]
    for where in ("p is null", "p <=> null", "not (p is not null)"):
        assert table.scan(where, strategy=strategy).to_arrow().num_rows == 1
        check(table, where, 1)
    check(table, "p is not null", 0)
    check(table, "p = ''", 0)


# --- partition columns generated in an unknown zone

DAY = pa.array([date(2020, 1, 15)])
INSTANT = pa.array([datetime(2020, 1, 15, 5, tzinfo=UTC)], pa.timestamp("us", "UTC"))
LOCAL = pa.array([datetime(2020, 1, 15, 5)], pa.timestamp("us"))  # noqa: DTZ001


@pytest.mark.parametrize(
    ("kind", "expression", "source", "partition", "where"),
    [
        ("date", "date_trunc('MONTH', s)", DAY, "2020-01-01T08:00:00Z", "s = date '2020-01-15'"),
        ("date", "date_trunc('MONTH', s)", DAY, "2020-01-01T08:00:00Z", "s <= date '2020-01-15'"),
        ("date", "date_trunc('MONTH', s)", DAY, "2019-12-31T15:00:00Z", "s >= date '2020-01-15'"),
        ("date", "CAST(s AS TIMESTAMP)", DAY, "2020-01-14T15:00:00Z", "s >= date '2020-01-15'"),
        ("timestamp", "date_trunc('MONTH', s)", INSTANT, "2020-01-01T08:00:00Z",
         "s = timestamp '2020-01-15 05:00:00Z'"),
        ("timestamp", "date_trunc('DAY', s)", INSTANT, "2020-01-14T15:00:00Z",
         "s >= timestamp '2020-01-15 05:00:00Z'"),
        ("timestamp_ntz", "date_trunc('DAY', s)", LOCAL, "2020-01-15T08:00:00Z",
         "s = timestamp_ntz '2020-01-15 05:00:00'"),
        ("string", "CAST(s AS TIMESTAMP)", pa.array(["2020-01-01 20:00:00"]),
         "2020-01-02T04:00:00Z", "s = '2020-01-01 20:00:00'"),
        ("string", "CAST(CAST(s AS TIMESTAMP) AS DATE)", pa.array(["2020-01-01T20:00:00-08:00"]),
         "2020-01-01", "s = '2020-01-01T20:00:00-08:00'"),
    ],
)  # fmt: skip
def test_a_column_generated_in_the_zone_of_its_writer(
    tmp_path, kind, expression, source, partition, where
):
    made_of = {"delta.generationExpression": expression}
    generated = field("g", "timestamp" if "Z" in partition else "date") | {"metadata": made_of}
    features = ("timestampNtz",) if kind == "timestamp_ntz" else ()
    made = Rows(
        tmp_path / "t", [field("s", kind), generated], partition_columns=["g"], features=features
    )
    protocol = made.actions[0]["protocol"]
    if features:
        protocol["writerFeatures"].append("generatedColumns")
    else:
        protocol["minWriterVersion"] = 4
    made.file("a.parquet", pa.table({"s": source}), partition={"g": partition})
    check(made.open(), where, 1)


def test_partitions_far_from_a_date_are_pruned(tmp_path):
    made_of = {"delta.generationExpression": "date_trunc('MONTH', s)"}
    generated = field("g", "timestamp") | {"metadata": made_of}
    made = Rows(tmp_path / "t", [field("s", "date"), generated], partition_columns=["g"])
    made.actions[0]["protocol"]["minWriterVersion"] = 4
    for month in range(1, 7):
        rows = pa.table({"s": [date(2020, month, 15)]})
        made.file(f"{month}.parquet", rows, partition={"g": f"2020-{month:02}-01T08:00:00Z"})
    assert len(list(made.open().scan("s = date '2020-03-15'").files())) == 1


# --- columns without an order, and properties that are not strings


def test_min_max_of_types_without_an_order(tmp_path):
    fields = [field("id", "long"), field("n", "void"), field("v", "variant")]
    made = Rows(tmp_path / "t", fields, features=("variantType",))
    made.file("a.parquet", pa.table({"id": [1]}))
    scan = made.open().scan()
    assert list(scan.min_max("n")) == [None, None]
    with pytest.raises(SchemaError, match="no order"):
        scan.min_max("v")


def test_properties_that_are_numbers_or_booleans(tmp_path):
    settings = {"delta.checkpointInterval": 7, "delta.appendOnly": True, "mine": 1.5}
    made = Rows(tmp_path / "t", [field("id", "long")])
    metadata = made.actions[1]["metaData"]
    metadata["configuration"], metadata["createdTime"] = settings, 1587968586000.0
    made.file("a.parquet", pa.table({"id": [1]}))
    snapshot = made.open().snapshot()
    assert snapshot.metadata.configuration == {
        "delta.checkpointInterval": "7", "delta.appendOnly": "true", "mine": "1.5",
    }  # fmt: skip
    assert snapshot.metadata.created_time == 1587968586000
    assert snapshot.scan().to_arrow().num_rows == 1
