"""The rules that a table has for its rows, and what a batch does to them.

A rule is broken where it is not true: NULL breaks it as much as FALSE does, and so does a value
that cannot be computed. All rules are looked at before any is reported, each with how many rows
break it and the values of the first. Pure: no I/O, and it pickles, because executors check what
they write.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow.compute as pc

from lazydelta._arrow import to_numpy
from lazydelta.errors import (
    ColumnNotFoundError,
    ConstraintViolationError,
    DeltaError,
    PredicateError,
    SchemaError,
    SchemaMismatchError,
    UnsupportedFeatureError,
)
from lazydelta.expressions import BoundExpression, bind_condition, bind_equality
from lazydelta.schema import PrimitiveType
from lazydelta.schema.values import build_scalar
from lazydelta.writer.nullability import forbidden_nulls, takes_nulls_everywhere
from lazydelta.writer.property_validation import CONSTRAINT
from lazydelta.writer.required_protocol import all_fields

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import numpy as np
    import pyarrow as pa

    from lazydelta.schema import StructField, StructType

__all__ = [
    "GENERATION",
    "Rule",
    "Rules",
    "check_rule",
    "refusal",
    "shown_values",
    "table_rules",
    "text_limit",
]

GENERATION = "delta.generationExpression"
_INVARIANTS = "delta.invariants"
_DECLARED_TEXT = "__CHAR_VARCHAR_TYPE_STRING"
"""Where Spark keeps the type that a column of texts was declared with."""
_LIMITED = re.compile(r"(char|varchar)\((\d{1,9})\)")
_FALSE = build_scalar(False, PrimitiveType("boolean"))
_LONGEST_VALUE = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A condition that must be true of every row."""

    title: str
    """What a person calls it: the constraint's name, or the column, and the text."""
    test: BoundExpression

    def violation(self, batch: pa.RecordBatch) -> str | None:
        """Return what to say of a batch of rows that breaks it; None if it holds for all."""
        result = self.test(batch)
        holds = pc.coalesce(result.values, _FALSE)
        if holds.true_count == batch.num_rows:
            return None
        rows = to_numpy(pc.indices_nonzero(pc.invert(holds)))
        first = int(rows[0])
        is_failure = result.failed is not None and result.failed[first].as_py()
        why = "cannot be computed for" if is_failure else "broken by"
        shown = shown_values(batch, first, self.test.columns)
        return f"{self.title}: {why} {_count(rows, batch)}, the first has {shown}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Everything that rows of a table must satisfy."""

    table: str
    schema: StructType
    rules: tuple[Rule, ...] = ()

    def check(self, batch: pa.RecordBatch) -> None:
        """Raise unless every row of a batch, in the table's schema, satisfies every rule.

        Raises:
            ConstraintViolationError: Some rows do not; all broken rules are named.
        """
        broken = tuple(self.violations(batch))
        if broken:
            raise ConstraintViolationError(self.table, broken)

    def violations(self, batch: pa.RecordBatch) -> Iterator[str]:
        """Yield a line for each rule that rows of the batch break."""
        if batch.num_rows == 0:
            return
        if not takes_nulls_everywhere(self.schema):
            for found in forbidden_nulls(batch, self.schema):
                others = [(name,) for name in self.schema.names]
                shown = shown_values(batch, int(found.rows[0]), others)
                yield (
                    f"column {found.path!r} takes no nulls: null in {_count(found.rows, batch)}, "
                    f"the first has {shown}"
                )
        for rule in self.rules:
            line = rule.violation(batch)
            if line is not None:
                yield line


def table_rules(
    table: str, schema: StructType, configuration: Mapping[str, str], *, given: frozenset[str]
) -> Rules:
    """Return the rules of a table.

    Args:
        table: Its address, for errors.
        schema: The schema that rows are checked in.
        configuration: The table's properties, for its CHECK constraints.
        given: Generated columns whose values come with the rows, and are compared with what they
            should be. The others are computed, and need no check.

    Raises:
        UnsupportedFeatureError: A rule says something that lazydelta cannot evaluate.
        SchemaMismatchError: A rule names a column that the schema does not have.
    """
    rules = [
        check_rule(key.removeprefix(CONSTRAINT), text, schema, table=table)
        for key, text in sorted(configuration.items())
        if key.startswith(CONSTRAINT)
    ]
    for part in schema:
        rules += _length_rules(part, schema, table)
        if part.name in given and GENERATION in part.metadata:
            rules.append(_generation_rule(part, schema, table))
    for path, part in all_fields(schema):
        if len(path) > 1 and _DECLARED_TEXT in part.metadata:
            raise _limited_within(".".join(path), str(part.metadata[_DECLARED_TEXT]), table)
        rules += _invariants(".".join(path), part, schema, table)
    return Rules(table=table, schema=schema, rules=tuple(rules))


def check_rule(name: str, text: str, schema: StructType, *, table: str) -> Rule:
    """Return the rule of a CHECK constraint.

    Raises:
        UnsupportedFeatureError: It says something that lazydelta cannot evaluate.
    """
    what = f"CHECK constraint {name!r} ({text})"
    try:
        return Rule(title=what, test=bind_condition(text, schema))
    except DeltaError as error:
        raise refusal("checkConstraints", what, error, table) from None


def refusal(feature: str, what: str, error: DeltaError, table: str) -> DeltaError:
    """Return why a write is refused because of an expression of the table."""
    if isinstance(error, ColumnNotFoundError):
        missing = f"{what} names column {error.column!r}, which would not be there"
        return SchemaMismatchError(table, (missing,), "Give the column, or drop the rule first.")
    reason = error.reason if isinstance(error, PredicateError) else str(error)
    return UnsupportedFeatureError(table, (feature,), "write", f"{what}: {reason.rstrip('.')}")


def shown_values(batch: pa.RecordBatch, row: int, paths: Any) -> str:
    """Return the values of a row at some paths, short enough to read."""
    found = []
    for path in sorted(paths):
        value: Any = batch.column(path[0])[row].as_py()
        for name in path[1:]:
            value = value and value[name]
        text = repr(value)
        short = text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}..."
        found.append(f"{'.'.join(path)}={short}")
    return ", ".join(found) or "no columns to show"


def text_limit(part: StructField, table: str) -> tuple[str, int] | None:
    """Return `char` or `varchar` and its length, if a column of texts has one.

    Raises:
        UnsupportedFeatureError: Something within a nested column has one.
    """
    declared = str(part.metadata.get(_DECLARED_TEXT, part.type)).lower()
    whole = _LIMITED.fullmatch(declared)
    if whole is not None:
        return whole[1], int(whole[2])
    if _LIMITED.search(declared):
        raise _limited_within(part.name, declared, table)
    return None


def _limited_within(path: str, declared: str, table: str) -> UnsupportedFeatureError:
    feature = "char and varchar in nested columns"
    return UnsupportedFeatureError(table, (feature,), "write", f"column {path!r} is {declared}")


def _length_rules(part: StructField, schema: StructType, table: str) -> Iterator[Rule]:
    limit = text_limit(part, table)
    if limit is not None:
        name = f"`{part.name.replace('`', '``')}`"
        text = f"{name} IS NULL OR length({name}) <= {limit[1]}"
        test = bind_condition(text, schema)
        yield Rule(title=f"column {part.name!r} is {limit[0]}({limit[1]})", test=test)


def _generation_rule(part: StructField, schema: StructType, table: str) -> Rule:
    text = str(part.metadata[GENERATION])
    what = f"generated column {part.name!r} ({text})"
    try:
        return Rule(title=what, test=bind_equality(part.name, text, schema))
    except DeltaError as error:
        raise refusal("generatedColumns", what, error, table) from None


def _invariants(path: str, part: StructField, schema: StructType, table: str) -> Iterator[Rule]:
    raw = part.metadata.get(_INVARIANTS)
    if raw is None:
        return
    what = f"invariant of column {path!r}"
    try:
        text = orjson.loads(raw)["expression"]["expression"]
    except (orjson.JSONDecodeError, LookupError, TypeError):
        reason = SchemaError(f"{raw!r:.200} is not the JSON of an invariant")
        raise refusal("invariants", what, reason, table) from None
    try:
        yield Rule(title=f"{what} ({text})", test=bind_condition(text, schema))
    except DeltaError as error:
        raise refusal("invariants", f"{what} ({text})", error, table) from None


def _count(rows: np.ndarray, batch: pa.RecordBatch) -> str:
    return f"{len(rows)} of {batch.num_rows} rows"
