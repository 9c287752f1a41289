"""Differences between releases of PySpark, 3.5 to 4.2: the only module that knows them.

PySpark 3.5 has no data sources in Python, no variants and no collations; what needs them says so.
Its other differences are names and places of functions.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyspark
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import functions as f
from pyspark.sql import types as t
from pyspark.sql.pandas.types import to_arrow_schema

from lazydelta.errors import UnsupportedOperationError
from lazydelta.spark.conf import is_connect

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.datasource import (
        DataSource,
        DataSourceArrowWriter,
        DataSourceReader,
        DataSourceStreamArrowWriter,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
        InputPartition,
        WriterCommitMessage,
    )
    from pyspark.sql.udtf import AnalyzeArgument, AnalyzeResult

    ArrowTask = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

    IS_SPARK_4: bool
else:
    try:
        from pyspark.sql.datasource import (
            DataSource,
            DataSourceArrowWriter,
            DataSourceReader,
            DataSourceStreamReader,
            DataSourceStreamWriter,
            DataSourceWriter,
            InputPartition,
            WriterCommitMessage,
        )
        from pyspark.sql.udtf import AnalyzeArgument, AnalyzeResult

        try:
            from pyspark.sql.datasource import DataSourceStreamArrowWriter
        except ImportError:

            class DataSourceStreamArrowWriter(DataSourceStreamWriter, DataSourceArrowWriter):
                """Workers of Spark 4.0 pass Arrow to batch writers only; both use `write`."""

        IS_SPARK_4 = True
    except ImportError:
        DataSource = DataSourceReader = DataSourceStreamReader = object
        DataSourceWriter = DataSourceStreamWriter = object
        DataSourceArrowWriter = DataSourceStreamArrowWriter = object
        InputPartition = WriterCommitMessage = AnalyzeArgument = AnalyzeResult = object
        IS_SPARK_4 = False

__all__ = [
    "IS_SPARK_4",
    "VARIANTS",
    "AnalyzeArgument",
    "AnalyzeResult",
    "DataSource",
    "DataSourceArrowWriter",
    "DataSourceReader",
    "DataSourceStreamArrowWriter",
    "DataSourceStreamReader",
    "DataSourceStreamWriter",
    "DataSourceWriter",
    "InputPartition",
    "WriterCommitMessage",
    "add_package",
    "collation",
    "collect_arrow",
    "error_condition",
    "frame_of_arrow",
    "hide_traceback",
    "init_spark_error",
    "map_rows",
    "plan_id",
    "rebalance",
    "repartition_by_id",
    "require_spark_4",
    "tag_jobs",
    "try_cast",
    "with_plan_id",
    "with_schema",
]

VARIANTS: tuple[type[t.DataType], ...] = (t.VariantType,) if hasattr(t, "VariantType") else ()
"""The type of variants, which Spark 3.5 does not have."""
_ROWS_SENT = 65_536


def require_spark_4(what: str, instead: str) -> None:
    """Refuse what PySpark 3.5 cannot do.

    Raises:
        UnsupportedOperationError: This is PySpark 3.5.
    """
    if not IS_SPARK_4:
        release = pyspark.__version__
        cure = f"{instead} (or PySpark 4)"
        raise UnsupportedOperationError(f"{what} on PySpark {release}", cure)


def collect_arrow(df: DataFrame) -> pa.Table:
    """Collect a DataFrame as an Arrow table."""
    if hasattr(df, "toArrow"):
        return df.toArrow()
    frame: Any = df  # of Spark 3.5, where only conversions to pandas are public
    if hasattr(frame, "_collect_as_arrow"):
        batches = frame._collect_as_arrow()  # noqa: SLF001
        return pa.Table.from_batches(batches, None if batches else to_arrow_schema(df.schema))
    client, plan = frame._session.client, frame._plan  # noqa: SLF001
    table, _ = client.to_table(plan.to_proto(client))
    return table.rename_columns(df.columns)


def frame_of_arrow(spark: SparkSession, rows: pa.Table, schema: t.StructType | str) -> DataFrame:
    """Return Arrow rows as a DataFrame."""
    if not rows.num_rows:
        return spark.createDataFrame([], schema)
    if IS_SPARK_4:
        return spark.createDataFrame(rows, schema)
    parts = [batch.serialize().to_pybytes() for batch in rows.to_batches(_ROWS_SENT)]
    kind = rows.schema

    def received(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                yield pa.ipc.read_record_batch(parts[number], kind)

    return spark.range(0, len(parts), 1, len(parts)).mapInArrow(received, schema)


def plan_id(df: DataFrame) -> int:
    """Return the id by which Spark Connect finds the columns of a DataFrame in a query."""
    plan: Any = df._plan  # noqa: SLF001 - only DataFrames of Connect have one
    return int(plan._plan_id)  # noqa: SLF001


def with_plan_id(df: DataFrame, number: int) -> DataFrame:
    """Give a new DataFrame of Spark Connect the plan id of another, so that its columns resolve."""
    plan: Any = df._plan  # noqa: SLF001 - likewise
    name = "_root_plan_id" if hasattr(plan, "_root_plan_id") else "_plan_id"  # before 4.1
    setattr(plan, name, number)
    return df


def with_schema(df: DataFrame, schema: t.StructType) -> DataFrame:
    """Return a DataFrame whose `schema` is this one, which has its columns and types.

    Spark plans with its own, and DataFrames that are derived from this one may have that too.
    """
    # A cached property of PySpark 4, and the caches of PySpark 3.5 and of Spark Connect.
    vars(df).update(schema=schema, _schema=schema, _cached_schema=schema)
    return df


def map_rows(df: DataFrame, task: ArrowTask, schema: t.StructType) -> DataFrame:
    """Return `df.mapInArrow(task, schema)`, whose schema may have no columns."""
    if len(schema):
        return df.mapInArrow(task, schema)

    def counted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in task(batches):  # before 4.1 Spark loses the rows of batches without columns
            yield pa.record_batch([pa.nulls(batch.num_rows, pa.bool_())], names=["row"])

    counted.__name__ = getattr(task, "__name__", "counted")
    return df.mapInArrow(counted, "row boolean").select()


def rebalance(df: DataFrame, columns: Sequence[str]) -> DataFrame:
    """Return the rows in partitions of even sizes, together if they agree in these columns.

    Args:
        df: The rows.
        columns: Names of columns, quoted.
    """
    if IS_SPARK_4 or not columns:
        return df.hint("rebalance", *columns)
    hint = f"REBALANCE({', '.join(columns)})".replace("{", "{{").replace("}", "}}")
    return df.sparkSession.sql(f"SELECT /*+ {hint} */ * FROM {{rows}}", rows=df)  # noqa: S608


def repartition_by_id(df: DataFrame, count: int, column: str) -> DataFrame:
    """Return the rows in partitions whose number is the value of a column."""
    if hasattr(df, "repartitionById"):
        return df.repartitionById(count, f.col(column))
    # A value for each partition that its hash sends there; 64 candidates each leave none without.
    place = f.pmod(f.hash(f.col("id").cast("int")), f.lit(count))
    tried = df.sparkSession.range(64 * count, numPartitions=1).groupBy(place.alias("place"))
    found = {row["place"]: row["value"] for row in tried.agg(f.min("id").alias("value")).collect()}
    values = f.array(*(f.lit(found[number]).cast("int") for number in range(count)))
    sent = df.withColumn("sent to", f.element_at(values, f.col(column).cast("int") + 1))
    return sent.repartition(count, "sent to").drop("sent to")


def try_cast(column: Column, kind: t.DataType) -> Column:
    """Return the values in another type; null where they have none."""
    if IS_SPARK_4:
        return column.try_cast(kind)
    # Spark 3.5 has it in SQL only, and a column cannot be part of that.
    given: Any = column
    context: Any = SparkContext._active_spark_context  # noqa: SLF001
    jvm, inner = context._jvm, given._jc.expr()  # noqa: SLF001
    java = jvm.org.apache.spark.sql
    target, mode = java.types.DataType.fromJson(kind.json()), java.catalyst.expressions.EvalMode
    cast = java.catalyst.expressions.Cast(inner, target, jvm.scala.Option.empty(), mode.TRY())
    made: Column = type(given)(java.Column(cast))
    return made


def collation(kind: t.StringType) -> str | None:
    """Return the collation of strings, if they are not compared byte by byte."""
    if hasattr(kind, "isUTF8BinaryCollation") and not kind.isUTF8BinaryCollation():
        return kind.collation
    return None


def error_condition(error: PySparkException) -> str | None:
    """Return the name of an error of Spark."""
    if hasattr(error, "getCondition"):
        return error.getCondition()
    found: str | None = error.getErrorClass()
    return found


def init_spark_error(error: Any, message: str, condition: str | None) -> None:
    """Initialize an instance of an exception of Spark with a message and the name of an error."""
    if IS_SPARK_4:
        PySparkException.__init__(error, message, condition, {})
        return
    PySparkException.__init__(error, message)  # 3.5 takes either of them
    vars(error).update(error_class=condition)


def hide_traceback(error: BaseException) -> None:
    """Let a Python worker of Spark, which ends with this error, report it without a traceback."""
    os.environ["SPARK_HIDE_TRACEBACK"] = "1"
    if not IS_SPARK_4:  # Spark 3.5 has no such switch
        sys.tracebacklimit = 0
        error.__cause__, error.__suppress_context__ = None, True


def tag_jobs(spark: SparkSession, tag: str, *, is_added: bool) -> None:
    """Add a tag to the jobs of this thread, or remove it."""
    add, remove = ("addTag", "removeTag")
    target: Any = spark
    if not (IS_SPARK_4 or is_connect(spark)):
        add, remove, target = "addJobTag", "removeJobTag", spark.sparkContext
    getattr(target, add if is_added else remove)(tag)


def add_package(spark: SparkSession, path: str) -> None:
    """Send a zip of Python code to the executors; one that is there already is no error."""
    if not (IS_SPARK_4 or is_connect(spark)):
        spark.sparkContext.addPyFile(path)
        return
    try:
        spark.addArtifacts(path, pyfile=True)
    except PySparkException as error:
        if "already" not in str(error).lower():
            raise
