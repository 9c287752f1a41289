"""`DeltaTable`: a table with the methods of `delta.tables.DeltaTable`, on stock PySpark."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, SparkSession

from lazydelta.errors import (
    ArgumentError,
    ConfigError,
    UnsupportedOperationError,
)
from lazydelta.operations import as_schema
from lazydelta.operations.conversion import clone_table, convert_files
from lazydelta.spark.delta_api.arguments import (
    as_assignments,
    as_condition,
    as_sql,
    check_type,
    without_alias,
)
from lazydelta.spark.delta_api.column_definitions import DeltaColumnBuilder
from lazydelta.spark.delta_api.delta_merge import DeltaMergeBuilder
from lazydelta.spark.delta_api.delta_optimize import DeltaOptimizeBuilder
from lazydelta.spark.delta_api.table_definition import CreationMode, TableDefinition
from lazydelta.spark.dml import delete, update
from lazydelta.spark.maintenance import restore, vacuum
from lazydelta.spark.read import read
from lazydelta.spark.result_frames import (
    DETAIL,
    HISTORY,
    detail_rows,
    frame_of,
    history_rows,
    restore_frame,
    vacuum_frame,
)
from lazydelta.spark.spark_errors import with_spark_errors
from lazydelta.spark.spark_releases import with_schema
from lazydelta.spark.table_names import (
    TableAddress,
    named_address,
    open_access,
    open_table,
    session_time,
    split_version,
    table_exists,
)
from lazydelta.statements import TargetNames

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column
    from pyspark.sql import types as t

__all__ = ["DeltaTable"]

_RETENTION_CHECK = "spark.databricks.delta.retentionDurationCheck.enabled"


@with_spark_errors
@dataclass(frozen=True, slots=True)
class DeltaTable:
    """A Delta table on Spark, with the methods and arguments of `delta.tables.DeltaTable`.

    `DeltaTable.forPath(spark, "s3://lake/trips").delete("day < '2026-01-01'")`. Every method
    uses the newest version when it is called. Conditions and values are SQL strings, or columns
    that have SQL text.
    """

    spark: SparkSession
    address: TableAddress
    aliased: str | None = None

    # --- which table

    @classmethod
    def forPath(  # noqa: N802 - Delta's name
        cls,
        sparkSession: SparkSession,  # noqa: N803
        path: str,
        hadoopConf: Mapping[str, str] | None = None,  # noqa: ARG003, N803
    ) -> DeltaTable:
        """Return the table at a path or URL; `path@v12` is one version of it, to read.

        Args:
            sparkSession: A session, classic or Spark Connect.
            path: The location.
            hadoopConf: Accepted for compatibility, without effect: credentials come from the
                environment or the session's `spark.lazydelta.storageOptionsFile`.

        Raises:
            TableNotFoundError: There is no table.
        """
        check_type("path", path, str, "a string")
        address = split_version(path)
        open_table(sparkSession, address.url).snapshot(address.version)
        return cls(sparkSession, address)

    @classmethod
    def forName(cls, sparkSession: SparkSession, tableOrViewName: str) -> DeltaTable:  # noqa: N802, N803
        """Return the table that a name of Spark's catalog, or `` delta.`path` ``, stands for.

        Raises:
            TableNotFoundError: The name is not attached.
        """
        check_type("tableOrViewName", tableOrViewName, str, "a string")
        return cls(sparkSession, named_address(sparkSession, tableOrViewName))

    @classmethod
    def isDeltaTable(cls, sparkSession: SparkSession, identifier: str) -> bool:  # noqa: N802, N803
        """Whether there is a table at a path or URL."""
        return table_exists(sparkSession, identifier)

    @classmethod
    def convertToDelta(  # noqa: N802
        cls,
        sparkSession: SparkSession,  # noqa: N803
        identifier: str,
        partitionSchema: str | t.StructType | None = None,  # noqa: N803
    ) -> DeltaTable:
        """Make a table of a directory of Parquet files: `` parquet.`/lake/trips` ``."""
        kind, _, path = identifier.partition(".")
        if kind.strip("` ").lower() != "parquet" or not path:
            raise ArgumentError("identifier", f"must be parquet.`path`, not {identifier!r}")
        columns = partitionSchema or ()
        if not isinstance(columns, str | tuple):
            columns = ", ".join(f"`{f.name}` {f.dataType.simpleString()}" for f in columns)
        url = path.strip("` ")
        store, config = open_access(sparkSession, url)
        partition_by = as_schema(columns, where=store.root)
        convert_files(store, config, partition_by=partition_by, properties={}, dry_run=False)
        return cls(sparkSession, TableAddress(url=url))

    # --- definitions of new tables

    @classmethod
    def create(cls, sparkSession: SparkSession | None = None) -> TableDefinition:  # noqa: N803
        """Define a table to create; `execute()` fails if it exists."""
        return cls._defined(sparkSession, "create")

    @classmethod
    def createIfNotExists(cls, sparkSession: SparkSession | None = None) -> TableDefinition:  # noqa: N802, N803
        """Define a table to create unless it exists."""
        return cls._defined(sparkSession, "createIfNotExists")

    @classmethod
    def replace(cls, sparkSession: SparkSession | None = None) -> TableDefinition:  # noqa: N803
        """Define a table that replaces an existing one: its rows, columns and properties."""
        return cls._defined(sparkSession, "replace")

    @classmethod
    def createOrReplace(cls, sparkSession: SparkSession | None = None) -> TableDefinition:  # noqa: N802, N803
        """Define a table to create, or to replace if it exists."""
        return cls._defined(sparkSession, "createOrReplace")

    @classmethod
    def columnBuilder(  # noqa: N802
        cls,
        name: str,
        sparkSession: SparkSession | None = None,  # noqa: N803
    ) -> DeltaColumnBuilder:
        """Define a column for `addColumn`."""
        return DeltaColumnBuilder(_session(sparkSession), name)

    @classmethod
    def _defined(cls, spark: SparkSession | None, mode: CreationMode) -> TableDefinition:
        return TableDefinition(_session(spark), mode, cls.forPath)

    # --- reading

    def toDF(self) -> DataFrame:  # noqa: N802
        """Return the rows, read as by `lazydelta.spark.read`."""
        at = self.address
        rows = read(self.spark, at.url, version=at.version, timestamp=at.timestamp)
        if self.aliased is None:
            return rows
        return with_schema(rows.alias(self.aliased), rows.schema)

    def alias(self, aliasName: str) -> DeltaTable:  # noqa: N803
        """Return the table under another name, for conditions and MERGE."""
        return replace(self, aliased=aliasName)

    def history(self, limit: int | None = None) -> DataFrame:
        """Return the commits, newest first."""
        return frame_of(self.spark, history_rows(self._table.history(limit)), HISTORY)

    def detail(self) -> DataFrame:
        """Return one row that describes the table."""
        return frame_of(self.spark, detail_rows(self._table), DETAIL)

    # --- changing rows

    def delete(self, condition: str | Column | None = None) -> None:
        """Delete the rows that match; all without a condition."""
        where = self._unqualified(as_condition(condition))
        delete(self.spark, self._writable(), where)

    def update(
        self,
        condition: str | Column | None = None,
        set: Mapping[str, str | Column] | None = None,  # noqa: A002 - SQL's word
    ) -> None:
        """Change columns of the rows that match; of all rows without a condition."""
        columns = as_assignments(set, "set")
        where = self._unqualified(as_condition(condition))
        values = {
            without_alias(name, self.aliased): self._unqualified(value)
            for name, value in columns.items()
        }
        update(self.spark, self._writable(), values, where)

    def updateExpr(  # noqa: N802
        self,
        condition: str | Mapping[str, str],
        set: Mapping[str, str] | None = None,  # noqa: A002
    ) -> None:
        """Do what `update` does, with SQL strings; the condition may be left out, as in Scala."""
        if set is None and not isinstance(condition, str):
            self.update(set=condition)
        else:
            self.update(condition, set)  # type: ignore[arg-type]

    def merge(self, source: DataFrame, condition: str | Column) -> DeltaMergeBuilder:
        """Start a MERGE with the rows of a source."""
        for name, value in (("source", source), ("condition", condition)):
            if value is None:
                raise ArgumentError(f"'{name}' in merge", "cannot be None")
        if not hasattr(source, "mapInArrow"):
            raise ArgumentError("'source' in merge", f"must be DataFrame, not {type(source)}")
        return DeltaMergeBuilder(
            spark=self.spark,
            url=self._writable(),
            source=source,
            on=as_sql(condition, "condition"),
            alias=self.aliased,
        )

    # --- maintenance

    def optimize(self) -> DeltaOptimizeBuilder:
        """Start an OPTIMIZE."""
        return DeltaOptimizeBuilder(spark=self.spark, url=self._writable())

    def vacuum(self, retentionHours: float | None = None) -> DataFrame:  # noqa: N803
        """Delete files that no version inside the retention needs; files of failed writes too.

        As in Delta Spark, a retention shorter than the table's needs the session setting
        `spark.databricks.delta.retentionDurationCheck.enabled = false`.
        """
        force = self.allows_short_retention(self.spark)
        result = vacuum(
            self.spark, self._writable(), retentionHours, mode="full", dry_run=False, force=force
        )
        return vacuum_frame(self.spark, result)

    @staticmethod
    def allows_short_retention(spark: SparkSession) -> bool:
        """Whether the session allows VACUUM a retention that is shorter than the table's."""
        return str(spark.conf.get(_RETENTION_CHECK, "true")).lower() == "false"

    def restoreToVersion(self, version: int) -> DataFrame:  # noqa: N802
        """Make an older version the newest one."""
        check_type("version", version, int, "an int")
        return restore_frame(self.spark, restore(self.spark, self._writable(), version=version))

    def restoreToTimestamp(self, timestamp: str) -> DataFrame:  # noqa: N802
        """Make the version of a time the newest one; the time is in the session's zone."""
        check_type("timestamp", timestamp, str, "a string")
        moment = session_time(self.spark, timestamp)
        return restore_frame(self.spark, restore(self.spark, self._writable(), timestamp=moment))

    def generate(self, mode: str) -> None:
        """Write symlink manifests: the mode is `symlink_format_manifest`."""
        check_type("mode", mode, str, "a string")
        if mode != "symlink_format_manifest":
            raise ArgumentError("mode", f"must be 'symlink_format_manifest', not {mode!r}")
        open_table(self.spark, self._writable()).generate_manifest()

    # --- definition

    def clone(
        self,
        target: str,
        isShallow: bool = False,  # noqa: N803
        replace: bool = False,
        properties: Mapping[str, str] | None = None,
    ) -> DeltaTable:
        """Create a table at another path with the rows of this one, or replace a table there."""
        return self._cloned(target, isShallow, replace, properties, self.address.version)

    def cloneAtVersion(  # noqa: N802 - Delta's signature
        self,
        version: int,
        target: str,
        isShallow: bool = False,  # noqa: N803
        replace: bool = False,
        properties: Mapping[str, str] | None = None,
    ) -> DeltaTable:
        """Do what `clone` does, with the rows of a version."""
        check_type("version", version, int, "an int")
        return self._cloned(target, isShallow, replace, properties, version)

    def cloneAtTimestamp(  # noqa: N802 - Delta's signature
        self,
        timestamp: str,
        target: str,
        isShallow: bool = False,  # noqa: N803
        replace: bool = False,
        properties: Mapping[str, str] | None = None,
    ) -> DeltaTable:
        """Do what `clone` does, with the rows at a time, in the session's zone."""
        check_type("timestamp", timestamp, str, "a string")
        version = self._table.snapshot(timestamp=session_time(self.spark, timestamp)).version
        return self._cloned(target, isShallow, replace, properties, version)

    def upgradeTableProtocol(self, readerVersion: int, writerVersion: int) -> None:  # noqa: N802, N803
        """Upgrade the protocol versions; they are never downgraded."""
        for name, version in (("readerVersion", readerVersion), ("writerVersion", writerVersion)):
            check_type(name, version, int, "an integer")
        self._table.alter.upgrade_protocol(readerVersion, writerVersion)

    def addFeatureSupport(self, featureName: str) -> None:  # noqa: N802, N803
        """Add a table feature to the protocol."""
        check_type("featureName", featureName, str, "a string")
        self._table.alter.add_feature(featureName)

    def dropFeatureSupport(self, featureName: str, truncateHistory: bool | None = None) -> None:  # noqa: N802, N803
        """Refuse: lazydelta drops no table features."""
        check_type("featureName", featureName, str, "a string")
        if truncateHistory is not None:
            check_type("truncateHistory", truncateHistory, bool, "a boolean")
        cure = "disable the feature by its table property; the protocol keeps its name"
        raise UnsupportedOperationError(f"dropFeatureSupport({featureName!r})", cure)

    # --- parts

    @property
    def _table(self) -> Any:
        return open_table(self.spark, self.address.url)

    def _writable(self) -> str:
        """Return the location, unless this is an older version."""
        if self.address.is_pinned:
            reason = f"{self.address.url} is pinned to a version, which can only be read"
            raise ConfigError("table", reason)
        return self.address.url

    def _unqualified(self, sql: str | None) -> Any:
        """Return an expression without the alias of this table."""
        if self.aliased is None or sql is None:
            return sql
        return TargetNames(self._table.schema, self.aliased).unqualified(sql)

    def _cloned(
        self,
        target: str,
        shallow: bool,
        replace: bool,
        properties: Mapping[str, str] | None,
        version: int | None,
    ) -> DeltaTable:
        check_type("target", target, str, "a string")
        check_type("isShallow", shallow, bool, "a boolean")
        check_type("replace", replace, bool, "a boolean")
        if properties is not None:
            check_type("properties", properties, dict, "a dict")
            for key, value in properties.items():
                check_type("a key of properties", key, str, "a string")
                check_type(f"the property {key}", value, str, "a string")
        store, config = open_access(self.spark, target)
        clone_table(
            self._table.snapshot(version),
            store,
            config,
            shallow=shallow,
            dry_run=False,
            replace=replace,
        )
        if properties is not None:
            open_table(self.spark, target).alter.set_properties(properties)
        return DeltaTable.forPath(self.spark, target)


def _session(spark: SparkSession | None) -> SparkSession:
    found = SparkSession.getActiveSession() if spark is None else spark
    if found is None:
        raise ArgumentError("sparkSession", "must be given: there is no active session")
    return found
