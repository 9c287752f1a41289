"""Bind an expression to a schema: resolve columns, type every node, insert implicit casts.

One binder for filters and for expressions in table metadata. `coercion` has the type rules,
`literals` converts literals, and constant subexpressions are computed here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from lazydelta.errors import ColumnNotFoundError, PredicateError
from lazydelta.expressions.coercion import (
    BOOLEAN,
    DATE,
    INTEGER,
    STRING,
    VOID,
    arithmetic_type,
    castable,
    common_type,
    digits,
    is_exact_number,
    is_flat,
    is_float,
    is_number,
    is_string,
    type_of,
)
from lazydelta.expressions.evaluation import evaluate_checked
from lazydelta.expressions.functions import ALIASES, CHOICES, FUNCTIONS, of_family
from lazydelta.expressions.literal_comparison import (
    FLIPPED,
    compare_literal,
    fit_options,
    read_string,
)
from lazydelta.expressions.logic import join_and, join_or, negation
from lazydelta.expressions.nodes.patterns import split_pattern
from lazydelta.expressions.nodes.predicates import (
    And,
    Compare,
    Constant,
    In,
    IsNull,
    IsTrue,
    Like,
    Not,
    Or,
    Predicate,
)
from lazydelta.expressions.nodes.value_nodes import Call, Cast, Column, Literal, Stat
from lazydelta.expressions.quoting import resolve_quotes
from lazydelta.schema import DecimalType, PrimitiveType, StructType
from lazydelta.schema.values import INTEGER_RANGES

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from lazydelta.expressions.nodes.base import Value
    from lazydelta.schema import DataType, StructField

__all__ = ["bind", "bind_value", "cast_to", "constant_of"]

_MAX_DEPTH = 100
_COLLATIONS = "__COLLATIONS"
_ESCAPED = str.maketrans({"\\": "\\\\", "%": "\\%", "_": "\\_"})


def bind(predicate: Predicate, schema: StructType, partition_columns: Sequence[str]) -> Predicate:
    """Return the predicate with columns resolved, values typed and literals converted.

    Args:
        predicate: As built or parsed.
        schema: The table's logical schema.
        partition_columns: Logical names of the partition columns.

    Raises:
        ColumnNotFoundError: A name is not in the schema; the message lists near matches.
        PredicateError: Values that cannot be compared, or an unknown function.
    """
    bound = bind_value(predicate, schema, partition_columns)
    if not isinstance(bound, Predicate):
        raise PredicateError(str(predicate), "it is not a condition")
    return bound


def bind_value(
    value: Value, schema: StructType, partition_columns: Sequence[str] = (), *, strict: bool = False
) -> Value:
    """Return an expression of any type, bound.

    Args:
        value: As built or parsed.
        schema: The table's logical schema.
        partition_columns: Logical names of the partition columns.
        strict: Whether to refuse what depends on the mode or time zone of a Spark session, and
            to leave arithmetic as it is, so that overflow fails.
    """
    _check_depth(value)
    binder = _Binder(schema, partition_columns, strict=strict)
    return binder.value(resolve_quotes(value, binder.has_column, binder.is_valid))


class _Binder:
    """One binding to one schema."""

    def __init__(
        self, schema: StructType, partition_columns: Sequence[str], *, strict: bool
    ) -> None:
        self.schema = schema
        self.partitions = {name.lower() for name in partition_columns}
        self.strict = strict

    def has_column(self, name: str) -> bool:
        try:
            return bool(self.schema.find((name,)))
        except ColumnNotFoundError:
            return False

    def is_valid(self, value: Value) -> bool:
        try:
            self.value(value)
        except (ColumnNotFoundError, PredicateError):
            return False
        return True

    # --- predicates

    def predicate(self, node: Predicate) -> Predicate:  # noqa: PLR0911 - one per node
        match node:
            case And(arms):
                return join_and([self.predicate(arm) for arm in arms])
            case Or(arms):
                return join_or([self.predicate(arm) for arm in arms])
            case Not(inner):
                return negation(self.predicate(inner))
            case IsTrue(inner):
                return _folded(IsTrue(self.predicate(inner)))
            case IsNull(operand):
                return _folded(IsNull(self.value(operand, nested=True)))
            case Compare(op, left, right):
                return self.compare(op, self.value(left), self.value(right))
            case In(value, options):
                return self.is_in(self.value(value), options)
            case Like(value, pattern, escape):
                return self.like(self.value(value), pattern, escape)
            case Constant():
                return node
        raise PredicateError(str(node), "this cannot be part of an expression on rows")

    def compare(self, op: str, left: Value, right: Value) -> Predicate:
        if isinstance(left, Literal) and not isinstance(right, Literal):
            op, left, right = FLIPPED[op], right, left
        if VOID in (type_of(left), type_of(right)) or _is_null(left) or _is_null(right):
            known = left if _is_null(right) or type_of(right) == VOID else right
            return _folded(IsNull(known)) if op == "<=>" else Constant(None)
        if isinstance(left, Predicate) and isinstance(right, Literal) and right.type == BOOLEAN:
            wanted = left if right.value == (op != "!=") else negation(left)
            if op in ("=", "!="):
                return wanted
            if op == "<=>":
                return _folded(IsTrue(wanted))
        if isinstance(right, Literal) and not isinstance(left, Literal):
            return self.compare_literal(op, left, right)
        return _folded(Compare(op, *self.common((left, right), f"{left} {op} {right}")))

    def compare_literal(self, op: str, left: Value, right: Literal) -> Predicate:
        checked = self.strict_literal(left, right)
        if self.strict and is_float(checked.type) and is_exact_number(type_of(left)):
            return Compare(op, *self.common((left, checked), f"{left} {op} {right}"))
        try:
            return compare_literal(op, left, checked, solve=not self.strict)
        except PredicateError as error:
            raise PredicateError(f"{left} {op} {right}", error.reason) from None

    def strict_literal(self, value: Value, literal: Literal) -> Literal:
        """Return the literal as Spark compares it, where that does not depend on the mode."""
        kind = type_of(value)
        if not self.strict or literal.value is None or is_string(kind):
            return literal
        if is_string(literal.type):
            return Literal(read_string(value, literal, kind), kind)
        if common_type(value, literal, strict=True) is None:
            _refuse(f"{value}, {literal}", _uncommon(value, literal))
        return literal

    def is_in(self, value: Value, options: tuple[Value, ...]) -> Predicate:
        bound = tuple(self.value(option) for option in options)
        literals = tuple(option for option in bound if isinstance(option, Literal))
        if isinstance(value, Literal) or len(literals) < len(bound):
            return join_or([self.compare("=", value, option) for option in bound])
        literals = tuple(self.strict_literal(value, option) for option in literals)
        return fit_options(value, literals, solve=not self.strict)

    def like(self, value: Value, pattern: str, escape: str) -> Predicate:
        shown = f"{value} LIKE {pattern!r}"
        _require(is_string(type_of(value)), shown, f"{type_of(value)} is not a string")
        _require(len(escape) == 1, shown, "ESCAPE needs one character")
        split_pattern(pattern, escape)
        return _folded(Like(value, pattern, escape))

    # --- values

    def value(self, node: Value, *, nested: bool = False) -> Value:
        match node:
            case Predicate():
                return self.predicate(node)
            case Column(path):
                return self.column(path, nested=nested)
            case Literal():
                _check_surrogates(node)
                return node
            case Cast(inner, kind):
                source = self.value(inner)
                reason = f"a {type_of(source)} cannot be cast to {kind}"
                return _supported(cast_to(source, kind), node, reason)
            case Call():
                return _computed(self.call(node))
        raise PredicateError(str(node), "this cannot be part of an expression on rows")

    def column(self, path: tuple[str, ...], *, nested: bool) -> Column:
        fields = self.schema.find(path)
        kind = _collated(fields[-1])
        if not nested and not is_flat(kind):
            _refuse(Column(path), f"values of type {kind} cannot be compared")
        if self.strict and "collate" in str(kind):
            _refuse(Column(path), "strings with a collation are not supported")
        names = tuple(part.name for part in fields)
        in_partition = len(names) == 1 and names[0].lower() in self.partitions
        return Column(names, kind, in_partition)

    def call(self, node: Call) -> Value:  # noqa: PLR0911 - one per form
        name = ALIASES.get(node.name, node.name)
        if name in ("isnull", "isnotnull") and len(node.args) == 1:
            test = self.predicate(IsNull(node.args[0]))
            return test if name == "isnull" else negation(test)
        args = tuple(self.value(arg) for arg in node.args)
        if name in CHOICES:
            return self.choice(node, name, args)
        if name == "case":
            return self.case(node, args)
        if name in ("+", "-", "*", "/", "%", "div"):
            return self.arithmetic(node, name, args)
        if name == "concat":
            fine = args and all(is_string(type_of(arg)) for arg in args)
            _require(fine, node, "concat takes strings; cast the others")
            return Call(name, args, STRING)
        if name == "date" and len(args) == 1:
            return _supported(cast_to(args[0], DATE), node, "date takes a date or timestamp")
        return self.function(node, name, args)

    def choice(self, node: Call, name: str, args: tuple[Value, ...]) -> Value:
        """Bind a function of values of one type, which is that of its result."""
        least, most = CHOICES[name]
        _require(least <= len(args) <= (most or len(args)), node, f"{name} takes {least} values")
        args = self.common(args, str(node))
        return Call(name, args, type_of(args[0]))

    def case(self, node: Call, args: tuple[Value, ...]) -> Value:
        conditions = args[:-1:2]
        _require(conditions, node, "CASE takes conditions and values")
        for condition in conditions:
            fine = type_of(condition) in (BOOLEAN, VOID)
            _require(fine, node, f"{condition} is not a condition")
        results = [*args[1::2], args[-1] if len(args) % 2 else Literal(None, VOID)]
        values = self.common(tuple(results), str(node))
        tests = (_cast_if_possible(condition, BOOLEAN) for condition in conditions)
        pairs = zip(tests, values[:-1], strict=True)
        return Call("case", (*(a for pair in pairs for a in pair), values[-1]), type_of(values[0]))

    def function(self, node: Call, name: str, args: tuple[Value, ...]) -> Value:
        signature = FUNCTIONS.get((name, len(args)))
        if signature is None:
            known = sorted({known for known, _ in FUNCTIONS} | CHOICES.keys() | {"concat", "date"})
            reason = f"there is no function {node.name!r} of {len(args)} arguments"
            return _refuse(node, f"{reason}; known: {', '.join(known)}")
        bound, constants = [], []
        for arg, takes in zip(args, signature.takes, strict=True):
            is_constant = takes.startswith("constant ")
            fine = of_family(type_of(arg), takes.removeprefix("constant "))
            fine = fine and (isinstance(arg, Literal) or not is_constant)
            _require(fine, node, f"{name} takes ({', '.join(signature.takes)})")
            if is_constant:
                constants.append(getattr(arg, "value", None))
            elif signature.wanted is not None:
                arg = _cast_if_possible(arg, signature.wanted)  # noqa: PLW2901
            bound.append(arg)
        _require(signature.allows(*constants), node, f"{name} does not support this constant")
        if name == "startswith":
            return self.like(bound[0], str(constants[0]).translate(_ESCAPED) + "%", "\\")
        return Call(name, tuple(bound), signature.gives or type_of(bound[0]))

    # --- implicit casts

    def common(self, values: tuple[Value, ...], of: str) -> tuple[Value, ...]:
        """Cast values to their common type; NULL takes the type of the others."""
        known = [value for value in values if type_of(value) != VOID] or list(values)
        seen = known[0]
        for value in known[1:]:
            kind = common_type(seen, value, strict=self.strict)
            if kind is None:
                _refuse(of, _uncommon(known[0], value))
            if kind != type_of(seen):
                seen = Column((), kind)
        target = type_of(seen)
        return tuple(
            _supported(cast_to(value, target), of, _uncommon(known[0], value)) for value in values
        )

    def arithmetic(self, node: Call, name: str, args: tuple[Value, ...]) -> Value:
        kinds = [type_of(arg) for arg in args]
        if name in ("+", "-") and kinds[0] == DATE and len(args) == 2:
            fine = of_family(kinds[1], "integer")
            _require(fine, node, "a date takes an integer number of days")
            days = _cast_if_possible(args[1], INTEGER)
            return Call("date_add" if name == "+" else "date_sub", (args[0], days), DATE)
        fine = all(map(is_number, kinds)) and (len(args) == 2 or (name == "-" and len(args) == 1))
        _require(fine, node, f"{name!r} takes numbers; {_listed(kinds)} need an explicit CAST")
        if len(args) == 1:
            return Call(name, args, kinds[0])
        kind = arithmetic_type(name, *args, strict=self.strict)
        if kind is None:
            return _refuse(node, f"{_listed(kinds)} need an explicit CAST for {name!r}")
        operands = tuple(_operand(arg, kind) for arg in args)
        return Call(name, operands, kind)


def cast_to(value: Value, kind: DataType) -> Value | None:
    """Return a value as another type; None if that cast is not supported."""
    source = type_of(value)
    if source == kind or (is_string(source) and is_string(kind)):
        return value
    if isinstance(value, Literal) and value.value is None:
        return Literal(None, kind)
    if isinstance(value, Literal) and _holds(source, kind, value.value):
        return Literal(value.value, kind)
    return _computed(Cast(value, kind)) if castable(source, kind) else None


def _holds(source: DataType, target: DataType, value: Any) -> bool:
    """Whether an integer type holds an integer literal: the cast that is needed most."""
    if str(source) not in INTEGER_RANGES or str(target) not in INTEGER_RANGES:
        return False
    low, high = INTEGER_RANGES[str(target)]
    return low <= value <= high


def constant_of(value: Value) -> Literal | None:
    """Return the value of a bound expression without columns; None if its evaluation fails."""
    found = evaluate_checked(value, _no_column, 1)
    if found.failed is not None:
        return None
    kind = type_of(value)
    values = found.values
    if str(kind) == "date":
        values = values.view("int32")
    elif str(kind) in ("timestamp", "timestamp_ntz"):
        values = values.view("int64")
    return Literal(values[0].as_py(), kind)


def _operand(value: Value, kind: DataType) -> Value:
    """Cast an operand to the type of the result; decimals keep their own."""
    if isinstance(kind, DecimalType):
        if isinstance(type_of(value), DecimalType):
            return value
        whole, scale = digits(value)
        kind = DecimalType(whole + scale, scale)
    return _cast_if_possible(value, kind)


def _cast_if_possible(value: Value, kind: DataType) -> Value:
    found = cast_to(value, kind)
    return value if found is None else found


def _supported(found: Value | None, node: object, reason: str) -> Value:
    return _refuse(node, reason) if found is None else found


def _no_column(ref: Column | Stat) -> pa.Array:
    raise PredicateError(str(ref), "a constant was expected")


def _is_constant(value: Value) -> bool:
    return not any(isinstance(node, (Column, Stat)) for node in value.walk())


def _folded(predicate: Predicate) -> Predicate:
    """Compute a predicate without columns."""
    found = constant_of(predicate) if _is_constant(predicate) else None
    return predicate if found is None else Constant(found.value)


def _computed(value: Value) -> Value:
    """Compute a value without columns; one that fails stays, and fails for each row."""
    if isinstance(value, (Literal, Predicate)) or not _is_constant(value):
        return value
    return constant_of(value) or value


def _is_null(value: Value) -> bool:
    return isinstance(value, Literal) and value.value is None


def _collated(field: StructField) -> DataType:
    """Return a type of its own for a column with a collation, which has another order."""
    collations = field.metadata.get(_COLLATIONS)
    names = collations.values() if isinstance(collations, dict) else ()
    odd = [name for name in names if not str(name).endswith("UTF8_BINARY")]
    if odd and field.type == PrimitiveType("string"):
        return PrimitiveType(f"string collate {odd[0]}")
    return field.type


def _uncommon(a: Value, b: Value) -> str:
    return f"{_listed([type_of(a), type_of(b)])} cannot be compared without an explicit CAST"


def _listed(kinds: Sequence[DataType]) -> str:
    return " and ".join(map(str, kinds))


def _check_surrogates(literal: Literal) -> None:
    if not isinstance(literal.value, str):
        return
    try:
        literal.value.encode()
    except UnicodeEncodeError:
        raise PredicateError(ascii(literal.value), "it holds half a surrogate pair") from None


def _check_depth(value: Value) -> None:
    level: list[Any] = [value]
    for _ in range(_MAX_DEPTH):
        level = [part for node in level for part in node.parts()]
        if not level:
            return
    raise PredicateError("...", f"it is nested more than {_MAX_DEPTH} deep")


def _require(fine: object, node: object, reason: str) -> None:
    if not fine:
        _refuse(node, reason)


def _refuse(node: object, reason: str) -> NoReturn:
    raise PredicateError(str(node), reason)
