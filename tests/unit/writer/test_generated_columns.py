"""Generated columns and column defaults."""

from __future__ import annotations

import pickle
import time
from datetime import UTC, date, datetime

import pyarrow as pa
import pytest

from lazydelta.errors import ConstraintViolationError, SchemaMismatchError, UnsupportedFeatureError
from tests.unit.writer.support import batch, planned, with_metadata

AT = pa.schema([("id", pa.int32()), ("at", pa.timestamp("us", "UTC"))])
WITH_DAY = AT.append(pa.field("day", pa.date32()))
TABLE = "id int, at timestamp, day date"
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def generated(expression, incoming=AT, table=TABLE, column="day", **options):
    schema = with_metadata(table, column, {"delta.generationExpression": expression})
    return pickle.loads(pickle.dumps(planned(schema, incoming, **options)))


def test_a_generated_column_is_computed_when_it_is_absent():
    taken = generated("CAST(at AS DATE)", partition_columns=("day",))(
        batch(AT, (1, NOON), (2, None))
    )
    assert taken.column("day").to_pylist() == [date(2026, 3, 1), None]
    taken.validate(full=True)


def test_an_explicit_generated_column_is_compared_null_safely():
    enforcement = generated("CAST(at AS DATE)", WITH_DAY)
    good = batch(WITH_DAY, (1, NOON, date(2026, 3, 1)), (2, None, None))
    assert enforcement(good).to_pylist() == good.to_pylist()
    for bad in ((3, NOON, date(2026, 3, 2)), (3, NOON, None), (3, None, date(2026, 3, 1))):
        with pytest.raises(ConstraintViolationError) as broken:
            enforcement(batch(WITH_DAY, *[tuple(r.values()) for r in good.to_pylist()], bad))
        (line,) = broken.value.violations
        assert "generated column 'day' (CAST(at AS DATE)): violated by 1 of 3 rows" in line


def test_a_generated_column_may_read_a_default():
    schema = with_metadata("id int, n int, twice int", "n", {"CURRENT_DEFAULT": "21"})
    schema = with_metadata(schema, "twice", {"delta.generationExpression": "n * 2"})
    rows = batch([("id", pa.int32())], (1,))
    assert planned(schema, rows.schema)(rows).to_pylist() == [{"id": 1, "n": 21, "twice": 42}]


def test_a_generation_expression_that_fails_refuses_the_rows():
    table = "id int, at timestamp, twice int"
    enforcement = generated("id * 2", table=table, column="twice")
    with pytest.raises(ConstraintViolationError, match="cannot be computed for 1 of 2 rows") as e:
        enforcement(batch(AT, (1, None), (2**31 - 1, None)))
    assert "id=2147483647" in str(e.value)


def test_a_not_null_generated_column_is_checked_for_nulls():
    enforcement = generated("CAST(at AS DATE)", table="id int, at timestamp, day date not null")
    assert enforcement(batch(AT, (1, NOON))).num_rows == 1
    with pytest.raises(ConstraintViolationError, match="column 'day' is NOT NULL"):
        enforcement(batch(AT, (1, None)))


@pytest.mark.parametrize("incoming", [AT, WITH_DAY], ids=["absent", "given"])
@pytest.mark.parametrize("expression", ["my_udf(at)", "CAST(at AS", "id", "from_unixtime(id)"])
def test_an_unsupported_expression_refuses_the_write(expression, incoming):
    with pytest.raises(UnsupportedFeatureError, match="generatedColumns") as refused:
        generated(expression, incoming)
    assert "generated column 'day'" in str(refused.value)


@pytest.mark.parametrize(
    ("kind", "expression", "value"),
    [
        ("int", "7", 7),
        ("bigint", "7", 7),
        ("tinyint", "7", 7),
        ("double", "1.5", 1.5),
        ("string", "'it''s'", "it's"),
        ("string", "NULL", None),
        ("array<int>", "NULL", None),
        ("boolean", "true", True),
        ("date", "date'2026-03-01'", date(2026, 3, 1)),
        ("int", "2 * 3 + 1", 7),
        ("string", "upper('a') || 'b'", "Ab"),
    ],
)
def test_a_default_fills_a_missing_column(kind, expression, value):
    schema = with_metadata(f"id int, d {kind}", "d", {"CURRENT_DEFAULT": expression})
    rows = batch([("id", pa.int32())], (1,), (2,))
    assert planned(schema, rows.schema)(rows).column("d").to_pylist() == [value, value]


def test_an_explicit_null_stays_null():
    schema = with_metadata("id int, d int", "d", {"CURRENT_DEFAULT": "7"})
    rows = batch([("id", pa.int32()), ("d", pa.int32())], (1, None), (2, 3))
    assert planned(schema, rows.schema)(rows).column("d").to_pylist() == [None, 3]


def test_a_default_makes_a_not_null_column_optional():
    rows = batch([("id", pa.int32())], (1,))
    with pytest.raises(SchemaMismatchError, match="column 'd': missing"):
        planned("id int, d int not null", rows.schema)
    schema = with_metadata("id int, d int not null", "d", {"CURRENT_DEFAULT": "7"})
    assert planned(schema, rows.schema)(rows).to_pylist() == [{"id": 1, "d": 7}]


@pytest.mark.parametrize("expression", ["current_timestamp()", "now()", "CURRENT_TIMESTAMP"])
def test_the_time_of_the_write_is_one_for_all_rows(expression):
    schema = with_metadata("id int, d timestamp", "d", {"CURRENT_DEFAULT": expression})
    rows = batch([("id", pa.int32())], (1,), (2,))
    before = time.time_ns() // 1000
    enforcement = planned(schema, rows.schema)
    after = time.time_ns() // 1000
    times = [enforcement(rows).column("d").cast(pa.int64()).to_pylist() for _ in range(2)]
    assert times[0] == times[1]
    assert before <= times[0][0] <= after


def test_today_is_a_date():
    schema = with_metadata("id int, d date", "d", {"CURRENT_DEFAULT": "current_date()"})
    rows = batch([("id", pa.int32())], (1,))
    days = planned(schema, rows.schema)(rows).column("d").cast(pa.int32())[0].as_py()
    assert abs(days - time.time_ns() // 86_400_000_000_000) <= 1


@pytest.mark.parametrize("expression", ["uuid()", "id + 1", "current_user()", "array(1)", "'x'"])
def test_an_unsupported_default_refuses_only_writes_that_need_it(expression):
    schema = with_metadata("id int, d int", "d", {"CURRENT_DEFAULT": expression})
    rows = batch([("id", pa.int32()), ("d", pa.int32())], (1, 2))
    assert planned(schema, rows.schema)(rows).to_pylist() == rows.to_pylist()
    with pytest.raises((UnsupportedFeatureError, SchemaMismatchError), match="default of column"):
        planned(schema, rows.schema.remove(1))
