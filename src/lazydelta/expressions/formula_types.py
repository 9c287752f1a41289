"""What a formula means to Spark: every value gets its type, and implicit casts are written out.

Spark has two sets of rules (ANSI and the older one), chosen by a setting that the table does not
tell. A formula is taken only where both give the same, or where ANSI refuses the row: anything
else, and anything that is not known, is refused here by name, before a row is looked at.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lazydelta.errors import PredicateError
from lazydelta.expressions.formula_casts import castable
from lazydelta.expressions.formula_functions import FUNCTIONS, of_family
from lazydelta.expressions.formula_parse import Truth
from lazydelta.expressions.functions import is_exact_number, is_float, is_text
from lazydelta.expressions.nodes import (
    And,
    Call,
    Cast,
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
    Predicate,
    Value,
)
from lazydelta.expressions.patterns import split_pattern
from lazydelta.schema import INTEGER_RANGES, DataType, DecimalType, PrimitiveType, parse_value

if TYPE_CHECKING:
    from lazydelta.schema import StructType

__all__ = ["Step", "assignable", "cast_to", "column_paths", "typed"]

_BOOLEAN, _STRING, _VOID = (PrimitiveType(name) for name in ("boolean", "string", "void"))
_DOUBLE, _LONG, _DATE = (PrimitiveType(name) for name in ("double", "long", "date"))
_MOST_DIGITS = 38
_EXACT_IN_FLOAT = 2**24
_MOST_DEPTH = 100
_TIMES = ("date", "timestamp", "timestamp_ntz")
_JOINING = {
    **{name: name for name in ("coalesce", "nullif", "greatest", "least")},
    "nvl": "coalesce",
    "ifnull": "coalesce",
}
"""Functions of values of one type, and the operations that they are."""


@dataclass(frozen=True, slots=True)
class Step:
    """One operation of a formula, over the results of others, with the type of its result."""

    op: str
    args: tuple[Step, ...]
    type: DataType
    setting: Any = None
    """What is not a value of the row: a column's path, a constant, a pattern, a unit."""

    @property
    def is_null_constant(self) -> bool:
        """Whether it is a plain NULL, which has every type."""
        return self.type == _VOID


def typed(value: Value, schema: StructType) -> Step:
    """Return a parsed formula with its columns found and every part typed.

    Raises:
        ColumnNotFoundError: A name is not in the schema.
        PredicateError: A function that is not known, or operands that Spark does not take or
            takes in two ways.
    """
    _check_depth(value)
    return _Typer(schema).value(value)


def cast_to(step: Step, kind: DataType) -> Step | None:
    """Return a step whose result is of a type; None if its values cannot be had as that."""
    if step.type == kind or (is_text(step.type) and is_text(kind)):
        return step
    if step.is_null_constant:
        return Step("literal", (), kind, None)
    return Step("cast", (step,), kind) if castable(step.type, kind) else None


def assignable(source: DataType, target: DataType) -> bool:
    """Whether a formula may stand where values of a type are wanted without saying CAST."""
    return (
        source in (target, _VOID)
        or (is_text(source) and is_text(target))
        or (_is_number(source) and _is_number(target))
        or (source == _DATE and str(target) in _TIMES)
    )


def column_paths(step: Step) -> frozenset[tuple[str, ...]]:
    """Return the paths of the columns that a formula reads."""
    own = {step.setting} if step.op == "column" else set()
    return frozenset(own.union(*map(column_paths, step.args)))


class _Typer:
    def __init__(self, schema: StructType) -> None:
        self.schema = schema

    # --- conditions

    def predicate(self, node: Predicate) -> Step:  # noqa: PLR0911 - one per node
        match node:
            case And(arms) | Or(arms):
                steps = tuple(self.predicate(arm) for arm in arms)
                return Step("and" if isinstance(node, And) else "or", steps, _BOOLEAN)
            case Not(inner):
                return Step("not", (self.predicate(inner),), _BOOLEAN)
            case IsTrue(inner):
                return Step("is_true", (self.predicate(inner),), _BOOLEAN)
            case IsNull(operand):
                return Step("is_null", (self.any_column(operand),), _BOOLEAN)
            case Compare(op, left, right):
                return self.compare(op, left, right)
            case In(value, options):
                return self.is_in(value, options)
            case Like(value, pattern, escape):
                split_pattern(pattern, escape)
                text = self.value(value)
                _require(is_text(text.type), node, f"{text.type} is no text")
                return Step("like", (text,), _BOOLEAN, (pattern, escape))
            case Constant(truth):
                return Step("literal", (), _BOOLEAN, truth)
        raise PredicateError(str(node), "this cannot be part of a formula")

    def compare(self, op: str, left: Value, right: Value) -> Step:
        sides = self.common((left, right), of=f"{left} {op} {right}", texts=True)
        _require(_is_flat(sides[0].type), left, f"values of type {sides[0].type} have no order")
        return Step(op, sides, _BOOLEAN)

    def is_in(self, value: Value, options: tuple[Literal, ...]) -> Step:
        tests = tuple(self.compare("=", value, option) for option in options)
        subject = tests[0].args[0]
        plain = all(
            test.args[0] == subject and test.args[1].op == "literal" for test in tests
        ) and not is_float(subject.type)
        if not plain:  # floats have two zeros; constants may widen what they are compared with
            return Step("or", tests, _BOOLEAN)
        constants = tuple(test.args[1].setting for test in tests)
        return Step("in", (subject,), _BOOLEAN, constants)

    # --- values

    def value(self, node: Value) -> Step:
        match node:
            case Column(path):
                step = self.column(path)
                _require(_is_flat(step.type), node, f"a {step.type} cannot be part of a formula")
                return step
            case Literal(value, kind):
                return Step("literal", (), kind, value)
            case Truth(predicate):
                return self.predicate(predicate)
            case Cast(inner, kind):
                source = self.value(inner)
                cast = cast_to(source, kind)
                return cast or _refuse(node, f"a {source.type} is not cast to {kind}")
            case Call(name, args):
                return self.call(node, name, args)
        raise PredicateError(str(node), "this cannot be part of a formula")

    def any_column(self, node: Value | Predicate) -> Step:
        """Type what is only asked whether it is null: a column may be of any type."""
        if isinstance(node, Predicate):
            return self.predicate(node)
        return self.column(node.path) if isinstance(node, Column) else self.value(node)

    def column(self, path: tuple[str, ...]) -> Step:
        fields = self.schema.find(path)
        last = fields[-1]
        collated = "collate" in str(last.type) or "__COLLATIONS" in last.metadata
        _require(not collated, Column(path), "texts with a collation cannot be part of a formula")
        return Step("column", (), last.type, tuple(part.name for part in fields))

    def call(self, node: Call, name: str, args: tuple[Value, ...]) -> Step:
        if name in _JOINING:
            return self.joining(node, _JOINING[name], args)
        if name == "case":
            return self.case(node, args)
        if name in ("isnull", "isnotnull") and len(args) == 1:
            test = Step("is_null", (self.any_column(args[0]),), _BOOLEAN)
            return test if name == "isnull" else Step("not", (test,), _BOOLEAN)
        steps = tuple(self.value(arg) for arg in args)
        if name in ("+", "-", "*", "/", "%", "div"):
            return self.arithmetic(node, steps)
        if name in ("||", "concat"):
            fine = steps and all(is_text(step.type) for step in steps)
            _require(fine, node, "it takes texts; cast the others")
            return Step("concat", steps, _STRING)
        return self.function(node, steps)

    def joining(self, node: Call, op: str, args: tuple[Value, ...]) -> Step:
        """Type a function of values of one type, which is that of its result."""
        least, most = {"coalesce": (1, None), "nullif": (2, 2)}.get(op, (2, None))
        _require(least <= len(args) <= (most or len(args)), node, f"it takes {least} values")
        steps = self.common(args, of=str(node))
        return Step(op, steps, steps[0].type)

    def function(self, node: Call, steps: tuple[Step, ...]) -> Step:
        signature = FUNCTIONS.get((node.name, len(steps)))
        if signature is None:
            known = ", ".join(sorted({name for name, _ in FUNCTIONS}))
            return _refuse(node, f"no function {node.name!r} of {len(steps)}; known: {known}")
        values, settings = [], []
        for step, wanted in zip(steps, signature.takes, strict=True):
            family, is_constant = wanted.removeprefix("constant "), wanted.startswith("constant ")
            fine = of_family(step.type, family) and (step.op == "literal" or not is_constant)
            _require(fine, node, f"it takes {' and '.join(signature.takes)}")
            if is_constant:
                settings.append(step.setting)
            else:
                values.append((signature.wanted and cast_to(step, signature.wanted)) or step)
        _require(signature.allows(*settings), node, "this constant is not one lazydelta knows")
        kind = signature.gives or values[0].type
        return Step(signature.op or node.name, tuple(values), kind, tuple(settings))

    def case(self, node: Call, args: tuple[Value, ...]) -> Step:
        """Type conditions and results, which alternate; a last one alone is the ELSE."""
        conditions = tuple(self.value(arg) for arg in args[:-1:2])
        _require(bool(conditions), node, "it takes conditions and values")
        for condition in conditions:
            _require(condition.type in (_BOOLEAN, _VOID), node, "WHEN takes a condition")
        results = [arg for at, arg in enumerate(args) if at % 2 or at == len(args) - 1]
        if len(args) % 2 == 0:
            results.append(Literal(None, _VOID))
        steps = self.common(tuple(results), of=str(node))
        known = tuple(cast_to(condition, _BOOLEAN) or condition for condition in conditions)
        return Step("case", (*known, *steps), steps[0].type)

    # --- implicit casts

    def common(self, nodes: tuple[Value, ...], *, of: str, texts: bool = False) -> tuple[Step, ...]:
        """Bring values to one type; with `texts`, constant texts to that of the others."""
        steps = tuple(self.value(node) for node in nodes)
        known = [step for step in steps if not step.is_null_constant]
        firm = [step for step in known if not (texts and _is_constant_text(step))]
        seen, *others = firm or known or steps
        for step in others:
            kind = _common(seen, step)
            if kind is None:
                raise PredicateError(of, f"{seen.type} and {step.type} need an explicit CAST")
            seen = seen if kind == seen.type else Step("", (), kind)
        return tuple(_as_common(step, seen.type, of) for step in steps)

    def arithmetic(self, node: Call, args: tuple[Step, ...]) -> Step:
        for step in args:
            fine = is_exact_number(step.type) or is_float(step.type) or step.is_null_constant
            _require(fine or step.type == _DATE, node, f"{step.type} is no number")
        if node.name in ("+", "-") and args[0].type == _DATE:
            return self.moved_date(node, args)
        _require(all(step.type != _DATE for step in args), node, "a date is no number")
        kind = _arithmetic_type(node.name, args)
        if kind is None:
            return _refuse(node, f"{' and '.join(str(a.type) for a in args)} need an explicit CAST")
        operand = kind if not isinstance(kind, DecimalType) else None
        operands = tuple(_operand(step, operand) for step in args)
        op = "negate" if len(args) == 1 and node.name == "-" else node.name
        return Step(op, operands, kind)

    def moved_date(self, node: Call, args: tuple[Step, ...]) -> Step:
        whole = len(args) == 2 and str(args[1].type) in ("byte", "short", "integer")
        _require(whole, node, "a date takes a whole number of days")
        days = _operand(args[1], PrimitiveType("integer"))
        return Step("date_add" if node.name == "+" else "date_sub", (args[0], days), _DATE, ())


def _common(a: Step, b: Step) -> DataType | None:
    left, right = a.type, b.type
    if left == right:
        return left
    if is_text(left) and is_text(right):
        return _STRING
    if _is_number(left) and _is_number(right):
        return _common_number(a, b)
    if {str(left), str(right)} in ({"date", "timestamp"}, {"date", "timestamp_ntz"}):
        return left if right == _DATE else right
    return None


def _common_number(a: Step, b: Step) -> DataType | None:
    if is_float(a.type) or is_float(b.type):
        return _DOUBLE if _joins_float(a, b) and _joins_float(b, a) else None
    if isinstance(a.type, DecimalType) or isinstance(b.type, DecimalType):
        (whole, scale), (other_whole, other_scale) = _digits(a), _digits(b)
        return _decimal(max(whole, other_whole), max(scale, other_scale))
    return max(a.type, b.type, key=lambda kind: INTEGER_RANGES[str(kind)][1])


def _joins_float(a: Step, b: Step) -> bool:
    """Whether a number meets a float as a double in both of Spark's sets of rules."""
    if str(a.type) not in INTEGER_RANGES or str(b.type) != "float":
        return True
    return a.op == "literal" and a.setting is not None and abs(a.setting) <= _EXACT_IN_FLOAT


def _as_common(step: Step, kind: DataType, of: str) -> Step:
    if _is_constant_text(step) and not is_text(kind):
        try:
            return Step("literal", (), kind, parse_value(step.setting.strip(), kind))
        except ValueError as error:
            raise PredicateError(of, str(error)) from None
    return cast_to(step, kind) or _refuse(of, f"{step.type} and {kind} need an explicit CAST")


def _arithmetic_type(name: str, args: tuple[Step, ...]) -> DataType | None:  # noqa: PLR0911
    if len(args) == 1:
        return args[0].type if not args[0].is_null_constant else None
    a, b = args
    if a.is_null_constant or b.is_null_constant:
        return None
    if is_float(a.type) or is_float(b.type):
        if a.type == b.type:
            return _DOUBLE if name == "/" else None if name == "div" else a.type
        mixed = _DOUBLE in (a.type, b.type)
        return _DOUBLE if mixed and name != "div" else None
    if isinstance(a.type, DecimalType) or isinstance(b.type, DecimalType):
        return _decimal_result(name, _digits(a), _digits(b))
    if name == "/":
        return _DOUBLE
    return (
        _LONG
        if name == "div"
        else max(a.type, b.type, key=lambda kind: INTEGER_RANGES[str(kind)][1])
    )


def _decimal_result(name: str, a: tuple[int, int], b: tuple[int, int]) -> DecimalType | None:
    if name in ("+", "-"):
        return _decimal(max(a[0], b[0]) + 1, max(a[1], b[1]))
    if name == "*":
        return _decimal(a[0] + b[0] + 1, a[1] + b[1])
    return None


def _decimal(whole: int, scale: int) -> DecimalType | None:
    """Beyond 38 digits Spark gives up some behind the point, and so does not give the same."""
    return DecimalType(whole + scale, scale) if whole + scale <= _MOST_DIGITS else None


def _digits(step: Step) -> tuple[int, int]:
    """How many digits a number may have before and behind the point; a constant, what it has."""
    if isinstance(step.type, DecimalType):
        return step.type.precision - step.type.scale, step.type.scale
    if step.op == "literal" and step.setting is not None:
        return len(str(abs(step.setting))), 0
    return {"byte": 3, "short": 5, "integer": 10, "long": 20}[str(step.type)], 0


def _operand(step: Step, kind: DataType | None) -> Step:
    """Bring an operand to the type of the result; decimals keep their own."""
    if kind is None:
        if isinstance(step.type, DecimalType):
            return step
        whole, scale = _digits(step)
        kind = DecimalType(whole + scale, scale)
    return cast_to(step, kind) or _refuse(step.op, f"{step.type} is not castable to {kind}")


def _check_depth(value: Value) -> None:
    level: list[Any] = [value]
    for _ in range(_MOST_DEPTH):
        level = [part for node in level for part in node.parts()]
        if not level:
            return
    raise PredicateError("...", f"it is nested more than {_MOST_DEPTH} deep")


def _is_constant_text(step: Step) -> bool:
    return step.op == "literal" and is_text(step.type)


def _is_number(kind: DataType) -> bool:
    return is_exact_number(kind) or is_float(kind)


def _is_flat(kind: DataType) -> bool:
    return isinstance(kind, (PrimitiveType, DecimalType)) and str(kind) != "variant"


def _require(fine: object, node: object, reason: str) -> None:
    if not fine:
        raise PredicateError(str(node), reason)


def _refuse(node: object, reason: str) -> Any:
    raise PredicateError(str(node), reason)
