"""What a write is asked to do, and what it did. Wishes that contradict themselves are refused.

Knows no table: whether a table takes what is asked for is decided when the write is planned.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal, get_args

from lazydelta.config import WriteOptions
from lazydelta.errors import ConfigError

if TYPE_CHECKING:
    from lazydelta.scan import Where
    from lazydelta.writer import SchemaMode

__all__ = ["WriteMode", "WriteRequest", "WriteResult"]

WriteMode = Literal["error", "append", "overwrite", "ignore"]

_LONG = range(-(2**63), 2**63)


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteRequest:
    """What is to be done with the rows; see `Table.write` for what each part means."""

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
        """Refuse what contradicts itself."""
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
            raise ConfigError("app_id", f"must be a text, not {self.app_id!r}")
        step = self.app_version
        if not isinstance(step, int) or isinstance(step, bool) or step not in _LONG:
            raise ConfigError("app_version", f"must be a whole number of 64 bits, not {step!r}")

    def _check_types(self) -> None:
        """Refuse here what would otherwise fail once files are written, and without a name."""
        for name in ("properties", "commit_metadata"):
            given = getattr(self, name)
            if not isinstance(given, Mapping) or not all(isinstance(key, str) for key in given):
                raise ConfigError(name, f"must be a dict with texts as keys, not {given!r:.80}")
        if not all(isinstance(column, str) for column in self.partition_by or ()):
            raise ConfigError("partition_by", f"must be names of columns, not {self.partition_by}")
        if not isinstance(self.options, WriteOptions | None):
            raise ConfigError("options", f"must be WriteOptions, not {type(self.options).__name__}")


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteResult:
    """What a write did."""

    table: str
    version: int
    """The version it made; if it made none, the newest one that it saw."""
    rows: int = 0
    """New rows, those written again for others' sake not counted."""
    bytes: int = 0
    """Size of all files added."""
    files_added: int = 0
    files_removed: int = 0
    skipped: bool = False
    """Whether there was a table, and the mode said to leave it alone."""
    already_applied: bool = False
    """Whether the table had this step of the application, and nothing was written."""
    warnings: tuple[str, ...] = ()
    """What failed after the commit, which stands all the same."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return asdict(self)
