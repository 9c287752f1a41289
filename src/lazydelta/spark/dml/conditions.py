"""Conditions of a verb: evaluated by our readers where that equals Spark, else by Spark itself."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lazydelta.errors import PredicateError
from lazydelta.expressions import as_predicate, bind
from lazydelta.expressions.nodes import Column

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import SparkSession

    from lazydelta.expressions import Predicate
    from lazydelta.scan import Where
    from lazydelta.snapshot import SnapshotState

__all__ = ["RowCondition", "is_independent_of_session", "mentioned_columns"]

_CURRENT = re.compile(r"current|now|timestamp", re.IGNORECASE)
"""Part of SQL whose value depends on the time zone, columns aside."""
_UTC = ("UTC", "Etc/UTC", "GMT", "Z", "+00:00")


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


def is_independent_of_session(
    spark: SparkSession, snapshot: SnapshotState, where: Where, predicate: Predicate
) -> bool:
    """Whether Spark gives a condition on the table the value that we give it.

    We evaluate timestamps and the current date in UTC, Spark in the session's time zone.

    Args:
        spark: The session.
        snapshot: The table.
        where: The condition as the caller gave it, or one that the predicate is part of.
        predicate: The condition, over columns of the table.

    Raises:
        ColumnNotFoundError: It names a column that the table does not have.
        PredicateError: It does not fit the schema.
    """
    bound = bind(predicate, snapshot.schema, snapshot.partition_columns)
    if spark.conf.get("spark.sql.session.timeZone") in _UTC:
        return True
    columns = (node for node in bound.walk() if isinstance(node, Column))
    if any(str(column.type) == "timestamp" for column in columns):
        return False
    return not (isinstance(where, str) and _CURRENT.search(where))


def mentioned_columns(snapshot: SnapshotState, expressions: Iterable[str]) -> tuple[str, ...]:
    """Return the columns that SQL strings may read; some more do no harm.

    Spark parses the strings later, over rows with these columns only.
    """
    sql = "\n".join(expressions).lower()
    dense = "".join(sql.split())
    names = [field.name for field in snapshot.schema]
    if ".*" in dense or "(*" in dense:
        return tuple(names)
    return tuple(n for n in names if n.lower() in sql or n.lower().replace("`", "``") in sql)
