"""Tables of Spark's catalog: names of tables by location.

The catalog is the only registry. `CREATE TABLE name USING lazydelta OPTIONS (path ...)` stores the
options in the metadata of the columns, and Spark calls the format anew for every query of the
name, so that each sees the newest version.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException

from lazydelta.config import Config
from lazydelta.errors import ArgumentError, ConfigError, TableNotFoundError
from lazydelta.spark.column_functions import quoted
from lazydelta.spark.conf import replay_settings, storage_options_file
from lazydelta.spark.option_parsing import CATALOG_OPTIONS, PINNED_PATH
from lazydelta.spark.serialized_snapshot import open_table_store
from lazydelta.spark.source import source_named
from lazydelta.spark.spark_errors import raises_spark_errors
from lazydelta.spark.spark_releases import require_spark_4
from lazydelta.table import Table

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from lazydelta.store import Store

__all__ = [
    "TableAddress",
    "attach",
    "default_location",
    "find_name",
    "named_address",
    "open_access",
    "open_table",
    "require_names",
    "session_time",
    "split_version",
    "table_exists",
]

_PATH = re.compile(r"\s*(?:delta|lazydelta)\s*\.\s*`(?P<path>(?:[^`]|``)+)`\s*", re.IGNORECASE)
_TO_MICROS = "SELECT unix_micros(try_cast(? AS TIMESTAMP_LTZ))"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PINS = ("versionasof", "timestampasof")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableAddress:
    """Where a table is, and the version that a name pins."""

    url: str
    version: int | None = None
    timestamp: datetime | str | None = None

    @property
    def is_pinned(self) -> bool:
        """Whether it is one version of the table."""
        return self.version is not None or self.timestamp is not None


def split_version(url: str) -> TableAddress:
    """Parse `path@v12`, Delta's notation for a version of a table.

    >>> split_version("/lake/trips@v12").version
    12
    """
    match = PINNED_PATH.fullmatch(url)
    if match is None:
        return TableAddress(url=url)
    return TableAddress(url=match["path"], version=int(match["version"]))


def open_access(spark: SparkSession, url: str | os.PathLike[str]) -> tuple[Store, Config]:
    """Return the store of a table with the storage options that executors have, and settings."""
    config = Config.from_env()
    return open_table_store(url, None, config, storage_options_file(spark)), config


def open_table(spark: SparkSession, url: str | os.PathLike[str]) -> Table:
    """Return a handle on a table, with the storage options that executors have."""
    return Table(*open_access(spark, url))


def table_exists(spark: SparkSession, url: str) -> bool:
    """Whether there is a table at a path or URL."""
    try:
        open_table(spark, url).snapshot()
    except TableNotFoundError:
        return False
    return True


@raises_spark_errors
def attach(spark: SparkSession, tables: Mapping[str, str | os.PathLike[str]]) -> None:
    """Give tables names in SQL: `attach(spark, {"sales": "s3://lake/sales"})`.

    A name is an external table of the current catalog: every query of it reads the newest version,
    also after an INSERT or a commit of another process, and `INSERT INTO` appends. `url@v12` pins
    a version. `DROP TABLE` removes the name and leaves the files alone. A name that is attached
    already is replaced; attach it again after a change of the table's columns, for which
    `lazydelta.spark.sql` has no need.

    Args:
        spark: A session, classic or Spark Connect; its format is registered.
        tables: Locations by name; a name may be qualified by a database.

    Raises:
        TableNotFoundError: There is no table at a location.
        ConfigError: The name belongs to another table or view, or a location holds a secret.
        UnsupportedOperationError: PySpark is older than 4.0.
    """
    require_names()
    spark.dataSource.register(_source(spark))
    for name, url in tables.items():
        address = split_version(str(url))
        table = quoted_name(name)
        open_table(spark, address.url).snapshot(address.version)  # refuses a missing table
        if spark.catalog.tableExists(table):
            if find_name(spark, name) is None:
                raise ConfigError(name, "belongs to another table or view: choose another name")
            spark.sql(f"DROP TABLE {table}")
        spark.sql(f"CREATE TABLE {table} USING lazydelta {_place(address)}")


def require_names() -> None:
    """Refuse names in SQL where Spark has no formats in Python.

    Raises:
        UnsupportedOperationError: PySpark is older than 4.0.
    """
    require_spark_4(
        "a table's name",
        "use its path, delta.`path`, or read(spark, url).createOrReplaceTempView(name)",
    )


def _source(spark: SparkSession) -> Any:
    return source_named(file=storage_options_file(spark), replay=replay_settings(spark))


def _place(address: TableAddress) -> str:
    """Return the clauses that say where a table is.

    `DROP TABLE` deletes the directory of a table without LOCATION, which could be this one. Spark
    opens the file system of a LOCATION, and has none for the stores of most sessions.
    """
    pin = None if address.version is None else f"versionAsOf '{address.version}'"
    if "://" in address.url:
        given = ", ".join(filter(None, [f"path {_string(address.url)}", pin]))
        return f"OPTIONS ({given})"
    options = "" if pin is None else f"OPTIONS ({pin}) "
    return f"{options}LOCATION {_string(str(Path(address.url).absolute()))}"


def find_name(spark: SparkSession, name: str) -> TableAddress | None:
    """Return the table of a name of the catalog; None if it has another format."""
    table = quoted_name(name)
    try:
        schema = spark.table(table).schema
    except PySparkException:
        return None
    stored = [f.metadata[CATALOG_OPTIONS] for f in schema if CATALOG_OPTIONS in f.metadata]
    if not stored:
        return None
    entry = spark.catalog.getTable(table)
    if entry.isTemporary or entry.tableType == "VIEW":  # its columns keep the metadata of a table
        return None
    options = {key.lower(): value for key, value in json.loads(stored[0]).items()}
    if "path" not in options:
        return None
    version, timestamp = (options.get(pin) for pin in _PINS)
    address = split_version(options["path"])
    return TableAddress(
        url=address.url,
        version=address.version if version is None else int(version),
        timestamp=timestamp,
    )


def named_address(spark: SparkSession, name: str) -> TableAddress:
    """Return the table of a name of the catalog, or of `` delta.`path` ``.

    Raises:
        TableNotFoundError: It is no attached table.
    """
    path = _PATH.fullmatch(name)
    if path is not None:
        return split_version(path["path"].replace("``", "`"))
    found = find_name(spark, name)
    if found is None:
        reason = "the name is not attached. Call lazydelta.spark.attach, or give the path"
        raise TableNotFoundError(name, reason)
    return found


def default_location(spark: SparkSession, name: str) -> str:
    """Return where a table without a location is created: below that of its database."""
    *database, table = _parts(name)
    current = database[-1] if database else spark.catalog.currentDatabase()
    root = spark.catalog.getDatabase(current).locationUri
    return f"{root.removeprefix('file:').rstrip('/')}/{table.lower()}"


def session_time(spark: SparkSession, timestamp: str) -> datetime:
    """Let Spark parse a timestamp, in the session's time zone if it has none.

    Raises:
        ArgumentError: It is no timestamp.
    """
    (row,) = spark.sql(_TO_MICROS, [timestamp]).collect()
    try:
        return _EPOCH + timedelta(microseconds=row[0])
    except (TypeError, OverflowError):  # null, or a year that `datetime` does not have
        given = f"The provided timestamp ({timestamp!r})"
        raise ArgumentError(given, "cannot be converted to a valid timestamp") from None


def quoted_name(name: str) -> str:
    """Return a name as SQL, each part in backticks.

    >>> quoted_name("lake.my trips")
    '`lake`.`my trips`'
    """
    return quoted(*_parts(name))


def _parts(name: str) -> list[str]:
    if not isinstance(name, str) or not name.strip():
        raise ConfigError("name", f"must be the name of a table, not {name!r}")
    found = re.findall(r"`((?:[^`]|``)+)`|([^.`]+)", name)
    return [quoted.replace("``", "`") or plain.strip() for quoted, plain in found]


def _string(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
