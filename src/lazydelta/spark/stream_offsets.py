"""Offsets of a stream: a position between two files of a table, as JSON.

A stream starts with all files of one version, or with the commits from a version on. A position in
a version's files is the last file before it, in an order that does not depend on the layout of the
log (`tasks.FileRange`). A position in a commit is the number of its files before it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from lazydelta.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Offset"]

_UNKNOWN = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Offset:
    """A position: everything before it has been read."""

    table: str
    """The table's id: a new table at the same location is a different table."""
    version: int
    index: int = 0
    """Number of files of the version before the position."""
    snapshot: bool = False
    """Whether all files of the version are read, not only those that its commit added."""
    after: tuple[int, str] | None = None
    """Modification time and path of the last file before the position, if `snapshot` is set."""
    began: int = _UNKNOWN
    """The version at which the stream started."""
    began_with_snapshot: bool = False

    @classmethod
    def first(cls, table: str, version: int, *, snapshot: bool) -> Offset:
        """Return the start of a stream."""
        return cls(
            table=table,
            version=version,
            snapshot=snapshot,
            began=version,
            began_with_snapshot=snapshot,
        )

    @classmethod
    def parse(cls, fields: Mapping[str, Any]) -> Offset:
        """Parse an offset from a streaming checkpoint.

        Raises:
            ConfigError: It is not an offset of lazydelta.
        """
        try:
            time, path = fields.get("time"), fields.get("path")
            return cls(
                table=str(fields["table"]),
                version=int(fields["version"]),
                index=int(fields["index"]),
                snapshot=bool(fields["snapshot"]),
                after=None if time is None or path is None else (int(time), str(path)),
                began=int(fields["began"]),
                began_with_snapshot=bool(fields["beganWithSnapshot"]),
            )
        except (KeyError, TypeError, ValueError):
            reason = (
                f"{dict(fields)!r} is not an offset of lazydelta; use a new checkpoint location"
            )
            raise ConfigError("checkpointLocation", reason) from None

    def to_json(self) -> dict[str, Any]:
        """Return the form that Spark stores in the checkpoint of the query."""
        fields: dict[str, Any] = {
            "table": self.table,
            "version": self.version,
            "index": self.index,
            "snapshot": self.snapshot,
        }
        if self.after is not None:
            fields |= {"time": self.after[0], "path": self.after[1]}
        return fields | {"began": self.began, "beganWithSnapshot": self.began_with_snapshot}

    @property
    def beginning(self) -> Offset:
        """The start of the stream of this offset."""
        return Offset.first(self.table, self.began, snapshot=self.began_with_snapshot)

    def has_other_start(self, other: Offset) -> bool:
        """Whether two offsets are known to belong to streams with different starts.

        Spark does not store the start of a query. If the first batch fails, Spark requests
        it again, and the table may have a newer version by then; the end offset of that batch holds
        the original start.
        """
        known = _UNKNOWN not in (self.began, other.began)
        return known and self.beginning != other.beginning

    def at(self, version: int, index: int = 0) -> Offset:
        """Return a position in a commit."""
        return replace(self, version=version, index=index, snapshot=False, after=None)

    def within(self, count: int, after: tuple[int, str]) -> Offset:
        """Return a later position in the files of the same version."""
        return replace(self, index=self.index + count, after=after)
