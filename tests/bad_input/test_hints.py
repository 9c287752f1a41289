"""An invalid `_last_checkpoint` costs a longer listing, never a file."""

from __future__ import annotations

import json

import pytest

from lazydelta import Config, Table
from tests.bad_input.outcomes import read_rightly
from tests.builders import TableBuilder
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


@pytest.mark.sample(3)
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
def test_an_invalid_hint_loses_no_file(data):
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
def test_an_invalid_v2_hint_loses_no_file(v2):
    store, table = built(kind="v2-json")
    table.hint(3, v2Checkpoint=v2)
    read_rightly(store, LIVE)


def test_the_v2_fields_of_a_hint_are_validated():
    store, table = built(kind="v2-json")
    name = next(name for name in table.names() if name.endswith(".json") and "checkpoint" in name)
    table.hint(3, v2Checkpoint={"path": name, "nonFileActions": [{"protocol": 1}]})
    read_rightly(store, LIVE)


def test_the_checksum_of_a_hint_is_optional():
    for checksum in (True, False):
        store, table = built()
        table.hint(checksum=checksum)
        assert Table(store, Config()).snapshot().hint.version == 3


def test_a_table_without_a_hint_is_read():
    store, table = built()
    assert "_last_checkpoint" not in table.names()
    read_rightly(store, LIVE)


def test_commits_newer_than_the_hint_are_read():
    store, table = built()
    table.hint(1).commit("+new -f0")
    read_rightly(store, [*LIVE[1:], "new"])


def test_a_hint_to_a_missing_checkpoint_falls_back_to_an_older_one():
    store, table = built()
    table.hint(3).delete(f"{3:020d}.checkpoint.parquet")
    read_rightly(store, LIVE)
    assert Table(store, Config()).snapshot().segment.base_version == 1


def test_a_hint_newer_than_the_requested_version_is_ignored():
    store, table = built()
    table.hint(3)
    snapshot = Table(store, Config()).snapshot(2)
    assert snapshot.segment.base_version == 1
    assert sorted(f.path for f in snapshot.scan().files()) == LIVE[:3]
