"""DELETE on Spark: the rows leave their files as in one process; executors do the work."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import orjson
from pyspark.sql import functions as f

from lazydelta.operations import UncommittedFiles
from lazydelta.operations.dml import (
    DmlRequest,
    DmlResult,
    has_change_feed,
    refuse_row_tracking,
    split_by_statistics,
)
from lazydelta.spark.dml.columns import CLAUSE
from lazydelta.spark.dml.conditions import mentioned_columns
from lazydelta.spark.dml.run import find_rows
from lazydelta.spark.dml.start import SparkVerb

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from lazydelta.config import Config
    from lazydelta.scan import Where
    from lazydelta.spark.dml.run import VerbRun
    from lazydelta.store.cloud import Credential

__all__ = ["delete"]
