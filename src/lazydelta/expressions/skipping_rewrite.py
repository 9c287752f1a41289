"""Rewrite a predicate on rows into one on a file's statistics.

The rewritten predicate is FALSE only if no row of the file can satisfy the original; TRUE or
unknown keeps the file, so a statistic that is missing (null) never costs a row. AND and OR keep
that property, so each leaf is rewritten alone. A leaf relies only on `min` and `max` as bounds of
every value: wide bounds, bounds of deleted rows and truncated strings all are. In particular
`min = v = max` proves that all values are v. Exceptions:

- NaN is above all numbers but missing from the `max` of many writers, so the `max` of floats is
  used only where NaN cannot satisfy the condition.
- Bounds of booleans are not used: some writers swap them.
- Null counts of files with deleted rows count the deleted ones too: they are only compared with
  zero and with the number of records.

The rewrite is applied a second time by `replay.prune`, to its own result, with the footer of a
checkpoint as the statistics of the statistics: then it selects the row groups to read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lazydelta.expressions.bounds import (
    below,
    differ,
    if_single,
    is_nan,
    lower,
    mark_numbers,
    not_nan,
    substitute,
    upper,
)
from lazydelta.expressions.coercion import LONG, STRING, is_number, type_of
from lazydelta.expressions.logic import conjuncts, join_and, join_or, negation, required_columns
from lazydelta.expressions.monotonic import monotonic_argument
from lazydelta.expressions.nodes.patterns import after_prefix, fixed_prefix
from lazydelta.expressions.nodes.predicates import (
    And,
    AnyWithin,
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
from lazydelta.schema import StructType
from lazydelta.schema.values import INTEGER_RANGES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lazydelta.expressions.generated import Derivation
    from lazydelta.expressions.nodes.base import Node, Value

__all__ = ["guarded", "negate", "to_skipping"]

_NUM_RECORDS = Stat("num_records", (), LONG)
_NEGATED = {"=": "!=", "!=": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
_TRUE = Constant(True)
_FALSE = Constant(False)
_MAX_NULL_DEPTH = 4
"""IS NULL of nested conditions is taken apart this deep; it doubles the tree each time."""


def to_skipping(
    bound: Predicate, derivations: Sequence[Derivation] = (), *, null_checks: bool = True
) -> Predicate | None:
    """Return a predicate over `Stat`s that is FALSE only if no row can satisfy `bound`.

    >>> fare = Column(("fare",), LONG)
    >>> print(to_skipping(Compare("<", fare, Literal(5, LONG))))
    `min.fare` < 5 AND `null_count.fare` != `num_records`

    Args:
        bound: A bound predicate.
        derivations: What partition columns that are generated from others say about those.

        null_checks: Whether a comparison also asks that there be values at all. Files without
            values have no bounds either, so only where a bound is null does it matter.

    Returns:
        None if the statistics can say nothing; `FALSE` if no row of any file can match.
    """
    rewritten = _Rewrite(derivations, null_checks=null_checks).where(bound)
    return None if rewritten == _TRUE else rewritten


def guarded(skipping: Predicate) -> Predicate:
    """Return the same predicate with "unknown keeps" spelled out: it is never unknown.

    Each condition becomes true where one of its statistics is null.
    """
    if isinstance(skipping, (And, Or)):
        return skipping.rebuild(tuple(map(guarded, skipping.arms)))
    if isinstance(skipping, Constant):
        return Constant(skipping.value is not False)
    stats = dict.fromkeys(node for node in skipping.walk() if isinstance(node, Stat))
    return join_or([skipping, *(IsNull(stat) for stat in stats)])


def negate(predicate: Predicate) -> Predicate:
    """Return the opposite, with NOT moved down to the conditions that have none."""
    match predicate:
        case And(arms):
            return Or(tuple(map(negate, arms)))
        case Or(arms):
            return And(tuple(map(negate, arms)))
        case Compare(op, left, right) if op in _NEGATED:
            return Compare(_NEGATED[op], left, right)
        case _:
            return negation(predicate)


class _Rewrite:
    """One rewrite. `TRUE` stands for "nothing is known", which keeps the file."""

    def __init__(self, derivations: Sequence[Derivation], *, null_checks: bool) -> None:
        self.derivations = derivations
        self.null_checks = null_checks
        self.null_depth = 0

    def where(self, node: Predicate) -> Predicate:  # noqa: PLR0911 - one return per node
        """Return when `node` may be TRUE for a row."""
        if _by_partition(node) and not any(isinstance(arm, Constant) for arm in node.parts()):
            return _exact(node)
        match node:
            case And():
                return self.all_of(node)
            case Or(arms):
                return join_or([self.where(arm) for arm in arms])
            case Not(inner):
                return self.unless(inner)
            case Constant(value):
                return Constant(value is True)
            case IsTrue(inner):
                return self.where(inner)
            case IsNull(operand):
                return self.unknown(operand)
        return join_and([self.leaf(node), *(d.implied(node) for d in self.derivations)])

    def all_of(self, node: And) -> Predicate:
        """Rewrite all arms, knowing of each what the others rule out."""
        arms = conjuncts(node)
        numbers = frozenset(value for arm in arms for value in not_nan(arm))
        return join_and([self.where(mark_numbers(arm, numbers)) for arm in arms])

    def unless(self, inner: Predicate) -> Predicate:  # noqa: PLR0911 - one return per node
        """Return when `inner` may be FALSE."""
        opposite = negate(inner)
        if not isinstance(opposite, Not):
            return self.where(opposite)
        match inner:
            case Compare("<=>", left, right):
                differ = self.leaf(Compare("!=", left, right))
                nulls = [self.unknown(side) for side in (left, right) if not _is_literal(side)]
                return join_or([differ, *nulls])
            case IsNull(operand):
                return self.known(operand)
            case IsTrue(predicate):
                return join_or([self.where(negate(predicate)), self.unknown(predicate)])
            case In(value, options):
                return self.not_in(value, options)
            case Like(value, pattern, escape):
                return self.not_like(value, pattern, escape)
        return _TRUE

    # --- null and unknown

    def unknown(self, operand: Value) -> Predicate:  # noqa: PLR0911 - one return per node
        """Return when `operand` may be NULL, or unknown."""
        match operand:
            case Column():
                return join_and(
                    [_has_nulls(operand), *(d.implied(IsNull(operand)) for d in self.derivations)]
                )
            case Compare(op, left, right) if op != "<=>":
                return join_or([self.unknown(s) for s in (left, right) if not _is_literal(s)])
            case Like(value):
                return self.unknown(value)
            case In(value, options):
                nulls = any(option.value is None for option in options)
                return _TRUE if nulls else self.unknown(value)
            case Not(inner):
                return self.unknown(inner)
            case And(arms):
                return self.unknown_of(arms, tuple(arms))
            case Or(arms):
                return self.unknown_of(arms, tuple(map(negate, arms)))
            case Constant(value):
                return Constant(value is None)
            case Predicate():
                return _FALSE  # IS NULL, IS TRUE and <=> are never unknown
        inside = _total_argument(operand)
        return _TRUE if inside is None else join_or([self.unknown(v) for v in inside])

    def unknown_of(
        self, arms: tuple[Predicate, ...], undecided: tuple[Predicate, ...]
    ) -> Predicate:
        """An AND is unknown if one arm is and no arm is FALSE; an OR, if no arm is TRUE."""
        if self.null_depth >= _MAX_NULL_DEPTH:
            return _TRUE
        self.null_depth += 1
        some = join_or([self.unknown(arm) for arm in arms])
        others = [join_or([self.where(arm), self.unknown(arm)]) for arm in undecided]
        self.null_depth -= 1
        return join_and([some, *others])

    def known(self, operand: Value) -> Predicate:
        """Return when `operand` may be something other than NULL, or decided."""
        if isinstance(operand, Constant):
            return Constant(operand.value is not None)
        columns = sorted(required_columns(operand), key=lambda column: column.path)
        return join_and([_has_values(column) for column in columns])

    def present(self, *values: Value) -> list[Predicate]:
        """Return that there are values to compare, where that is to be checked."""
        return [self.known(v) for v in values if self.null_checks and not _is_literal(v)]

    # --- conditions

    def leaf(self, node: Predicate) -> Predicate:
        match node:
            case Compare(op, left, right):
                return self.compare(op, left, right)
            case In(value, options):
                return self.is_in(value, options)
            case Like(value, pattern, escape):
                return self.like(value, pattern, escape)
            case AnyWithin(low, high, options):
                bounds = lower(low), upper(high)
                return _TRUE if None in bounds else AnyWithin(*bounds, options)  # type: ignore[arg-type]
        return _TRUE

    def compare(self, op: str, left: Value, right: Value) -> Predicate:
        if op == "<=>":
            both = join_and([self.unknown(left), self.unknown(right)])
            same = self.compare("=", left, right)
            return same if _is_literal(right) else join_or([same, both])
        if op in (">", ">="):  # so that only < and <= are left
            op, left, right = {">": "<", ">=": "<="}[op], right, left
        if op in ("<", "<="):
            bounds = [below(op, left, right)]
        elif op == "=":
            bounds = [below("<=", left, right, equal=True), below("<=", right, left, equal=True)]
        else:
            bounds = [differ(left, right)]
        if all(bound == _TRUE for bound in bounds):
            bounds = [if_single(Compare(op, left, right))]
        return join_and([*bounds, *self.present(left, right)])

    def is_in(self, value: Value, options: tuple[Literal, ...]) -> Predicate:
        given = tuple(option for option in options if option.value is not None)
        if not given:
            return _FALSE
        low, high = lower(value), upper(value, equal=True)
        if low is None or high is None or any(is_nan(option) for option in given):
            found = if_single(In(value, given))
        elif len(given) == 1:
            found = join_and([Compare("<=", low, given[0]), Compare(">=", high, given[0])])
        else:
            found = AnyWithin(low, high, given)
        return join_and([found, *self.present(value)])

    def not_in(self, value: Value, options: tuple[Literal, ...]) -> Predicate:
        if any(option.value is None for option in options):
            return _FALSE  # never TRUE: the NULL might have been the value
        return join_and([if_single(Not(In(value, options))), *self.present(value)])

    def like(self, value: Value, pattern: str, escape: str) -> Predicate:
        prefix, after = fixed_prefix(pattern, escape)
        if not after:
            return self.compare("=", value, Literal(prefix, STRING))
        low, high, end = lower(value), upper(value), after_prefix(prefix)
        arms = self.present(value)
        if prefix and high is not None:
            arms.append(Compare(">=", high, Literal(prefix, STRING)))
        if prefix and end is not None and low is not None:
            arms.append(Compare("<", low, Literal(end, STRING)))
        if after == "?":
            arms.append(if_single(Like(value, pattern, escape)))
        return join_and(arms)

    def not_like(self, value: Value, pattern: str, escape: str) -> Predicate:
        prefix, after = fixed_prefix(pattern, escape)
        if not after:
            return self.compare("!=", value, Literal(prefix, STRING))
        low, high, end = lower(value), upper(value), after_prefix(prefix)
        if after == "%" and not prefix:
            return _FALSE  # every string is like '%', and NULL is never unlike
        if after == "?" or low is None or high is None:
            found = if_single(Not(Like(value, pattern, escape)))
        else:  # all strings between these bounds begin with the prefix
            found = Compare("<", low, Literal(prefix, STRING))
            if end is not None:
                found = join_or([found, Compare(">=", high, Literal(end, STRING))])
        return join_and([found, *self.present(value)])


# --- partition columns --------------------------------------------------------------------------


def _by_partition(node: Predicate) -> bool:
    """Whether partition values alone decide: they are the same for all rows of a file."""
    columns = [part for part in node.walk() if isinstance(part, Column)]
    return bool(columns) and all(
        column.is_partition and not _is_opaque(column) for column in columns
    )


def _exact(node: Predicate) -> Predicate:
    return IsTrue(substitute(node, lambda column: Stat("partition", column.path, type_of(column))))


def _is_opaque(column: Column) -> bool:
    return str(column.type).startswith("string collate")


def _has_nulls(column: Column) -> Predicate:
    if column.is_partition:
        return IsNull(Stat("partition", column.path, type_of(column)))
    if isinstance(column.type, StructType):
        return _TRUE  # only the leaves of structs are counted
    return Compare("!=", _null_count(column), Literal(0, LONG))


def _has_values(column: Column) -> Predicate:
    if column.is_partition:
        return Not(IsNull(Stat("partition", column.path, type_of(column))))
    if isinstance(column.type, StructType):
        return _TRUE
    return Compare("!=", _null_count(column), _NUM_RECORDS)


def _null_count(column: Column) -> Stat:
    return Stat("null_count", column.path, LONG)


def _total_argument(value: Value) -> tuple[Value, ...] | None:
    """Return the arguments that make the value NULL if, and only if, one of them is."""
    match value:
        case Column():
            return (value,)
        case Literal(constant):
            return () if constant is not None else None
        case Cast(inner, kind):
            numeric = is_number(type_of(inner)) and is_number(kind)
            is_total = numeric and monotonic_argument(value) is not None
            return _total_argument(inner) if is_total else None
        case Call("+" | "-" | "substring" | "length", args):
            inside = [_total_argument(arg) for arg in args]
            overflows = value.name in ("+", "-") and str(value.type) in INTEGER_RANGES
            if None in inside or overflows:
                return None
            return tuple(v for part in inside for v in part or ())
    return None


def _is_literal(value: Node) -> bool:
    return isinstance(value, Literal)
