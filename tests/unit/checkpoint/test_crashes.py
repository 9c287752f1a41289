"""A writer that stops at any failpoint leaves the table readable and unchanged."""

from __future__ import annotations

import pytest

from lazydelta import Config, Table
from lazydelta._failpoints import FailpointError, arm
from lazydelta.checkpoint.checkpoint_writer import write_checkpoint
from lazydelta.checkpoint.hooks import post_commit_hooks
from lazydelta.checkpoint.log_compaction import compact_log
from lazydelta.log.checkpoints import read_hint
from lazydelta.protocol import SetTransaction
from lazydelta.snapshot import load_snapshot
from lazydelta.store import MemoryStore
from lazydelta.transaction import Transaction, commit
from tests.unit.checkpoint.checkpoint_cases import (
    NOW,
    V2,
    built,
    expected_state,
    snapshot_of,
    state_of,
)

CHECKPOINT_POINTS = (
    "checkpoint-part-written",
    "checkpoint-manifest-prepared",
    "checkpoint-published",
    "last-checkpoint-written",
)


@pytest.mark.parametrize(
    "configuration", [pytest.param({}, id="classic"), pytest.param(V2, id="v2")]
)
@pytest.mark.parametrize("point", CHECKPOINT_POINTS)
@pytest.mark.parametrize("local", [False, True])
def test_a_checkpoint_that_stops_halfway(configuration, point, local, tmp_path):
    target = Table.open(tmp_path)._store if local else MemoryStore()
    store, builder = built(target, configuration=configuration)
    builder.commit("+a +b !txn").commit("-a +c").checkpoint().hint().commit("+d -b")
    with arm(point, "raise") as passed, pytest.raises(FailpointError):
        write_checkpoint(snapshot_of(store), now_ms=NOW)
    assert passed[point] >= 1  # sidecars are written in parallel
    assert state_of(store) == expected_state(builder)
    has_hint = point == "last-checkpoint-written"
    assert read_hint(store).version == (2 if has_hint else 1)
    write_checkpoint(snapshot_of(store), now_ms=NOW)
    assert state_of(store) == expected_state(builder)
    assert (read_hint(store).version, snapshot_of(store).segment.base_version) == (2, 2)
    assert not [name for name in builder.names() if name.endswith(".tmp")]


@pytest.mark.parametrize("point", ["compaction-prepared", "compaction-written"])
def test_a_compaction_that_stops_halfway(point):
    store, builder = built()
    builder.commit("+a").commit("+b -a").commit("+c")
    with arm(point, "raise"), pytest.raises(FailpointError):
        compact_log(store, Config(), 1, 2)
    assert state_of(store) == expected_state(builder)
    compact_log(store, Config(), 1, 2)
    assert len(snapshot_of(store).segment.tail) == 2
    assert state_of(store) == expected_state(builder)


@pytest.mark.parametrize(
    "point", ["checksum-prepared", "checksum-written", *CHECKPOINT_POINTS, "compaction-prepared"]
)
def test_a_failed_hook_is_a_warning_on_a_successful_commit(point):
    configuration = {
        "delta.checkpointInterval": "2",
        "lazydelta.logCompactionInterval": "3",
    }
    store, builder = built(configuration=configuration)
    builder.commit("+a").commit("+b")
    config = Config()
    warnings = []
    with arm(point, "raise"):
        for step in (1, 2):
            done = commit(
                Transaction(operation="X", txns=(SetTransaction(app_id="x", version=step),)),
                store=store,
                config=config,
                base=load_snapshot(store, config),
                hooks=post_commit_hooks(config),
            )
            warnings += done.warnings
            assert done.version == step + 1
    assert len(warnings) == 1
    hooks = ("write_checksum", "checkpoint_after", "compact_after")
    assert any(hook in warnings[0] for hook in hooks), warnings
    found = load_snapshot(store, config)
    assert (found.version, found.transactions()["x"].version) == (3, 2)
