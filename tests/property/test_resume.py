"""Random histories: a scan that is broken anywhere and resumed elsewhere has each file once."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lazydelta import Config, Table
from lazydelta.log import tuning
from lazydelta.scan.plan import tuning as plan_tuning
from tests.builders.strategies import History, Layout, histories
from tests.support import examples, listed, memory_store, name_of


@pytest.fixture(autouse=True, scope="module")
def _short_runs():
    """Decode some row groups one by one, as large ones are, and small ones together."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(plan_tuning, "RUN_ROWS", 2)
        yield


BATCH_ROWS = st.integers(1, 5)
CONFIGS = st.builds(
    Config,
    batch_rows=BATCH_ROWS,
    checkpoint_row_groups_per_batch=st.integers(1, 3),
    remove_set_memory_limit=st.sampled_from([0, 1 << 20]),
    reverse_window_commits=st.sampled_from([1, 1000]),
    use_log_compaction=st.booleans(),
    tripwire=st.sampled_from(["protocol", "strict"]),
)
STRATEGIES = st.sampled_from(["reverse", "forward"])


def names(batch):
    rows = batch.select(["path", "deletion_vector"]).to_pylist()
    vectors = [row["deletion_vector"] for row in rows]
    return [
        name_of(row["path"], vector and vector["path_or_inline_dv"])
        for row, vector in zip(rows, vectors, strict=True)
    ]


def read_on(stream):
    return [name for batch, _ in stream for name in names(batch)]


def write_more(builder):
    """Change the log as other writers do: nothing of it may change what a token continues with."""
    version = f"{builder.version:020d}"
    if not any(name.startswith(f"{version}.checkpoint") for name in builder.names()):
        builder.checkpoint("v2-json", parts=2)  # the builder would replace one, writers do not
    if builder.version:
        builder.compact(0, builder.version)
    builder.commit("+later").checkpoint("multipart", parts=2)


def check_breaks(history, config, batch_rows, strategy):
    """Break a scan after every batch; resume it with another configuration on a newer table."""
    store = memory_store()
    builder = history.build(store)
    every = listed(Table(store, config).scan(strategy=strategy))
    assert sorted(every) == sorted(history.live)
    batches = list(Table(store, config).scan(strategy=strategy).resumable_files())
    write_more(builder)
    other = replace(
        config, batch_rows=batch_rows, checkpoint_row_groups_per_batch=4, reverse_window_commits=7
    )
    before = []
    for batch, token in batches:
        before += names(batch)
        after = read_on(Table(store, other).scan().resume(token))
        assert before + after == every
    assert before == every


def check_shares(history, config, strategy, count):
    store = memory_store()
    history.build(store)
    found = []
    for token in Table(store, config).scan(strategy=strategy).shares(count):
        batches = list(Table(store, config).scan().resume(token))
        share = [name for batch, _ in batches for name in names(batch)]
        for number, (_, inner) in enumerate(batches, 1):
            before = [name for batch, _ in batches[:number] for name in names(batch)]
            assert before + read_on(Table(store, config).scan().resume(inner)) == share
        found += share
    assert sorted(found) == sorted(history.live)


@examples(30, long=2000)
@given(history=histories(), config=CONFIGS, batch_rows=BATCH_ROWS, strategy=STRATEGIES)
def test_files_continue_after_every_batch(history, config, batch_rows, strategy):
    check_breaks(history, config, batch_rows, strategy)


@examples(20, long=2000)
@given(history=histories(), config=CONFIGS, strategy=STRATEGIES, count=st.integers(1, 4))
def test_shares_are_disjoint_and_together_complete(history, config, strategy, count):
    check_shares(history, config, strategy, count)


@examples(12, long=1000)
@given(history=histories(), config=CONFIGS, limit=st.integers(0, 6), strategy=STRATEGIES)
def test_a_limit_counts_files_of_all_resumptions(history, config, limit, strategy):
    store = memory_store()
    history.build(store)
    scan = Table(store, config).scan(strategy=strategy)
    batches = list(scan.resumable_files(limit=limit))
    every = [name for batch, _ in batches for name in names(batch)]
    assert len(set(every)) == min(limit, len(history.live))
    before = []
    for batch, token in batches:
        before += names(batch)
        assert before + read_on(Table(store, config).scan().resume(token)) == every


@pytest.mark.parametrize("strategy", ["reverse", "forward"])
def test_commits_read_in_blocks_continue_after_every_batch(strategy, monkeypatch):
    monkeypatch.setattr(tuning, "FIRST_BLOCK_BYTES", 64)
    monkeypatch.setattr(tuning, "BLOCK_BYTES", 300)
    monkeypatch.setattr(tuning, "STREAMED_BYTES", 900)

    @settings(max_examples=12)
    @given(history=histories(), config=CONFIGS)
    def check(history, config):
        check_breaks(history, config, 2, strategy)

    check()


@examples(12, long=500)
@given(history=histories(), config=CONFIGS, size=st.integers(1, 6))
def test_pages_of_any_size_are_parts_of_the_scan(history, config, size):
    store = memory_store()
    history.build(store)
    kept, token, pages = Table(store, config).scan(), None, []
    while True:
        page = kept.page(size, token)
        fresh = Table(store, config).scan().page(size, token)
        assert page.files == fresh.files
        assert page.next == fresh.next
        pages += [name for batch in page.files.to_batches() for name in names(batch)]
        token = page.next
        if token is None:
            break
    assert pages == listed(Table(store, config).scan())


def test_the_order_after_a_fallback_does_not_depend_on_the_size_of_batches():
    layout = Layout(
        checkpoints=((0, "classic", 1, 1),), compactions=(), checksums=(), hint="none",
        cleaned_up=False,
    )  # fmt: skip
    live = frozenset({"f1#v1", "f2", "f3", "f4"})
    commits = ("+f1 +f2 +f3 +f4", "-f1 +f1#v1")
    history = History(commits=commits, layout=layout, live=live)
    check_breaks(history, Config(batch_rows=1, tripwire="strict"), 2, "reverse")
