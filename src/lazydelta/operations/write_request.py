"""Request and result of a write.

The request validates itself, independent of a table; planning validates it against the table.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal, get_args

from lazydelta.config import WriteOptions
from lazydelta.errors import ConfigError
from lazydelta.protocol import SetTransaction

if TYPE_CHECKING:
    from lazydelta.scan import Where
    from lazydelta.snapshot import SnapshotState
    from lazydelta.writer.enforcement import SchemaMode

__all__ = ["WriteMode", "WriteRequest", "WriteResult", "application_transactions", "is_applied"]

WriteMode = Literal["error", "append", "overwrite", "ignore"]

_INT64_RANGE = range(-(2**63), 2**63)


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteRequest:
    """Options of a write; see `Table.write` for their meaning."""

    mode: WriteMode = "append"
    partition_by: tuple[str, ...] | None = None
    schema_mode: SchemaMode = None
    where: Where = None
    properties: Mapping[str, Any] = field(default_factory=dict)
    name: str | None = None
    description: str | None = None
    app_id: str | None = None
    app_version: int | None = None
    commit_metadata: Mapping[str, Any] = field(default_factory=dict)
    options: WriteOptions | None = None

    def __post_init__(self) -> None:
        """Refuse invalid and contradicting options."""
        if self.mode not in get_args(WriteMode):
            names = ", ".join(get_args(WriteMode))
            raise ConfigError("mode", f"must be one of {names}, not {self.mode!r}")
        if self.schema_mode not in (None, "merge", "overwrite"):
            raise ConfigError("schema_mode", f"cannot be {self.schema_mode!r}")
        if self.where is not None and self.mode != "overwrite":
            raise ConfigError("where", 'selects the rows to replace, so it needs mode="overwrite"')
        if self.schema_mode == "overwrite" and (self.mode != "overwrite" or self.where is not None):
            raise ConfigError(
                "schema_mode",
                'replacing the schema replaces all rows: it needs mode="overwrite" without where',
            )
        self._check_application()
        self._check_types()

    def _check_application(self) -> None:
        if (self.app_id is None) != (self.app_version is None):
            raise ConfigError("app_id", "an idempotent write needs app_id and app_version")
        if self.app_id is None:
            return
        if not isinstance(self.app_id, str) or not self.app_id:
            raise ConfigError("app_id", f"must be a string, not {self.app_id!r}")
        version = self.app_version
        if not isinstance(version, int) or isinstance(version, bool) or version not in _INT64_RANGE:
            raise ConfigError("app_version", f"must be a 64-bit integer, not {version!r}")

    def _check_types(self) -> None:
        """Refuse types that would otherwise fail after files are written, without a name."""
        for name in ("properties", "commit_metadata"):
            value = getattr(self, name)
            if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
                raise ConfigError(name, f"must be a dict with string keys, not {value!r:.80}")
        if not all(isinstance(column, str) for column in self.partition_by or ()):
            raise ConfigError("partition_by", f"must be column names, not {self.partition_by}")
        if not isinstance(self.options, WriteOptions | None):
            raise ConfigError("options", f"must be WriteOptions, not {type(self.options).__name__}")


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteResult:
    """Result of a write."""

    table: str
    version: int
    """The committed version; without a commit, the latest version."""
    rows: int = 0
    """New rows, without rewritten ones."""
    bytes: int = 0
    """Total size of the added files."""
    files_added: int = 0
    files_removed: int = 0
    skipped: bool = False
    """Whether the table exists, and the mode is "ignore"."""
    already_applied: bool = False
    """Whether the table has this application transaction, and nothing was written."""
    warnings: tuple[str, ...] = ()
    """Failures of post-commit hooks; the commit succeeded."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return asdict(self)


def is_applied(snapshot: SnapshotState, request: WriteRequest) -> bool:
    """Whether a version has the application transaction of a request."""
    if request.app_id is None or request.app_version is None:
        return False
    latest = snapshot.transactions().get(request.app_id)
    return latest is not None and latest.version >= request.app_version


def application_transactions(request: WriteRequest) -> tuple[SetTransaction, ...]:
    """Return the `txn` action of an idempotent write; empty without an application."""
    if request.app_id is None or request.app_version is None:
        return ()
    now = time.time_ns() // 1_000_000
    return (SetTransaction(app_id=request.app_id, version=request.app_version, last_updated=now),)
