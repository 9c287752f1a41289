"""Tables written by the reference implementation, read by it and by lazydelta.

A program (`tests.spark.reference`) that reports, for each table, the features in its protocol, and
whether the rows are equal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.spark.reference import print_report

if TYPE_CHECKING:
    from pathlib import Path

TABLES = {
    "deletion-vectors-changes-row-ids-v2-checkpoints": [
        """CREATE TABLE {t} (id BIGINT, name STRING, v DOUBLE) USING delta TBLPROPERTIES (
           'delta.enableDeletionVectors' = 'true', 'delta.enableChangeDataFeed' = 'true',
           'delta.enableRowTracking' = 'true', 'delta.enableInCommitTimestamps' = 'true',
           'delta.checkpointPolicy' = 'v2', 'delta.checkpointInterval' = '2')""",
        "INSERT INTO {t} SELECT id, concat('n', id % 7), id / 3 FROM range(0, 1000, 1, 2)",
        "DELETE FROM {t} WHERE id % 10 = 3",
        "UPDATE {t} SET v = -v WHERE id BETWEEN 100 AND 120",
        """MERGE INTO {t} USING (SELECT id + 990 AS id FROM range(20)) s ON {t}.id = s.id
           WHEN MATCHED THEN UPDATE SET name = NULL
           WHEN NOT MATCHED THEN INSERT (id, name, v) VALUES (s.id, 'new', 0)""",
    ],
    "column-mapping-by-name": [
        """CREATE TABLE {t} (id BIGINT, `a b` STRING, p STRING, gone INT,
           s STRUCT<x: INT, y: STRUCT<z: DATE>>, l ARRAY<STRUCT<x: INT>>)
           USING delta PARTITIONED BY (p) TBLPROPERTIES (
           'delta.columnMapping.mode' = 'name', 'delta.enableDeletionVectors' = 'true')""",
        """INSERT INTO {t} SELECT id, concat('n', id), element_at(array('a/b', 'x=%2F', NULL, ''),
           cast(id % 4 + 1 AS INT)), 7, named_struct('x', cast(id AS INT), 'y',
           named_struct('z', DATE'2020-02-29')), array(named_struct('x', cast(id AS INT)))
           FROM range(0, 40, 1, 1)""",
        "ALTER TABLE {t} RENAME COLUMN `a b` TO `c,d`",
        "ALTER TABLE {t} RENAME COLUMN s.x TO renamed",
        "ALTER TABLE {t} DROP COLUMN gone",
        "ALTER TABLE {t} ADD COLUMN (gone STRING, s.late BIGINT)",
        "DELETE FROM {t} WHERE id IN (3, 8)",
        """INSERT INTO {t} SELECT 100, 'after', NULL, named_struct('renamed', 1, 'y',
           named_struct('z', NULL), 'late', 5), array(named_struct('x', 1)), 'again'""",
    ],
    "column-mapping-by-id": [
        """CREATE TABLE {t} (id BIGINT, v STRING) USING delta
           TBLPROPERTIES ('delta.columnMapping.mode' = 'id')""",
        "INSERT INTO {t} SELECT id, concat('n', id) FROM range(0, 10, 1, 1)",
        "ALTER TABLE {t} RENAME COLUMN v TO w",
    ],
    "liquid-clustering-and-variants": [
        "CREATE TABLE {t} (id BIGINT, k STRING, v VARIANT) USING delta CLUSTER BY (k)",
        """INSERT INTO {t} SELECT id, concat('k', id % 5),
           if(id % 9 = 0, NULL, parse_json(concat('{{"a":', id, '}}'))) FROM range(0, 200, 1, 2)""",
        "OPTIMIZE {t}",
    ],
    "type-widening": [
        """CREATE TABLE {t} (a TINYINT, b INT, c FLOAT, d DECIMAL(9,2), e INT, s STRUCT<x: INT>,
           m MAP<STRING, INT>) USING delta TBLPROPERTIES ('delta.enableTypeWidening' = 'true')""",
        """INSERT INTO {t} SELECT 7, id, 0.5, 1.25, id, named_struct('x', cast(id AS INT)),
           map('k', cast(id AS INT)) FROM range(0, 5, 1, 1)""",
        "ALTER TABLE {t} CHANGE COLUMN a TYPE INT",
        "ALTER TABLE {t} CHANGE COLUMN b TYPE BIGINT",
        "ALTER TABLE {t} CHANGE COLUMN c TYPE DOUBLE",
        "ALTER TABLE {t} CHANGE COLUMN d TYPE DECIMAL(20,4)",
        "ALTER TABLE {t} CHANGE COLUMN s.x TYPE BIGINT",
        """INSERT INTO {t} SELECT 100000, 5000000000, 0.1, 12345678901.1234, 1,
           named_struct('x', 5000000000), map()""",
    ],
    "times-and-partition-values": [
        """CREATE TABLE {t} (id BIGINT, ts TIMESTAMP, w TIMESTAMP_NTZ, b BINARY,
           day DATE, at TIMESTAMP, n DECIMAL(9,2), k STRING)
           USING delta PARTITIONED BY (day, at, n, k)""",
        """INSERT INTO {t} SELECT id, timestamp_micros(id * 1000001), TIMESTAMP_NTZ'1969-12-31 23:59:59.5',
           cast(concat('x', id) AS BINARY),
           date_add(DATE'2020-01-01', cast(id % 2 AS INT)),
           if(id = 3, NULL, TIMESTAMP'2020-06-01 12:00:00.5Z'), cast(id % 2 AS DECIMAL(9,2)) - 0.5,
           element_at(array('a b/c:d', NULL, 'é%'), cast(id % 3 + 1 AS INT)) FROM range(0, 6, 1, 1)""",
    ],
}


def report(spark, place: Path) -> dict[str, dict[str, object]]:
    """Write every table, and compare the rows that both read."""
    from lazydelta import Table
    from lazydelta.spark import changes, read
    from tests.spark.read_cases import rows_of
    from tests.unit.scan.read.test_generated import counted

    found = {}
    for name, statements in TABLES.items():
        path = str(place / name)
        for statement in statements:
            spark.sql(statement.format(t=f"delta.`{path}`"))
        snapshot = Table.open(path).snapshot()
        theirs = spark.read.format("delta").load(path)
        expected = counted(rows_of(theirs))
        found[name] = {
            "features": sorted(snapshot.protocol.writer_features or ()),
            "rows": sum(expected.values()),
            "columns": read(spark, path).columns == theirs.columns,
            "auto": counted(rows_of(read(spark, path))) == expected,
            "arrow": counted(rows_of(read(spark, path, path="arrow"))) == expected,
            "in_process": counted(snapshot.scan().to_arrow().to_pylist()) == expected,
        }
        if "changeDataFeed" in (snapshot.protocol.writer_features or ()):
            feed = spark.read.format("delta").option("readChangeFeed", "true")
            feed = feed.option("startingVersion", 0).load(path).drop("_commit_timestamp")
            ours = changes(spark, path).drop("_commit_timestamp")
            found[name]["changes"] = counted(rows_of(ours)) == counted(rows_of(feed))
    return found


if __name__ == "__main__":
    print_report(report)
