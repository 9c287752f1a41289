"""Expressions of UPDATE and MERGE: Spark's functions, one time a statement, nested values."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest

import lazydelta as ld
from lazydelta.errors import ConstraintViolationError, PredicateError


@pytest.fixture
def table(tmp_path):
    rows = pa.table(
        {
            "id": pa.array([1, 2, 3], pa.int64()),
            "name": ["straße", None, "Bo"],
            "price": pa.array([2.675, -1.5, None]),
            "tags": pa.array([["a"], None, []], pa.list_(pa.string())),
            "seen": pa.array([None] * 3, pa.timestamp("us", "UTC")),
            "again": pa.array([None] * 3, pa.timestamp("us", "UTC")),
        }
    )
    ld.write(tmp_path / "t", rows)
    return ld.Table.open(tmp_path / "t")


def rows_of(table):
    return sorted(table.scan().to_arrow().to_pylist(), key=lambda row: row["id"])


def test_an_update_computes_the_functions_of_spark(table):
    table.update(
        {
            "name": "coalesce(upper(name), lpad(id, 3, '0'))",
            "price": "case when price > 0 then round(price, 2) else abs(price) end",
            "tags": "coalesce(tags, split(concat_ws(',', id, 'x'), ','))",
        },
        where="length(coalesce(name, 'none')) >= 4",
    )
    found = [(row["name"], row["price"], row["tags"]) for row in rows_of(table)]
    assert found == [("STRASSE", 2.68, ["a"]), ("002", 1.5, ["2", "x"]), ("Bo", None, [])]


def test_all_assignments_and_the_condition_have_one_time(table):
    before = datetime.now(UTC)
    table.update(
        {"seen": "current_timestamp()", "again": "now()"}, where="current_date >= '2020-01-01'"
    )
    rows = rows_of(table)
    times = {row["seen"] for row in rows} | {row["again"] for row in rows}
    assert len(times) == 1
    assert before <= times.pop() <= datetime.now(UTC)


def test_a_value_that_cannot_be_computed_commits_nothing(table):
    version = table.version
    with pytest.raises(ConstraintViolationError, match="cannot be computed"):
        table.update({"id": "id div (id - 2)"})
    with pytest.raises(PredicateError, match="no function 'rand'"):
        table.update({"price": "rand()"})
    assert table.version == version


def test_a_merge_computes_the_functions_of_spark(table):
    source = pa.table({"key": ["1", "7"], "name": ["x", "y"]})
    (
        table.merge(source, on="t.id = cast(s.key as bigint)")
        .when_matched_update(set={"name": "concat(s.name, '-', t.name)", "seen": "now()"})
        .when_not_matched_insert(
            values={"id": "cast(s.key as bigint)", "name": "md5(s.name)", "seen": "now()"}
        )
        .execute()
    )
    rows = rows_of(table)
    assert rows[0]["name"] == "x-straße"
    assert rows[-1]["name"] == "415290769594460e2e485922904f345d"
    assert rows[0]["seen"] == rows[-1]["seen"] is not None
