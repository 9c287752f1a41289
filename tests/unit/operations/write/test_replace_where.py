"""Replace where: exactly the matching rows are replaced, in whichever files they are."""

from __future__ import annotations

import deltalake
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lazydelta as ld
from benchmarks.rows import generate_rows
from benchmarks.spec import RowsSpec
from lazydelta._failpoints import arm
from lazydelta.errors import (
    ColumnNotFoundError,
    ConcurrentAppendError,
    ConstraintViolationError,
)
from lazydelta.store import MemoryStore

SCHEMA = pa.schema({"p": pa.string(), "x": pa.int64(), "t": pa.string()})


def data(*rows: tuple) -> pa.Table:
    names = SCHEMA.names
    return pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows], SCHEMA)


@pytest.fixture
def url(tmp_path):
    for part in (data(("a", 1, "u"), ("a", 2, None)), data(("b", 3, "u")), data((None, 4, "v"))):
        ld.write(tmp_path, part, "append", partition_by="p")
    return tmp_path


def rows(url) -> list[tuple]:
    ours = ld.Table.open(url).to_arrow()
    theirs = deltalake.DeltaTable(url).to_pyarrow_table().select(SCHEMA.names)
    assert sorted(map(repr, ours.to_pylist())) == sorted(map(repr, theirs.to_pylist()))
    return sorted((tuple(row.values()) for row in ours.to_pylist()), key=repr)


def paths(url) -> set[str]:
    return {file.path for file in ld.Table.open(url).scan().files()}


ALL = [("a", 1, "u"), ("a", 2, None), ("b", 3, "u"), (None, 4, "v")]


@pytest.mark.parametrize(
    ("where", "new", "kept", "removed", "written"),
    [
        pytest.param("p = 'a'", [("a", 9, "n")], ALL[2:], 1, 1, id="a-partition"),
        pytest.param("p = 'none'", [("none", 9, "n")], ALL, 0, 1, id="a-new-partition"),
        pytest.param("p is null", [(None, 9, "n")], ALL[:3], 1, 1, id="the-null-partition"),
        pytest.param("p != 'a'", [("z", 9, "n")], [ALL[0], ALL[1], ALL[3]], 1, 1, id="null-is-no-match"),
        pytest.param("x >= 2", [("z", 9, "n")], ALL[:1], 3, 2, id="a-file-in-part"),
        pytest.param("x = 100", [("z", 100, "n")], ALL, 0, 1, id="no-row-at-all"),
        pytest.param("t = 'u'", [("z", 9, "u")], [ALL[1], ALL[3]], 2, 2, id="rows-with-null-stay"),
        pytest.param("x > 1 and p = 'a'", [("a", 5, "n")], [ALL[0], *ALL[2:]], 1, 2, id="both-kinds"),
        pytest.param("x < 100", [], [], 3, 0, id="every-row-and-nothing-new"),
        pytest.param("t is null", [], [ALL[0], *ALL[2:]], 1, 1, id="only-the-null"),
    ],
)  # fmt: skip
def test_exactly_the_matching_rows_are_replaced(url, where, new, kept, removed, written):
    result = ld.write(url, data(*new), "overwrite", where=where)
    assert rows(url) == sorted([*kept, *new], key=repr)
    assert (result.files_removed, result.files_added) == (removed, written)
    assert result.rows == len(new)


def test_files_without_a_match_are_not_touched(url):
    before = paths(url)
    ld.write(url, data(("z", 9, "n")), "overwrite", where="x >= 3")
    assert len(before & paths(url)) == 1
    assert "p=a" in next(iter(before & paths(url)))


def test_every_new_row_must_match(url):
    with pytest.raises(ConstraintViolationError, match="1 of 2 rows"):
        ld.write(url, data(("a", 9, "n"), ("b", 9, "n")), "overwrite", where="p = 'a'")
    with pytest.raises(ConstraintViolationError):  # null is no match
        ld.write(url, data((None, 9, "n")), "overwrite", where="p = 'a'")
    assert rows(url) == sorted(ALL, key=repr)
    assert ld.Table.open(url).version == 2


def test_every_first_row_must_match_too(tmp_path):
    with pytest.raises(ConstraintViolationError):
        ld.write(tmp_path, data(("b", 9, "n")), "overwrite", where="p = 'a'")
    assert not (tmp_path / "_delta_log").exists()
    ld.write(tmp_path, data(("a", 9, "n")), "overwrite", where="p = 'a'")
    assert rows(tmp_path) == [("a", 9, "n")]


def test_a_predicate_of_any_form(url):
    ld.write(url, data(("a", 9, "n")), "overwrite", where=ld.col("p") == "a")
    ld.write(url, data(("b", 8, "n")), "overwrite", where=[("p", "=", "b")])
    assert rows(url) == sorted([("a", 9, "n"), ("b", 8, "n"), ALL[3]], key=repr)
    with pytest.raises(ColumnNotFoundError):
        ld.write(url, data(("b", 8, "n")), "overwrite", where="nope = 1")


def test_a_rival_append_of_matching_rows_is_a_conflict(url):
    def parts():
        yield data(("a", 9, "n"))
        ld.write(url, data(("a", 5, "rival")), "append")

    with pytest.raises(ConcurrentAppendError):
        ld.write(url, parts(), "overwrite", where="p = 'a'")
    assert ("a", 5, "rival") in rows(url)
    assert ("a", 1, "u") in rows(url)


def test_a_rival_append_elsewhere_is_none(url):
    def parts():
        yield data(("a", 9, "n"))
        ld.write(url, data(("b", 5, "rival")), "append")

    ld.write(url, parts(), "overwrite", where="p = 'a'")
    assert rows(url) == sorted([("a", 9, "n"), ("b", 5, "rival"), *ALL[2:]], key=repr)


def test_new_columns_may_come_with_a_replacement(url):
    new = pa.table({"p": ["a"], "x": [9], "t": ["n"], "extra": [1.5]})
    ld.write(url, new, "overwrite", where="x >= 2 and p = 'a'", schema_mode="merge")
    found = {row["x"]: row for row in ld.Table.open(url).to_arrow().to_pylist()}
    assert found[9]["extra"] == 1.5
    assert found[1] == {"p": "a", "x": 1, "t": "u", "extra": None}
    assert sorted(found) == [1, 3, 4, 9]


def test_column_mapping(tmp_path):
    mapped = {"delta.columnMapping.mode": "name"}
    ld.write(tmp_path, data(*ALL), partition_by="p", properties=mapped)
    ld.write(tmp_path, data(("a", 1, "n")), "overwrite", where="x = 1 and p = 'a'")
    found = ld.Table.open(tmp_path).to_arrow().to_pylist()
    expected = sorted([("a", 1, "n"), *ALL[1:]], key=repr)
    assert sorted((tuple(row.values()) for row in found), key=repr) == expected


def test_deleted_rows_stay_deleted(tmp_path):
    """A file with a deletion vector is removed under it, and its deleted rows do not return."""
    url = tmp_path / "t"
    generate_rows(RowsSpec(files=3, rows_per_file=100, deleted_percent=20), url)
    table = ld.Table.open(url)
    before = table.to_arrow()
    middle = sorted(before["id"].to_pylist())[before.num_rows // 2]
    table.write(before.slice(0, 0), "overwrite", where=f"id >= {middle}")
    expected = sorted(n for n in before["id"].to_pylist() if n < middle)
    assert sorted(table.to_arrow()["id"].to_pylist()) == expected
    query = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(url))
    theirs = pa.table(query.execute("select id from t").read_all())
    assert sorted(theirs["id"].to_pylist()) == expected


def test_the_change_feed_reads_removed_files(tmp_path):
    ld.write(
        tmp_path, data(*ALL), partition_by="p", properties={"delta.enableChangeDataFeed": "true"}
    )
    ld.write(tmp_path, data(("a", 9, "n")), "overwrite", where="p = 'a'")
    changes = ld.Table.open(tmp_path).changes(starting_version=1).to_arrow()
    found = sorted(zip(changes["_change_type"].to_pylist(), changes["x"].to_pylist(), strict=True))
    assert found == [("delete", 1), ("delete", 2), ("insert", 9)]


def test_a_failure_on_the_way_changes_nothing(url):
    with (
        arm("data-file-written", "raise", hit=2),
        pytest.raises(Exception, match="data-file-written"),
    ):
        ld.write(url, data(("z", 9, "n")), "overwrite", where="x >= 2")
    assert rows(url) == sorted(ALL, key=repr)


VALUES = st.tuples(
    st.sampled_from(["a", "b", None]),
    st.integers(0, 5) | st.none(),
    st.sampled_from(["u", "v", None]),
)
CONDITIONS = st.sampled_from(
    ["p = 'a'", "p is null", "x > 2", "x is null", "t = 'u'", "p = 'a' and x < 3", "p = 'a' or x = 1",
     "not (x > 2)", "x in (1, 2)", "t is not null or p is null", "x > 2 is true"]
)  # fmt: skip


@settings(max_examples=25, deadline=None)
@given(st.lists(st.lists(VALUES, min_size=1, max_size=6), min_size=1, max_size=4), CONDITIONS)
def test_rows_that_do_not_match_are_kept(files, condition):
    store = MemoryStore()
    table = ld.Table(store, ld.Config(write_checksums=False, write_checkpoints=False))
    for rows_of_file in files:
        table.write(data(*rows_of_file), partition_by="p")
    before = table.to_arrow().to_pylist()
    matching = table.scan(condition).to_arrow().to_pylist()
    table.write(data(), "overwrite", where=condition)
    left = table.to_arrow().to_pylist()
    assert sorted(map(repr, [*left, *matching])) == sorted(map(repr, before))
