"""REORG ... APPLY (PURGE): deleted rows and dropped columns leave the files."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import lazydelta as ld
from tests.unit.operations.optimize.support import VECTORS, actions, make, numbered, rows_of, theirs

MAPPED = {"delta.columnMapping.mode": "name"}


def test_only_files_with_deletion_vectors_are_rewritten(tmp_path):
    table = make(tmp_path, numbered(40), VECTORS)
    table.delete("id = 3")
    before = {file.path for file in table.scan().files() if file.deletion_vector is None}
    result = table.purge()
    assert result.metrics["numRemovedFiles"] == result.metrics["numDeletionVectorsRemoved"] == 1
    files = list(table.scan().files())
    assert before < {file.path for file in files}
    assert not any(file.deletion_vector for file in files)
    (info,) = actions(table, result.version, "commitInfo")
    assert info["operation"] == "REORG"
    assert info["operationParameters"] == {"predicate": "[]", "applyPurge": "true"}
    assert rows_of(table) == theirs(table)
    assert table.purge().versions == ()


def test_dropped_columns_leave_the_files(tmp_path):
    nested = pa.table({
        "id": [1, 2], "gone": ["x", "y"],
        "s": [{"a": 1, "b": 2}, {"a": 3, "b": 4}], "l": [[{"c": 1, "d": 2}], []],
    })  # fmt: skip
    ld.write(tmp_path, nested, properties=MAPPED)
    table = ld.Table.open(tmp_path)
    assert table.purge().versions == ()
    for column in ("gone", "s.b"):
        table.alter.drop_column(column)
    table.write(pa.table({"id": [3], "s": [{"a": 5}], "l": [[{"c": 3, "d": 4}]]}))
    rows = rows_of(table)
    result = table.purge()
    assert result.metrics["numRemovedFiles"] == 1  # not the file written after
    for file in table.scan().files():
        columns = pq.read_schema(Path(tmp_path) / file.path)
        assert len(columns) == 3
        assert len(columns.types[1]) == 1
    assert rows_of(table) == rows == theirs(table)
    assert table.purge().versions == ()


def test_row_ids_survive(tmp_path):
    table = make(tmp_path, numbered(8), {**VECTORS, "delta.enableRowTracking": "true"})
    table.delete("id = 3")
    options = ld.ReadOptions(row_id_column="rid", row_commit_version_column="rcv")
    before = table.to_arrow(options).sort_by("id").to_pylist()
    assert table.purge().metrics["numRemovedFiles"] == 1
    assert table.purge().versions == ()
    assert table.to_arrow(options).sort_by("id").to_pylist() == before
    result = table.optimize()
    (info,) = actions(table, result.version, "commitInfo")
    assert info["tags"]["delta.rowTracking.preserved"] == "true"
    assert table.to_arrow(options).sort_by("id").to_pylist() == before
    table.write(pa.Table.from_pylist(numbered(1, 50)))
    assert len(set(table.to_arrow(options)["rid"].to_pylist())) == 8
