from __future__ import annotations

import pyarrow as pa
import pytest

from lazydelta.errors import SchemaError
from lazydelta.schema import (
    ArrayType,
    DecimalType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
    to_arrow_schema,
    to_arrow_type,
)
from lazydelta.schema.values import build_array


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("byte", pa.int8()),
        ("short", pa.int16()),
        ("integer", pa.int32()),
        ("long", pa.int64()),
        ("float", pa.float32()),
        ("double", pa.float64()),
        ("boolean", pa.bool_()),
        ("string", pa.string()),
        ("binary", pa.binary()),
        ("date", pa.date32()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("timestamp_ntz", pa.timestamp("us")),
        ("timestamp_nanos", pa.timestamp("ns", "UTC")),
        ("timestamp_nanos_ntz", pa.timestamp("ns")),
        ("void", pa.null()),
        ("char(3)", pa.string()),
        ("varchar(3)", pa.string()),
    ],
)
def test_primitive_types(name, expected):
    assert to_arrow_type(PrimitiveType(name)) == expected


def test_nested_types_keep_their_nullability():
    element = ArrayType(PrimitiveType("long"), contains_null=False)
    kind = StructType(
        (StructField("m", MapType(PrimitiveType("string"), element), nullable=False),)
    )
    arrow = to_arrow_type(kind)
    assert not arrow.field("m").nullable
    assert not arrow.field("m").type.item_type.value_field.nullable
    assert to_arrow_type(PrimitiveType("variant")).field("value").type == pa.binary()
    assert to_arrow_type(DecimalType(20, 3)) == pa.decimal128(20, 3)


def test_an_unknown_type_has_no_arrow_type():
    schema = StructType((StructField("place", PrimitiveType("geometry(OGC:CRS84)")),))
    with pytest.raises(SchemaError, match=r"column 'place'.*geometry"):
        to_arrow_schema(schema)


def test_field_ids_are_added_on_request():
    inner = StructField("k", PrimitiveType("long"), metadata={"delta.columnMapping.id": 8})
    schema = StructType(
        (StructField("s", StructType((inner,)), metadata={"delta.columnMapping.id": 7}),)
    )
    arrow = to_arrow_schema(schema, field_ids=True)
    assert arrow.field("s").metadata == {b"PARQUET:field_id": b"7"}
    assert arrow.field("s").type.field("k").metadata == {b"PARQUET:field_id": b"8"}
    assert to_arrow_schema(schema).field("s").metadata is None


@pytest.mark.parametrize(
    ("kind", "values", "expected"),
    [
        ("long", [1, None, -(2**63)], pa.array([1, None, -(2**63)], pa.int64())),
        ("boolean", [True, None, False], pa.array([True, None, False])),
        ("string", ["é", None, ""], pa.array(["é", None, ""])),
        ("binary", [b"\0", None], pa.array([b"\0", None])),
        ("float", [1e300, None, 0.1], pa.array([float("inf"), None, 0.1], pa.float32())),
        ("date", [0, None], pa.array([0, None], pa.int32()).view(pa.date32())),
    ],
)
def test_build_array_equals_pa_array(kind, values, expected):
    built = build_array(values, PrimitiveType(kind))
    built.validate(full=True)
    assert built.equals(expected)
