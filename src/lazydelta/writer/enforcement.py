"""From rows of any schema to rows that a table takes, planned once and run on each batch.

The plan knows what the types decide: which column goes where, what the table's schema, protocol
and properties will be after the write. Running it sees to the values: casts that change nothing,
columns that are computed, rules that must hold. Pure: no I/O, no threads, and it pickles.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from lazydelta.errors import SchemaMismatchError
from lazydelta.schema import PrimitiveType, from_arrow_schema, to_arrow_schema
from lazydelta.schema.mapping import without_metadata
from lazydelta.schema.values import build_scalar
from lazydelta.writer.constraints import Rules, table_rules, text_limit
from lazydelta.writer.generated_columns import ComputedColumn, plan_computed_columns
from lazydelta.writer.identity import IdentityColumn, plan_identity
from lazydelta.writer.schema_enforcement import conform, differences, match_fields
from lazydelta.writer.schema_evolution import (
    TableDefinition,
    merged_shape,
    refuse_void,
    replaced_shape,
    widened_columns,
)

if TYPE_CHECKING:
    from lazydelta.protocol import TableMetadata, TableProtocol
    from lazydelta.schema import StructField, StructType

__all__ = ["Enforcement", "SchemaMode", "plan_enforcement"]

SchemaMode = Literal["merge", "overwrite"] | None

_ZERO = build_scalar(0, PrimitiveType("integer"))
_CAST = "Cast the column first."
_SAME_COLUMNS = "All batches of one write must have the same columns."
_CURES = {
    None: 'schema_mode="merge" adds new columns; a column of another type must be cast first.',
    "merge": "Merging adds columns and does not change types: cast the column first.",
    "overwrite": _CAST,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Enforcement:
    """How rows get into a table; call it with each batch."""

    table: str
    given: tuple[str, ...]
    """Names of the columns of the rows that come."""
    schema: StructType
    """The table's after the write; the same object if the write does not change it."""
    metadata: TableMetadata
    """The table's after the write, column-mapping counters included; the same if unchanged."""
    protocol: TableProtocol
    """The table's after the write; the same object if the write does not change it."""
    arrow_schema: pa.Schema
    """The schema of the batches that come out."""
    identity: tuple[IdentityColumn, ...]
    """The columns that number the rows, those that are given among them."""
    fillers: tuple[ComputedColumn, ...]
    padded: tuple[tuple[str, int], ...]
    """Columns of type char, whose texts are filled with spaces, and their lengths."""
    emptied: tuple[str, ...]
    """Partition columns of texts or bytes, in which the log cannot tell empty from null."""
    rules: Rules

    def __call__(self, batch: pa.RecordBatch, before: int = 0) -> pa.RecordBatch:
        """Return the rows in the table's columns, complete, cast and checked.

        Args:
            batch: The rows.
            before: How many rows of the same write came before them; rows are numbered by it.

        Raises:
            IdentityExhaustedError: There are not enough numbers left for the rows.
            SchemaMismatchError: A value has no place in its column's type.
            ConstraintViolationError: Rows break rules of the table; all of them are named.
        """
        if tuple(batch.schema.names) != self.given:
            names = f"planned for {', '.join(self.given)}; came {', '.join(batch.schema.names)}"
            raise SchemaMismatchError(self.table, (f"columns: {names}",), _SAME_COLUMNS)
        at = match_fields(batch.schema, self.schema)
        columns = [self._column(batch, part, at.get(part.name)) for part in self.schema]
        taken = pa.RecordBatch.from_arrays(columns, schema=self.arrow_schema)
        for column in self.identity:
            taken = column.numbered(taken, before, self.table)
        for filler in self.fillers:
            taken = filler.fill(taken, self.table)
        for name, width in self.padded:
            place = taken.schema.get_field_index(name)
            texts = pc.utf8_rpad(taken.column(place), width=width, padding=" ")
            taken = taken.set_column(place, taken.schema.field(place), texts)
        for name in self.emptied:
            taken = _with_empty_as_null(taken, name)
        self.rules.check(taken)
        return taken

    def _column(self, batch: pa.RecordBatch, part: StructField, at: int | None) -> pa.Array:
        if at is None:
            return pa.nulls(batch.num_rows, self.arrow_schema.field(part.name).type)
        try:
            return conform(batch.column(at), part.type)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            given = batch.schema.field(at).type
            line = f"column {part.name!r}: wanted {part.type}, given {given}: {error}"
            raise SchemaMismatchError(self.table, (line,), _CAST) from None


def plan_enforcement(
    *,
    table: str,
    protocol: TableProtocol,
    metadata: TableMetadata,
    schema: StructType,
    incoming: pa.Schema,
    schema_mode: SchemaMode,
) -> Enforcement:
    """Plan how rows of a schema get into a table.

    Args:
        table: Its address, for errors.
        protocol: The table's, as it is.
        metadata: The table's, as it is.
        schema: Of `metadata`, parsed.
        incoming: The schema of the rows.
        schema_mode: What to do if that is not the table's: refuse (None), add what is new
            ("merge"), or replace the table's by it ("overwrite").

    Raises:
        SchemaMismatchError: The rows do not fit; the text shows the difference column by column.
        SchemaError: The rows have a type that Delta does not have, or names that collide.
        UnsupportedFeatureError: The table has rules that lazydelta cannot follow, by name.
    """
    given = without_metadata(from_arrow_schema(incoming), _is_rule)
    shape = TableDefinition(table=table, protocol=protocol, metadata=metadata, schema=schema)
    if schema_mode == "merge":
        shape = merged_shape(shape, given)
    elif schema_mode == "overwrite":
        shape = replaced_shape(shape, given)
    refuse_void(shape.schema, table)
    found = match_fields(incoming, shape.schema)
    missing = [part for part in shape.schema if part.name not in found]
    identity = plan_identity(shape.schema, shape.protocol, given=found, table=table)
    fillers = plan_computed_columns(missing, shape.schema, table=table)
    filled = frozenset([*(filler.column for filler in fillers), *(c.name for c in identity)])
    unlike = tuple(differences(incoming, shape.schema, filled=filled))
    if unlike:
        raise SchemaMismatchError(table, unlike, _CURES[schema_mode])
    rules = table_rules(table, shape.schema, metadata.configuration, given=frozenset(found))
    if shape.schema is not schema and schema_mode == "merge":
        _refuse_ruled(widened_columns(schema, shape.schema), rules, fillers)
    return Enforcement(
        table=table,
        given=tuple(incoming.names),
        schema=shape.schema,
        metadata=shape.metadata,
        protocol=shape.protocol,
        arrow_schema=to_arrow_schema(shape.schema),
        identity=identity,
        fillers=fillers,
        padded=_padded(shape.schema, table),
        emptied=_emptied(shape.schema, shape.metadata.partition_columns),
        rules=rules,
    )


def _is_rule(key: str) -> bool:
    """Whether a key of field metadata changes what rows are valid: not by merging a schema."""
    return key.startswith("delta.") or key == "CURRENT_DEFAULT"


def _refuse_ruled(
    widened: frozenset[str], rules: Rules, fillers: tuple[ComputedColumn, ...]
) -> None:
    """Refuse to widen what an expression reads: it may mean something else for rows of before."""
    readers = [(rule.title, rule.test) for rule in rules.rules]
    readers += [(filler.title, filler.value) for filler in fillers]
    lines = tuple(
        f"column {path[0]!r} would become wider, and is read by the {title}"
        for title, expression in readers
        for path in sorted(expression.columns)
        if path[0] in widened
    )
    if lines:
        cure = "Cast the column to the table's type, or drop the rule first."
        raise SchemaMismatchError(rules.table, lines, cure)


def _padded(schema: StructType, table: str) -> tuple[tuple[str, int], ...]:
    limits = ((part.name, text_limit(part, table)) for part in schema)
    return tuple((name, limit[1]) for name, limit in limits if limit and limit[0] == "char")


def _emptied(schema: StructType, partition_columns: tuple[str, ...]) -> tuple[str, ...]:
    kinds = {field.name: field.type for field in to_arrow_schema(schema)}
    names = (name for name in partition_columns if name in kinds)
    return tuple(n for n in names if pt.is_string(kinds[n]) or pt.is_binary(kinds[n]))


def _with_empty_as_null(rows: pa.RecordBatch, name: str) -> pa.RecordBatch:
    """Return rows as they will be read back, so that rules are asked of what is stored."""
    at = rows.schema.get_field_index(name)
    values = rows.column(at)
    is_empty = pc.equal(pc.binary_length(values), _ZERO)
    if not is_empty.true_count:
        return rows
    kept = pc.if_else(is_empty, pa.nulls(1, values.type)[0], values)
    return rows.set_column(at, rows.schema.field(at), kept)
