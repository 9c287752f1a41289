"""One table, many engines: each pushes its filter down, so few files are read.

python examples/engines.py
"""

from __future__ import annotations

import json
import tempfile
from importlib.util import find_spec
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import lazydelta as ld

FILES, ROWS = 20, 1_000


def write_trips(root: Path) -> None:
    """Write a table of 20 files with increasing ranges of `id`."""
    fields = [
        {"name": name, "type": kind, "nullable": True, "metadata": {}}
        for name, kind in (("id", "long"), ("Fare", "double"))
    ]
    schema = json.dumps({"type": "struct", "fields": fields})
    provider = {"provider": "parquet", "options": {}}
    actions: list[dict[str, object]] = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {
            "metaData": {
                "id": "trips",
                "format": provider,
                "schemaString": schema,
                "partitionColumns": [],
                "configuration": {},
            }
        },
    ]
    (root / "_delta_log").mkdir(parents=True)
    for at in range(FILES):
        ids = range(at * ROWS, (at + 1) * ROWS)
        path = root / f"{at:02}.parquet"
        pq.write_table(pa.table({"id": ids, "Fare": [i % 97 / 2 for i in ids]}), path)
        stats = {
            "numRecords": ROWS,
            "minValues": {"id": ids[0]},
            "maxValues": {"id": ids[-1]},
            "nullCount": {"id": 0},
        }
        add = {
            "path": path.name,
            "size": path.stat().st_size,
            "partitionValues": {},
            "modificationTime": 0,
            "dataChange": True,
            "stats": json.dumps(stats),
        }
        actions.append({"add": add})
    lines = "".join(json.dumps(action) + "\n" for action in actions)
    (root / "_delta_log" / f"{0:020}.json").write_text(lines)


def show(engine: str, answer: object, files: dict[str, int]) -> None:
    """Print a result, and how many files were read."""
    print(f"{engine:<16} {answer}   ({files['emitted']} of {FILES} files read)")


with tempfile.TemporaryDirectory() as directory:
    root = Path(directory, "trips")
    write_trips(root)
    trips = ld.Table.open(root)

    print(f"{'the log alone':<16} {trips.scan().count():,} rows   (0 of {FILES} files read)")

    dataset = trips.to_pyarrow_dataset()
    table = dataset.to_table(columns=["Fare"], filter=pc.field("id") >= 19_500)
    show("pyarrow", f"{table.num_rows} rows", dataset.explain()["files"])

    for engine in ("duckdb", "datafusion"):
        if find_spec(engine) is None:
            print(f"{engine:<16} is not installed: pip install 'lazydelta[{engine}]'")
            continue
        query = ld.QueryBuilder(engine).register("Trips", trips)
        sql = 'select max("Fare") as top from Trips where id between 2000 and 2999'
        top = query.execute(sql).read_all().column("top")[0].as_py()
        show(engine, f"greatest fare {top}", query.explain("Trips")["files"])

    if find_spec("polars") is None:
        print(f"{'polars':<16} is not installed: pip install 'lazydelta[polars]'")
    else:
        import polars as pl

        few = trips.scan_polars().filter(pl.col("id") < 3).select("Fare").collect()
        print(f"{'polars':<16} {few['Fare'].to_list()}")

    # Another output schema: a wider type, a column that the table lacks, and the file of each row.
    wanted = pa.schema(
        [
            ("id", pa.decimal128(19)),
            ("note", pa.string()),
            ("file", pa.dictionary("int8", "string")),
        ]
    )
    options = ld.ReadOptions(schema=wanted, file_column_name="file")
    row = trips.scan(where="id = 7").to_arrow(options).to_pylist()
    print(f"{'another schema':<16} {row}")
