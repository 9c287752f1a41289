"""Delta Spark and we change rows of one table in turn: rows, row ids and changes after each step.

Run as a program (`tests.spark.reference`). It reports the number of comparisons and the first problem
for each table.
"""

from __future__ import annotations

import traceback

from lazydelta import ReadOptions, Table
from tests.round_trip.spark_rounds import SMALL, STRICT
from tests.spark.reference import print_report

_IDS = ReadOptions(row_id_column="row_id", row_commit_version_column="version")
_VECTORS = "'delta.enableDeletionVectors' = 'true'"
_TRACKED = "'delta.enableRowTracking' = 'true'"
_WIDENING = "'delta.enableTypeWidening' = 'true'"
_FEED = "'delta.enableChangeDataFeed' = 'true'"

TABLES = {
    # name: (properties and partitioning, statements after the first rows)
    "vectors-partitions-feed": (f"PARTITIONED BY (p) TBLPROPERTIES ({_VECTORS}, {_FEED})", []),
    "vectors-mapping-by-name-row-tracking": (
        f"TBLPROPERTIES ({_VECTORS}, {_TRACKED}, 'delta.columnMapping.mode' = 'name')",
        [
            "ALTER TABLE {t} RENAME COLUMN p TO renamed",
            "ALTER TABLE {t} RENAME COLUMN renamed TO p",
        ],
    ),
    "vectors-mapping-by-id-type-widening": (
        f"TBLPROPERTIES ({_VECTORS}, {_WIDENING}, 'delta.columnMapping.mode' = 'id')",
        ["ALTER TABLE {t} CHANGE COLUMN v TYPE BIGINT"],
    ),
    "rewritten-row-tracking-feed": (f"TBLPROPERTIES ({_TRACKED}, {_FEED})", []),
}
STEPS = (
    # who, verb, rows, what is added to the value
    ("they", "DELETE", (3, 13), 0),
    ("we", "DELETE", (5, 14), 0),
    ("we", "UPDATE", (1, 4, 11), 100),
    ("they", "UPDATE", (1, 2, 12), 1000),
    ("we", "UPDATE", (1, 2, 6), 10),
    ("they", "UPDATE", (6, 8), 1),
    ("we", "DELETE", (8,), 0),
)


class RowChanges:
    """One table, changed by both in turn, and its expected rows."""

    def __init__(self, spark, name, place):
        self.spark, self.name = spark, name
        self.path = str(place / name)
        self.held = 0
        how, statements = TABLES[name]
        self.sql(f"CREATE TABLE {{t}} (id BIGINT, p STRING, v INT) USING delta {how}")
        rows = "SELECT id, if(id % 2 = 0, 'a', NULL) AS p, cast(id AS INT) AS v"
        self.sql(f"INSERT INTO {{t}} {rows} FROM range(0, 20, 1, 2)")
        for statement in statements:
            self.sql(statement)
        self.table = Table.open(self.path)
        self.rows = {key: ("a" if key % 2 == 0 else None, key) for key in range(20)}
        _, self.ids = self.read_by_us()

    def sql(self, statement):
        return self.spark.sql(statement.format(t=f"delta.`{self.path}`"))

    def run(self):
        """Run all steps; a failed comparison raises."""
        for who, verb, keys, by in STEPS:
            condition = f"id IN ({', '.join(map(str, keys))})"
            if who == "we":
                self.we(verb, condition, by)
            elif verb == "DELETE":
                self.sql(f"DELETE FROM {{t}} WHERE {condition}")
            else:
                self.sql(f"UPDATE {{t}} SET v = v + {by} WHERE {condition}")
            self.expect(verb, keys, by)
            self.compare(who)
        self.compare_changes()

    def we(self, verb, condition, by):
        if verb == "DELETE":
            self.table.delete(condition)
        else:
            self.table.update({"v": f"v + {by}"}, condition)

    def expect(self, verb, keys, by):
        version = self.table.version
        for key in keys:
            if verb == "DELETE":
                del self.rows[key]
                self.ids.pop(key, None)
            else:
                p, value = self.rows[key]
                self.rows[key] = p, value + by
                if self.ids:
                    self.ids[key] = self.ids[key][0], version

    def compare(self, who):
        """Compare our rows, and theirs where they have to read what we wrote."""
        assert self.read_by_us() == (self.rows, self.ids)
        report = self.table.check()
        assert report.ok, report.to_dict()
        self.held += 1
        if who == "we":
            assert self.read_by_spark() == (self.rows, self.ids)
            self.held += 1

    @property
    def is_tracked(self):
        return "tracking" in self.name

    def read_by_us(self):
        """Return values, and row id and row commit version if rows are tracked, by key."""
        return self.by_key(self.table.to_arrow(_IDS if self.is_tracked else None))

    def read_by_spark(self):
        ids = ", _metadata.row_id, _metadata.row_commit_version version" if self.is_tracked else ""
        return self.by_key(self.sql(f"SELECT id, p, v{ids} FROM {{t}}").toArrow())

    def by_key(self, found):
        rows = found.to_pylist()
        values = {row["id"]: (row["p"], row["v"]) for row in rows}
        assert len(values) == len(rows)
        if not self.is_tracked:
            return values, {}
        return values, {row["id"]: (row["row_id"], row["version"]) for row in rows}

    def compare_changes(self):
        if "feed" not in self.name:
            return
        feed = self.spark.read.format("delta").option("readChangeFeed", "true")
        theirs = feed.option("startingVersion", 0).load(self.path).drop("_commit_timestamp")
        ours = self.table.changes().to_arrow().drop_columns(["_commit_timestamp"])
        columns = sorted(ours.schema.names)
        found = [
            sorted(repr([row[name] for name in columns]) for row in rows.to_pylist())
            for rows in (ours, theirs.toArrow())
        ]
        assert found[0] == found[1]
        kinds = set(ours["_change_type"].to_pylist())
        assert kinds == {"insert", "delete", "update_preimage", "update_postimage"}
        self.held += 1


def report(spark, place, *names):
    """Return the number of comparisons and the first problem, by table."""
    found = {}
    for name in names:
        changes = None
        try:
            changes = RowChanges(spark, name, place)
            changes.run()
            problem = None
        except Exception:  # noqa: BLE001 - it is reported
            problem = traceback.format_exc(limit=-6)[-6000:]
        found[name] = {"held": changes.held if changes else 0, "problem": problem}
    return found


if __name__ == "__main__":
    print_report(report, STRICT | SMALL)
