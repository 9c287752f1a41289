"""Placeholder until the real index is merged: a Python dict."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

__all__ = ["KeyIndex"]


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return "nan" if value != value else value + 0.0
    return value


class KeyIndex:
    def __init__(self, rows: dict[Any, list[int]], null_safe: Sequence[bool]) -> None:
        self.rows = rows
        self.null_safe = null_safe

    @classmethod
    def build(cls, keys: Sequence[pa.Array], null_safe: Sequence[bool]) -> KeyIndex:
        rows: dict[Any, list[int]] = {}
        for at, key in enumerate(zip(*(k.to_pylist() for k in keys), strict=True)):
            if all(v is not None or safe for v, safe in zip(key, null_safe, strict=True)):
                rows.setdefault(tuple(map(_plain, key)), []).append(at)
        return cls(rows, null_safe)

    def match(self, keys: Sequence[pa.Array]) -> tuple[np.ndarray, np.ndarray]:
        left, right = [], []
        for at, key in enumerate(zip(*(k.to_pylist() for k in keys), strict=True)):
            found = self.rows.get(tuple(map(_plain, key)), [])
            left += [at] * len(found)
            right += found
        return np.array(left, np.int64), np.array(right, np.int64)

    def may_match(
        self,
        lower: Sequence[pa.Array | None],
        upper: Sequence[pa.Array | None],
        may_have_null: Sequence[pa.Array | None],
    ) -> np.ndarray | None:
        return None
