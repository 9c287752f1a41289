"""Shredded variants are unshredded byte for byte as in the specification."""

from __future__ import annotations

import struct
import uuid
from datetime import UTC, date, datetime, time
from decimal import Decimal
from itertools import pairwise

import pyarrow as pa
import pytest

from lazydelta.formats import BadVariantError, check_shredding, unshred

NAMES = ["b", "a", "é", "c"]


def metadata(names=NAMES):
    raw = [name.encode() for name in names]
    offsets = [sum(map(len, raw[:at])) for at in range(len(raw) + 1)]
    return bytes([1, len(raw), *offsets]) + b"".join(raw)


def decoded(value, names=NAMES):
    """Decode a variant; written from the specification, apart from the encoder under test."""
    kind, header = value[0] & 3, value[0] >> 2
    if kind == 1:
        assert len(value) == 1 + header
        return value[1:].decode()
    if kind == 0:
        return primitive(header, value[1:])
    size = (header & 3) + 1
    if kind == 2:
        id_size = (header >> 2 & 3) + 1
        count_size = 4 if header >> 4 & 1 else 1
    else:
        id_size, count_size = 0, 4 if header >> 2 & 1 else 1
    count = int.from_bytes(value[1 : 1 + count_size], "little")
    at = 1 + count_size
    ids = [
        int.from_bytes(value[at + i * id_size : at + (i + 1) * id_size], "little")
        for i in range(count)
    ]
    at += count * id_size
    offsets = [
        int.from_bytes(value[at + i * size : at + (i + 1) * size], "little")
        for i in range(count + 1)
    ]
    at += (count + 1) * size
    assert len(value) == at + offsets[-1]
    parts = [decoded(value[at + a : at + b], names) for a, b in pairwise(offsets)]
    if kind == 3:
        return parts
    keys = [names[i] for i in ids]
    assert keys == sorted(keys, key=str.encode)
    return dict(zip(keys, parts, strict=True))


def primitive(kind, raw):
    layouts = {3: "<b", 4: "<h", 5: "<i", 6: "<q", 7: "<d", 11: "<i", 12: "<q", 13: "<q", 14: "<f",
               17: "<q", 18: "<q", 19: "<q"}  # fmt: skip
    if kind in (0, 1, 2):
        assert raw == b""
        return {0: None, 1: True, 2: False}[kind]
    if kind in layouts:
        return kind, struct.unpack(layouts[kind], raw)[0]
    if kind in (8, 9, 10):
        assert len(raw) == 1 + {8: 4, 9: 8, 10: 16}[kind]
        whole = int.from_bytes(raw[1:], "little", signed=True)
        return kind, Decimal((int(whole < 0), tuple(map(int, str(abs(whole)))), -raw[0]))
    if kind in (15, 16):
        assert struct.unpack("<I", raw[:4])[0] == len(raw) - 4
        return raw[4:] if kind == 15 else raw[4:].decode()
    assert kind == 20
    return uuid.UUID(bytes=raw)


def column(typed, rows, with_value=True):
    """Return a shredded column: each row is `(value, typed_value)`."""
    parts = [("metadata", pa.binary())]
    if with_value:
        parts.append(("value", pa.binary()))
    parts.append(("typed_value", typed))
    return pa.array(
        [{"metadata": metadata(), "value": value, "typed_value": t} for value, t in rows],
        pa.struct(parts),
    )


def read(array):
    check_shredding(array.type)
    return [decoded(value) for value in unshred(array)]


INT5 = b"\x0c\x05"  # an int8 of 5
GROUP = pa.struct([("value", pa.binary()), ("typed_value", pa.int64())])


@pytest.mark.parametrize(
    ("kind", "given", "expected"),
    [
        (pa.bool_(), True, True),
        (pa.bool_(), False, False),
        (pa.int8(), -7, (3, -7)),
        (pa.int16(), 300, (4, 300)),
        (pa.int32(), 70_000, (5, 70_000)),
        (pa.int64(), -(2**62), (6, -(2**62))),
        (pa.float64(), 1.5, (7, 1.5)),
        (pa.float32(), 0.25, (14, 0.25)),
        (pa.decimal128(9, 2), Decimal("-12.50"), (8, Decimal("-12.50"))),
        (pa.decimal128(18, 4), Decimal("1234567890.1234"), (9, Decimal("1234567890.1234"))),
        (pa.decimal128(38, 1), Decimal("9" * 37 + ".9"), (10, Decimal("9" * 37 + ".9"))),
        (pa.date32(), date(1969, 12, 30), (11, -2)),
        (pa.timestamp("us", "UTC"), datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), (12, 10**6)),
        (pa.timestamp("us"), datetime(1970, 1, 1, 0, 0, 1), (13, 10**6)),  # noqa: DTZ001
        (pa.timestamp("ns", "UTC"), 5, (18, 5)),
        (pa.timestamp("ns"), -5, (19, -5)),
        (pa.time64("us"), time(0, 0, 1), (17, 10**6)),
        (pa.binary(), b"\x00\xff", b"\x00\xff"),
        (pa.string(), "é", "é"),
        (pa.string(), "x" * 63, "x" * 63),
        (pa.string(), "x" * 64, "x" * 64),
        (pa.large_string(), "y" * 300, "y" * 300),
        (pa.string_view(), "z" * 70, "z" * 70),
        (pa.binary_view(), b"\x00\xff", b"\x00\xff"),
        (pa.binary(16), uuid.UUID(int=7).bytes, uuid.UUID(int=7)),
        (pa.uuid(), uuid.UUID(int=7).bytes, uuid.UUID(int=7)),
    ],
)
def test_a_typed_value(kind, given, expected):
    typed = pa.array([given], kind)
    array = pa.StructArray.from_arrays(
        [pa.array([metadata()]), pa.array([None], pa.binary()), typed],
        ["metadata", "value", "typed_value"],
    )
    assert read(array) == [expected]


def test_a_value_of_another_type_is_kept():
    assert read(column(pa.string(), [(INT5, None), (None, "x"), (None, None)])) == [
        (3, 5),
        "x",
        None,
    ]


def test_a_column_without_a_value_field():
    assert read(column(pa.int64(), [(None, 7)], with_value=False)) == [(6, 7)]


def test_a_shredded_object():
    kind = pa.struct([("a", GROUP), ("b", GROUP), ("é", GROUP)])
    rows = [
        (None, {"a": {"typed_value": 1}, "b": {"value": INT5}, "é": {}}),
        (None, {"a": {}, "b": {}, "é": {}}),
        (INT5, None),
        # The rest of an object, {"c": 5}: what was not expected.
        (
            bytes([2, 1, 3, 0, 2]) + INT5,
            {"a": {}, "b": {"typed_value": 2}, "é": {"typed_value": 3}},
        ),
    ]
    assert read(column(kind, rows)) == [
        {"a": (6, 1), "b": (3, 5)},
        {},
        (3, 5),
        {"b": (6, 2), "c": (3, 5), "é": (6, 3)},
    ]


def test_a_shredded_list():
    inner = pa.struct([("value", pa.binary()), ("typed_value", pa.struct([("a", GROUP)]))])
    rows = [
        (None, [{"typed_value": {"a": {"typed_value": 1}}}, {"value": INT5}, {}]),
        (None, []),
        (b"\x00", None),
    ]
    assert read(column(pa.list_(inner), rows)) == [[{"a": (6, 1)}, (3, 5), None], [], None]


def test_a_long_list_and_a_large_object():
    group = pa.struct([("value", pa.binary()), ("typed_value", pa.string())])
    long = [{"typed_value": f"text {at:0100}"} for at in range(300)]
    (found,) = read(column(pa.list_(group), [(None, long)]))
    assert found == [entry["typed_value"] for entry in long]


def test_values_below_a_null_variant_are_ignored():
    """Metadata is `required` in files of Spark: below a null variant it is empty, not null."""
    parts = [pa.array([metadata(), b""]), pa.array([None, None], pa.binary()), pa.array([7, None])]
    array = pa.StructArray.from_arrays(
        parts,
        fields=[
            pa.field("metadata", pa.binary(), nullable=False),
            pa.field("value", pa.binary()),
            pa.field("typed_value", pa.int64()),
        ],
        mask=pa.array([False, True]),
    )
    assert read(array) == [(6, 7), None]


def test_a_slice():
    array = column(pa.struct([("a", GROUP)]), [(None, {"a": {"typed_value": n}}) for n in range(5)])
    assert read(array.slice(2, 2)) == [{"a": (6, 2)}, {"a": (6, 3)}]


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(pa.int64(), id="no-struct"),
        pytest.param(pa.struct([("metadata", pa.binary())]), id="no-value"),
        pytest.param(pa.struct([("value", pa.binary()), ("x", pa.int8())]), id="another-column"),
        pytest.param(pa.struct([("typed_value", pa.uint64())]), id="an-unsupported-type"),
        pytest.param(
            pa.struct([("typed_value", pa.list_(pa.int64()))]), id="a-list-of-plain-values"
        ),
        pytest.param(pa.struct([("typed_value", pa.decimal256(50, 2))]), id="too-many-digits"),
    ],
)
def test_other_layouts_are_refused(kind):
    with pytest.raises(BadVariantError):
        check_shredding(kind)


@pytest.mark.parametrize(
    ("meta", "rest"),
    [
        pytest.param(b"", None, id="no-metadata"),
        pytest.param(b"\x01\xff\x00", None, id="truncated-metadata"),
        pytest.param(b"\x02\x00\x00", None, id="another-version"),
        pytest.param(b"\x01\x01\x00\x01z", None, id="a-missing-name"),
        pytest.param(metadata(), INT5, id="a-value-that-is-not-an-object"),
        pytest.param(metadata(), b"\x02\xff", id="a-truncated-value"),
    ],
)
def test_damaged_bytes_are_refused(meta, rest):
    kind = pa.struct(
        [
            ("metadata", pa.binary()),
            ("value", pa.binary()),
            ("typed_value", pa.struct([("a", GROUP)])),
        ]
    )
    row = {"metadata": meta, "value": rest, "typed_value": {"a": {"typed_value": 1}}}
    with pytest.raises(BadVariantError):
        unshred(pa.array([row], kind))
