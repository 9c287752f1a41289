"""Rows cut into ranges of their order: every row in one range, every range sorted, none too large."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from lazydelta.spark.checkpoint_ranges import CHUNKS, Ranges, sample_of, whole_ranges

ORDER = ["isRemove", "day", "path"]
SCHEMA = pa.schema(
    [("isRemove", pa.bool_()), ("day", pa.string()), ("path", pa.string()), ("add", pa.struct(
        [("size", pa.int64())]))]
)  # fmt: skip


def batches(rows, *, each=100):
    """Return so many rows in no order: few days, some without one, and tombstones without any."""
    dice = random.Random(7)
    made = []
    for number in range(rows):
        gone = number % 50 == 0
        day = None if gone else dice.choice([None, "a", "b", "c"])
        add = None if gone else {"size": number}
        made.append({"isRemove": gone, "day": day, "path": f"p{number:05}", "add": add})
    dice.shuffle(made)
    return pa.Table.from_pylist(made, SCHEMA).to_batches(max_chunksize=each)


def place(row):
    return row["isRemove"], row["day"] is not None, row["day"], row["path"]


def shuffled(chunks):
    """Return chunks as a task would get them: those of a range together, in no other order."""
    rows = [row for batch in chunks for row in batch.to_pylist()]
    random.Random(3).shuffle(rows)
    rows.sort(key=lambda row: row["range"])
    return pa.Table.from_pylist(rows, CHUNKS).to_batches(max_chunksize=3)


@pytest.mark.parametrize("count", [1, 2, 7])
@pytest.mark.parametrize("rows", [1, 3, 20_000])
def test_ranges_are_the_sorted_rows_cut_up(rows, count):
    given = batches(rows)
    ranges = Ranges.of(sample_of(given, ORDER), count)
    assert 1 <= ranges.count <= count
    numbers, found = zip(*whole_ranges(shuffled(ranges.chunks(given)), ORDER), strict=True)
    assert list(numbers) == sorted(numbers)
    together = [row for one in found for row in one.to_pylist()]
    assert together == sorted((r for b in given for r in b.to_pylist()), key=place)
    if rows > 1000:
        assert len(found) == count
        assert all(abs(one.num_rows - rows / count) < 0.5 * rows / count for one in found)


def test_parts_that_are_cut_apart_meet_in_the_same_ranges():
    given = batches(5000)
    halves = given[:20], given[20:]
    sample = pa.concat_tables([sample_of(half, ORDER) for half in halves])
    ranges = Ranges.of(sample, 4)
    chunks = [chunk for half in halves for chunk in ranges.chunks(half)]
    numbers, found = zip(*whole_ranges(shuffled(chunks), ORDER), strict=True)
    assert numbers == (0, 1, 2, 3)
    assert len(found) == 4
    assert sum(one.num_rows for one in found) == 5000
    firsts = [place(one.to_pylist()[0]) for one in found]
    assert firsts == sorted(firsts)


def test_a_sample_is_small_however_many_rows_there_are():
    table = pa.table({"n": pa.array(range(1_000_000))})
    sample = sample_of(table.to_batches(max_chunksize=8192), ["n"])
    assert 900 < sample.num_rows <= 2000
    values = sample.column("n").to_pylist()
    assert values[0] < 2000
    assert values[-1] > 990_000
    assert sample_of([], ["n"]) is None
    assert sample_of([sample.to_batches()[0].slice(0, 0)], ["n"]) is None
