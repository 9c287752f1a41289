"""Arrow casts that preserve every value."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lazydelta.scan.read.arrow_casts import holds, is_view, plain_type, view_type

ALLOWED = [
    (pa.int8(), pa.int16(), [-128, 127, None]),
    (pa.int32(), pa.int64(), [-(2**31), 2**31 - 1]),
    (pa.int16(), pa.float32(), [-(2**15), 2**15 - 1]),
    (pa.int32(), pa.float64(), [-(2**31), 2**31 - 1]),
    (pa.int64(), pa.decimal128(19, 0), [-(2**63), 2**63 - 1]),
    (pa.int8(), pa.decimal128(5, 2), [-128, 127]),
    (pa.float32(), pa.float64(), [1.5, float("inf"), None]),
    (pa.decimal128(5, 2), pa.decimal128(8, 4), [1, 999]),
    (pa.decimal128(5, 2), pa.decimal256(40, 4), [1, 999]),
    (pa.string(), pa.large_string(), ["a", None]),
    (pa.binary(), pa.large_binary(), [b"a", None]),
    (pa.date32(), pa.timestamp("us"), [-719162, 2932896]),
    (pa.date32(), pa.date64(), [-719162, 2932896]),
    (pa.timestamp("us", "UTC"), pa.timestamp("us", "Europe/Berlin"), [0, 2**40]),
    (pa.timestamp("us"), pa.timestamp("ns"), [0, 2**40]),
    (pa.null(), pa.list_(pa.int8()), [None]),
    (pa.list_(pa.int8()), pa.large_list(pa.int64()), [[1, None], None]),
    (pa.map_(pa.string(), pa.int8()), pa.map_(pa.large_string(), pa.int64()), [[("a", 1)]]),
    (pa.struct([("a", pa.int8())]), pa.struct([("a", pa.int64())]), [{"a": 1}, None]),
]

REFUSED = [
    (pa.int64(), pa.int32()),
    (pa.int64(), pa.float64()),
    (pa.int32(), pa.float32()),
    (pa.int32(), pa.uint64()),
    (pa.int64(), pa.decimal128(18, 0)),
    (pa.int64(), pa.string()),
    (pa.float64(), pa.float32()),
    (pa.float32(), pa.int64()),
    (pa.decimal128(5, 2), pa.decimal128(8, 1)),
    (pa.decimal128(5, 2), pa.decimal128(5, 3)),
    (pa.decimal128(5, 2), pa.float64()),
    (pa.string(), pa.binary()),
    (pa.large_string(), pa.string()),
    (pa.date32(), pa.timestamp("us", "UTC")),
    (pa.timestamp("us", "UTC"), pa.timestamp("us")),
    (pa.timestamp("us"), pa.timestamp("ms")),
    (pa.bool_(), pa.int8()),
    (pa.list_(pa.int64()), pa.list_(pa.int32())),
    (pa.list_(pa.int64()), pa.int64()),
    (pa.struct([("a", pa.int8())]), pa.struct([("b", pa.int8())])),
    (pa.struct([("a", pa.int8())]), pa.struct([("a", pa.int8()), ("b", pa.int8())])),
    (pa.struct([("a", pa.int8())]), pa.struct([pa.field("a", pa.int8(), nullable=False)])),
    (pa.map_(pa.string(), pa.int64()), pa.map_(pa.string(), pa.int32())),
    (pa.map_(pa.string(), pa.int64()), pa.list_(pa.int64())),
]


@pytest.mark.parametrize(("narrow", "wide", "values"), ALLOWED, ids=str)
def test_a_wider_type_preserves_values(narrow, wide, values):
    assert holds(wide, narrow)
    made = (
        pa.array(values, pa.int32()).cast(narrow)
        if narrow == pa.date32()
        else pa.array(values, narrow)
    )
    if narrow != wide and not pa.types.is_null(narrow):
        assert not holds(narrow, wide) or pa.types.is_timestamp(narrow)
        assert made.cast(wide).cast(narrow).equals(made)


@pytest.mark.parametrize(("narrow", "wide"), REFUSED, ids=str)
def test_a_type_that_may_lose_values_is_refused(narrow, wide):
    assert not holds(wide, narrow)


def test_every_type_preserves_its_own_values():
    for kind in {kind for narrow, wide, *_ in ALLOWED for kind in (narrow, wide)}:
        assert holds(kind, kind)


def test_views_and_dictionaries_are_encodings():
    assert view_type(pa.string()) == view_type(pa.large_string()) == pa.string_view()
    assert view_type(pa.int8()) == pa.int8()
    assert plain_type(pa.dictionary(pa.int8(), pa.binary_view())) == pa.binary()
    assert is_view(pa.binary_view())
    assert not is_view(pa.binary())
