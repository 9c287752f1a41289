"""The feed of tables that deltalake writes is the one that deltalake reads."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tests.unit.changes.support import META, changes

deltalake = pytest.importorskip("deltalake")


def people(*rows):
    columns = list(zip(*rows, strict=True))
    return pa.table(
        {
            "id": pa.array(columns[0], pa.int64()),
            "name": pa.array(columns[1], pa.string()),
            "p": pa.array(columns[2], pa.string()),
        }
    )


def written(directory, partition_by):
    how = {"configuration": {"delta.enableChangeDataFeed": "true"}, "partition_by": partition_by}
    first = people((1, "a", "x"), (2, "b", "x"), (3, None, "y"), (4, "d", None))
    deltalake.write_deltalake(directory, first, **how)
    table = deltalake.DeltaTable(directory)
    table.update(updates={"name": "'B'"}, predicate="id = 2")
    table.delete("id = 3")
    deltalake.write_deltalake(directory, people((5, "e", "z"), (6, "f", "x")), mode="append")
    table = deltalake.DeltaTable(directory)
    merge = table.merge(
        people((1, "A", "x"), (7, "g", "y")), "t.id = s.id", source_alias="s", target_alias="t"
    )
    merge.when_matched_update_all().when_not_matched_insert_all().execute()
    table.optimize.compact()
    table.delete("p = 'x'")
    table.delete()
    return deltalake.DeltaTable(directory)


def theirs(table, start, end):
    reader = table.load_cdf(starting_version=start, ending_version=end)
    rows = pa.table(reader).to_pylist()
    names = [field.name for field in table.schema().fields]
    return sorted(
        ((r["_commit_version"], r["_change_type"], tuple(r[name] for name in names)) for r in rows),
        key=repr,
    )


@pytest.mark.parametrize("partition_by", [None, ["p"]], ids=["plain", "partitioned"])
def test_every_range(tmp_path, partition_by):
    table = written(str(tmp_path), partition_by)
    last = table.version()
    assert last >= 6
    whole = changes(tmp_path)
    assert {kind for _, kind, _ in whole} == {
        "insert",
        "delete",
        "update_preimage",
        "update_postimage",
    }
    for start in range(last + 1):
        for end in range(start, last + 1):
            assert changes(tmp_path, start, end) == theirs(table, start, end), (start, end)
    assert META  # the three columns are left out of the rows above
