# ruff: noqa: DTZ001 - times without a zone are what is tested, and == builds a node
from __future__ import annotations

import json
import math
import operator
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lazydelta.errors import PredicateError
from lazydelta.expressions import as_predicate, bind, col, evaluate, lit
from lazydelta.expressions.nodes import Literal
from lazydelta.schema import parse_schema

NAN = math.nan
TYPES = {
    "i": "integer",
    "l": "long",
    "x": "double",
    "f": "float",
    "m": "decimal(10,2)",
    "d": "date",
    "t": "timestamp",
    "n": "timestamp_ntz",
    "s": "string",
    "o": "boolean",
    "z": "binary",
}
SCHEMA = parse_schema(
    json.dumps(
        {
            "type": "struct",
            "fields": [
                *({"name": name, "type": kind} for name, kind in TYPES.items()),
                {"name": "c", "type": "string", "metadata": {"__COLLATIONS": {"c": "ICU.DE"}}},
            ],
        }
    ),
    where="test",
)
ROWS = {
    "i": pa.array([1, 2, None, -5], pa.int32()),
    "l": pa.array([2**53 + 1, 2**53, None, -5], pa.int64()),
    "x": pa.array([1.5, NAN, None, -0.0], pa.float64()),
    "f": pa.array([0.1, NAN, None, 0.0], pa.float32()),
    "m": pa.array(
        [Decimal("1.50"), Decimal("-0.01"), None, Decimal("99999999.99")], pa.decimal128(10, 2)
    ),
    "d": pa.array([date(2026, 2, 28), date(1969, 12, 31), None, date(2024, 2, 29)], pa.date32()),
    "t": pa.array(
        [
            datetime(2026, 2, 28, 23, 59, 59, 999999, UTC),
            datetime(1969, 12, 31, 23, 0, 0, 1, UTC),
            None,
            datetime(2026, 3, 1, tzinfo=UTC),
        ],
        pa.timestamp("us", "UTC"),
    ),
    "n": pa.array(
        [datetime(2026, 2, 28, 10, 30), None, None, datetime(1960, 5, 5)], pa.timestamp("us")
    ),
    "s": pa.array(["abc", "été", None, "a%"], pa.string()),
    "o": pa.array([True, False, None, True]),
    "z": pa.array([b"\x01", b"a", None, b""], pa.binary()),
    "c": pa.array(["a", "b", None, "c"]),
}
T, F, N = True, False, None


def run(predicate):
    bound = bind(
        predicate if not isinstance(predicate, str) else as_predicate(predicate), SCHEMA, []
    )
    return evaluate(bound, lambda ref: ROWS[ref.path[0]], 4).to_pylist()


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("i > 1", [F, T, N, F]),
        ("i <=> NULL", [F, F, T, F]),
        ("i <=> 2", [F, T, F, F]),
        ("NOT (i <=> 2)", [T, F, T, T]),
        ("i IN (1, -5)", [T, F, N, T]),
        ("i IN (1, NULL)", [T, N, N, N]),
        ("i NOT IN (1, NULL)", [F, N, N, N]),
        ("i NOT IN (1)", [F, T, N, T]),
        ("i IS NULL OR i = 1", [T, F, T, F]),
        ("i = 1 AND s IS NULL", [F, F, N, F]),
        ("(i > 1) IS NULL", [F, F, T, F]),
        ("(i > 1) IS TRUE", [F, T, F, F]),
        ("(i > 1) IS NOT FALSE", [F, T, T, F]),
        ("NULL OR i = 1", [T, N, N, N]),
        ("NULL AND i = 1", [N, F, N, F]),
        ("l = 9007199254740993", [T, F, N, F]),
        ("l > 9007199254740992.5", [T, F, N, F]),
        ("l < i", [F, F, N, F]),
        ("x > 1.5D", [F, T, N, F]),
        ("x >= 1.5D", [T, T, N, F]),
        ("x < 1.5D", [F, F, N, T]),
        ("x = 0.0D", [F, F, N, T]),
        ("x IN (0.0D, 1.5D)", [T, F, N, T]),
        ("x IN (CAST('NaN' AS DOUBLE))", [F, T, N, F]),
        ("x = CAST('NaN' AS DOUBLE)", [F, T, N, F]),
        ("x != CAST('NaN' AS DOUBLE)", [T, F, N, T]),
        ("x < CAST('NaN' AS DOUBLE)", [T, F, N, T]),
        ("x <= CAST('NaN' AS DOUBLE)", [T, T, N, T]),
        ("x > CAST('NaN' AS DOUBLE)", [F, F, N, F]),
        ("x <=> f", [F, T, T, T]),
        ("x > f", [T, F, N, F]),
        ("x >= f", [T, T, N, T]),
        ("f = 0.1", [F, F, N, F]),
        ("f < 0.2", [T, F, N, T]),
        ("m = 1.5", [T, F, N, F]),
        ("m < i", [F, T, N, F]),
        ("m + 1 = 2.50", [T, F, N, F]),
        ("i + l = -10", [F, F, N, T]),
        ("- i = 5", [F, F, N, T]),
        ("x + 1 > 2", [T, T, N, F]),
        ("d = '2026-02-28'", [T, F, N, F]),
        ("date(t) = DATE '2026-02-28'", [T, F, N, F]),
        ("date(t) = DATE '1969-12-31'", [F, T, N, F]),
        ("date(n) = DATE '1960-05-05'", [F, N, N, T]),
        ("CAST(d AS TIMESTAMP) <= t", [T, T, N, T]),
        ("year(d) = 1969", [F, T, N, F]),
        ("month(d) = 2", [T, F, N, T]),
        ("day(t) = 28", [T, F, N, F]),
        ("hour(t) = 23", [T, T, N, F]),
        ("trunc(d, 'MM') = DATE '2024-02-01'", [F, F, N, T]),
        ("trunc(d, 'year') = DATE '1969-01-01'", [F, T, N, F]),
        ("date_trunc('HOUR', t) = TIMESTAMP '1969-12-31 23:00:00Z'", [F, T, N, F]),
        ("date_format(d, 'yyyy-MM') = '2026-02'", [T, F, N, F]),
        ("date_format(t, 'yyyy-MM-dd HH:mm:ss') = '1969-12-31 23:00:00'", [F, T, N, F]),
        ("CAST(d AS STRING) = '2024-02-29'", [F, F, N, T]),
        ("CAST(i AS STRING) = '-5'", [F, F, N, T]),
        ("CAST(s AS INT) = 5", [N, N, N, N]),
        ("substring(s, 1, 1) = 'a'", [T, F, N, T]),
        ("substring(s, 2, 1) = 't'", [F, T, N, F]),
        ("substring(s, -2) = 'bc'", [T, F, N, F]),
        ("substring(s, -2, 1) = 'b'", [T, F, N, F]),
        ("substring(s, 0, 2) = 'ab'", [T, F, N, F]),
        ("substring(s, 1, 0) = ''", [T, T, N, T]),
        ("length(s) = 3", [T, T, N, F]),
        ("s LIKE 'a%'", [T, F, N, T]),
        ("s LIKE 'a\\\\%'", [F, F, N, T]),
        ("s LIKE '_t_'", [F, T, N, F]),
        ("s LIKE '%c'", [T, F, N, F]),
        ("s NOT LIKE '%c'", [F, T, N, T]),
        ("s > 'b'", [F, T, N, F]),
        ("s < 'é'", [T, F, N, T]),
        ("o", [T, F, N, T]),
        ("NOT o", [F, T, N, F]),
        ("o < TRUE", [F, T, N, F]),
        ("z = 'a'", [F, T, N, F]),
        ("i * 2 = 4", [F, T, N, F]),
        ("i / 2 = 0.5", [T, F, N, F]),
        ("i % 3 = -2", [F, F, N, T]),
        ("l div 2 = -2", [F, F, N, T]),
        ("lower(upper(s)) = 'été'", [F, T, N, F]),
        ("coalesce(i, 7) = 7", [F, F, T, F]),
        ("CASE WHEN i > 1 THEN 'b' WHEN i < 0 THEN 'n' END = 'n'", [N, F, N, T]),
        ("s RLIKE '^a'", [T, F, N, T]),
        ("i IS DISTINCT FROM 1", [F, T, T, T]),
        ("i IS NOT DISTINCT FROM NULL", [F, F, T, F]),
        ("o = (i > 0)", [T, F, N, F]),
        ("if(o, i, l) = 1", [T, F, N, F]),
        ("concat(s, '!') = 'abc!'", [T, F, N, F]),
        # What cannot be computed is NULL.
        ("i / 0 = 1", [N, N, N, N]),
        ("10 / (i - 1) > 0", [N, T, N, F]),
        ("l * l > 0", [N, N, N, T]),
        ("(l * l) IS NULL", [T, T, T, F]),
        ("i <> 1 AND 10 / (i - 1) > 0", [F, T, N, F]),
    ],
)
def test_meaning(sql, expected):
    assert run(sql) == expected


def test_a_collated_column_is_not_compared_wrongly():
    assert run("c IS NULL") == [F, F, T, F]
    with pytest.raises(PredicateError, match="collation"):
        run("c = 'a'")


def test_stored_forms_of_a_type_are_read():
    bound = bind(as_predicate("s = 'a' AND n = '1970-01-01 00:00:01'"), SCHEMA, [])
    stored = {
        "s": pa.array(["a", "b"]).dictionary_encode(),
        "n": pa.chunked_array([pa.array([1000, 1000], pa.timestamp("ms"))]),
    }
    assert evaluate(bound, lambda ref: stored[ref.path[0]], 2).to_pylist() == [T, F]


OPS = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
DOUBLES = st.floats(width=64) | st.sampled_from([0.0, -0.0, NAN, math.inf, -math.inf])


def order(value):
    return (1, 0.0) if math.isnan(value) else (0, value)


@given(st.sampled_from(sorted(OPS)), st.lists(DOUBLES | st.none(), min_size=1), DOUBLES)
def test_doubles_compare_in_the_total_order_of_sql(op, values, constant):
    build = {
        "=": col("x").__eq__,
        "!=": col("x").__ne__,
        "<": col("x").__lt__,
        "<=": col("x").__le__,
        ">": col("x").__gt__,
        ">=": col("x").__ge__,
    }[op]
    bound = bind(build(lit(constant)), SCHEMA, [])
    found = evaluate(bound, lambda _: pa.array(values, pa.float64()), len(values)).to_pylist()
    assert found == [None if v is None else OPS[op](order(v), order(constant)) for v in values]


@given(
    st.sampled_from(sorted(OPS)),
    st.lists(st.integers(-(2**31), 2**31 - 1), min_size=1),
    st.one_of(st.integers(-(2**80), 2**80), st.decimals(-(2**40), 2**40, places=3)),
)
def test_integers_compare_exactly_with_any_number(op, values, constant):
    bound = bind(as_predicate(f"i {op} {lit(constant).node}"), SCHEMA, [])
    found = evaluate(bound, lambda _: pa.array(values, pa.int32()), len(values)).to_pylist()
    assert found == [OPS[op](value, constant) for value in values]


def test_options_of_in_are_not_hashed_for_each_batch(monkeypatch):
    bound = bind(as_predicate("i IN (1, -5, 7)"), SCHEMA, [])

    def refuse(_):
        raise AssertionError("a literal was hashed")

    monkeypatch.setattr(Literal, "__hash__", refuse)
    for _ in range(2):
        assert evaluate(bound, lambda ref: ROWS[ref.path[0]], 4).to_pylist() == [T, F, N, T]
