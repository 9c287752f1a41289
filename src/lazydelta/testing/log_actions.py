"""Actions of a Delta log as JSON objects, from keyword arguments or from a shorthand line."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import unquote

__all__ = ["Action", "add", "deletion_vector", "parse_shorthand", "remove", "serialize_actions"]

Action = dict[str, Any]

_NULL_SEGMENT = "__HIVE_DEFAULT_PARTITION__"
_DV_NAME_LENGTH = 20


def deletion_vector(name: str, cardinality: int = 1) -> Action:
    """Return a deletion vector descriptor; equal names give equal descriptors."""
    return {
        "storageType": "u",
        "pathOrInlineDv": name.rjust(_DV_NAME_LENGTH, "0"),
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
    """Return an `add` action.

    Args:
        path: Written as it is, so percent-encoded where the protocol requires it.
        partition_values: Serialized values by physical column name.
        stats: A mapping, which is serialized to JSON, or a JSON string.
        vector: The name of a deletion vector, or a descriptor.
        more: Other fields of the action; they replace the defaults.
    """
    stats_json = json.dumps(stats) if isinstance(stats, Mapping) else stats
    body: Action = {
        "path": path,
        "partitionValues": dict(partition_values or {}),
        "size": 100,
        "modificationTime": 1_700_000_000_000,
        "dataChange": True,
    }
    optional = {"stats": stats_json, "deletionVector": _descriptor(vector)}
    body |= {name: value for name, value in optional.items() if value is not None}
    return {"add": body | more}


def remove(path: str, *, vector: str | Action | None = None, **more: Any) -> Action:
    """Return a `remove` action; the arguments are those of `add`."""
    body: Action = {"path": path, "deletionTimestamp": 1_700_000_000_000, "dataChange": True}
    if vector is not None:
        body["deletionVector"] = _descriptor(vector)
    return {"remove": body | more}


def parse_shorthand(line: str, physical_names: Mapping[str, str]) -> list[Action]:
    """Return the actions of a line such as `+a -b +c#dv1 +day=1/d !txn`.

    `+x` adds and `-x` removes the file x. `#v` gives it the deletion vector v. The Hive-style
    segments of a path such as `day=1/x` are its partition values. `!kind` is an action of
    another kind with sample content; an unknown kind writes an action that readers must ignore.

    Args:
        line: Tokens separated by spaces.
        physical_names: Physical name of each partition column, by its name in paths.
    """
    actions: list[Action] = []
    for token in line.split():
        sign, rest = token[0], token[1:]
        if sign == "!":
            actions.append({rest: _BODIES.get(rest, {"reason": "unknown to every reader"})})
            continue
        path, _, vector = rest.partition("#")
        if sign == "-":
            actions.append(remove(path, vector=vector or None))
        elif sign == "+":
            values = _partition_values(path, physical_names)
            actions.append(add(path, partition_values=values, vector=vector or None))
        else:
            raise ValueError(f"{token!r} starts with none of + - !")
    return actions


def serialize_actions(actions: Iterable[Action]) -> bytes:
    """Return the content of a commit file: one JSON object a line."""
    return b"".join(
        json.dumps(action, separators=(",", ":")).encode() + b"\n" for action in actions
    )


_BODIES: dict[str, Action] = {
    "txn": {"appId": "app", "version": 1, "lastUpdated": 1_700_000_000_000},
    "domainMetadata": {"domain": "d", "configuration": "{}", "removed": False},
    "cdc": {"path": "_change_data/c", "partitionValues": {}, "size": 1, "dataChange": False},
    "commitInfo": {"operation": "TEST"},
}


def _partition_values(path: str, physical_names: Mapping[str, str]) -> dict[str, str | None]:
    values: dict[str, str | None] = {}
    for segment in path.split("/")[:-1]:
        name, equals, value = segment.partition("=")
        if equals and name in physical_names:
            values[physical_names[name]] = None if value == _NULL_SEGMENT else unquote(value)
    return values


def _descriptor(vector: str | Action | None) -> Action | None:
    return deletion_vector(vector) if isinstance(vector, str) else vector
