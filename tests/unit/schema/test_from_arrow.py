"""Conversion of Arrow types to Delta types."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lazydelta._arrow import unencoded_type
from lazydelta.errors import SchemaError
from lazydelta.schema import from_arrow_schema, from_arrow_type, to_arrow_schema

VARIANT = pa.struct(
    [
        pa.field("metadata", pa.binary(), nullable=False),
        pa.field("value", pa.binary(), nullable=False),
    ]
)
TYPES = [
    (pa.bool_(), "boolean"),
    (pa.int8(), "byte"),
    (pa.int16(), "short"),
    (pa.int32(), "integer"),
    (pa.int64(), "long"),
    (pa.uint8(), "short"),
    (pa.uint16(), "integer"),
    (pa.uint32(), "long"),
    (pa.uint64(), "decimal(20,0)"),
    (pa.float16(), "float"),
    (pa.float32(), "float"),
    (pa.float64(), "double"),
    (pa.string(), "string"),
    (pa.large_string(), "string"),
    (pa.string_view(), "string"),
    (pa.binary(), "binary"),
    (pa.large_binary(), "binary"),
    (pa.binary_view(), "binary"),
    (pa.binary(3), "binary"),
    (pa.date32(), "date"),
    (pa.date64(), "date"),
    *[(pa.timestamp(unit), "timestamp_ntz") for unit in ("s", "ms", "us", "ns")],
    *[(pa.timestamp(unit, "Europe/Berlin"), "timestamp") for unit in ("s", "ms", "us", "ns")],
    (pa.decimal128(38, 38), "decimal(38,38)"),
    (pa.decimal256(10, 2), "decimal(10,2)"),
    (pa.decimal128(5, -2), "decimal(7,0)"),
    (pa.null(), "void"),
    (pa.dictionary(pa.int8(), pa.string()), "string"),
    (pa.dictionary(pa.int32(), pa.large_binary()), "binary"),
    (pa.run_end_encoded(pa.int32(), pa.int64()), "long"),
    (pa.list_(pa.int32()), "array<integer>"),
    (pa.large_list(pa.string_view()), "array<string>"),
    (pa.list_(pa.int8(), 3), "array<byte>"),
    (pa.list_view(pa.int8()), "array<byte>"),
    (pa.large_list_view(pa.date64()), "array<date>"),
    (pa.map_(pa.string(), pa.dictionary(pa.int8(), pa.string())), "map<string,string>"),
    (pa.struct([("a", pa.uint8()), ("b", pa.list_(pa.bool_()))]), None),
    (pa.uuid(), "binary"),
    (pa.json_(), "string"),
    (VARIANT, "variant"),
]
REFUSED = [
    (pa.time32("s"), "cast it to a string"),
    (pa.time64("us"), "cast it to a string"),
    (pa.duration("s"), "cast it to int64"),
    (pa.month_day_nano_interval(), "integer columns"),
    (pa.dense_union([pa.field("a", pa.int8())]), "one column per type"),
    (pa.decimal256(39, 0), "38 digits"),
    (pa.decimal128(38, -1), "38 digits"),
    (pa.opaque(pa.binary(), "geometry", "postgis"), "storage type"),
]


@pytest.mark.parametrize(("arrow", "delta"), TYPES, ids=[str(kind) for kind, _ in TYPES])
def test_delta_type_of_each_arrow_type(arrow, delta):
    expected = "struct<a: short, b: array<boolean>>" if delta is None else delta
    assert str(from_arrow_type(arrow)) == expected


@pytest.mark.parametrize(("arrow", "cure"), REFUSED, ids=[str(kind) for kind, _ in REFUSED])
def test_a_type_without_a_delta_equivalent_is_refused_with_its_column(arrow, cure):
    schema = pa.schema([("outer", pa.struct([("inner", pa.list_(arrow))]))])
    with pytest.raises(SchemaError, match=r"outer\.inner\.element") as refused:
        from_arrow_schema(schema)
    assert cure in str(refused.value)


@pytest.mark.parametrize(
    ("names", "reason"),
    [(["a", "b", "A"], "collide"), (["a", "a"], "collide"), (["a", ""], "no name")],
)
def test_ambiguous_or_empty_names_are_refused_at_any_depth(names, reason):
    fields = [pa.field(name, pa.int8()) for name in names]
    for schema in (pa.schema(fields), pa.schema([("s", pa.list_(pa.struct(fields)))])):
        with pytest.raises(SchemaError, match=reason):
            from_arrow_schema(schema)


def test_nullability_is_preserved():
    inner = pa.struct([pa.field("k", pa.int32(), nullable=False)])
    schema = pa.schema(
        [
            pa.field("id", pa.int64(), nullable=False),
            pa.field("list", pa.list_(pa.field("element", inner, nullable=False))),
            pa.field("map", pa.map_(pa.string(), pa.field("value", pa.int8(), nullable=False))),
        ]
    )
    assert to_arrow_schema(from_arrow_schema(schema)) == schema


def test_unencoded_type():
    encoded = pa.dictionary(pa.int8(), pa.dictionary(pa.int8(), pa.string()))
    assert unencoded_type(encoded) == pa.string()
    assert unencoded_type(pa.uuid()) == pa.binary(16)


def test_field_metadata_is_kept_at_every_depth():
    inner = pa.field("b", pa.int64(), metadata={"comment": "inside"})
    given = pa.schema(
        [
            pa.field("a", pa.struct([inner]), metadata={"comment": "the struct", "mine": "x"}),
            pa.field("l", pa.list_(pa.struct([inner]))),
            pa.field("y", pa.int32(), metadata={"delta.generationExpression": "a.b + 1"}),
            pa.field("plain", pa.int32()),
        ]
    )
    a, listed, y, plain = from_arrow_schema(given)
    assert a.metadata == {"comment": "the struct", "mine": "x"}
    assert a.type.fields[0].metadata == {"comment": "inside"}
    assert listed.type.element.fields[0].metadata == {"comment": "inside"}
    assert y.metadata == {"delta.generationExpression": "a.b + 1"}
    assert plain.metadata == {}


@pytest.mark.parametrize(
    "key",
    [
        "PARQUET:field_id",
        "ARROW:extension:metadata",
        "delta.columnMapping.id",
        "delta.columnMapping.physicalName",
        "delta.typeChanges",
        b"\xff",
    ],
)
def test_field_metadata_of_other_files_is_dropped(key):
    given = pa.field("a", pa.int64(), metadata={key: "7", "comment": "c"})
    assert from_arrow_schema(pa.schema([given])).fields[0].metadata == {"comment": "c"}
