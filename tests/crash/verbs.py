"""DELETE, UPDATE and MERGE for a test to kill, and the rows that they leave.

A step changes some of the rows below `RIVALS`, exactly once (`app_id`). The rows from there on belong
to rivals: a rival changes one of them in the same file, just before the step commits. A MERGE
inserts rows from `INSERTED` on.

Steps are of a kind: `verbs` (DELETE and UPDATE), `merges`, or `rewriting-merges`, which replace files
instead of marking rows in them. Their rivals append rows, because any other change of a replaced file
is a conflict.
"""

from __future__ import annotations

import random

import pyarrow as pa

from lazydelta import Config, Table
from lazydelta.errors import CommitConflictError
from lazydelta.operations.dml.verb import Verb

KINDS = ("verbs", "merges", "rewriting-merges")
FILES, ROWS = 2, 120
RIVALS = 100
APPENDED = 500
INSERTED = 1000
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
_REWRITING = Config(max_deleted_rows_ratio=0.0)


def make_table(directory):
    """Return the path of a table of few files with rows of steps and of rivals."""
    url = str(directory / "table")
    for file in range(FILES):
        ids = [row for row, its_file in FIRST if its_file == file]
        rows = {"id": ids, "file": [file] * len(ids), "v": [0] * len(ids)}
        Table.open(url).write(rows, properties=PROPERTIES)
    return url


def _step(table, number, kind):
    once = {"app_id": f"step-{number}", "app_version": 1}
    if kind != "verbs":
        return _merge(table, *_merged_rows(number), **once)
    if number % 2:
        return table.delete(f"id % 50 = {number} AND id < {RIVALS}", **once)
    return table.update({"v": "v + 1"}, f"id % 5 = {number % 5} AND id < {RIVALS}", **once)


def _merge(table, upserted, deleted, **once):
    """Delete some rows; increment or insert others."""
    ids = [*upserted, *deleted]
    is_deleted = [False] * len(upserted) + [True] * len(deleted)
    source = pa.table({"id": ids, "file": [row % FILES for row in ids], "gone": is_deleted})
    merge = table.merge(source, on="t.id = s.id", **once)
    merge = merge.when_matched_delete(where="s.gone").when_matched_update({"v": "t.v + 1"})
    new = {"id": "s.id", "file": "s.file", "v": "1"}
    return merge.when_not_matched_insert(new, where="NOT s.gone").execute()


def _merged_rows(number):
    """Return the rows that a step upserts, and those that it deletes.

    Some rows are inserted by one step and changed by the next, or deleted and inserted again.
    """
    rows = [row for row in range(RIVALS) if row % 5 == number % 5]
    deleted = [row for row in rows if row % 50 == number]
    new = [INSERTED + number // 2, INSERTED + 100 + number]
    return [row for row in rows if row not in deleted] + new, deleted


def after_step(rows, number, kind="verbs"):
    """Return the rows after a step."""
    if kind != "verbs":
        return after_merge(rows, *_merged_rows(number))
    if number % 2:
        return {k: v for k, v in rows.items() if k[0] >= RIVALS or k[0] % 50 != number}
    is_changed = {key for key in rows if key[0] < RIVALS and key[0] % 5 == number % 5}
    return {key: value + (key in is_changed) for key, value in rows.items()}


def after_merge(rows, upserted, deleted):
    """Return the rows after a MERGE."""
    found = {key: value for key, value in rows.items() if key[0] not in deleted}
    for row in upserted:
        key = row, row % FILES
        found[key] = found.get(key, 0) + 1
    return found


def _rival_row(number, kind):
    if kind == "rewriting-merges":
        return APPENDED + number
    return RIVALS + number % (ROWS - RIVALS)


def _rival(url, number, kind):
    row, once = _rival_row(number, kind), {"app_id": f"rival-{number}", "app_version": 1}
    table = Table.open(url, config=_MARKING)
    if row >= APPENDED:
        table.write({"id": [row], "file": [row % FILES], "v": [1]}, **once)
    else:
        table.update({"v": "v + 1"}, f"id = {row}", **once)


def run(table, numbers, report, *, kind, rival):
    """Run steps, each after losing a race if there are rivals."""
    config = _REWRITING if kind == "rewriting-merges" else _MARKING
    table = Table.open(table.url, config=config)
    for number in numbers:
        report("intent", number)
        if rival:
            _lose_the_next_race(table.url, number, kind)
        result = _step(table, number, kind)
        report("found" if result.already_applied else "ack", number, result.version)


def _lose_the_next_race(url, number, kind):
    commit = Verb.commit

    def lose(verb, *arguments, **more):
        Verb.commit = commit
        _rival(url, number, kind)
        return commit(verb, *arguments, **more)

    Verb.commit = lose


def random_rows(first, count):
    """Yield the changes of each step of a racing writer.

    Each is the row that it deletes, the one that it increments, and the rows that it upserts and
    deletes by MERGE. Other writers increment and upsert the same rows, but do not delete them.
    """
    chance = random.Random(first)
    for step in range(count):
        deleted = first % 1000 // 100 * 10 + step
        existing, incremented = chance.sample(range(RIVALS, ROWS), 2)
        new = INSERTED + step  # the first writer inserts it, the others increment it
        own = 10 * INSERTED + first + step  # the next step deletes it
        yield deleted, incremented, [existing, new, own], [own - 1] if step else []


def run_racing(table, first, count, report):
    """Delete, increment and upsert rows, again after each conflict, among other writers."""
    config = _REWRITING if first % 200 else _MARKING
    table = Table.open(table.url, config=config)
    for step, (deleted, incremented, *merged) in enumerate(random_rows(first, count)):
        report("intent", first + step)
        _until_committed(lambda row=deleted: table.delete(f"id = {row}"))
        _until_committed(lambda row=incremented: table.update({"v": "v + 1"}, f"id = {row}"))
        result = _until_committed(lambda rows=merged: _merge(table, *rows))
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


def check_rows(url, *, steps, kind="verbs"):
    """Check that the table has the rows after some of the first steps; return how many.

    Rivals change only their own rows, once each.
    """
    table = Table.open(url)
    rows, txns = rows_of(table), table.snapshot().transactions()
    done = [number for number in range(steps) if f"step-{number}" in txns]
    assert done == list(range(len(done)))
    expected = FIRST
    for number in done:
        expected = after_step(expected, number, kind)
    rivals = [int(name[6:]) for name in txns if name.startswith("rival-")]
    for number in rivals:
        expected = after_merge(expected, [_rival_row(number, kind)], [])
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
