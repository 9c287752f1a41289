"""Damaged and malicious files: the same rows as pyarrow or a typed error, never a crash.

Without checksums a flipped bit of a value is not detectable. The decoder refuses more than pyarrow
(strings that are not valid UTF-8) and sometimes less (a level out of range). Its rows are always valid,
and where both return rows they are the same.
"""

from __future__ import annotations

import io
import random
from collections import Counter
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lazydelta import ReadOptions
from lazydelta.errors import DataFileError
from tests.bad_input.test_rows import bombs, table_of
from tests.footers import deepened
from tests.native import pages
from tests.native.judge import judged
from tests.native.pages import MOST, data_page, data_page_v2, deltas, dictionary, file_of
from tests.native.support import read

ROWS = 300
ENCODED = {
    "i": "DELTA_BINARY_PACKED", "l": "DELTA_BINARY_PACKED", "f": "BYTE_STREAM_SPLIT",
    "few": "DELTA_BYTE_ARRAY", "many": "DELTA_LENGTH_BYTE_ARRAY", "raw": "DELTA_BYTE_ARRAY",
    "fix": "DELTA_BYTE_ARRAY", "b": "RLE",
}  # fmt: skip
SHAPES = {
    "dictionary": {},
    "plain": {"use_dictionary": False},
    "encoded": {"use_dictionary": False, "column_encoding": ENCODED},
}
MOST_GROWN = 100 << 10
"""Kilobytes; a small file does not need them."""


def rows():
    chance = random.Random(3)
    return pa.table(
        {
            "i": pa.array([None if n % 9 == 0 else chance.getrandbits(31) for n in range(ROWS)]),
            "l": pa.array(range(ROWS), pa.int64()),
            "f": [chance.random() for _ in range(ROWS)],
            "b": [chance.random() < 0.5 for _ in range(ROWS)],
            "few": [f"value number {n % 7}" for n in range(ROWS)],
            "many": [None if n % 9 == 0 else f"é{n}" * (n % 6) for n in range(ROWS)],
            "raw": [b"\xff" * (n % 20) for n in range(ROWS)],
            "fix": pa.array([b"%03d" % n for n in range(ROWS)], pa.binary(3)),
            "d": pa.array([Decimal(n) for n in range(ROWS)], pa.decimal128(20, 2)),
            "t": pa.array(range(ROWS), pa.timestamp("us", "UTC")),
        }
    )


def wholes():
    """Return files of the same rows in every encoding."""
    found = []
    for codec in ("none", "snappy", "zstd"):
        for version in ("1.0", "2.0"):
            for shape in SHAPES.values():
                sink = io.BytesIO()
                pq.write_table(
                    rows(), sink, compression=codec, data_page_version=version, row_group_size=120,
                    data_page_size=200, write_batch_size=32, **shape,
                )  # fmt: skip
                found.append(sink.getvalue())
    return found


def footer_of(whole):
    return len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")


def flipped(whole, chance, start, end):
    """Return a file with changed bytes: one bit, random bytes, or typical header bytes."""
    data = bytearray(whole)
    how = chance.randrange(3)
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(start, end)
        data[at] = (
            data[at] ^ 1 << chance.randrange(8),
            chance.randrange(256),
            chance.choice(b"\x00\xff\x7f\x80\x15\x1c"),
        )[how]
    return bytes(data)


def verdicts(tmp_path, files, sound=()):
    """Return the outcome of each file, after checks that hold for every damage.

    `sound` are the undamaged files, for file templates.
    """
    named = files if isinstance(files, dict) else dict(enumerate(files))
    paths = [tmp_path / f"{name}.parquet" for name in named]
    for path, data in zip(paths, named.values(), strict=True):
        path.write_bytes(data)
    for path, data in zip(paths, sound, strict=False):
        path.with_suffix(".sound").write_bytes(data)
    found = judged(paths)
    assert len(found) == len(paths)
    assert [v["path"] for v in found if v["died"]] == []
    for verdict in found:
        assert verdict.get("valid", True) or not verdict["taken"], verdict
        assert verdict.get("same", True), verdict
        assert verdict.get("strings_valid", True), verdict
        assert verdict.get("strings_same", True), verdict
        assert verdict.get("alike_valid", True), verdict
        assert verdict.get("alike_same", True), verdict
        # Without views, pyarrow reads what the decoder cannot.
        assert verdict["strings"] == "rows" or verdict["plain"] != "rows", verdict
        assert verdict["grown"] < MOST_GROWN, verdict
    return found


def outcomes(found):
    """Count the outcomes as `(rows without views, rows with views)`."""
    return Counter((v["plain"] == "rows", v["views"] == "rows") for v in found)


def check_pages(tmp_path, count, seed):
    chance, files = random.Random(seed), wholes()
    sound = [chance.choice(files) for _ in range(count)]
    damaged = [flipped(whole, chance, 4, footer_of(whole)) for whole in sound]
    found = verdicts(tmp_path, damaged, sound)
    counts = outcomes(found)
    assert counts[True, True] > count // 8  # harmless to both
    assert counts[False, False] > count // 8  # refused by both
    assert sum(v["taken"] for v in found) > count // 8
    assert sum(v["alike"] == "rows" for v in found) > count // 8


def check_footers(tmp_path, count, seed):
    chance, files = random.Random(seed), wholes()
    sound = [chance.choice(files) for _ in range(count)]
    damaged = [flipped(whole, chance, footer_of(whole), len(whole)) for whole in sound]
    found = verdicts(tmp_path, damaged, sound)
    counts = outcomes(found)
    assert counts[True, True] > count // 16
    assert counts[False, False] > count // 4


def test_damaged_pages(tmp_path):
    check_pages(tmp_path, 24, 11)


def test_damaged_footers(tmp_path):
    check_footers(tmp_path, 24, 12)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(10))
def test_many_damaged_pages(tmp_path, seed):
    check_pages(tmp_path, 1000, seed)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(10))
def test_many_damaged_footers(tmp_path, seed):
    check_footers(tmp_path, 1000, seed)


def test_a_truncated_file_is_refused(tmp_path):
    whole = wholes()[7]
    ends = [0, 1, 4, 8, 12, *range(20, len(whole), len(whole) // 10), len(whole) - 1]
    found = verdicts(tmp_path, [whole[:end] for end in ends])
    assert outcomes(found) == {(False, False): len(ends)}


def test_a_file_without_its_middle_is_refused_or_unchanged(tmp_path):
    whole = wholes()[4]
    footer = footer_of(whole)
    starts = range(4, footer - 300, footer // 10)
    found = verdicts(tmp_path, [whole[:at] + bytes(300) + whole[at + 300 :] for at in starts])
    assert outcomes(found)[False, False] > len(starts) // 2


# --- false headers ----------------------------------------------------------------------------------

SNAPPY_BYTES = b"\xff\xff\xff\xff\x0f\0"  # of 4 gigabytes, as they claim
GOOD = file_of(dictionary(), data_page())
LIES = {
    "a-dictionary-of-two-billion-strings": file_of(dictionary(values=MOST), data_page()),
    "a-dictionary-of-two-billion-numbers": file_of(
        dictionary(b"abcd", values=MOST), data_page(), physical=pages.INT32
    ),
    "a-dictionary-of-fewer-than-none": file_of(dictionary(values=-5), data_page()),
    "a-dictionary-that-takes-two-gigabytes": file_of(
        dictionary(SNAPPY_BYTES, decompressed=MOST), data_page(), codec=pages.SNAPPY
    ),
    "a-page-that-takes-two-gigabytes": file_of(
        data_page(SNAPPY_BYTES, encoding=pages.PLAIN, decompressed=MOST), codec=pages.SNAPPY
    ),
    "a-page-of-two-billion-values": file_of(
        dictionary(), data_page(values=MOST), rows=MOST, values=MOST
    ),
    "a-string-of-two-gigabytes": file_of(
        data_page(b"\xff\xff\xff\x7fa", encoding=pages.PLAIN, values=1), rows=1
    ),
    "a-string-of-negative-length": file_of(
        data_page(b"\xff\xff\xff\xffa", encoding=pages.PLAIN, values=1), rows=1
    ),
    "a-code-that-is-not-in-the-dictionary": file_of(dictionary(), data_page(b"\1\6\1")),
    "a-code-below-zero": file_of(dictionary(), data_page(b"\x20\6\xff\xff\xff\xff")),
    "codes-of-255-bits": file_of(dictionary(), data_page(b"\xff\6" + bytes(40))),
    "no-codes": file_of(dictionary(), data_page(b"")),
    "levels-of-two-gigabytes": file_of(
        data_page(b"\xff\xff\xff\x7f\6\1" + pages.ENTRY * 3, encoding=pages.PLAIN), optional=True
    ),
    "levels-of-fewer-than-no-bytes": file_of(data_page_v2(levels=-5), optional=True),
    "levels-beyond-the-page": file_of(data_page_v2(levels=MOST), optional=True),
    "two-billion-nulls": file_of(data_page_v2(nulls=MOST), optional=True),
    "fewer-nulls-than-none": file_of(data_page_v2(nulls=-1), optional=True),
    "fewer-rows-than-in-the-footer": file_of(
        data_page(pages.ENTRY * 2, encoding=pages.PLAIN, values=2), rows=5, values=2
    ),
    "more-rows-than-there-could-be": file_of(
        data_page(pages.ENTRY * 2, encoding=pages.PLAIN, values=2), rows=2**62, values=2
    ),
} | {
    f"deltas-{what}-in-{encoding}-of-{physical}": file_of(
        data_page(deltas(**claims), encoding=encoding), physical=physical
    )
    for encoding, physical in (
        (pages.DELTA, pages.INT32), (pages.DELTA, pages.INT64),
        (pages.DELTA_LENGTHS, pages.BYTES), (pages.DELTA_TEXTS, pages.BYTES),
    )
    for what, claims in {
        "of-8-billion-values": {"values": 2**33},
        "of-10-to-the-12-values": {"values": 2**40},
        "of-10-to-the-18-values": {"values": 2**62},
        "in-endless-blocks": {"values": 4, "block": 2**40},
        "in-many-small-blocks": {"values": 4, "block": 2**31, "minis": 2**26},
        "in-no-blocks": {"values": 4, "block": 0},
        "of-blocks-of-nothing": {"values": 4, "minis": 0},
        "from-two-billion": {"values": 4, "first": MOST},
    }.items()
} | pages.two_headers() | pages.endless()  # fmt: skip
LIES["a-count-of-another-type"] = pages.a_count_of_another_type()


def test_a_handmade_file_is_read(tmp_path):
    """Control: the files below are refused for their content, not for their layout."""
    (tmp_path / "a.parquet").write_bytes(GOOD)
    found, _ = read(tmp_path / "a.parquet", views=True)
    assert found.to_pylist() == [{"x": "a"}] * 3
    assert found.schema.field("x").type == pa.string_view()


def test_invalid_page_headers(tmp_path):
    """A failed allocation aborts a Rust program, so the decoder must not try huge ones."""
    found = verdicts(tmp_path, LIES)
    counts = outcomes(found)
    assert counts[False, False] > len(LIES) // 2
    refused = {name for name, v in zip(LIES, found, strict=True) if v["views"] != "rows"}
    assert "a-code-that-is-not-in-the-dictionary" in refused


@pytest.mark.parametrize("levels", [200, 200_000])
def test_a_very_deep_schema(tmp_path, levels):
    """Recursion into it would overflow the stack."""
    [verdict] = verdicts(tmp_path, [deepened(GOOD, levels)], [GOOD])
    assert "more than 100 levels deep" in verdict["plain"]
    assert "more than 100 levels deep" in verdict["views"]
    assert verdict["alike"] == "it is not opened"


def test_a_checksum_that_hides_fields(tmp_path):
    """pyarrow skips it; a reader that does not finds a huge dictionary."""
    [verdict] = verdicts(tmp_path, [pages.a_checksum_of_another_type()])
    assert verdict["plain"] == verdict["views"] == "rows"


def test_invalid_utf8_is_refused(tmp_path):
    """pyarrow returns it; a later conversion to a Python string would fail."""
    bad = pages.ENTRY[:-1] + b"\xff"
    files = [
        file_of(dictionary(bad), data_page()),
        file_of(data_page(bad * 3, encoding=pages.PLAIN)),
    ]
    for verdict in verdicts(tmp_path, files):
        assert verdict["plain"] == "rows"
        assert "utf-8" in verdict["views"]


# --- bombs ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("column", "kind", "options"), list(bombs()))
def test_a_decompression_bomb_is_refused(tmp_path, column, kind, options):
    scan = table_of(tmp_path, column, kind, **options).open().scan()
    reasons = []
    for views in (False, True):
        small = ReadOptions(max_inflated_bytes=4 << 20, schema_force_view_types=views)
        with pytest.raises(DataFileError, match="max_inflated_bytes=4194304") as caught:
            scan.to_arrow(small)
        reasons.append(str(caught.value))
    assert reasons[0] == reasons[1]
    wide = ReadOptions(max_inflated_bytes=64 << 20, schema_force_view_types=True)
    found = scan.to_arrow(wide)["x"]
    assert found.combine_chunks().cast(column.type).equals(column)
