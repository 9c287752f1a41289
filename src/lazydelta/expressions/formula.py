"""Formulas: the expressions in a table's own metadata, computed on its rows.

CHECK constraints, invariants, generated columns and defaults are Spark SQL. A formula is bound to
a schema once, where everything that is not understood is refused by name; then it gives a value,
or a failure, for each row of a batch. It pickles, and does no I/O.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lazydelta.errors import PredicateError
from lazydelta.expressions.cells import Cells, both, either
from lazydelta.expressions.formula_compute import compute
from lazydelta.expressions.formula_parse import parse_formula
from lazydelta.expressions.formula_types import Step, assignable, cast_to, column_paths, typed
from lazydelta.expressions.nodes import Column
from lazydelta.schema import PrimitiveType, build_scalar, to_arrow_type

if TYPE_CHECKING:
    from lazydelta.schema import DataType, StructType

__all__ = ["Formula", "bind_formula", "constant_formula", "equality_formula"]

_BOOLEAN = PrimitiveType("boolean")


@dataclass(frozen=True, slots=True, kw_only=True)
class Formula:
    """An expression over the rows of one schema."""

    text: str
    """As the table has it."""
    step: Step

    @property
    def columns(self) -> frozenset[tuple[str, ...]]:
        """The paths of the columns that it reads."""
        return column_paths(self.step)

    def __call__(self, batch: pa.RecordBatch) -> Cells:
        """Return its value for each row of a batch in the schema that it is bound to."""
        return _Run(batch).cells(self.step)


def bind_formula(text: str, schema: StructType, *, gives: DataType) -> Formula:
    """Read an expression over a schema's columns.

    >>> from lazydelta.schema import StructField, StructType
    >>> schema = StructType((StructField("a", PrimitiveType("integer")),))
    >>> twice = bind_formula("a * 2", schema, gives=PrimitiveType("long"))
    >>> twice(pa.RecordBatch.from_pydict({"a": pa.array([1, None], pa.int32())})).values.to_pylist()
    [2, None]

    Args:
        text: Spark SQL.
        schema: The table's.
        gives: The type that its values shall have.

    Raises:
        PredicateError: It is not understood, or its values cannot be had as that type.
        ColumnNotFoundError: It names a column that the schema does not have.
    """
    return Formula(text=text, step=_assigned(typed(parse_formula(text), schema), gives, text))


def constant_formula(text: str, value: Any, kind: DataType, *, gives: DataType) -> Formula:
    """Return a formula that is a constant of one type, as another.

    Raises:
        PredicateError: It cannot be had as that type.
    """
    step = Step("literal", (), kind, value)
    return Formula(text=text, step=_assigned(step, gives, text))


def equality_formula(column: str, text: str, schema: StructType) -> Formula:
    """Return whether a column has the value of an expression: a null that of a null.

    Raises:
        PredicateError: It is not understood, or its values are not of the column's type.
        ColumnNotFoundError: It names a column that the schema does not have.
    """
    own = typed(Column((column,)), schema)
    wanted = bind_formula(text, schema, gives=own.type)
    return Formula(text=text, step=Step("<=>", (own, wanted.step), _BOOLEAN))


def _assigned(step: Step, kind: DataType, text: str) -> Step:
    made = cast_to(step, kind) if assignable(step.type, kind) else None
    if made is None:
        raise PredicateError(text, f"its values are {step.type}, not {kind}")
    return made


class _Run:
    """One evaluation over one batch; remembers the columns it has fetched."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self.batch = batch
        self.fetched: dict[tuple[str, ...], pa.Array] = {}

    def cells(self, step: Step) -> Cells:
        match step.op:
            case "column":
                return Cells(self.column(step))
            case "literal":
                return Cells(self.constant(step))
            case "and" | "or":
                return self.logical(step)
            case "case":
                return self.case(step)
            case "coalesce":
                return self.coalesce(step)
        given = [self.cells(arg) for arg in step.args]
        result = compute(step, [cells.values for cells in given])
        for cells in given:
            result = result.failing(cells.failed)
        return result

    def constant(self, step: Step) -> pa.Array:
        if step.setting is None:  # of any type, nested ones too
            return pa.nulls(self.batch.num_rows, to_arrow_type(step.type))
        return pa.repeat(build_scalar(step.setting, step.type), self.batch.num_rows)

    def column(self, step: Step) -> pa.Array:
        path: tuple[str, ...] = step.setting
        if path not in self.fetched:
            values = self.batch.column(path[0])
            for name in path[1:]:  # a part of a struct that is null is null
                values = pc.struct_field(values, [values.type.get_field_index(name)])
            is_flat = not pa.types.is_nested(values.type)
            if is_flat and values.type != to_arrow_type(step.type):  # a view, or a dictionary
                values = values.cast(to_arrow_type(step.type))
            self.fetched[path] = values
        return self.fetched[path]

    def logical(self, step: Step) -> Cells:
        """Join conditions; one that fails does not matter where an earlier one has decided."""
        join, decisive = (pc.and_kleene, False) if step.op == "and" else (pc.or_kleene, True)
        result = self.cells(step.args[0])
        for arg in step.args[1:]:
            more = self.cells(arg)
            failed = result.failed
            if more.failed is not None:
                settled = pc.equal(result.values, build_scalar(decisive, _BOOLEAN))
                undecided = pc.invert(pc.coalesce(settled, build_scalar(False, _BOOLEAN)))
                failed = either(failed, both(more.failed, undecided))
            result = Cells(join(result.values, more.values)).failing(failed)
        return result

    def case(self, step: Step) -> Cells:
        """Choose results from the last branch to the first, so that an earlier one wins."""
        branches = len(step.args) // 2
        conditions, results = step.args[:branches], step.args[branches:]
        chosen = self.cells(results[-1])
        for condition, result in zip(reversed(conditions), reversed(results[:-1]), strict=True):
            test, value = self.cells(condition), self.cells(result)
            taken = pc.coalesce(test.values, build_scalar(False, _BOOLEAN))
            values = pc.if_else(taken, value.values, chosen.values)
            failed = either(both(value.failed, taken), both(chosen.failed, pc.invert(taken)))
            chosen = Cells(values).failing(either(failed, test.failed))
        return chosen

    def coalesce(self, step: Step) -> Cells:
        result = self.cells(step.args[0])
        for arg in step.args[1:]:
            more = self.cells(arg)
            missing = result.values.is_null()
            failed = either(result.failed, both(more.failed, missing))
            result = Cells(pc.coalesce(result.values, more.values)).failing(failed)
        return result
