"""Column lists in SQL: what they declare, and where they go wrong."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lazydelta.errors import SchemaError
from lazydelta.schema import parse_column_type, parse_columns


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a long", "struct<a: long>"),
        ("a: BIGINT NOT NULL", "struct<a: long not null>"),
        ("a int, b smallint, c tinyint", "struct<a: integer, b: short, c: byte>"),
        ("a real, b double, c bool", "struct<a: float, b: double, c: boolean>"),
        (
            "a decimal, b dec(5), c numeric(38, 38)",
            "struct<a: decimal(10,0), b: decimal(5,0), c: decimal(38,38)>",
        ),
        ("`a b` string, `c``d` date", "struct<a b: string, c`d: date>"),
        ("a array<array<int>>", "struct<a: array<array<integer>>>"),
        (
            "a map<string, struct<x: int not null>>",
            "struct<a: map<string,struct<x: integer not null>>>",
        ),
        (
            "a timestamp, b timestamp_ltz, c timestamp_ntz",
            "struct<a: timestamp, b: timestamp, c: timestamp_ntz>",
        ),
        ("not int, comment string", "struct<not: integer, comment: string>"),
        ("a variant, b void", "struct<a: variant, b: void>"),
        ("ä int -- the first\n, b int", "struct<ä: integer, b: integer>"),
    ],
)
def test_columns(text, expected):
    assert str(parse_columns(text)) == expected


@pytest.mark.parametrize(
    ("text", "metadata"),
    [
        ("a int comment 'it''s \\'so\\''", {"comment": "it's 'so'"}),
        ("a int default 1 + 2 comment 'x'", {"CURRENT_DEFAULT": "1 + 2", "comment": "x"}),
        ("a int default (1) + f(2, 3), b int", {"CURRENT_DEFAULT": "(1) + f(2, 3)"}),
        ("a string default 'a, b' not null", {"CURRENT_DEFAULT": "'a, b'"}),
        (
            "a varchar(10) comment 'c'",
            {"__CHAR_VARCHAR_TYPE_STRING": "varchar(10)", "comment": "c"},
        ),
        (
            "a int generated always as (year(b) + (1)) comment 'y', b date",
            {"delta.generationExpression": "year(b) + (1)", "comment": "y"},
        ),
    ],
)
def test_what_a_column_says_besides_its_type(text, metadata):
    assert parse_columns(text).fields[0].metadata == metadata


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "a column's name was expected, not the end"),
        ("a", "a type was expected, not the end"),
        ("a int,", "a column's name was expected, not the end"),
        ("a int b int", "',' or the end was expected, not 'b' at character 7"),
        ("a money", "a type was expected, not 'money'"),
        ("a array<int", "'>' was expected"),
        ("a array<varchar(5)>", "a type was expected, not 'varchar'"),
        ("a varchar", "'(' was expected"),
        ("a array", "'<' was expected"),
        ("a map<int>", "',' was expected"),
        ("a decimal(39,0)", "out of range"),
        ("a decimal(5,6)", "out of range"),
        ("a decimal(x)", "a number was expected"),
        ("a int default", "its expression '' is torn"),
        ("a int default not null", "its expression '' is torn"),
        ("a int default (1", "is torn"),
        ("a int generated always as year(b)", "'(' was expected"),
        ("a bigint generated always as identity", "identity"),
        ("a int comment x", "a text in quotes was expected"),
        ("a struct<b int default 1>", "'>' was expected, not 'default'"),
        ("a " + "array<" * 200 + "int" + ">" * 200, "nested more than 100 deep"),
    ],
)
def test_what_is_no_column_list(text, reason):
    with pytest.raises(SchemaError) as caught:
        parse_columns(text)
    assert reason in str(caught.value)


def test_a_type_alone():
    assert str(parse_column_type("struct<a: array<int>, b string>")) == (
        "struct<a: array<integer>, b: string>"
    )
    with pytest.raises(SchemaError, match="nothing more was expected"):
        parse_column_type("int int")


@given(st.text(alphabet="abint<>(),:`' \"\\-dectr0", max_size=40))
def test_any_text_is_a_schema_or_a_typed_error(text):
    try:
        schema = parse_columns(text)
    except SchemaError:
        return
    assert len(schema) >= 1
