"""Reference log replay, written from the protocol alone.

It shares no code with the engine, so that a test can compare the engine's replay with it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lazydelta.testing.log_actions import Action

__all__ = ["FileKey", "LogState", "file_key"]

FileKey = tuple[str, str | None]
"""Path and deletion vector id of a logical file."""


def file_key(file: Mapping[str, Any]) -> FileKey:
    """Return the logical file key of an `add` or `remove`."""
    vector = file.get("deletionVector")
    if vector is None:
        return file["path"], None
    offset = vector.get("offset")
    at = "" if offset is None else f"@{offset}"
    return file["path"], f"{vector['storageType']}{vector['pathOrInlineDv']}{at}"


@dataclass
class LogState:
    """Table state after the commits applied so far: the content of a checkpoint."""

    protocol: Action | None = None
    metadata: Action | None = None
    transactions: dict[str, Action] = field(default_factory=dict)
    domains: dict[str, Action] = field(default_factory=dict)
    adds: dict[FileKey, Action] = field(default_factory=dict)
    removes: dict[FileKey, Action] = field(default_factory=dict)

    def apply(self, actions: Iterable[Action]) -> None:
        """Apply one commit; an add wins over a remove of the same file within it."""
        ordered = sorted(actions, key=lambda action: "add" in action)
        for action in ordered:
            for kind, body in action.items():
                self._apply(kind, body)

    def _apply(self, kind: str, body: Action) -> None:
        if kind == "add":
            self.adds[file_key(body)] = body
            self.removes.pop(file_key(body), None)
        elif kind == "remove":
            self.adds.pop(file_key(body), None)
            self.removes[file_key(body)] = body
        elif kind == "protocol":
            self.protocol = body
        elif kind == "metaData":
            self.metadata = body
        elif kind == "txn":
            self.transactions[body["appId"]] = body
        elif kind == "domainMetadata":
            self.domains[body["domain"]] = body

    def other_actions(self) -> list[Action]:
        """Return the actions of a checkpoint that are not file actions, without removed domains."""
        single = {"protocol": self.protocol, "metaData": self.metadata}
        return [
            *({kind: body} for kind, body in single.items() if body is not None),
            *({"txn": body} for body in self.transactions.values()),
            *({"domainMetadata": b} for b in self.domains.values() if not b.get("removed")),
        ]

    def file_actions(self) -> list[Action]:
        """Return the live files, then the tombstones."""
        return [
            *({"add": body} for body in self.adds.values()),
            *({"remove": body} for body in self.removes.values()),
        ]

    def reconciled(self) -> list[Action]:
        """Return all actions of a compacted commit, removed domains included."""
        domains = [{"domainMetadata": b} for b in self.domains.values() if b.get("removed")]
        return [*self.other_actions(), *domains, *self.file_actions()]
