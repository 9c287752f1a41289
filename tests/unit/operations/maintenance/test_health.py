"""Health: facts of the log, and the verdict that each of them deserves."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

import lazydelta as ld
from lazydelta.operations.maintenance import SEVERITIES, tuning
from lazydelta.testing import TableBuilder
from lazydelta.testing.log_actions import add
from tests.aged_tables import backdate
from tests.maintained_tables import VECTORS, make, rows

OLD_MS = 1_700_000_000_000
MIB = 1 << 20


def finding(report, check):
    (found,) = [one for one in report.findings if one.check == check]
    return found


def build(directory, *adds, **options):
    return TableBuilder(directory, **options).commit(*adds)


def stats(low=0, high=9, **more):
    return {"numRecords": 10, "minValues": {"id": low}, "maxValues": {"id": high}, **more}


def test_a_new_table_is_healthy(tmp_path):
    table = ld.Table.create(tmp_path / "t", "id bigint")
    report = table.health()
    assert report.severity == "ok"
    assert report.facts["files"]["count"] == 0
    json.dumps(report.to_dict())


def test_findings_are_sorted_by_severity_and_each_has_a_cure(tmp_path):
    table = make(tmp_path / "t", VECTORS)
    for number in range(5):
        table.write(rows(10 * number))
    report = table.health()
    order = [SEVERITIES.index(one.severity) for one in report.findings]
    assert order == sorted(order, reverse=True)
    assert all(one.cure for one in report.findings if one.severity != "ok")
    assert report.facts["files"]["rows"] == 24
    plan = report.facts["plan"]
    assert 0 <= plan["seconds_after_optimize"] <= plan["replay_seconds"] > 0
    assert plan["files_after_optimize"] <= report.facts["files"]["count"]


@pytest.mark.parametrize(
    ("sizes", "severity"),
    [
        ([MIB] * 200, "warning"),
        ([MIB] * 5, "advice"),
        ([MIB], "ok"),
        ([128 * MIB] * 10 + [MIB], "ok"),
    ],
)
def test_small_files(tmp_path, sizes, severity):
    build(tmp_path, *(add(f"{n}", stats=stats(), size=size) for n, size in enumerate(sizes)))
    report = ld.Table.open(tmp_path).health()
    assert finding(report, "small files").severity == severity
    assert report.facts["files"]["bytes"] == sum(sizes)
    assert sum(report.facts["files"]["sizes"].values()) == len(sizes)


def test_too_many_partitions(tmp_path, monkeypatch):
    monkeypatch.setattr(tuning, "PARTITION_ROWS", 10)  # partitions are joined on the way
    files = [f"+p={n}/{letter}" for n in range(150) for letter in "ab"]
    build(tmp_path, " ".join(files), schema={"id": "long", "p": "string"}, partition_by=["p"])
    report = ld.Table.open(tmp_path).health()
    assert report.facts["partitions"]["count"] == 150
    assert report.facts["partitions"]["average_files"] == 2.0
    assert finding(report, "partitioning").severity == "warning"


def test_a_partition_that_is_much_larger(tmp_path):
    schema = {"id": "long", "p": "string"}
    sizes = {"a": 2 << 40, "b": 1 << 31, "c": 1 << 31}
    adds = [add(f"p={p}/x", partition_values={"p": p}, size=size) for p, size in sizes.items()]
    build(tmp_path, *adds, schema=schema, partition_by=["p"])
    found = finding(ld.Table.open(tmp_path).health(), "partitioning")
    assert found.severity == "advice"
    assert "{'p': 'a'}" in found.message


def test_files_without_statistics(tmp_path):
    build(tmp_path, add("a"), add("b"), add("c", stats=stats()))
    report = ld.Table.open(tmp_path).health()
    assert finding(report, "statistics").severity == "warning"
    assert report.facts["statistics"]["columns_with_bounds"] == {"id": 1.0}
    assert report.facts["files"]["rows"] is None


@pytest.mark.parametrize(
    ("bounds", "depth", "severity"),
    [
        ([(10 * n, 10 * n + 9) for n in range(40)], 1.0, "ok"),
        ([(0, 100)] * 40, 40.0, "warning"),
        ([(10 * (n // 15), 10 * (n // 15)) for n in range(60)], 15.0, "advice"),
        ([(None, None)] * 40, 40.0, "warning"),
    ],
)
def test_overlap_of_clustering_columns(tmp_path, bounds, depth, severity):
    features = ["clustering", "domainMetadata"]
    protocol = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": features}
    domain = {
        "domain": "delta.clustering",
        "configuration": json.dumps({"clusteringColumns": [["id"]]}),
        "removed": False,
    }
    adds = [
        add(f"{n}", stats=stats(low, high) if low is not None else None, size=128 * MIB)
        for n, (low, high) in enumerate(bounds)
    ]
    build(tmp_path, {"domainMetadata": domain}, *adds, protocol=protocol)
    report = ld.Table.open(tmp_path).health()
    assert report.facts["clustering"]["overlap_depth"] == {"id": depth}
    assert finding(report, "clustering").severity == severity


def test_the_overlap_depth_is_that_of_optimize(tmp_path):
    mapping = {"delta.columnMapping.mode": "name"}
    table = ld.Table.create(
        tmp_path, "id bigint, s struct<b: string>", cluster_by=["id", "s.b"], properties=mapping
    )
    assert table.health().facts["clustering"]["overlap_depth"] == {}  # it has no files
    for start in (0, 3, 20, 40):
        values = [{"b": f"key-{n % 30 + 10}"} for n in range(start, start + 10)]
        table.write(pa.table({"id": list(range(start, start + 10)), "s": values}))
    facts = table.health().facts["clustering"]
    assert facts["columns"] == ["id", "s.b"]
    assert facts["overlap_depth"] == table.optimize().quality["before"]
    assert facts["overlap_depth"]["id"] == 1.5  # the first two files overlap


def test_a_clustering_column_that_is_a_struct_has_no_bounds(tmp_path):
    features = ["clustering", "domainMetadata"]
    protocol = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": features}
    columns = json.dumps({"clusteringColumns": [["s"]]})
    domain = {"domain": "delta.clustering", "configuration": columns, "removed": False}
    field = {"name": "b", "type": "long", "nullable": True, "metadata": {}}
    schema = {"s": {"type": "struct", "fields": [field]}}
    build(tmp_path, {"domainMetadata": domain}, add("a"), protocol=protocol, schema=schema)
    facts = ld.Table.open(tmp_path).health().facts["clustering"]
    assert facts["overlap_depth"] == {"s": 1.0}


def test_deletion_vectors(tmp_path):
    table = make(tmp_path / "t", VECTORS)
    table.write(rows(0, 10), mode="overwrite")
    table.delete("id < 3")
    report = table.health()
    assert report.facts["deletion_vectors"] == {
        "files": 1,
        "file_share": 1.0,
        "deleted_rows": 3,
        "row_share": 0.3,
    }
    assert finding(report, "deletion vectors").cure == "table.purge()"


@pytest.mark.parametrize("checkpointed", [False, True])
def test_dead_files(tmp_path, checkpointed):
    table = make(tmp_path / "t", {"delta.deletedFileRetentionDuration": "interval 1 days"})
    table.write(rows(10), mode="overwrite")
    table.write(rows(10), mode="overwrite")
    if checkpointed:
        table.checkpoint()
    else:
        backdate(table, hours=24 * 5)
    report = table.health()
    assert report.facts["tombstones"]["count"] == 2
    assert report.facts["tombstones"]["expired"] == (0 if checkpointed else 2)
    assert finding(report, "dead files").severity == ("ok" if checkpointed else "warning")


def test_an_old_log_and_a_long_tail(tmp_path):
    builder = TableBuilder(tmp_path)
    for version in range(120):
        builder.commit(f"+{version}", at_ms=OLD_MS + version)
    report = ld.Table.open(tmp_path).health()
    assert finding(report, "checkpoint").severity == "warning"
    assert finding(report, "log").cure == "table.cleanup_log()"
    ld.Table.open(tmp_path).checkpoint()
    report = ld.Table.open(tmp_path).health()
    assert finding(report, "checkpoint").severity == "ok"
    assert report.facts["checkpoint"]["version"] == 119


@pytest.mark.parametrize("v2", [False, True])
def test_the_shape_of_the_checkpoint(tmp_path, v2):
    table = make(tmp_path / "t", {"delta.checkpointPolicy": "v2"} if v2 else {})
    table.checkpoint()
    shape = table.health().facts["checkpoint"]
    assert (shape["kind"], shape["files"]) == (("V2", 2) if v2 else ("classic", 1))
    assert shape["bytes"] > 0


def test_a_remove_that_omits_the_vector_leaves_a_ghost(tmp_path):
    builder = TableBuilder(tmp_path)
    builder.commit("+a +b").commit("-a +a#v1").commit("-b +b#v2")
    assert finding(ld.Table.open(tmp_path).health(), "ghosts").severity == "ok"
    builder.commit("-a +c")  # an OPTIMIZE that forgot the vector of a
    report = ld.Table.open(tmp_path).health()
    assert report.facts["ghosts"]["removes_without_vector"] == 1
    assert finding(report, "ghosts").severity == "critical"
    assert "although a newer remove names them: a" in finding(report, "ghosts").message


def test_a_file_that_is_live_twice_is_found(tmp_path):
    build(tmp_path, "+a +b").commit("+a#v1").commit("+b#v2").commit("-b#v2")
    report = ld.Table.open(tmp_path).health()
    assert report.facts["ghosts"]["files_live_twice"] == 1
    assert report.severity == "critical"


def test_commits_that_lost_a_race_are_counted(tmp_path):
    builder = build(tmp_path, "+a").commit("+b")
    info = {"operation": "MERGE", "readVersion": 0}
    builder.commit({"commitInfo": info}, "+c", info=False)
    commits = ld.Table.open(tmp_path).health().facts["commits"]
    assert commits["operations"] == {"WRITE": 2, "MERGE": 1}
    assert commits["rebased"] == 1


def test_columns_with_other_physical_names(tmp_path):
    table = ld.Table.open(tmp_path / "t")
    table.write(
        pa.table({"id": [1, 2], "p": ["x", "y"]}),
        partition_by=["p"],
        properties={"delta.columnMapping.mode": "name"},
    )
    facts = table.health().facts
    assert facts["partitions"]["count"] == 2
    assert facts["statistics"]["columns_with_bounds"] == {"id": 1.0}
