"""The part of a skipping rule that Spark can push into a Parquet scan of a checkpoint.

Row groups are skipped by comparisons of plain columns with constants. So this is the rule over the
typed columns alone (`stats_parsed`, `partitionValues_parsed`), with "unknown keeps" spelled out
as `IS NULL`, and with everything that is no plain comparison left out: it keeps more than the
rule, never less, except that bounds which contradict each other are believed, as they are when
row groups are chosen in process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lazydelta.expr import (
    And,
    AnyWithin,
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
    Stat,
    guarded,
)
from lazydelta.replay import CUT_MICROS, is_rounded, is_string_only, json_path
from lazydelta.spark.predicate import to_column
from lazydelta.spark.values import typed_field

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column
    from pyspark.sql import types as t

__all__ = ["pushable_condition"]

_TRUE = Constant(True)
_TIMES = ("timestamp", "timestamp_ntz")
_LEAST_MICROS = -(2**63)


def pushable_condition(
    rule: Predicate, schema: t.StructType, physical: Mapping[Stat, tuple[str, ...]]
) -> Column | None:
    """Return a condition on typed columns that every file meets for which the rule is not false.

    Files may be filtered with it before the log is replayed: one that it drops cannot match,
    whether it is live or not.

    Args:
        rule: Over statistics, as `replay.Pruner` has it.
        schema: Of the rows: columns named as the fields of an add action.
        physical: The log's names of the columns behind the statistics.

    Returns:
        None if nothing can be pushed.
    """
    plain = _Plain(schema, physical)
    pushed = plain.keep(guarded(rule))
    return None if pushed == _TRUE else to_column(pushed, plain.column)


class _Plain:
    """What is left of one rule, over one schema."""

    def __init__(self, schema: t.StructType, physical: Mapping[Stat, tuple[str, ...]]) -> None:
        self.schema = schema
        self.physical = physical

    def column(self, stat: Any) -> Column:
        found = self._typed(stat)
        if found is None:
            raise KeyError(stat)
        return found

    def keep(self, node: Predicate) -> Predicate:  # noqa: PLR0911 - one return per node
        """Return a weaker predicate of plain comparisons; TRUE where there is none."""
        match node:
            case And(arms):
                kept = [arm for arm in map(self.keep, arms) if arm != _TRUE]
                return And(tuple(kept)) if kept else _TRUE
            case Or(arms):
                weaker = tuple(map(self.keep, arms))
                return _TRUE if _TRUE in weaker else Or(weaker)
            case IsTrue(inner):  # where it is asked whether to keep, unknown is as good as false
                return inner if self._is_exact(inner) else _TRUE
            case AnyWithin(low, high, options):
                ends = Compare("<=", low, options[-1]), Compare(">=", high, options[0])
                return self.keep(And(ends))
            case Compare(op, Stat("max", _, kind) as stat, Literal(value)) if str(kind) in _TIMES:
                moved = value - CUT_MICROS
                if moved < _LEAST_MICROS:
                    return _TRUE
                return self._if_plain(Compare(op, stat, Literal(moved, kind)), stat)
            case IsNull(Stat("partition", _, kind) as stat) if _is_text(kind):
                return self._if_plain(Or((node, Compare("=", stat, Literal("", kind)))), stat)
            case Compare(_, Stat() as stat, Literal()) | IsNull(Stat() as stat):
                return self._if_plain(node, stat)
        return _TRUE

    def _if_plain(self, node: Predicate, stat: Stat) -> Predicate:
        return node if self._is_plain(stat) else _TRUE

    def _is_plain(self, stat: Stat) -> bool:
        """Whether the typed column is there, and its values are compared as they stand."""
        moved = is_string_only(stat) or (stat.kind != "partition" and is_rounded(stat.type))
        return not moved and str(stat.type) not in ("float", "double") and self._has(stat)

    def _is_exact(self, node: Predicate) -> bool:
        """Whether a condition on partition values is made of plain comparisons alone.

        Whether a text is NULL is none: an empty one is NULL as well.
        """
        known = (And, Or, Not, Compare, In, IsNull, Like, Constant, Literal, Stat)
        return all(
            isinstance(part, known)
            and (not isinstance(part, Stat) or self._is_plain(part))
            and not (isinstance(part, IsNull) and _is_text(getattr(part.operand, "type", None)))
            for part in node.walk()
        )

    def _has(self, stat: Stat) -> bool:
        return self._typed(stat) is not None

    def _typed(self, stat: Stat) -> Column | None:
        path = self.physical[stat]
        if stat.kind == "partition":
            return typed_field(self.schema, ("partitionValues_parsed", *path), stat.type)
        return typed_field(self.schema, ("stats_parsed", *json_path(stat, path)), stat.type)


def _is_text(kind: Any) -> bool:
    return str(kind).partition("(")[0] in ("string", "char", "varchar")
