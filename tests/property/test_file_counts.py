"""Scanned plus pruned files equal the files of the version, for every query."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lazydelta import Config, Table
from tests.builders import TableBuilder, add
from tests.builders.strategies import histories
from tests.support import examples, listed, memory_store
from tests.unit.scan.read.tables import Rows, field

WHERE = st.sampled_from(
    [None, "id < 3", "id = 7", "id between 2 and 5", "id > 100", "id is null", "p = 1", "p is null",
     "not p = 1", "p = 0 and id > 4", "1 = 0"]
)  # fmt: skip


def with_facts(action):
    """Return an action with statistics and a partition value derived from the file name."""
    if "add" not in action:
        return action
    name = action["add"]["path"]
    number = int("".join(filter(str.isdigit, name)) or 0)
    low, high = number % 10, number % 10 + number % 3
    stats = {
        "numRecords": 3,
        "minValues": {"id": low},
        "maxValues": {"id": high},
        "nullCount": {"id": 0},
    }
    value = {"p": None if number % 4 == 3 else str(number % 2)}
    extra = add(name, stats=stats if number % 5 else None, partition_values=value)["add"]
    return {"add": {**extra, **{k: v for k, v in action["add"].items() if k == "deletionVector"}}}


def built(history):
    """Write the table of a history, with statistics and partition values."""
    plain = memory_store()
    actions = history.build(plain).commits
    store = memory_store()
    table = TableBuilder(store, schema={"id": "long", "p": "integer"}, partition_by=["p"])
    for version in sorted(actions):
        kept = [
            with_facts(action)
            for action in actions[version]
            if not {"commitInfo", "protocol", "metaData"} & set(action)
        ]
        table.commit(*kept, version=version)
    layout = history.layout
    for at, kind, parts, rows in layout.checkpoints:
        table.checkpoint(
            kind, version=at, parts=parts, row_group_rows=rows, stats_parsed=bool(rows % 2)
        )
    for first, last in layout.compactions:
        table.compact(first, last)
    for version in layout.checksums:
        table.crc(version)
    return store


def check_sum(scan, live):
    """Check `explain` of a finished scan."""
    files = scan.explain()["files"]
    if files["pruned"] is None:
        assert scan.explain()["plan"]["file_limit"] is not None
        assert scan.snapshot.num_files is None
        assert "whole log" in files["pruned_unknown"]
        assert "pruned unknown" in str(scan.explain())
        return False
    assert files["scanned"] + files["pruned"] == live
    assert files["in_snapshot"] == live
    assert min(files["scanned"], files["pruned"]) >= 0
    return True


@examples(75, long=150)
@given(
    history=histories(others=False),
    where=WHERE,
    strategy=st.sampled_from(["reverse", "forward"]),
    tripwire=st.sampled_from(["protocol", "strict"]),
    limit=st.none() | st.integers(0, 6),
)
def test_plans_of_random_histories(history, where, strategy, tripwire, limit):
    config = Config(batch_rows=2, tripwire=tripwire, checkpoint_row_groups_per_batch=1)
    scan = Table(built(history), config).scan(where, strategy=strategy)
    found = listed(scan, limit)
    has_total = check_sum(scan, len(history.live))
    assert has_total or limit is not None
    assert scan.explain()["files"]["scanned"] == len(found)


def superseded_in_pruned_row_groups(store):
    """A checkpoint of ten row groups; commits remove files from row groups that a filter skips."""
    table = TableBuilder(store, schema={"id": "long", "p": "integer"}, partition_by=["p"])
    table.commit(*(with_facts(add(f"f{number}")) for number in range(20)))
    table.checkpoint("classic", row_group_rows=2, stats_parsed=True)
    table.commit("-f1 -f3 -f18").commit(with_facts(add("f5")), with_facts(add("f77")))
    return table


@pytest.mark.parametrize("strategy", ["reverse", "forward"])
def test_superseded_files_in_pruned_row_groups_are_not_counted(strategy):
    store = memory_store()
    live = superseded_in_pruned_row_groups(store).live()
    scan = Table(store, Config()).scan("id > 8", strategy=strategy)
    assert scan.explain()["files"]["pruned"] is None
    assert "not run" in scan.explain()["files"]["pruned_unknown"]
    listed(scan)
    assert scan.explain(count_files=False)["checkpoint"]["row_groups_read"] < 10
    assert "files_pruned" not in scan.metrics  # only counted on request
    assert scan.explain(count_files=False)["files"]["pruned"] is None
    assert check_sum(scan, len(live))
    assert scan.metrics["files_pruned"] == scan.explain()["files"]["pruned"]


def test_a_checksum_provides_the_count_even_with_a_limit():
    store = memory_store()
    live = superseded_in_pruned_row_groups(store).crc().live()
    scan = Table(store, Config()).scan()
    assert len(listed(scan, limit=2)) == 2
    assert check_sum(scan, len(live))
    assert scan.explain(count_files=False)["files"]["pruned"] == len(live) - 2


def test_a_checksum_with_too_few_files_is_ignored():
    store = memory_store()
    TableBuilder(store).commit("+a +b +c").checkpoint().commit("+d").crc(numFiles=1)
    scan = Table(store, Config()).scan()
    listed(scan, limit=2)
    files = scan.explain()["files"]
    assert files["pruned"] is None
    assert "checksum" in files["pruned_unknown"]


def test_counting_for_explain_does_not_notify_the_observer():
    store, events = memory_store(), []
    superseded_in_pruned_row_groups(store)
    scan = Table(store, Config(observer=events.append)).scan("id > 8")
    listed(scan)
    before = [event for event in events if type(event).__name__ == "ScanFinished"]
    assert scan.explain()["files"]["pruned"] is not None
    assert [e for e in events if type(e).__name__ == "ScanFinished"] == before


# --- reads and answers


@pytest.fixture
def rows(tmp_path):
    """Twelve files in four partitions, one of them null; every second one with statistics."""
    made = Rows(
        tmp_path / "t", [field("id", "long"), field("p", "integer")], partition_columns=["p"]
    )
    for at in range(12):
        low = 10 * at
        stats = f'{{"numRecords":10,"minValues":{{"id":{low}}},"maxValues":{{"id":{low + 9}}}}}'
        value = None if at % 4 == 3 else str(at % 4)
        made.file(
            f"{at}.parquet", pa.table({"id": np.arange(low, low + 10)}),
            partition={"p": value}, action={"stats": stats} if at % 2 else {},
        )  # fmt: skip
    return made


@pytest.mark.parametrize(
    ("where", "scanned"),
    [
        pytest.param(None, 12, id="all"),
        pytest.param("id < 20", 7, id="statistics"),
        pytest.param("p = 1", 3, id="a-partition"),
        # The plan keeps files with a NULL partition value; the reader does not open them.
        pytest.param("not p = 1", 6, id="null-is-no-match"),
        pytest.param("p = 1 and id > 95", 1, id="both"),
        pytest.param("1 = 0", 0, id="nothing"),
    ],
)
def test_reads_and_aggregates(rows, where, scanned):
    table = rows.open()
    for ask in (lambda scan: scan.to_arrow(), lambda scan: scan.count()):
        scan = table.scan(where)
        ask(scan)
        assert check_sum(scan, 12)
        assert scan.explain()["files"]["scanned"] == scanned
    scan = table.scan(where)
    scan.min_max("id")
    assert check_sum(scan, 12)


def test_a_read_with_a_limit_counts_opened_files(rows):
    scan = rows.open().scan(limit=15)
    assert scan.to_arrow().num_rows == 15
    files = scan.explain()["files"]
    assert files["scanned"] < 12
    if files["pruned"] is None:  # planning may or may not have ended before the scan stopped
        assert "whole log" in files["pruned_unknown"]
    else:
        assert files["scanned"] + files["pruned"] == 12
