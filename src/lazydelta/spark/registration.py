"""`register`: the format and the table functions of a session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lazydelta.spark.conf import replay_settings, storage_options_file
from lazydelta.spark.source import source_named
from lazydelta.spark.spark_releases import require_spark_4
from lazydelta.spark.table_functions import register_functions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register"]


def register(spark: SparkSession, name: str = "lazydelta") -> None:
    """Make `lazydelta` a format of a session: `spark.read.format("lazydelta").load(url)`.

    The table functions `delta_history`, `delta_detail`, `delta_files`, `delta_health` and
    `delta_changes` are registered too: `spark.sql("SELECT * FROM delta_history('/lake/trips')")`.

    The option `where` prunes files, row groups and rows. Filters of a query do not: Spark 4.1 and
    4.2 reuse the filters pushed by one query for other queries of the same DataFrame.

    Args:
        spark: A session, classic or Spark Connect; its executors need lazydelta installed. Its
            settings `spark.lazydelta.storageOptionsFile` and
            `spark.lazydelta.distributedLogReplay.*` apply as they are now.
        name: The name of the format; "delta" for code that has it, in a session without Delta's
            own package.

    Raises:
        UnsupportedOperationError: PySpark is older than 4.0.
    """
    require_spark_4("the format", "use lazydelta.spark.read, write and changes")
    file = storage_options_file(spark)
    spark.dataSource.register(source_named(name, file, replay_settings(spark)))
    register_functions(spark, file)
