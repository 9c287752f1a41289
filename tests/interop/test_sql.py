"""`ld.sql`: queries and changes of rows, on tables by name or by address."""

from __future__ import annotations

import pyarrow as pa
import pytest

import lazydelta as ld
from lazydelta.errors import (
    ColumnNotFoundError,
    ConfigError,
    ConstraintViolationError,
    PredicateError,
    QueryError,
    TableNotFoundError,
)

pytest.importorskip("duckdb", reason="pip install 'lazydelta[duckdb]' runs this")

DEFAULTS = {"delta.feature.allowColumnDefaults": "supported"}


@pytest.fixture
def table(tmp_path):
    table = ld.Table.create(
        tmp_path / "t",
        "id bigint, name string default 'new', amount double, t struct<id int, more int>",
        properties=DEFAULTS,
    )
    table.write(
        {
            "id": [1, 2, 3],
            "name": ["a", "b", "c"],
            "amount": [1.5, None, 3.0],
            "t": pa.array(
                [{"id": 10, "more": 1}, {"id": 20, "more": 2}, None],
                pa.struct([("id", pa.int32()), ("more", pa.int32())]),
            ),
        }
    )
    return table


def rows(table, *columns):
    found = table.to_arrow().select(columns or ["id", "name", "amount"]).to_pylist()
    return sorted(tuple(row.values()) for row in found)


# --- tables -----------------------------------------------------------------------------------


def test_tables_by_name_and_by_address(table):
    url = table.url
    for sql, tables in [
        ("SELECT max(id) AS m FROM t", {"t": table}),
        ("SELECT max(id) AS m FROM T", {"t": url}),
        (f"SELECT max(`id`) AS m FROM `{url}`", None),
        (f"SELECT max(x.id) AS m FROM delta.`{url}` AS x", {}),
        (f"SELECT max(x.id) AS m FROM t x JOIN `{url}` y USING (id)", {"t": table.snapshot()}),
        (f"SELECT m FROM (SELECT max(id) AS m FROM `{url}`)", None),
        (f"FROM (FROM `{url}`) SELECT max(id) AS m", None),
        ("SELECT max(id) AS m FROM `t`", {"t": table.scan()}),
    ]:
        assert ld.sql(sql, tables).read_all().to_pylist() == [{"m": 3}]


def test_from_inside_a_function_names_no_table(tmp_path):
    ld.write(tmp_path, pa.table({"day": pa.array([0], pa.date32())}))
    sql = f"SELECT extract(year FROM `day`) AS y FROM `{tmp_path}`"
    assert ld.sql(sql).read_all().to_pylist() == [{"y": 1970}]


def test_a_query_opens_only_tables_that_it_names(table, tmp_path):
    tables = {"t": table, "gone": tmp_path / "nowhere"}
    assert ld.sql("SELECT count(*) AS n FROM t", tables).read_all().to_pylist() == [{"n": 3}]
    with pytest.raises(TableNotFoundError):
        ld.sql("SELECT count(*) FROM gone", tables)


def test_datafusion_runs_the_same_queries(table):
    pytest.importorskip("datafusion", reason="pip install 'lazydelta[datafusion]' runs this")
    sql = f"SELECT max(`id`) AS m FROM `{table.url}`;"
    assert ld.sql(sql, engine="datafusion").read_all().to_pylist() == [{"m": 3}]


def test_unknown_tables_are_refused(table, tmp_path):
    with pytest.raises(ConfigError, match=r"no table is named 'u' \(named: t\).*`backticks`"):
        ld.sql("DELETE FROM u", {"t": table})
    with pytest.raises(TableNotFoundError):
        ld.sql(f"DELETE FROM `{tmp_path / 'nowhere'}`")
    with pytest.raises(TableNotFoundError):
        ld.sql(f"INSERT INTO `{tmp_path / 'nowhere'}` (a) VALUES (1)")
    with pytest.raises(ConfigError, match="'t' is a Scan: only a Table can be changed"):
        ld.sql("DELETE FROM t", {"t": table.scan()})
    with pytest.raises(ConfigError, match="must map names to tables"):
        ld.sql("DELETE FROM t", [table])


# --- DELETE and UPDATE ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sql", "left"),
    [
        ("DELETE FROM t WHERE id = 2", [1, 3]),
        ("DELETE FROM t AS x WHERE x.id = 2 OR x.name = 'x.id'", [1, 3]),
        ("DELETE FROM t WHERE t.amount IS NULL", [1, 3]),
        ("DELETE FROM t WHERE t.t.id = 20", [1, 3]),
        ("DELETE FROM t WHERE t.more = 2", [1, 3]),  # t has no such column, its column t a field
        ("DELETE FROM t x WHERE `X`.`id` = 2", [1, 3]),
        ("DELETE FROM `t` WHERE t.id = 2", [1, 3]),
        ("DELETE FROM t", []),
    ],
)
def test_delete(table, sql, left):
    result = ld.sql(sql, {"t": table})
    assert result.metrics["numDeletedRows"] == 3 - len(left)
    assert [row[0] for row in rows(table, "id")] == left


def test_update(table):
    sql = "UPDATE t x SET x.amount = x.id * 2.0, name = DEFAULT, t = NULL WHERE x.id < 3"
    result = ld.sql(sql, {"t": table})
    assert result.metrics["numUpdatedRows"] == 2
    assert rows(table) == [(1, "new", 2.0), (2, "new", 4.0), (3, "c", 3.0)]


def test_a_dry_run_writes_nothing(table):
    before = table.version
    for sql in ("DELETE FROM t WHERE id = 1", "UPDATE t SET id = 0 WHERE id = 1"):
        result = ld.sql(sql, {"t": table}, dry_run=True)
        assert result.dry_run
        assert result.metrics["numRemovedFiles"] == 1
    with pytest.raises(ConfigError, match="dry_run: INSERT has none"):
        ld.sql("INSERT INTO t (id) VALUES (1)", {"t": table}, dry_run=True)
    assert table.version == before


def test_bad_columns_and_expressions_are_refused(table):
    for sql, error, reason in [
        ("UPDATE t SET id = 1, t.id = 2", ConfigError, "assigns the column 'id' twice"),
        ("UPDATE t SET nope = 1", ColumnNotFoundError, "nope"),
        ("UPDATE t SET id = 'x", QueryError, "not closed"),
        ("UPDATE t SET id = 1 +", PredicateError, "found the end"),
        ("DELETE FROM t AS x WHERE y.id = 1", ColumnNotFoundError, "y"),
    ]:
        with pytest.raises(error, match=reason):
            ld.sql(sql, {"t": table})
    assert table.version == 1


# --- INSERT -----------------------------------------------------------------------------------


def test_insert_values(table):
    sql = "INSERT INTO t (ID, amount) VALUES (4, 1 + 0.5), (-5, NULL)"
    assert ld.sql(sql, {"t": table}).rows == 2
    assert rows(table)[0] == (-5, "new", None)
    assert rows(table)[-1] == (4, "new", 1.5)


def test_insert_defaults(table):
    ld.sql("INSERT INTO t VALUES (4, DEFAULT, 4, NULL), (5, 'five', DEFAULT, NULL)", {"t": table})
    assert rows(table)[3:] == [(4, "new", 4.0), (5, "five", None)]
    with pytest.raises(QueryError, match="all values are DEFAULT"):
        ld.sql("INSERT INTO t (id, name) VALUES (DEFAULT, DEFAULT)", {"t": table})


def test_values_are_cast_to_the_types_of_the_columns(tmp_path):
    columns = "id int, name string, day date, at timestamp, more array<int>"
    table = ld.Table.create(tmp_path, columns)
    ld.sql(
        "INSERT INTO t VALUES (5L, 7, DATE '2026-01-31', current_timestamp(), array(1, 2)), "
        "(6, true, NULL, current_timestamp(), NULL)",
        {"t": table},
    )
    first, second = sorted(table.to_arrow().to_pylist(), key=lambda row: row["id"])
    assert (first["id"], first["name"], str(first["day"]), first["more"]) == (
        5, "7", "2026-01-31", [1, 2],
    )  # fmt: skip
    assert (second["name"], second["more"]) == ("true", None)
    assert first["at"] == second["at"]  # one time for the statement


def test_insert_of_a_query_is_by_position_or_by_name(table):
    by_position = "INSERT INTO t (name, id) SELECT upper(name), id + 10 FROM t WHERE id = 1"
    ld.sql(by_position, {"t": table})
    by_name = (
        f"INSERT INTO t BY NAME SELECT 'z' AS name, 12::bigint AS id FROM `{table.url}` LIMIT 1"
    )
    ld.sql(by_name, {"t": table})
    assert rows(table)[3:] == [(11, "A", None), (12, "z", None)]


def test_insert_overwrite_replaces_all_rows(table):
    result = ld.sql("INSERT OVERWRITE t (id) VALUES (7)", {"t": table})
    assert result.files_removed == 1
    assert rows(table) == [(7, "new", None)]


def test_insert_replaces_a_partition_or_the_rows_of_a_condition(tmp_path):
    url = str(tmp_path / "days")
    data = {"id": pa.array([1, 2, 3], pa.int64()), "day": ["a", "b", None]}
    ld.write(url, pa.table(data), partition_by="day")
    days = {"t": url}
    ld.sql("INSERT OVERWRITE t PARTITION (day = 'a') VALUES (10), (11)", days)
    ld.sql("INSERT INTO t PARTITION (day = 'c') SELECT 4", days)
    ld.sql("INSERT OVERWRITE t PARTITION (day = NULL) (id) SELECT 5", days)
    replaced = [(2, "b"), (4, "c"), (5, None), (10, "a"), (11, "a")]
    assert rows(ld.Table.open(url), "id", "day") == replaced
    ld.sql("INSERT INTO t REPLACE WHERE t.id >= 10 SELECT 12, 'x'", days)
    assert rows(ld.Table.open(url), "id", "day") == [*replaced[:3], (12, "x")]
    with pytest.raises(ConstraintViolationError, match="do not match"):
        ld.sql("INSERT INTO t REPLACE WHERE id >= 10 VALUES (1, 'x')", days)
    with pytest.raises(QueryError, match="partitioned by day"):
        ld.sql("INSERT INTO t PARTITION (id = 1) SELECT 'x'", days)


def test_a_bad_insert_is_refused(table):
    for sql, error, reason in [
        ("INSERT INTO t VALUES (1)", QueryError, "it has 1 values for 4 columns"),
        ("INSERT INTO t (id) SELECT 1, 2", QueryError, "it has 2 values for 1 columns"),
        ("INSERT INTO t (nope) VALUES (1)", ColumnNotFoundError, "nope"),
        ("INSERT INTO t (id) VALUES ('x')", PredicateError, "string, not long"),
        ("INSERT INTO t (t) VALUES (1)", PredicateError, "not struct"),
        ("INSERT INTO t (id) VALUES (name)", ColumnNotFoundError, "name"),
        (
            "INSERT INTO t (id) VALUES (CAST('x' AS BIGINT))",
            ConstraintViolationError,
            "cannot be computed",
        ),
        ("INSERT INTO t (id) SELECT nope", QueryError, "duckdb"),
    ]:
        with pytest.raises(error, match=reason):
            ld.sql(sql, {"t": table})
    assert table.version == 1


# --- MERGE ------------------------------------------------------------------------------------

UPSERT = "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"


@pytest.fixture
def flat(table):
    """A table without the column that is named like it."""
    columns = "id bigint, name string default 'new', amount double"
    flat = ld.Table.create(f"{table.url}-flat", columns, properties=DEFAULTS)
    flat.write(table.scan(columns=["id", "name", "amount"]))
    return flat


@pytest.fixture
def updates(tmp_path):
    ld.write(tmp_path / "u", {"id": [2, 4], "name": ["B", "D"], "amount": [20.0, 40.0]})
    return ld.Table.open(tmp_path / "u")


def test_merge_of_tables_by_name_and_by_address(flat, updates):
    names = {"t": flat, "u": updates}
    result = ld.sql(f"MERGE INTO t USING u ON t.id = u.id {UPSERT}", names)
    assert result.metrics["numTargetRowsUpdated"] == 1
    assert result.metrics["numTargetRowsInserted"] == 1
    assert rows(flat) == [(1, "a", 1.5), (2, "B", 20.0), (3, "c", 3.0), (4, "D", 40.0)]
    sql = f"MERGE INTO `{flat.url}` AS x USING delta.`{updates.url}` y ON x.id = y.id"
    ld.sql(f"{sql} WHEN MATCHED THEN DELETE")
    assert rows(flat) == [(1, "a", 1.5), (3, "c", 3.0)]


def test_merge_with_every_clause(flat, updates):
    sql = """
        MERGE INTO t USING u AS s ON t.id = s.id
        WHEN MATCHED AND s.amount > 100 THEN DELETE
        WHEN MATCHED THEN UPDATE SET t.amount = s.amount + t.id, name = DEFAULT
        WHEN NOT MATCHED AND s.id = 99 THEN INSERT *
        WHEN NOT MATCHED BY TARGET THEN INSERT (id, name, amount)
            VALUES (s.id, DEFAULT, s.amount / 2)
        WHEN NOT MATCHED BY SOURCE AND t.id = 1 THEN UPDATE SET name = concat(t.name, '!')
        WHEN NOT MATCHED BY SOURCE THEN DELETE
    """
    ld.sql(sql, {"t": flat, "u": updates})
    assert rows(flat) == [(1, "a!", 1.5), (2, "new", 22.0), (4, "new", 20.0)]


@pytest.mark.parametrize(
    "source",
    [
        "(SELECT id, upper(name) AS name, amount FROM t WHERE id = 1) AS s",
        "(VALUES (1::bigint, 'A', 1.5::double)) AS s(id, name, amount)",
    ],
)
def test_merge_of_a_query(flat, source):
    ld.sql(f"MERGE INTO t USING {source} ON t.id = s.id {UPSERT}", {"t": flat})
    assert rows(flat)[0] == (1, "A", 1.5)
    assert flat.count() == 3


def test_merge_of_rows_in_memory(flat):
    source = pa.table({"id": [1], "name": ["A"], "more": [True]})
    sql = f"MERGE WITH SCHEMA EVOLUTION INTO t USING s ON t.id = s.id {UPSERT}"
    ld.sql(sql, {"t": flat, "s": source}, app_id="a", app_version=1)
    assert rows(flat, "id", "name", "more")[0] == (1, "A", True)
    assert ld.sql(sql, {"t": flat, "s": source}, app_id="a", app_version=1).already_applied


def test_a_dry_run_of_merge_writes_nothing(flat, updates):
    sql = f"MERGE INTO t USING u ON t.id = u.id {UPSERT}"
    result = ld.sql(sql, {"t": flat, "u": updates}, dry_run=True)
    assert result.dry_run
    assert flat.version == 1


def test_a_bad_merge_is_refused(flat, updates):
    merge = "MERGE INTO t USING u ON t.id = u.id "
    for sql, error, reason in [
        (merge + "WHEN MATCHED THEN UPDATE SET id = 1, t.id = 2", ConfigError, "'id' twice"),
        (merge + "WHEN MATCHED THEN UPDATE SET nope = 1", ColumnNotFoundError, "nope"),
        (
            merge + "WHEN MATCHED AND x.y = 1 THEN DELETE",
            (ColumnNotFoundError, PredicateError),
            "x",
        ),
        (
            "MERGE INTO t USING (SELECT 1) AS s(a, b) ON t.id = s.a WHEN MATCHED THEN DELETE",
            QueryError,
            "1 values for 2 columns",
        ),
    ]:
        with pytest.raises(error, match=reason):
            ld.sql(sql, {"t": flat, "u": updates})
    assert flat.version == 1


def test_update_and_merge_of_a_field(table, updates):
    ld.sql("UPDATE t SET t.t.more = 7, t.amount = 0 WHERE id = 1", {"t": table})
    ld.sql(
        "MERGE INTO t USING u ON t.id = u.id WHEN MATCHED THEN UPDATE SET t.t.more = u.id + 1",
        {"t": table, "u": updates},
    )
    found = {row["id"]: row["t"] for row in table.to_arrow().to_pylist()}
    assert found == {1: {"id": 10, "more": 7}, 2: {"id": 20, "more": 3}, 3: None}
