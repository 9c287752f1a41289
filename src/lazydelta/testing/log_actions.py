"""Actions of a log, made by hand or from a line of shorthand, and what they add up to.

Written from the protocol alone: it shares no code with the engine's own replay, so that a table
built with it can tell when that replay is wrong.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

__all__ = ["Action", "FileKey", "LogState", "add", "deletion_vector", "parse_shorthand", "remove"]

Action = dict[str, Any]
FileKey = tuple[str, str | None]
"""Path and deletion vector id of a logical file."""

_NULL_SEGMENT = "__HIVE_DEFAULT_PARTITION__"
_VECTOR_CHARACTERS = 20


def deletion_vector(name: str, cardinality: int = 1) -> Action:
    """Return a descriptor of a deletion vector; equal names give equal vectors."""
    return {
        "storageType": "u",
        "pathOrInlineDv": name.rjust(_VECTOR_CHARACTERS, "0"),
        "offset": 1,
        "sizeInBytes": 36,
        "cardinality": cardinality,
    }


def add(
    path: str,
    *,
    partition_values: Mapping[str, str | None] | None = None,
    stats: Mapping[str, Any] | str | None = None,
    vector: str | Action | None = None,
    **more: Any,
) -> Action:
    """Return an `add`.

    Args:
        path: As the log is to have it, percent-encoded where it needs to be.
        partition_values: As text, by physical column name.
        stats: An object, which is turned into text, or the text.
        vector: The name of a deletion vector, or a whole descriptor.
        more: Any other field of the action; it replaces the default.
    """
    text = json.dumps(stats) if isinstance(stats, Mapping) else stats
    body: Action = {
        "path": path,
        "partitionValues": dict(partition_values or {}),
        "size": 100,
        "modificationTime": 1_700_000_000_000,
        "dataChange": True,
    }
    optional = {"stats": text, "deletionVector": _vector(vector)}
    body |= {name: value for name, value in optional.items() if value is not None}
    return {"add": body | more}


def remove(path: str, *, vector: str | Action | None = None, **more: Any) -> Action:
    """Return a `remove`; the arguments are those of `add`."""
    body: Action = {"path": path, "deletionTimestamp": 1_700_000_000_000, "dataChange": True}
    if vector is not None:
        body["deletionVector"] = _vector(vector)
    return {"remove": body | more}


def parse_shorthand(line: str, physical_names: Mapping[str, str]) -> list[Action]:
    """Return the actions of a line such as `+a -b +c#dv1 +day=1/d !txn`.

    `+x` adds and `-x` removes the file x, `#v` gives it the deletion vector v, and `day=1/x` is a
    path whose segments give values of partition columns. `!kind` is an action of another kind
    with some plausible content; a kind that does not exist makes an action no engine knows.

    Args:
        line: Tokens separated by spaces.
        physical_names: Of the partition columns, by the names they have in paths.
    """
    actions: list[Action] = []
    for token in line.split():
        sign, rest = token[0], token[1:]
        if sign == "!":
            actions.append({rest: _BODIES.get(rest, {"why": "nobody knows"})})
            continue
        path, _, vector = rest.partition("#")
        if sign == "-":
            actions.append(remove(path, vector=vector or None))
        elif sign == "+":
            values = _values_in(path, physical_names)
            actions.append(add(path, partition_values=values, vector=vector or None))
        else:
            raise ValueError(f"{token!r} begins with none of + - !")
    return actions


_BODIES: dict[str, Action] = {
    "txn": {"appId": "app", "version": 1, "lastUpdated": 1_700_000_000_000},
    "domainMetadata": {"domain": "d", "configuration": "{}", "removed": False},
    "cdc": {"path": "_change_data/c", "partitionValues": {}, "size": 1, "dataChange": False},
    "commitInfo": {"operation": "TEST"},
}


def _values_in(path: str, physical_names: Mapping[str, str]) -> dict[str, str | None]:
    values: dict[str, str | None] = {}
    for segment in path.split("/")[:-1]:
        name, equals, value = segment.partition("=")
        if equals and name in physical_names:
            values[physical_names[name]] = None if value == _NULL_SEGMENT else unquote(value)
    return values


def _vector(given: str | Action | None) -> Action | None:
    return deletion_vector(given) if isinstance(given, str) else given


def file_key(file: Mapping[str, Any]) -> FileKey:
    """Return the identity of the file of an `add` or `remove`."""
    vector = file.get("deletionVector")
    if vector is None:
        return file["path"], None
    offset = vector.get("offset")
    at = "" if offset is None else f"@{offset}"
    return file["path"], f"{vector['storageType']}{vector['pathOrInlineDv']}{at}"


@dataclass
class LogState:
    """What the commits applied so far add up to: the content of a checkpoint."""

    protocol: Action | None = None
    metadata: Action | None = None
    transactions: dict[str, Action] = field(default_factory=dict)
    domains: dict[str, Action] = field(default_factory=dict)
    adds: dict[FileKey, Action] = field(default_factory=dict)
    removes: dict[FileKey, Action] = field(default_factory=dict)

    def apply(self, actions: Iterable[Action]) -> None:
        """Apply one commit: within it an add outlives a remove of the same file."""
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
        """Return what is not about files, as a checkpoint has it: removed domains are gone."""
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
        """Return all actions as a compacted commit has them: removed domains are still there."""
        domains = [{"domainMetadata": b} for b in self.domains.values() if b.get("removed")]
        return [*self.other_actions(), *domains, *self.file_actions()]
