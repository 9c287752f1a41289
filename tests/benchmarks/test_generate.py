"""The synthetic tables are valid Delta tables with exactly the generated files."""

from __future__ import annotations

import hashlib
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lazydelta
from benchmarks.actions import add_column
from benchmarks.columns import FileColumns
from benchmarks.generate import expected_facts, generate, main
from benchmarks.spec import CHECKPOINT_VERSION, TableSpec
from benchmarks.tail import live_indices

SPECS = {
    "defaults": TableSpec(),
    "tail": TableSpec(tail=10, tail_adds=100),
    "long-tail": TableSpec(tail=99, tail_adds=40, crc=True),
    "vectors": TableSpec(tail=10, tail_adds=100, deletion_vectors=True, crc=True),
    "hash-ordered-with-tombstones": TableSpec(clustered=False, removes=3000, row_group_rows=4096),
    "one-huge-row-group": TableSpec(row_group_rows=1 << 20, metadata_last=True),
    "no-parsed-statistics": TableSpec(parsed_stats=False),
    "no-json-statistics": TableSpec(json_stats=False),
    "unpartitioned": TableSpec(partition_levels=0, tail=2, tail_adds=100),
    "two-levels": TableSpec(partition_levels=2, tail=2, tail_adds=100),
    "multi-part": TableSpec(kind="multipart", parts=3, metadata_last=True),
    "sidecars": TableSpec(kind="v2", tail=3, tail_adds=100, deletion_vectors=True),
}


@pytest.fixture(scope="module", params=SPECS.values(), ids=SPECS.keys())
def table(request, tmp_path_factory):
    where = tmp_path_factory.mktemp("bench") / "table"
    generate(request.param, where)
    return request.param, where


@pytest.mark.sample(3)
def test_deltalake_lists_the_expected_files(table):
    deltalake = pytest.importorskip("deltalake")
    spec, where = table
    delta = deltalake.DeltaTable(where)
    actions = pa.table(delta.get_add_actions(flatten=True))
    facts = json.loads((where / "expected.json").read_text())
    assert delta.version() == facts["version"] == spec.last_version
    assert actions.num_rows == facts["live_files"]
    assert sum(actions["size_bytes"].to_pylist()) == facts["live_bytes"]
    live = FileColumns(spec, live_indices(spec))
    assert sorted(actions["path"].to_pylist()) == sorted(live.path.to_pylist())
    if spec.partition_levels:
        on_day = delta.file_uris(file_pruning_predicate=[("date", "=", "2026-03-01")])
        assert len(on_day) == facts["files_on_filter_day"] > 0


@pytest.mark.sample(3)
@pytest.mark.parametrize("strategy", ["reverse", "forward"])
def test_lazydelta_lists_the_expected_files(table, strategy):
    spec, where = table
    facts = json.loads((where / "expected.json").read_text())
    delta = lazydelta.Table.open(str(where))
    files = pa.Table.from_batches(delta.scan(strategy=strategy).file_batches())
    live = FileColumns(spec, live_indices(spec))
    assert sorted(files["path"].to_pylist()) == sorted(live.path.to_pylist())
    assert sum(files["size"].to_pylist()) == facts["live_bytes"]
    on_day = delta.scan(where="date = '2026-03-01'", strategy=strategy).file_batches()
    expected = facts["files_on_filter_day"] if spec.partition_levels else facts["live_files"]
    assert sum(batch.num_rows for batch in on_day) == expected
    nothing = delta.scan(where="id < -1", strategy=strategy).file_batches()
    assert sum(batch.num_rows for batch in nothing) == 0


def test_row_groups_have_the_requested_size(table):
    spec, where = table
    for path in sorted((where / "_delta_log").rglob("*.parquet")):
        groups = pq.ParquetFile(path).metadata
        rows = [groups.row_group(n).num_rows for n in range(groups.num_row_groups)]
        assert all(n == spec.row_group_rows for n in rows[:-1])
        assert 0 < rows[-1] <= spec.row_group_rows


def test_generation_is_deterministic(tmp_path):
    spec = TableSpec(files=2000, tail=3, tail_adds=40, deletion_vectors=True, crc=True)
    digests = []
    for name in ("one", "two"):
        generate(spec, tmp_path / name)
        log = sorted(p for p in (tmp_path / name).rglob("*") if p.is_file())
        digests.append([(p.name, hashlib.sha256(p.read_bytes()).hexdigest()) for p in log])
    assert digests[0] == digests[1]


def test_parsed_and_json_statistics_agree():
    spec = TableSpec(deletion_vectors=True)
    index = FileColumns(spec, live_indices(spec)[:500])
    adds = add_column(index).to_pylist()
    assert any(add["deletionVector"] for add in adds)
    for add in adds:
        stats, parsed = json.loads(add["stats"]), add["stats_parsed"]
        assert stats["numRecords"] == parsed["numRecords"]
        assert stats["nullCount"] == parsed["nullCount"]
        assert (
            stats.get("tightBounds", True) == parsed["tightBounds"] == (not add["deletionVector"])
        )
        for bound in ("minValues", "maxValues"):
            moment = parsed[bound].pop("ts").isoformat(timespec="milliseconds")
            assert stats[bound].pop("ts") == moment.replace("+00:00", "Z")
            assert stats[bound] == parsed[bound]
        for column, low in stats["minValues"].items():
            assert low <= stats["maxValues"][column]
        assert dict(add["partitionValues"]) == {
            "date": add["partitionValues_parsed"]["date"].isoformat()
        }
        assert add["path"].startswith(f"date={dict(add['partitionValues'])['date']}/part-")


def test_commits_remove_restore_and_replace_files(tmp_path):
    spec = TableSpec(tail=2, tail_adds=100, deletion_vectors=True)
    generate(spec, tmp_path / "t")
    last = tmp_path / "t" / "_delta_log" / f"{CHECKPOINT_VERSION + 2:020d}.json"
    actions = [json.loads(line) for line in last.read_text().splitlines()]
    adds = [a["add"] for a in actions if "add" in a]
    removes = [a["remove"] for a in actions if "remove" in a]
    assert (len(adds), len(removes)) == (100 + 2 + 5 + 5, 10 + 5)
    vectors = {add["path"]: add.get("deletionVector") for add in adds}
    swapped = [r for r in removes if r["path"] in vectors]
    assert len(swapped) == 5
    assert all(r.get("deletionVector") != vectors[r["path"]] for r in swapped)
    assert expected_facts(spec)["live_files"] == 10_000 + 200 - 20 + 2


@pytest.mark.parametrize(
    "knobs",
    [
        pytest.param({"files": 0}, id="no-files"),
        pytest.param({"files": 9_000_000}, id="too-many-files"),
        pytest.param({"files": 100, "tail": 10}, id="a-tail-that-touches-all"),
        pytest.param({"kind": "v3"}, id="an-unknown-kind"),
        pytest.param({"tail": -1}, id="a-negative-tail"),
    ],
)
def test_invalid_parameters_are_refused(knobs):
    with pytest.raises(ValueError, match=r"must|at most|shorten"):
        TableSpec(**knobs)


def test_the_command_creates_a_table_once(tmp_path, capsys):
    out = tmp_path / "t"
    main([str(out), "--files", "500", "--no-json-stats", "--kind", "multipart"])
    facts = json.loads(capsys.readouterr().out)
    assert facts["live_files"] == 500
    assert len(list(out.rglob("*.checkpoint.*.parquet"))) == 4
    with pytest.raises(SystemExit):
        main([str(out), "--files", "500"])
    assert "--force" in capsys.readouterr().err
