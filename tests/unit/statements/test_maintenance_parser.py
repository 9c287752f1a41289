"""Statements that define or maintain a table: their parts, and what is refused."""

from __future__ import annotations

import pytest

from lazydelta.errors import QueryError
from lazydelta.statements import TableName
from lazydelta.statements.spark_statements import (
    Alter,
    Convert,
    CreateTable,
    Describe,
    Generate,
    Optimize,
    Restore,
    SetProperties,
    Vacuum,
    parse_maintenance,
)

T = TableName(name="t")
PATH = TableName(name=None, address="/lake/t")


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("OPTIMIZE t", Optimize(target=T)),
        ("optimize delta.`/lake/t` FULL;", Optimize(target=PATH, full=True)),
        (
            "OPTIMIZE t WHERE day >= '2026-01-01' ZORDER BY (a, b.c)",
            Optimize(target=T, where="day >= '2026-01-01'", z_order=("a", "b.c")),
        ),
        ("OPTIMIZE t ZORDER BY a, b", Optimize(target=T, z_order=("a", "b"))),
        (
            "REORG TABLE t WHERE p = 1 APPLY (PURGE)",
            Optimize(target=T, where="p = 1", purge=True),
        ),
        ("VACUUM t", Vacuum(target=T)),
        (
            "VACUUM lazydelta.`/lake/t` LITE RETAIN 0.5 HOURS DRY RUN",
            Vacuum(target=PATH, mode="lite", hours=0.5, dry_run=True),
        ),
        ("RESTORE TABLE t TO VERSION AS OF 3", Restore(target=T, version=3)),
        (
            "RESTORE t TIMESTAMP AS OF '2026-01-01 12:00'",
            Restore(target=T, timestamp="2026-01-01 12:00"),
        ),
        ("DESC HISTORY t LIMIT 2", Describe(target=T, what="history", limit=2)),
        ("describe detail delta.`/lake/t`", Describe(target=PATH, what="detail")),
        ("SHOW TBLPROPERTIES t('a.b')", Describe(target=T, what="properties", key="a.b")),
        (
            "CONVERT TO DELTA parquet.`/lake/t` NO STATISTICS PARTITIONED BY (d decimal(3, 1))",
            Convert(path="/lake/t", partition_by="d decimal(3, 1)"),
        ),
        (
            "ALTER TABLE t SET TBLPROPERTIES (delta.appendOnly = true, 'it''s' = 'a\\'b')",
            SetProperties(target=T, properties={"delta.appendOnly": "true", "it's": "a'b"}),
        ),
        (
            "GENERATE symlink_format_manifest FOR TABLE t",
            Generate(target=T, mode="symlink_format_manifest"),
        ),
        *(
            (f"ALTER TABLE t {change}", Alter(target=T, steps=(steps,)))
            for change, steps in {
                "ADD COLUMNS (a int, b string)": ("add_columns", ("a int, b string",)),
                "ADD COLUMN a map<int, string>": ("add_columns", ("a map<int, string>",)),
                "RENAME COLUMN s.`a.b` TO c": ("rename_column", (("s", "a.b"), "c")),
                "DROP COLUMN a": ("drop_column", (("a",),)),
                "ALTER COLUMN a DROP NOT NULL": ("set_nullable", (("a",), True)),
                "ALTER COLUMN a SET NOT NULL": ("set_nullable", (("a",), False)),
                "CHANGE COLUMN a COMMENT 'c'": ("set_comment", (("a",), "c")),
                "ALTER COLUMN a TYPE bigint;": ("change_type", (("a",), "bigint")),
                "ALTER COLUMN a SET DEFAULT 1 + 1": ("set_default", (("a",), "1 + 1")),
                "ALTER COLUMN a DROP DEFAULT": ("set_default", (("a",), None)),
                "ADD CONSTRAINT c CHECK ((a > 0) and b)": (
                    "add_constraint",
                    ("c", "(a > 0) and b"),
                ),
                "DROP CONSTRAINT c": ("drop_constraint", ("c",)),
                "CLUSTER BY (a, b.c)": ("cluster_by", ([("a",), ("b", "c")],)),
                "CLUSTER BY NONE": ("cluster_by", ([],)),
            }.items()
        ),
        (
            "ALTER TABLE t DROP COLUMNS (a, b)",
            Alter(target=T, steps=(("drop_column", (("a",),)), ("drop_column", (("b",),)))),
        ),
        ("ALTER TABLE t RENAME TO u", None),
        (
            "ALTER TABLE t UNSET TBLPROPERTIES IF EXISTS (a.b, 'c')",
            SetProperties(target=T, unset=("a.b", "c"), if_exists=True),
        ),
        (
            (
                "CREATE TABLE IF NOT EXISTS t (id bigint NOT NULL, b int GENERATED ALWAYS AS (1 + 1)) "
                "USING delta PARTITIONED BY (b) LOCATION '/lake/t' COMMENT 'c' TBLPROPERTIES ('k'='v')"
            ),
            CreateTable(
                target=T,
                mode="createIfNotExists",
                columns="id bigint NOT NULL, b int GENERATED ALWAYS AS (1 + 1)",
                location="/lake/t",
                comment="c",
                partition_by=("b",),
                properties={"k": "v"},
            ),
        ),
        (
            (
                "CREATE OR REPLACE TABLE t USING lazydelta OPTIONS (path '/x') CLUSTER BY (a) "
                "AS SELECT 1 AS a"
            ),
            CreateTable(
                target=T,
                mode="createOrReplace",
                location="/x",
                cluster_by=("a",),
                query="SELECT 1 AS a",
            ),
        ),
    ],
)
def test_a_statement_is_split_into_its_parts(sql, expected):
    assert parse_maintenance(sql) == expected


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1",
        "DESCRIBE t",
        "ALTER TABLE t SET LOCATION '/x'",
        "CREATE TABLE t (a int) USING parquet",
        "CREATE TABLE t (a int)",
        "CREATE VIEW v AS SELECT 1",
        "",
    ],
)
def test_other_statements_are_left_to_other_parsers(sql):
    assert parse_maintenance(sql) is None


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("OPTIMIZE", "expected a table"),
        ("VACUUM t RETAIN soon HOURS", "expected a number, but found 'soon'"),
        ("VACUUM t RETAIN 3 DAYS", "expected HOURS"),
        ("RESTORE t TO VERSION OF 3", "expected AS"),
        ("RESTORE t TO TIMESTAMP AS OF yesterday", "expected a string in quotes"),
        ("CONVERT TO DELTA csv.`/x`", "expected parquet"),
        ("CREATE TABLE t (a int) USING delta SORTED BY (a)", "expected TBLPROPERTIES"),
        ("CREATE TABLE t (a decimal(3, 1) USING delta", "is not closed"),
        ("DESCRIBE HISTORY t u", "expected the end of the statement"),
    ],
)
def test_an_error_names_what_was_expected(sql, reason):
    with pytest.raises(QueryError, match=reason.replace("(", r"\(")):
        parse_maintenance(sql)
