"""The tables of rows have exactly the generated rows, for every engine."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import lazydelta
from benchmarks import engines, generate, spec
from benchmarks.measure import Case
from benchmarks.row_engines import ROW_OPERATIONS
from benchmarks.rows import file_rows, generate_rows
from benchmarks.spec import FILTER_IDS, RowsSpec, TableSpec

PLAIN = RowsSpec(files=6, rows_per_file=2500)
SPECS = {
    "plain": PLAIN,
    "deleted": replace(PLAIN, deleted_percent=10),
    "linked": replace(PLAIN, files=15, distinct=6),
    "linked-and-deleted": replace(PLAIN, files=15, distinct=6, deleted_percent=30),
}
LOG = TableSpec(files=1000, tail=3, tail_adds=40, real_files=True)


@pytest.fixture(scope="module", params=list(SPECS))
def table(request, tmp_path_factory):
    where = tmp_path_factory.mktemp("rows") / "table"
    return SPECS[request.param], where, generate_rows(SPECS[request.param], where)


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    where = tmp_path_factory.mktemp("log") / "table"
    return where, generate.generate(LOG, where)


def adds_of(where, version):
    lines = (where / "_delta_log" / f"{version:020d}.json").read_text().splitlines()
    return [json.loads(line)["add"] for line in lines if '"add"' in line]


def ids_of(table):
    return Counter(table["id"].to_pylist())


def test_engines_return_the_generated_number_of_rows(table):
    deltalake = pytest.importorskip("deltalake")
    knobs, where, facts = table
    ours = lazydelta.Table.open(where).scan().to_arrow()
    theirs = pa.table(deltalake.DeltaTable(where).scan().read_all())
    assert ours.num_rows == facts["live_rows"] == theirs.num_rows
    assert ids_of(ours) == ids_of(theirs)
    share = 1 - ours.num_rows / knobs.rows
    assert share == pytest.approx(knobs.deleted_percent / 100, abs=0.01)
    assert bool(share) == bool(knobs.deleted_percent)


def test_the_rows_are_those_generated_without_deleted_ones(table):
    knobs, where, _ = table
    made = pa.concat_tables([file_rows(knobs, number) for number in range(knobs.originals)])
    found = lazydelta.Table.open(where).scan().to_arrow()
    place = pc.index_in(found["id"], value_set=made["id"].combine_chunks())
    assert place.null_count == 0
    assert found.equals(made.take(place).cast(found.schema))


def test_the_filter_selects_one_percent_of_the_rows(table):
    knobs, where, facts = table
    low, high = FILTER_IDS
    ids = np.array(lazydelta.Table.open(where).scan(columns=["id"]).to_arrow()["id"])
    assert ((ids >= low) & (ids <= high)).sum() == facts["rows_in_filter"] > 0
    assert facts["rows_in_filter"] / facts["live_rows"] == pytest.approx(0.01, rel=0.5)
    before = low // knobs.id_step % knobs.rows_per_file
    assert 0 < before < knobs.rows_per_file - 1  # it starts inside a file


def test_statistics_and_sizes_are_correct(table):
    knobs, where, _ = table
    for add in adds_of(where, 0):
        assert add["size"] == (where / add["path"]).stat().st_size
        rows, stats = pq.read_table(where / add["path"]), json.loads(add["stats"])
        assert stats["numRecords"] == rows.num_rows == knobs.rows_per_file
        assert stats.get("tightBounds", True) == (not knobs.deleted_percent)
        assert ("deletionVector" in add) == bool(knobs.deleted_percent)
        for name in rows.column_names:
            bounds = pc.min_max(rows[name])
            for key, end in (("minValues", "min"), ("maxValues", "max")):
                bound = pa.scalar(stats[key][name])
                if pa.types.is_decimal(rows[name].type):
                    bound = pa.scalar(str(stats[key][name]))
                assert bound.cast(rows[name].type) == bounds[end]
            assert stats["nullCount"][name] == rows[name].null_count
        assert 0 < stats["nullCount"]["value"] < knobs.rows_per_file / 10


def test_files_are_clustered_and_laid_out_as_spark_does(table):
    knobs, where, _ = table
    ends = [
        [json.loads(add["stats"])[key]["id"] for key in ("minValues", "maxValues")]
        for add in adds_of(where, 0)[: knobs.originals]
    ]
    flat = [end for pair in ends for end in pair]
    assert flat == sorted(flat)
    file = pq.ParquetFile(where / adds_of(where, 0)[0]["path"])
    assert file.num_row_groups == 1
    assert file.schema.column(6).physical_type == "INT64"  # the decimal
    assert b"ARROW:schema" not in (file.metadata.metadata or {})


def test_a_table_shares_the_data_files_of_its_base(tmp_path):
    generate_rows(PLAIN, tmp_path / "base")
    for name in ("deleted", "linked"):
        assert SPECS[name].base == PLAIN
        alone = generate_rows(SPECS[name], tmp_path / f"{name} alone")
        assert generate_rows(SPECS[name], tmp_path / name, share=tmp_path / "base") == alone
        for add in adds_of(tmp_path / name, 0):
            original = int(add["path"].split("-")[1]) % PLAIN.files
            base = tmp_path / "base" / f"part-{original:05d}-c000.snappy.parquet"
            assert (tmp_path / name / add["path"]).samefile(base)
        assert adds_of(tmp_path / name, 0) == adds_of(tmp_path / f"{name} alone", 0)
    assert PLAIN.base is None


def test_generation_is_deterministic(tmp_path):
    digests = []
    for name in ("one", "two"):
        generate_rows(SPECS["linked-and-deleted"], tmp_path / name)
        files = sorted(p for p in (tmp_path / name).rglob("*") if p.is_file())
        digests.append([(p.name, hashlib.sha256(p.read_bytes()).hexdigest()) for p in files])
    assert digests[0] == digests[1]
    assert any(name.endswith(".bin") for name, _ in digests[0])


def test_the_latest_files_of_a_log_exist(log):
    where, facts = log
    adds = {add["path"]: add for add in adds_of(where, LOG.last_version)}
    found = sorted(where.glob("date=*/*.parquet"))
    assert len(found) == LOG.tail_adds == LOG.indices - LOG.first_real
    for path in found:
        add = adds[path.relative_to(where).as_posix()]
        assert add["size"] == path.stat().st_size
        rows, stats = pq.ParquetFile(path).read(), json.loads(add["stats"])
        assert rows.num_rows == stats["numRecords"]
        for name, least in stats["minValues"].items():
            greatest, bounds = stats["maxValues"][name], pc.min_max(rows[name])
            assert pa.scalar(least).cast(rows[name].type) == bounds["min"]
            assert pa.scalar(greatest).cast(rows[name].type) == bounds["max"]
            assert rows[name].null_count == stats["nullCount"][name]
    batches = lazydelta.Table.open(where).scan().file_batches(all_fields=True)
    total = sum(pc.sum(batch["num_records"]).as_py() for batch in batches)
    assert total == facts["live_rows"]


def test_a_few_rows_of_a_large_log_are_read_from_the_latest_files(log):
    where, _ = log
    rows = lazydelta.Table.open(where).scan(limit=10).to_arrow()
    assert rows.num_rows == 10
    assert rows.column_names == ["id", "value", "name", "ts", "qty", "date"]
    days = {add["partitionValues"]["date"] for add in adds_of(where, LOG.last_version)}
    assert {day.isoformat() for day in rows["date"].to_pylist()} <= days


def ways(*kinds):
    return [
        pytest.param(engine, name, id=f"{engine}-{name}")
        for engine, names in ROW_OPERATIONS.items()
        for name in names
        if name.split(":")[0] in kinds
    ]


def checked_count(engine, workload, where):
    sample = engines.run(engine, workload, str(where))
    assert sample.error == ""
    assert 0 < sample.first_seconds <= sample.total_seconds
    return sample.count


@pytest.mark.parametrize(("engine", "workload"), ways("read", "stream", "filter"))
def test_every_row_case_agrees_with_the_generator(engine, workload, table):
    pytest.importorskip(engine)
    knobs, where, facts = table
    if knobs.deleted_percent and "to_pyarrow_table" in workload:  # no suite has this case
        assert "deletionVectors" in engines.run(engine, workload, str(where)).error
        return
    expected = facts["rows_in_filter" if workload.startswith("filter") else "live_rows"]
    if engine == "lazydelta_decoder" and (knobs.deleted_percent or knobs.distinct):
        return  # nor this one: it computes positions in the plain table
    if engine == "pyarrow":
        expected = knobs.rows  # it reads no log
    assert checked_count(engine, workload, where) == expected
    assert Case(engine=engine, workload=workload, spec=knobs).expected_count(facts) == expected


@pytest.mark.parametrize(("engine", "workload"), ways("file", "limit", "count"))
def test_every_log_case_agrees_with_the_generator(engine, workload, log):
    pytest.importorskip(engine)
    where, facts = log
    known = {"file": facts["last_file_rows"], "limit": 10}
    expected = known.get(workload, facts["live_rows"])
    assert checked_count(engine, workload, where) == expected
    assert Case(engine=engine, workload=workload, spec=LOG).expected_count(facts) == expected


@pytest.mark.parametrize(
    "knobs",
    [
        pytest.param({"files": 0}, id="no-files"),
        pytest.param({"rows_per_file": 0}, id="no-rows"),
        pytest.param({"files": 5, "distinct": 5}, id="no-links"),
        pytest.param({"distinct": -1}, id="a-negative-number"),
        pytest.param({"deleted_percent": 100}, id="nothing-left"),
        pytest.param({"files": 10**6, "rows_per_file": 10**7}, id="too-many-ids"),
    ],
)
def test_invalid_parameters_are_refused(knobs):
    with pytest.raises(ValueError, match=r"must|at most"):
        RowsSpec(**knobs)


@pytest.mark.parametrize(
    "knobs", [{"tail": 0}, {"tail": 1, "tail_adds": 0}, {"tail": 1, "deletion_vectors": True}]
)
def test_real_files_need_a_commit_that_adds_them(knobs):
    with pytest.raises(ValueError, match="real_files must"):
        TableSpec(real_files=True, **knobs)


def test_the_command_creates_tables_of_rows_once(tmp_path, capsys, monkeypatch):
    for module in (spec, generate):
        monkeypatch.setattr(module, "CACHE", tmp_path / "cache")
    wish = ["--of-rows", "--files", "3", "--rows-per-file", "50", "--deleted-percent", "20"]
    generate.main(wish)
    facts = json.loads(capsys.readouterr().out)
    assert 0 < facts["live_rows"] < 150
    kept = {path.name.partition("-")[0] for path in (tmp_path / "cache").iterdir()}
    assert kept == {"3", ".gitignore"}  # the table, and its base beside it
    generate.main([str(tmp_path / "out"), *wish])
    again = json.loads(capsys.readouterr().out)
    assert again == facts | {"table": str(tmp_path / "out")}
    with pytest.raises(SystemExit):
        generate.main(["--of-rows", "--tail", "3"])
    assert "--tail" in capsys.readouterr().err
