"""Conditions of a verb: evaluated by our readers where that equals Spark, else by Spark itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lazydelta.errors import PredicateError
from lazydelta.expressions import as_predicate
from lazydelta.spark.session_sql import is_independent_of_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lazydelta.expressions import Predicate
    from lazydelta.scan import Where
    from lazydelta.snapshot import SnapshotState

__all__ = ["RowCondition"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowCondition:
    """Which rows of the target match; all if both fields are None."""

    predicate: Predicate | None = None
    """For the planner and the readers of this package."""
    sql: str | None = None
    """For Spark, if the predicate is None: an expression that our grammar does not have, or whose
    value depends on the session's time zone."""

    @classmethod
    def parse(
        cls, spark: SparkSession, snapshot: SnapshotState, where: Where, now: int
    ) -> RowCondition:
        """Choose who evaluates a condition.

        Raises:
            ColumnNotFoundError: It names a column that the table does not have.
            PredicateError: It is neither SQL nor a valid predicate.
        """
        if where is None:
            return cls()
        try:
            predicate = as_predicate(where, now=now)
            if predicate is None:
                return cls()
            is_independent = is_independent_of_session(spark, snapshot, where, predicate)
        except PredicateError:
            if not isinstance(where, str):
                raise
            return cls(sql=where)
        if not is_independent:
            return cls(sql=where if isinstance(where, str) else str(predicate))
        return cls(predicate=predicate)

    @property
    def shown(self) -> str:
        """The condition in the table's history."""
        if self.sql is not None:
            return self.sql
        return "true" if self.predicate is None else str(self.predicate)
