"""Write the log of a large sample table: a checkpoint, and a tail of commits after it.

There are no data files: planning a read never opens one. The same arguments give the same table.

    python examples/sample_table.py DIRECTORY [--files 300000]
"""

from __future__ import annotations

import argparse
import json
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

FIRST_DAY = np.datetime64("2026-01-01")
DAYS = 250
ROWS = 20_000  # in each data file
CHECKPOINT_VERSION = 100
TAIL_COMMITS = 20
NEW_FILES = 100  # per commit of the tail
COMPACTED = 80  # files that the OPTIMIZE of the tail replaces by one
ROW_GROUP = 10_000

PROTOCOL = {
    "minReaderVersion": 3,
    "minWriterVersion": 7,
    "readerFeatures": ["deletionVectors"],
    "writerFeatures": ["deletionVectors"],
}
SCHEMA = {
    "type": "struct",
    "fields": [
        {"name": name, "type": kind, "nullable": True, "metadata": {}}
        for name, kind in (("id", "long"), ("fare", "double"), ("city", "string"), ("day", "date"))
    ],
}
METADATA = {
    "id": "5fba94ed-9794-4965-ba6e-6ee3c0d22af9",
    "format": {"provider": "parquet", "options": {}},
    "schemaString": json.dumps(SCHEMA),
    "partitionColumns": ["day"],
    "configuration": {"delta.enableDeletionVectors": "true"},
    "createdTime": 1_767_225_600_000,
}


@contextmanager
def table_to_show(arguments: Sequence[str] = ()) -> Iterator[str]:
    """Yield the address from the command line, or that of a small temporary table."""
    if len(arguments) > 1:
        yield arguments[1]
        return
    with tempfile.TemporaryDirectory(prefix="lazydelta-example-") as directory:
        root = Path(directory) / "trips"
        write_table(root, files=30_000)
        yield str(root)


def write_table(root: Path, files: int) -> int:
    """Write a log under `root` whose newest version has `files` files; return that version.

    The tail adds files, compacts the oldest into one, and marks rows of that one as deleted.
    """
    log = root / "_delta_log"
    log.mkdir(parents=True)
    tail = TAIL_COMMITS * NEW_FILES
    old = files - tail + COMPACTED - 1
    if old < COMPACTED:
        raise SystemExit(f"--files must be at least {tail + 1}")
    adds = make_adds(np.arange(files + COMPACTED), files)
    write_checkpoint(log, adds.slice(0, old))
    for number in range(TAIL_COMMITS):
        version = CHECKPOINT_VERSION + 1 + number
        new = adds.slice(old + number * NEW_FILES, NEW_FILES).to_pylist()
        write_commit(log, version, "WRITE", [{"add": as_json(add)} for add in new])
    write_upkeep(log, adds.slice(0, COMPACTED).to_pylist())
    return CHECKPOINT_VERSION + TAIL_COMMITS + 2


def make_adds(index: np.ndarray, files: int) -> pa.Table:
    """Return one add action per number, spread evenly over the days, oldest first."""
    day = np.minimum(index * DAYS // files, DAYS - 1)
    days = pa.array(FIRST_DAY + day)
    day_strings = days.cast(pa.string())
    mixed = (index.astype(np.uint64) + 1) * np.uint64(0x9E3779B97F4A7C15)  # pseudo-random
    hexes = concat(*(pc.utf8_slice_codeunits(digits(mixed >> np.uint64(s)), 0, 8) for s in (0, 24)))
    path = concat("day=", day_strings, "/part-", digits(index), "-", hexes, ".snappy.parquet")
    low, high = index * ROWS, index * ROWS + ROWS - 1
    fare = (mixed >> np.uint64(40)) % np.uint64(500)
    stats = concat(
        f'{{"numRecords":{ROWS},"minValues":{{"id":', pa.array(low), ',"fare":0.5,"city":"Aachen"},'
        '"maxValues":{"id":', pa.array(high), ',"fare":', pa.array(fare), '.5,"city":"Zwolle"},'
        '"nullCount":{"id":0,"fare":0,"city":0}}',
    )  # fmt: skip
    return pa.table(
        {
            "path": path,
            "partitionValues": one_key_maps("day", day_strings),
            "size": pa.array(1_000_000 + (mixed % np.uint64(9_000_000)).astype(np.int64)),
            "modificationTime": pa.array(METADATA["createdTime"] + index * 60_000),
            "dataChange": pa.repeat(pa.scalar(value=False), len(index)),
            "stats": stats,
            "partitionValues_parsed": pa.StructArray.from_arrays([days], ["day"]),
            "stats_parsed": parsed_stats(low, high, fare),
        }
    )


def parsed_stats(low: np.ndarray, high: np.ndarray, fare: np.ndarray) -> pa.StructArray:
    """Return the statistics as a struct, for data skipping without JSON."""
    count = len(low)
    least = pa.StructArray.from_arrays(
        [pa.array(low), pa.array(np.full(count, 0.5)), pa.repeat("Aachen", count)],
        ["id", "fare", "city"],
    )
    most = pa.StructArray.from_arrays(
        [pa.array(high), pa.array(fare + 0.5), pa.repeat("Zwolle", count)], ["id", "fare", "city"]
    )
    rows = pa.array(np.full(count, ROWS))
    return pa.StructArray.from_arrays([rows, least, most], ["numRecords", "minValues", "maxValues"])


def digits(numbers: np.ndarray) -> pa.Array:
    """Return the numbers as strings of ten digits."""
    return pc.utf8_lpad(pa.array(numbers).cast(pa.string()), 10, "0")


def concat(*parts: str | pa.Array) -> pa.Array:
    """Return the parts of each row, joined into one string."""
    strings = [p if isinstance(p, str) else p.cast(pa.string()) for p in parts]
    return pc.binary_join_element_wise(*strings, "")


def one_key_maps(key: str, values: pa.Array) -> pa.MapArray:
    """Return a map with one entry for each value."""
    offsets = pa.array(np.arange(len(values) + 1, dtype=np.int32))
    return pa.MapArray.from_arrays(offsets, pa.repeat(key, len(values)), values)


def write_checkpoint(log: Path, adds: pa.Table) -> None:
    """Write a classic checkpoint, and `_last_checkpoint`."""
    add = pa.concat_arrays(
        [
            pa.nulls(2, pa.struct(adds.schema)),
            adds.to_struct_array().combine_chunks(),
        ]
    )
    blanks = [None] * len(adds)
    metadata = {**METADATA, "configuration": list(METADATA["configuration"].items())}
    kinds = {"configuration": pa.map_(pa.string(), pa.string())}
    plain = pa.array([{k: v for k, v in metadata.items() if k not in ("format", *kinds)}]).type
    kind = pa.struct([*plain, *kinds.items(), ("format", pa.struct([("provider", pa.string())]))])
    whole = pa.table(
        {
            "protocol": pa.array([PROTOCOL, None, *blanks]),
            "metaData": pa.array([None, metadata, *blanks], kind),
            "add": add,
        }
    )
    name = f"{CHECKPOINT_VERSION:020d}.checkpoint.parquet"
    pq.write_table(whole, log / name, row_group_size=ROW_GROUP, compression="snappy")
    write_commit(log, CHECKPOINT_VERSION, "WRITE", [])
    hint = {"version": CHECKPOINT_VERSION, "size": len(whole), "numOfAddFiles": len(adds)}
    (log / "_last_checkpoint").write_text(json.dumps(hint), encoding="utf-8")


def write_upkeep(log: Path, old: list[dict]) -> None:
    """Write the two newest commits: one OPTIMIZE, then one DELETE by deletion vectors."""
    version = CHECKPOINT_VERSION + TAIL_COMMITS + 1
    stats = json.loads(old[0]["stats"])
    stats["numRecords"] = ROWS * len(old)
    stats["maxValues"] |= {"id": ROWS * len(old) - 1, "fare": 500.5}
    merged = dict(
        old[0],
        path=old[0]["path"].replace("part-", "optimized-"),
        size=sum(add["size"] for add in old),
        stats=json.dumps(stats),
    )
    removes = [{"remove": {"path": add["path"], "dataChange": False}} for add in old]
    write_commit(log, version, "OPTIMIZE", [*removes, {"add": as_json(merged)}])
    vector = {
        "storageType": "u",
        "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^",
        "offset": 1,
        "sizeInBytes": 36,
        "cardinality": 1234,
    }
    gone = {"remove": {"path": merged["path"], "dataChange": True}}
    marked = {"add": as_json(merged) | {"deletionVector": vector}}
    write_commit(log, version + 1, "DELETE", [gone, marked])


def as_json(add: dict) -> dict:
    """Return an add as in a commit: without the parsed columns of checkpoints."""
    kept = {name: value for name, value in add.items() if not name.endswith("_parsed")}
    return kept | {"partitionValues": dict(add["partitionValues"])}


def write_commit(log: Path, version: int, operation: str, actions: list[dict]) -> None:
    """Write one commit."""
    when = METADATA["createdTime"] + version * 3_600_000
    lines = [{"commitInfo": {"timestamp": when, "operation": operation}}, *actions]
    content = "".join(json.dumps(line) + "\n" for line in lines)
    (log / f"{version:020d}.json").write_text(content, encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", type=Path)
    parser.add_argument("--files", type=int, default=300_000)
    arguments = parser.parse_args()
    write_table(arguments.directory, arguments.files)
