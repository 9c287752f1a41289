"""The range of the source's keys, as a condition on the table.

A row of the table outside of it matches no source row. So a concurrent commit that adds only such
rows does not conflict with a MERGE.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from lazydelta.expressions import col, lit
from lazydelta.expressions.nodes import And
from lazydelta.schema import DecimalType

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from lazydelta.expressions import Predicate
    from lazydelta.operations.dml.merge.condition import Condition

__all__ = ["KeyBounds"]

_TYPES = ("byte", "short", "integer", "long", "string", "date")


class KeyBounds:
    """Least and greatest value of each key so far.

    Args:
        condition: The ON condition.
    """

    def __init__(self, condition: Condition) -> None:
        self._condition = condition
        self._bounds: list[tuple[Any, Any] | None] = [None] * len(condition.keys)

    def add(self, keys: Sequence[pa.Array]) -> None:
        """Extend the bounds by the keys of a chunk."""
        for index, (key, values) in enumerate(zip(self._condition.keys, keys, strict=True)):
            has_range = str(key.type) in _TYPES or isinstance(key.type, DecimalType)
            if key.target_path is None or key.null_safe or not has_range:
                continue
            found = pc.min_max(values).as_py()
            if found["min"] is not None:
                low, high = self._bounds[index] or (found["min"], found["max"])
                self._bounds[index] = min(low, found["min"]), max(high, found["max"])

    def predicate(self) -> Predicate | None:
        """Return a condition on the table that is true of every row that can match."""
        parts = [] if self._condition.target_only is None else [self._condition.target_only]
        for key, bounds in zip(self._condition.keys, self._bounds, strict=True):
            if key.target_path is not None and bounds is not None:
                low, high = bounds
                parts.append(col(key.target_path).between(lit(low), lit(high)))
        return And(tuple(parts)) if len(parts) > 1 else parts[0] if parts else None
