"""Everyday expressions, and expressions over unusual and random rows, have the values of Spark."""

from __future__ import annotations

import numpy as np
import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from lazydelta._arrow import from_numpy
from lazydelta.schema import to_arrow_type
from lazydelta.spark.arrow_conversion import spark_schema, spark_type
from lazydelta.spark.spark_releases import collect_arrow, frame_of_arrow
from tests.spark.cases import interpreting
from tests.spark.expression_rows import (
    EXPRESSIONS,
    INEXACT,
    STRICTER,
    as_strings,
    awkward_rows,
    evaluated,
    random_rows,
    rounded,
)
from tests.unit.expressions.forms import FORMS, as_string, golden

pytestmark = pytest.mark.spark4  # the golden results are those of Spark 4


@pytest.fixture(scope="module")
def utc(spark):
    session = interpreting(spark)
    session.conf.set("spark.sql.session.timeZone", "UTC")
    return session


def columns_of(session, source, expressions):
    """Return columns of one query; if it fails, the error of the first expression that does."""
    try:
        return session.sql(f"select {', '.join(expressions)} {source}")
    except PySparkException:
        for one in expressions:
            collect_arrow(session.sql(f"select {one} {source}"))
        raise


def test_forms_have_the_type_and_value_of_spark(utc):
    wanted = golden()
    given = [form for form in FORMS if wanted[form][1] != "failed"]
    frame = columns_of(utc, "", [f"({form}) as c{at}" for at, form in enumerate(given)])
    table = collect_arrow(frame)
    found = {
        form: [
            frame.schema[at].dataType.simpleString(),
            as_string(table.column(at).combine_chunks()),
        ]
        for at, form in enumerate(given)
    }
    assert found == {form: [_spark_name(form), wanted[form][1]] for form in given}


def _spark_name(form):
    node_type = evaluated(form, None)[0]
    return spark_type(to_arrow_type(node_type)).simpleString()


@pytest.mark.long
def test_forms_that_fail_stop_spark(utc):
    failing = [form for form, (_, value) in golden().items() if value == "failed"]
    assert not [form for form in failing if not _fails(utc, form, "")]


def _fails(session, expression, source):
    try:
        collect_arrow(session.sql(f"select ({expression}) {source}"))
    except (PySparkException, Py4JError):
        return True
    return False


def check_rows(session, rows, checked_failures):
    """Compare all expressions over some rows; of the rows that fail, a few are tried one by one."""
    table = rows.append_column("row", from_numpy(np.arange(rows.num_rows)))
    frame = frame_of_arrow(session, table, spark_schema(table.schema))
    frame.createOrReplaceTempView("parity_rows")
    ours = {sql: evaluated(sql, rows) for sql in EXPRESSIONS}
    guarded = []
    for at, (sql, (_, _, failed)) in enumerate(ours.items()):
        rows_failed = ", ".join(map(str, failed))
        shown = f"if(row in ({rows_failed}), null, ({sql}))" if failed else f"({sql})"
        guarded.append(f"{shown} as c{at}")
    source = "from parity_rows order by row"
    frame = columns_of(session, source, guarded)
    try:
        found = collect_arrow(frame)
    except PySparkException:
        for one in guarded:
            assert not _fails(session, one.rpartition(" as ")[0], source), one
        raise
    for at, (sql, (kind, mine, _)) in enumerate(ours.items()):
        assert (sql, frame.schema[at].dataType.simpleString()) == (
            sql,
            spark_type(to_arrow_type(kind)).simpleString(),
        )
        shown_as = rounded if sql.startswith(INEXACT) else list
        values = shown_as(mine)
        theirs = shown_as(as_strings(found.column(at).combine_chunks()))
        unequal = [
            (row, a, b) for row, (a, b) in enumerate(zip(values, theirs, strict=True)) if a != b
        ]
        shown = [(rows.slice(row, 1).to_pylist(), a, b) for row, a, b in unequal[:1]]
        assert (sql, shown) == (sql, [])
    for sql, (_, _, failed) in ours.items():
        for row in failed[: 0 if sql in STRICTER else checked_failures]:
            one = f"from parity_rows where row = {row}"
            assert _fails(session, sql, one), (sql, rows.slice(row, 1).to_pylist())


def test_awkward_rows_have_the_values_of_spark(utc):
    check_rows(utc, awkward_rows(), 0)


def test_some_random_rows_have_the_values_of_spark(utc):
    check_rows(utc, random_rows(0, 100), 0)


@pytest.mark.long
def test_awkward_rows_that_fail_stop_spark(utc):
    check_rows(utc, awkward_rows(), 2)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1, 5))
def test_random_rows_have_the_values_of_spark(utc, seed):
    check_rows(utc, random_rows(seed, 500), 1)
