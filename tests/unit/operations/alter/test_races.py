"""Alterations that lose a race: which of them conflict, and with which error.

The rival commits when the other writer has prepared its commit and is about to put it.
"""

from __future__ import annotations

import threading

import pyarrow as pa
import pytest

from lazydelta import Table
from lazydelta._failpoints import arm
from lazydelta.errors import (
    CommitConflictError,
    ConcurrentAppendError,
    ConcurrentDeleteReadError,
    MetadataChangedError,
    ProtocolChangedError,
    TableExistsError,
)
from tests.unit.operations.alter.support import same_rows

ROW = pa.table({"id": [9], "n": ["z"]})


@pytest.fixture
def table(tmp_path):
    made = Table.create(
        tmp_path, "id long, n string", properties={"delta.columnMapping.mode": "name"}
    )
    made.write(pa.table({"id": [1, 2], "n": ["a", "b"]}))
    return made


def against(rival, change):
    """Run a change, and the rival after the commit is prepared and before it is put."""
    with arm("commit-prepared", rival) as passed:
        result = change()
    assert passed["commit-prepared"] >= 2
    return result


def append(table):
    return table.write(ROW)


def overwrite(table):
    return table.write(ROW, mode="overwrite")


CHANGES = {
    "add": lambda t: t.alter.add_columns("x int"),
    "rename": lambda t: t.alter.rename_column("n", "m"),
    "drop": lambda t: t.alter.drop_column("n"),
    "comment": lambda t: t.alter.set_comment("id", "key"),
    "property": lambda t: t.alter.set_properties({"mine": "x"}),
    "vectors": lambda t: t.alter.set_properties({"delta.enableDeletionVectors": "true"}),
    "nullable": lambda t: t.alter.set_nullable("id", nullable=False),
    "constraint": lambda t: t.alter.add_constraint("c", "id < 5"),
    "describe": lambda t: t.alter.set_description("d"),
}
LOOKS_AT_ROWS = ("nullable", "constraint")


@pytest.mark.parametrize("change", CHANGES)
def test_an_append_that_wins(table, tmp_path, change):
    if change in LOOKS_AT_ROWS:
        with pytest.raises(ConcurrentAppendError):
            against(lambda: append(table), lambda: CHANGES[change](table))
        assert table.version == 2
        return
    result = against(lambda: append(table), lambda: CHANGES[change](table))
    assert (result.version, len(same_rows(tmp_path))) == (3, 3)


@pytest.mark.parametrize("change", CHANGES)
def test_an_overwrite_that_wins(table, change):
    if change in LOOKS_AT_ROWS:
        with pytest.raises((ConcurrentAppendError, ConcurrentDeleteReadError)):
            against(lambda: overwrite(table), lambda: CHANGES[change](table))
    else:
        assert against(lambda: overwrite(table), lambda: CHANGES[change](table)).version == 3


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_that_wins_over_an_append(table, tmp_path, change):
    if change == "vectors":  # nothing in a file depends on it
        assert against(lambda: CHANGES[change](table), lambda: append(table)).version == 3
        assert len(same_rows(tmp_path)) == 3
        return
    with pytest.raises((MetadataChangedError, ProtocolChangedError)) as caught:
        against(lambda: CHANGES[change](table), lambda: append(table))
    assert caught.value.winning_version == 2
    assert len(same_rows(tmp_path)) == 2


@pytest.mark.parametrize("winner", CHANGES)
@pytest.mark.parametrize("loser", CHANGES)
def test_two_changes_at_once(table, winner, loser):
    with pytest.raises((MetadataChangedError, ProtocolChangedError)):
        against(lambda: CHANGES[winner](table), lambda: CHANGES[loser](table))
    assert table.version == 2


def test_an_append_rebases_on_enabled_column_mapping(tmp_path):
    table = Table.create(tmp_path, "id long, n string")
    append(table)
    mapping = {"delta.columnMapping.mode": "name"}
    against(lambda: table.alter.set_properties(mapping), lambda: append(table))
    table.alter.rename_column("n", "m")
    assert same_rows(tmp_path) == [{"id": 9, "m": "z"}] * 2


def test_enabling_row_tracking_conflicts_with_an_append(tmp_path):
    table = Table.create(tmp_path, "id long, n string")
    tracking = {"delta.enableRowTracking": "true"}
    with pytest.raises(ConcurrentAppendError):
        against(lambda: append(table), lambda: table.alter.set_properties(tracking))


@pytest.mark.parametrize("mode", ["error", "ignore"])
def test_a_table_that_appears_while_it_is_created(tmp_path, mode):
    def create():
        return Table.create(tmp_path, "a int", mode=mode)

    if mode == "error":
        with pytest.raises(TableExistsError):
            against(lambda: Table.create(tmp_path, "a int"), create)
    else:
        against(lambda: Table.create(tmp_path, "a int"), create)
    assert Table.open(tmp_path).version == 0


def test_changes_and_appends_in_threads_lose_nothing(tmp_path):
    table = Table.create(tmp_path, "id long")
    start, done, conflicts = threading.Barrier(4), [], []

    def appender(number):
        start.wait()
        for step in range(6):
            try:
                table.write(pa.table({"id": [10 * number + step]}), schema_mode=None)
                done.append(10 * number + step)
            except CommitConflictError as error:
                conflicts.append(error)

    def alterer():
        start.wait()
        for step in range(6):
            try:
                table.alter.set_properties({"step": str(step)})
            except CommitConflictError as error:
                conflicts.append(error)

    threads = [threading.Thread(target=appender, args=(n,)) for n in range(3)]
    threads.append(threading.Thread(target=alterer))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(row["id"] for row in same_rows(tmp_path)) == sorted(done)
    assert all(isinstance(error, MetadataChangedError) for error in conflicts)
    assert len(done) + len(conflicts) >= 18
