from __future__ import annotations

import json

import pytest

from lazydelta.errors import ColumnNotFoundError, SchemaError
from lazydelta.schema import (
    ArrayType,
    DecimalType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
    parse_schema,
    schema_to_json,
)


def struct(*fields):
    return {"type": "struct", "fields": list(fields)}


def field(name, kind, **options):
    return {"name": name, "type": kind, "nullable": True, "metadata": {}, **options}


def parse(raw):
    return parse_schema(json.dumps(raw), where="trips")


def nested(depth):
    kind = "long"
    for _ in range(depth):
        kind = struct(field("a", kind))
    return kind


@pytest.mark.parametrize(
    "name",
    [
        "long",
        "timestamp_ntz",
        "void",
        "variant",
        "geometry(OGC:CRS84)",
        "char(3)",
        "varchar(9)",
        "a_type_of_tomorrow",
    ],
)
def test_type_names_are_preserved_even_if_unknown(name):
    assert parse(struct(field("x", name))).fields[0].type == PrimitiveType(name)


def test_round_trip():
    raw = struct(
        field("id", "long", nullable=False, metadata={"delta.columnMapping.id": 1, "odd": [1]}),
        field("price", "decimal(10,2)"),
        field("tags", {"type": "array", "elementType": "string", "containsNull": False}),
        field(
            "by",
            {
                "type": "map",
                "keyType": "string",
                "valueType": struct(field("v", "date")),
                "valueContainsNull": True,
            },
        ),
    )
    schema = parse(raw)
    assert json.loads(schema_to_json(schema)) == raw
    assert schema.fields[1].type == DecimalType(10, 2)
    assert schema.fields[2].type == ArrayType(PrimitiveType("string"), contains_null=False)
    assert isinstance(schema.fields[3].type, MapType)


def test_variant_may_be_written_as_an_object():
    assert parse(struct(field("v", {"type": "variant"}))).fields[0].type == PrimitiveType("variant")


def test_a_user_defined_type_is_read_as_its_sql_type():
    kind = {"type": "udt", "class": "x", "sqlType": struct(field("v", "double"))}
    assert parse(struct(field("u", kind))).fields[0].type == StructType(
        (StructField("v", PrimitiveType("double")),)
    )


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        pytest.param("long", "must be a struct", id="not-a-struct"),
        pytest.param(struct(field("a", "long"), field("A", "long")), "collide", id="same-name"),
        pytest.param(struct(field("a", "long"), field("a", "long")), "collide", id="twice"),
        pytest.param(struct({"type": "long"}), "needs a name", id="no-name"),
        pytest.param(
            struct(field("a", {"type": "tuple", "of": 1})), "unknown type", id="unknown-type"
        ),
        pytest.param(
            struct(field("a", {"type": "array"})), "lacks 'elementType'", id="incomplete-type"
        ),
        pytest.param(struct(field("a", 7)), "a name or an object", id="number-as-type"),
        pytest.param(struct(field("a", "decimal(39,0)")), "out of range", id="wide-decimal"),
        pytest.param(struct(field("a", "decimal(x)")), "not a decimal", id="invalid-decimal"),
        pytest.param({"type": "struct", "fields": 5}, "must be a list", id="fields-not-a-list"),
        pytest.param(struct(field("a", "long", metadata=[1])), "metadata", id="invalid-metadata"),
        pytest.param(nested(101), "deep", id="too-deep"),
    ],
)
def test_an_invalid_schema_is_refused_with_its_table(raw, reason):
    with pytest.raises(SchemaError, match=reason) as caught:
        parse(raw)
    assert caught.value.where == "trips"


def test_a_deep_schema_below_the_limit_is_accepted():
    assert len(list(parse(nested(99)).leaves())) == 1


@pytest.mark.parametrize("schema_string", ["", "{", "nul", '{"type": "struct"', "[" * 100_000])
def test_invalid_json_is_refused(schema_string):
    with pytest.raises(SchemaError, match="not JSON"):
        parse_schema(schema_string, where="trips")


def test_find_prefers_exact_names_ignores_case_and_suggests_similar_ones():
    schema = parse(struct(field("Fare", "long"), field("trip", struct(field("id", "long")))))
    assert [f.name for f in schema.find(("fare",))] == ["Fare"]
    assert [f.name for f in schema.find(("TRIP", "ID"))] == ["trip", "id"]
    with pytest.raises(
        ColumnNotFoundError, match=r"no column 'Fares'.*did you mean 'Fare'"
    ) as caught:
        schema.find(("Fares",))
    assert caught.value.existing == ("Fare", "trip")
    with pytest.raises(ColumnNotFoundError, match=r"trip\.id"):
        schema.find(("trip", "x"))
    with pytest.raises(ColumnNotFoundError):
        schema.find(("Fare", "x"))
