"""A translated filter is true for every row for which the original is: random rows and filters."""

from __future__ import annotations

import math
import operator
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lazydelta.expressions import bind, evaluate
from lazydelta.interop.arrow_filters import translate_arrow_filter
from lazydelta.interop.polars_filters import translate_polars_filter
from lazydelta.schema import DecimalType, PrimitiveType, StructField, StructType
from tests.support import examples

TYPES = {
    "i": ("integer", pa.int32(), st.integers(-4, 4)),
    "l": ("long", pa.int64(), st.sampled_from([-1, 0, 2**53, 2**53 + 1, 2**63 - 1])),
    "f": ("double", pa.float64(), st.sampled_from([-1.5, -0.0, 0.0, 2.0, math.nan, math.inf])),
    "g": ("float", pa.float32(), st.sampled_from([-1.5, 0.0, 16777216.0, math.nan])),
    "s": ("string", pa.string(), st.sampled_from(["", "a", "ab", "b", "é"])),
    "b": ("boolean", pa.bool_(), st.booleans()),
    "d": ("date", pa.date32(), st.sampled_from([date(1969, 12, 31), date(2026, 1, 1)])),
    "t": (
        "timestamp",
        pa.timestamp("us", "UTC"),
        st.sampled_from(
            [datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, 0, 0, 0, 1, tzinfo=UTC)]
        ),
    ),
    "n": ("timestamp_ntz", pa.timestamp("us"), st.sampled_from([datetime(2026, 1, 1)])),  # noqa: DTZ001
    "c": ("decimal", pa.decimal128(6, 2), st.sampled_from([Decimal("1.50"), Decimal("-2.00")])),
    "r": ("binary", pa.binary(), st.sampled_from([b"", b"a"])),
}
SCHEMA = StructType(
    tuple(
        StructField(name, DecimalType(6, 2) if kind == "decimal" else PrimitiveType(kind))
        for name, (kind, _, _) in TYPES.items()
    )
)
ARROW = pa.schema([(name, kind) for name, (_, kind, _) in TYPES.items()])
OPERATORS = [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge]

LIKELY = [*sorted(TYPES), *"ffffii"]  # engines differ in NaN and NULL
MANY = examples(120, long=300)

rows = st.lists(
    st.fixed_dictionaries({name: st.none() | value for name, (_, _, value) in TYPES.items()}),
    min_size=4,
    max_size=12,
).map(lambda found: pa.Table.from_pylist(found, schema=ARROW))


def truth(predicate, table):
    """Return the rows for which our predicate is true."""
    bound = bind(predicate, SCHEMA, ())
    batch = table.combine_chunks().to_batches()[0]
    found = evaluate(bound, lambda column: batch.column(column.path[0]), batch.num_rows)
    return [value is True for value in found.to_pylist()]


# --- pyarrow ------------------------------------------------------------------------------------


@st.composite
def arrow_leaf(draw):
    name = draw(st.sampled_from(LIKELY))
    _, kind, values = TYPES[name]
    column = pc.field(name)
    match draw(st.sampled_from(["compare", "flipped", "in", "null", "column", "nan", "if"])):
        case "compare":
            return draw(st.sampled_from(OPERATORS))(column, pa.scalar(draw(values), kind))
        case "flipped":
            return draw(st.sampled_from(OPERATORS))(
                pc.scalar(pa.scalar(draw(values), kind)), column
            )
        case "in":
            return column.isin(pa.array(draw(st.lists(st.none() | values, max_size=3)), kind))
        case "null":
            return draw(st.sampled_from([column.is_null(), column.is_valid()]))
        case "column":
            return draw(st.sampled_from(OPERATORS))(column, column)
        case "nan":
            return pc.is_nan(pc.field("f")) if draw(st.booleans()) else pc.field("b")
    in_set = column.isin(pa.array(draw(st.lists(values, max_size=3)), kind))
    return pc.if_else(column.is_valid(), in_set, pa.scalar(None, pa.bool_()))


arrow_filters = st.recursive(
    arrow_leaf() | arrow_leaf().map(operator.invert),
    lambda inner: (
        st.builds(operator.and_, inner, inner)
        | st.builds(operator.or_, inner, inner)
        | st.builds(operator.invert, inner)
        # A construct that is not translated, in every position.
        | st.builds(lambda e: e & (pc.abs(pc.field("i")) > 1), inner)
    ),
    max_leaves=6,
)


@MANY
@given(rows, arrow_filters)
def test_the_translation_keeps_every_row_of_an_arrow_filter(table, expression):
    found = translate_arrow_filter(expression, SCHEMA)
    if found.predicate is None:
        return
    numbered = table.append_column("#", pa.array(range(table.num_rows)))
    wanted = numbered.filter(expression)["#"].to_pylist()
    ours = truth(found.predicate, table)
    assert all(ours[at] for at in wanted), f"{expression} became {found.predicate}"


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (pc.field("i") > 3, "i > 3"),
        (pa.scalar(3) < pc.field("i"), "i > 3"),
        ((pc.field("i") > 3) & (pc.abs(pc.field("i")) > 1), "i > 3"),
        ((pc.field("i") > 3) | (pc.abs(pc.field("i")) > 1), None),
        (~((pc.field("i") > 3) & (pc.abs(pc.field("i")) > 1)), None),
        (~(pc.field("i") > 3), "NOT (i > 3)"),
        (~(pc.field("f") > 3.0), None),  # true for NaN, in Arrow
        (pc.field("s").isin(["a", "b"]), "s IN ('a', 'b') AND NOT (s IS NULL)"),
        (pc.field("s").is_null(), "s IS NULL"),
        (pc.field("b"), "b = TRUE"),
        (pc.starts_with(pc.field("s"), "a_"), "s LIKE 'a\\\\_%'"),
        (pc.field("d") == date(2026, 1, 1), "d = DATE '2026-01-01'"),
        (pc.field("l") > 2.0**60, None),  # Arrow compares doubles, and rounds
        (pc.field("i") > 1.5, "i > 1.5D"),
        (pc.field("unknown") > 3, None),
        (pc.field("I") > 3, None),  # names are exact in Arrow
        (pc.field("n") == pa.scalar(1, pa.timestamp("ns")), None),
    ],
)
def test_the_translation_of_an_arrow_filter(expression, expected):
    found = translate_arrow_filter(expression, SCHEMA).predicate
    assert (None if found is None else str(found)) == expected


def test_the_columns_of_an_arrow_filter():
    expression = (pc.field("i") > 3) & (pc.abs(pc.field("a", "b")) > 1)
    assert translate_arrow_filter(expression, SCHEMA).columns == {"i", "a"}


# --- Polars -------------------------------------------------------------------------------------


@st.composite
def polars_leaf(draw, pl):
    name = draw(st.sampled_from(LIKELY))
    values = TYPES[name][2]
    column = pl.col(name)
    match draw(st.sampled_from(["compare", "in", "null", "between", "nan", "not"])):
        case "compare":
            return draw(st.sampled_from(OPERATORS))(column, draw(values))
        case "in" if name not in "cr":
            return column.is_in(draw(st.lists(values, min_size=1, max_size=3)))
        case "between" if name != "b":
            closed = draw(st.sampled_from(["both", "left", "right", "none"]))
            return column.is_between(pl.lit(draw(values)), pl.lit(draw(values)), closed=closed)
        case "nan":
            return pl.col("f").is_nan()
        case "not":
            return ~pl.col("b")
    return draw(st.sampled_from([column.is_null(), column.is_not_null()]))


def polars_filters(pl):
    return st.recursive(
        polars_leaf(pl) | polars_leaf(pl).map(operator.invert),
        lambda inner: (
            st.builds(operator.and_, inner, inner)
            | st.builds(operator.or_, inner, inner)
            | st.builds(operator.invert, inner)
            | st.builds(lambda e: e & (pl.col("i") % 2 == 0), inner)
        ),
        max_leaves=6,
    )


@MANY
@given(rows, st.data())
def test_the_translation_keeps_every_row_of_a_polars_filter(table, data):
    pl = pytest.importorskip("polars", reason="pip install 'lazydelta[polars]' runs this")
    expression = data.draw(polars_filters(pl))
    seen = []

    def source(with_columns, predicate, n_rows, batch_size):
        seen.append(predicate)
        yield pl.from_arrow(table)

    frame = pl.from_arrow(table)
    # As Polars passes it: with resolved types.
    lazy = pl.io.plugins.register_io_source(source, schema=frame.schema)
    lazy.filter(expression).collect()
    found = None if seen[0] is None else translate_polars_filter(seen[0], SCHEMA)
    if found is None:
        return
    wanted = frame.with_row_index("#").filter(seen[0])["#"].to_list()
    ours = truth(found, table)
    assert all(ours[at] for at in wanted), f"{expression} became {found}"
