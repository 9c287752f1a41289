"""The data types of a Delta table, as the protocol names them.

Plain immutable values: nothing here knows JSON, Arrow, files or column mapping. A type name that
this engine does not know is still a `PrimitiveType`; only turning it into Arrow is refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from lazydelta._html import schema_html
from lazydelta.errors import ColumnNotFoundError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__all__ = [
    "ArrayType",
    "DataType",
    "DecimalType",
    "MapType",
    "PrimitiveType",
    "StructField",
    "StructType",
]

_SIMPLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class PrimitiveType:
    """A type without parts, by its name in the schema: `long`, `string`, `timestamp_ntz`..."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class DecimalType:
    """A decimal number of at most `precision` digits, `scale` of them behind the point."""

    precision: int
    scale: int

    def __str__(self) -> str:
        return f"decimal({self.precision},{self.scale})"


@dataclass(frozen=True, slots=True)
class ArrayType:
    """A list of `element` values."""

    element: DataType
    contains_null: bool = True

    def __str__(self) -> str:
        return f"array<{self.element}>"


@dataclass(frozen=True, slots=True)
class MapType:
    """A map from `key` to `value`; keys are never null."""

    key: DataType
    value: DataType
    value_contains_null: bool = True

    def __str__(self) -> str:
        return f"map<{self.key},{self.value}>"


@dataclass(frozen=True, slots=True)
class StructField:
    """A named part of a struct; `metadata` is kept as it was written."""

    name: str
    type: DataType
    nullable: bool = True
    metadata: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def __str__(self) -> str:
        return f"{self.name}: {self.type}{'' if self.nullable else ' not null'}"


@dataclass(frozen=True, slots=True)
class StructType:
    """An ordered list of fields; also the schema of a whole table."""

    fields: tuple[StructField, ...]

    def __str__(self) -> str:
        return f"struct<{', '.join(map(str, self.fields))}>"

    _repr_html_ = schema_html

    def __iter__(self) -> Iterator[StructField]:
        return iter(self.fields)

    def __len__(self) -> int:
        return len(self.fields)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the top-level fields."""
        return tuple(f.name for f in self.fields)

    def get(self, name: str) -> StructField | None:
        """Return the field of that name: the exact one, else the only one ignoring case."""
        folded = name.lower()
        alike = [f for f in self.fields if f.name.lower() == folded]
        exact = [f for f in alike if f.name == name]
        return exact[0] if exact else alike[0] if len(alike) == 1 else None

    def find(self, path: Sequence[str]) -> tuple[StructField, ...]:
        """Return the fields on the way to `path`, outermost first.

        Raises:
            ColumnNotFoundError: A part of the path does not exist; near matches are in the text.
        """
        found: list[StructField] = []
        level: DataType = self
        for depth, name in enumerate(path):
            known = level.names if isinstance(level, StructType) else ()
            part = level.get(name) if isinstance(level, StructType) else None
            if part is None:
                raise _not_found(path, known, depth)
            found.append(part)
            level = part.type
        return tuple(found)

    def leaves(self, prefix: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], DataType]]:
        """Yield the path and type of everything that is not a struct, in order."""
        for part in self.fields:
            path = (*prefix, part.name)
            if isinstance(part.type, StructType):
                yield from part.type.leaves(path)
            else:
                yield path, part.type


DataType = PrimitiveType | DecimalType | ArrayType | MapType | StructType


def _not_found(path: Sequence[str], known: Sequence[str], depth: int) -> ColumnNotFoundError:
    column = ".".join(p if _SIMPLE_NAME.fullmatch(p) else f"`{p}`" for p in path)
    folded = {name.lower(): name for name in known}
    near = [folded[n] for n in get_close_matches(path[depth].lower(), folded, n=3, cutoff=0.6)]
    hint = f" (did you mean {' or '.join(map(repr, near))}?)" if near else ""
    shown = tuple(".".join((*path[:depth], name)) for name in known)
    return ColumnNotFoundError(reason=hint, column=column, existing=shown)
