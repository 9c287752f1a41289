"""First steps of the schema evolution: no new reader features, and constraints for writers."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa

from tests.schema_evolution.parts import File, Query, Row, Step, array, column, struct, without

DAY_1, DAY_2, DAY_3 = date(2024, 1, 1), date(2024, 1, 2), date(2025, 6, 30)


def row(number: int, day: date | None = DAY_3, **more: Any) -> Row:
    """Return a row of the first version."""
    city = None if number % 4 == 0 else f"city {number % 3}"
    whole = {
        "id": number,
        "name": f"name {number:02}",
        "profile": {"city": city},
        "events": [{"kind": f"kind {at}"} for at in range(number % 3)] or None,
        "amount": Decimal(number) / 4,
        "since": date(2020, 1, 1 + number % 28),
        "day": day,
    }
    return whole | more


# --- the baseline, and what needs no new protocol -----------------------------------------------

ID, NAME, DAY = column("id", "long"), column("name", "string"), column("day", "date")
CITY, AGE = column("city", "string"), column("age", "integer")
KIND, SCORE = column("kind", "string"), column("score", "double")
AMOUNT, SINCE = column("amount", "decimal(8,2)"), column("since", "date")
BASE = [
    ID,
    NAME,
    column("profile", struct(CITY)),
    column("events", array(struct(KIND))),
    AMOUNT,
    SINCE,
    DAY,
]
PLAIN = pa.schema(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("profile", pa.struct([("city", pa.string())])),
        ("events", pa.list_(pa.struct([("kind", pa.string())]))),
        ("amount", pa.decimal128(8, 2)),
        ("since", pa.date32()),
    ]
)


def plain_file(name: str, schema: pa.Schema, day: date | None, rows: list[Row]) -> File:
    """Return a file of a table without column mapping: stored values are table values."""
    text = None if day is None else day.isoformat()
    stored = [without(one, "day") for one in rows]
    return File(name=name, schema=schema, stored=stored, rows=rows, partition={"day": text})


baseline = Step(
    name="baseline",
    fields=BASE,
    protocol={"minReaderVersion": 1, "minWriterVersion": 2},
    files=[
        plain_file("0-a.parquet", PLAIN, DAY_1, [row(n, DAY_1) for n in (1, 2, 3)]),
        plain_file("0-b.parquet", PLAIN, DAY_2, [row(n, DAY_2) for n in (4, 5, 6)]),
        plain_file("0-c.parquet", PLAIN, None, [row(n, None) for n in (7, 8)]),
    ],
    queries=[
        Query(
            where="day = date'2024-01-01'", files={"0-a.parquet"},
            test=lambda r: r["day"] and r["day"] == DAY_1,
        ),
        Query(where="day is null", files={"0-c.parquet"}, test=lambda r: r["day"] is None),
        Query(where="id >= 6", files={"0-b.parquet", "0-c.parquet"}, test=lambda r: r["id"] >= 6),
        Query(where="name < 'name 03'", files={"0-a.parquet"}, test=lambda r: r["name"] < "name 03"),
        Query(where="amount > 1.6", files={"0-c.parquet"}, test=lambda r: r["amount"] > Decimal("1.6")),
    ],
)  # fmt: skip

WITH_SCORE = [*BASE[:6], SCORE, DAY]
SCORED = PLAIN.append(pa.field("score", pa.float64()))
add_column = Step(
    name="add-column",
    fields=WITH_SCORE,
    protocol=baseline.protocol,
    evolve_row=lambda r: r | {"score": None},
    files=[plain_file("1.parquet", SCORED, DAY_3, [row(n, score=n / 2) for n in (11, 12)])],
    queries=[
        # Without statistics of a missing column the log does not show that it is all null.
        Query(
            where="score > 5.6", files={"0-a.parquet", "0-b.parquet", "0-c.parquet", "1.parquet"},
            test=lambda r: r["score"] and r["score"] > 5.6,
        ),
        Query(
            where="score is null and id < 4", files={"0-a.parquet"},
            test=lambda r: r["score"] is None and r["id"] < 4,
        ),
    ],
)  # fmt: skip

PROFILE = column("profile", struct(AGE, CITY))  # before the existing field
NESTED_FIELDS = [*WITH_SCORE[:2], PROFILE, *WITH_SCORE[3:]]
NESTED = SCORED.set(2, pa.field("profile", pa.struct([("age", pa.int32()), ("city", pa.string())])))


def aged(number: int, **more: Any) -> Row:
    whole = row(number, score=number / 2, **more)
    return whole | {"profile": {"age": number, "city": whole["profile"]["city"]}}


nested_field = Step(
    name="nested-field",
    fields=NESTED_FIELDS,
    protocol=baseline.protocol,
    evolve_row=lambda r: r | {"profile": {"age": None, "city": r["profile"]["city"]}},
    files=[plain_file("2.parquet", NESTED, DAY_3, [aged(21), aged(22) | {"profile": None}])],
    queries=[
        Query(
            where="profile.age = 21 and id > 8", files={"1.parquet", "2.parquet"},
            test=lambda r: (r["profile"] or {}).get("age") == 21 and r["id"] > 8,
        ),
        Query(
            where="profile.city is null",
            files={"0-b.parquet", "0-c.parquet", "1.parquet", "2.parquet"},
            test=lambda r: (r["profile"] or {}).get("city") is None,
        ),
    ],
)  # fmt: skip

# --- rules for writers, which a reader leaves alone ----------------------------------------------

CHECKED = {"delta.constraints.known": "id > 0"}
check = Step(
    name="check-constraint",
    fields=NESTED_FIELDS,
    protocol={"minReaderVersion": 1, "minWriterVersion": 3},
    configuration=CHECKED,
    violations=[aged(-1)],
    queries=[Query(where="id <= 0", files=set(), test=lambda r: r["id"] <= 0)],
)

INVARIANT = '{"expression":{"expression":"score >= 0"}}'
GUARDED = [
    item | {"metadata": {"delta.invariants": INVARIANT}} if item["name"] == "score" else item
    for item in NESTED_FIELDS
]
invariant = Step(
    name="invariant",
    fields=GUARDED,
    protocol=check.protocol,
    configuration=CHECKED,
    files=[plain_file("4.parquet", NESTED, DAY_3, [aged(41)])],
    violations=[aged(42) | {"score": -1.0}],
    queries=[Query(where="id = 41", files={"4.parquet"}, test=lambda r: r["id"] == 41)],
)

YEAR = column("year", "integer", **{"delta.generationExpression": "year(day)"})
WITH_YEAR = [*GUARDED[:7], YEAR, DAY]
YEARLY = NESTED.append(pa.field("year", pa.int32()))
generated = Step(
    name="generated-column",
    fields=WITH_YEAR,
    protocol={"minReaderVersion": 1, "minWriterVersion": 4},
    configuration=CHECKED,
    evolve_row=lambda r: r | {"year": None},
    files=[plain_file("5.parquet", YEARLY, DAY_3, [aged(51, year=2025), aged(52, year=2025)])],
    violations=[aged(53, year=1999)],
    queries=[
        Query(
            where="year = 2025 and day >= date'2025-01-01'",
            files={"1.parquet", "2.parquet", "4.parquet", "5.parquet"},
            test=lambda r: r["year"] == 2025 and r["day"] and r["day"] >= date(2025, 1, 1),
        ),
    ],
)
