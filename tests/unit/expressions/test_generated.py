from __future__ import annotations

import json

import pytest

from lazydelta.expressions import as_predicate, bind, derivations
from lazydelta.schema import parse_schema


def table(**partitions):
    fields = [
        *(
            {"name": name, "type": kind}
            for name, kind in [
                ("t", "timestamp"),
                ("n", "timestamp_ntz"),
                ("d", "date"),
                ("s", "string"),
                ("l", "long"),
            ]
        ),
        *(
            {"name": name, "type": kind, "metadata": {"delta.generationExpression": sql}}
            for name, (kind, sql) in partitions.items()
        ),
    ]
    return parse_schema(json.dumps({"type": "struct", "fields": fields}), where="test"), [
        *partitions
    ]


def implied(sql, **partitions):
    schema, names = table(**partitions)
    bound = bind(as_predicate(sql), schema, names)
    found = [str(derivation.implied(bound)) for derivation in derivations(schema, names)]
    return [one for one in found if one != "TRUE"]


@pytest.mark.parametrize(
    ("kind", "expression", "sql", "expected"),
    [
        pytest.param(
            "date",
            "CAST(n AS DATE)",
            "n < '2026-02-03 04:00:00'",
            "`partition.g` <= DATE '2026-02-03'",
            id="cast-strict-is-relaxed",
        ),
        pytest.param(
            "date",
            "CAST(n AS DATE)",
            "n >= '2026-02-03 04:00:00'",
            "`partition.g` >= DATE '2026-02-03'",
            id="cast-from-below",
        ),
        pytest.param(
            "date",
            "CAST(t AS DATE)",
            "t = '2026-02-03 04:00:00'",
            "`partition.g` <= DATE '2026-02-04' AND `partition.g` >= DATE '2026-02-02'",
            id="zoned-is-a-day-wide",
        ),
        pytest.param("integer", "YEAR(n)", "n > '2026-02-03'", "`partition.g` >= 2026", id="year"),
        pytest.param(
            "integer", "MONTH(n)", "n = '2026-02-03'", "`partition.g` = 2", id="month-equal"
        ),
        pytest.param(
            "string",
            "date_format(n, 'yyyy-MM')",
            "n <= '2026-02-03'",
            "`partition.g` <= '2026-02'",
            id="format-month",
        ),
        pytest.param(
            "string",
            "date_format(n, 'yyyy-MM-dd-HH')",
            "n = '2026-02-03 04:00:00'",  # Spark formats it as an instant, in the writer's zone
            "`partition.g` <= '2026-02-04-04' AND `partition.g` >= '2026-02-02-04'",
            id="format-hour",
        ),
        pytest.param(
            "string",
            "DATE_FORMAT(n, 'MM')",
            "n < '2026-02-03'",
            None,
            id="unordered-format-is-not-used",
        ),
        pytest.param(
            "string", "SUBSTRING(s, 1, 2)", "s <= 'abc'", "`partition.g` <= 'ab'", id="prefix"
        ),
        pytest.param("string", "SUBSTRING(s, 2, 2)", "s <= 'abc'", None, id="middle-is-not-used"),
        pytest.param(
            "string", "SUBSTRING(s, 2, 2)", "s = 'abc'", "`partition.g` = 'bc'", id="middle-equal"
        ),
        pytest.param(
            "timestamp_ntz",
            "date_trunc('hour', n)",
            "n < '2026-02-03 04:05:00'",  # a timestamp is moved by a day before and after
            "`partition.g` <= TIMESTAMP_NTZ '2026-02-05 04:00:00.000000'",
            id="date-trunc",
        ),
        pytest.param(
            "date",
            "trunc(d, 'MM')",
            "d > DATE '2026-02-03'",
            "`partition.g` >= DATE '2026-02-01'",
            id="trunc",
        ),
        pytest.param("long", "l", "l < 5", "`partition.g` <= 5", id="identity"),
        pytest.param("date", "CAST(n AS DATE)", "n IS NULL", "`partition.g` IS NULL", id="null"),
        pytest.param(
            "date", "CAST(n AS DATE)", "n != '2026-02-03'", None, id="unequal-is-not-used"
        ),
        pytest.param("long", "nosuch(l)", "l = 5", None, id="unknown-function-is-not-used"),
        pytest.param("long", "((((", "l = 5", None, id="unreadable-is-not-used"),
        pytest.param("long", "nosuch", "l = 5", None, id="unknown-column-is-not-used"),
        pytest.param(
            "string", "CAST(l AS STRING)", "l = 5", "`partition.g` = '5'", id="cast-equal"
        ),
        pytest.param(
            "string", "CAST(l AS STRING)", "l < 5", None, id="cast-to-string-is-not-ordered"
        ),
    ],
)
def test_the_predicate_on_a_generated_column(kind, expression, sql, expected):
    assert implied(sql, g=(kind, expression)) == ([] if expected is None else [expected])


def test_year_month_and_day_work_together():
    parts = {"y": ("integer", "YEAR(n)"), "m": ("integer", "MONTH(n)"), "d2": ("integer", "DAY(n)")}
    assert implied("n < '2026-02-03 10:00:00'", **parts)[-1] == (
        "`partition.y` < 2026 OR (`partition.y` = 2026 AND (`partition.m` < 2 OR "
        "(`partition.m` = 2 AND `partition.d2` <= 3)))"
    )
