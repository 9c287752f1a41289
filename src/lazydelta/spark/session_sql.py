"""SQL strings that Spark parses in a session: what their value depends on, and their columns."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lazydelta.expressions import bind
from lazydelta.expressions.nodes import Column

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import SparkSession

    from lazydelta.expressions import Predicate
    from lazydelta.scan import Where
    from lazydelta.snapshot import SnapshotState

__all__ = ["has_our_syntax", "is_independent_of_session", "mentioned_columns"]

_CURRENT = re.compile(r"current|now|timestamp", re.IGNORECASE)
"""Part of SQL whose value depends on the time zone, columns aside."""
_UTC = ("UTC", "Etc/UTC", "GMT", "Z", "+00:00")
_SYNTAX = {
    '"': "spark.sql.ansi.doubleQuotedIdentifiers",
    "\\": "spark.sql.parser.escapedStringLiterals",
}
"""Characters that mean something else in a session with a setting."""


def has_our_syntax(spark: SparkSession, sql: str) -> bool:
    """Whether the session reads the quotes and escapes of an expression as our grammar does."""
    return not any(
        character in sql and spark.conf.get(name, "false") == "true"
        for character, name in _SYNTAX.items()
    )


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
