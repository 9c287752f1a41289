"""Handmade Parquet files of one column, with arbitrary page headers."""

from __future__ import annotations

from tests.footers import BINARY, I32, I64, LIST, STRUCT, varint
from tests.thrift import encoded

INT32, INT64, BYTES = 1, 2, 6
PLAIN, DELTA, DELTA_LENGTHS, DELTA_TEXTS, CODES = 0, 5, 6, 7, 8
NONE, SNAPPY = 0, 1
MOST = 2**31 - 1
ENTRY = b"\1\0\0\0a"  # the string `a`
THREE_CODES = b"\1\6\0"  # of one bit each: a run of three zeros
_DATA, _DICTIONARY, _DATA_V2 = 0, 2, 3


def dictionary(data=ENTRY, *, values=1, decompressed=None):
    """Return a dictionary page."""
    inner = encoded([(1, I32, values), (2, I32, PLAIN)])
    return _page(_DICTIONARY, 7, inner, data, decompressed)


def data_page(data=THREE_CODES, *, values=3, encoding=CODES, decompressed=None):
    """Return a data page V1."""
    inner = encoded([(1, I32, values), (2, I32, encoding), (3, I32, 3), (4, I32, 3)])
    return _page(_DATA, 5, inner, data, decompressed)


def data_page_v2(data=ENTRY * 3, *, values=3, nulls=0, rows=3, levels=0):
    """Return a data page V2."""
    counts = [(1, I32, values), (2, I32, nulls), (3, I32, rows), (4, I32, PLAIN)]
    inner = encoded([*counts, (5, I32, levels), (6, I32, 0)])
    return _page(_DATA_V2, 8, inner, data, None)


def _page(kind, place, inner, data, decompressed):
    size = len(data) if decompressed is None else decompressed
    numbers = [(1, I32, kind), (2, I32, size), (3, I32, len(data))]
    return encoded([*numbers, (place, STRUCT, inner)]) + data


def deltas(values, first=1, *, block=128, minis=4, rest=b"\0" * 20):
    """Return a DELTA_BINARY_PACKED header without data."""
    return varint(block) + varint(minis) + varint(values) + varint(first << 1) + rest


def file_of(*pages, physical=BYTES, codec=NONE, rows=3, values=None, optional=False):
    """Return a file of one row group whose only column, `x`, has these pages."""
    size = sum(map(len, pages))
    has_dictionary = len(pages) > 1
    chunk = [
        (1, I32, physical), (2, LIST, (I32, [PLAIN, CODES])), (3, LIST, (BINARY, [b"x"])),
        (4, I32, codec), (5, I64, rows if values is None else values), (6, I64, size),
        (7, I64, size), (9, I64, 4 + has_dictionary * len(pages[0])),
        *([(11, I64, 4)] if has_dictionary else []),
    ]  # fmt: skip
    column = encoded([(2, I64, 4), (3, STRUCT, encoded(chunk))])
    group = encoded([(1, LIST, (STRUCT, [column])), (2, I64, size), (3, I64, rows)])
    text = [(6, I32, 0)] if physical == BYTES else []
    leaf = [(1, I32, physical), (3, I32, int(optional)), (4, BINARY, b"x"), *text]
    schema = [encoded([(4, BINARY, b"schema"), (5, I32, 1)]), encoded(leaf)]
    footer = encoded(
        [(1, I32, 1), (2, LIST, (STRUCT, schema)), (3, I64, rows), (4, LIST, (STRUCT, [group]))]
    )
    return b"PAR1" + b"".join(pages) + footer + len(footer).to_bytes(4, "little") + b"PAR1"


# --- headers that two readers understand in two ways ------------------------------------------------

_MANY_ENTRIES = encoded([(1, I32, MOST), (2, I32, PLAIN)])
_DATA_HEADER = encoded([(1, I32, 3), (2, I32, PLAIN), (3, I32, 3), (4, I32, 3)])


def two_headers():
    """Return files whose page headers have duplicate fields."""
    counts = [(1, I32, 1), (2, I32, 0), (3, I32, 1), (4, I32, PLAIN), (5, I32, 0), (6, I32, 0)]
    other = (8, encoded(counts))
    coded = encoded([(1, I32, 3), (2, I32, DELTA_TEXTS), (3, I32, 3), (4, I32, 3)])
    entries = _described((7, _MANY_ENTRIES), other, kind=_DICTIONARY, data=ENTRY)
    differences = _described((5, coded), other, kind=_DATA, data=deltas(2**40))
    return {
        "two-headers-of-a-dictionary": file_of(entries, data_page()),
        "two-headers-of-a-page": file_of(differences),
    }


def a_count_of_another_type():
    """Return a file with a count of type `byte`, which readers skip as one byte or read as a varint."""
    mistyped = b"\x13\xfe\x85\xff\xff\x0f" + b"\x15\0" + b"\0"
    return file_of(_described((7, mistyped), kind=_DICTIONARY, data=ENTRY), data_page())


def a_checksum_of_another_type():
    """Return a file with a binary checksum, which readers skip or take for the next fields."""
    sizes = encoded([(1, I32, _DICTIONARY), (2, I32, len(ENTRY)), (3, I32, len(ENTRY))])[:-1]
    hidden = b"\x3c" + _MANY_ENTRIES + b"\0" + ENTRY
    checksum = b"\x18" + varint(len(hidden)) + hidden
    honest = b"\x3c" + encoded([(1, I32, 1), (2, I32, PLAIN)]) + b"\0"
    return file_of(sizes + checksum + honest + ENTRY, data_page())


def endless():
    """Return files with very long or deeply nested headers."""
    lists = b"\x19" * 200_000 + b"\x13\0"
    deep = _described((5, _DATA_HEADER), kind=_DATA, data=b"")[:-1] + b"\x49" + lists + b"\0"
    return {
        "lists-in-lists": file_of(deep + bytes(12), physical=INT32),
        "a-column-of-zeros": file_of(bytes(300_000), physical=INT32),
    }


def _described(*inner, kind, data):
    """Return a page whose header has these structs, by field id."""
    sizes = [(1, I32, kind), (2, I32, len(data)), (3, I32, len(data))]
    return encoded([*sizes, *((place, STRUCT, one) for place, one in inner)]) + data
