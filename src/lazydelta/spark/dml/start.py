"""Start of a verb on Spark: the table, the options, and the condition on its rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lazydelta.config import Config
from lazydelta.errors import ConfigError
from lazydelta.operations.dml import DmlResult, Verb
from lazydelta.snapshot import load_snapshot
from lazydelta.spark.conf import is_true, storage_options_file
from lazydelta.spark.dml.conditions import RowCondition
from lazydelta.spark.planner import check_retention_guard
from lazydelta.spark.serialized_snapshot import TableLocation, open_table_store

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from lazydelta.operations.dml import DmlRequest
    from lazydelta.store.cloud import Credential

__all__ = ["TableAccess", "start_verb"]

_ANSI = "spark.sql.ansi.enabled"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableAccess:
    """Where a table is, and how it is opened."""

    url: str | os.PathLike[str]
    storage_options: Mapping[str, str] | None
    config: Config | None
    credential: Credential | None


def start_verb(
    spark: SparkSession,
    name: str,
    access: TableAccess,
    request: DmlRequest,
    *,
    only_appends: bool = False,
) -> tuple[Verb, RowCondition] | DmlResult:
    """Validate a request; a result if its application transaction is applied already.

    Raises:
        ConfigError: The session is not in ANSI mode, or executors cannot open the table.
    """
    if not is_true(spark, _ANSI):
        reason = "must be true, or values that overflow would be stored as other values"
        raise ConfigError(_ANSI, f'{reason}; run spark.conf.set("{_ANSI}", "true") first')
    config = Config.from_env() if access.config is None else access.config
    options_file = storage_options_file(spark)
    store = open_table_store(
        access.url, access.storage_options, config, options_file, credential=access.credential
    )
    snapshot = load_snapshot(store, config)
    condition = RowCondition.parse(spark, snapshot, request.where, request.now)
    known = replace(request, where=condition.predicate)
    verb = Verb.start(
        name, store, config, known,
        known=snapshot, remember=lambda _: None, only_appends=only_appends,
    )  # fmt: skip
    if isinstance(verb, DmlResult):
        return verb
    check_retention_guard(verb.snapshot)
    TableLocation.of(store, config, options_file)  # raises before any job starts
    return verb, condition
