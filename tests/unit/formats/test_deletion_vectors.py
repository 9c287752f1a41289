"""Deletion vectors: every field is validated before memory is allocated for it."""

from __future__ import annotations

import resource
import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64

from lazydelta.errors import DeletionVectorError, PathNotAllowedError, TransientStoreError
from lazydelta.formats.deletion_vectors import (
    BadVectorError,
    DeletionVectorGroup,
    parse_vector,
    z85_decode,
)
from lazydelta.protocol.paths import PathResolver
from lazydelta.store import MemoryStore
from tests.unit.scan.read.tables import bitmap, entry, inline, z85_encoded

ROOT = "/memory"
NAME = "deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"
ENCODED = "ab^-aqEH.-t@S}K{vb[*k^"


def stored(rows=(1, 2), **changed):
    """Return a descriptor of the first vector in the file `NAME`."""
    return {
        "storageType": "u",
        "pathOrInlineDv": ENCODED,
        "offset": 1,
        "sizeInBytes": len(bitmap(rows)),
        "cardinality": len(rows),
        **changed,
    }


def group(*vectors, objects=None, store=None):
    store = store or MemoryStore(objects or {}, root=ROOT)
    named = [(f"part-{at}.parquet", vector) for at, vector in enumerate(vectors)]
    return DeletionVectorGroup(named, PathResolver(ROOT), lambda _: store)


def test_file_name_of_the_protocols_example():
    # PROTOCOL.md: the prefix `ab` and the uuid d2c639aa-8816-431a-aaf6-d3fe2512ff61.
    assert ENCODED.startswith("ab")
    found = group(stored(), objects={f"ab/{NAME}": b"\x01" + entry(bitmap([1, 2]))}).take(0)
    assert found.positions() == [1, 2]


def test_a_vector_without_an_offset_is_the_first_of_its_file():
    # PROTOCOL.md: the offset is optional, and the first byte of the file is its version.
    found = group(stored(offset=None), objects={f"ab/{NAME}": b"\x01" + entry(bitmap([1, 2]))})
    assert found.take(0).positions() == [1, 2]


@given(st.binary(max_size=64))
def test_z85_round_trip(data):
    padded = data + bytes(-len(data) % 4)
    assert z85_decode(z85_encoded(padded)) == padded
    assert z85_decode(z85_encoded(padded), len(data)) == data


def test_padding_of_the_rust_crate():
    # From a table of delta-kernel-rs: 34 bytes, so two '#' stand for the two that are missing.
    encoded = "^Bg9^0rr910000000000iXQKl0rr91000005c8Xg##093"
    assert parse_vector(z85_decode(encoded, 34), 1).positions() == [3]


@pytest.mark.parametrize(
    ("encoded", "size"),
    [
        pytest.param("abcd", None, id="incomplete-group"),
        pytest.param("abc d", None, id="invalid-character"),
        pytest.param("#####", None, id="more-than-32-bits"),
        pytest.param("00000", 5, id="shorter-than-declared"),
        pytest.param("0000000000", 4, id="much-longer-than-declared"),
        pytest.param("##0930rr91", None, id="padding-that-is-not-last"),
    ],
)
def test_bad_z85_is_refused(encoded, size):
    with pytest.raises(BadVectorError):
        z85_decode(encoded, size)


@given(
    st.sets(st.integers(0, 200_000), max_size=300), st.integers(0, 200_000), st.integers(1, 70_000)
)
def test_kept_rows_are_those_not_listed(rows, start, length):
    found = parse_vector(bitmap(rows), len(rows)).kept(start, length)
    expected = [position not in rows for position in range(start, start + length)]
    assert (expected if found is None else found.to_pylist()) == expected
    assert (found is None) == all(expected)


def test_rows_beyond_32_bits():
    rows = [0, 2**32 - 1, 2**32, 2**40]
    found = parse_vector(bitmap(rows), 4)
    assert found.positions() == rows
    assert found.kept(2**32 - 1, 3).to_pylist() == [False, False, True]
    assert found.last == 2**40


def flipped(data, at):
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


PAYLOAD = bitmap([1, 2])
FILE = b"\x01" + entry(PAYLOAD)


@pytest.mark.parametrize(
    ("vector", "data", "message"),
    [
        pytest.param(stored(), None, "missing", id="no-file"),
        pytest.param(stored(), b"", "cannot be read", id="an-empty-file"),
        pytest.param(stored(), FILE[:-3], "cannot be read", id="a-truncated-file"),
        pytest.param(stored(), flipped(FILE, 20), "checksum", id="a-flipped-bit"),
        pytest.param(stored(), flipped(FILE, 4), "declared", id="another-length-in-the-file"),
        pytest.param(stored(offset=2), FILE + b"\0", "declared", id="a-wrong-offset"),
        pytest.param(stored(offset=2**31 - 1), FILE, "cannot be read", id="an-offset-far-out"),
        pytest.param(stored(sizeInBytes=2**31 - 1), FILE, "cannot be read", id="a-size-far-out"),
        pytest.param(stored(offset=-1), FILE, "negative", id="a-negative-offset"),
        pytest.param(stored(sizeInBytes=-1), FILE, "negative", id="a-negative-size"),
        pytest.param(stored(cardinality=-1), FILE, "negative", id="a-negative-count"),
        pytest.param(stored(cardinality=3), FILE, "lists 2 rows", id="a-wrong-count"),
        pytest.param(stored(cardinality=None), FILE, "missing", id="no-count"),
        pytest.param(stored(storageType="x"), FILE, "storage type", id="an-unknown-kind"),
        pytest.param(stored(pathOrInlineDv="ab"), FILE, "too short", id="a-name-too-short"),
        pytest.param(stored(pathOrInlineDv="\x00" * 20), FILE, "Z85", id="a-name-that-is-not-z85"),
    ],
)
def test_invalid_vectors_are_refused(vector, data, message):
    objects = {} if data is None else {f"ab/{NAME}": data}
    with pytest.raises(DeletionVectorError, match=message) as caught:
        group(vector, objects=objects).take(0)
    assert caught.value.path == "part-0.parquet"


@pytest.mark.parametrize(
    "payload",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"\0" * 11, id="too-short"),
        pytest.param(b"\0" * 40, id="no-magic"),
        pytest.param(struct.pack(">i", 1681511376) + b"\0" * 20, id="the-format-of-java"),
        pytest.param(struct.pack("<iQ", 1681511377, 2**63), id="too-many-buckets"),
        pytest.param(struct.pack("<iQ", 1681511377, 1) + b"\xff" * 30, id="a-bucket-of-garbage"),
        pytest.param(PAYLOAD[:-1], id="a-truncated-bitmap"),
    ],
)
def test_a_bad_payload_is_refused(payload):
    with pytest.raises(BadVectorError):
        parse_vector(payload, 2)


def test_a_small_vector_with_many_rows_takes_no_memory():
    rows = BitMap64(range(2**26))
    rows.run_optimize()
    payload = struct.pack("<i", 1681511377) + rows.serialize()
    assert len(payload) < 2**14
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = parse_vector(payload, 2**26)
    assert found.kept(5, 10).to_pylist() == [False] * 10
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 * 1024


@given(st.integers(0, len(PAYLOAD) - 1), st.integers(0, 255))
def test_a_damaged_inline_vector_never_has_another_count(at, byte):
    changed = PAYLOAD[:at] + bytes([byte]) + PAYLOAD[at + 1 :]
    try:
        found = parse_vector(changed, 2)
    except BadVectorError:
        return
    assert len(found.positions()) == 2


class Counting(MemoryStore):
    """Records the calls of vectors."""

    calls: list

    def read_ranges(self, path, ranges):
        self.calls.append((path, list(ranges)))
        return super().read_ranges(path, ranges)


def test_vectors_of_one_file_are_fetched_in_one_call():
    lists = [[1], [2, 3], [4, 5, 6]]
    data, vectors = b"\x01", []
    for rows in lists:
        vectors.append(stored(rows, offset=len(data)))
        data += entry(bitmap(rows))
    store = Counting({f"ab/{NAME}": data}, root=ROOT)
    store.calls = []
    found = group(*vectors, None, inline([7]), store=store)
    assert store.calls == []  # nothing was requested yet
    assert found.take(3) is None
    assert found.take(4).positions() == [7]
    assert store.calls == []  # neither needs the file
    assert [found.take(at).positions() for at in (2, 0, 1)] == [[4, 5, 6], [1], [2, 3]]
    assert len(store.calls) == 1


def test_one_bad_vector_does_not_affect_others():
    found = group(stored([1, 2]), stored(offset=9999), objects={f"ab/{NAME}": FILE})
    assert found.take(0).positions() == [1, 2]
    with pytest.raises(DeletionVectorError, match="cannot be read"):
        found.take(1)


class Failing(MemoryStore):
    failures = 1

    def read_ranges(self, path, ranges):
        if self.failures:
            self.failures -= 1
            raise TransientStoreError(path, "try again")
        return super().read_ranges(path, ranges)


def test_store_errors_are_raised_as_they_are():
    found = group(stored(), store=Failing({f"ab/{NAME}": FILE}, root=ROOT))
    with pytest.raises(TransientStoreError):
        found.take(0)
    assert found.take(0).positions() == [1, 2]


@pytest.mark.parametrize(
    "vector",
    [
        pytest.param(stored(storageType="p", pathOrInlineDv="/etc/passwd"), id="an-absolute-path"),
        pytest.param(stored(pathOrInlineDv="../.." + ENCODED[2:]), id="a-prefix-with-parents"),
        pytest.param(
            stored(storageType="p", pathOrInlineDv="s3://elsewhere/x.bin"), id="another-store"
        ),
    ],
)
def test_a_vector_outside_of_the_table_is_not_opened(vector):
    with pytest.raises(PathNotAllowedError):
        group(vector).take(0)


def test_an_absolute_path_in_the_table_is_opened():
    vector = stored(storageType="p", pathOrInlineDv=f"file://{ROOT}/a%20b.bin")
    assert group(vector, objects={"a b.bin": FILE}).take(0).positions() == [1, 2]


def test_the_checksum_is_over_the_payload():
    assert struct.unpack(">I", entry(PAYLOAD)[-4:])[0] == zlib.crc32(PAYLOAD)
