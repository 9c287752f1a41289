from __future__ import annotations

import pytest

from lazydelta import Config, Table
from lazydelta.config import ScanStrategy
from lazydelta.errors import ColumnNotFoundError, ConfigError
from lazydelta.metrics import ScanFinished
from lazydelta.scan.plan.strategy import choose_strategy
from tests.builders import TableBuilder
from tests.support import listed, memory_store


def chosen(requested="auto", **inputs):
    defaults = {
        "limit": None, "tail_files": 0, "tail_commits": 1, "checkpoint_files": 1000,
        "forward_tail_commits": 100,
    }  # fmt: skip
    return choose_strategy(requested, **(defaults | inputs)).strategy


@pytest.mark.parametrize(
    ("inputs", "expected"),
    [
        pytest.param({"limit": 10}, "reverse", id="a-limit"),
        pytest.param({"limit": 10, "tail_commits": 5000}, "reverse", id="a-limit-and-a-long-tail"),
        pytest.param({"checkpoint_files": 0}, "reverse", id="no-checkpoint"),
        pytest.param({"tail_files": 501}, "reverse", id="a-tail-of-more-than-half"),
        pytest.param({"tail_files": 500}, "forward", id="a-tail-of-half"),
        pytest.param({"tail_commits": 101, "tail_files": 900}, "forward", id="a-long-tail"),
        pytest.param({"checkpoint_files": None}, "forward", id="a-checkpoint-of-unknown-size"),
        pytest.param({}, "forward", id="a-full-scan"),
    ],
)
def test_auto_strategy(inputs, expected):
    assert chosen(**inputs) == expected


def test_an_explicit_strategy_is_used():
    assert chosen("reverse") == "reverse"
    assert chosen("forward", limit=1, checkpoint_files=0) == "forward"


def test_explain_has_strategy_and_reason():
    store = memory_store()
    TableBuilder(store).commit("+a").checkpoint().hint().commit("+b")
    scan = Table(store, Config()).scan(limit=1)
    assert scan.strategy == "reverse"
    assert "limit" in scan.explain()["plan"]["reason"]
    assert "reverse" in str(scan.explain())
    assert "reverse" in repr(scan)


@pytest.mark.parametrize("arguments", [{"strategy": "sideways"}, {"limit": -1}])
def test_invalid_scan_arguments_are_refused(arguments):
    store = memory_store()
    TableBuilder(store).commit("+a")
    with pytest.raises(ConfigError):
        Table(store, Config()).scan(**arguments)


def test_an_unknown_column_is_refused():
    store = memory_store()
    TableBuilder(store).commit("+a")
    with pytest.raises(ColumnNotFoundError) as raised:
        Table(store, Config()).scan(columns=["idd"])
    assert "id" in str(raised.value)


def test_the_observer_receives_complete_and_closed_scans():
    store = memory_store()
    many = " ".join(f"+f{number}" for number in range(99))
    TableBuilder(store).commit(f"+a {many}").checkpoint(row_group_rows=5).commit("-a")
    events = []
    table = Table(store, Config(observer=events.append, batch_rows=1, prefetch_batches=1))
    listed(table.scan(strategy="reverse"))
    with table.scan(limit=None, strategy="forward").files() as files:
        next(files)
    whole, left = [event for event in events if isinstance(event, ScanFinished)]
    assert (whole.complete, whole.strategy) == (True, "reverse")
    assert whole.metrics["delta.lazy.files_emitted"] == 99
    assert whole.metrics["delta.lazy.remove_set_size"] == 1
    assert whole.metrics["delta.lazy.time_to_first_file_ms"] > 0
    assert (left.complete, left.strategy) == (False, "forward")


def test_strategy_enum_equals_its_name():
    for strategy in ScanStrategy:
        assert strategy == str(strategy.value)
    assert [*ScanStrategy] == ["auto", "reverse", "forward"]
