from __future__ import annotations

import pytest

from lazydelta import Config, Table
from lazydelta.config import ScanStrategy
from lazydelta.errors import ColumnNotFoundError, ConfigError
from lazydelta.metrics import ScanFinished
from lazydelta.scan.plan.strategy import choose_strategy
from lazydelta.testing import TableBuilder
from tests.support import listed, memory_store


def chosen(asked="auto", **facts):
    defaults = {
        "limit": None, "tail_files": 0, "tail_commits": 1, "checkpoint_files": 1000,
        "forward_tail_commits": 100,
    }  # fmt: skip
    return choose_strategy(asked, **(defaults | facts)).strategy


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        pytest.param({"limit": 10}, "reverse", id="a-limit"),
        pytest.param({"limit": 10, "tail_commits": 5000}, "reverse", id="a-limit-and-a-long-tail"),
        pytest.param({"checkpoint_files": 0}, "reverse", id="no-checkpoint"),
        pytest.param({"tail_files": 501}, "reverse", id="a-tail-of-more-than-half"),
        pytest.param({"tail_files": 500}, "forward", id="a-tail-of-half"),
        pytest.param({"tail_commits": 101, "tail_files": 900}, "forward", id="F16-a-long-tail"),
        pytest.param({"checkpoint_files": None}, "forward", id="a-checkpoint-of-unknown-size"),
        pytest.param({}, "forward", id="a-full-scan"),
    ],
)
def test_STRAT_02_auto(facts, expected):
    assert chosen(**facts) == expected


def test_a_wish_is_granted():
    assert chosen("reverse") == "reverse"
    assert chosen("forward", limit=1, checkpoint_files=0) == "forward"


def test_STRAT_06_the_choice_and_its_reason_are_told():
    store = memory_store()
    TableBuilder(store).commit("+a").checkpoint().hint().commit("+b")
    scan = Table(store, Config()).scan(limit=1)
    assert scan.strategy == "reverse"
    assert "limit" in scan.explain()["plan"]["reason"]
    assert "reverse" in str(scan.explain())
    assert "reverse" in repr(scan)


@pytest.mark.parametrize("wish", [{"strategy": "sideways"}, {"limit": -1}])
def test_an_impossible_wish_is_refused(wish):
    store = memory_store()
    TableBuilder(store).commit("+a")
    with pytest.raises(ConfigError):
        Table(store, Config()).scan(**wish)


def test_a_column_that_is_not_there_is_refused():
    store = memory_store()
    TableBuilder(store).commit("+a")
    with pytest.raises(ColumnNotFoundError) as raised:
        Table(store, Config()).scan(columns=["idd"])
    assert "id" in str(raised.value)


def test_the_observer_hears_how_a_scan_ended():
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


def test_STRAT_01_the_enum_and_its_text_are_the_same():
    for strategy in ScanStrategy:
        assert strategy == str(strategy.value)
    assert [*ScanStrategy] == ["auto", "reverse", "forward"]
