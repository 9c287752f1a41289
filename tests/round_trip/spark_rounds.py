"""Tables that we write, played on by the reference implementation, and by us again.

A program (`tests.spark.reference`) that tells, for each shape, how many comparisons held, and what
went wrong.
"""

from __future__ import annotations

import json
import traceback
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

from lazydelta import ReadOptions
from tests.round_trip.shapes import SHAPES
from tests.round_trip.story import Story, assert_rows, conditions
from tests.spark.reference import tell
from tests.unit.scan.read.test_generated import counted

STRICT = {
    "spark.databricks.delta.checksum.mismatch.fatal": "true",
    "spark.databricks.delta.state.corruptionIsFatal": "true",
}
"""A `.crc` or a checkpoint that contradicts the log is an error, not a line in a log file."""
SMALL = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.shuffle.partitions": "1",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.ui.enabled": "false",
}
"""A thousand queries of ten rows: compiling them would take longer than running them."""
QUERIES_AT_ONCE = 16


class Game:
    """One table between us and a session with the reference connector."""

    def __init__(self, spark, name, place):
        self.spark = spark
        self.name = name
        self.story = Story.told(name, place)
        self.held = 0

    @property
    def there(self):
        return f"delta.`{self.story.path}`"

    def sql(self, statement):
        return self.spark.sql(statement.format(t=self.there))

    def holds(self, truth, what):
        assert truth, what
        self.held += 1

    def play(self):
        """Go through all turns; whatever is wrong is raised."""
        self.they_read_every_version()
        self.they_tell_our_history()
        self.they_skip_by_our_statistics()
        self.they_accept_our_checksum()
        self.they_open_our_checkpoint()
        self.they_insert()
        self.we_go_on()
        self.they_delete()
        self.we_go_on()
        self.they_optimize()
        self.we_go_on()
        self.they_add_a_column()
        self.we_go_on()
        self.they_checkpoint()
        self.we_go_on()
        self.they_insert()
        self.story.table.checkpoint()
        self.they_open_our_checkpoint()
        self.they_read_our_changes()
        self.they_number_rows_as_we_do()
        for version, rows in self.story.versions.items():
            assert_rows(self.story.table.snapshot(version).to_arrow(), rows)
            self.held += 1

    # --- what they read of ours

    def they_read_every_version(self):
        for version in self.story.versions:
            self.they_read(version)

    def they_read(self, version=None):
        reader = self.spark.read.format("delta")
        if version is not None:
            reader = reader.option("versionAsOf", version)
        rows = self.story.rows if version is None else self.story.versions[version]
        assert_rows(reader.load(self.story.path).toArrow(), rows)
        self.held += 1

    def they_tell_our_history(self):
        theirs = {row["version"]: row for row in self.sql("DESCRIBE HISTORY {t}").collect()}
        ours = self.story.table.history()
        self.holds(sorted(theirs) == sorted(self.story.versions), f"history: {sorted(theirs)}")
        for info in ours:
            row = theirs[info.version]
            self.holds(row["operation"] == info.operation, (row, info))
            metrics = {k: str(v) for k, v in info.raw.get("operationMetrics", {}).items()}
            self.holds((row["operationMetrics"] or {}) == metrics, (row, info))
            self.holds("WRITE" not in row["operation"] or int(metrics["numOutputRows"]), info)
            if "inCommitTimestamp" in info.raw:
                self.holds(row["timestamp"].astimezone(UTC) == info.timestamp, (row, info))

    def they_skip_by_our_statistics(self):
        asked = conditions(self.story.rows)
        rows, key = self.story.rows, self.story.key
        for start in range(0, len(asked), QUERIES_AT_ONCE):
            some = asked[start : start + QUERIES_AT_ONCE]
            queries = [
                f"SELECT {at} AS q, `{key}` AS k FROM {{t}} WHERE {in_spark_sql(condition)}"
                for at, condition in enumerate(some)
            ]
            found = self.sql(" UNION ALL ".join(queries)).toArrow().to_pylist()
            for at, condition in enumerate(some):
                expected = sorted(row[key] for row in rows if condition.holds(row))
                told = sorted(one["k"] for one in found if one["q"] == at)
                self.holds(told == expected, f"{condition}: {told}, not {expected}")

    def their_snapshot(self):
        """Return the snapshot as they see it on disk, with nothing remembered."""
        log = self.spark._jvm.org.apache.spark.sql.delta.DeltaLog
        log.clearCache()
        return log.forTableWithSnapshot(self.spark._jsparkSession, self.story.path)._2()

    def they_accept_our_checksum(self):
        snapshot = self.their_snapshot()
        self.holds(snapshot.version() == self.story.table.version, "they see another version")
        self.holds(snapshot.checksumOpt().isDefined(), "they find no .crc")
        empty = getattr(snapshot, "validateChecksum$default$1")()
        self.holds(snapshot.validateChecksum(empty), "they do not accept the .crc")

    def they_open_our_checkpoint(self):
        self.story.table.checkpoint()
        segment = self.their_snapshot().logSegment()
        newest = self.story.table.version
        self.holds(segment.checkpointProvider().version() == newest, segment.toString())
        self.they_read(newest)
        self.they_accept_our_checksum()

    def they_read_our_changes(self):
        if self.name != "change-feed":
            return
        feed = self.spark.read.format("delta").option("readChangeFeed", "true")
        theirs = feed.option("startingVersion", 0).load(self.story.path).drop("_commit_timestamp")
        ours = self.story.table.changes().to_arrow().drop_columns(["_commit_timestamp"])
        kinds = set(ours["_change_type"].to_pylist())
        self.holds(kinds == {"insert", "delete"}, kinds)
        told = counted(theirs.toArrow().to_pylist())
        self.holds(told == counted(ours.to_pylist()), "the change feed differs")

    def they_number_rows_as_we_do(self):
        if self.name != "row-tracking":
            return
        theirs = self.sql("SELECT id, _metadata.row_id r, _metadata.row_commit_version v FROM {t}")
        options = ReadOptions(row_id_column="r", row_commit_version_column="v")
        ours = self.story.table.to_arrow(options).select(["id", "r", "v"])
        self.holds(None not in ours["r"].to_pylist(), "rows without ids")
        told = counted(theirs.toArrow().to_pylist())
        self.holds(told == counted(ours.to_pylist()), "row ids differ")

    # --- what they write

    def they_insert(self):
        given, new = self.story.next_rows()
        self.spark.createDataFrame(given).createOrReplaceTempView("given")
        columns = ", ".join(f"`{name}`" for name in given.schema.names)
        self.sql(f"INSERT INTO {{t}} ({columns}) SELECT {columns} FROM given")
        self.they_wrote([*self.story.rows, *new])

    def they_delete(self):
        key, rows = self.story.key, self.story.rows
        gone = rows[1][key]
        statement = f"DELETE FROM {{t}} WHERE `{key}` = {gone}"
        if self.story.shape.appends_only:
            self.they_refuse(statement, "append")
            return
        self.sql(statement)
        self.they_wrote([row for row in rows if row[key] != gone])
        if self.name == "deletion-vectors":
            files = list(self.story.table.scan().files())
            self.holds(any(file.deletion_vector for file in files), "they wrote no vector")

    def they_refuse(self, statement, reason):
        try:
            self.sql(statement)
        except Exception as error:  # noqa: BLE001 - whatever it is, its text is looked at
            self.holds(reason in str(error), str(error))
        else:
            raise AssertionError(f"{statement} succeeded")

    def they_optimize(self):
        before = self.story.table.version
        self.sql("OPTIMIZE {t}")
        self.holds(self.story.table.version > before, "there was nothing to optimize")
        self.they_wrote(self.story.rows)

    def they_add_a_column(self):
        self.sql("ALTER TABLE {t} ADD COLUMN (extra INT)")
        self.they_wrote([row | {"extra": None} for row in self.story.rows])

    def they_checkpoint(self):
        log = self.spark._jvm.org.apache.spark.sql.delta.DeltaLog
        log.forTable(self.spark._jsparkSession, self.story.path).checkpoint()
        self.they_wrote(self.story.rows)

    def they_wrote(self, rows):
        self.story.other_wrote(rows)
        found = self.story.table.check()
        self.holds(found.ok, found.to_dict())

    # --- what we write

    def we_go_on(self):
        self.story.append()
        self.they_read()
        self.they_accept_our_checksum()


def in_spark_sql(condition):
    """Return a condition in the SQL of Spark."""
    column = "`" + condition.column.replace("`", "``") + "`"
    if condition.operator == "is null":
        return f"{column} IS NULL"
    return f"{column} {condition.operator} {literal(condition.value)}"


def literal(value):
    match value:
        case datetime():
            text = value.replace(tzinfo=None).isoformat(" ", timespec="microseconds")
            return f"TIMESTAMP_NTZ'{text}'" if value.tzinfo is None else f"TIMESTAMP'{text}Z'"
        case date():
            return f"DATE'{value.isoformat()}'"
        case Decimal():
            return f"CAST('{value}' AS DECIMAL(38, 10))"
        case float():
            return f"CAST('{value}' AS DOUBLE)"
        case str():
            text = value.replace("\\", "\\\\").replace("'", "\\'").replace("{", "{{")
            return "'" + text.replace("}", "}}") + "'"
    return str(value)


def a_wrong_checksum_is_noticed(spark, place):
    """The control: what accepts every `.crc` shows nothing."""
    game = Game(spark, "unpartitioned", place)
    game.they_accept_our_checksum()
    name = f"{game.story.table.version:020}.crc"
    path = Path(game.story.path) / "_delta_log" / name
    told = json.loads(path.read_text())
    path.write_text(json.dumps(told | {"tableSizeBytes": told["tableSizeBytes"] + 1}))
    try:
        game.they_accept_our_checksum()
    except Exception:  # noqa: BLE001 - of theirs, by way of Java
        return True
    return False


def report(spark, place, names=tuple(SHAPES)):
    """Return, for each shape, how many comparisons held, and the first that did not."""
    found = {"control": a_wrong_checksum_is_noticed(spark, place / "control")}
    for name in names:
        game = None
        try:
            game = Game(spark, name, place)
            game.play()
            problem = None
        except Exception:  # noqa: BLE001 - whatever it is, it is reported
            problem = traceback.format_exc(limit=-6)[-6000:]
        found[name] = {"held": game.held if game else 0, "problem": problem}
    return found


if __name__ == "__main__":
    tell(report, STRICT | SMALL)
