"""Names for the jobs and the Python nodes of this package, so that Spark's pages can be read.

A DataFrame that is handed out runs when its owner says so, under the owner's name; what our
functions do in it is told by their own.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from lazydelta.spark.native import is_connect

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

__all__ = ["described", "named"]

T = TypeVar("T")


def named(name: str, function: Callable[..., T], *arguments: Any) -> partial[T]:
    """Return a function with its first arguments, which plans show under a name.

    Spark asks a function for its name; a partial has none, and would be shown as `partial`.
    """
    task = partial(function, *arguments)
    task.__dict__["__name__"] = name
    return task


@contextmanager
def described(spark: SparkSession, text: str) -> Iterator[None]:
    """Give jobs that are started inside a description, and a tag where there is no description.

    Args:
        spark: A session; through Spark Connect only tags can be set.
        text: What Spark's pages show.
    """
    tag = text.replace(",", " ")
    spark.addTag(tag)
    if not is_connect(spark):
        spark.sparkContext.setJobDescription(text)
    try:
        yield
    finally:
        spark.removeTag(tag)
        if not is_connect(spark):
            spark.sparkContext.setLocalProperty("spark.job.description", None)  # type: ignore[arg-type]
