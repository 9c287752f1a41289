"""Settings of a Spark session: log replay on executors, and storage options.

Read through `spark.conf`, which classic sessions and Spark Connect sessions both have.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lazydelta.spark.option_parsing import boolean, integer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lazydelta.spark.option_parsing import OptionParser

__all__ = [
    "DEFAULTS",
    "STORAGE_OPTIONS_FILE",
    "ReplaySettings",
    "is_connect",
    "is_true",
    "replay_settings",
    "storage_options_file",
]

_PREFIXES = (
    "spark.lazydelta.distributedLogReplay",
    "spark.databricks.delta.v2.distributedLogReplay",
)
"""Our own prefix, then the one of Delta on Databricks; the first that is set wins."""
STORAGE_OPTIONS_FILE = "spark.lazydelta.storageOptionsFile"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaySettings:
    """How Spark replays the log of a table; the keys are `<prefix>.<name>`."""

    enabled: bool = True
    """`enabled`: False always replays in this process."""
    num_partitions: int = 50
    """`numPartitions`: maximum number of tasks that read the log, and shuffle partitions."""
    file_threshold: int = 10_000
    """`fileThreshold`: this process replays tables with fewer files."""


DEFAULTS = ReplaySettings()


def is_connect(spark: SparkSession) -> bool:
    """Whether a session is a Spark Connect session."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def is_true(spark: SparkSession, key: str) -> bool:
    """Whether a boolean setting of Spark is true; Spark ignores the case of its value."""
    # Without a default, which would hide Spark's own.
    return str(spark.conf.get(key)).strip().lower() == "true"


def replay_settings(spark: SparkSession) -> ReplaySettings:
    """Return the settings of a session.

    Raises:
        ConfigError: A setting has an invalid value.
    """
    parsers: dict[str, tuple[str, OptionParser]] = {
        "enabled": ("enabled", boolean),
        "num_partitions": ("numPartitions", integer(1)),
        "file_threshold": ("fileThreshold", integer(0)),
    }
    given = {}
    for field, (name, parse) in parsers.items():
        keys = (f"{prefix}.{name}" for prefix in _PREFIXES)
        for key in keys:
            value = spark.conf.get(key, None)
            if value is not None:
                given[field] = parse(key, value.strip())
                break
    return ReplaySettings(**given)


def storage_options_file(spark: SparkSession) -> str | None:
    """Return the path of the file from which executors load storage options, as a JSON object.

    Without it they use their environment (`AZURE_*`, `AWS_*`, `GOOGLE_*`; a cluster sets it with
    `spark.executorEnv.*`). Storage options are never part of a plan, because logs and user
    interfaces show plans.
    """
    return spark.conf.get(STORAGE_OPTIONS_FILE, None) or None
