"""Tables created and altered by lazydelta, then read and altered by the reference implementation.

A program (`tests.spark.reference`) that reports, for each table and step, whether both engines read
the same rows, or what differs.
"""

from __future__ import annotations

from datetime import date

import pyarrow as pa

from lazydelta import Table
from tests.spark.reference import print_report

MAPPED = {"delta.columnMapping.mode": "name"}


def fill(table, *data):
    table.write(pa.Table.from_pylist(list(data), schema=table.to_arrow().schema))


def renamed(path):
    """Column mapping from the start: renamed, dropped and added columns, nested ones too."""
    columns = "id long, day date, gone string, s struct<a: int, b: int>, l array<struct<q: int>>"
    table = Table.create(path, columns, partition_by=["day"], properties=MAPPED)
    day = date(2026, 1, 1)
    old = {"id": 1, "day": day, "gone": "x", "s": {"a": 1, "b": 2}, "l": [{"q": 3}]}
    fill(table, old, {**old, "id": 2, "day": None})
    table.alter.rename_column("day", "the day")
    table.alter.rename_column("l.element.q", "r")
    table.alter.drop_column("gone")
    table.alter.drop_column("s.b")
    table.alter.add_columns({"gone": "int", "s.b": "string"})
    fill(table, {"id": 3, "the day": day, "s": {"a": 5, "b": "n"}, "l": None, "gone": 9})
    yield "INSERT INTO {t} VALUES (4, DATE'2026-02-02', named_struct('a', 1, 'b', 'y'), NULL, 4)"
    yield "ALTER TABLE {t} RENAME COLUMN id TO key"
    table.alter.rename_column("key", "number")
    table.alter.add_columns("late long")
    yield "ALTER TABLE {t} DROP COLUMN gone"


def mapped_later(path):
    """Column mapping enabled on a table with files."""
    table = Table.create(path, "id long, s struct<a: int>")
    fill(table, {"id": 1, "s": {"a": 1}})
    table.alter.set_properties(MAPPED)
    table.alter.rename_column("s.a", "b c")
    table.alter.add_columns("x string")
    fill(table, {"id": 2, "s": {"b c": 2}, "x": "y"})
    yield "UPDATE {t} SET x = 'z' WHERE id = 1"
    yield "ALTER TABLE {t} RENAME COLUMN id TO key"
    table.alter.drop_column("x")


def switched_on(path):
    """Features enabled one after the other."""
    table = Table.create(path, "id long, n string")
    fill(table, {"id": 1, "n": "a"}, {"id": 2, "n": "b"})
    for key in ("enableDeletionVectors", "enableChangeDataFeed", "enableInCommitTimestamps"):
        table.alter.set_properties({f"delta.{key}": "true"})
    table.alter.set_properties({"delta.checkpointPolicy": "v2"})
    table.alter.add_constraint("Small", "id < 100")
    table.alter.set_nullable("id", nullable=False)
    table.alter.set_comment("n", "a name")
    yield "DELETE FROM {t} WHERE id = 1"
    yield "INSERT INTO {t} VALUES (3, 'c')"
    yield "!INSERT INTO {t} VALUES (300, 'c')"
    yield "!INSERT INTO {t} VALUES (NULL, 'c')"
    table.alter.drop_constraint("small")
    yield "INSERT INTO {t} VALUES (300, 'c')"
    yield "ALTER TABLE {t} ADD CONSTRAINT large CHECK (id > 0)"
    table.alter.drop_constraint("large")


def widened(path):
    """Widened types."""
    on = {"delta.enableTypeWidening": "true"}
    table = Table.create(path, "a int, b float, c decimal(5,2), l array<smallint>", properties=on)
    fill(table, {"a": 1, "b": 0.5, "c": 1, "l": [1]})
    for column, kind in (("a", "bigint"), ("b", "double"), ("c", "decimal(10,4)")):
        table.alter.change_type(column, kind)
    table.alter.change_type("l.element", "int")
    fill(table, {"a": 1 << 40, "b": 0.1, "c": 2, "l": [1 << 20]})
    yield "INSERT INTO {t} VALUES (5, 0.25, 3.0, array(7))"


def tracked(path):
    """Row tracking, in-commit timestamps, generated columns and defaults from the start."""
    columns = "id long, at date, y int generated always as (year(at)), n string default 'none'"
    on = {"delta.enableRowTracking": "true", "delta.enableInCommitTimestamps": "true"}
    table = Table.create(path, columns, partition_by=["y"], properties=on)
    table.write(pa.table({"id": [1], "at": [date(2026, 1, 1)]}))
    yield "INSERT INTO {t} (id, at) VALUES (2, DATE'2025-05-05')"
    table.alter.set_default("n", "'other'")
    yield "INSERT INTO {t} (id, at) VALUES (3, DATE'2024-05-05')"
    yield "UPDATE {t} SET n = 'x' WHERE id = 1"


TABLES = {make.__name__: make for make in (renamed, mapped_later, switched_on, widened, tracked)}


def report(spark, place):
    """Return the result of each step by table: True, or what is wrong."""
    found = {}
    for name, make in TABLES.items():
        path = str(place / name)
        steps = found[name] = []
        for statement in make(path):
            steps.append(agreed(spark, path))
            steps.append(run_statement(spark, statement.format(t=f"delta.`{path}`")))
            steps.append(agreed(spark, path))
        steps.append(agreed(spark, path))
        history = spark.sql(f"DESCRIBE HISTORY delta.`{path}`").collect()
        versions = [row["version"] for row in history]
        steps.append(versions == list(range(Table.open(path).version, -1, -1)) or versions)
    return found


def run_statement(spark, statement):
    """Run a statement; one that starts with `!` must fail."""
    must_fail = statement.startswith("!")
    try:
        spark.sql(statement.removeprefix("!"))
    except Exception as error:  # noqa: BLE001 - any error is reported
        return must_fail or f"{statement}: {str(error)[:500]}"
    return not must_fail or f"{statement} succeeded"


def agreed(spark, path):
    """Return True if both engines read the same columns and rows, else what differs."""
    from tests.spark.read_cases import rows_of
    from tests.unit.scan.read.test_generated import counted

    snapshot = Table.open(path).snapshot()
    theirs = spark.read.format("delta").load(path)
    if tuple(theirs.columns) != snapshot.schema.names:
        return f"columns: {theirs.columns} and {snapshot.schema.names}"
    mine, others = counted(snapshot.to_arrow().to_pylist()), counted(rows_of(theirs))
    return mine == others or f"rows: {mine} and {others}"


if __name__ == "__main__":
    print_report(report)
