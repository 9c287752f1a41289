"""Cache keys that compare objects by identity.

Hashing an expression with thousands of literals costs more than what a cache saves.
"""

from __future__ import annotations

from typing import Generic, TypeVar

__all__ = ["ById"]

T = TypeVar("T")


class ById(Generic[T]):
    """A hashable reference to an immutable object; equal to references to the same object only.

    It keeps the object alive, so its identity is not reused while a cache has the key.

    >>> big = tuple(range(3))
    >>> ById(big) == ById(big), ById(big) == ById((0, 1, 2))
    (True, False)
    """

    __slots__ = ("value",)

    def __init__(self, value: T) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ById) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)
