"""SQL expressions of table metadata have the values of Spark, in ANSI and in legacy mode."""

from __future__ import annotations

import pyarrow as pa
import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from lazydelta.spark.arrow_conversion import spark_schema
from lazydelta.spark.spark_releases import collect_arrow, frame_of_arrow
from tests.spark.cases import interpreting
from tests.unit.writer.expression_cases import ROWS, as_strings, golden

pytestmark = pytest.mark.spark4  # the golden results are those of Spark 4

# The results of Spark are kept in tests/unit/writer/golden, which the default suite checks expressions against.
pytestmark = pytest.mark.long

WRAPPED = {"date_sub(day, i)"}
"""Spark counts on from the other end of the calendar; an expression fails."""
SPARK_NAMES = {
    "byte": "tinyint",
    "short": "smallint",
    "integer": "int",
    "long": "bigint",
    "null": "void",
}


def session_with_rows(spark, *, ansi):
    session = interpreting(spark)
    session.conf.set("spark.sql.session.timeZone", "UTC")
    session.conf.set("spark.sql.ansi.enabled", str(ansi).lower())
    rows = pa.Table.from_batches([ROWS])
    numbered = rows.append_column("row", pa.array(range(len(rows)), pa.int64()))
    frame = frame_of_arrow(session, numbered, spark_schema(numbered.schema))
    frame.createOrReplaceTempView("expression_rows")
    return session


@pytest.mark.parametrize("ansi", [True, False], ids=["ansi", "not-ansi"])
def test_values_and_types_are_sparks(spark, ansi):
    """One job; rows that fail in process are covered by the test below."""
    session = session_with_rows(spark, ansi=ansi)
    wanted = golden()
    columns = []
    for number, (expression, one) in enumerate(wanted.items()):
        rows = [str(row) for row in one["failed"]]
        guarded = (
            f"if(row in ({', '.join(rows)}), null, ({expression}\n))"
            if rows
            else f"({expression}\n)"
        )
        columns.append(f"{guarded} as c{number}")
    frame = session.sql(f"select {', '.join(columns)} from expression_rows order by row")
    table = collect_arrow(frame)
    for number, (expression, one) in enumerate(wanted.items()):
        kind = SPARK_NAMES.get(one["type"], one["type"])
        assert (expression, kind) == (
            expression,
            frame.schema[f"c{number}"].dataType.simpleString(),
        )
        assert (expression, one["values"]) == (
            expression,
            as_strings(table.column(number).combine_chunks()),
        )


def test_rows_that_fail_stop_spark(spark):
    """ANSI mode raises where an expression fails: the value is not merely null."""
    session = session_with_rows(spark, ansi=True)
    given = set()
    for expression, one in golden().items():
        if one["failed"]:
            row = one["failed"][0]
            try:
                collect_arrow(
                    session.sql(f"select ({expression}\n) from expression_rows where row = {row}")
                )
            except (PySparkException, Py4JError):
                continue
            given.add(expression)
    assert given == WRAPPED
