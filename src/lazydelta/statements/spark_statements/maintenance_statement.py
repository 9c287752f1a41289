"""Statements that define or maintain a table, as values: their parts, with expressions as SQL."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lazydelta.statements.statement import TableName

__all__ = [
    "Alter",
    "Convert",
    "CreateTable",
    "Describe",
    "Generate",
    "MaintenanceStatement",
    "Optimize",
    "Restore",
    "SetProperties",
    "Vacuum",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Optimize:
    """`OPTIMIZE table [FULL] [WHERE ...] [ZORDER BY (...)]`, `REORG TABLE ... APPLY (PURGE)`."""

    target: TableName
    where: str | None = None
    z_order: tuple[str, ...] = ()
    full: bool = False
    purge: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Vacuum:
    """`VACUUM table [FULL | LITE] [RETAIN n HOURS] [DRY RUN]`."""

    target: TableName
    mode: Literal["full", "lite"] = "full"
    hours: float | None = None
    dry_run: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Generate:
    """`GENERATE symlink_format_manifest FOR TABLE table`."""

    target: TableName
    mode: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Restore:
    """`RESTORE TABLE table TO (VERSION AS OF n | TIMESTAMP AS OF 'time')`."""

    target: TableName
    version: int | None = None
    timestamp: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Describe:
    """`DESCRIBE HISTORY table [LIMIT n]`, `DESCRIBE DETAIL table`, `SHOW TBLPROPERTIES table`."""

    target: TableName
    what: Literal["history", "detail", "properties"]
    limit: int | None = None
    key: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Convert:
    """`` CONVERT TO DELTA parquet.`path` [PARTITIONED BY (column type, ...)] ``."""

    path: str
    partition_by: str = ""
    """Column definitions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetProperties:
    """`ALTER TABLE table SET TBLPROPERTIES (...)`, or UNSET with keys."""

    target: TableName
    properties: Mapping[str, str] = field(default_factory=dict)
    unset: tuple[str, ...] = ()
    if_exists: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Alter:
    """`ALTER TABLE table` with a change of columns, constraints or clustering columns."""

    target: TableName
    steps: tuple[tuple[str, tuple[Any, ...]], ...]
    """Methods of `table.alter`, each with its arguments."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTable:
    """`CREATE [OR REPLACE] TABLE [IF NOT EXISTS] table (columns) USING format ...`."""

    target: TableName
    mode: Literal["create", "createIfNotExists", "replace", "createOrReplace"]
    columns: str | None = None
    """Column definitions; None for those of the query, or of the table at the location."""
    location: str | None = None
    comment: str | None = None
    partition_by: tuple[str, ...] = ()
    cluster_by: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    query: str | None = None


MaintenanceStatement = (
    Optimize
    | Vacuum
    | Restore
    | Describe
    | Generate
    | Convert
    | SetProperties
    | Alter
    | CreateTable
)
