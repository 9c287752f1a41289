"""Merging the schema of rows into a table's schema."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lazydelta.schema import ArrayType, DecimalType, MapType, PrimitiveType, StructField, StructType
from lazydelta.schema.evolution import merge_schemas
from tests.unit.writer.support import schema_of

CASES = [
    ("a int", "b string", "struct<a: integer, b: string>"),
    ("a int not null", "b string not null, a int", "struct<a: integer not null, b: string>"),
    ("a int", "A bigint", "struct<a: integer>"),
    ("a bigint", "a int", "struct<a: long>"),
    ("s struct<x: int>", "s struct<y: int not null, X: int>", "struct<s: struct<x: integer, y: integer>>"),
    ("s array<struct<x: int>>", "s array<struct<y: int>>", "struct<s: array<struct<x: integer, y: integer>>>"),
    ("m map<string, struct<x: int>>", "m map<string, struct<y: int>>",
     "struct<m: map<string,struct<x: integer, y: integer>>>"),
    ("m map<struct<k: int>, int>", "m map<struct<j: int>, int>",
     "struct<m: map<struct<k: integer, j: integer>,integer>>"),
    ("v void", "v array<int>", "struct<v: array<integer>>"),
    ("a int", "v void", "struct<a: integer, v: void>"),
    ("a int", "a string", "struct<a: integer>"),
    ("a int", "a struct<x: int>", "struct<a: integer>"),
]  # fmt: skip
WIDER = [
    ("tinyint", "int", "integer"),
    ("int", "bigint", "long"),
    ("float", "double", "double"),
    ("decimal(5,2)", "decimal(8,3)", "decimal(8,3)"),
    ("date", "timestamp_ntz", "timestamp_ntz"),
    ("decimal(5,2)", "decimal(5,3)", None),
    ("bigint", "int", None),
    ("int", "double", None),
    ("int", "decimal(20,0)", None),
    ("double", "float", None),
    ("int", "string", None),
]


@pytest.mark.parametrize(("table", "rows", "merged"), CASES)
def test_new_fields_are_appended_as_nullable(table, rows, merged):
    assert str(merge_schemas(schema_of(table), schema_of(rows), widen=False)) == merged


@pytest.mark.parametrize(("old", "new", "expected"), WIDER)
def test_types_widen_only_if_enabled(old, new, expected):
    table, rows = schema_of(f"a {old}"), schema_of(f"a {new}")
    assert merge_schemas(table, rows, widen=False) is table
    merged = merge_schemas(table, rows, widen=True)
    if expected is None:
        assert merged is table
        return
    change = {"fromType": str(table.fields[0].type), "toType": expected}
    assert str(merged.fields[0].type) == expected
    assert merged.fields[0].metadata == {"delta.typeChanges": [change]}


def test_a_widened_element_is_recorded_on_the_nearest_struct_field():
    table = schema_of("a array<map<int, array<struct<x: int>>>>")
    rows = schema_of("a array<map<bigint, array<struct<x: bigint>>>>")
    merged = merge_schemas(table, rows, widen=True)
    change = {"fromType": "integer", "toType": "long"}
    assert merged.fields[0].metadata == {
        "delta.typeChanges": [{**change, "fieldPath": "element.key"}]
    }
    inner = merged.fields[0].type.element.value.element.fields[0]
    assert inner.metadata == {"delta.typeChanges": [change]}


def test_field_metadata_is_preserved():
    table = StructType((StructField("a", PrimitiveType("integer"), False, {"comment": "why"}),))
    merged = merge_schemas(table, schema_of("a int, b int"), widen=True)
    assert merged.fields[0] is not None
    assert merged.fields[0] == table.fields[0]


LEAVES = st.sampled_from(
    [PrimitiveType(name) for name in ("integer", "long", "string", "date", "void")]
    + [DecimalType(8, 2), DecimalType(12, 4)]
)
NAMES = st.sampled_from(["a", "B", "c", "d"])


def structs(kinds):
    """Return structs whose names differ in more than case; the same name may differ in case."""
    cased = st.tuples(NAMES, st.booleans()).map(lambda n: n[0].swapcase() if n[1] else n[0])
    part = st.builds(StructField, cased, kinds, st.booleans())
    return st.lists(part, min_size=1, max_size=4, unique_by=lambda f: f.name.lower()).map(
        lambda fields: StructType(tuple(fields))
    )


KINDS = st.recursive(
    LEAVES,
    lambda kinds: (
        structs(kinds)
        | st.builds(ArrayType, kinds, st.booleans())
        | st.builds(MapType, kinds, kinds, st.booleans())
    ),
    max_leaves=6,
)
SCHEMAS = structs(KINDS)


@settings(max_examples=100, deadline=None)
@given(table=SCHEMAS, rows=SCHEMAS, widen=st.booleans())
def test_merging_keeps_existing_fields_and_is_idempotent(table, rows, widen):
    merged = merge_schemas(table, rows, widen=widen)
    assert merged.names[: len(table)] == table.names
    assert [part.nullable for part in merged][: len(table)] == [part.nullable for part in table]
    assert {n.lower() for n in merged.names} == {n.lower() for n in (*table.names, *rows.names)}
    assert all(part.nullable for part in merged.fields[len(table) :])
    assert merge_schemas(merged, rows, widen=widen) is merged
    assert merge_schemas(merged, table, widen=False) is merged


def part_of(draw, kind):
    """Return a type with some of the fields of another, at every level, in another order."""
    match kind:
        case StructType(fields):
            some = draw(st.lists(st.sampled_from(fields), min_size=1, unique_by=id))
            return StructType(
                tuple(StructField(f.name, part_of(draw, f.type), f.nullable) for f in some)
            )
        case ArrayType(element, contains_null):
            return ArrayType(part_of(draw, element), contains_null)
        case MapType(key, value, contains_null):
            return MapType(part_of(draw, key), part_of(draw, value), contains_null)
        case _:
            return kind


@settings(max_examples=100, deadline=None)
@given(whole=SCHEMAS, data=st.data())
def test_merging_is_associative_where_the_types_agree(whole, data):
    a, b, c = (part_of(data.draw, whole) for _ in range(3))
    one = merge_schemas(merge_schemas(a, b, widen=False), c, widen=False)
    two = merge_schemas(a, merge_schemas(b, c, widen=False), widen=False)
    assert one == two
