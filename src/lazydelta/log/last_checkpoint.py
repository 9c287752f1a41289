"""The `_last_checkpoint` file: where to start listing. A hint, never trusted over the listing.

Whatever is wrong with it (absent, torn, oversized, a wrong checksum, a checkpoint that is not
there) costs a longer listing and nothing else, so reading it never raises for its content.
"""

from __future__ import annotations

import hashlib
import logging
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import orjson

from lazydelta.errors import ObjectNotFoundError
from lazydelta.formats import BadLineError, parse_object
from lazydelta.log.file_names import LAST_CHECKPOINT, LOG_DIRECTORY
from lazydelta.log.listing import list_log
from lazydelta.log.segment import complete_checkpoints

if TYPE_CHECKING:
    from lazydelta.store import Store

__all__ = ["CheckpointHint", "read_hint", "write_hint"]

logger = logging.getLogger(__name__)

_LARGEST_HINT = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointHint:
    """What `_last_checkpoint` says."""

    version: int
    add_files: int | None = None
    v2_name: str | None = None
    v2_actions: tuple[dict[str, Any], ...] | None = None
    """Protocol and metadata of the V2 checkpoint `v2_name`, so that it need not be opened."""


def read_hint(store: Store) -> CheckpointHint | None:
    """Return the hint, or None where there is none that makes sense."""
    try:
        raw = bytes(store.read(f"{LOG_DIRECTORY}/{LAST_CHECKPOINT}"))
    except ObjectNotFoundError:
        return None
    try:
        return _parse(raw)
    except ValueError as error:
        logger.warning("ignoring %s/%s: %s", LOG_DIRECTORY, LAST_CHECKPOINT, error)
        return None


def write_hint(store: Store, body: dict[str, Any], *, is_new: bool = True) -> bool:
    """Point `_last_checkpoint` at a checkpoint; return whether it was written.

    It never goes back: a hint at a newer checkpoint that is there stays. (Two writers at the same
    moment may still undo each other, for stores only replace; a hint that is older than need be
    costs a longer listing and nothing else.)

    Args:
        store: Where the table is.
        body: What the hint says, without its checksum.
        is_new: Whether the caller wrote the checkpoint. Who only found it knows less of it than a
            hint that names its version already, which then stays.
    """
    known = read_hint(store)
    if known is not None and known.version == body["version"] and not is_new:
        return False
    if known is not None and known.version > body["version"]:
        newer = list_log(store, from_version=known.version, to_version=known.version)
        if complete_checkpoints(newer):
            return False
    plain = orjson.loads(orjson.dumps(body))  # as readers will see it: lists, and no tuples
    text = orjson.dumps(plain | {"checksum": json_checksum(plain)})
    store.write(f"{LOG_DIRECTORY}/{LAST_CHECKPOINT}", text, overwrite=True)
    return True


def _parse(raw: bytes) -> CheckpointHint:
    if len(raw) > _LARGEST_HINT:
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
    usable = isinstance(actions, list) and all(isinstance(a, dict) for a in actions)
    name = v2.get("path")
    return CheckpointHint(
        version=version,
        add_files=adds if isinstance(adds, int) and adds >= 0 else None,
        v2_name=name.rsplit("/", 1)[-1] if isinstance(name, str) else None,
        v2_actions=tuple(actions) if usable and actions is not None else None,
    )


def json_checksum(obj: dict[str, Any]) -> str:
    """Return the protocol's MD5 over the canonical form of a JSON object, less `checksum`.

    >>> inner = {"k4": "v4", "k5": ["v5", "v6", "v7"]}
    >>> json_checksum(
    ...     {"k0": "'v 0'", "checksum": "?", "k1": {"k2": 2, "k3": ["v3", [1, 2], inner]}}
    ... )
    '6a92d155a59bf2eecbd4b4ec7fd1f875'
    """
    pairs: list[tuple[str, str]] = []
    _flatten("", {key: value for key, value in obj.items() if key != "checksum"}, pairs)
    pairs.sort(key=lambda pair: pair[0].encode())
    return hashlib.md5(  # noqa: S324 - the protocol's choice; it guards against accidents only
        ",".join(f"{path}={value}" for path, value in pairs).encode()
    ).hexdigest()


def _flatten(path: str, value: Any, pairs: list[tuple[str, str]]) -> None:
    """Add the leaves below a value; every reader of a table does this, so it is kept quick."""
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
def _encode(text: str) -> str:
    return quote(text, safe="-._~")
