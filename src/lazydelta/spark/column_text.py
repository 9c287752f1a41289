"""SQL text of a PySpark column, where it has one that means the same.

A column is a tree: of the JVM in a classic session, of Python objects with Spark Connect. Names,
literals, operators, functions, casts, CASE and SQL are written out, an alias is left out; anything
else has no text.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from lazydelta.spark import tuning
from lazydelta.spark.spark_releases import require_spark_4

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from pyspark.sql import DataFrame

__all__ = ["column_sql"]

_INFIX = {
    **{sign: sign for sign in ("=", "<=>", "<", "<=", ">", ">=", "+", "-", "*", "/", "%")},
    **{sign: sign for sign in ("&", "|", "^")},
    "==": "=",
    "and": "AND",
    "or": "OR",
    "like": "LIKE",
    "rlike": "RLIKE",
}
_NOT = ("!", "not")
_NULLS = {"isnull": "IS NULL", "isnotnull": "IS NOT NULL"}
_NAME = re.compile(r"[A-Za-z_]\w*")
_PARTS = re.compile(r"`((?:[^`]|``)+)`|([^.`]+)")


class NoTextError(Exception):
    """Part of a column has no SQL text."""


def column_sql(
    column: Any, of: DataFrame | None = None, plan_ids: Collection[int] = ()
) -> str | None:
    """Return the SQL of a column; None if it has none.

    Args:
        column: The column.
        of: A DataFrame whose own columns (`of.id`) are plain names; those of others have no text.
        plan_ids: With Spark Connect, the plans whose columns are plain names, instead.

    Raises:
        UnsupportedOperationError: PySpark 3.5, whose columns have another form.
    """
    require_spark_4("a column as a condition or value", "pass a SQL string")
    try:
        if hasattr(column, "_jc"):
            return _Classic(of).text(column._jc.node())  # noqa: SLF001 - the public form is no SQL
        return _Connect(plan_ids).text(column._expr)  # noqa: SLF001 - likewise
    except NoTextError:
        return None


class _Classic:
    """Columns of a classic session: nodes of the JVM."""

    def __init__(self, of: Any) -> None:
        self._of = of
        self._texts: dict[str, Callable[[Any], str]] = {
            "UnresolvedAttribute": self._name,
            "ExpressionColumnNode": self._bound_name,
            "Literal": self._literal,
            "SqlExpression": lambda node: f"({node.expression()})",
            "UnresolvedFunction": self._function,
            "Cast": self._cast,
            "UnresolvedExtractValue": self._item,
            "CaseWhenOtherwise": self._case,
            "Alias": lambda node: self.text(node.child()),
        }

    def text(self, node: Any) -> str:
        kind = node.getClass().getSimpleName()
        _refuse(kind not in self._texts)
        return self._texts[kind](node)

    def _name(self, node: Any) -> str:
        _refuse(node.planId().isDefined())  # belongs to one DataFrame, which a name cannot tell
        return _path(_list(node.nameParts()))

    def _bound_name(self, node: Any) -> str:
        attribute = node.expression()
        is_column = attribute.getClass().getSimpleName() == "AttributeReference"
        _refuse(self._of is None or not is_column or attribute.name() not in self._of.columns)
        name = _quoted(attribute.name())
        own: Any = self._of[name]
        _refuse(not own._jc.node().expression().exprId().equals(attribute.exprId()))  # noqa: SLF001
        return name

    def _function(self, node: Any) -> str:
        _refuse(node.isDistinct() or node.isUserDefinedFunction())
        arguments = node.arguments()
        # Each part is a call of the JVM, and a filter need not be pushed down.
        _refuse(self._of is not None and arguments.size() > tuning.PUSHED_ARGUMENTS)
        return _function(node.functionName(), [self.text(part) for part in _list(arguments)])

    def _cast(self, node: Any) -> str:
        _refuse(node.evalMode().isDefined())
        return f"CAST({self.text(node.child())} AS {node.dataType().sql()})"

    def _item(self, node: Any) -> str:
        return f"{self.text(node.child())}[{self.text(node.extraction())}]"

    def _case(self, node: Any) -> str:
        branches = [(self.text(b._1()), self.text(b._2())) for b in _list(node.branches())]  # noqa: SLF001 - Scala's
        otherwise = node.otherwise()
        return _case(branches, self.text(otherwise.get()) if otherwise.isDefined() else None)

    def _literal(self, node: Any) -> str:
        value = node.value()
        kind = (
            type(value).__name__ if not hasattr(value, "getClass") else value.getClass().getName()
        )
        match kind:
            case "java.sql.Date" | "java.time.LocalDate":
                return f"DATE '{value.toString()}'"
            case "java.sql.Timestamp":
                return f"TIMESTAMP '{value.toInstant().toString()}'"
            case "java.time.Instant":
                return f"TIMESTAMP '{value.toString()}'"
            case "java.time.LocalDateTime":
                return f"TIMESTAMP_NTZ '{value.toString()}'"
            case "int":
                return str(node.sql())  # with the suffix of its type
        return _literal(value)


class _Connect:
    """Columns of Spark Connect: Python objects."""

    def __init__(self, plan_ids: Collection[int]) -> None:
        self._plan_ids = plan_ids
        self._texts: dict[str, Callable[[dict[str, Any]], str]] = {
            "ColumnReference": self._name,
            "LiteralExpression": self._literal,
            "SQLExpression": lambda node: f"({node['_expr']})",
            "UnresolvedFunction": self._function,
            "CastExpression": self._cast,
            "UnresolvedExtractValue": self._item,
            "CaseWhen": self._case,
            "ColumnAlias": lambda node: self.text(node["_child"]),
        }

    def text(self, node: Any) -> str:
        kind = type(node).__name__
        _refuse(kind not in self._texts)
        return self._texts[kind](vars(node))

    def _name(self, node: dict[str, Any]) -> str:
        _refuse(node.get("_plan_id") not in (None, *self._plan_ids))
        parts = _PARTS.findall(node["_unparsed_identifier"])
        return _path([quoted.replace("``", "`") or plain for quoted, plain in parts])

    def _function(self, node: dict[str, Any]) -> str:
        _refuse(node.get("_is_distinct"))
        return _function(node["_name"], [self.text(part) for part in node["_args"]])

    def _cast(self, node: dict[str, Any]) -> str:
        _refuse(node.get("_eval_mode") is not None)
        kind = node["_data_type"]
        simple = getattr(kind, "simpleString", lambda: kind)()
        return f"CAST({self.text(node['_expr'])} AS {simple})"

    def _item(self, node: dict[str, Any]) -> str:
        return f"{self.text(node['_child'])}[{self.text(node['_extraction'])}]"

    def _case(self, node: dict[str, Any]) -> str:
        branches = [(self.text(one), self.text(two)) for one, two in node["_branches"]]
        otherwise = node["_else_value"]
        return _case(branches, None if otherwise is None else self.text(otherwise))

    def _literal(self, node: dict[str, Any]) -> str:
        value, kind = node["_value"], node["_dataType"]
        match kind.typeName():
            case "date":
                return f"DATE '{dt.date(1970, 1, 1) + dt.timedelta(days=value)}'"
            case "timestamp" | "timestamp_ntz" as name:
                moment = dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=value)  # noqa: DTZ001
                zone = "Z" if name == "timestamp" else ""
                return f"{name.upper()} '{moment.isoformat(sep=' ')}{zone}'"
            case "long":
                return f"{value}L"
        return _literal(value)


# --- parts of both --------------------------------------------------------------------------------


def _refuse(has_no_text: object) -> None:
    if has_no_text:
        raise NoTextError


def _list(sequence: Any) -> list[Any]:
    return [sequence.apply(index) for index in range(sequence.size())]


def _literal(value: Any) -> str:
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).lower()
        case int():
            return str(value)
        case float() if math.isfinite(value):
            return f"{value!r}D"
        case Decimal() if value.is_finite():
            return f"{value:f}BD"
        case str():
            escaped = value.replace("\\", "\\\\").replace("'", "\\'")
            return f"'{escaped}'"
    raise NoTextError


def _path(parts: list[str]) -> str:
    if parts[-1] == "*":
        raise NoTextError
    return ".".join(map(_quoted, parts))


def _quoted(part: str) -> str:
    return part if _NAME.fullmatch(part) else f"`{part.replace('`', '``')}`"


def _function(name: str, arguments: list[str]) -> str:
    lowered = name.lower()
    if lowered in _INFIX and len(arguments) == 2:
        return f"({arguments[0]} {_INFIX[lowered]} {arguments[1]})"
    if lowered in _NOT and len(arguments) == 1:
        return f"(NOT {arguments[0]})"
    if lowered in _NULLS and len(arguments) == 1:
        return f"({arguments[0]} {_NULLS[lowered]})"
    if lowered == "in":
        return f"({arguments[0]} IN ({', '.join(arguments[1:])}))"
    if lowered in ("negative", "-") and len(arguments) == 1:
        return f"(-{arguments[0]})"
    if not _NAME.fullmatch(name):
        raise NoTextError
    return f"{name}({', '.join(arguments)})"


def _case(branches: list[tuple[str, str]], otherwise: str | None) -> str:
    tests = " ".join(f"WHEN {condition} THEN {value}" for condition, value in branches)
    last = "" if otherwise is None else f" ELSE {otherwise}"
    return f"(CASE {tests}{last} END)"
