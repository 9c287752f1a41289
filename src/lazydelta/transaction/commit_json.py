"""A prepared transaction -> the bytes of its commit file: one action to a line, nulls left out.

`commitInfo` comes first, as in-commit timestamps ask; its values are text where other engines
write text. Never holds an address, an option or a secret: only what the transaction says.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import orjson

from lazydelta.errors import InvalidCommitError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa

    from lazydelta.transaction.prepare import Prepared

__all__ = ["check_user_metadata", "encode"]

_MOST_USER_BYTES = 1 << 20
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
_TEXTS = ("userId", "userMetadata", "userName")
_GROUPS = ("job", "notebook")
"""Names that other engines give a type to: of anything else they cannot read the commit at all."""


def encode(prepared: Prepared, *, table: str, read_version: int) -> bytes:
    """Return the commit file: the same bytes whenever it is called with the same arguments.

    Args:
        prepared: The transaction, ready for its version.
        table: Its address, for errors.
        read_version: The version that it was planned on, -1 for none.

    Raises:
        InvalidCommitError: The caller's own metadata cannot be part of a commit.
    """
    lines = [orjson.dumps(action) for action in _actions(prepared, table, read_version)]
    return b"\n".join([*lines, b""])


def _actions(prepared: Prepared, table: str, read_version: int) -> Iterator[dict[str, Any]]:
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


def _commit_info(prepared: Prepared, table: str, read_version: int) -> dict[str, Any]:
    transaction = prepared.transaction
    own = transaction.user_metadata
    check_user_metadata(own, table)
    info = {
        "timestamp": prepared.timestamp_ms,
        "inCommitTimestamp": prepared.timestamp_ms if prepared.in_commit_timestamps else None,
        "operation": transaction.operation,
        "operationParameters": _texts(transaction.parameters),
        "readVersion": read_version if read_version >= 0 else None,
        "isolationLevel": prepared.isolation,
        "isBlindAppend": transaction.is_blind_append,
        "operationMetrics": _texts(transaction.metrics) or None,
        "tags": dict(prepared.tags) or None,
        "engineInfo": f"lazydelta/{_version()}",
        "txnId": transaction.txn_id,
    }
    return {**{name: value for name, value in info.items() if value is not None}, **own}


def _texts(values: Mapping[str, Any]) -> dict[str, str]:
    """Return values as other engines have them in `commitInfo`: text, of which some is JSON."""
    return {
        name: value if isinstance(value, str) else orjson.dumps(value).decode()
        for name, value in values.items()
        if value is not None
    }


def check_user_metadata(own: Mapping[str, Any], table: str) -> None:
    """Refuse what a caller cannot say in a commit.

    Raises:
        InvalidCommitError: A name that commits use, values that JSON has not, or too much.
    """
    if taken := _RESERVED & own.keys():
        reason = f"commit metadata cannot be named {min(taken)!r}, which the commit itself uses"
        raise InvalidCommitError(table, reason)
    if unlike := [name for name, value in own.items() if not _has_type(name, value)]:
        wanted = "a text" if unlike[0] in _TEXTS else "a dict of texts"
        reason = f"commit metadata {unlike[0]!r} must be {wanted}, or other engines fail to read it"
        raise InvalidCommitError(table, reason)
    try:
        size = len(orjson.dumps(own))
    except (TypeError, orjson.JSONEncodeError) as error:
        reason = f"commit metadata must be made of JSON's types: {error}"
        raise InvalidCommitError(table, reason) from None
    if size > _MOST_USER_BYTES:
        reason = f"commit metadata takes {size} bytes, more than {_MOST_USER_BYTES}"
        raise InvalidCommitError(table, reason)


def _has_type(name: str, value: Any) -> bool:
    if name in _GROUPS:
        return isinstance(value, dict) and all(isinstance(part, str) for part in value.values())
    return name not in _TEXTS or isinstance(value, str)


def _files(kind: str, files: pa.Table) -> Iterator[dict[str, Any]]:
    for row in files.to_pylist(maps_as_pydicts="strict"):
        # Only fields of an action are left out: a partition value of null must stay.
        action = {name: value for name, value in row.items() if value is not None}
        if vector := action.get("deletionVector"):
            action["deletionVector"] = {k: v for k, v in vector.items() if v is not None}
        yield {kind: action}


def _version() -> str:
    # Rooms do not import the package's door; by the time anything is committed it is loaded.
    return getattr(sys.modules[__name__.partition(".")[0]], "__version__", "unknown")
