"""Bind function calls: choose the signature, cast the arguments, type the result.

In Spark's ANSI mode arguments of another type are cast (`upper(5)`, `year('2026-01-31')`). In
table metadata (`strict`) they are refused, as are functions that depend on the session.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from lazydelta.errors import PredicateError
from lazydelta.expressions.coercion import (
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    LONG,
    STRING,
    TIMES,
    TIMESTAMP,
    VOID,
    arithmetic_type,
    digits,
    is_flat,
    is_number,
    is_string,
    type_of,
)
from lazydelta.expressions.collection_calls import bind_collection, bind_subscript
from lazydelta.expressions.functions import (
    CHOICES,
    COLLECTIONS,
    FUNCTIONS,
    SPECIAL_FORMS,
    TRIED,
    VARIADIC,
    implicit_type,
    of_family,
)
from lazydelta.expressions.implicit_casts import cast_if_possible, cast_to, common, listed
from lazydelta.expressions.nodes.predicates import IsNull, Not
from lazydelta.expressions.nodes.value_nodes import Call, Literal
from lazydelta.schema import ArrayType, DecimalType
from lazydelta.schema.values import INTEGER_RANGES

if TYPE_CHECKING:
    from lazydelta.expressions.nodes.base import Value
    from lazydelta.schema import DataType

__all__ = ["bind_call"]

_OPERATORS = ("+", "-", "*", "/", "%", "div", "pmod")
_LONG_UNITS = ("year", "month", "week", "day")
_MONTHS = {"year": 12, "month": 1}


def bind_call(  # noqa: PLR0911 - one per form
    node: Call, name: str, args: tuple[Value, ...], *, strict: bool
) -> Value:
    """Return a call with its arguments cast and its type set.

    Args:
        node: As parsed, for errors.
        name: Of the function, without aliases.
        args: Bound.
        strict: Whether the expression is in table metadata.

    Raises:
        PredicateError: There is no such function for these arguments.
    """
    count = len(args)
    if name in _OPERATORS or (name == "mod" and count == 2):
        return _arithmetic(node, {"mod": "%"}.get(name, name), args, strict=strict)
    if name in CHOICES:
        return _choice(node, name, args, strict=strict)
    if name == "case":
        return _case(node, args, strict=strict)
    if name == "nvl2" and count == 3:
        return _case(node, (Not(IsNull(args[0])), *args[1:]), strict=strict)
    if name in VARIADIC:
        return _variadic(node, name, args, strict=strict)
    if name in ("[]", "."):
        return bind_subscript(node, name, args, strict=strict)
    if name in ("date", "to_timestamp") and count == 1:
        return _time(node, name, args[0], strict=strict)
    if name in COLLECTIONS and not strict:
        return bind_collection(node, name, args)
    if name in TRIED and count == 2 and not strict:
        tried = _arithmetic(node, TRIED[name], args, strict=False)
        return Call(name, tried.args, tried.type) if isinstance(tried, Call) else tried
    return _completed(_function(node, *_rewritten(name, args), strict=strict))


def _time(node: Call, name: str, arg: Value, *, strict: bool) -> Value:
    """Bind `to_date` and `to_timestamp` without a format, which are casts."""
    known = str(type_of(arg)) in TIMES or is_string(type_of(arg)) or type_of(arg) == VOID
    wanted = DATE if name == "date" else TIMESTAMP
    found = cast_to(arg, wanted, strict=strict) if known else None
    if found is None or (strict and wanted == TIMESTAMP):
        _refuse(node, f"{node.name} takes a date or timestamp")
    return found


def _completed(call: Call) -> Call:
    """Add what functions do for NULL and NaN."""
    if call.name == "locate" and len(call.args) == 3:  # as in Spark, 0 without a position
        return Call("case", (IsNull(call.args[2]), Literal(0, INTEGER), call), INTEGER)
    if call.name == "nanvl":  # the second argument counts only where the first is NaN
        first, second = call.args
        return Call("case", (Call("isnan", (first,), BOOLEAN), second, first), DOUBLE)
    return call


def _rewritten(name: str, args: tuple[Value, ...]) -> tuple[str, tuple[Value, ...]]:
    """Rewrite functions that are special cases of others."""
    if name == "trim" and len(args) == 2:
        return "btrim", args[::-1]
    if name == "btrim" and len(args) == 1:
        return "trim", args
    if name in ("left", "right") and len(args) == 2 and isinstance(args[1], Literal):
        count = args[1].value
        if isinstance(count, int) and (name == "left" or count <= 0):
            return "substring", (args[0], Literal(1, INTEGER), args[1])
        if isinstance(count, int):
            return "substring", (args[0], Literal(-count, INTEGER))
    if name == "left" and len(args) == 2:
        return "substring", (args[0], Literal(1, INTEGER), args[1])
    return name, args


def _choice(node: Call, name: str, args: tuple[Value, ...], *, strict: bool) -> Value:
    """Bind a function of values of one type, which is that of its result."""
    least, most = CHOICES[name]
    _require(least <= len(args) <= (most or len(args)), node, f"{name} takes {least} values")
    compared = name != "coalesce"
    for arg in args:
        fine = is_flat(type_of(arg)) or not compared
        _require(fine, node, f"values of type {type_of(arg)} cannot be compared")
    if name == "nullif" and not strict and type_of(args[0]) != VOID:
        pair = common(args, str(node), strict=False)
        if type_of(pair[0]) != type_of(args[0]):  # only the comparison is in the common type
            return Call(name, (*pair, args[0]), type_of(args[0]))
    strings = [is_string(type_of(arg)) for arg in args if type_of(arg) != VOID]
    mixed = compared and any(strings) and not all(strings)
    _require(not mixed, node, f"{name} takes values of one type")
    args = common(args, str(node), strict=strict, is_choice=True)
    return Call(name, args, type_of(args[0]))


def _case(node: Call, args: tuple[Value, ...], *, strict: bool) -> Value:
    conditions = args[:-1:2]
    _require(conditions, node, "CASE takes conditions and values")
    for condition in conditions:
        fine = type_of(condition) in (BOOLEAN, VOID)
        _require(fine, node, f"{condition} is not a condition")
    results = [*args[1::2], args[-1] if len(args) % 2 else Literal(None, VOID)]
    values = common(tuple(results), str(node), strict=strict, is_choice=True)
    tests = (cast_if_possible(condition, BOOLEAN, strict=strict) for condition in conditions)
    pairs = zip(tests, values[:-1], strict=True)
    return Call("case", (*(a for pair in pairs for a in pair), values[-1]), type_of(values[0]))


def _variadic(node: Call, name: str, args: tuple[Value, ...], *, strict: bool) -> Value:
    if name in ("hash", "xxhash64"):
        _require(args, node, f"{name} takes at least one value")
        for arg in args:
            fine = is_flat(type_of(arg))
            _require(fine, node, f"{name} does not support {type_of(arg)}")
        return Call(name, args, INTEGER if name == "hash" else LONG)
    _require(args or name == "concat", node, f"{name} takes at least one value")
    bound = tuple(
        arg
        if name == "concat_ws" and type_of(arg) == ArrayType(STRING)
        else _argument(node, name, arg, "string", strict=strict)
        for arg in args
    )
    if not bound:
        return Literal("", STRING)
    return Call(name, bound, STRING)


def _function(node: Call, name: str, args: tuple[Value, ...], *, strict: bool) -> Call:
    signature = FUNCTIONS.get((name, len(args)))
    if signature is None or (strict and not signature.in_metadata):
        return _unknown(node, strict=strict)
    bound, constants = [], []
    all_given = True
    for arg, family in zip(args, signature.takes, strict=True):
        takes = family.removeprefix("constant ")
        cast = _argument(node, name, arg, takes, strict=strict)
        bound.append(cast)
        if takes != family:
            constants.append(getattr(cast, "value", None))
            all_given = all_given and isinstance(cast, Literal)
    shown = f"{name} takes ({', '.join(signature.takes)})"
    loosely = signature.general and not strict
    _require(all_given or loosely, node, shown)
    fine = (loosely and (not all_given or None in constants)) or signature.allows(*constants)
    _require(fine, node, f"{name} does not support this constant")
    return Call(name, tuple(bound), signature.result(tuple(bound)))


def _argument(node: Call, name: str, arg: Value, family: str, *, strict: bool) -> Value:
    """Return an argument as a type of its family."""
    kind = type_of(arg)
    shown = f"{name} takes {family}s, not {kind}"
    if kind == VOID and not strict and family not in ("any", "array", "array or map"):
        return Literal(None, implicit_type(VOID, family) or STRING)
    wanted = implicit_type(kind, family)
    if of_family(kind, family):
        return arg if wanted is None else cast_if_possible(arg, wanted, strict=strict)
    _require(not strict, node, f"{shown}; cast it")
    if wanted is None or not is_flat(kind):
        return _refuse(node, shown)
    if family == "double" and str(kind) not in INTEGER_RANGES and not is_string(kind):
        _require(is_number(kind), node, shown)
    found = cast_to(arg, wanted, strict=False)
    return _refuse(node, shown) if found is None else found


def _unknown(node: Call, *, strict: bool) -> NoReturn:
    metadata = {name for (name, _), one in FUNCTIONS.items() if one.in_metadata or not strict}
    others = {*VARIADIC, *CHOICES, *SPECIAL_FORMS, *(() if strict else (*COLLECTIONS, *TRIED))}
    where = " in table metadata" if strict else ""
    reason = f"there is no function {node.name!r} of {len(node.args)} arguments{where}"
    _refuse(node, f"{reason}; known: {', '.join(sorted(metadata | others))}")


# --- arithmetic -----------------------------------------------------------------------------------


def _arithmetic(node: Call, name: str, args: tuple[Value, ...], *, strict: bool) -> Value:
    if any(isinstance(arg, Call) and arg.name == "interval" for arg in args):
        _require(not strict, node, "intervals are not supported in table metadata")
        return _shifted(node, name, args)
    if len(args) == 2 and not strict:
        args = _with_numbers(args)
    kinds = [type_of(arg) for arg in args]
    if name == "+" and kinds[-1] == DATE and not strict:
        args, kinds = args[::-1], kinds[::-1]
    if name in ("+", "-") and kinds[0] == DATE and len(args) == 2:
        fine = of_family(kinds[1], "integer")
        _require(fine, node, "a date takes an integer number of days")
        days = cast_if_possible(args[1], INTEGER, strict=strict)
        return Call("date_add" if name == "+" else "date_sub", (args[0], days), DATE)
    fine = all(map(is_number, kinds)) and (len(args) == 2 or (name == "-" and len(args) == 1))
    _require(fine, node, f"{name!r} takes numbers; {listed(kinds)} need an explicit CAST")
    if len(args) == 1:
        return Call(name, args, kinds[0])
    kind = arithmetic_type(name, *args, strict=strict)
    if kind is None:
        return _refuse(node, f"{listed(kinds)} need an explicit CAST for {name!r}")
    return Call(name, tuple(_operand(arg, kind, name, strict=strict) for arg in args), kind)


def _with_numbers(args: tuple[Value, ...]) -> tuple[Value, ...]:
    """Cast strings and NULL beside a number, as Spark's ANSI mode does."""
    for index, (value, other) in enumerate((args, args[::-1])):
        kind = type_of(other)
        if is_number(kind) and type_of(value) == VOID:
            return (Literal(None, kind), other) if index == 0 else (other, Literal(None, kind))
        if is_number(kind) and is_string(type_of(value)):
            wanted = LONG if str(kind) in INTEGER_RANGES else DOUBLE
            number = cast_if_possible(value, wanted, strict=False)
            return (number, other) if index == 0 else (other, number)
    return args


def _operand(value: Value, kind: DataType, name: str, *, strict: bool) -> Value:
    """Cast an operand to the type of the result; decimals keep their own."""
    if isinstance(kind, DecimalType) or (name == "div" and isinstance(type_of(value), DecimalType)):
        if isinstance(type_of(value), DecimalType):
            return value
        whole, scale = digits(value)
        kind = DecimalType(whole + scale, scale)
    return cast_if_possible(value, kind, strict=strict)


def _shifted(node: Call, name: str, args: tuple[Value, ...]) -> Value:
    """Add an interval to a date or timestamp, or subtract it."""
    reason = "an interval is added to a date or timestamp, or subtracted from one"
    _require(len(args) == 2, node, reason)
    if name == "+" and isinstance(args[0], Call) and args[0].name == "interval":
        args = args[::-1]
    time, interval = args
    is_interval = isinstance(interval, Call) and interval.name == "interval"
    _require(is_interval and str(getattr(time, "type", "")) in TIMES, node, reason)
    number, unit = (getattr(arg, "value", None) for arg in interval.parts())
    if type_of(time) == DATE and unit not in _LONG_UNITS:
        time = cast_if_possible(time, TIMESTAMP, strict=False)
    if type_of(time) == DATE and isinstance(number, int):
        steps = number * (7 if unit == "week" else _MONTHS.get(str(unit), 1))
        _require(abs(steps) < 2**31, node, "this interval is out of range")
        if unit in _MONTHS:
            signed = Literal(steps if name == "+" else -steps, INTEGER)
            return Call("add_months", (time, signed), DATE)
        shift = "date_add" if name == "+" else "date_sub"
        return Call(shift, (time, Literal(steps, INTEGER)), DATE)
    return Call(name, (time, interval), type_of(time))


def _require(fine: Any, node: object, reason: str) -> None:
    if not fine:
        _refuse(node, reason)


def _refuse(node: object, reason: str) -> NoReturn:
    raise PredicateError(str(node), reason)
