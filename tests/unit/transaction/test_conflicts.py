"""The conflict matrix: every operation against every winner, as a pure function and in a real race."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from lazydelta.transaction.conflicts import AlreadyApplied, check
from lazydelta.transaction.read_snapshot import ReadSnapshot
from lazydelta.transaction.table_state import effective_isolation
from lazydelta.transaction.winning_commit import read_winning_commit
from tests.unit.transaction.matrix import CASES, ERRORS, MINE, WINNERS, outcome
from tests.unit.transaction.support import (
    CONFIG,
    actions_of,
    add,
    adds,
    append,
    base_of,
    info_of,
    log_file,
    make_table,
    put,
    reader,
    reads,
    remove,
    removes,
    run,
    versions,
    with_properties,
)


def _state(store, mine):
    return ReadSnapshot(mine, store, CONFIG, base_of(store)).state()


# Conflict detection is pure, so its input is built once for all cases.


@cache
def _mine_on_its_base(name, level):
    mine = replace(MINE[name], isolation=level)
    return mine, _state(make_table(), mine)


@cache
def _winner(name):
    store = make_table()
    blind, actions = WINNERS[name]
    put(store, 1, *actions, blind=blind, operation=name)
    return read_winning_commit(reader(store), log_file(1), table=store.root, files=True)


def _id(case):
    return "-over-".join(case[:2]) + "-" + case[2]


def test_the_matrix_is_large_enough():
    assert len(CASES) >= 900
    assert {outcome(*case) for case in CASES} == {".", "done", *ERRORS}


@pytest.mark.parametrize("case", CASES, ids=_id)
def test_outcome(case):
    name, winner_name, level = case
    mine, state = _mine_on_its_base(name, level)
    winner = _winner(winner_name)
    expected = outcome(*case)
    if expected in ERRORS:
        with pytest.raises(ERRORS[expected]) as raised:
            check(mine, winner, state)
        assert type(raised.value) is ERRORS[expected]
        if expected != "unsup":
            assert raised.value.winning_version == 1
            assert raised.value.winning_operation == winner_name
        return
    after = check(mine, winner, state)
    if expected == "done":
        assert after == AlreadyApplied(version=1)
    else:
        assert after.version == 1
        assert after.protocol == (winner.protocol or state.protocol)
        assert after.metadata == (winner.metadata or state.metadata)


RACED = [
    pytest.param(case, marks=[pytest.mark.long] if at % 3 else [])
    for at, case in enumerate(case for case in CASES if case[2] == "Serializable")
]
"""Every third is raced each day; a race runs the code that the verdicts above have judged."""


@pytest.mark.parametrize("case", RACED, ids=_id)
def test_outcome_in_a_race(case):
    """The winner takes the version after this writer prepared its commit, before it is put."""
    name, winner_name, level = case
    store = make_table()
    mine = replace(MINE[name], isolation=level)
    blind, actions = WINNERS[winner_name]
    seen = []

    def observer(phase, version):
        seen.append((phase, version))
        if (phase, version) == ("prepared", 1):
            put(store, 1, *actions, blind=blind, operation=winner_name)

    expected = outcome(*case)
    if expected in ERRORS:
        with pytest.raises(ERRORS[expected]):
            run(mine, store, observer=observer)
        assert versions(store) == [0, 1]
        assert seen == [("start", 1), ("prepared", 1), ("put", 1), ("lost", 1)]
    elif expected == "done":
        result = run(mine, store, observer=observer)
        assert (result.already_applied, result.version) == (True, 1)
        assert versions(store) == [0, 1]
    else:
        result = run(mine, store, observer=observer)
        assert (result.version, result.attempts, result.already_applied) == (2, 2, False)
        assert versions(store) == [0, 1, 2]
        assert info_of(store, 2)["txnId"] == mine.txn_id
        assert [a["path"] for a in actions_of(store, 2, "add")] == mine.adds["path"].to_pylist()
        base_of(store)  # still a table


def test_winners_are_checked_oldest_first():
    store = make_table()
    base = base_of(store)
    put(store, 1, *WINNERS["add-b"][1], blind=True, operation="harmless")
    put(store, 2, *WINNERS["alter"][1], blind=True, operation="first")
    put(store, 3, *WINNERS["rm-a"][1], blind=False, operation="second")
    with pytest.raises(ERRORS["meta"]) as raised:
        run(MINE["delete-a"], store, base)
    assert raised.value.winning_version == 2


def test_a_predicate_is_matched_by_partition_and_statistics_together():
    store = make_table()
    base = base_of(store)
    put(store, 1, ("add", add("other", "b", low=200, high=300)), blind=False)
    put(store, 2, ("add", add("low", "a", low=0, high=1)), blind=False)
    assert run(append(reads=reads("p = 'a' and x > 100", [])), store, base).version == 3


@pytest.mark.parametrize(
    ("fields", "level", "expected"),
    [
        pytest.param({}, "Serializable", "Serializable", id="an-append"),
        pytest.param(
            {"data_change": False, "adds": adds(add("n", change=False))},
            "Serializable",
            "SnapshotIsolation",
            id="a-move",
        ),
        pytest.param(
            {"data_change": True, "adds": adds(add("n", change=False))},
            "Serializable",
            "SnapshotIsolation",
            id="a-move-by-its-actions-alone",
        ),
        pytest.param(
            {"data_change": True, "adds": adds(add("n", change=False))},
            "WriteSerializable",
            "WriteSerializable",
            id="the-data-change-flag-of-the-operation-decides",
        ),
        pytest.param(
            {
                "data_change": False,
                "adds": adds(add("n", change=False)),
                "removes": removes(remove("fa", change=False)),
                "txns": MINE["txn-5"].txns,
            },
            "Serializable",
            "Serializable",
            id="a-move-with-other-actions",
        ),
    ],
)
def test_only_own_actions_lower_the_isolation(fields, level, expected):
    store = make_table()
    mine = replace(append(), isolation=level, **fields)
    assert effective_isolation(mine, _state(store, mine)) == expected


def test_the_isolation_level_is_a_table_property():
    store = make_table(metadata=with_properties(isolationLevel="WriteSerializable"))
    mine = append()
    assert effective_isolation(mine, _state(store, mine)) == "WriteSerializable"
    run(mine, store)
    assert info_of(store, 1)["isolationLevel"] == "WriteSerializable"
