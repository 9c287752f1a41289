"""The table of a maintenance verb on Spark, as the driver opens it and as executors do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lazydelta.config import Config
from lazydelta.spark.conf import storage_options_file
from lazydelta.spark.serialized_snapshot import (
    SerializedSnapshot,
    TableLocation,
    open_table_store,
)

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from lazydelta.snapshot import SnapshotState
    from lazydelta.store import Store
    from lazydelta.store.cloud import Credential

__all__ = ["OpenTable"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTable:
    """A table that the driver has opened, and executors can open."""

    spark: SparkSession
    store: Store
    config: Config

    @classmethod
    def at(
        cls,
        spark: SparkSession,
        url: str | os.PathLike[str],
        storage_options: Mapping[str, str] | None,
        config: Config | None,
        credential: Credential | None,
    ) -> OpenTable:
        """Open a table.

        Raises:
            ConfigError: Executors cannot open it.
        """
        config = Config.from_env() if config is None else config
        options_file = storage_options_file(spark)
        store = open_table_store(url, storage_options, config, options_file, credential=credential)
        TableLocation.of(store, config, options_file)  # raises before any job starts
        return cls(spark=spark, store=store, config=config)

    def saved(self, snapshot: SnapshotState) -> SerializedSnapshot:
        """Return a snapshot for executors."""
        return SerializedSnapshot.of(snapshot, storage_options_file(self.spark))
