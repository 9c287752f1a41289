"""Key matching of MERGE: exact pairs by Spark's equality, and files ruled out by bounds."""

from __future__ import annotations

import struct
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lazydelta.operations.dml.merge import hash_table, key_hash, key_index, key_ranges, tuning
from lazydelta.operations.dml.merge.key_index import KeyIndex

NAN = float("nan")
OTHER_NAN = struct.unpack("<d", struct.pack("<Q", 0xFFF8000000000001))[0]


def pairs(source, target, null_safe=None):
    """Match columns of values, or arrays; returns a list of (target row, source row)."""
    index = KeyIndex.build(source, null_safe or [False] * len(source))
    rows, source_rows = index.match(target)
    assert rows.dtype == source_rows.dtype == np.int64
    return list(zip(rows.tolist(), source_rows.tolist(), strict=True))


def expected_pairs(source, target, null_safe):
    """The oracle: a dictionary of plain rows."""
    found: dict = {}
    for row, key in enumerate(zip(*map(plain, source), strict=True)):
        found.setdefault(key, []).append(row)
    return [
        (row, source_row)
        for row, key in enumerate(zip(*map(plain, target), strict=True))
        if all(value is not None or safe for value, safe in zip(key, null_safe, strict=True))
        for source_row in found.get(key, ())
    ]


def plain(column):
    return ["NaN" if value != value else value for value in column.to_pylist()]  # noqa: PLR0124


def seconds(number):
    return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=number)


VALUES = {
    pa.int8(): st.integers(-3, 3),
    pa.int16(): st.integers(-3, 3),
    pa.int32(): st.sampled_from([-(2**31), -1, 0, 1, 2**31 - 1]),
    pa.int64(): st.sampled_from([-(2**63), -(2**32), -1, 0, 1, 2**32, 2**63 - 1]),
    pa.uint64(): st.sampled_from([0, 1, 2**63, 2**64 - 1]),
    pa.bool_(): st.booleans(),
    pa.float32(): st.sampled_from([NAN, -0.0, 0.0, 1.5, float("inf"), float("-inf")]),
    pa.float64(): st.sampled_from([NAN, OTHER_NAN, -0.0, 0.0, 5e-324, 1.5, float("-inf")]),
    pa.date32(): st.sampled_from([date(1, 1, 1), date(1970, 1, 1), date(9999, 12, 31)]),
    pa.timestamp("us", "UTC"): st.integers(-3, 3).map(seconds),
    pa.decimal128(9, 2): st.integers(-3, 3).map(lambda n: Decimal(n) / 100),
    pa.decimal128(38, 2): st.sampled_from([-(2**64), -1, 0, 1, 2**64, 2**64 + 1]).map(Decimal),
    pa.decimal256(50, 0): st.sampled_from([-(2**150), -1, 0, 2**64, 2**150]).map(Decimal),
    pa.string(): st.text("a\0é", max_size=20),
    pa.large_string(): st.text("ab", max_size=3),
    pa.string_view(): st.text("ab", max_size=20),
    pa.binary(): st.binary(max_size=3),
    pa.large_binary(): st.sampled_from([b"", b"\0", b"\0\0", b"\xff" * 8, b"\xff" * 9]),
    pa.binary(3): st.sampled_from([b"abc", b"ab\0", b"\xff\xff\xff"]),
    pa.dictionary(pa.int8(), pa.string()): st.text("ab", max_size=3),
    pa.dictionary(pa.uint16(), pa.int64()): st.integers(-2, 2),
}


@st.composite
def columns_of(draw, kind, count, nulls=True):
    values = VALUES[kind] if not nulls else st.none() | VALUES[kind]
    before, after = draw(st.integers(0, 9)), draw(st.integers(0, 2))
    whole = draw(st.lists(values, min_size=before + count + after, max_size=before + count + after))
    if pa.types.is_dictionary(kind):
        array = pa.array(whole, kind.value_type).dictionary_encode().cast(kind)
    else:
        array = pa.array(whole, kind)
    return array.slice(before, count)


@st.composite
def joins(draw):
    kinds = draw(st.lists(st.sampled_from(list(VALUES)), min_size=1, max_size=3))
    sides = [
        [draw(columns_of(kind, count)) for kind in kinds]
        for count in draw(st.tuples(st.integers(0, 30), st.integers(0, 30)))
    ]
    return *sides, [draw(st.booleans()) for _ in kinds]


@given(joins(), st.sampled_from([1, 7, 1 << 15]), st.booleans())
@settings(deadline=None)
def test_pairs_are_those_of_a_join_of_plain_rows(case, block, collide):
    source, target, null_safe = case
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tuning, "HASHED_ROWS", block)
        patch.setattr(tuning, "INDEXED_ROWS", block)
        is_exact = len(source) == 1 and not null_safe[0]
        if collide and not (is_exact and key_hash.key_column(source[0]).hash_is_exact):
            patch.setattr(key_index, "hash_rows", lambda _, a, b: np.full(b - a, 7, np.uint64))
        assert pairs(source, target, null_safe) == expected_pairs(source, target, null_safe)


def test_null_matches_nothing_by_equals_and_null_by_null_safe_equals():
    column = [pa.array([None, 1, 0])]
    assert pairs(column, column) == [(1, 1), (2, 2)]
    assert pairs(column, column, [True]) == [(0, 0), (1, 1), (2, 2)]


def test_a_null_is_not_the_value_that_has_its_hash():
    value = 3
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(key_hash, "_NULL_HASH", key_hash.mix(np.array([value], np.uint64))[0])
        assert pairs([pa.array([None, value])], [pa.array([value, None])], [True]) == [
            (0, 1),
            (1, 0),
        ]


def test_nan_equals_every_nan_and_the_zeros_are_equal():
    source = [pa.array([NAN, 0.0, 1.0])]
    assert pairs(source, [pa.array([OTHER_NAN, -0.0, -1.0])]) == [(0, 0), (1, 1)]


@pytest.mark.parametrize("length", [0, 1, 7, 8, 9, 15, 16, 17, 100])
def test_strings_that_differ_in_one_byte_or_in_trailing_nuls_are_different(length):
    base = b"x" * length
    values = [base, base + b"\0", base + b"\0\0", base + b"y", base + b"\0" * 8, b"z" + base]
    column = [pa.array(values, pa.binary())]
    assert pairs(column, column) == [(row, row) for row in range(len(values))]


def test_one_long_string_among_short_ones():
    values = ["a", "b" * 10_000, "c", "b" * 9_999 + "c"]
    assert pairs([pa.array(values)], [pa.array(values[::-1])]) == [(0, 3), (1, 2), (2, 1), (3, 0)]


def test_duplicates_in_the_source_give_several_pairs_in_order():
    source = [pa.array([5, 4, 5, 5, 4])]
    assert pairs(source, [pa.array([4, 6, 5])]) == [(0, 1), (0, 4), (2, 0), (2, 2), (2, 3)]


def test_a_column_may_come_in_chunks_or_encoded_by_a_dictionary():
    values = ["a", None, "b", "a", ""]
    array = pa.array(values)
    chunked = pa.chunked_array([array.slice(0, 2), array.slice(2)])
    encoded = array.dictionary_encode()
    null_inside = pa.DictionaryArray.from_arrays(
        pa.array([0, 1, 2, 0, 3]), pa.array(["a", None, "b", ""])
    )
    expected = [(0, 0), (0, 3), (2, 2), (3, 0), (3, 3), (4, 4)]
    for source in (array, chunked, encoded, null_inside):
        for target in (array, encoded, null_inside):
            assert pairs([source], [target]) == expected
            assert pairs([source], [target], [True]) == sorted([*expected, (1, 1)])


def test_many_rows_match_as_by_a_sort():
    random = np.random.default_rng(1)
    source, target = random.integers(0, 200_000, 100_000), random.integers(0, 400_000, 150_000)
    for convert in (pa.array, lambda numbers: pa.array(map(str, numbers.tolist()))):
        index = KeyIndex.build([convert(source)], [False])
        rows, source_rows = index.match([convert(target)])
        assert (target[rows] == source[source_rows]).all()
        assert len(rows) == sum(np.bincount(source, minlength=400_000)[target])
        assert (np.diff(rows) >= 0).all()


def test_hashes_in_one_slot_of_the_directory_are_found():
    hashes = np.arange(1000, dtype=np.uint64) * np.uint64(3)
    table = hash_table.HashTable.build(hashes, None)
    wanted = np.arange(3100, dtype=np.uint64)
    positions, groups = table.find(wanted, table.candidates(wanted))
    assert positions.tolist() == list(range(0, 3000, 3))
    assert table.rows[groups].tolist() == list(range(1000))


@pytest.mark.parametrize(
    "numbers",
    [
        pytest.param(np.arange(100_000), id="consecutive"),
        pytest.param(np.arange(100_000) << 40, id="multiples"),
        pytest.param(np.arange(100_000).astype(np.float64).view(np.int64), id="doubles"),
        pytest.param(-np.arange(100_000) * 10**6, id="negative-timestamps"),
    ],
)
def test_regular_integers_have_spread_hashes(numbers):
    hashes = key_hash.mix(numbers.view(np.uint64))
    assert len(np.unique(hashes)) == len(numbers)
    fullest = np.bincount((hashes >> np.uint64(48)).view(np.int64)).max()
    assert fullest < 20  # 1.5 expected


@pytest.mark.parametrize(
    "column",
    [
        pytest.param(pa.array([[1]]), id="array"),
        pytest.param(pa.array([{"a": 1}]), id="struct"),
        pytest.param(pa.nulls(1), id="void"),
    ],
)
def test_nested_keys_are_refused(column):
    with pytest.raises(TypeError, match=r"keys of type .* cannot be matched"):
        KeyIndex.build([column], [False])


# Files


ORDERED = [kind for kind in VALUES if not pa.types.is_dictionary(kind)]


@st.composite
def tables_of_files(draw):
    kinds = draw(st.lists(st.sampled_from(ORDERED), min_size=1, max_size=2))
    source = [draw(columns_of(kind, 5)) for kind in kinds]
    files = [[draw(columns_of(kind, 2)) for kind in kinds] for _ in range(draw(st.integers(1, 6)))]
    return source, files, [draw(st.booleans()) for _ in kinds]


def bounds(files, column):
    """Statistics of a column as writers make them: no NaN, and unknown for some files."""
    kind = files[0][column].type
    lower, upper = [], []
    for number, file in enumerate(files):
        values = [v for v in file[column].to_pylist() if v is not None and v == v]  # noqa: PLR0124
        ordered = sorted(values, key=lambda v: v.encode() if isinstance(v, str) else v)
        is_known = bool(values) and number % 5 < 4
        lower.append(ordered[0] if is_known else None)
        upper.append(ordered[-1] if is_known else None)
    nulls = [file[column].null_count > 0 for file in files]
    return pa.array(lower, kind), pa.array(upper, kind), pa.array(nulls)


@given(tables_of_files(), st.integers(1, 4))
@settings(deadline=None)
def test_a_file_with_a_match_is_never_ruled_out(case, words):
    source, files, null_safe = case
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tuning, "SORT_KEY_WORDS", words)
        index = KeyIndex.build(source, null_safe)
        kept = index.may_match(*zip(*(bounds(files, c) for c in range(len(source))), strict=True))
    matches = np.array([len(index.match(file)[0]) > 0 for file in files])
    assert kept is None or (kept | ~matches).all()


def ruled(source, lower, upper, nulls=None, null_safe=False):
    kind = pa.array([*source, *(lower or upper or [])]).type
    index = KeyIndex.build([pa.array(source, kind)], [null_safe])
    arrays = [None if side is None else pa.array(side, kind) for side in (lower, upper)]
    nulls = None if nulls is None else pa.array(nulls, pa.bool_())
    kept = index.may_match([arrays[0]], [arrays[1]], [nulls])
    return None if kept is None else kept.tolist()


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(lambda n: n, id="bigint"),
        pytest.param(lambda n: float(n) - 20, id="double"),
        pytest.param(lambda n: Decimal(n - 20) * 10**25, id="large-decimal"),
        pytest.param(lambda n: Decimal(n) / 100, id="decimal"),
        pytest.param(lambda n: date(2026, 1, n + 1), id="date"),
        pytest.param(seconds, id="timestamp"),
        pytest.param(lambda n: f"customer-of-the-shop-{n:030d}", id="string"),
        pytest.param(lambda n: b"\xff" * 9 + bytes([n + 1]), id="binary"),
    ],
)
def test_files_between_keys_are_ruled_out(value):
    source = [value(number) for number in (10, 20)]
    lower = [value(number) for number in (0, 5, 10, 11, 15, 20, 21)]
    upper = [value(number) for number in (9, 10, 10, 19, 25, 20, 25)]
    assert ruled(source, lower, upper) == [False, True, True, False, True, True, False]


def test_unknown_bounds_keep_a_file():
    assert ruled([10], [None, 11, None], [None, None, 9]) == [True, False, False]
    assert ruled([10], None, [9, 10, None]) == [False, True, True]
    assert ruled([10], [11, 10], None) == [False, True]
    assert ruled([10], None, None) is None


def test_a_source_with_nan_keeps_every_file_because_statistics_may_leave_it_out():
    assert ruled([1.0, NAN], [5.0], [6.0]) is None
    assert ruled([1.0], [NAN, 2.0, 2.0], [NAN, NAN, 3.0]) == [True, False, False]


def test_the_zeros_are_one_value_in_bounds():
    assert ruled([0.0], [-1.0, -0.0], [-0.0, 1.0]) == [True, True]
    assert ruled([-0.0], [0.0], [1.0]) == [True]


def test_null_keys_rule_files_in_only_by_null_safe_equals():
    source, lower, upper = [1, None], [5, 5, 5], [6, 6, 6]
    assert ruled(source, lower, upper, [True, False, None]) == [False, False, False]
    assert ruled(source, lower, upper, [True, False, None], null_safe=True) == [True, False, True]
    assert ruled(source, lower, upper, None, null_safe=True) is None


def test_every_column_of_a_key_rules_files_out():
    index = KeyIndex.build([pa.array([1, 9]), pa.array(["a", "b"])], [False, False])
    numbers, letters = pa.array([0, 5, 9]), pa.array(["a", "a", "c"])
    kept = index.may_match([numbers, letters], [numbers, letters], [None, None])
    assert kept.tolist() == [False, False, False]
    kept = index.may_match([pa.array([1]), None], [pa.array([1]), None], [None, None])
    assert kept.tolist() == [True]


def test_a_source_without_keys_rules_every_file_out():
    assert KeyIndex.build([pa.array([], pa.int64())], [False]).match([pa.array([1])])[0].size == 0
    index = KeyIndex.build([pa.nulls(2, pa.string())], [False])
    assert index.may_match([pa.array(["a"])], [pa.array(["b"])], [None]).tolist() == [False]


def test_dictionaries_have_the_range_of_the_values_in_use():
    column = pa.array(["a", "m", "z"]).dictionary_encode().slice(1, 1)
    index = KeyIndex.build([column], [False])
    lower = pa.array(["a", "m", "n"])
    upper = pa.array(["b", "m", "z"])
    assert index.may_match([lower], [upper], [None]).tolist() == [False, True, False]
    assert len(key_ranges.KeyRange.build(column, None).sort_keys) == 1
