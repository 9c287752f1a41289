"""Row groups of checkpoint files, and writes that fail."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lazydelta.checkpoint import tuning
from lazydelta.checkpoint.action_files import ActionFile
from lazydelta.checkpoint.checkpoint_writer import write_checkpoint
from lazydelta.errors import InternalError
from tests.builders import add
from tests.unit.checkpoint.checkpoint_cases import (
    NOW,
    SCHEMA,
    V2,
    built,
    expected_state,
    snapshot_of,
    state_of,
)

ADDS = 43


@pytest.fixture
def small_groups(monkeypatch):
    monkeypatch.setattr(tuning, "ROW_GROUP_ROWS", 4)
    monkeypatch.setattr(tuning, "SIDECAR_ROWS", 12)


def table_with_all_actions(configuration=None):
    """Return a store and a builder of a table with every kind of action, and with null fields."""
    store, builder = built(schema=SCHEMA, partition_by=["day"], configuration=configuration)
    for start in range(0, ADDS, 11):
        builder.commit(
            *(
                add(
                    f"day={at % 3}/{at}",
                    partition_values={"day": None if at % 3 == 2 else f"2026-01-0{1 + at % 3}"},
                    stats=None if at % 7 == 6 else _stats(at),
                    tags={"at": str(at)} if at % 5 == 0 else None,
                )
                for at in range(start, min(start + 11, ADDS))
            ),
            {"txn": {"appId": f"app{start}", "version": start}},
            {"domainMetadata": {"domain": f"d{start}", "configuration": "{}", "removed": False}},
        )
    builder.commit(*(f"-gone{at}" for at in range(6)))
    return store, builder


def _stats(at):
    bounds = {"id": at, "name": f"name {at}", "price": at / 4}
    return {"numRecords": at, "minValues": bounds, "maxValues": bounds, "nullCount": {"id": 0}}


def parquet_files(store):
    return [
        path
        for directory in ("_delta_log/", "_delta_log/_sidecars/")
        for batch in store.list_from(directory)
        for path in batch["path"].to_pylist()
        if path.endswith(".parquet")
    ]


@pytest.mark.parametrize("configuration", [None, V2], ids=["classic", "v2"])
def test_every_row_group_holds_one_kind_of_action(configuration, small_groups):
    store, builder = table_with_all_actions(configuration)
    write_checkpoint(snapshot_of(store), now_ms=NOW)
    groups = []
    for path in parquet_files(store):
        file = pq.ParquetFile(pa.BufferReader(bytes(store.read(path))))
        for at in range(file.num_row_groups):
            group = file.read_row_group(at)
            kinds = {name for name in ("add", "remove") if group[name].null_count < len(group)}
            groups.append(kinds)
            assert all(group[name].null_count == 0 for name in kinds)
            assert len(group) <= 4 or "add" not in kinds
    assert len(groups) >= 12
    assert all(len(kinds) <= 1 for kinds in groups)
    assert state_of(store) == expected_state(builder)


@pytest.mark.parametrize("configuration", [None, V2], ids=["classic", "v2"])
@pytest.mark.parametrize("kind", ["add", "remove"])
def test_a_failed_write_leaves_no_checkpoint(kind, configuration, small_groups, monkeypatch):
    store, builder = table_with_all_actions(configuration)
    append = ActionFile.append

    def failing(self, action, parts):
        if action == kind:
            raise MemoryError("no more memory")
        append(self, action, parts)

    monkeypatch.setattr(ActionFile, "append", failing)
    with pytest.raises(MemoryError, match="no more memory"):
        write_checkpoint(snapshot_of(store), now_ms=NOW)
    assert not [path for path in parquet_files(store) if "_sidecars" not in path]
    assert snapshot_of(store).segment.checkpoint is None
    monkeypatch.undo()
    write_checkpoint(snapshot_of(store), now_ms=NOW)
    assert state_of(store) == expected_state(builder)


@pytest.mark.parametrize("configuration", [None, V2], ids=["classic", "v2"])
def test_a_footer_with_wrong_counts_is_not_published(configuration, small_groups, monkeypatch):
    store, _ = table_with_all_actions(configuration)
    append = ActionFile.append

    def miscounting(self, action, parts):
        append(self, action, parts)
        self.rows += 1

    monkeypatch.setattr(ActionFile, "append", miscounting)
    with pytest.raises(InternalError, match="actions, but"):
        write_checkpoint(snapshot_of(store), now_ms=NOW)
    assert not parquet_files(store)
