"""Engines read a change feed like a table: the same rows, and no unnecessary file."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lazydelta import Config, QueryBuilder, ReadOptions, Table, col
from lazydelta.errors import DataFileNotFoundError
from lazydelta.metrics import StoreCalled
from tests.interop.tables import ROWS, Watched, canonical, deltalake, rows_of_file
from tests.unit.changes.support import FeedTable


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """Return a table of six versions: an empty one, four that insert, one that updates two rows."""
    path = str(tmp_path_factory.mktemp("feed") / "table")
    rows = [rows_of_file(at).drop_columns(["nested", "items"]) for at in range(4)]
    deltalake.write_deltalake(
        path,
        rows[0].slice(0, 0),
        partition_by=["part"],
        configuration={"delta.enableChangeDataFeed": "true"},
    )
    for part in rows:
        deltalake.write_deltalake(path, part, mode="append")
    deltalake.DeltaTable(path).update({"small": "small + 1"}, predicate="id in (5, 205)")
    return path


@pytest.fixture
def watched(path):
    return Watched(path)


@pytest.fixture
def whole(watched):
    found = watched.table.changes().to_arrow()
    watched.opened()
    return found


@pytest.fixture(params=["duckdb", "datafusion"])
def engine(request):
    pytest.importorskip(request.param, reason=f"pip install 'lazydelta[{request.param}]' runs this")
    return request.param


QUERIES = [
    pytest.param("true", "true", 99, id="everything"),
    pytest.param("_commit_version = 2", "_commit_version = 2", 1, id="a-version"),
    pytest.param("_commit_version >= 4 and id < 10", "_commit_version >= 4 and id < 10", 3, id="both"),
    pytest.param("_change_type = 'insert'", "_change_type = 'insert'", 4 + 2, id="a-type"),
    pytest.param(
        "_change_type like 'update%' and id = 5",
        "_change_type like 'update%' and id = 5", 99, id="updates",
    ),
    pytest.param("part = 'p1' and _commit_version < 5", "part = 'p1' and _commit_version < 5", 1, id="a-partition"),
    pytest.param("part is null", "part is null", 2, id="null-partition"),
    pytest.param("id between 210 and 215", "id between 210 and 215", 99, id="rows"),
    pytest.param("_commit_version > 77", "_commit_version > 77", 0, id="nothing"),
]  # fmt: skip


@pytest.mark.parametrize(("sql", "where", "files"), QUERIES)
def test_sql_over_changes(watched, engine, sql, where, files):
    expected = watched.table.changes(where=where).to_arrow()
    watched.opened()
    query = QueryBuilder(engine).register("c", watched.table.changes())
    found = query.execute(f"select * from c where {sql}").read_all()
    assert watched.opened() <= files
    assert canonical(found.cast(expected.schema)) == canonical(expected)
    assert (found.num_rows == 0) == (files == 0)


def test_columns_are_pushed_down(watched, engine):
    query = QueryBuilder(engine).register("c", watched.table.changes())
    found = query.execute(
        "select _change_type, count(*) n from c where small < 99 group by 1"
    ).read_all()
    counts = dict(zip(found["_change_type"].to_pylist(), found["n"].to_pylist(), strict=True))
    assert counts == {"insert": 4 * ROWS, "update_preimage": 2, "update_postimage": 2}
    assert query.explain("c")["plan"]["columns"] == "small, _change_type"


def test_a_count_reads_no_column(watched, engine):
    query = QueryBuilder(engine).register("c", watched.table.changes(starting_version=2))
    found = query.execute("select count(*) n from c").read_all()
    assert found["n"].to_pylist() == [3 * ROWS + 4]
    assert watched.table.changes(starting_version=2).count() == 3 * ROWS + 4
    assert watched.table.changes(starting_version=2, columns=[]).count() == 3 * ROWS + 4


def test_changes_join_their_table(watched, engine):
    query = QueryBuilder(engine).register("c", watched.table.changes()).register("t", watched.table)
    sql = (
        "select t.id, t.small - c.small as d from t join c on t.id = c.id "
        "where c._change_type = 'update_preimage' order by 1"
    )
    assert query.execute(sql).read_all().to_pylist() == [{"id": 5, "d": 1}, {"id": 205, "d": 1}]


def test_polars_pushes_into_changes(watched, whole):
    pl = pytest.importorskip("polars", reason="pip install 'lazydelta[polars]' runs this")
    lazy = watched.table.changes().scan_polars()
    found = lazy.filter(pl.col("_commit_version") == 2).select("id", "_change_type").collect()
    assert watched.opened() == 1
    assert sorted(found["id"].to_list()) == list(range(ROWS, 2 * ROWS))
    recent = pl.col("_commit_timestamp") > datetime(2020, 1, 1, tzinfo=UTC)
    assert lazy.filter(recent).collect().height == whole.num_rows
    assert lazy.head(3).collect().height == 3


def test_a_dataset_of_changes(watched, whole):
    dataset = watched.table.changes().to_pyarrow_dataset()
    assert dataset.schema == whole.schema
    assert dataset.count_rows() == whole.num_rows
    watched.opened()
    expression = (pc.field("_commit_version") == 3) & (pc.field("small") * 2 > 4)
    found = dataset.to_table(filter=expression)
    assert watched.opened() == 1
    assert canonical(found) == canonical(whole.filter(expression))
    report = dataset.explain()
    assert report["files"]["emitted"] == 1
    assert report["files"]["pruned"] >= 3
    assert dataset.head(5).num_rows == 5


def test_a_duckdb_replacement_scan_of_a_feed(watched, whole):
    duckdb = pytest.importorskip("duckdb", reason="pip install 'lazydelta[duckdb]' runs this")
    feed = watched.table.changes()
    with duckdb.connect() as connection:
        assert connection.sql("select count(*) from feed").fetchall() == [(whole.num_rows,)]
        relation = feed.to_duckdb(connection).filter("_commit_version = 1")
        assert relation.aggregate("count(*)").fetchall() == [(ROWS,)]


def test_a_missing_file_keeps_its_error_type(tmp_path, engine):
    path = str(tmp_path / "t")
    on = {"delta.enableChangeDataFeed": "true"}
    deltalake.write_deltalake(path, pa.table({"id": [1]}), configuration=on)
    watched = Watched(path)
    (tmp_path / "t" / next(watched.table.scan().files()).path).unlink()
    query = QueryBuilder(engine).register("c", watched.table.changes())
    with pytest.raises(DataFileNotFoundError, match="vacuum"):
        query.execute("select * from c").read_all()


# --- the feed itself --------------------------------------------------------------------------------


def test_every_read_of_a_feed_starts_at_the_start(watched, whole):
    feed = watched.table.changes()
    assert feed.schema == whole.schema
    for _ in range(2):
        assert feed.read_all().equals(whole)
        assert feed.to_arrow().equals(whole)
        assert sum(batch.num_rows for batch in feed) == whole.num_rows
    next(iter(feed))
    assert feed.read_all().equals(whole)


def test_a_narrowed_feed(watched, whole):
    feed = watched.table.changes(where="_commit_version < 5")
    assert [feed.narrowed(limit=n).to_arrow().num_rows for n in (0, 1, ROWS + 1)] == [
        0,
        1,
        ROWS + 1,
    ]
    assert feed.narrowed(limit=5).narrowed(limit=9).limit == 5
    one = feed.narrowed(columns=["_commit_version"], where=col("id") == 3)
    assert one.to_arrow().to_pylist() == [{"_commit_version": 1}]
    assert "versions=0 to 5" in repr(one)


def test_row_group_pruning_does_not_change_the_changes(tmp_path):
    made, events = FeedTable(tmp_path), []
    made.file("a", {"id": list(range(100_000))}, row_group_size=10_000)
    made.commit(made.add("a"))
    table = Table.open(tmp_path, config=Config(observer=events.append))
    taken = []
    for pushdown in (True, False):
        events.clear()
        options = ReadOptions(enable_parquet_pushdown=pushdown)
        found = table.changes(where="id between 203 and 207", options=options).to_arrow()
        assert found["id"].to_pylist() == list(range(203, 208))
        calls = [event for event in events if isinstance(event, StoreCalled)]
        taken.append(sum(call.bytes for call in calls if call.path == "a"))
    assert taken[0] * 3 < taken[1]
