"""Reference checksum of `_last_checkpoint`, written from the protocol alone."""

from __future__ import annotations

import hashlib
import json
from typing import Any

__all__ = ["json_checksum"]

_UNRESERVED = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~")


def json_checksum(obj: dict[str, Any]) -> str:
    """Return the MD5 of the canonical form of an object, without its `checksum`.

    >>> json_checksum({"k0": "'v 0'", "k1": {"k2": 2}}) == json_checksum(
    ...     {"k1": {"k2": 2}, "checksum": "any", "k0": "'v 0'"}
    ... )
    True
    """
    pairs = _pairs({key: value for key, value in obj.items() if key != "checksum"})
    canonical = ",".join(f"{'+'.join(path)}={value}" for path, value in sorted(pairs))
    return hashlib.md5(canonical.encode()).hexdigest()


def _pairs(value: Any) -> list[tuple[list[str], str]]:
    if isinstance(value, dict):
        return [([_quoted(k), *path], v) for k, inner in value.items() for path, v in _pairs(inner)]
    if isinstance(value, list):
        return [([str(i), *path], v) for i, inner in enumerate(value) for path, v in _pairs(inner)]
    return [([], _quoted(value) if isinstance(value, str) else json.dumps(value))]


def _quoted(string: str) -> str:
    encoded = "".join(chr(b) if b in _UNRESERVED else f"%{b:02X}" for b in string.encode())
    return f'"{encoded}"'
