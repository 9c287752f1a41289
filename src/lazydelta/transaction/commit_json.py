"""Serialize a prepared commit as JSON lines: one action per line, without null fields.

`commitInfo` comes first, as in-commit timestamps require. Its values are strings where other
engines write strings. It never contains an address, a storage option or a secret.
"""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Any

import orjson

from lazydelta.errors import InvalidCommitError
from lazydelta.transaction import tuning

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa

    from lazydelta.transaction.prepare import PreparedCommit

__all__ = ["check_user_metadata", "serialize_commit"]

_RESERVED = frozenset(
    {
        "clusterId",
        "engineInfo",
        "inCommitTimestamp",
        "isBlindAppend",
        "isolationLevel",
        "operation",
        "operationMetrics",
        "operationParameters",
        "readVersion",
        "tags",
        "timestamp",
        "txnId",
        "version",
    }
)
_STRINGS = ("userId", "userMetadata", "userName")
_STRING_MAPS = ("job", "notebook")
"""Names with a type in other engines, which fail to read a commit with any other type."""


def serialize_commit(prepared: PreparedCommit, *, table: str, read_version: int) -> bytes:
    """Return the bytes of the commit file; deterministic.

    Args:
        prepared: The commit.
        table: The table's address, for errors.
        read_version: The version that the transaction was planned on, -1 for none.

    Raises:
        InvalidCommitError: The caller's commit metadata cannot be serialized.
    """
    lines = [orjson.dumps(action) for action in _actions(prepared, table, read_version)]
    return b"\n".join([*lines, b""])


def _actions(prepared: PreparedCommit, table: str, read_version: int) -> Iterator[dict[str, Any]]:
    transaction = prepared.transaction
    yield {"commitInfo": _commit_info(prepared, table, read_version)}
    if transaction.protocol is not None:
        yield {"protocol": transaction.protocol.to_json()}
    if transaction.metadata is not None:
        yield {"metaData": transaction.metadata.to_json()}
    for txn in transaction.txns:
        yield {"txn": txn.to_json()}
    for domain in transaction.domains:
        yield {"domainMetadata": domain.to_json()}
    yield from _files("remove", transaction.removes)
    yield from _files("add", transaction.adds)
    yield from _files("cdc", transaction.change_files)


def _commit_info(prepared: PreparedCommit, table: str, read_version: int) -> dict[str, Any]:
    transaction = prepared.transaction
    own = transaction.user_metadata
    check_user_metadata(own, table)
    info = {
        "timestamp": prepared.timestamp_ms,
        "inCommitTimestamp": prepared.timestamp_ms if prepared.after.in_commit_timestamps else None,
        "operation": transaction.operation,
        "operationParameters": _strings(transaction.parameters),
        "readVersion": read_version if read_version >= 0 else None,
        "isolationLevel": prepared.isolation,
        "isBlindAppend": transaction.is_blind_append,
        "operationMetrics": _strings(transaction.metrics) or None,
        "tags": dict(prepared.tags) or None,
        "engineInfo": f"lazydelta/{_version()}",
        "txnId": transaction.txn_id,
    }
    return {**{name: value for name, value in info.items() if value is not None}, **own}


def _strings(values: Mapping[str, Any]) -> dict[str, str]:
    """Return values as `commitInfo` has them: strings, or JSON in a string."""
    return {
        name: value if isinstance(value, str) else orjson.dumps(value).decode()
        for name, value in values.items()
        if value is not None
    }


def check_user_metadata(own: Mapping[str, Any], table: str) -> None:
    """Validate the caller's commit metadata.

    Raises:
        InvalidCommitError: A reserved name, a value that JSON does not have, or too many bytes.
    """
    if reserved := _RESERVED & own.keys():
        reason = f"commit metadata cannot be named {min(reserved)!r}, which the commit itself uses"
        raise InvalidCommitError(table, reason)
    if invalid := [name for name, value in own.items() if not _has_type(name, value)]:
        expected = "a string" if invalid[0] in _STRINGS else "a dict of strings"
        reason = (
            f"commit metadata {invalid[0]!r} must be {expected}, or other engines fail to read it"
        )
        raise InvalidCommitError(table, reason)
    if name := next((name for name, value in own.items() if _is_not_finite(value)), None):
        reason = f"commit metadata {name!r} has a NaN or an infinity, which JSON has no number for"
        raise InvalidCommitError(table, f"{reason}; give it as a string")
    try:
        size = len(orjson.dumps(own))
    except (TypeError, orjson.JSONEncodeError) as error:
        reason = f"commit metadata cannot be serialized as JSON: {error}"
        raise InvalidCommitError(table, reason) from None
    if size > tuning.MAX_USER_METADATA_BYTES:
        reason = f"commit metadata takes {size} bytes, more than {tuning.MAX_USER_METADATA_BYTES}"
        raise InvalidCommitError(table, reason)


def _is_not_finite(value: Any) -> bool:
    """Whether a number in a value would silently become null in JSON."""
    if isinstance(value, dict):
        return any(map(_is_not_finite, value.values()))
    if isinstance(value, list | tuple):
        return any(map(_is_not_finite, value))
    return isinstance(value, float) and not math.isfinite(value)


def _has_type(name: str, value: Any) -> bool:
    if name in _STRING_MAPS:
        return isinstance(value, dict) and all(isinstance(part, str) for part in value.values())
    return name not in _STRINGS or isinstance(value, str)


def _files(kind: str, files: pa.Table) -> Iterator[dict[str, Any]]:
    for row in files.to_pylist(maps_as_pydicts="strict"):
        # Only null fields of an action are dropped: a null partition value is a value.
        action = {name: value for name, value in row.items() if value is not None}
        if vector := action.get("deletionVector"):
            action["deletionVector"] = {k: v for k, v in vector.items() if v is not None}
        yield {kind: action}


def _version() -> str:
    # Subpackages do not import the package itself; it is loaded before any commit.
    return getattr(sys.modules[__name__.partition(".")[0]], "__version__", "unknown")
