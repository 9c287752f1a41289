"""Schema evolution as data: one table, one kind of schema change per step.

A step has the changed actions, the appended rows in the schema of its version, the conversion of
earlier rows, and queries. It depends on no engine: `build` writes the log without the code under
test, and writers under test perform the same steps.
"""

# ruff: noqa: DTZ001 - a timestamp_ntz has no zone

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from functools import reduce
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tests.schema_evolution.parts import (
    File,
    Query,
    Row,
    Step,
    array,
    column,
    mapped,
    struct,
    without,
)
from tests.schema_evolution.plain import (
    AGE,
    AMOUNT,
    BASE,
    CHECKED,
    DAY_2,
    DAY_3,
    GUARDED,
    ID,
    KIND,
    PLAIN,
    SINCE,
    WITH_YEAR,
    YEAR,
    YEARLY,
    add_column,
    aged,
    baseline,
    check,
    generated,
    invariant,
    nested_field,
)

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["STEPS"]

NOON = datetime(2025, 6, 30, 12, tzinfo=UTC)
MICROS = pa.timestamp("us", "UTC")

# --- column mapping: names that are no longer those of the files -----------------------------------

UPGRADED = {
    "id": (1, "id"), "name": (2, "name"), "profile": (3, "profile"),
    "profile.age": (4, "age"), "profile.city": (5, "city"), "events": (6, "events"),
    "events.kind": (7, "kind"), "amount": (8, "amount"), "score": (9, "score"),
    "year": (10, "year"), "day": (11, "day"), "since": (12, "since"),
}  # fmt: skip
MAPPED = {**CHECKED, "delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "12"}


def features(*readers: str) -> dict[str, Any]:
    writers = ["appendOnly", "invariants", "checkConstraints", "generatedColumns", *readers]
    return {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": list(readers),
        "writerFeatures": writers,
    }


mapping = Step(
    name="column-mapping",
    fields=mapped(WITH_YEAR, UPGRADED),
    protocol=features("columnMapping"),
    configuration=MAPPED,
    queries=[
        Query(where="name = 'name 51'", files={"5.parquet"}, test=lambda r: r["name"] == "name 51")
    ],
)

RENAMED = {
    "id": "id", "name": "full name", "profile": "person", "events": "events", "amount": "amount",
    "since": "since", "score": "score", "year": "year", "day": "date",
}  # fmt: skip
PERSON = column("person", struct(AGE, column("town", "string")))
NEW_NAMES = [
    ID, column("full name", "string"), PERSON, BASE[3], AMOUNT, SINCE, GUARDED[6],
    YEAR | {"metadata": {"delta.generationExpression": "year(date)"}}, column("date", "date"),
]  # fmt: skip
NEW_IDS = {
    **UPGRADED, "full name": (2, "name"), "person": (3, "profile"), "person.age": (4, "age"),
    "person.town": (5, "city"), "date": (11, "day"),
}  # fmt: skip


def renamed(old: Row) -> Row:
    """Return a row with its new names."""
    profile = old["profile"]
    person = profile and {"age": profile["age"], "town": profile["city"]}
    return {RENAMED[name]: value for name, value in old.items()} | {"person": person}


def stored_mapped(given: Row) -> Row:
    """Return a row of the renamed table by physical names."""
    person = given["person"]
    profile = person and {"age": person["age"], "city": person["town"]}
    stored = {"id": given["id"], "name": given["full name"], "profile": profile}
    rest = ("events", "amount", "since", "score", "year", "col-score-2")
    return stored | {name: given[name] for name in rest if name in given}


NEW_ROWS = [renamed(aged(n, year=2025)) for n in (71, 72)]
rename = Step(
    name="rename",
    fields=mapped(NEW_NAMES, NEW_IDS),
    protocol=mapping.protocol,
    configuration=MAPPED,
    evolve_row=renamed,
    files=[
        File(
            name="7.parquet", schema=YEARLY, stored=[stored_mapped(r) for r in NEW_ROWS],
            rows=NEW_ROWS, partition={"day": "2025-06-30"},
        ),
    ],
    queries=[
        Query(
            where="`full name` < 'name 02'", files={"0-a.parquet"},
            test=lambda r: r["full name"] < "name 02",
        ),
        Query(
            where="date = date'2024-01-02'", files={"0-b.parquet"},
            test=lambda r: r["date"] and r["date"] == DAY_2,
        ),
        Query(
            where="person.age >= 71 and id > 10", files={"1.parquet", "7.parquet"},
            test=lambda r: ((r["person"] or {}).get("age") or 0) >= 71,
        ),
    ],
)  # fmt: skip

DROPPED = [item for item in NEW_NAMES if item["name"] != "score"]
drop = Step(
    name="drop",
    fields=mapped(DROPPED, NEW_IDS),
    protocol=mapping.protocol,
    configuration=MAPPED,
    evolve_row=lambda r: without(r, "score"),
    queries=[Query(where="id = 72", files={"7.parquet"}, test=lambda r: r["id"] == 72)],
)

AGAIN = [*DROPPED[:-1], column("score", "string"), DROPPED[-1]]
AGAIN_IDS = {**NEW_IDS, "score": (13, "col-score-2")}
AGAIN_SCHEMA = YEARLY.remove(YEARLY.get_field_index("score")).append(
    pa.field("col-score-2", pa.string())
)
AGAIN_ROWS = [without(renamed(aged(n, year=2025)), "score") | {"score": "high"} for n in (91, 92)]
drop_and_add = Step(
    name="a-dropped-name-again",
    fields=mapped(AGAIN, AGAIN_IDS),
    protocol=mapping.protocol,
    configuration=MAPPED | {"delta.columnMapping.maxColumnId": "13"},
    # Earlier files have another column `score`, of numbers.
    evolve_row=lambda r: r | {"score": None},
    files=[
        File(
            name="9.parquet", schema=AGAIN_SCHEMA, rows=AGAIN_ROWS,
            stored=[stored_mapped(without(r, "score") | {"col-score-2": r["score"]})
                    for r in AGAIN_ROWS],
            partition={"day": "2025-06-30"},
        ),
    ],
    queries=[
        Query(
            where="score = 'high' and id >= 72", files={"7.parquet", "9.parquet"},
            test=lambda r: r["score"] == "high" and r["id"] >= 72,
        ),
        Query(
            where="score is null and id < 4", files={"0-a.parquet"},
            test=lambda r: r["score"] is None and r["id"] < 4,
        ),
    ],
)  # fmt: skip

# --- lists of structs: fields that come, move and go within them -----------------------------------

EVENT = struct(column("at", "timestamp"), KIND, column("size", "integer"))
EVENTFUL = [item | {"type": array(EVENT)} if item["name"] == "events" else item for item in AGAIN]
EVENT_IDS = {**AGAIN_IDS, "events.at": (14, "col-at"), "events.size": (15, "col-size")}
EVENT_CONFIGURATION = MAPPED | {"delta.columnMapping.maxColumnId": "15"}


def with_events(given: Row, events: list[Row | None] | None) -> Row:
    return given | {"events": events}


def wider_events(given: Row) -> Row:
    """Return a row of a file without the new fields of its events."""
    events = given["events"]
    return given | {
        "events": events and [e and {"at": None, "kind": e["kind"], "size": None} for e in events]
    }


EVENT_ROWS = [
    with_events(AGAIN_ROWS[0] | {"id": 101}, [{"at": NOON, "kind": "k", "size": 1}, None]),
    with_events(AGAIN_ROWS[0] | {"id": 102}, []),
    with_events(AGAIN_ROWS[0] | {"id": 103}, None),
    with_events(AGAIN_ROWS[0] | {"id": 104}, [{"at": None, "kind": None, "size": 2}]),
]
MOVED_ROWS = [
    with_events(AGAIN_ROWS[0] | {"id": 105}, [{"at": NOON, "kind": "moved", "size": None}] * 2),
    with_events(AGAIN_ROWS[0] | {"id": 106}, [None, {"at": None, "kind": "x", "size": None}]),
]


def events_type(*fields: tuple[str, pa.DataType]) -> pa.Schema:
    at = AGAIN_SCHEMA.get_field_index("events")
    return AGAIN_SCHEMA.set(at, pa.field("events", pa.list_(pa.struct(list(fields)))))


def stored_events(given: Row, make: Callable[[Row], Row]) -> Row:
    events = given["events"]
    stored = stored_mapped(without(given, "score") | {"col-score-2": given["score"]})
    return stored | {"events": events and [e and make(e) for e in events]}


lists_of_structs = Step(
    name="list-of-struct",
    fields=mapped(EVENTFUL, EVENT_IDS),
    protocol=mapping.protocol,
    configuration=EVENT_CONFIGURATION,
    evolve_row=wider_events,
    files=[
        File(
            name="10-whole.parquet", rows=EVENT_ROWS, partition={"day": "2025-06-30"},
            schema=events_type(("col-at", MICROS), ("kind", pa.string()), ("col-size", pa.int32())),
            stored=[
                stored_events(
                    r, lambda e: {"col-at": e["at"], "kind": e["kind"], "col-size": e["size"]}
                )
                for r in EVENT_ROWS
            ],
        ),
        # Another order, one missing field, and one that no version has.
        File(
            name="10-moved.parquet", rows=MOVED_ROWS, partition={"day": "2025-06-30"},
            schema=events_type(("junk", pa.int64()), ("kind", pa.string()), ("col-at", MICROS)),
            stored=[
                stored_events(
                    r, lambda e: {"junk": 7, "kind": e["kind"], "col-at": e["at"]}
                )
                for r in MOVED_ROWS
            ],
        ),
    ],
    queries=[
        Query(
            where="id > 104", files={"10-moved.parquet"}, test=lambda r: r["id"] > 104,
        ),
        Query(
            where="events is null and id between 101 and 104", files={"10-whole.parquet"},
            test=lambda r: r["events"] is None and 101 <= r["id"] <= 104,
        ),
    ],
)  # fmt: skip

# --- wider types, and rows that go ----------------------------------------------------------------


def changed(*changes: tuple[str, str] | tuple[str, str, str]) -> dict[str, Any]:
    found = []
    for old, new, *path in changes:
        found.append({"fromType": old, "toType": new} | ({"fieldPath": path[0]} if path else {}))
    return {"delta.typeChanges": found}


WIDE_EVENT = struct(
    column("at", "timestamp"), KIND, column("size", "long", **changed(("integer", "long")))
)
WIDE_PERSON = struct(
    column("age", "long", **changed(("integer", "long"))), column("town", "string")
)
WIDE = [
    ID,
    NEW_NAMES[1],
    column("person", WIDE_PERSON),
    column("events", array(WIDE_EVENT)),
    column("amount", "decimal(12,4)", **changed(("decimal(8,2)", "decimal(12,4)"))),
    column("since", "timestamp_ntz", **changed(("date", "timestamp_ntz"))),
    NEW_NAMES[7],
    column("score", "string"),
    NEW_NAMES[8],
]
WIDE_PHYSICAL = pa.schema(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("profile", pa.struct([("age", pa.int64()), ("city", pa.string())])),
        ("events", pa.list_(pa.struct([("col-at", MICROS), ("col-size", pa.int64())]))),
        ("amount", pa.decimal128(12, 4)),
        ("since", pa.timestamp("us")),
        ("year", pa.int32()),
        ("col-score-2", pa.string()),
    ]
)
BIG, LATER = 2**40, datetime(2025, 6, 30, 12, 30, 0, 1)
WIDE_ROWS = [
    {
        "id": 111, "full name": "name 111", "person": {"age": BIG, "town": "far"},
        "events": [{"at": None, "kind": None, "size": BIG}], "amount": Decimal("12345678.1234"),
        "since": LATER, "year": 2025, "score": None, "date": DAY_3,
    },
]  # fmt: skip
WIDE_STORED = [
    {
        "id": 111, "name": "name 111", "profile": {"age": BIG, "city": "far"},
        "events": [{"col-at": None, "col-size": BIG}], "amount": Decimal("12345678.1234"),
        "since": LATER, "year": 2025, "col-score-2": None,
    },
]  # fmt: skip


def at_midnight(given: Row) -> Row:
    day = given["since"]
    return given | {"since": datetime(day.year, day.month, day.day)}


widening = Step(
    name="type-widening",
    fields=mapped(WIDE, EVENT_IDS),
    protocol=features("columnMapping", "typeWidening", "timestampNtz"),
    configuration=EVENT_CONFIGURATION | {"delta.enableTypeWidening": "true"},
    evolve_row=at_midnight,
    files=[
        File(
            name="11.parquet", schema=WIDE_PHYSICAL, stored=WIDE_STORED, rows=WIDE_ROWS,
            partition={"day": "2025-06-30"},
        ),
    ],
    queries=[
        Query(
            where=f"person.age > {2**35}", files={"0-a.parquet", "0-b.parquet", "0-c.parquet",
                                                  "1.parquet", "11.parquet"},
            test=lambda r: ((r["person"] or {}).get("age") or 0) > 2**35,
        ),
        Query(
            where="amount < 0.5001", files={"0-a.parquet"},
            test=lambda r: r["amount"] < Decimal("0.5001"),
        ),
        Query(
            where="since > timestamp_ntz'2025-06-30 00:00:00'", files={"11.parquet"},
            test=lambda r: r["since"] > datetime(2025, 6, 30),
        ),
    ],
)  # fmt: skip

BELOW = (
    add_column, nested_field, check, invariant, generated, mapping, rename, drop, drop_and_add,
    lists_of_structs, widening,
)  # fmt: skip
FIRST_ROWS = reduce(
    lambda rows, step: list(map(step.evolve_row, rows)), BELOW, baseline.files[0].rows
)
vectors = Step(
    name="deletion-vector",
    fields=widening.fields,
    protocol=features("columnMapping", "typeWidening", "timestampNtz", "deletionVectors"),
    configuration=widening.configuration | {"delta.enableDeletionVectors": "true"},
    replaced=("0-a.parquet", "0-b.parquet"),
    files=[
        File(
            name="0-a.parquet", schema=PLAIN, deleted=(1,), partition={"day": "2024-01-01"},
            stored=baseline.files[0].stored, rows=FIRST_ROWS,
        ),
    ],
    queries=[
        Query(where="id = 2", files={"0-a.parquet"}, test=lambda r: r["id"] == 2),
        Query(where="id between 1 and 3", files={"0-a.parquet"}, test=lambda r: 1 <= r["id"] <= 3),
        Query(where="id = 5", files=set(), test=lambda r: r["id"] == 5),
    ],
)  # fmt: skip

STEPS = (baseline, *BELOW, vectors)
