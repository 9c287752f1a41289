"""Settings that a Spark session carries: when and how the log is replayed by executors.

Read with `spark.conf`, which a classic session and a Spark Connect session both have.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lazydelta.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["STORAGE_OPTIONS_FILE", "ReplaySettings", "replay_settings", "storage_options_file"]

_PREFIXES = (
    "spark.lazydelta.distributedLogReplay",
    "spark.databricks.delta.v2.distributedLogReplay",
)
"""Ours, and the name that users of Delta know; ours counts where both are set."""
STORAGE_OPTIONS_FILE = "spark.lazydelta.storageOptionsFile"
_BOOLEANS = {"true": True, "false": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaySettings:
    """How the log of a table is replayed on Spark; the keys are `<prefix>.<name>`."""

    enabled: bool = True
    """`enabled`: False always plans in the driver's process."""
    num_partitions: int = 50
    """`numPartitions`: most tasks that read the log, and partitions of a shuffle of its tail."""
    file_threshold: int = 10_000
    """`fileThreshold`: tables of fewer files are planned in the driver's process."""


def replay_settings(spark: SparkSession) -> ReplaySettings:
    """Return the settings of a session.

    Raises:
        ConfigError: A key holds something else than it takes.
    """
    default = ReplaySettings()
    return ReplaySettings(
        enabled=_boolean(spark, "enabled", default.enabled),
        num_partitions=_number(spark, "numPartitions", default.num_partitions, least=1),
        file_threshold=_number(spark, "fileThreshold", default.file_threshold, least=0),
    )


def storage_options_file(spark: SparkSession) -> str | None:
    """Return where executors find the storage options: a JSON object in a file on each of them.

    Without it they use their environment (`AZURE_*`, `AWS_*`, `GOOGLE_*`; a cluster sets it with
    `spark.executorEnv.*`). Options themselves never travel in a plan, which logs and user
    interfaces show.
    """
    return spark.conf.get(STORAGE_OPTIONS_FILE, None) or None


def _found(spark: SparkSession, name: str) -> tuple[str, str] | None:
    """Return key and value of the first spelling of a setting that is set."""
    for prefix in _PREFIXES:
        key = f"{prefix}.{name}"
        value = spark.conf.get(key, None)
        if value is not None:
            return key, value.strip()
    return None


def _boolean(spark: SparkSession, name: str, default: bool) -> bool:
    found = _found(spark, name)
    if found is None:
        return default
    key, text = found
    if text.lower() not in _BOOLEANS:
        raise ConfigError(key, f"must be true or false, not {text!r}")
    return _BOOLEANS[text.lower()]


def _number(spark: SparkSession, name: str, default: int, *, least: int) -> int:
    found = _found(spark, name)
    if found is None:
        return default
    key, text = found
    if not text.isdecimal() or int(text) < least:
        raise ConfigError(key, f"must be a whole number from {least} on, not {text!r}")
    return int(text)
