"""A table on Spark: its rows, its changes, and a stream that continues after a restart.

python examples/spark_tables.py
"""

from __future__ import annotations

import json
import sys
import tempfile
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

import lazydelta as ld

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FIELDS = [
    {"name": name, "type": kind, "nullable": True, "metadata": {}}
    for name, kind in (("id", "long"), ("price", "double"))
]
METADATA = {
    "id": "example",
    "format": {"provider": "parquet", "options": {}},
    "schemaString": json.dumps({"type": "struct", "fields": FIELDS}),
    "partitionColumns": [],
    "configuration": {"delta.enableChangeDataFeed": "true"},
}


def append(table: Path, version: int, **columns: list[object]) -> None:
    """Append rows as a new version of a table, as any Delta writer would."""
    path = table / f"rows-{version}.parquet"
    pq.write_table(pa.table(columns), path)
    size = path.stat().st_size
    add = {"path": path.name, "partitionValues": {}, "size": size, "dataChange": True}
    actions: list[dict[str, object]] = [{"add": add | {"modificationTime": version}}]
    if version == 0:
        protocol = {"minReaderVersion": 1, "minWriterVersion": 4}
        actions = [{"protocol": protocol}, {"metaData": METADATA}, *actions]
    log = table / "_delta_log" / f"{version:020d}.json"
    log.parent.mkdir(exist_ok=True)
    log.write_text("\n".join(map(json.dumps, actions)), encoding="utf-8")


def main() -> int:
    """Show the four ways to read a table on Spark."""
    try:
        from lazydelta import spark as ld_spark

        session = ld_spark.local_session(name="lazydelta example")
    except (ld.errors.MissingExtraError, ld.errors.JavaNotFoundError) as error:
        print(f"Skipped: {error}")
        return 0
    with tempfile.TemporaryDirectory(prefix="lazydelta-example-") as directory:
        table = Path(directory) / "prices"
        table.mkdir()
        append(table, 0, id=[1, 2], price=[10.0, 20.0])
        append(table, 1, id=[3], price=[30.0])
        rows = ld_spark.read(session, table, where="price > 15")
        print(f"read: {sorted(tuple(row) for row in rows.collect())}")
        for row in ld_spark.changes(session, str(table), starting_version=1).collect():
            print(f"changes: version {row['_commit_version']}: {row['_change_type']} of {row.id}")
        ld_spark.register(session)
        options = {"versionAsOf": "0", "columns": "id"}
        frame = session.read.format("lazydelta").options(**options).load(str(table))
        print(f"format('lazydelta'): {frame.count()} rows at version 0")
        follow(session, table)
    session.stop()
    return 0


def follow(session: SparkSession, table: Path) -> None:
    """Run a stream twice; the second run reads only the rows that were appended in between."""
    for added in (None, [7, 8, 9]):
        if added is not None:
            append(table, 2, id=added, price=[1.0, 2.0, 3.0])
        stream = session.readStream.format("lazydelta").load(str(table))
        writer = stream.writeStream.format("parquet").option("path", f"{table}-copy")
        writer = writer.option("checkpointLocation", f"{table}-checkpoint")
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        rows = sum(progress["numInputRows"] for progress in query.recentProgress)
        print(f"the stream brought {rows} rows")


if __name__ == "__main__":
    warnings.simplefilter("ignore", FutureWarning)  # PySpark's, about versions of pandas
    sys.exit(main())
