"""`_last_checkpoint` is a hint: whatever is wrong with it costs a longer listing, never a row."""

from __future__ import annotations

import json

import pytest

from lazydelta import Config, Table
from lazydelta.testing import TableBuilder
from tests.bad_input.outcomes import read_rightly
from tests.support import memory_store

LIVE = [f"f{number}" for number in range(6)]
GOOD = {"version": 3, "size": 6, "numOfAddFiles": 4}


def built(**checkpoint):
    store = memory_store()
    table = TableBuilder(store)
    for name in LIVE:
        table.commit(f"+{name}")
    table.checkpoint(version=1).checkpoint(version=3, **checkpoint)
    return store, table


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"garbage", id="garbage"),
        pytest.param(b"\x00" * 100, id="NULs"),
        pytest.param(b"\xff\xfe", id="invalid-utf-8"),
        pytest.param(b"[]", id="an-array"),
        pytest.param(b"3", id="a-number"),
        pytest.param(b"{}", id="an-empty-object"),
        pytest.param(json.dumps(GOOD).encode()[:-5], id="torn"),
        pytest.param(json.dumps(GOOD | {"pad": "x" * (2 << 20)}).encode(), id="oversize"),
        pytest.param(b"[" * 200_000, id="a-depth-bomb"),
        pytest.param(b'{"version":' + b'{"a":' * 900 + b"1" + b"}" * 901, id="nested"),
        pytest.param(b'{"version":1,"version":3,"size":6}', id="duplicate-keys"),
        pytest.param(json.dumps(GOOD | {"checksum": "0" * 32}).encode(), id="a-wrong-checksum"),
        pytest.param(json.dumps(GOOD | {"checksum": 7}).encode(), id="a-checksum-that-is-a-number"),
        pytest.param(b'{"version":"3","size":6}', id="a-version-that-is-text"),
        pytest.param(b'{"version":true,"size":6}', id="a-version-that-is-true"),
        pytest.param(b'{"version":-1,"size":6}', id="a-negative-version"),
        pytest.param(b'{"version":3.0,"size":6}', id="a-version-that-is-a-float"),
        pytest.param(b'{"version":1e999,"size":6}', id="an-infinite-version"),
        pytest.param(b'{"version":18446744073709551616,"size":6}', id="two-to-the-64"),
        pytest.param(b'{"version":9223372036854775807,"size":6}', id="the-largest-version"),
        pytest.param(b'{"version":5,"size":6}', id="a-version-without-a-checkpoint"),
        pytest.param(b'{"version":2,"size":6}', id="between-two-checkpoints"),
        pytest.param(b'{"version":600,"size":6}', id="a-version-that-does-not-exist"),
        pytest.param(b'{"version":1,"size":6}', id="stale"),
        pytest.param(b'{"version":3,"size":6,"numOfAddFiles":-1}', id="a-negative-count"),
        pytest.param(b'{"version":3,"size":6,"numOfAddFiles":"many"}', id="a-count-that-is-text"),
        pytest.param(b'{"version":3,"size":6,"v2Checkpoint":[]}', id="a-v2-part-that-is-an-array"),
        pytest.param(b'{"version":3,"size":6,"parts":9}', id="parts-that-are-not-there"),
        pytest.param(json.dumps(GOOD).encode(), id="good"),
    ],
)
def test_a_bad_hint_costs_no_row(data):
    store, table = built()
    table.write("_last_checkpoint", data)
    read_rightly(store, LIVE)


@pytest.mark.parametrize(
    "v2",
    [
        {"path": 7},
        {"path": "x", "nonFileActions": [1]},
        {"path": "../../x", "nonFileActions": [{"protocol": 1}]},
        {"nonFileActions": {}},
    ],
)
def test_a_bad_v2_part_of_a_hint_costs_no_row(v2):
    store, table = built(kind="v2-json")
    table.hint(3, v2Checkpoint=v2)
    read_rightly(store, LIVE)


def test_what_a_hint_says_of_its_v2_checkpoint_is_parsed_as_strictly():
    store, table = built(kind="v2-json")
    name = next(name for name in table.names() if name.endswith(".json") and "checkpoint" in name)
    table.hint(3, v2Checkpoint={"path": name, "nonFileActions": [{"protocol": 1}]})
    read_rightly(store, LIVE)


def test_a_hint_is_found_without_a_checksum_and_with_one():
    for checksum in (True, False):
        store, table = built()
        table.hint(checksum=checksum)
        assert Table(store, Config()).snapshot().hint.version == 3


def test_F28_a_table_without_a_hint_is_read():
    store, table = built()
    assert "_last_checkpoint" not in table.names()
    read_rightly(store, LIVE)


def test_F18_commits_newer_than_the_hint_are_seen():
    store, table = built()
    table.hint(1).commit("+new -f0")
    read_rightly(store, [*LIVE[1:], "new"])


def test_a_hint_whose_checkpoint_is_gone_is_given_up_for_an_older_one():
    store, table = built()
    table.hint(3).delete(f"{3:020d}.checkpoint.parquet")
    read_rightly(store, LIVE)
    assert Table(store, Config()).snapshot().segment.base_version == 1


def test_a_hint_newer_than_the_version_asked_for_is_not_used():
    store, table = built()
    table.hint(3)
    snapshot = Table(store, Config()).snapshot(2)
    assert snapshot.segment.base_version == 1
    assert sorted(f.path for f in snapshot.scan().files()) == LIVE[:3]
