"""The time of a statement: `current_timestamp()` and `current_date()` have one value in it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from lazydelta.expressions.coercion import DATE, TIMESTAMP
from lazydelta.expressions.functions import ALIASES, CURRENT
from lazydelta.expressions.nodes.value_nodes import Call, Literal

if TYPE_CHECKING:
    from lazydelta.expressions.nodes.base import Node

__all__ = ["current_value", "pinned", "statement_time"]

_DAY_MICROS = 86_400_000_000


def statement_time() -> int:
    """Return the time in microseconds since 1970."""
    return time.time_ns() // 1_000


def current_value(name: str, now: int) -> Literal:
    """Return the value of `current_timestamp` or `current_date` at a time, in UTC."""
    if name == "current_date":
        return Literal(now // _DAY_MICROS, DATE)
    return Literal(now, TIMESTAMP)


def pinned(node: Node, now: int | None = None) -> Any:
    """Return an expression with the current time as a constant.

    A filter is bound many times: for files, row groups and rows, perhaps in other processes. All
    of them must use one time.
    """
    calls = [part for part in node.walk() if isinstance(part, Call) and _is_current(part)]
    if not calls:
        return node
    now = statement_time() if now is None else now

    def replaced(part: Any) -> Any:
        if isinstance(part, Call) and _is_current(part):
            return current_value(ALIASES.get(part.name, part.name), now)
        return part.rebuild(tuple(map(replaced, part.parts())))

    return replaced(node)


def _is_current(call: Call) -> bool:
    return not call.args and ALIASES.get(call.name, call.name) in CURRENT
