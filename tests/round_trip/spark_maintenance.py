"""Delta Spark and we maintain one clustered table in turn: rows, clustering and files after each step.

Run as a program (`tests.spark.reference`). It reports the number of comparisons and the first problem
for each table.
"""

from __future__ import annotations

import traceback
from collections import Counter

import pyarrow as pa

from lazydelta import Table, WriteOptions
from tests.round_trip.spark_rounds import SMALL, STRICT
from tests.spark.reference import print_report

PROPERTIES = {"delta.enableDeletionVectors": "true", "delta.enableRowTracking": "true"}
MAKERS = ("we", "they")
_SETTINGS = {"spark.databricks.delta.retentionDurationCheck.enabled": "false"}


class Maintenance:
    """One clustered table that both change and maintain."""

    def __init__(self, spark, maker, place):
        self.spark, self.path, self.held = spark, str(place / maker), 0
        if maker == "we":
            columns = "id bigint, x bigint, y string"
            self.table = Table.create(
                self.path, columns, cluster_by=["x", "y"], properties=PROPERTIES
            )
        else:
            how = ", ".join(f"'{name}' = '{value}'" for name, value in PROPERTIES.items())
            columns = "id BIGINT, x BIGINT, y STRING"
            self.sql(
                f"CREATE TABLE {{t}} ({columns}) USING delta CLUSTER BY (x, y) TBLPROPERTIES ({how})"
            )
            self.table = Table.open(self.path)
        self.ids: Counter[int] = Counter()

    def sql(self, statement):
        return self.spark.sql(statement.format(t=f"delta.`{self.path}`"))

    def holds(self, truth, what):
        assert truth, what
        self.held += 1

    def append(self, who, first, count=2000):
        ids = list(range(first, first + count))
        if who == "we":
            rows = {
                "id": ids,
                "x": [n * 7919 % 1009 for n in ids],
                "y": [f"y{n % 97}" for n in ids],
            }
            self.table.write(pa.table(rows), options=WriteOptions(target_file_bytes=8000))
        else:
            values = "id, id * 7919 % 1009 AS x, concat('y', id % 97) AS y"
            self.sql(
                f"INSERT INTO {{t}} SELECT {values} FROM range({first}, {first + count}, 1, 3)"
            )
        self.ids += Counter(ids)

    def delete(self, who, rest):
        condition = f"id % 10 = {rest}"
        self.table.delete(condition) if who == "we" else self.sql(
            f"DELETE FROM {{t}} WHERE {condition}"
        )
        self.ids = Counter({n: count for n, count in self.ids.items() if n % 10 != rest})

    def same_rows(self, what):
        ours = Counter(self.table.to_arrow()["id"].to_pylist())
        theirs = Counter(self.sql("SELECT id FROM {t}").toArrow()["id"].to_pylist())
        self.holds(ours == self.ids, f"{what}: our rows")
        self.holds(theirs == self.ids, f"{what}: their rows")
        report = self.table.check()
        self.holds(report.ok, f"{what}: {report.to_dict()}")

    def is_clustered(self, what):
        files = [file.clustering_provider for file in self.table.scan().files()]
        self.holds(set(files) == {"liquid"}, f"{what}: {files}")

    def run(self):
        """Run all steps; a failed comparison raises."""
        self.append("we", 0)
        self.append("they", 2000)
        self.table.optimize()
        self.same_rows("our clustering")
        self.is_clustered("our clustering")
        detail = self.sql("DESCRIBE DETAIL {t}").toArrow().to_pylist()[0]
        self.holds(detail["clusteringColumns"] == ["x", "y"], detail)
        self.they_continue()
        self.delete("they", 3)
        self.delete("we", 4)
        self.table.purge()
        self.holds(not any(f.deletion_vector for f in self.table.scan().files()), "purge")
        self.same_rows("purge")
        before = self.table.version
        self.sql("OPTIMIZE {t} FULL")
        self.table.optimize(full=True)
        self.same_rows("full")
        self.is_clustered("full")
        self.sql(f"RESTORE TABLE {{t}} TO VERSION AS OF {before}")
        self.same_rows("their restore")
        self.table.restore(before - 1)
        self.table.restore(before)
        self.same_rows("our restore")
        self.vacuum()

    def they_continue(self):
        """Each leaves the other's clustered files alone, and clusters only what is new."""
        files = {file.path for file in self.table.scan().files()}
        self.sql("OPTIMIZE {t}")
        self.same_rows("their clustering")
        self.holds({file.path for file in self.table.scan().files()} == files, "nothing was new")
        self.append("they", 4000, 200)
        self.sql("OPTIMIZE {t}")
        self.same_rows("their clustering of new rows")
        files = {file.path for file in self.table.scan().files()}
        self.table.optimize()
        self.holds({file.path for file in self.table.scan().files()} == files, "nothing was new")
        self.append("we", 5000, 200)
        self.table.optimize()
        self.is_clustered("our clustering of new rows")
        self.same_rows("our clustering of new rows")

    def vacuum(self):
        result = self.table.vacuum(retention=0, force=True, dry_run=False)
        self.holds(result.files_deleted > 0, result)
        self.same_rows("our vacuum")
        self.append("they", 6000, 100)
        self.delete("they", 5)
        self.sql("OPTIMIZE {t} FULL")
        self.sql("VACUUM {t} LITE RETAIN 0 HOURS")
        self.same_rows("their vacuum")
        self.holds(self.table.vacuum(0, "full", force=True).files_to_delete == 0, "nothing is left")


def report(spark, place):
    """Return the number of comparisons and the first problem, by table."""
    found = {}
    for maker in MAKERS:
        run = None
        try:
            run = Maintenance(spark, maker, place)
            run.run()
            problem = None
        except Exception:  # noqa: BLE001 - it is reported
            problem = traceback.format_exc(limit=-6)[-6000:]
        found[maker] = {"held": run.held if run else 0, "problem": problem}
    return found


if __name__ == "__main__":
    print_report(report, STRICT | SMALL | _SETTINGS)
