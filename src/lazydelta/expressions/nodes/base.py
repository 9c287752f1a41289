"""Base classes of the expression tree."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Node", "Value"]


class Node:
    """An immutable node. `str()` renders it as Spark SQL, which the parser reads back."""

    __slots__ = ()

    def parts(self) -> tuple[Node, ...]:
        """Return the child nodes."""
        return ()

    def rebuild(self, parts: tuple[Any, ...]) -> Self:  # noqa: ARG002 - leaves have none
        """Return the same node over other children, in the order of `parts()`."""
        return self

    def walk(self) -> Iterator[Node]:
        """Yield this node and all its descendants."""
        stack: list[Node] = [self]
        while stack:
            node = stack.pop()
            yield node
            stack.extend(node.parts())


class Value(Node):
    """An expression: it has a value, or NULL, for each row."""

    __slots__ = ()
