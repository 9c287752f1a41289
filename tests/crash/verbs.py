"""DELETE and UPDATE for a test to kill, and the rows that they leave.

A step changes some of the rows below `RIVALS`, exactly once (`app_id`). The rows from there on belong
to rivals: a rival changes one of them in the same file, just before the step commits.
"""

from __future__ import annotations

import random

from lazydelta import Config, Table
from lazydelta.errors import CommitConflictError
from lazydelta.operations.dml.verb import Verb

FILES, ROWS = 2, 120
RIVALS = 100
PROPERTIES = {
    "delta.enableDeletionVectors": "true",
    "delta.enableChangeDataFeed": "true",
    "delta.enableRowTracking": "true",
    "delta.checkpointInterval": "3",
    "lazydelta.logCompactionInterval": "2",
}
FIRST = {(row, row % FILES): 0 for row in range(ROWS)}
"""The rows of a new table: id and file to value."""


_MARKING = Config(max_deleted_rows_ratio=1.0)
"""A step that rewrites a file conflicts with a rival in it."""


def make_table(directory):
    """Return the path of a table of few files with rows of steps and of rivals."""
    url = str(directory / "table")
    for file in range(FILES):
        ids = [row for row, its_file in FIRST if its_file == file]
        rows = {"id": ids, "file": [file] * len(ids), "v": [0] * len(ids)}
        Table.open(url).write(rows, properties=PROPERTIES)
    return url


def _step(table, number):
    once = {"app_id": f"step-{number}", "app_version": 1}
    if number % 2:
        return table.delete(f"id % 50 = {number} AND id < {RIVALS}", **once)
    return table.update({"v": "v + 1"}, f"id % 5 = {number % 5} AND id < {RIVALS}", **once)


def after_step(rows, number):
    """Return the rows after a step."""
    if number % 2:
        return {k: v for k, v in rows.items() if k[0] >= RIVALS or k[0] % 50 != number}
    is_changed = {key for key in rows if key[0] < RIVALS and key[0] % 5 == number % 5}
    return {key: value + (key in is_changed) for key, value in rows.items()}


def _rival(url, number):
    row, once = RIVALS + number % (ROWS - RIVALS), {"app_id": f"rival-{number}", "app_version": 1}
    Table.open(url, config=_MARKING).update({"v": "v + 1"}, f"id = {row}", **once)


def run(table, numbers, report, *, rival):
    """Run steps, each after losing a race if there are rivals."""
    table = Table.open(table.url, config=_MARKING)
    for number in numbers:
        report("intent", number)
        if rival:
            _lose_the_next_race(table.url, number)
        result = _step(table, number)
        report("found" if result.already_applied else "ack", number, result.version)


def _lose_the_next_race(url, number):
    commit = Verb.commit

    def lose(verb, *arguments, **more):
        Verb.commit = commit
        _rival(url, number)
        return commit(verb, *arguments, **more)

    Verb.commit = lose


def random_rows(first, count):
    """Return the rows that a racing writer deletes, and those that it increments, maybe twice.

    Other writers increment the same rows, but do not delete them.
    """
    chance = random.Random(first)
    deleted = [first % 1000 // 100 * 10 + step for step in range(count)]
    return deleted, [chance.randrange(RIVALS, ROWS) for _ in range(count)]


def run_racing(table, first, count, report):
    """Delete and increment single rows, again after each conflict, among other writers."""
    for step, (deleted, incremented) in enumerate(zip(*random_rows(first, count), strict=True)):
        report("intent", first + step)
        _until_committed(lambda row=deleted: table.delete(f"id = {row}"))
        result = _until_committed(
            lambda row=incremented: table.update({"v": "v + 1"}, f"id = {row}")
        )
        report("ack", first + step, result.version)


def _until_committed(verb):
    while True:
        try:
            return verb()
        except CommitConflictError:
            continue


def rows_of(table):
    """Return the rows by id and file."""
    found = table.to_arrow()
    rows = zip(found["id"].to_pylist(), found["file"].to_pylist(), strict=True)
    result = dict(zip(rows, found["v"].to_pylist(), strict=True))
    assert len(result) == found.num_rows  # no row is doubled
    return result


def check_rows(url, *, steps):
    """Check that the table has the rows after some of the first steps; return how many.

    Rivals change only their own rows, once each.
    """
    table = Table.open(url)
    rows, txns = rows_of(table), table.snapshot().transactions()
    done = [number for number in range(steps) if f"step-{number}" in txns]
    assert done == list(range(len(done)))
    expected = FIRST
    for number in done:
        expected = after_step(expected, number)
    rivals = [int(name[6:]) for name in txns if name.startswith("rival-")]
    for number in rivals:
        row = RIVALS + number % (ROWS - RIVALS)
        expected = {**expected, (row, row % FILES): expected[row, row % FILES] + 1}
    assert rows == expected
    assert table.check().ok
    return len(done)


def check_feed(url):
    """Check that the changes of each version lead from its rows to those of the next version."""
    table = Table.open(url)
    for version in range(FILES, table.version + 1):
        rows = rows_of(table.snapshot(version - 1))
        feed = table.changes(starting_version=version, ending_version=version).to_arrow()
        changes = [(one.pop("_change_type"), one) for one in feed.to_pylist()]
        for kind, one in sorted(changes, key=lambda change: change[0] not in _REMOVED):
            key = one["id"], one["file"]
            if kind in _REMOVED:
                assert rows.pop(key) == one["v"]
            else:
                assert key not in rows
                rows[key] = one["v"]
        assert rows == rows_of(table.snapshot(version))


_REMOVED = ("delete", "update_preimage")
