"""Pushdown of a DataFrame's own filters and columns into the read of the table.

Spark tells a Python reader neither the filters nor the columns of a query, and its own Parquet scan
opens the footer of every file. So `filter` and `select` of a DataFrame of `read` plan the read
again, with the predicate and the columns.

Columns of the old DataFrame (`df.id`) resolve in the new one, as after any filter. Spark evaluates
every condition again: one that is pushed down only in part, or not at all, costs speed and no rows.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol, Self

from pyspark.sql import functions as f

from lazydelta.errors import ColumnNotFoundError, PredicateError
from lazydelta.expressions import as_predicate, bind
from lazydelta.expressions.nodes import (
    And,
    Column,
    Compare,
    Constant,
    In,
    IsNull,
    IsTrue,
    Like,
    Literal,
    Not,
    Or,
)
from lazydelta.scan import Scan
from lazydelta.scan.aggregates import count_from_log
from lazydelta.schema import StructType
from lazydelta.spark.column_functions import quoted
from lazydelta.spark.column_text import column_sql
from lazydelta.spark.conf import is_connect
from lazydelta.spark.planner import pruner_for
from lazydelta.spark.row_filter import untranslatable_reason
from lazydelta.spark.session_sql import (
    has_our_syntax,
    is_independent_of_session,
    mentioned_columns,
)
from lazydelta.spark.spark_releases import IS_SPARK_4, plan_id, with_plan_id

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame, SparkSession

    from lazydelta.expressions import Predicate
    from lazydelta.snapshot import SnapshotState

    Base = DataFrame
else:
    Base = object

__all__ = ["ReadPlan", "with_pushdown"]

_SESSION_INDEPENDENT = (
    And,
    Or,
    Not,
    Compare,
    In,
    Like,
    IsNull,
    IsTrue,
    Constant,
    Column,
    Literal,
)
"""Nodes that have one value in every session; casts and functions depend on ANSI mode."""
_STATE = "_lazydelta_pushdown"


class ReadPlan(Protocol):
    """Plan of a read of a snapshot."""

    @property
    def spark(self) -> SparkSession:
        """The session."""

    @property
    def snapshot(self) -> SnapshotState:
        """The version that is read."""

    @property
    def predicate(self) -> Predicate | None:
        """Predicate of the rows that are returned."""

    @property
    def native_files(self) -> int | None:
        """Number of files if Spark's own scan reads all of them: it prunes columns by itself."""

    def again(self, where: Predicate | None, columns: Sequence[str]) -> Self:
        """Plan a read of other rows and columns of the snapshot."""

    def frame(self) -> DataFrame:
        """Return the rows."""


@dataclass(frozen=True, kw_only=True)
class _State:
    """What a DataFrame has pushed down."""

    plan: ReadPlan
    columns: tuple[str, ...]
    """Columns of the DataFrame if they are columns of the table; else none is pushed down."""
    visible: tuple[str, ...]
    """Columns of the DataFrame."""
    conditions: tuple[SparkColumn | str, ...] = ()
    """Filters of the DataFrame since its columns were chosen."""
    is_exact: bool = True
    """Whether the predicate of the plan is all of the conditions."""
    unpushed: DataFrame | None = None
    """The same DataFrame by Spark alone, if this one is not: it has more hidden columns."""
    plan_ids: tuple[int, ...] = ()
    """Spark Connect: the plans of this DataFrame and of those that it was made from."""


def with_pushdown(frame: DataFrame, plan: ReadPlan) -> DataFrame:
    """Return the DataFrame of a plan; its own filters and columns are pushed down."""
    columns = tuple(frame.columns)
    return _with_state(frame, _State(plan=plan, columns=columns, visible=columns))


def _with_state(frame: DataFrame, state: _State) -> DataFrame:
    if is_connect(state.plan.spark):
        state = replace(state, plan_ids=(*state.plan_ids, plan_id(frame)))
    vars(frame)[_STATE] = state
    kind: Any = type(frame)
    if not issubclass(kind, _PushdownFrame):
        frame.__class__ = _class_of(kind)
    return frame


@cache
def _class_of(kind: Any) -> Any:
    """Return the class for DataFrames of a classic session, or of Spark Connect."""
    return type(kind.__name__, (_PushdownFrame, kind), {"__module__": kind.__module__})


def _state_of(frame: DataFrame) -> _State:
    state: _State = vars(frame)[_STATE]
    return state


def _by_spark(name: str) -> Any:
    """Return a method of Spark's DataFrame, whose arguments may need a hidden column."""

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        other = _frame_with_hidden_columns(self, (args, kwargs))
        if other is not None:
            return getattr(other, name)(*args, **kwargs)
        made = getattr(super(_PushdownFrame, self), name)(*args, **kwargs)
        return _keep_hidden_columns(self, made, name, *args, **kwargs)

    method.__name__ = name
    method.__doc__ = f"See `pyspark.sql.DataFrame.{name}`."
    return method


class _PushdownFrame(Base):
    """A DataFrame of `read`; what other methods return is Spark's alone."""

    def filter(self, condition: SparkColumn | str) -> DataFrame:
        """Return the rows that match; see `pyspark.sql.DataFrame.filter`."""
        other = _frame_with_hidden_columns(self, condition)
        if other is not None:
            return other.filter(condition)
        state, unpushed = _state_of(self), super().filter(condition)
        pushed, is_all = _pushed(self, state, condition)
        if pushed is None or self.is_cached:
            return _keep_hidden_columns(self, unpushed, "filter", condition)
        before = state.plan
        where = pushed if before.predicate is None else And((before.predicate, pushed))
        state = replace(
            state,
            plan=before.again(where, state.columns),
            conditions=(*state.conditions, condition),
            is_exact=state.is_exact and is_all,
        )
        if before.native_files is not None and before.native_files == state.plan.native_files:
            return _with_state(unpushed, state)
        rows = self._replaced_by(state.plan.frame(), super().filter)
        for each in state.conditions:
            rows = rows.filter(each)
        if state.unpushed is not None:
            unpushed = state.unpushed.filter(condition)
        return _with_state(rows, replace(state, unpushed=unpushed))

    where = filter  # noqa: A003 - in PySpark 3.5 it does not call `filter`

    def select(self, *cols: Any) -> DataFrame:
        """Return columns; see `pyspark.sql.DataFrame.select`."""
        other = _frame_with_hidden_columns(self, cols)
        if other is not None:
            return other.select(*cols)
        state, unpushed = _state_of(self), super().select(*cols)
        given = cols[0] if len(cols) == 1 and isinstance(cols[0], list | tuple) else cols
        names, is_plain = _needed_columns(self, state, given)
        if not names or not state.is_exact or self.is_cached:
            return _keep_hidden_columns(self, unpushed, "select", *cols)
        rows = unpushed
        if state.unpushed is not None:
            unpushed = state.unpushed.select(*cols)
        if state.plan.native_files is None and len(names) < len(state.columns):
            plan = state.plan.again(state.plan.predicate, names)
            narrow = super().select(*map(quoted, names))
            rows = self._replaced_by(plan.frame(), narrow.filter).select(*cols)
            state = replace(state, plan=plan)
        visible = tuple(unpushed.columns)
        is_plain = is_plain and names == visible  # no alias
        state = replace(
            state,
            columns=names if is_plain else (),
            visible=visible,
            conditions=(),
            is_exact=is_plain,
            unpushed=None if rows is unpushed else unpushed,
        )
        return _with_state(rows, state)

    def count(self) -> int:
        """Return the number of rows: from the log if that has it, else Spark's.

        Spark counts a DataFrame that is to be cached, because a count is how callers fill the
        cache.
        """
        state = _state_of(self)
        known = None
        if state.is_exact and not self.is_cached:
            known = count_from_log(Scan(state.plan.snapshot, where=state.plan.predicate))
        return super().count() if known is None else known

    def _replaced_by(
        self, rows: DataFrame, stock_filter: Callable[[SparkColumn], DataFrame]
    ) -> DataFrame:
        """Return other rows, in which columns of this DataFrame resolve.

        Spark Connect finds a column by the id of its plan. A classic session finds it by an id of
        its own, which the first child of a union keeps; the optimizer removes the empty child.

        Args:
            rows: The rows; their columns have the names and the order of the filter's.
            stock_filter: Spark's filter on this DataFrame, or on some columns of it.
        """
        plan_ids = _state_of(self).plan_ids
        for number in plan_ids:
            rows = with_plan_id(rows.select("*"), number)
        return rows if plan_ids else stock_filter(f.lit(False)).unionAll(rows)

    agg = _by_spark("agg")
    groupBy = groupby = _by_spark("groupBy")  # noqa: N815 - Spark's names
    metadataColumn = _by_spark("metadataColumn")  # noqa: N815
    selectExpr = _by_spark("selectExpr")  # noqa: N815
    sort = orderBy = _by_spark("sort")  # noqa: N815
    sortWithinPartitions = _by_spark("sortWithinPartitions")  # noqa: N815
    withColumn = _by_spark("withColumn")  # noqa: N815
    withColumns = _by_spark("withColumns")  # noqa: N815


def _frame_with_hidden_columns(frame: DataFrame, args: object) -> DataFrame | None:
    """Return the DataFrame by Spark alone if arguments may need a column that this one hides.

    Those are `_metadata` of Spark's scan, which a union does not have, and columns that a `select`
    left out: Spark still filters and sorts by them.
    """
    state = _state_of(frame)
    if state.unpushed is None:
        return None
    names = (field.name for field in state.plan.snapshot.schema)
    hidden = ("_metadata", *(name for name in names if name not in state.visible))
    mentioned = rf"(?<!\w)({'|'.join(map(re.escape, hidden))})(?!\w)"
    return state.unpushed if re.search(mentioned, repr(args), re.IGNORECASE) else None


def _keep_hidden_columns(frame: DataFrame, made: Any, name: str, *args: Any, **kwargs: Any) -> Any:
    """Return what a method of Spark made, with the same by Spark alone beside it."""
    state = _state_of(frame)
    if state.unpushed is None or not hasattr(made, "columns"):
        return made
    unpushed = getattr(state.unpushed, name)(*args, **kwargs)
    visible = tuple(made.columns)
    state = replace(state, columns=(), visible=visible, is_exact=False, unpushed=unpushed)
    return _with_state(made, state)


def _pushed(
    frame: DataFrame, state: _State, condition: SparkColumn | str
) -> tuple[Predicate | None, bool]:
    """Return the part of a condition that the read can apply, and whether it is all of it."""
    sql, snapshot = _sql(frame, condition), state.plan.snapshot
    if sql is None or not state.columns:
        return None, False
    try:
        predicate = as_predicate(sql)
        parts = predicate.arms if isinstance(predicate, And) else (predicate,)
        pushed = tuple(part for part in parts if part is not None and _has_one_value(state, part))
    except (PredicateError, ColumnNotFoundError):
        return None, False
    if not pushed:
        return None, False
    where = And(pushed) if len(pushed) > 1 else pushed[0]
    if state.plan.native_files is not None and (
        pruner_for(snapshot, where).rule is None or untranslatable_reason(snapshot, where)
    ):
        return None, False
    return where, len(pushed) == len(parts)


def _has_one_value(state: _State, part: Predicate) -> bool:
    """Whether a condition has the value that Spark gives it, in every session.

    Raises:
        ColumnNotFoundError: The DataFrame does not have one of its columns.
        PredicateError: It does not fit the schema.
    """
    plan = state.plan
    fields = (field for field in plan.snapshot.schema if field.name in state.columns)
    bound = bind(part, StructType(tuple(fields)), plan.snapshot.partition_columns)
    for node in bound.walk():
        if not isinstance(node, _SESSION_INDEPENDENT):
            return False
        if isinstance(node, Column) and "collate" in str(node.type):  # only Spark compares these
            return False
    return is_independent_of_session(plan.spark, plan.snapshot, str(part), part)


def _needed_columns(
    frame: DataFrame, state: _State, cols: Sequence[Any]
) -> tuple[tuple[str, ...], bool]:
    """Return the columns that expressions need, and whether the expressions are these columns.

    None are returned if any may be needed.
    """
    sql = [_sql(frame, column) or "*" for column in cols]
    names = state.columns
    plain = {quoted(name): name for name in names} | {n: n for n in names if n.isidentifier()}
    if len(set(sql)) == len(sql) and plain.keys() >= set(sql):
        return tuple(plain[text] for text in sql), True
    mentioned = () if "*" in sql else mentioned_columns(state.plan.snapshot, sql)
    return tuple(name for name in names if name in mentioned), False


def _sql(frame: DataFrame, column: SparkColumn | str) -> str | None:
    """Return the SQL of a column; None if it has none, or Spark would parse it differently."""
    state = _state_of(frame)
    if isinstance(column, str):
        sql: str | None = column
    else:
        sql = column_sql(column, frame, state.plan_ids) if IS_SPARK_4 else None
    return sql if sql is not None and has_our_syntax(state.plan.spark, sql) else None
