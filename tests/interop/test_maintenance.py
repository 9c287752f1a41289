"""Tables that lazydelta maintained, read by deltalake and DuckDB; and the other way round."""

from __future__ import annotations

import deltalake
import pyarrow as pa
import pytest

import lazydelta as ld
from tests.aged_tables import backdate, files_of

PARTITIONS = ["x y", "50%", "a/b", "é", "a%20b"]


def rows(first, count=10):
    names = [PARTITIONS[n % len(PARTITIONS)] for n in range(first, first + count)]
    return pa.table({"id": pa.array(range(first, first + count)), "p": names})


def ids(table):
    return sorted(table.to_arrow()["id"].to_pylist())


def ids_of_deltalake(url, version=None):
    table = deltalake.DeltaTable(url, version=version)
    return sorted(deltalake.QueryBuilder().register("t", table).execute("select id from t").read_all()["id"].to_pylist())  # fmt: skip


@pytest.fixture
def table(tmp_path):
    made = ld.Table.open(tmp_path / "t")
    made.write(rows(0), partition_by=["p"])
    made.write(rows(10), mode="overwrite")
    made.write(rows(20))
    made.delete("id < 12")
    backdate(made, hours=24 * 20)
    return made


@pytest.mark.parametrize("mode", ["lite", "full"])
def test_deltalake_reads_a_vacuumed_table(table, mode):
    expected = ids(table)
    result = table.vacuum(mode=mode, dry_run=False)
    assert result.files_deleted > 0
    assert ids_of_deltalake(table.url) == expected
    history = deltalake.DeltaTable(table.url).history(2)
    assert [entry["operation"] for entry in history] == ["VACUUM END", "VACUUM START"]


def test_both_engines_find_the_same_dead_files(table):
    ours = set(table.vacuum(mode="full").paths)
    theirs = set(deltalake.DeltaTable(table.url).vacuum(dry_run=True, full=True))
    assert ours == theirs == files_of(table) - {file.path for file in table.scan().files()}


def test_nothing_is_left_after_a_vacuum_of_deltalake(table):
    deltalake.DeltaTable(table.url).vacuum(dry_run=False, full=True)
    left = table.vacuum(mode="full").paths
    assert [path for path in left if "%" not in path] == [], "escaped ones may stay, delta-rs#4646"


def test_deltalake_reads_a_restored_and_a_cleaned_up_table(table):
    expected = ids(table)
    table.restore(1)
    assert ids_of_deltalake(table.url) == list(range(10, 20))
    table.restore(3)
    table.checkpoint(2)
    backdate(table, hours=24 * 60)
    assert table.cleanup_log().files_deleted > 0
    assert ids_of_deltalake(table.url) == expected == ids(table)


def test_a_restore_of_deltalake_is_read(table):
    deltalake.DeltaTable(table.url).restore(1)
    assert ids(table) == list(range(10, 20))
    assert table.health().severity != "critical"


def test_deltalake_reads_a_repaired_table(table):
    from pathlib import Path

    gone = next(iter(table.scan().files()))
    (Path(table.url) / gone.path).unlink()
    table.repair(dry_run=False)
    assert len(ids(table)) == 18 - gone.num_records
    assert ids_of_deltalake(table.url) == ids(table)
