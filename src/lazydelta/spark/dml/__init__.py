"""DELETE, UPDATE and MERGE on Spark: executors find and write rows, the driver commits."""

from __future__ import annotations

from lazydelta.spark.dml.delete import delete
from lazydelta.spark.dml.merge import SparkMergeBuilder, merge
from lazydelta.spark.dml.update import update

__all__ = ["SparkMergeBuilder", "delete", "merge", "update"]
