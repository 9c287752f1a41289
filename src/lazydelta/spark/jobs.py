"""Names and descriptions of the jobs and Python tasks of this package, for Spark's user interface.

A returned DataFrame runs under the caller's description; the plan shows our tasks by name.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from lazydelta.spark.conf import is_connect
from lazydelta.spark.package_shipping import packed
from lazydelta.spark.spark_releases import tag_jobs
from lazydelta.spark.worker_errors import one_line_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa
    from pyspark.sql import SparkSession

    ArrowTask = Callable[..., Iterator[pa.RecordBatch]]

__all__ = ["described", "named_task"]

_DESCRIPTION = "spark.job.description"


def named_task(name: str, function: ArrowTask, *arguments: Any) -> ArrowTask:
    """Return a function for `mapInArrow` with its first arguments bound, and a name in plans.

    Executors that lack this package raise an error of one line.
    """
    unpack = packed(partial(_run, function, *arguments))

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from unpack()(batches)

    task.__name__ = name
    return task


def _run(function: ArrowTask, *arguments: Any) -> Iterator[pa.RecordBatch]:
    with one_line_errors():
        yield from function(*arguments)


@contextmanager
def described(spark: SparkSession, description: str) -> Iterator[None]:
    """Describe the jobs that start inside the block in Spark's user interface.

    Args:
        spark: A session; Spark Connect has no descriptions, so jobs get a tag there.
        description: The description.
    """
    tag = description.replace(",", " ")
    tag_jobs(spark, tag, is_added=True)
    before = None
    if not is_connect(spark):
        before = spark.sparkContext.getLocalProperty(_DESCRIPTION)
        spark.sparkContext.setJobDescription(description)
    try:
        yield
    finally:
        tag_jobs(spark, tag, is_added=False)
        if not is_connect(spark):
            spark.sparkContext.setLocalProperty(_DESCRIPTION, before)  # type: ignore[arg-type]
