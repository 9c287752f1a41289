"""SQL text of a PySpark column, where it has one that means the same.

A column is a tree: of the JVM in a classic session, of Python objects with Spark Connect. Names,
literals, operators, functions, casts, CASE and SQL are written out; anything else has no text.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from lazydelta.spark.spark_releases import require_spark_4

if TYPE_CHECKING:
    from collections.abc import Callable

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


def column_sql(column: Any) -> str | None:
    """Return the SQL of a column; None if it has none.

    Raises:
        UnsupportedOperationError: PySpark 3.5, whose columns have another form.
    """
    require_spark_4("a column as a condition or value", "pass a SQL string")
    try:
        if hasattr(column, "_jc"):
            return _classic(column._jc.node())  # noqa: SLF001 - the public form is no SQL
        return _connect(column._expr)  # noqa: SLF001 - likewise
    except NoTextError:
        return None


# --- classic sessions -----------------------------------------------------------------------------


def _classic(node: Any) -> str:
    kind = node.getClass().getSimpleName()
    if kind not in _CLASSIC:
        raise NoTextError
    return _CLASSIC[kind](node)


def _classic_name(node: Any) -> str:
    _refuse(node.planId().isDefined())  # belongs to one DataFrame, which a name cannot tell
    return _path(_list(node.nameParts()))


def _classic_function(node: Any) -> str:
    _refuse(node.isDistinct() or node.isUserDefinedFunction())
    return _function(node.functionName(), [_classic(part) for part in _list(node.arguments())])


def _classic_cast(node: Any) -> str:
    _refuse(node.evalMode().isDefined())
    return f"CAST({_classic(node.child())} AS {node.dataType().sql()})"


def _classic_item(node: Any) -> str:
    return f"{_classic(node.child())}[{_classic(node.extraction())}]"


def _classic_case(node: Any) -> str:
    branches = [(_classic(b._1()), _classic(b._2())) for b in _list(node.branches())]  # noqa: SLF001 - Scala's
    otherwise = node.otherwise()
    return _case(branches, _classic(otherwise.get()) if otherwise.isDefined() else None)


def _refuse(has_no_text: object) -> None:
    if has_no_text:
        raise NoTextError


def _list(sequence: Any) -> list[Any]:
    return [sequence.apply(index) for index in range(sequence.size())]


def _classic_literal(node: Any) -> str:
    value = node.value()
    kind = type(value).__name__ if not hasattr(value, "getClass") else value.getClass().getName()
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


_CLASSIC: dict[str, Callable[[Any], str]] = {
    "UnresolvedAttribute": _classic_name,
    "Literal": _classic_literal,
    "SqlExpression": lambda node: f"({node.expression()})",
    "UnresolvedFunction": _classic_function,
    "Cast": _classic_cast,
    "UnresolvedExtractValue": _classic_item,
    "CaseWhenOtherwise": _classic_case,
}


# --- Spark Connect --------------------------------------------------------------------------------


def _connect(node: Any) -> str:
    kind = type(node).__name__
    if kind not in _CONNECT:
        raise NoTextError
    return _CONNECT[kind](vars(node))


def _connect_name(node: dict[str, Any]) -> str:
    _refuse(node.get("_plan_id") is not None)
    parts = _PARTS.findall(node["_unparsed_identifier"])
    return _path([quoted.replace("``", "`") or plain for quoted, plain in parts])


def _connect_function(node: dict[str, Any]) -> str:
    _refuse(node.get("_is_distinct"))
    return _function(node["_name"], [_connect(part) for part in node["_args"]])


def _connect_cast(node: dict[str, Any]) -> str:
    _refuse(node.get("_eval_mode") is not None)
    kind = node["_data_type"]
    return f"CAST({_connect(node['_expr'])} AS {getattr(kind, 'simpleString', lambda: kind)()})"


def _connect_item(node: dict[str, Any]) -> str:
    return f"{_connect(node['_child'])}[{_connect(node['_extraction'])}]"


def _connect_case(node: dict[str, Any]) -> str:
    branches = [(_connect(one), _connect(two)) for one, two in node["_branches"]]
    otherwise = node["_else_value"]
    return _case(branches, None if otherwise is None else _connect(otherwise))


def _connect_literal(node: dict[str, Any]) -> str:
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


_CONNECT: dict[str, Callable[[dict[str, Any]], str]] = {
    "ColumnReference": _connect_name,
    "LiteralExpression": _connect_literal,
    "SQLExpression": lambda node: f"({node['_expr']})",
    "UnresolvedFunction": _connect_function,
    "CastExpression": _connect_cast,
    "UnresolvedExtractValue": _connect_item,
    "CaseWhen": _connect_case,
}


# --- parts of both --------------------------------------------------------------------------------


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
    return ".".join(
        part if _NAME.fullmatch(part) else f"`{part.replace('`', '``')}`" for part in parts
    )


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
