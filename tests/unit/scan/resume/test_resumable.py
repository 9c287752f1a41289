from __future__ import annotations

import pytest

from lazydelta import Config, Table
from tests.builders import TableBuilder
from tests.support import memory_store

NAMES = [f"f{number:02d}" for number in range(23)]


def store_with_files():
    store = memory_store()
    older, newer = " ".join(f"+{n}" for n in NAMES[:15]), " ".join(f"+{n}" for n in NAMES[15:])
    TableBuilder(store).commit(older).checkpoint().commit(f"{newer} -f03 -f07")
    return store


def open_table(store):
    return Table(store, Config(batch_rows=4))


def paths_of(stream):
    return [path for batch, _ in stream for path in batch.column("path").to_pylist()]


@pytest.mark.parametrize("strategy", ["reverse", "forward"])
def test_files_continue_after_every_batch(strategy):
    store = store_with_files()
    batches = list(open_table(store).scan(strategy=strategy).resumable_files())
    every = paths_of(batches)
    assert sorted(every) == sorted(set(NAMES) - {"f03", "f07"})
    for number, (_, token) in enumerate(batches, 1):
        rest = open_table(store).scan(strategy=strategy).resume(token)
        assert paths_of(batches[:number]) + paths_of(rest) == every


def test_a_limit_counts_files_of_all_resumptions():
    table = open_table(store_with_files())
    first = next(table.scan().resumable_files(limit=7))
    assert first.batch.num_rows + len(paths_of(table.scan().resume(first.token))) == 7


@pytest.mark.parametrize("count", [1, 2, 5])
def test_shares_are_disjoint_and_together_complete(count):
    scan = open_table(store_with_files()).scan()
    shares = [path for token in scan.shares(count) for path in paths_of(scan.resume(token))]
    assert sorted(shares) == sorted(paths_of(scan.resumable_files()))
