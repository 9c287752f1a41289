"""The `_last_checkpoint` file: a hint where to start listing.

A missing or invalid hint, or one of a missing checkpoint, costs a longer listing and nothing else.
Reading it never raises for its content.
"""

from __future__ import annotations

import logging
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

import orjson

from lazydelta.errors import ObjectNotFoundError, StoreError
from lazydelta.formats import BadLineError, parse_object
from lazydelta.log import tuning
from lazydelta.log.file_names import LAST_CHECKPOINT, LOG_DIRECTORY
from lazydelta.log.listing import list_log
from lazydelta.log.segment import complete_checkpoints
from lazydelta.store import call_deadline

if TYPE_CHECKING:
    from lazydelta.store import Store

__all__ = ["CheckpointHint", "has_hint", "read_hint", "write_hint"]

logger = logging.getLogger(__name__)


class CheckpointHint(NamedTuple):
    """The content of `_last_checkpoint`."""

    version: int
    add_files: int | None = None
    v2_name: str | None = None
    v2_actions: tuple[dict[str, Any], ...] | None = None
    """Non-file actions of the V2 checkpoint `v2_name`, which save opening it."""


def read_hint(store: Store) -> CheckpointHint | None:
    """Return the hint, or None if it is missing, unreadable or invalid."""
    try:
        with call_deadline(tuning.OPTIONAL_SECONDS):
            raw = bytes(store.read(f"{LOG_DIRECTORY}/{LAST_CHECKPOINT}"))
    except ObjectNotFoundError:
        return None
    except StoreError as error:
        logger.warning("ignoring %s/%s: %s", LOG_DIRECTORY, LAST_CHECKPOINT, str(error))
        return None
    try:
        return _parse(raw)
    except ValueError as error:
        logger.warning("ignoring %s/%s: %s", LOG_DIRECTORY, LAST_CHECKPOINT, str(error))
        return None


def has_hint(store: Store) -> bool:
    """Whether the table has a hint, valid or not.

    Raises:
        StoreError: The store does not answer that.
    """
    try:
        with call_deadline(tuning.OPTIONAL_SECONDS):
            store.head(f"{LOG_DIRECTORY}/{LAST_CHECKPOINT}")
    except ObjectNotFoundError:
        return False
    return True


def write_hint(
    store: Store, body: dict[str, Any], *, is_new: bool, existing: CheckpointHint | None
) -> bool:
    """Write `_last_checkpoint`; return whether it was written.

    A hint of a newer existing checkpoint is kept. Two concurrent writers may still replace each
    other's hint; an older hint costs only a longer listing.

    Args:
        store: The table's store.
        body: The fields of the hint, without its checksum.
        is_new: Whether the caller wrote the checkpoint. If not, an existing hint of the same
            version is kept, because it may have more fields.
        existing: The hint that the table has.
    """
    if existing is not None and existing.version == body["version"] and not is_new:
        return False
    if existing is not None and existing.version > body["version"]:
        newer = list_log(store, from_version=existing.version, to_version=existing.version)
        if complete_checkpoints(newer):
            return False
    plain = orjson.loads(orjson.dumps(body))  # as readers parse it: lists, not tuples
    serialized = orjson.dumps(plain | {"checksum": json_checksum(plain)})
    store.write(f"{LOG_DIRECTORY}/{LAST_CHECKPOINT}", serialized, overwrite=True)
    return True


def _parse(raw: bytes) -> CheckpointHint:
    if len(raw) > tuning.MAX_HINT_BYTES:
        raise ValueError(f"{len(raw)} bytes are too many")
    try:
        obj = parse_object(raw)
    except BadLineError as error:
        raise ValueError(error.reason) from None
    checksum = obj.get("checksum")
    if checksum is not None and checksum != json_checksum(obj):
        raise ValueError("its checksum does not match")
    version = obj.get("version")
    if not isinstance(version, int) or not 0 <= version < 2**63:
        raise ValueError("it has no version")
    adds = obj.get("numOfAddFiles")
    v2 = obj.get("v2Checkpoint")
    v2 = v2 if isinstance(v2, dict) else {}
    actions = v2.get("nonFileActions")
    is_valid = isinstance(actions, list) and all(isinstance(a, dict) for a in actions)
    name = v2.get("path")
    return CheckpointHint(
        version=version,
        add_files=adds if isinstance(adds, int) and adds >= 0 else None,
        v2_name=name.rsplit("/", 1)[-1] if isinstance(name, str) else None,
        v2_actions=tuple(actions) if is_valid and actions is not None else None,
    )


def json_checksum(obj: dict[str, Any]) -> str:
    """Return the protocol's MD5 of the canonical form of a JSON object, without `checksum`.

    >>> inner = {"k4": "v4", "k5": ["v5", "v6", "v7"]}
    >>> json_checksum(
    ...     {"k0": "'v 0'", "checksum": "?", "k1": {"k2": 2, "k3": ["v3", [1, 2], inner]}}
    ... )
    '6a92d155a59bf2eecbd4b4ec7fd1f875'
    """
    import hashlib  # slow to import, and most tables have no hint

    pairs: list[tuple[str, str]] = []
    _flatten("", {key: value for key, value in obj.items() if key != "checksum"}, pairs)
    pairs.sort(key=lambda pair: pair[0].encode())
    return hashlib.md5(  # noqa: S324 - required by the protocol; not for security
        ",".join(f"{path}={value}" for path, value in pairs).encode()
    ).hexdigest()


def _flatten(path: str, value: Any, pairs: list[tuple[str, str]]) -> None:
    """Append the path and literal of every leaf value."""
    if isinstance(value, dict):
        for key, inner in value.items():
            name = f'"{_encode(key)}"'
            _flatten(f"{path}+{name}" if path else name, inner, pairs)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            _flatten(f"{path}+{index}" if path else str(index), inner, pairs)
    else:
        pairs.append((path, _literal(value)))


def _literal(value: Any) -> str:
    if isinstance(value, str):
        return f'"{_encode(value)}"'
    if isinstance(value, bool):
        return "true" if value else "false"
    return "null" if value is None else str(value)


@lru_cache(maxsize=1024)
def _encode(string: str) -> str:
    return quote(string, safe="-._~")
