"""How far a stream has got: a place between two files of a table, as JSON.

A stream begins with all files of one version, or with the commits from a version on. A place in a
version's files is told by the last file before it, in an order that does not depend on how the log
is laid out (`tasks.Span`); a place in a commit by how many of its files lie before it.
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
    """Everything before this place has been read."""

    table: str
    """The table's id: another table at the same address is another table."""
    version: int
    index: int = 0
    """How many files of the version lie before the place."""
    snapshot: bool = False
    """Whether the version is read with all its files, not only with those that it added."""
    after: tuple[int, str] | None = None
    """Time and path of the last file before the place, where `snapshot` is set."""
    began: int = _UNKNOWN
    """The version that the stream began with."""
    began_with_snapshot: bool = False

    @classmethod
    def first(cls, table: str, version: int, *, snapshot: bool) -> Offset:
        """Return the place where a stream begins."""
        return cls(
            table=table,
            version=version,
            snapshot=snapshot,
            began=version,
            began_with_snapshot=snapshot,
        )

    @classmethod
    def parse(cls, found: Mapping[str, Any]) -> Offset:
        """Read an offset that Spark gives back.

        Raises:
            ConfigError: It is not one of ours.
        """
        try:
            time, path = found.get("time"), found.get("path")
            return cls(
                table=str(found["table"]),
                version=int(found["version"]),
                index=int(found["index"]),
                snapshot=bool(found["snapshot"]),
                after=None if time is None or path is None else (int(time), str(path)),
                began=int(found["began"]),
                began_with_snapshot=bool(found["beganWithSnapshot"]),
            )
        except (KeyError, TypeError, ValueError):
            reason = f"{dict(found)!r} is no offset of lazydelta; give the stream a new checkpoint"
            raise ConfigError("checkpointLocation", reason) from None

    def to_json(self) -> dict[str, Any]:
        """Return what Spark keeps in the checkpoint of the query."""
        told: dict[str, Any] = {
            "table": self.table,
            "version": self.version,
            "index": self.index,
            "snapshot": self.snapshot,
        }
        if self.after is not None:
            told |= {"time": self.after[0], "path": self.after[1]}
        return told | {"began": self.began, "beganWithSnapshot": self.began_with_snapshot}

    @property
    def beginning(self) -> Offset:
        """The place where the stream of this place began."""
        return Offset.first(self.table, self.began, snapshot=self.began_with_snapshot)

    def is_of_another_start(self, other: Offset) -> bool:
        """Whether two places are known to be of streams that began differently.

        Spark does not keep where a query began. If its first batch fails it asks anew, and the
        table may be at another version by then; the end of that batch tells what was meant.
        """
        known = _UNKNOWN not in (self.began, other.began)
        return known and self.beginning != other.beginning

    def at(self, version: int, index: int = 0) -> Offset:
        """Return a place in a commit."""
        return replace(self, version=version, index=index, snapshot=False, after=None)

    def within(self, count: int, after: tuple[int, str]) -> Offset:
        """Return a place further on in the files of the same version."""
        return replace(self, index=self.index + count, after=after)
