"""Files skipped by executors: the predicate of `replay.prune` over a DataFrame of live files.

The twin of `replay.Pruner.mask`, from the same rewritten predicate. A file is dropped only where
its partition values and statistics rule a match out; what is missing or senseless keeps it. Typed
columns are used where they are, and where a row has none, the text and the map they were made of.
Nothing is collected, and no Python runs in executors.
"""

from __future__ import annotations

from functools import reduce
from operator import and_, or_
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as f
from pyspark.sql import types as t

from lazydelta.expr import And, Predicate, Stat, as_predicate
from lazydelta.replay import (
    ANY_CHARACTER,
    CUT_MICROS,
    Pruner,
    is_rounded,
    is_string_only,
    json_path,
)
from lazydelta.schema import DecimalType
from lazydelta.spark.predicate import to_column
from lazydelta.spark.pushdown import pushable_condition
from lazydelta.spark.values import (
    exact_decimal,
    from_micros,
    micros,
    parse_text,
    typed_field,
    value_type,
    widest_decimal,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column, DataFrame

    from lazydelta.scan import Where
    from lazydelta.schema import DataType
    from lazydelta.snapshot import Snapshot

__all__ = ["apply_data_skipping", "file_conditions"]

_TIMES = ("timestamp", "timestamp_ntz")
_COUNTS = ("null_count", "num_records")
_LAST_MICROS = 2**63 - 1
_ROUNDING = 2.0**-51
_WIDE_DIGITS = 37
# Strict JSON: a text that other readers would refuse has no statistics.
_JSON_OPTIONS = {"allowSingleQuotes": "false", "mode": "PERMISSIVE"}


def apply_data_skipping(df: DataFrame, snapshot: Snapshot, where: Where) -> DataFrame:
    """Return the files that may hold a row that the predicate wants; executors decide.

    Args:
        df: Live files, as `distributed_log_replay` gives them: columns named as the fields of an
            add action, `partitionValues` or `partitionValues_parsed` or both, and `stats` or
            `stats_parsed` or both. Its other columns pass through.
        snapshot: The version that the files are of.
        where: A predicate, SQL text, DNF tuples or an equality map; None keeps every file.

    Raises:
        ColumnNotFoundError: The predicate names a column that the schema does not have.
        PredicateError: The predicate does not fit the schema.
    """
    pruner = Pruner.build(
        as_predicate(where),
        schema=snapshot.schema,
        partition_columns=snapshot.partition_columns,
        mapping_mode=snapshot.column_mapping_mode,
        generated=snapshot.generates_columns,
    )
    return reduce(lambda files, test: files.where(test), file_conditions(pruner, df.schema), df)


def file_conditions(pruner: Pruner, schema: t.StructType) -> list[Column]:
    """Return what a file must meet to be kept, the cheapest first; none of them is ever null.

    Args:
        pruner: The predicate, rewritten.
        schema: Of the DataFrame that holds the files.
    """
    rule = pruner.rule
    if rule is None:
        return []
    if pruner.matches_nothing:
        return [f.lit(False)]
    arms = rule.arms if isinstance(rule, And) else (rule,)
    by_partition = [arm for arm in arms if not _needs_stats(arm)]
    by_stats = [arm for arm in arms if _needs_stats(arm)]
    facts = _Facts(schema, pruner.physical)
    unreadable = facts.unreadable()
    pushed = pushable_condition(rule, schema, pruner.physical)
    found = [] if pushed is None else [pushed]
    if by_partition:
        found.append(unreadable | _keep(by_partition, facts))
    if by_stats:
        found.append(unreadable | _by_stats(by_stats, schema, pruner.physical))
    return found


def _needs_stats(node: Predicate) -> bool:
    return any(isinstance(part, Stat) and part.kind != "partition" for part in node.walk())


def _keep(arms: Sequence[Predicate], facts: _Facts) -> Column:
    """Say whether no arm is false: unknown keeps."""
    tests = [f.coalesce(to_column(arm, facts.stat), f.lit(True)) for arm in arms]
    return reduce(and_, tests)


def _by_stats(
    arms: Sequence[Predicate], schema: t.StructType, physical: Mapping[Stat, tuple[str, ...]]
) -> Column:
    """Say whether no arm is false, with the text of statistics parsed at most once for a file.

    The text is the one element of an array because a lambda's argument is computed once; Spark
    would copy a plain column into every place that a fact is used in, and parse there.
    """
    facts = _Facts(schema, physical)
    if "stats" not in schema.names:
        return _keep(arms, facts)
    text = f.col("stats")
    if facts.all_typed():
        text = f.when(f.col("stats_parsed").isNull(), text)
    parsed = f.from_json(text, _json_schema(physical), _JSON_OPTIONS)
    return f.exists(f.array(parsed), lambda found: _keep(arms, _Facts(schema, physical, found)))


# --- what a file's log entry says -----------------------------------------------------------------


class _Facts:
    """The columns behind each `Stat`; null is unknown.

    Args:
        schema: Of the DataFrame of files.
        physical: The statistics that may be asked for, with the log's names of their columns.
        texts: What the JSON of the statistics holds; None if that is not to be looked at.
    """

    def __init__(
        self,
        schema: t.StructType,
        physical: Mapping[Stat, tuple[str, ...]],
        texts: Column | None = None,
    ) -> None:
        self.schema = schema
        self.physical = physical
        self.texts = texts
        self.fetched: dict[Stat, Column] = {}

    def all_typed(self) -> bool:
        """Whether every statistic has a typed column, which may be null for some files."""
        return all(
            self._typed("stats_parsed", json_path(stat, path), stat.type) is not None
            for stat, path in self.physical.items()
            if stat.kind != "partition"
        )

    def unreadable(self) -> Column:
        """Say of which files a partition value is there but cannot be read: nothing is known."""
        tests = [self._unreadable(stat) for stat in self.physical if stat.kind == "partition"]
        return reduce(or_, tests, f.lit(False))

    def stat(self, stat: Any) -> Column:
        """Return a fact; bounds that contradict each other are unknown."""
        other = {"min": "max", "max": "min"}.get(stat.kind)
        found = self._fetch(stat)
        opposite = None if other is None else Stat(other, stat.path, stat.type)
        if opposite is None or opposite not in self.physical:
            return found
        low, high = (found, self._fetch(opposite))[:: 1 if stat.kind == "min" else -1]
        return f.when(~f.coalesce(low > high, f.lit(False)), found)

    def _fetch(self, stat: Stat) -> Column:
        if stat not in self.fetched:
            if stat.kind == "partition":
                self.fetched[stat] = self._partition(stat)
            else:
                self.fetched[stat] = _trusted(stat, self._statistic(stat))
        return self.fetched[stat]

    # --- partition values

    def _partition(self, stat: Stat) -> Column:
        typed = self._typed("partitionValues_parsed", self.physical[stat], stat.type)
        text = self._partition_text(stat)
        if text is not None and is_string_only(stat):
            typed = None
        if typed is not None and isinstance(value_type(stat.type), t.StringType):
            typed = f.when(typed != "", typed)
        read = None if text is None else parse_text(f.when(text != "", text), stat.type)
        return _first_known(typed, read, stat.type)

    def _partition_text(self, stat: Stat) -> Column | None:
        (name,) = self.physical[stat]
        if "partitionValues" not in self.schema.names:
            return None
        return f.try_element_at(f.col("partitionValues"), f.lit(name))

    def _unreadable(self, stat: Stat) -> Column:
        text = self._partition_text(stat)
        if text is not None:
            odd = f.coalesce((text != "") & self._fetch(stat).isNull(), f.lit(False))
            return odd | f.col("partitionValues").isNull()
        if self._typed("partitionValues_parsed", self.physical[stat], stat.type) is not None:
            return f.col("partitionValues_parsed").isNull()
        return f.lit(True)

    # --- statistics

    def _statistic(self, stat: Stat) -> Column:
        path = json_path(stat, self.physical[stat])
        typed = self._typed("stats_parsed", path, stat.type)
        text = None if self.texts is None else _inside(self.texts, path)
        read = None if text is None else _from_json_leaf(text, stat.type)
        return _first_known(typed, read, stat.type)

    def _typed(self, parent: str, path: tuple[str, ...], kind: DataType) -> Column | None:
        return typed_field(self.schema, (parent, *path), kind)


def _first_known(typed: Column | None, read: Column | None, kind: DataType) -> Column:
    known = [column for column in (typed, read) if column is not None]
    return f.coalesce(*known) if known else f.lit(None).cast(value_type(kind))


def _inside(column: Column, path: Sequence[str]) -> Column:
    return reduce(lambda outer, name: outer.getField(name), path, column)


def _trusted(stat: Stat, value: Column) -> Column:  # noqa: PLR0911 - one return per type
    """Make bounds of statistics; what cannot be true becomes unknown (see `replay.stats_values`)."""
    name = str(stat.type)
    if stat.kind in _COUNTS:
        return f.when(value >= 0, value)
    if name == "float":
        return f.when(~f.isnan(value), value)
    if name == "double":  # it may have been a float when it was written
        outer = f.least if stat.kind == "min" else f.greatest
        return f.when(~f.isnan(value), outer(value, value.cast(t.FloatType()).cast(t.DoubleType())))
    if stat.kind == "max" and isinstance(value_type(stat.type), t.StringType):
        return f.when(~value.endswith(ANY_CHARACTER), value)
    if name in _TIMES and stat.kind == "max":
        latest = f.lit(_LAST_MICROS - CUT_MICROS)
        count = micros(value, stat.type)
        moved = f.when(count > latest, latest).otherwise(count) + f.lit(CUT_MICROS)
        return from_micros(moved, stat.type)
    if isinstance(stat.type, DecimalType) and is_rounded(stat.type):
        return _widened(value, stat.type, down=stat.kind == "min")
    return value


def _widened(value: Column, kind: DecimalType, *, down: bool) -> Column:
    """Move decimals out by what a writer loses that keeps them as doubles, and one step more.

    Spark's decimals end at 38 digits: one that has no room to move is unknown.
    """
    wide = t.DecimalType(_WIDE_DIGITS, min(kind.scale, _WIDE_DIGITS))
    error = f.abs(value).cast(t.DoubleType()) * f.lit(_ROUNDING)
    step = f.lit(f"1E-{kind.scale}").try_cast(wide)
    apart = (error.try_cast(wide) + step).try_cast(wide)
    room = value.try_cast(wide)
    return room - apart if down else room + apart


# --- the text of statistics -----------------------------------------------------------------------


def _json_schema(physical: Mapping[Stat, tuple[str, ...]]) -> t.StructType:
    """Return the schema of just the leaves that are wanted.

    They are read as texts, because a text that does not fit is then unknown alone; but decimals
    as numbers, of which Spark makes doubles on the way to a text.
    """
    leaves = {
        json_path(stat, path): stat.type
        for stat, path in physical.items()
        if stat.kind != "partition"
    }
    return _tree(leaves)


def _tree(leaves: Mapping[tuple[str, ...], DataType]) -> t.StructType:
    below: dict[str, dict[tuple[str, ...], DataType]] = {}
    for path, kind in leaves.items():
        below.setdefault(path[0], {})[path[1:]] = kind
    return t.StructType(
        [
            t.StructField(name, _leaf_type(rest[()]) if () in rest else _tree(rest))
            for name, rest in below.items()
        ]
    )


def _leaf_type(kind: DataType) -> t.DataType:
    return widest_decimal(kind) if isinstance(kind, DecimalType) else t.StringType()


def _from_json_leaf(leaf: Column, kind: DataType) -> Column:
    return exact_decimal(leaf, kind) if isinstance(kind, DecimalType) else parse_text(leaf, kind)
