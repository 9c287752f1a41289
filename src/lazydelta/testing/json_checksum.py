"""The checksum of `_last_checkpoint`, from the text of the protocol and not from the reader."""

from __future__ import annotations

import hashlib
import json
from typing import Any

__all__ = ["json_checksum"]

_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~")


def json_checksum(obj: dict[str, Any]) -> str:
    """Return the MD5 of the canonical form of an object, its own `checksum` left out.

    >>> json_checksum({"k0": "'v 0'", "k1": {"k2": 2}}) == json_checksum(
    ...     {"k1": {"k2": 2}, "checksum": "any", "k0": "'v 0'"}
    ... )
    True
    """
    pairs = _pairs({key: value for key, value in obj.items() if key != "checksum"})
    text = ",".join(f"{'+'.join(path)}={value}" for path, value in sorted(pairs))
    return hashlib.md5(text.encode()).hexdigest()  # noqa: S324 - the protocol's choice


def _pairs(value: Any) -> list[tuple[list[str], str]]:
    if isinstance(value, dict):
        return [([_quoted(k), *path], v) for k, inner in value.items() for path, v in _pairs(inner)]
    if isinstance(value, list):
        return [([str(i), *path], v) for i, inner in enumerate(value) for path, v in _pairs(inner)]
    return [([], _quoted(value) if isinstance(value, str) else json.dumps(value))]


def _quoted(text: str) -> str:
    encoded = "".join(chr(b) if b in _PLAIN else f"%{b:02X}" for b in text.encode())
    return f'"{encoded}"'
