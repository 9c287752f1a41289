"""Random files and predicates of `tests.property`, as DataFrames."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import strategies as st

from lazydelta.expressions import as_predicate
from lazydelta.replay.skipping import Pruner
from lazydelta.schema import to_arrow_schema
from lazydelta.spark.arrow_conversion import spark_schema
from lazydelta.spark.spark_releases import collect_arrow, frame_of_arrow
from tests.property.skip_cases import PARTITION_COLUMNS, PREDICATES, SCHEMA

ARROW_SCHEMA = to_arrow_schema(SCHEMA)


def predicates(count):
    """Draw many predicates: a Spark job costs the same for one as for all of them."""
    return st.lists(PREDICATES, min_size=count, max_size=count)


def interpreting(spark):
    """Return a session without code generation: compiling many conditions takes longer than running.

    Its time zone differs from ours, which must not matter.
    """
    session = spark.newSession()
    session.conf.set("spark.sql.codegen.wholeStage", "false")
    session.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    session.conf.set("spark.sql.session.timeZone", "America/New_York")
    return session


def pruner_of(predicate):
    return Pruner.build(
        as_predicate(predicate),
        schema=SCHEMA,
        partition_columns=PARTITION_COLUMNS,
        mapping_mode="none",
        generated=True,
    )


def frame_of(spark, columns):
    """Return Arrow columns as a DataFrame with the number of each row."""
    table = pa.Table.from_batches([columns])
    table = table.append_column("at", pa.array(range(len(table)), pa.int64()))
    # By default Spark interprets timestamps without a zone in the session's zone.
    return frame_of_arrow(spark, table, spark_schema(table.schema))


def truths(frame, columns):
    """Return the values of boolean columns, row by row, from one job."""
    named = [column.alias(f"c{at}") for at, column in enumerate(columns)]
    found = collect_arrow(frame.select("at", *named)).sort_by("at")
    return [found.column(f"c{at}").to_pylist() for at in range(len(columns))]


def rows_of(files):
    """Return all rows of some files, with their partition values, as Arrow columns."""
    rows = [row | file.partition for file in files for row in file.rows]
    arrays = []
    for field in ARROW_SCHEMA:
        if field.name == "st":
            nested = [{"k": row["st.k"]} for row in rows]
            arrays.append(pa.array(nested, field.type))
        else:
            arrays.append(pa.array([row[field.name] for row in rows], field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=ARROW_SCHEMA)
