"""A table written by Spark executors: create, replace a part, stream, checkpoint.

python examples/spark_writing.py
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from pathlib import Path

import lazydelta as ld


def main(place: Path) -> int:
    """Write with Spark, and return 0 if this process reads what was written."""
    try:
        import lazydelta.spark as lds

        spark = lds.local_session(name="lazydelta example")
    except (ld.errors.MissingExtraError, ld.errors.JavaNotFoundError) as error:
        print(f"   Skipped: {error}")
        return 0
    url = str(place / "trips")
    trips = spark.range(0, 30_000, 1, 4).selectExpr(
        "id", "date_add(date'2026-05-01', cast(id % 3 AS int)) AS day", "id / 7 AS fare"
    )
    made = lds.write(trips, url, partition_by="day")
    print(f"   version {made.version}: {made.rows:,} rows in {made.files_added} files")

    one_day = trips.where("day = date'2026-05-02'").selectExpr("id", "day", "0D AS fare")
    done = lds.write(one_day, url, "overwrite", where="day = date'2026-05-02'")
    print(f"   version {done.version}: {done.files_removed} files replaced by {done.files_added}")

    lds.register(spark)
    copy, log = str(place / "copy"), str(place / "checkpoint")
    for _ in range(2):  # the second run finds nothing new, and adds nothing
        rows = spark.readStream.format("lazydelta").option("startingVersion", 1)
        sink = rows.option("ignoreChanges", "true").load(url).writeStream.format("lazydelta")
        query = sink.option("checkpointLocation", log).trigger(availableNow=True).start(copy)
        query.awaitTermination()
    copied = ld.Table.open(copy).scan().to_arrow().num_rows
    print(f"   a stream copied {copied:,} rows of version 1")

    checkpoint = lds.checkpoint(spark, url)
    print(f"   checkpoint of version {checkpoint.version}: {checkpoint.adds} adds")
    spark.stop()
    fares = ld.Table.open(url).scan("day = date'2026-05-02'").to_arrow().column("fare")
    return 0 if fares.to_pylist() == [0.0] * 10_000 and copied == 10_000 else 1


if __name__ == "__main__":
    warnings.simplefilter("ignore", FutureWarning)  # PySpark's, about versions of pandas
    with tempfile.TemporaryDirectory(prefix="lazydelta-") as directory:
        sys.exit(main(Path(directory)))
