"""Random histories: all replays agree, for every layout of the log."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lazydelta import Config
from lazydelta.log import tuning
from tests.builders import TableBuilder
from tests.builders.strategies import histories
from tests.support import READERS, examples, memory_store

CONFIGS = st.builds(
    Config,
    batch_rows=st.integers(1, 7),
    prefetch_batches=st.integers(1, 3),
    checkpoint_row_groups_per_batch=st.integers(1, 3),
    remove_set_memory_limit=st.sampled_from([0, 100, 1 << 20]),
    remove_set_capacity=st.sampled_from([1, 1000]),
    remove_set_false_positive_rate=st.sampled_from([0.01, 0.99]),
    reverse_window_commits=st.sampled_from([1, 3, 1000]),
    use_log_compaction=st.booleans(),
)


def check_agreement(history, config):
    store = memory_store()
    history.build(store)
    for name, read in READERS.items():
        found = read(store, config)
        assert sorted(found) == sorted(history.live), name


def test_a_remove_in_the_first_block_of_a_commit_hides_adds_of_older_commits(monkeypatch):
    monkeypatch.setattr(tuning, "FIRST_BLOCK_BYTES", 64)
    store = memory_store()
    TableBuilder(store).commit("+a").commit("-a", *(f"+x{number}" for number in range(9)))
    for name, read in READERS.items():
        assert sorted(read(store)) == [f"x{number}" for number in range(9)], name


def test_a_trip_in_the_second_block_of_a_commit_loses_none_of_its_adds(monkeypatch):
    monkeypatch.setattr(tuning, "FIRST_BLOCK_BYTES", 64)
    store = memory_store()
    TableBuilder(store).commit("+a +b").commit("-a +c +d +a -b +b#v1")
    for name, read in READERS.items():
        assert sorted(read(store)) == ["a", "b#v1", "c", "d"], name


def test_a_first_block_without_files_does_not_hold_back_the_removes_above_it(monkeypatch):
    monkeypatch.setattr(tuning, "FIRST_BLOCK_BYTES", 64)
    store = memory_store()
    TableBuilder(store).commit("").commit("!metaData !protocol +a").commit("-a").commit("")
    for name, read in READERS.items():
        assert read(store) == [], name


def check_limits(history, config, limit):
    store = memory_store()
    history.build(store)
    for name, read in READERS.items():
        found = read(store, config, limit)
        assert len(found) == len(set(found)) == min(limit, len(history.live)), name
        assert set(found) <= history.live, name


@examples(60, long=120)
@given(history=histories(), config=CONFIGS)
def test_all_replays_agree(history, config):
    check_agreement(history, config)


@examples(30, long=50)
@given(history=histories(), config=CONFIGS, limit=st.integers(0, 8))
def test_a_limit_returns_a_subset_of_the_right_size(history, config, limit):
    check_limits(history, config, limit)


@pytest.fixture
def _tiny_blocks(monkeypatch):
    """Cut commits into blocks of a few lines, as is done with huge ones."""
    monkeypatch.setattr(tuning, "FIRST_BLOCK_BYTES", 64)
    monkeypatch.setattr(tuning, "BLOCK_BYTES", 300)
    monkeypatch.setattr(tuning, "STREAMED_BYTES", 900)


@pytest.mark.usefixtures("_tiny_blocks")
def test_commits_read_in_blocks():
    @examples(40, long=80)
    @given(history=histories(), config=CONFIGS)
    def check(history, config):
        check_agreement(history, config)

    check()


@pytest.mark.long
@settings(max_examples=5000)
@given(history=histories(max_commits=30), config=CONFIGS)
def test_all_replays_agree_on_long_histories(history, config):
    check_agreement(history, config)


@pytest.mark.long
@settings(max_examples=3000)
@given(history=histories(max_commits=30), config=CONFIGS, limit=st.integers(0, 30))
def test_limits_on_long_histories(history, config, limit):
    check_limits(history, config, limit)


@pytest.mark.long
@pytest.mark.usefixtures("_tiny_blocks")
def test_blocks_on_long_histories():
    @settings(max_examples=3000)
    @given(history=histories(max_commits=30), config=CONFIGS)
    def check(history, config):
        check_agreement(history, config)

    check()
