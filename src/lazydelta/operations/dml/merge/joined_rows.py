"""Pairs of target and source rows: names, binding and evaluation.

Expressions see a schema with a struct for each side, named by its alias, and the columns whose
names only one side has. So `t.id`, `s.id` and an unambiguous `price` are ordinary columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lazydelta.errors import ColumnNotFoundError, ConfigError, PredicateError
from lazydelta.expressions import bind, bind_expression, evaluate
from lazydelta.expressions.nodes import Column
from lazydelta.schema import StructField, StructType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import TypeVar

    from lazydelta.expressions import BoundExpression, Predicate
    from lazydelta.expressions.nodes import Node, Stat
    from lazydelta.schema import DataType

    T = TypeVar("T")

__all__ = ["JoinedSchema", "column_of", "evaluate_rows", "joined_batch", "paths_of"]


@dataclass(frozen=True, kw_only=True)
class JoinedSchema:
    """The columns that an expression may name: those of the target, of the source, or of both."""

    target_alias: str
    source_alias: str
    target: StructType | None = None
    source: StructType | None = None
    now: int | None = None
    """The time of the statement."""

    def __post_init__(self) -> None:
        """Refuse aliases that do not tell the sides apart."""
        for name in ("target_alias", "source_alias"):
            if not isinstance(getattr(self, name), str) or not getattr(self, name):
                raise ConfigError(name, "must be a name")
        if self.target_alias.lower() == self.source_alias.lower():
            raise ConfigError("source_alias", f"is that of the target too: {self.source_alias!r}")

    @cached_property
    def schema(self) -> StructType:
        """The schema to bind to."""
        sides = [(self.target_alias, self.target), (self.source_alias, self.source)]
        present = [(alias, side) for alias, side in sides if side is not None]
        structs = [StructField(alias, side) for alias, side in present]
        taken = {alias.lower() for alias, _ in present}
        plain = [
            field
            for _, side in present
            for field in side
            if field.name.lower() not in taken and not self._is_ambiguous(field.name)
        ]
        return StructType((*structs, *plain))

    def _is_ambiguous(self, name: str) -> bool:
        sides = (self.target, self.source)
        return all(side is not None and _has_name(side, name) for side in sides)

    def resolve(self, path: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
        """Return the alias of a column's side, and its path there."""
        names = tuple(field.name for field in self.schema.find(path))
        if names[0] in (self.target_alias, self.source_alias):
            return names[0], names[1:]
        is_target = self.target is not None and self.target.get(names[0]) is not None
        return self.target_alias if is_target else self.source_alias, names

    def paths(self, nodes: Iterable[Node | None], alias: str) -> list[tuple[str, ...]]:
        """Return the paths of the columns of one side that expressions read.

        Raises:
            PredicateError: An expression reads a whole side.
        """
        found = (self.resolve(path) for path in paths_of(nodes))
        return [path for side, path in found if side == alias]

    def bind(self, predicate: Predicate) -> Predicate:
        """Bind a condition.

        Raises:
            PredicateError: It is not a condition, not supported, or a name is ambiguous.
            ColumnNotFoundError: It names a column that neither side has.
        """
        return self._resolved(str(predicate), lambda: bind(predicate, self.schema, ()))

    def bind_expression(self, sql: str, to_type: DataType) -> BoundExpression:
        """Bind an expression whose values are stored in a column of a type."""
        return self._resolved(
            sql,
            lambda: bind_expression(sql, self.schema, to_type=to_type, strict=False, now=self.now),
        )

    def _resolved(self, sql: str, bound: Callable[[], T]) -> T:
        try:
            return bound()
        except ColumnNotFoundError as error:
            name = error.column.split(".")[0]
            if not self._is_ambiguous(name):
                raise
            target, source = self.target_alias, self.source_alias
            reason = f"both sides have a column {name!r}: write {target}.{name} or {source}.{name}"
            raise PredicateError(sql, reason) from None


def _has_name(side: StructType, name: str) -> bool:
    return any(field.name.lower() == name.lower() for field in side)


def paths_of(nodes: Iterable[Node | None]) -> Iterator[tuple[str, ...]]:
    """Yield the paths of the columns in expressions."""
    for node in nodes:
        if node is not None:
            yield from (part.path for part in node.walk() if isinstance(part, Column))


def joined_batch(
    schema: JoinedSchema, target: pa.RecordBatch | None, source: pa.RecordBatch | None
) -> pa.RecordBatch:
    """Return pairs of rows as a batch of the joined schema; nothing is copied."""
    sides = [(schema.target_alias, target), (schema.source_alias, source)]
    present = [(alias, rows) for alias, rows in sides if rows is not None]
    columns = {alias: rows.to_struct_array() for alias, rows in present}
    for _, rows in present:
        for name in rows.schema.names:
            if name not in columns and schema.schema.get(name) is not None:
                columns[name] = rows.column(name)
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def column_of(batch: pa.RecordBatch, column: Any) -> pa.Array:
    """Return a column or nested field of a batch."""
    values = batch.column(column.path[0])
    for name in column.path[1:]:
        values = pc.struct_field(values, [values.type.get_field_index(name)])
    return values


def evaluate_rows(node: Any, batch: pa.RecordBatch) -> pa.Array:
    """Return the value of a bound expression for each row; NULL where it cannot be computed."""

    def column(ref: Column | Stat) -> pa.Array:
        return column_of(batch, ref)

    return evaluate(node, column, batch.num_rows)
