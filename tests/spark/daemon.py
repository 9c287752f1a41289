"""Spark's daemon of Python workers, with the imports that every worker needs.

Run by Spark (`spark.python.daemon.module`, see `tests.spark.workers`), never imported.
"""

from __future__ import annotations

import warnings

from pyspark.daemon import manager

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import pandas  # noqa: F401, ICN001
    import pyarrow.parquet  # noqa: F401

    import lazydelta.spark  # noqa: F401

if __name__ == "__main__":
    manager()
