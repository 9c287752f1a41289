"""An SQL expression of table metadata gives the values of Spark, in ANSI and in legacy mode."""

from __future__ import annotations

import pyarrow as pa
import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from tests.spark.cases import interpreting
from tests.unit.writer.expression_cases import ROWS, as_text, golden

# What Spark said is kept in tests/unit/writer/golden, which the default suite checks expressions against.
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
    session.createDataFrame(numbered).createOrReplaceTempView("expression_rows")
    return session


@pytest.mark.parametrize("ansi", [True, False], ids=["ansi", "not-ansi"])
def test_values_and_types_are_sparks(spark, ansi):
    """One job: rows that fail in process are left to the test below."""
    session = session_with_rows(spark, ansi=ansi)
    wanted = golden()
    columns = []
    for number, (text, one) in enumerate(wanted.items()):
        rows = [str(row) for row in one["failed"]]
        guarded = f"if(row in ({', '.join(rows)}), null, ({text}\n))" if rows else f"({text}\n)"
        columns.append(f"{guarded} as c{number}")
    frame = session.sql(f"select {', '.join(columns)} from expression_rows order by row")
    table = frame.toArrow()
    for number, (text, one) in enumerate(wanted.items()):
        kind = SPARK_NAMES.get(one["type"], one["type"])
        assert (text, kind) == (text, frame.schema[f"c{number}"].dataType.simpleString())
        assert (text, one["values"]) == (text, as_text(table.column(number).combine_chunks()))


def test_rows_that_fail_stop_spark(spark):
    """The ANSI rules stop where an expression fails: it is not merely a value that is not known."""
    session = session_with_rows(spark, ansi=True)
    given = set()
    for text, one in golden().items():
        if one["failed"]:
            row = one["failed"][0]
            try:
                session.sql(f"select ({text}\n) from expression_rows where row = {row}").toArrow()
            except (PySparkException, Py4JError):
                continue
            given.add(text)
    assert given == WRAPPED
