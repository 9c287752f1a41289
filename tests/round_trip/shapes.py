"""Test tables: their steps, and the expected rows of each version.

A shape depends on no engine. Its rows are Python values computed from a number. Expected rows are
kept beside the table, so that no engine's reader is the reference for another's writer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

from lazydelta import Table

Row = dict[str, Any]
Step = Callable[[Table, list[Row]], list[Row]]
"""Writes to a table of ours that holds these rows, and returns the rows it must hold then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A table: its creation, its steps, and the rows as they are read."""

    columns: str
    row: Callable[[int], Row]
    """The row of a number, with the columns that the table has after all steps."""
    steps: tuple[Step, ...]
    partition_by: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    constraints: Mapping[str, str] = field(default_factory=dict)
    filled: tuple[str, ...] = ()
    """Columns that the table computes: rows are written without them."""
    stored: Callable[[Row], Row] = lambda row: row
    """Converts a written row to what is read back, where the protocol loses precision."""
    appends_only: bool = False

    def create(self, path: str) -> Table:
        """Create the table, without rows."""
        return Table.create(
            path,
            self.columns,
            partition_by=self.partition_by,
            properties=self.properties,
            constraints=self.constraints,
        )

    def rows(self, *numbers: int) -> list[Row]:
        """Return the rows of some numbers."""
        return [self.row(number) for number in numbers]

    def given(self, table: Table, rows: list[Row]) -> pa.Table:
        """Return rows without the columns that the table computes."""
        schema = table.snapshot().scan().to_reader().schema
        wanted = pa.schema([part for part in schema if part.name not in self.filled])
        return pa.Table.from_pylist(rows, schema=wanted)


def append(
    row: Callable[[int], Row],
    *numbers: int,
    filled: tuple[str, ...] = (),
    schema: pa.Schema | None = None,
    **how: Any,
) -> Step:
    """Append rows, in an Arrow `schema` or in that of the table."""

    def step(table: Table, rows: list[Row]) -> list[Row]:
        new = [row(number) for number in numbers]
        found = schema or table.snapshot().scan().to_reader().schema
        wanted = pa.schema([part for part in found if part.name not in filled])
        table.write(pa.Table.from_pylist(new, schema=wanted), "append", **how)
        return [*rows, *new]

    return step


def overwrite(
    row: Callable[[int], Row],
    *numbers: int,
    keeps: Callable[[Row], bool] = lambda row: False,
    schema: pa.Schema | None = None,
    **how: Any,
) -> Step:
    """Replace all rows, or with `where` those for which `keeps` is false."""

    def step(table: Table, rows: list[Row]) -> list[Row]:
        new = [row(number) for number in numbers]
        wanted = schema or table.snapshot().scan().to_reader().schema
        table.write(pa.Table.from_pylist(new, schema=wanted), "overwrite", **how)
        return [*filter(keeps, rows), *new]

    return step


def alter(verb: str, *args: Any, then: Callable[[Row], Row] = lambda row: row) -> Step:
    """Alter the table; `then` converts each row."""

    def step(table: Table, rows: list[Row]) -> list[Row]:
        assert getattr(table.alter, verb)(*args).changed
        return [then(row) for row in rows]

    return step


def checkpoint(table: Table, rows: list[Row]) -> list[Row]:
    """Write a checkpoint of the latest version."""
    table.checkpoint()
    return rows


def renamed(old: str, new: str) -> Callable[[Row], Row]:
    return lambda row: {(new if key == old else key): value for key, value in row.items()}


def without(name: str) -> Callable[[Row], Row]:
    return lambda row: {key: value for key, value in row.items() if key != name}


FURTHER = 1000
"""First row number after the steps of a shape."""
START = datetime(2026, 1, 1, tzinfo=UTC)
LONG = "ä😀" * 40
"""Longer than a bound of the statistics, of characters of 2 and of 4 bytes."""


def plain(n: int) -> Row:
    return {
        "id": n,
        "name": [None, f"name {n % 7}", "", LONG + str(n), "it's"][n % 5],
        "value": [n / 3, None, -n * 1e300, 0.0][n % 4],
        "at": START + timedelta(days=n, microseconds=n * 1001),
    }


PLAIN = "id long, name string, value double, at timestamp"

STRINGS = (
    None,
    "",
    "a b",
    "a/b=c",
    "x=%2F",
    "ünï😀",
    "q'\"?#&+*{}[]^\\",
    "<a>|`~",
    "!$&(b),;@",
    "tab\tline\n",
    "__HIVE_DEFAULT",
)


def by_text(n: int) -> Row:
    string = STRINGS[n % len(STRINGS)]
    return {"id": n, "p": string, "n": [None, -5, 70000][n % 3], "v": f"v{n}"}


def by_stored_text(row: Row) -> Row:
    return row | {"p": row["p"] or None}  # an empty partition value is null


def by_time(n: int) -> Row:
    # deltalake 1.6 cannot write negative decimals as partition values; it must read ours.
    small = Decimal("-1.05") if n < FURTHER else Decimal("0.05")
    return {
        "id": n,
        "day": [date(2026, 1, 1), date(1969, 12, 31), None, date(1, 1, 1)][n % 4],
        "at": [START + timedelta(microseconds=1), START, None, START - timedelta(days=30000)][
            n % 4
        ],
        "amount": [Decimal("1.50"), small, None][n % 3],
        "yes": [True, False, None][n % 3],
    }


def all_types(n: int) -> Row:
    if n % 10 == 9:
        return {"id": n} | dict.fromkeys(ALL_TYPES_NULLABLE)
    inner = None if n % 4 == 3 else {"x": n, "deep": {"day": date(2020, 2, 29), "l": [n, None]}}
    return {
        "id": n,
        "b": n % 256 - 128,
        "s": n * 300 % 65536 - 32768,
        "i": n - 2**31,
        "f": [0.5, -0.0, math.nan, math.inf, None][n % 5],
        "d": [1e-300, math.nan, -math.inf, 2.0**53 + n][n % 4],
        "small": Decimal(n).scaleb(-2),
        "large": Decimal("1234567890123456789012345678.0123456789") - n,
        "yes": n % 2 == 0,
        "text": LONG + str(n) if n % 3 else f"t{n}",
        "raw": bytes([n % 256, 0, 255]),
        "day": date(1970, 1, 1) + timedelta(days=n * 999 - 5000),
        "at": datetime(1969, 12, 31, 23, 59, 59, 999_999 - n, tzinfo=UTC),
        "st": inner,
        "structs": [None, [], [{"k": f"k{n}", "v": None}, {"k": None, "v": 1.5}]][n % 3],
        "lists": [[[n], [], None], [None], None][n % 3],
        "m": [[("a", {"q": n}), ("b", None)], [], None][n % 3],
        "ml": [[(n, ["x", None])], None][n % 2],
    }


ALL_TYPES = """id long not null, b byte, s short, i int, f float, d double, small decimal(5,2),
    large decimal(38,10), yes boolean, text string, raw binary, day date, at timestamp,
    st struct<x: long, deep: struct<day: date, l: array<int>>>,
    structs array<struct<k: string, v: double>>, lists array<array<long>>,
    m map<string, struct<q: int>>, ml map<long, array<string>>"""
ALL_TYPES_NULLABLE = (
    "b", "s", "i", "f", "d", "small", "large", "yes", "text", "raw", "day", "at", "st", "structs",
    "lists", "m", "ml",
)  # fmt: skip


def mapped_first(n: int) -> Row:
    inner = {"a": n, "b": f"b{n}"}
    return {"id": n, "p": f"p {n % 3}", "gone": 7, "st": inner, "l": [{"q": n}, None]}


def mapped(n: int) -> Row:
    inner = {"first name": n, "late": None if n % 2 else n * 10}
    return {"key": n, "the part": f"p {n % 3}", "st": inner, "l": [{"q": n}], "gone": f"back {n}"}


def mapped_last_steps(row: Row) -> Row:
    return row | {"st": row["st"] and row["st"] | {"late": None}, "gone": None}


def mapped_inner(row: Row) -> Row:
    return row | {"st": {"first name": row["st"]["a"], "b": row["st"]["b"]}}


def mapped_shorter(row: Row) -> Row:
    return row | {"st": {"first name": row["st"]["first name"]}}


def ruled(n: int) -> Row:
    day = date(2026, 1, 1) + timedelta(days=40 * n)
    return {"id": n, "day": day, "month": day.month, "fare": Decimal(n).scaleb(-1), "note": "none"}


def narrow(n: int) -> Row:
    return {"id": n, "b": n % 100, "f": n / 2, "d": Decimal(n), "st": {"x": n}, "l": [n % 100]}


def wide(n: int) -> Row:
    large = 1 << 40
    return {
        "id": n,
        "b": (1 << 20) + n,
        "f": n / 3,
        "d": Decimal("12345678.1234") + n,
        "st": {"x": large + n},
        "l": [1 << 20, None],
    }


def wall_clock(n: int) -> Row:
    time = datetime(1969, 12, 31, 23, 59, 59, 999_000) + timedelta(microseconds=n * 700)  # noqa: DTZ001
    return {"id": n, "local": None if n % 7 == 6 else time, "st": {"at": time}, "day": time.date()}


def merged_first(n: int) -> Row:
    return {"id": n, "st": {"a": n}, "l": [{"x": n}]}


def merged_second(n: int) -> Row:
    return merged_first(n) | {"st": {"a": n, "b": f"b{n}"}, "name": f"n{n}"}


def merged(n: int) -> Row:
    return merged_second(n) | {"l": [{"x": n, "y": n / 2}], "day": date(2026, 1, 1)}


def merged_schema(*extra: str) -> pa.Schema:
    inside = [("a", pa.int64())] + ([("b", pa.string())] if "name" in extra else [])
    items = [("x", pa.int64())] + ([("y", pa.float64())] if "day" in extra else [])
    fields = [
        ("id", pa.int64()),
        ("st", pa.struct(inside)),
        ("l", pa.list_(pa.struct(items))),
        ("name", pa.string()),
        ("day", pa.date32()),
    ]
    return pa.schema(fields[: 3 + len(extra)])


def merge_of_names(row: Row) -> Row:
    return row | {"st": row["st"] | {"b": None}, "name": None}


def merge_of_days(row: Row) -> Row:
    return row | {"l": [item | {"y": None} for item in row["l"]], "day": None}


def then(step: Step, became: Callable[[Row], Row]) -> Step:
    """Return a step that also converts the existing rows."""
    return lambda table, rows: step(table, [became(row) for row in rows])


def grouped(n: int) -> Row:
    return {"id": n, "g": f"g{n % 3}", "v": n * 1.5}


def regrouped(n: int) -> Row:
    return {"id": n, "g": f"g{n % 3}", "word": f"w{n}"}


REGROUPED = pa.schema([("id", pa.int64()), ("g", pa.string()), ("word", pa.string())])


def measured(n: int) -> Row:
    return {"id": n, "a": n % 10, "b": f"b{n}", "st": {"x": n, "y": -n}}


MEASURED = "id long, a int, b string, st struct<x: long, y: long>"


def two_appends(row: Callable[[int], Row], **how: Any) -> tuple[Step, ...]:
    return (append(row, *range(12), **how), append(row, *range(12, 20), **how))


def with_property(name: str, *more: Step) -> Shape:
    """A table of plain rows with a boolean property; the steps follow two appends."""
    return Shape(
        columns=PLAIN, properties={name: "true"}, row=plain, steps=(*two_appends(plain), *more)
    )


SHAPES: dict[str, Shape] = {
    "unpartitioned": Shape(
        columns=PLAIN, row=plain, steps=(*two_appends(plain), append(plain, 20, app_id="a", app_version=3))
    ),
    "partitioned-by-string": Shape(
        columns="id long, p string, n int, v string",
        partition_by=("p", "n"),
        row=by_text,
        stored=by_stored_text,
        steps=(append(by_text, *range(27)), append(by_text, *range(27, 40))),
    ),
    "partitioned-by-times": Shape(
        columns="id long, day date, at timestamp, amount decimal(9,2), yes boolean",
        partition_by=("day", "at", "amount", "yes"),
        row=by_time,
        steps=(append(by_time, *range(12)), append(by_time, *range(12, 24)), checkpoint),
    ),
    "all-types": Shape(
        columns=ALL_TYPES,
        row=all_types,
        steps=(append(all_types, *range(30)), append(all_types, *range(30, 40)), checkpoint),
    ),
    "column-mapping": Shape(
        columns="id long, p string, gone int, st struct<a: long, b: string>, l array<struct<q: long>>",
        partition_by=("p",),
        properties={"delta.columnMapping.mode": "name"},
        row=mapped,
        steps=(
            append(mapped_first, *range(8)),
            alter("rename_column", "id", "key", then=renamed("id", "key")),
            alter("rename_column", "p", "the part", then=renamed("p", "the part")),
            alter("rename_column", "st.a", "first name", then=mapped_inner),
            alter("drop_column", "gone", then=without("gone")),
            alter("drop_column", "st.b", then=mapped_shorter),
            alter("add_columns", {"st.late": "long", "gone": "string"}, then=mapped_last_steps),
            checkpoint,
            append(mapped, *range(8, 14)),
        ),
    ),
    "column-mapping-later": Shape(
        columns=PLAIN,
        row=lambda n: renamed("name", "full name")(plain(n)),
        steps=(
            append(plain, *range(6)),
            alter("set_properties", {"delta.columnMapping.mode": "name"}),
            alter("rename_column", "name", "full name", then=renamed("name", "full name")),
            append(lambda n: renamed("name", "full name")(plain(n)), *range(6, 12)),
        ),
    ),
    "deletion-vectors": with_property("delta.enableDeletionVectors"),
    "change-feed": with_property("delta.enableChangeDataFeed", overwrite(plain, *range(100, 105))),
    "rules": Shape(
        columns="""id long not null, day date, month int generated always as (month(day)),
            fare decimal(8,1), note string default 'none'""",
        constraints={"paid": "fare >= 0"},
        row=ruled,
        filled=("month", "note"),
        steps=two_appends(ruled, filled=("month", "note")),
    ),
    "in-commit-timestamps": with_property("delta.enableInCommitTimestamps"),
    "row-tracking": with_property("delta.enableRowTracking", checkpoint),
    "v2-checkpoint": Shape(
        columns=PLAIN,
        properties={"delta.checkpointPolicy": "v2", "delta.checkpointInterval": "2"},
        row=plain,
        steps=(*two_appends(plain), append(plain, 20), append(plain, 21)),
    ),
    "type-widening": Shape(
        columns="id long, b byte, f float, d decimal(5,2), st struct<x: int>, l array<short>",
        properties={"delta.enableTypeWidening": "true"},
        row=wide,
        steps=(
            append(narrow, *range(10)),
            alter("change_type", "b", "int"),
            alter("change_type", "f", "double"),
            alter("change_type", "d", "decimal(12,4)"),
            alter("change_type", "st.x", "long"),
            alter("change_type", "l.element", "int"),
            append(wide, *range(10, 16)),
            checkpoint,
        ),
    ),
    "timestamp-ntz": Shape(
        columns="id long, local timestamp_ntz, st struct<at: timestamp_ntz>, day date",
        partition_by=("day",),
        row=wall_clock,
        steps=(*two_appends(wall_clock), checkpoint),
    ),
    "append-only": Shape(
        columns=PLAIN,
        properties={"delta.appendOnly": "true"},
        row=plain,
        steps=two_appends(plain),
        appends_only=True,
    ),
    "many-commits": Shape(
        columns=PLAIN,
        properties={"lazydelta.logCompactionInterval": "4"},
        row=plain,
        steps=tuple(append(plain, n) for n in range(25)),
    ),
    "schema-merge": Shape(
        columns="id long, st struct<a: long>, l array<struct<x: long>>",
        row=merged,
        steps=(
            append(merged_first, *range(5)),
            then(
                append(merged_second, *range(5, 9), schema=merged_schema("name"), schema_mode="merge"),
                merge_of_names,
            ),
            then(
                append(merged, *range(9, 12), schema=merged_schema("name", "day"), schema_mode="merge"),
                merge_of_days,
            ),
        ),
    ),
    "overwritten": Shape(
        columns="id long, g string, v double",
        partition_by=("g",),
        row=regrouped,
        steps=(
            append(grouped, *range(9)),
            overwrite(grouped, *range(10, 19)),
            overwrite(
                grouped, 20, 23, 26, where="g = 'g2'", keeps=lambda row: row["g"] != "g2"
            ),
            overwrite(
                grouped, 13, where="id between 12 and 14", keeps=lambda row: not 12 <= row["id"] <= 14
            ),
            overwrite(regrouped, *range(30, 36), schema=REGROUPED, schema_mode="overwrite"),
            append(regrouped, 36, 37),
        ),
    ),
    "statistics-of-none": Shape(
        columns=MEASURED,
        properties={"delta.dataSkippingNumIndexedCols": "0"},
        row=measured,
        steps=(*two_appends(measured), checkpoint),
    ),
    "statistics-of-two": Shape(
        columns=MEASURED,
        properties={"delta.dataSkippingNumIndexedCols": "2"},
        row=measured,
        steps=(*two_appends(measured), checkpoint),
    ),
    "statistics-of-some": Shape(
        columns=MEASURED,
        properties={"delta.dataSkippingStatsColumns": "b,st.y"},
        row=measured,
        steps=(*two_appends(measured), checkpoint),
    ),
}  # fmt: skip
