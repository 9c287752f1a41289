"""Differences between releases of PySpark, 3.5 to 4.2: the only module that knows them.

Spark 3.5 has no data sources in Python, no variants and no collations; what needs them says so.
Its other differences are names and places of functions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyspark
from pyspark.errors import PySparkException
from pyspark.sql import functions as f
from pyspark.sql import types as t
from pyspark.sql.pandas.types import to_arrow_schema

from lazydelta.errors import UnsupportedOperationError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession
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

    HAS_FORMATS: bool
else:
    try:
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

        HAS_FORMATS = True
    except ImportError:
        DataSource = DataSourceReader = DataSourceStreamReader = object
        DataSourceWriter = DataSourceStreamWriter = object
        DataSourceArrowWriter = DataSourceStreamArrowWriter = object
        InputPartition = WriterCommitMessage = AnalyzeArgument = AnalyzeResult = object
        HAS_FORMATS = False

__all__ = [
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
    "repartition_by_id",
    "require_formats",
    "tag_jobs",
    "with_schema",
]

VARIANTS: tuple[type[t.DataType], ...] = (t.VariantType,) if hasattr(t, "VariantType") else ()
"""The type of variants, which Spark 3.5 does not have."""
_ROWS_SENT = 65_536


def require_formats(what: str, instead: str) -> None:
    """Refuse what needs data sources in Python.

    Raises:
        UnsupportedOperationError: This PySpark has none.
    """
    if not HAS_FORMATS:
        release = pyspark.__version__
        raise UnsupportedOperationError(f"{what} on PySpark {release}", f"{instead} (or PySpark 4)")


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
    if HAS_FORMATS:
        return spark.createDataFrame(rows, schema)
    parts = [batch.serialize().to_pybytes() for batch in rows.to_batches(_ROWS_SENT)]
    kind = rows.schema

    def received(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                yield pa.ipc.read_record_batch(parts[number], kind)

    return spark.range(0, len(parts), 1, len(parts)).mapInArrow(received, schema)


def with_schema(df: DataFrame, schema: t.StructType) -> DataFrame:
    """Return a DataFrame whose `schema` is this one, which has its columns and types.

    Spark plans with its own, and DataFrames that are derived from this one may have that too.
    """
    # A cached property of PySpark 4, and the caches of PySpark 3.5 and of Spark Connect.
    vars(df).update(schema=schema, _schema=schema, _cached_schema=schema)
    return df


def repartition_by_id(df: DataFrame, count: int, column: str) -> DataFrame:
    """Return the rows in partitions whose number is the value of a column."""
    if hasattr(df, "repartitionById"):
        return df.repartitionById(count, f.col(column))
    # A value for each partition that its hash sends there.
    place = f.pmod(f.hash(f.col("id").cast("int")), f.lit(count))
    tried = df.sparkSession.range(64 * count, numPartitions=1).groupBy(place.alias("place"))
    found = {row["place"]: row["value"] for row in tried.agg(f.min("id").alias("value")).collect()}
    values = f.array(*(f.lit(found[number]).cast("int") for number in range(count)))
    sent = df.withColumn("sent to", f.element_at(values, f.col(column).cast("int") + 1))
    return sent.repartition(count, "sent to").drop("sent to")


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


def tag_jobs(spark: SparkSession, tag: str, *, is_added: bool) -> None:
    """Add a tag to the jobs of this thread, or remove it."""
    add, remove = ("addTag", "removeTag")
    target: Any = spark
    if not hasattr(spark, add):
        add, remove, target = "addJobTag", "removeJobTag", spark.sparkContext
    getattr(target, add if is_added else remove)(tag)


def add_package(spark: SparkSession, path: str) -> None:
    """Send a zip of Python code to the executors; one that is there already is no error."""
    if not HAS_FORMATS and not type(spark).__module__.startswith("pyspark.sql.connect"):
        spark.sparkContext.addPyFile(path)
        return
    try:
        spark.addArtifacts(path, pyfile=True)
    except PySparkException as error:
        if "already" not in str(error).lower():
            raise
