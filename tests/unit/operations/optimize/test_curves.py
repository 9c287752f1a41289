"""Curves, range ids and the sort by them, without a table."""

from __future__ import annotations

import datetime as dt
import decimal
import itertools
import math
import pickle
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lazydelta.operations.optimize import tuning
from lazydelta.operations.optimize.curve_sort import CurveSort
from lazydelta.operations.optimize.curves import bits_of, curve_keys
from lazydelta.operations.optimize.range_ids import CurveRanges, common_prefix, order_keys


def corner(columns, bits):
    """Return all points of a cube of so many bits, as range ids of the full width."""
    shift = bits_of(columns) - bits
    grids = np.meshgrid(*[np.arange(1 << bits)] * columns, indexing="ij")
    return [grid.ravel() << shift for grid in grids], shift


@pytest.mark.parametrize(("columns", "bits"), [(2, 5), (3, 4), (4, 3)])
def test_neighbours_on_the_hilbert_curve_are_neighbours_in_space(columns, bits):
    ids, shift = corner(columns, bits)
    keys = curve_keys(ids, "hilbert")
    assert len(np.unique(keys)) == len(keys)
    order = np.argsort(keys)
    steps = sum(np.abs(np.diff(axis[order] >> shift)) for axis in ids)
    assert set(steps.tolist()) == {1}


@pytest.mark.parametrize("columns", [1, 2, 3, 4])
def test_the_z_order_interleaves_bits(columns):
    ids, _ = corner(columns, 2)
    keys = curve_keys(ids, "zorder")
    assert len(np.unique(keys)) == len(keys)
    top = [axis >> (bits_of(columns) - 1) for axis in ids]
    octant = sum(bit << (columns - 1 - at) for at, bit in enumerate(top))
    assert (np.diff(octant[np.argsort(keys)]) >= 0).all()


finite = st.floats(allow_nan=False)
VALUES = {
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.int8(): st.integers(-128, 127),
    pa.float64(): st.one_of(finite, st.just(math.nan)),
    pa.bool_(): st.booleans(),
    pa.date32(): st.dates(),
    pa.timestamp("us", "UTC"): st.datetimes(timezones=st.just(dt.UTC)),
    pa.decimal128(10, 2): st.integers(-(10**9), 10**9).map(lambda n: decimal.Decimal(n) / 100),
    pa.string(): st.text(max_size=7),
}


def _order(value):
    if isinstance(value, float):
        return (math.isnan(value), 0.0 if math.isnan(value) else value)
    return value.encode() if isinstance(value, str) else value


@pytest.mark.parametrize("kind", VALUES, ids=str)
@given(data=st.data())
def test_order_keys_have_the_order_of_the_values(kind, data):
    values = data.draw(st.lists(VALUES[kind], min_size=1, max_size=20))
    values = [v for v in values if not isinstance(v, str) or len(v.encode()) <= 7]
    array = pa.array([*values, None], kind)
    keys = order_keys(array, common_prefix(array))[:-1]
    ordered = sorted(range(len(values)), key=lambda at: _order(values[at]))
    assert all(keys[a] <= keys[b] for a, b in itertools.pairwise(ordered))


def test_strings_outside_the_sampled_prefix_are_at_the_ends():
    keys = order_keys(pa.array(["user-5", "a", "z", "user", None, "user-"]), b"user-")
    assert keys[1] == keys[3] == keys[5] == 0 < keys[0] < keys[2] == np.iinfo(np.uint64).max


def sort_of(rows, bucket_bytes, curve="hilbert"):
    batches = rows.to_batches(max_chunksize=500)
    ranges = CurveRanges.of(batches, [("x",), ("y",)], curve)
    sort = CurveSort.of(ranges, batches, num_bytes=rows.nbytes, bucket_bytes=bucket_bytes)
    return sort, pa.Table.from_batches(sort.sorted(batches), rows.schema)


def points(count, skew=False):
    rng = np.random.default_rng(3)
    x = rng.integers(0, 10**6, count)
    strings = [f"id-{n:05d}" for n in rng.integers(0, 10**5, count)]
    if skew:  # most rows differ only far behind
        x[: count * 9 // 10] = 7
        strings[: count * 9 // 10] = [
            f"same-prefix-of-{string}" for string in strings[: count * 9 // 10]
        ]
    return pa.table({"x": x, "y": strings, "n": np.arange(count)})


@pytest.mark.parametrize("bucket_bytes", [1 << 30, 20_000])
@pytest.mark.parametrize("curve", ["hilbert", "zorder"])
def test_rows_are_sorted_by_the_curve_with_and_without_disk(bucket_bytes, curve):
    rows = points(5000)
    sort, found = sort_of(rows, bucket_bytes, curve)
    (batch,) = found.combine_chunks().to_batches()
    assert (np.diff(sort.ranges.keys(batch).astype(np.int64)) >= 0).all()
    assert found.sort_by("n") == rows


def test_a_skewed_bucket_is_split_again(monkeypatch):
    rows = points(5000, skew=True)
    splits = []
    again = CurveSort._split_again
    monkeypatch.setattr(
        CurveSort, "_split_again", lambda self, *a: splits.append(a) or again(self, *a)
    )
    _, found = sort_of(rows, 10_000)
    assert splits
    assert found.sort_by("n") == rows
    strings = found.filter(pa.compute.equal(found["x"], 7))["y"].to_pylist()
    numbers = np.array([int(string[-5:]) for string in strings])
    assert np.abs(np.diff(numbers)).mean() < 2000  # 33,000 without a sort


def shares_opened(rows, values, files=40):
    """Return the share of files in order whose bounds have a value, for each column."""
    found = {}
    for name, value in values.items():
        column = rows[name].to_numpy()
        parts = np.array_split(column, files)
        found[name] = np.mean([np.nanmin(p) <= value <= np.nanmax(p) for p in parts])
    return found


def skewed(heavy, share=0.9, count=40_000):
    rng = np.random.default_rng(4)
    x = rng.integers(0, 10**9, count).astype(np.float64)
    return pa.table({
        "x": pa.array(np.where(rng.random(count) < share, heavy, x), from_pandas=True),
        "y": rng.integers(0, 10**6, count),
    })  # fmt: skip


def both_columns(rows):
    sort = CurveSort.of(
        CurveRanges.of(rows.to_batches(), [("x",), ("y",)], "hilbert"), rows.to_batches(),
        num_bytes=rows.nbytes, bucket_bytes=1 << 30,
    )  # fmt: skip
    return pa.Table.from_batches(sort.sorted(rows.to_batches()), rows.schema)


@pytest.mark.parametrize("heavy", [7.0, 5e8, 1e9])
def test_a_frequent_value_is_in_files_of_its_own(heavy):
    found = both_columns(skewed(heavy))
    shares = shares_opened(found, {"x": heavy, "y": 500_000})
    assert shares["x"] <= 0.93  # nine of ten rows have the value
    assert shares["y"] <= 0.2
    assert shares_opened(found, {"x": 2.5e8})["x"] <= 0.2
    assert shares_opened(found, {"x": 7.5e8})["x"] <= 0.2


def test_nulls_are_in_files_of_their_own():
    found = both_columns(skewed(np.nan))
    has_null = [part.null_count > 0 for part in np_parts(found["x"])]
    assert np.mean(has_null) <= 0.93
    assert shares_opened(found, {"y": 500_000})["y"] <= 0.2


def np_parts(column, files=40):
    step = -(-len(column) // files)
    return [column.slice(start, step) for start in range(0, len(column), step)]


@given(data=st.data())
def test_range_ids_have_the_order_of_the_values(data):
    values = data.draw(st.lists(st.integers(0, 5), min_size=1, max_size=60))
    extra = data.draw(st.lists(st.integers(-1, 6), max_size=10))
    nulls = data.draw(st.integers(0, 30))
    sample = pa.record_batch({"x": pa.array([*values, *[None] * nulls], pa.int64())})
    ranges = CurveRanges.of([sample], [("x",)], "hilbert")
    array = pa.array(sorted([*values, *extra]), pa.int64())
    ids = ranges.keys(pa.record_batch({"x": array})).astype(np.int64)
    assert (np.diff(ids) >= 0).all()
    assert ids.min() >= 0
    assert ids.max() < 1 << bits_of(1)
    null = ranges.keys(pa.record_batch({"x": pa.nulls(1, pa.int64())}))
    assert null[0] <= ids.min()


def test_equal_rows_are_not_split_forever(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    rows = pa.table({"x": [1] * 5000, "y": ["a"] * 5000, "n": np.arange(5000)})
    _, found = sort_of(rows, 1000)
    assert found == rows
    assert not list(Path(tmp_path).iterdir())


def test_temporary_files_are_deleted_if_the_consumer_stops(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    rows = points(5000)
    batches = rows.to_batches(max_chunksize=500)
    ranges = CurveRanges.of(batches, [("x",), ("y",)], "hilbert")
    sort = CurveSort.of(ranges, batches, num_bytes=rows.nbytes, bucket_bytes=10_000)
    stream = sort.sorted(batches)
    next(stream)
    assert list(Path(tmp_path).iterdir())
    stream.close()
    assert not list(Path(tmp_path).iterdir())


def test_buckets_are_limited():
    rows = points(2000)
    sort, _ = sort_of(rows, 1 << 30)
    many = CurveSort.of(sort.ranges, rows.to_batches(), num_bytes=1 << 40, bucket_bytes=1 << 20)
    assert len(many.buckets) < 2 * tuning.MAX_BUCKETS


@pytest.mark.parametrize("skew", [False, True])
def test_buckets_that_other_processes_sort_have_the_order_of_one(skew):
    rows = points(4000, skew)
    ranges, expected = sort_of(rows, rows.nbytes // 5)
    finer, _ = sort_of(rows, rows.nbytes // 40)
    ranges, finer = pickle.loads(pickle.dumps((ranges, finer)))
    sent = [part for half in (rows.slice(0, 2000), rows.slice(2000))
        for parts in ranges.scattered(half.to_batches(max_chunksize=300), 20_000)
        for part in parts]  # fmt: skip
    assert len({bucket for bucket, _ in sent}) > (1 if skew else 2)
    found = []
    for bucket in range(len(ranges.buckets) + 1):
        batches = [batch for number, batch in sent if number == bucket]
        found += ranges.part(finer, bucket).sorted(batches)
    found = pa.Table.from_batches(found)
    assert sorted(map(repr, found.to_pylist())) == sorted(map(repr, rows.to_pylist()))
    keys = [
        ranges.ranges.keys(table.combine_chunks().to_batches()[0]) for table in (found, expected)
    ]
    if not skew:  # rows of one key are split again by other ranges
        assert (keys[0] == keys[1]).all()
