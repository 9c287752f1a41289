"""Log listings: only exact file names are versions, and no version may be missing."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from lazydelta import Config, Table
from lazydelta.errors import (
    ConfigError,
    LogGapError,
    TableNotFoundError,
    VersionCleanedUpError,
    VersionNotCommittedError,
)
from tests.bad_input.outcomes import read_rightly, refused
from tests.builders import TableBuilder
from tests.support import READERS, memory_store

QUICK = Config(retry_base_seconds=0.001)


def built(commits=6):
    store = memory_store()
    table = TableBuilder(store)
    for number in range(commits):
        table.commit(f"+f{number}")
    return store, table


def commit_name(version):
    return f"{version:020d}.json"


@pytest.mark.parametrize(
    "name",
    [
        "6.json",
        "0000000000000000006.json",
        "000000000000000000006.json",
        "00000000000000000006.JSON",
        "00000000000000000006.json.tmp",
        "00000000000000000006.json~",
        ".00000000000000000006.json",
        "_00000000000000000006.json",
        "00000000000000000006 .json",
        "-0000000000000000006.json",
        "+0000000000000000006.json",
        "0x000000000000000006.json",
        "٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٦.json",
        "99999999999999999999.json",
        "00000000000000000006.checkpoint",
        "00000000000000000006.checkpoint.parquet.tmp",
        "00000000000000000006.checkpoint.0000000001.parquet",
        "00000000000000000006.checkpoint.0000000000.0000000001.parquet",
        "00000000000000000006.checkpoint.0000000002.0000000001.parquet",
        "00000000000000000006.checkpoint.1.1.parquet",
        "00000000000000000006.checkpoint.not-a-uuid.parquet",
        "00000000000000000006.checkpoint.not-a-uuid.json",
        "00000000000000000006.00000000000000000003.compacted.json",
        "00000000000000000006.00000000000000000006.compacted.json",
        "00000000000000000006.compacted.json",
        "_commits",
        "junk",
    ],
)
def test_names_that_do_not_match_exactly_are_ignored(name):
    store, table = built()
    table.write(name, b"garbage")
    read_rightly(store, [f"f{number}" for number in range(6)])
    assert Table(store, Config()).version == 5


def test_staged_commits_and_sidecars_are_not_versions():
    store, table = built()
    table.write(f"_staged_commits/{6:020d}.uuid.json", b"garbage")
    table.write(f"_sidecars/{6:020d}.json", b"garbage")
    read_rightly(store, [f"f{number}" for number in range(6)])


@pytest.mark.parametrize("missing", [(0,), (1,), (2, 3), (4,)])
def test_a_gap_in_the_commits_is_an_error(missing):
    store, table = built()
    table.delete(*map(commit_name, missing))
    error = refused(store, LogGapError, QUICK)
    assert error.missing == missing
    assert error.version == 5
    assert all(str(version) in str(error) for version in missing)


def test_a_gap_after_the_checkpoint_is_an_error():
    store, table = built()
    table.checkpoint(version=2).delete(*map(commit_name, (0, 1, 3)))
    error = refused(store, LogGapError, QUICK)
    assert error.missing == (3,)


def test_a_gap_below_the_checkpoint_does_not_matter():
    store, table = built()
    table.checkpoint(version=3).delete(*map(commit_name, (0, 2, 3)))
    read_rightly(store, [f"f{number}" for number in range(6)], QUICK)


def test_a_gap_after_the_hinted_checkpoint_is_an_error():
    store, table = built()
    table.checkpoint(version=2).hint().delete(commit_name(4))
    error = refused(store, LogGapError, QUICK)
    assert error.missing == (4,)


def test_a_huge_gap_is_detected_in_constant_memory():
    store, table = built()
    table.commit("+z", version=9_000_000_000_000_000_000)
    error = refused(store, LogGapError, QUICK)
    assert error.missing[0] == 6
    assert len(str(error)) < 1000


def test_a_cleaned_up_version_and_a_future_version_have_different_errors():
    store, table = built()
    table.checkpoint(version=3).clean_up(3)
    opened = Table(store, QUICK)
    assert len(list(opened.snapshot(3).scan().files())) == 4
    for version in (0, 1, 2):
        with pytest.raises(VersionCleanedUpError) as raised:
            opened.snapshot(version)
        assert (raised.value.earliest, raised.value.latest) == (3, 5)
    with pytest.raises(VersionNotCommittedError) as raised:
        opened.snapshot(6)
    assert (raised.value.requested, raised.value.latest) == (6, 5)


@pytest.mark.parametrize("version", [-1, -(2**70)])
def test_a_version_below_zero_does_not_exist(version):
    store, _ = built()
    with pytest.raises(ConfigError, match="versions start at 0"):
        Table(store, QUICK).snapshot(version)


def test_a_directory_without_a_log_is_not_a_table(tmp_path):
    for path in (tmp_path, tmp_path / "missing"):
        with pytest.raises(TableNotFoundError) as raised:
            Table.open(path).snapshot()
        assert str(path) in str(raised.value)


class OddListing:
    """A store with unordered, repeated and stale listings.

    Pages are in order, as the store contract requires; names within a page are not.
    """

    def __init__(self, inner, change, page=1000):
        self._inner = inner
        self._change = change
        self._page = page
        self.listings = 0

    def __getattr__(self, name):
        return getattr(self._inner, name)

    def list_from(self, directory, *, after=None):
        batches = list(self._inner.list_from(directory, after=after))
        self.listings += 1
        rows = [row for batch in batches for row in batch.to_pylist()]
        changed = self._change(rows, self.listings)
        schema = pa.schema(
            [("path", pa.string()), ("size", pa.int64()), ("modified", pa.timestamp("ms", "UTC"))]
        )
        for start in range(0, len(changed), self._page):
            yield pa.RecordBatch.from_pylist(changed[start : start + self._page], schema)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(
            lambda rows, _: [row for row in rows for _ in range(2)], id="every-name-twice"
        ),
        pytest.param(lambda rows, _: rows + rows, id="the-whole-listing-twice"),
        pytest.param(lambda rows, _: rows[::-1], id="backwards"),
        pytest.param(lambda rows, _: random.Random(1).sample(rows, len(rows)), id="shuffled"),
    ],
)
@pytest.mark.parametrize("version", [None, 4])
def test_an_unordered_listing_with_duplicates(change, version):
    store, table = built()
    table.checkpoint(version=2, kind="multipart").hint().crc(3)
    odd = OddListing(store, change)
    expected = [f"f{number}" for number in range(6 if version is None else 5)]
    with Table(odd, QUICK).snapshot(version).scan().files() as files:
        assert sorted(file.path for file in files) == expected


@pytest.mark.parametrize("page", [1, 2, 3])
def test_a_name_repeated_on_the_next_page(page):
    store, table = built()
    table.checkpoint(version=2, kind="multipart").hint()
    odd = OddListing(store, lambda rows, _: [row for row in rows for _ in range(2)], page)
    assert sorted(READERS["reverse"](odd, QUICK)) == [f"f{number}" for number in range(6)]


def test_a_commit_missing_from_a_stale_listing_is_retried():
    store, _ = built()
    hidden = commit_name(3)
    stale = OddListing(
        store, lambda rows, turn: [r for r in rows if turn > 1 or not r["path"].endswith(hidden)]
    )
    assert sorted(READERS["reverse"](stale, QUICK)) == [f"f{number}" for number in range(6)]
    assert stale.listings == 2


def test_a_stale_listing_without_the_latest_commit_returns_the_previous_version():
    store, _ = built()
    hidden = commit_name(5)
    stale = OddListing(store, lambda rows, _: [r for r in rows if not r["path"].endswith(hidden)])
    assert sorted(READERS["reverse"](stale, QUICK)) == [f"f{number}" for number in range(5)]
