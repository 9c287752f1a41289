"""The tables that a query names, and where."""

from __future__ import annotations

import pytest

from lazydelta.statements.spark_statements import common_tables, query_tables


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT 1", []),
        ("SELECT a, b FROM t", ["t"]),
        ("FROM t SELECT a", ["t"]),
        ("SELECT * FROM t AS x, db.u JOIN `v w` USING (id), c.d.e", ["t", "db.u", "v w", "c.d.e"]),
        ("SELECT (SELECT max(x) FROM u) FROM t WHERE y IN (SELECT z FROM v)", ["u", "t", "v"]),
        ("SELECT * FROM (t JOIN u ON t.a = u.a) WHERE b, c", ["t", "u"]),
        ("SELECT * FROM (SELECT * FROM t UNION SELECT * FROM u) ORDER BY a, b", ["t", "u"]),
        ("SELECT extract(YEAR FROM day), trim(BOTH FROM s) FROM t", ["t"]),
        ("SELECT a IS DISTINCT FROM b FROM t", ["t"]),
        ("SELECT * FROM range(3), t LATERAL VIEW explode(xs) e AS x", ["t"]),
        ("SELECT 'FROM u' -- FROM v\nFROM t", ["t"]),
        ("SELECT * FROM t GROUP BY a, b HAVING a", ["t"]),
        ("WITH w AS (SELECT * FROM t) SELECT * FROM w", ["t", "w"]),
    ],
)
def test_tables_stand_after_from_and_join(sql, expected):
    assert [".".join(table.parts) for table in query_tables(sql)] == expected


def test_a_path_and_a_version_belong_to_the_place():
    sql = "SELECT * FROM delta.`/x` VERSION AS OF 3 v JOIN t FOR TIMESTAMP AS OF '2026' JOIN u x"
    first, second, third = query_tables(sql)
    assert (first.path, first.version, first.has_alias) == ("/x", "3", True)
    assert sql[first.start : first.end] == "delta.`/x` VERSION AS OF 3"
    assert (second.path, second.timestamp, second.has_alias) == (None, "2026", False)
    assert sql[second.start : second.end] == "t FOR TIMESTAMP AS OF '2026'"
    assert (third.version, third.has_alias) == (None, True)


def test_names_that_the_query_defines():
    sql = "WITH a AS (SELECT 1), `B` (x, y) AS (SELECT 2) SELECT cast(1 AS int) AS z FROM a"
    assert common_tables(sql) == {"a", "b"}
