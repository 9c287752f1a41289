from __future__ import annotations

import os

import pyarrow as pa
import pytest

from lazydelta import Config, ReadOptions, Table, WriteOptions
from lazydelta.errors import ResumeTokenError, ResumeTokenExpiredError
from lazydelta.log import list_log
from tests.support import memory_store

ENABLED = {"delta.enableDeletionVectors": "true", "delta.enableChangeDataFeed": "true"}


def rows(first, count):
    ids = range(first, first + count)
    return pa.table({"id": list(ids), "part": [n % 2 for n in ids], "text": [f"t{n}" for n in ids]})


def build(store):
    table = Table(store, Config(write=WriteOptions(row_group_rows=7), max_deleted_rows_ratio=1.0))
    table.write(rows(0, 40), partition_by=["part"], properties=ENABLED)
    table.write(rows(100, 20))
    table.delete("id in (3, 4, 9, 30, 31)")
    table.update({"text": "'new'"}, where="id between 10 and 14")
    table.delete("part = 1 and id < 60")
    table.write(rows(200, 9))
    return table


@pytest.fixture(scope="module", params=["local", "remote"])
def store(request):
    store = memory_store(local=request.param == "local")
    build(store)
    return store


def open_feed(store, batch_rows=4, **wishes):
    config = Config(read=ReadOptions(batch_rows=batch_rows))
    return Table(store, config).changes(**wishes)


def all_rows(stream):
    return [row for batch, _ in stream for row in batch.to_pylist()]


FEEDS = {
    "all": {},
    "columns": {"columns": ["id", "_commit_version"]},
    "filter": {"where": "_change_type <> 'insert' or id > 110"},
    "partition": {"where": "part = 0"},
    "versions": {"starting_version": 1, "ending_version": 4},
}


@pytest.mark.sample(3)
@pytest.mark.parametrize("wishes", FEEDS.values(), ids=FEEDS)
def test_changes_continue_after_every_batch(store, wishes):
    every = open_feed(store, **wishes).to_arrow().to_pylist()
    batches = list(open_feed(store, **wishes).resumable_rows())
    assert len(batches) > 5
    query = {name: wishes[name] for name in ("columns", "where") if name in wishes}
    before = []
    for batch, token in batches:
        before += batch.to_pylist()
        after = all_rows(open_feed(store, batch_rows=3, **query).resume(token))
        assert before + after == every
    assert before == every


def test_a_limit_counts_changes_of_all_resumptions(store):
    feed = open_feed(store).narrowed(limit=21)
    batches = list(feed.resumable_rows())
    assert sum(batch.num_rows for batch, _ in batches) == 21
    for number, (_, token) in enumerate(batches, 1):
        left = all_rows(open_feed(store).narrowed(limit=21).resume(token))
        assert sum(batch.num_rows for batch, _ in batches[:number]) + len(left) == 21


def test_later_commits_are_not_part_of_a_resumed_feed():
    store = memory_store()
    table = build(store)
    every = open_feed(store).to_arrow().num_rows
    first = next(open_feed(store).resumable_rows())
    table.write(rows(300, 5))
    assert first.batch.num_rows + len(all_rows(open_feed(store).resume(first.token))) == every


def test_files_of_delivered_versions_are_not_opened():
    store = memory_store()
    build(store)
    (paths,) = [[f.path for f in Table(store, Config()).snapshot(version=0).scan().files()]]
    batches = list(open_feed(store).resumable_rows())
    is_later = [batch.column("_commit_version")[0].as_py() > 1 for batch, _ in batches]
    token, rest = batches[is_later.index(True)].token, batches[is_later.index(True) + 1 :]
    appended = [f.path for f in Table(store, Config()).snapshot(version=1).scan().files()]
    for path in {*appended} - {*paths}:
        store.delete([path])
    resumed = open_feed(store, starting_version=2).resume(token)
    assert all_rows(resumed) == all_rows(rest)


def test_commit_times_do_not_depend_on_where_a_feed_was_broken(tmp_path):
    table = Table.open(tmp_path)
    for first in (0, 10, 20, 30):
        table.write(rows(first, 3), properties=ENABLED if not first else None)
    commits = sorted((tmp_path / "_delta_log").glob("*.json"))
    for commit, seconds in zip(commits, (50, 20, 10, 40), strict=True):  # times go back
        os.utime(commit, (seconds, seconds))
    batches = list(Table.open(tmp_path).changes().resumable_rows())
    assert len(batches) == 4
    for number, (_, token) in enumerate(batches, 1):
        assert all_rows(Table.open(tmp_path).changes().resume(token)) == all_rows(batches[number:])


def test_a_token_whose_commits_were_cleaned_up_is_expired():
    store = memory_store()
    build(store)
    first = next(open_feed(store).resumable_rows())
    Table(store, Config()).checkpoint()
    for file in list_log(store, to_version=3):
        store.delete([file.path])
    with pytest.raises(ResumeTokenExpiredError, match="log cleanup"):
        open_feed(store, starting_version=5).resume(first.token)


def test_a_token_of_another_feed_is_refused(store):
    token = next(open_feed(store, columns=["id"]).resumable_rows()).token
    with pytest.raises(ResumeTokenError, match="another scan"):
        open_feed(store).resume(token)
    with pytest.raises(ResumeTokenError, match="of changes, not of rows"):
        Table(store, Config()).scan().resume(token)
