"""Round trips with Delta Spark: it reads and writes our tables, then we do again.

Run as a program (`tests.spark.reference`). It reports the number of successful comparisons and the
first problem for each shape.
"""

from __future__ import annotations

import json
import traceback
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

from lazydelta import ReadOptions
from tests.round_trip.shapes import SHAPES
from tests.round_trip.table_model import TableModel, assert_rows, conditions
from tests.spark.reference import print_report
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
"""A thousand queries of ten rows: code generation would cost more than it saves."""
QUERIES_AT_ONCE = 16


class SparkRoundTrip:
    """One table, written by us and by a Delta Spark session in turn."""

    def __init__(self, spark, name, place):
        self.spark = spark
        self.name = name
        self.model = TableModel.written(name, place)
        self.held = 0

    @property
    def there(self):
        return f"delta.`{self.model.path}`"

    def sql(self, statement):
        return self.spark.sql(statement.format(t=self.there))

    def holds(self, truth, what):
        assert truth, what
        self.held += 1

    def run(self):
        """Run all steps; a failed comparison raises."""
        self.they_read_every_version()
        self.they_read_our_history()
        self.they_skip_by_our_statistics()
        self.they_accept_our_checksum()
        self.they_open_our_checkpoint()
        self.they_insert()
        self.we_append()
        self.they_delete()
        self.we_append()
        self.they_optimize()
        self.we_append()
        self.they_add_a_column()
        self.we_append()
        self.they_checkpoint()
        self.we_append()
        self.they_insert()
        self.model.table.checkpoint()
        self.they_open_our_checkpoint()
        self.they_read_our_changes()
        self.they_number_rows_as_we_do()
        for version, rows in self.model.versions.items():
            assert_rows(self.model.table.snapshot(version).to_arrow(), rows)
            self.held += 1

    # --- what they read of ours

    def they_read_every_version(self):
        for version in self.model.versions:
            self.they_read(version)

    def they_read(self, version=None):
        reader = self.spark.read.format("delta")
        if version is not None:
            reader = reader.option("versionAsOf", version)
        rows = self.model.rows if version is None else self.model.versions[version]
        assert_rows(reader.load(self.model.path).toArrow(), rows)
        self.held += 1

    def they_read_our_history(self):
        theirs = {row["version"]: row for row in self.sql("DESCRIBE HISTORY {t}").collect()}
        ours = self.model.table.history()
        self.holds(sorted(theirs) == sorted(self.model.versions), f"history: {sorted(theirs)}")
        for info in ours:
            row = theirs[info.version]
            self.holds(row["operation"] == info.operation, (row, info))
            metrics = {k: str(v) for k, v in info.raw.get("operationMetrics", {}).items()}
            self.holds((row["operationMetrics"] or {}) == metrics, (row, info))
            self.holds("WRITE" not in row["operation"] or int(metrics["numOutputRows"]), info)
            if "inCommitTimestamp" in info.raw:
                self.holds(row["timestamp"].astimezone(UTC) == info.timestamp, (row, info))

    def they_skip_by_our_statistics(self):
        selected = conditions(self.model.rows)
        rows, key = self.model.rows, self.model.key
        for start in range(0, len(selected), QUERIES_AT_ONCE):
            some = selected[start : start + QUERIES_AT_ONCE]
            queries = [
                f"SELECT {at} AS q, `{key}` AS k FROM {{t}} WHERE {in_spark_sql(condition)}"
                for at, condition in enumerate(some)
            ]
            found = self.sql(" UNION ALL ".join(queries)).toArrow().to_pylist()
            for at, condition in enumerate(some):
                expected = sorted(row[key] for row in rows if condition.holds(row))
                theirs_read = sorted(one["k"] for one in found if one["q"] == at)
                self.holds(theirs_read == expected, f"{condition}: {theirs_read}, not {expected}")

    def their_snapshot(self):
        """Return their snapshot, loaded without their cache."""
        log = self.spark._jvm.org.apache.spark.sql.delta.DeltaLog
        log.clearCache()
        return log.forTableWithSnapshot(self.spark._jsparkSession, self.model.path)._2()

    def they_accept_our_checksum(self):
        snapshot = self.their_snapshot()
        self.holds(snapshot.version() == self.model.table.version, "they see another version")
        self.holds(snapshot.checksumOpt().isDefined(), "they find no .crc")
        empty = getattr(snapshot, "validateChecksum$default$1")()
        self.holds(snapshot.validateChecksum(empty), "they do not accept the .crc")

    def they_open_our_checkpoint(self):
        self.model.table.checkpoint()
        segment = self.their_snapshot().logSegment()
        newest = self.model.table.version
        self.holds(segment.checkpointProvider().version() == newest, segment.toString())
        self.they_read(newest)
        self.they_accept_our_checksum()

    def they_read_our_changes(self):
        if self.name != "change-feed":
            return
        feed = self.spark.read.format("delta").option("readChangeFeed", "true")
        theirs = feed.option("startingVersion", 0).load(self.model.path).drop("_commit_timestamp")
        ours = self.model.table.changes().to_arrow().drop_columns(["_commit_timestamp"])
        kinds = set(ours["_change_type"].to_pylist())
        self.holds(kinds == {"insert", "delete"}, kinds)
        theirs_read = counted(theirs.toArrow().to_pylist())
        self.holds(theirs_read == counted(ours.to_pylist()), "the change feed differs")

    def they_number_rows_as_we_do(self):
        if self.name != "row-tracking":
            return
        theirs = self.sql("SELECT id, _metadata.row_id r, _metadata.row_commit_version v FROM {t}")
        options = ReadOptions(row_id_column="r", row_commit_version_column="v")
        ours = self.model.table.to_arrow(options).select(["id", "r", "v"])
        self.holds(None not in ours["r"].to_pylist(), "rows without ids")
        theirs_read = counted(theirs.toArrow().to_pylist())
        self.holds(theirs_read == counted(ours.to_pylist()), "row ids differ")

    # --- what they write

    def they_insert(self):
        given, new = self.model.next_rows()
        self.spark.createDataFrame(given).createOrReplaceTempView("given")
        columns = ", ".join(f"`{name}`" for name in given.schema.names)
        self.sql(f"INSERT INTO {{t}} ({columns}) SELECT {columns} FROM given")
        self.they_wrote([*self.model.rows, *new])

    def they_delete(self):
        key, rows = self.model.key, self.model.rows
        gone = rows[1][key]
        statement = f"DELETE FROM {{t}} WHERE `{key}` = {gone}"
        if self.model.shape.appends_only:
            self.they_refuse(statement, "append")
            return
        self.sql(statement)
        self.they_wrote([row for row in rows if row[key] != gone])
        if self.name == "deletion-vectors":
            files = list(self.model.table.scan().files())
            self.holds(any(file.deletion_vector for file in files), "they wrote no vector")

    def they_refuse(self, statement, reason):
        try:
            self.sql(statement)
        except Exception as error:  # noqa: BLE001 - the test compares its message
            self.holds(reason in str(error), str(error))
        else:
            raise AssertionError(f"{statement} succeeded")

    def they_optimize(self):
        before = self.model.table.version
        self.sql("OPTIMIZE {t}")
        self.holds(self.model.table.version > before, "there was nothing to optimize")
        self.they_wrote(self.model.rows)

    def they_add_a_column(self):
        self.sql("ALTER TABLE {t} ADD COLUMN (extra INT)")
        self.they_wrote([row | {"extra": None} for row in self.model.rows])

    def they_checkpoint(self):
        log = self.spark._jvm.org.apache.spark.sql.delta.DeltaLog
        log.forTable(self.spark._jsparkSession, self.model.path).checkpoint()
        self.they_wrote(self.model.rows)

    def they_wrote(self, rows):
        self.model.other_wrote(rows)
        found = self.model.table.check()
        self.holds(found.ok, found.to_dict())

    # --- what we write

    def we_append(self):
        self.model.append()
        self.they_read()
        self.they_accept_our_checksum()


def in_spark_sql(condition):
    """Return a condition as Spark SQL."""
    column = "`" + condition.column.replace("`", "``") + "`"
    if condition.operator == "is null":
        return f"{column} IS NULL"
    return f"{column} {condition.operator} {literal(condition.value)}"


def literal(value):
    match value:
        case datetime():
            string = value.replace(tzinfo=None).isoformat(" ", timespec="microseconds")
            return f"TIMESTAMP_NTZ'{string}'" if value.tzinfo is None else f"TIMESTAMP'{string}Z'"
        case date():
            return f"DATE'{value.isoformat()}'"
        case Decimal():
            return f"CAST('{value}' AS DECIMAL(38, 10))"
        case float():
            return f"CAST('{value}' AS DOUBLE)"
        case str():
            string = value.replace("\\", "\\\\").replace("'", "\\'").replace("{", "{{")
            return "'" + string.replace("}", "}}") + "'"
    return str(value)


def a_wrong_checksum_is_noticed(spark, place):
    """Control: Spark must reject a wrong `.crc`, or accepting ours proves nothing."""
    round_trip = SparkRoundTrip(spark, "unpartitioned", place)
    round_trip.they_accept_our_checksum()
    name = f"{round_trip.model.table.version:020}.crc"
    path = Path(round_trip.model.path) / "_delta_log" / name
    checksum = json.loads(path.read_text())
    path.write_text(json.dumps(checksum | {"tableSizeBytes": checksum["tableSizeBytes"] + 1}))
    try:
        round_trip.they_accept_our_checksum()
    except Exception:  # noqa: BLE001 - a Java exception
        return True
    return False


def report(spark, place, names=tuple(SHAPES)):
    """Return the number of successful comparisons and the first problem, by shape."""
    found = {"control": a_wrong_checksum_is_noticed(spark, place / "control")}
    for name in names:
        round_trip = None
        try:
            round_trip = SparkRoundTrip(spark, name, place)
            round_trip.run()
            problem = None
        except Exception:  # noqa: BLE001 - it is reported
            problem = traceback.format_exc(limit=-6)[-6000:]
        found[name] = {"held": round_trip.held if round_trip else 0, "problem": problem}
    return found


if __name__ == "__main__":
    print_report(report, STRICT | SMALL)
