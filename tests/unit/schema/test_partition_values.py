# ruff: noqa: DTZ001 - times without a zone are what is tested, and == builds a node
from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lazydelta.errors import SchemaError
from lazydelta.schema import DecimalType, PrimitiveType
from lazydelta.schema.values import (
    format_partition_value,
    parse_partition_values,
    unreadable_partition_values,
)


def parse(strings, kind, **options):
    kind = kind if isinstance(kind, DecimalType) else PrimitiveType(kind)
    parsed = parse_partition_values(pa.array(strings, pa.string()), kind, **options)
    parsed.validate(full=True)
    return parsed


@pytest.mark.parametrize(
    ("kind", "strings", "expected"),
    [
        pytest.param("integer", ["7", "07", "-3", "+4"], [7, 7, -3, 4], id="integer"),
        pytest.param("byte", ["127", "-128"], [127, -128], id="byte"),
        pytest.param("long", ["9223372036854775807"], [2**63 - 1], id="long"),
        pytest.param("boolean", ["true", "FALSE", "True"], [True, False, True], id="boolean"),
        pytest.param(
            "string",
            [" a ", "__HIVE_DEFAULT_PARTITION__"],
            [" a ", "__HIVE_DEFAULT_PARTITION__"],
            id="string",
        ),
        pytest.param("binary", ["\x01é"], [b"\x01\xc3\xa9"], id="binary-is-utf8"),
        pytest.param(
            "double",
            ["1e3", "Infinity", "-Infinity", ".5"],
            [1000.0, math.inf, -math.inf, 0.5],
            id="double",
        ),
        pytest.param("float", ["0.1"], [0.10000000149011612], id="float-is-rounded"),
        pytest.param(
            DecimalType(5, 2),
            ["1", "1.0", "1.00", "1E+2"],
            [Decimal("1.00")] * 3 + [Decimal("100.00")],
            id="decimal",
        ),
        pytest.param("date", ["2026-02-28"], [date(2026, 2, 28)], id="date"),
        pytest.param(
            "timestamp",
            [
                "2026-01-01 00:00:00",
                "2026-01-01T00:00:00.000000Z",
                "2026-01-01T02:00:00+02:00",
                "2026-01-01 00:00:00.5",
            ],
            [datetime(2026, 1, 1, tzinfo=UTC)] * 3 + [datetime(2026, 1, 1, 0, 0, 0, 500_000, UTC)],
            id="timestamp-in-both-forms-is-utc",
        ),
        pytest.param(
            "timestamp_ntz",
            ["2026-01-01 10:00:00.000001", "2026-01-01T10:00:00Z"],
            [datetime(2026, 1, 1, 10, 0, 0, 1), datetime(2026, 1, 1, 10)],
            id="ntz-is-never-shifted",
        ),
    ],
)
def test_values_of_each_type(kind, strings, expected):
    assert parse(strings, kind).to_pylist() == expected


@pytest.mark.parametrize("kind", ["string", "integer", "date", "binary", "timestamp", "boolean"])
def test_null_and_the_empty_string_are_null_for_every_type(kind):
    assert parse(["", None], kind).to_pylist() == [None, None]


def test_nan_is_read():
    assert math.isnan(parse(["NaN"], "double")[0].as_py())


def test_years_beyond_9999_and_negative_years():
    strings = ["+12026-01-01", "-0044-03-15", "9999-12-31", "0000-03-01"]
    days = parse(strings, "date").cast(pa.int32()).to_pylist()
    assert days == [int(np.datetime64(string.lstrip("+"), "D").astype(int)) for string in strings]


@pytest.mark.parametrize(
    ("kind", "string"),
    [
        ("byte", "128"),
        ("integer", "1.0"),
        ("integer", "0x1F"),
        ("long", "9223372036854775808"),
        ("integer", "1_000"),
        ("date", "2026-02-29"),
        ("date", "2026-13-01"),
        ("date", "01/02/2026"),
        ("timestamp", "2026-01-01 24:00:00"),
        ("timestamp", "noon"),
        ("boolean", "yes"),
        ("double", "1_0"),
        ("double", "abc"),
        (DecimalType(3, 1), "1.25"),
        (DecimalType(3, 1), "100.0"),
        ("timestamp", "294248-01-01 00:00:00"),
    ],
)
def test_an_invalid_value_raises_or_is_null(kind, string):
    with pytest.raises(SchemaError, match="partition value of type"):
        parse([string], kind)
    parsed = parse([string, None, ""], kind, on_error="null")
    assert parsed.to_pylist() == [None, None, None]
    strings = pa.array([string, None, ""], pa.string())
    assert unreadable_partition_values(strings, parsed).to_pylist() == [True, False, False]


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (
            "timestamp",
            datetime(2026, 1, 1, 2, tzinfo=timezone(timedelta(hours=2))),
            "2026-01-01T00:00:00.000000Z",
        ),
        ("timestamp_ntz", datetime(2026, 1, 1, 2), "2026-01-01 02:00:00.000000"),
        ("double", math.inf, "Infinity"),
        ("boolean", True, "true"),
        ("string", "", None),
        ("string", None, None),
        ("binary", b"", None),
        ("integer", 5, "5"),
    ],
)
def test_serialized_values(kind, value, expected):
    assert format_partition_value(value, PrimitiveType(kind)) == expected


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("byte", 128),
        ("integer", True),
        ("integer", "5"),
        ("date", datetime(2026, 1, 1)),
        ("binary", b"\xff"),
        ("boolean", 1),
        ("array", [1]),
    ],
)
def test_a_value_of_another_type_is_refused(kind, value):
    with pytest.raises(SchemaError):
        format_partition_value(value, PrimitiveType(kind))


VALUES = {
    "long": st.integers(-(2**63), 2**63 - 1),
    "double": st.floats(allow_nan=False),
    "date": st.dates(),
    "timestamp": st.datetimes(timezones=st.just(UTC)),
    "timestamp_ntz": st.datetimes(),
    "boolean": st.booleans(),
    "string": st.text(min_size=1).filter(lambda string: string.isprintable()),
}


@given(st.sampled_from(sorted(VALUES)).flatmap(lambda kind: st.tuples(st.just(kind), VALUES[kind])))
def test_round_trip_of_values(case):
    kind, value = case
    string = format_partition_value(value, PrimitiveType(kind))
    assert parse([string], kind).to_pylist() == [value]


@given(st.decimals(-(10**10), 10**10, places=3))
def test_round_trip_of_decimals(value):
    kind = DecimalType(14, 3)
    assert parse([format_partition_value(value, kind)], kind).to_pylist() == [value]
