"""Statistics of new files: their values, and that they never exclude a row."""

from __future__ import annotations

import json
import uuid
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lazydelta as ld
from lazydelta.errors import SchemaError
from lazydelta.expressions import as_predicate
from lazydelta.replay.skipping import Pruner
from lazydelta.store import MemoryStore


def raw_stats(data, **how) -> str:
    store = MemoryStore()
    table = ld.Table(store, ld.Config())
    table.write(data, **how)
    with table.scan().file_batches(all_fields=True) as batches:
        (stats,) = [stats for batch in batches for stats in batch.column("stats").to_pylist()]
    return stats


def parsed(data, **how) -> dict:
    return json.loads(raw_stats(data, **how))


def bounds(values, kind=None):
    found = parsed(pa.table({"x": pa.array(values, kind)}))
    return found.get("minValues", {}).get("x"), found.get("maxValues", {}).get("x")


@pytest.mark.parametrize(
    ("values", "kind", "expected"),
    [
        pytest.param([3, 1, None], pa.int64(), (1, 3), id="long"),
        pytest.param([2**63 - 1, -(2**63)], pa.int64(), (-(2**63), 2**63 - 1), id="long-ends"),
        pytest.param([-128, 127], pa.int8(), (-128, 127), id="byte"),
        pytest.param([1.5, -2.5], pa.float64(), (-2.5, 1.5), id="double"),
        pytest.param([0.0, 1.0], pa.float64(), (-0.0, 1.0), id="zero-is-both-zeros"),
        pytest.param([1.0, float("nan")], pa.float64(), (1.0, None), id="nan-has-no-maximum"),
        pytest.param([float("nan")], pa.float64(), (None, None), id="only-nan"),
        pytest.param([float("inf"), 1.0], pa.float64(), (1.0, "Infinity"), id="infinity"),
        pytest.param([float("-inf"), 1.0], pa.float32(), ("-Infinity", 1.0), id="minus-infinity"),
        pytest.param(["b", "a"], pa.string(), ("a", "b"), id="string"),
        pytest.param(["é", "z"], pa.string(), ("z", "é"), id="string-by-bytes"),
        pytest.param(["", None], pa.string(), ("", ""), id="empty-string"),
        pytest.param(["x" * 40], pa.string(), ("x" * 32, "x" * 32 + "\x7f"), id="cut"),
        pytest.param(
            ["x" * 32 + "é"], pa.string(), ("x" * 32, "x" * 32 + "\U0010ffff"), id="cut-beyond-ascii"
        ),
        pytest.param(
            ["x" * 32 + "\x7f\x7f"], pa.string(), ("x" * 32, "x" * 32 + "\U0010ffff"), id="cut-at-del"
        ),
        pytest.param(
            ["x" * 32 + "\U0010ffff" * 2 + "ab"],
            pa.string(),
            ("x" * 32, "x" * 32 + "\U0010ffff" * 2 + "\x7f"),
            id="cut-behind-what-nothing-is-above",
        ),
        pytest.param(["\U0001f600" * 33], pa.string(), ("\U0001f600" * 32, "\U0001f600" * 32 + "\U0010ffff"), id="cut-by-characters"),
        pytest.param(["x" * 5000, "w"], pa.string(), ("w", "x" * 32 + "\x7f"), id="too-long-for-a-footer"),
        pytest.param([True, False], pa.bool_(), (False, True), id="boolean"),
        pytest.param([b"a"], pa.binary(), (None, None), id="binary-has-none"),
        pytest.param([date(2026, 1, 31), date(1, 1, 1)], pa.date32(), ("0001-01-01", "2026-01-31"), id="date"),
        pytest.param([10**7], pa.date32(), (None, None), id="date-beyond-9999"),
        pytest.param([None], pa.int64(), (None, None), id="only-null"),
    ],
)  # fmt: skip
def test_bounds(values, kind, expected):
    found = bounds(values, kind)
    assert found == expected
    assert [str(v) for v in found] == [str(v) for v in expected]  # the sign of zero too


def test_timestamp_bounds_are_rounded_outwards_to_milliseconds():
    moment = datetime(2026, 1, 1, 0, 0, 0, 123_456)  # noqa: DTZ001
    expected = ("2026-01-01T00:00:00.123", "2026-01-01T00:00:00.124")
    assert bounds([moment], pa.timestamp("us")) == expected
    zoned = bounds([moment.replace(tzinfo=UTC)], pa.timestamp("us", "UTC"))
    assert zoned == tuple(f"{bound}Z" for bound in expected)
    assert bounds([-1], pa.timestamp("us")) == (
        "1969-12-31T23:59:59.999",
        "1970-01-01T00:00:00.000",
    )
    assert bounds([2**63 - 1], pa.timestamp("us")) == (None, None)


@pytest.mark.parametrize("precision", [9, 18, 38])
def test_decimals_keep_every_digit(precision):
    kind = pa.decimal128(precision, 2)
    bound = f'"{{}}":{{}}{"9" * (precision - 2)}.99'
    digits = f"{'9' * (precision - 2)}.99"
    values = [Decimal(digits), Decimal(f"-{digits}"), Decimal("0.05")]
    found = raw_stats(pa.table({"x": pa.array(values, kind)}))
    assert f'"minValues":{{{bound.format("x", "-")}}}' in found
    assert f'"maxValues":{{{bound.format("x", "")}}}' in found
    assert '{"x":0.05}' in raw_stats(pa.table({"x": pa.array([Decimal("0.05")], kind)}))


def test_nested_columns_have_statistics_at_their_place():
    rows = pa.table(
        {
            "s": pa.array(
                [{"a": 1, "t": {"b": "x"}, "l": [1]}, None, {"a": None, "t": None, "l": None}],
                pa.struct(
                    {"a": pa.int64(), "t": pa.struct({"b": pa.string()}), "l": pa.list_(pa.int64())}
                ),
            ),
            "m": pa.array([[("k", 1)], None, []], pa.map_(pa.string(), pa.int64())),
        }
    )
    assert parsed(rows) == {
        "numRecords": 3,
        "minValues": {"s": {"a": 1, "t": {"b": "x"}}},
        "maxValues": {"s": {"a": 1, "t": {"b": "x"}}},
        "nullCount": {"s": {"a": 2, "t": {"b": 2}, "l": 2}, "m": 1},
    }


def test_names_with_dots_are_not_mistaken_for_one_another():
    rows = pa.table({"a.b": pa.array([7]), "a": pa.array([{"b": 1}]), "c.d": pa.array([3])})
    found = parsed(rows)
    assert found["minValues"] == {"c.d": 3}  # the two that are ambiguous in a footer are left out


def test_statistics_combine_row_groups():
    rows = pa.table({"x": list(range(100)), "t": [f"{n:03}" for n in range(100)]})
    found = parsed(rows, options=ld.WriteOptions(row_group_rows=7))
    assert found["minValues"] == {"x": 0, "t": "000"}
    assert found["maxValues"] == {"x": 99, "t": "099"}
    assert found["nullCount"] == {"x": 0, "t": 0}


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({}, [f"c{n}" for n in range(32)]),
        ({"delta.dataSkippingNumIndexedCols": "2"}, ["c0", "c1"]),
        ({"delta.dataSkippingNumIndexedCols": "0"}, []),
        ({"delta.dataSkippingNumIndexedCols": "-1"}, [f"c{n}" for n in range(40)]),
        ({"delta.dataSkippingStatsColumns": "c39, `c5`"}, ["c5", "c39"]),
    ],
    ids=["the-first-32", "two", "none", "all", "named"],
)
def test_properties_select_the_indexed_columns(properties, expected):
    found = parsed({f"c{n}": [n] for n in range(40)}, properties=properties)
    assert list(found.get("minValues", {})) == expected
    assert found["numRecords"] == 1


def test_leaves_of_structs_count_as_columns():
    rows = pa.table({"s": pa.array([{"a": 1, "b": 2}]), "x": [3]})
    found = parsed(rows, properties={"delta.dataSkippingNumIndexedCols": "2"})
    assert found["minValues"] == {"s": {"a": 1, "b": 2}}
    named = parsed(rows, properties={"delta.dataSkippingStatsColumns": "s.b"})
    assert named["minValues"] == {"s": {"b": 2}}


def test_partition_columns_have_none_and_do_not_count():
    rows = {"p": [1], "x": [2], "y": [3]}
    found = parsed(rows, partition_by=["p"], properties={"delta.dataSkippingNumIndexedCols": "1"})
    assert found["minValues"] == {"x": 2}


def test_an_invalid_property_is_refused():
    store = MemoryStore()
    with pytest.raises((SchemaError, ld.errors.ConfigError), match="dataSkippingNumIndexedCols"):
        ld.Table(store, ld.Config()).write(
            {"x": [1]}, properties={"delta.dataSkippingNumIndexedCols": "many"}
        )


# --- bounds never exclude a row ------------------------------------------------------------------

STRINGS = st.text(st.characters(codec="utf-8"), max_size=40) | st.sampled_from(
    ["x" * 33, "x" * 32 + "é", "\U0010ffff" * 33, "x" * 32 + "\x7f", "Z" * 70]
)
COLUMNS = {
    "i": (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    "l": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "d": (pa.float64(), st.floats(allow_nan=True, allow_infinity=True)),
    "f": (pa.float32(), st.floats(width=32, allow_nan=True, allow_infinity=True)),
    "t": (pa.string(), STRINGS),
    "day": (pa.date32(), st.dates()),
    "at": (pa.timestamp("us"), st.datetimes()),
    "utc": (pa.timestamp("us", "UTC"), st.datetimes(timezones=st.just(UTC))),
    "n": (pa.decimal128(20, 3), st.integers(-(10**20) + 1, 10**20 - 1).map(lambda n: Decimal(n).scaleb(-3))),
}  # fmt: skip


@st.composite
def rows(draw):
    count = draw(st.integers(1, 12))
    return pa.table(
        {
            name: pa.array(draw(st.lists(st.none() | values, min_size=count, max_size=count)), kind)
            for name, (kind, values) in COLUMNS.items()
        }
    )


def ask_for_every_value(data):
    """Query each value of each column with each operator: the file must be kept."""
    table = ld.Table(MemoryStore(), ld.Config(write_checksums=False, write_checkpoints=False))
    table.write(data, options=ld.WriteOptions(row_group_rows=5))
    snapshot = table.snapshot()
    with snapshot.scan().file_batches(all_fields=True) as batches:
        (stats,) = [stats for batch in batches for stats in batch.column("stats").to_pylist()]
    adds = pa.record_batch({"stats": [stats]})
    for name in data.column_names:
        for value in set(data.column(name).to_pylist()):
            column = ld.col(name)
            predicates = [column.is_null()]
            if value is not None:
                predicates = [column == value, column <= value, column >= value]
            for where in predicates:
                pruner = Pruner.build(
                    as_predicate(where),
                    schema=snapshot.schema,
                    partition_columns=(),
                    mapping_mode="none",
                )
                kept = pruner.mask(adds)
                assert kept is None or kept[0].as_py(), (name, value, stats)


@settings(max_examples=20, deadline=None)
@given(rows())
def test_no_row_is_outside_the_bounds_as_our_skipping_sees_them(data):
    ask_for_every_value(data)


@pytest.mark.long
@settings(max_examples=2000, deadline=None)
@given(rows())
def test_no_row_is_outside_the_bounds_of_many_tables(data):
    ask_for_every_value(data)


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    return tmp_path_factory.mktemp("statistics")


@settings(max_examples=8, deadline=None)
@given(rows())
def test_no_row_is_lost_to_deltalake(shared, data):
    deltalake = pytest.importorskip("deltalake")
    url = shared / uuid.uuid4().hex
    data = data.drop_columns(["at"])  # deltalake cannot bind a filter on times without a zone
    ld.write(url, data)
    dataset = deltalake.DeltaTable(url).to_pyarrow_dataset()
    for name in ("i", "l", "t", "day", "utc", "n"):
        for value in set(data.column(name).drop_null().to_pylist()):
            scalar = pa.scalar(value, data.schema.field(name).type)
            assert dataset.count_rows(pc.field(name) == scalar) >= 1, (name, value)
