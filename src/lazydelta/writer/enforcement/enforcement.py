"""Schema enforcement, planned once per write and applied to each batch.

The plan decides by types: the column mapping, and the table's schema, protocol and properties
after the write. Applying it handles values: lossless casts, computed columns, constraints. Pure:
no I/O, no threads; the plan pickles.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from lazydelta.errors import SchemaMismatchError
from lazydelta.schema import PrimitiveType, from_arrow_schema, schema_to_json, to_arrow_schema
from lazydelta.schema.mapping import without_metadata
from lazydelta.schema.values import build_scalar
from lazydelta.writer.columns.identity import (
    IdentityColumn,
    plan_identity,
    with_high_water_marks,
)
from lazydelta.writer.columns.schema_evolution import (
    TableDefinition,
    check_void,
    widened_columns,
    with_merged_schema,
    with_replaced_schema,
)
from lazydelta.writer.enforcement.constraints import Constraints, declared_length, table_constraints
from lazydelta.writer.enforcement.generated_columns import ComputedColumn, plan_computed_columns
from lazydelta.writer.enforcement.schema_enforcement import (
    cast_values,
    match_fields,
    schema_differences,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

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
    """Enforces a table's schema and constraints; call it with each batch."""

    table: str
    input_columns: tuple[str, ...]
    """Column names of the input batches."""
    schema: StructType
    """The table's schema after the write; the same object if unchanged."""
    metadata: TableMetadata
    """The table's metadata after the write, column ids included; the same object if unchanged."""
    protocol: TableProtocol
    """The table's protocol after the write; the same object if unchanged."""
    arrow_schema: pa.Schema
    """The schema of the output batches."""
    identity: tuple[IdentityColumn, ...]
    computed_columns: tuple[ComputedColumn, ...]
    """Generated columns and column defaults that the input does not have."""
    char_columns: tuple[tuple[str, int], ...]
    """Columns of type char(n), which are padded with spaces, and n."""
    empty_as_null: tuple[str, ...]
    """String and binary partition columns: partition values cannot tell empty from null."""
    constraints: Constraints

    def __call__(self, batch: pa.RecordBatch, row_offset: int | pa.Array = 0) -> pa.RecordBatch:
        """Return the rows in the table's schema, complete, cast and validated.

        Args:
            batch: The input rows.
            row_offset: Number of rows of this write before the batch, or the number of each row;
                identity values depend on it.

        Raises:
            IdentityExhaustedError: An identity column has too few values left.
            SchemaMismatchError: A value does not fit in its column's type.
            ConstraintViolationError: Rows violate constraints; all violated ones are named.
        """
        if tuple(batch.schema.names) != self.input_columns:
            expected, actual = ", ".join(self.input_columns), ", ".join(batch.schema.names)
            line = f"columns: expected {expected}; the batch has {actual}"
            raise SchemaMismatchError(self.table, (line,), _SAME_COLUMNS)
        indices = match_fields(batch.schema, self.schema)
        columns = [self._column(batch, part, indices.get(part.name)) for part in self.schema]
        rows = pa.RecordBatch.from_arrays(columns, schema=self.arrow_schema)
        for column in self.identity:
            rows = column.assign(rows, row_offset, self.table)
        for computed in self.computed_columns:
            rows = computed.fill(rows, self.table)
        for name, width in self.char_columns:
            index = rows.schema.get_field_index(name)
            padded = pc.utf8_rpad(rows.column(index), width=width, padding=" ")
            rows = rows.set_column(index, rows.schema.field(index), padded)
        for name in self.empty_as_null:
            rows = _with_empty_as_null(rows, name)
        self.constraints.check(rows)
        return rows

    @property
    def generates_identity(self) -> bool:
        """Whether rows get values of an identity column."""
        return any(not column.is_explicit for column in self.identity)

    def advanced_metadata(self, marks: Mapping[str, int]) -> TableMetadata:
        """Return the table's metadata after the write, with advanced high-water marks.

        Args:
            marks: The furthest value of each identity column in the new rows.
        """
        schema = with_high_water_marks(self.schema, self.identity, marks)
        if schema is self.schema:
            return self.metadata
        return replace(self.metadata, schema_string=schema_to_json(schema))

    def _column(self, batch: pa.RecordBatch, part: StructField, index: int | None) -> pa.Array:
        if index is None:
            return pa.nulls(batch.num_rows, self.arrow_schema.field(part.name).type)
        try:
            return cast_values(batch.column(index), part.type)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            source = batch.schema.field(index).type
            types = f"the table has {part.type}, the rows have {source}"
            line = f"column {part.name!r}: {types}: {error}"
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
    """Plan the enforcement for rows of a schema.

    Args:
        table: The table's URL, for errors.
        protocol: The table's protocol before the write.
        metadata: The table's metadata before the write.
        schema: The schema of `metadata`, parsed.
        incoming: The schema of the rows.
        schema_mode: How to handle a different schema: refuse it (None), add new columns
            ("merge"), or replace the table's schema ("overwrite").

    Raises:
        SchemaMismatchError: The rows do not fit; the error lists the differences by column.
        SchemaError: The rows have a type without a Delta equivalent, or names that collide.
        UnsupportedFeatureError: The table has an expression that lazydelta cannot evaluate.
    """
    before = TableDefinition(table=table, protocol=protocol, metadata=metadata, schema=schema)
    after = _evolved(before, incoming, schema_mode)
    matches = match_fields(incoming, after.schema)
    missing = [part for part in after.schema if part.name not in matches]
    identity = plan_identity(after.schema, after.protocol, input_columns=matches, table=table)
    computed = plan_computed_columns(missing, after.schema, table=table)
    optional = frozenset([*(c.column for c in computed), *(c.name for c in identity)])
    differences = tuple(schema_differences(incoming, after.schema, computed=optional))
    if differences:
        raise SchemaMismatchError(table, differences, _CURES[schema_mode])
    constraints = table_constraints(
        table, after.schema, metadata.configuration, input_columns=frozenset(matches)
    )
    if after.schema is not schema and schema_mode == "merge":
        _check_widened(widened_columns(schema, after.schema), constraints, computed)
    return Enforcement(
        table=table,
        input_columns=tuple(incoming.names),
        schema=after.schema,
        metadata=after.metadata,
        protocol=after.protocol,
        arrow_schema=to_arrow_schema(after.schema),
        identity=identity,
        computed_columns=computed,
        char_columns=_char_columns(after.schema, table),
        empty_as_null=_empty_as_null(after.schema, after.metadata.partition_columns),
        constraints=constraints,
    )


def _evolved(
    definition: TableDefinition, incoming: pa.Schema, schema_mode: SchemaMode
) -> TableDefinition:
    new_schema = without_metadata(from_arrow_schema(incoming), _affects_validity)
    if schema_mode == "merge":
        definition = with_merged_schema(definition, new_schema)
    elif schema_mode == "overwrite":
        definition = with_replaced_schema(definition, new_schema)
    check_void(definition.schema, definition.table)
    return definition


def _affects_validity(key: str) -> bool:
    """Whether a key of field metadata affects which rows are valid: merging ignores those."""
    return key.startswith("delta.") or key == "CURRENT_DEFAULT"


def _check_widened(
    widened: frozenset[str], constraints: Constraints, computed: tuple[ComputedColumn, ...]
) -> None:
    """Refuse to widen columns that an expression reads: its results may differ on old rows."""
    expressions = [(constraint.title, constraint.test) for constraint in constraints.constraints]
    expressions += [(column.title, column.value) for column in computed]
    lines = tuple(
        f"column {path[0]!r} would be widened, and is used by the {title}"
        for title, expression in expressions
        for path in sorted(expression.columns)
        if path[0] in widened
    )
    if lines:
        cure = "Cast the column to the table's type, or drop the constraint first."
        raise SchemaMismatchError(constraints.table, lines, cure)


def _char_columns(schema: StructType, table: str) -> tuple[tuple[str, int], ...]:
    limits = ((part.name, declared_length(part, table)) for part in schema)
    return tuple((name, limit[1]) for name, limit in limits if limit and limit[0] == "char")


def _empty_as_null(schema: StructType, partition_columns: tuple[str, ...]) -> tuple[str, ...]:
    kinds = {field.name: field.type for field in to_arrow_schema(schema)}
    names = (name for name in partition_columns if name in kinds)
    return tuple(n for n in names if pt.is_string(kinds[n]) or pt.is_binary(kinds[n]))


def _with_empty_as_null(rows: pa.RecordBatch, name: str) -> pa.RecordBatch:
    """Return the rows as readers will see them, so that constraints check the stored values."""
    index = rows.schema.get_field_index(name)
    values = rows.column(index)
    is_empty = pc.equal(pc.binary_length(values), _ZERO)
    if not is_empty.true_count:
        return rows
    kept = pc.if_else(is_empty, pa.nulls(1, values.type)[0], values)
    return rows.set_column(index, rows.schema.field(index), kept)
