"""Post-commit hooks, and how `Config` and table properties control them."""

from __future__ import annotations

import pyarrow as pa
import pytest
from click.testing import CliRunner

import lazydelta as ld
from lazydelta import Config, Table
from lazydelta.checkpoint.hooks import post_commit_hooks
from lazydelta.cli.main import main
from lazydelta.protocol import SetTransaction
from lazydelta.snapshot import load_snapshot
from lazydelta.store import MemoryStore
from lazydelta.transaction import Transaction, commit
from tests.unit.checkpoint.checkpoint_cases import built


def committed(store, count=1, config=None):
    config = config or Config()
    for _ in range(count):
        now = load_snapshot(store, config).version
        commit(
            Transaction(operation="X", txns=(SetTransaction(app_id="x", version=now),)),
            store=store,
            config=config,
            base=load_snapshot(store, config),
            hooks=post_commit_hooks(config),
        )


@pytest.mark.parametrize(
    ("properties", "versions"),
    [
        pytest.param({}, [10, 20], id="every-ten-commits"),
        pytest.param({"delta.checkpointInterval": "4"}, [4, 8, 12, 16, 20], id="by-property"),
        pytest.param({"delta.checkpointInterval": "100"}, [], id="not-due"),
    ],
)
def test_checkpoints_are_written_when_due(properties, versions):
    store, builder = built(configuration=properties)
    builder.commit("+a")
    committed(store, 21)
    names = [name for name in builder.names() if "checkpoint.parquet" in name]
    assert [int(name[:20]) for name in names] == versions


def test_compactions_follow_the_table_property():
    properties = {"delta.checkpointInterval": "6", "lazydelta.logCompactionInterval": "3"}
    store, builder = built(configuration=properties)
    builder.commit("+a")
    committed(store, 9)
    found = [name for name in builder.names() if "compacted" in name]
    assert [(int(name[:20]), int(name[21:41])) for name in found] == [(1, 3), (7, 9)]
    assert len(load_snapshot(store, Config()).segment.tail) == 1


@pytest.mark.parametrize(
    ("setting", "kind"), [("write_checksums", ".crc"), ("write_checkpoints", ".checkpoint.")]
)
def test_config_disables_hooks(setting, kind):
    store, builder = built(configuration={"delta.checkpointInterval": "2"})
    builder.commit("+a")
    committed(store, 3, Config(**{setting: False}))
    assert not [name for name in builder.names() if kind in name]
    committed(store, 3)
    assert [name for name in builder.names() if kind in name]


def test_an_invalid_property_is_a_warning():
    store, builder = built(configuration={"delta.checkpointInterval": "often"})
    builder.commit("+a")
    config = Config()
    done = commit(
        Transaction(operation="X"),
        store=store,
        config=config,
        base=load_snapshot(store, config),
        hooks=post_commit_hooks(config),
    )
    assert done.version == 1
    assert any("delta.checkpointInterval" in warning for warning in done.warnings)


def test_writes_run_all_hooks(tmp_path):
    table = Table.create(tmp_path, "id bigint", properties={"delta.checkpointInterval": "3"})
    for number in range(4):
        ld.write(table, pa.table({"id": [number]}), mode="append")
    names = [path.name for path in sorted((tmp_path / "_delta_log").iterdir())]
    assert [n for n in names if n.endswith(".crc")] == [f"{v:020d}.crc" for v in range(5)]
    assert "00000000000000000003.checkpoint.parquet" in names
    assert table.check().checksum.status == "matches"
    assert sorted(table.to_arrow()["id"].to_pylist()) == [0, 1, 2, 3]


def test_the_checkpoint_command(tmp_path):
    built(str(tmp_path))[1].commit("+a +b").commit("-a").commit("+c")
    run = CliRunner().invoke(main, ["checkpoint", str(tmp_path), "--json"])
    assert run.exit_code == 0, run.output
    assert '"adds": 2' in run.output.replace('"adds":2', '"adds": 2')
    assert (tmp_path / "_delta_log/00000000000000000002.checkpoint.parquet").exists()
    run = CliRunner().invoke(main, ["checkpoint", str(tmp_path), "--compact", "0", "2"])
    assert run.exit_code == 0, run.output
    assert "compacted.json" in run.output
    run = CliRunner().invoke(
        main, ["checkpoint", str(tmp_path), "--compact", "0", "2", "--version", "1"]
    )
    assert run.exit_code == 2


def test_an_empty_table_gets_a_checkpoint():
    store, builder = built()
    builder.commit()
    committed(store, 10)
    assert isinstance(store, MemoryStore)
    assert load_snapshot(store, Config()).segment.base_version == 10
