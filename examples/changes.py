"""Follow a table: read its changes version by version, and keep a copy up to date.

python examples/changes.py
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import lazydelta as ld


def commit(directory: Path, version: int, *actions: dict[str, object]) -> None:
    """Write a commit, as any Delta writer would."""
    log = directory / "_delta_log"
    log.mkdir(exist_ok=True)
    lines = "\n".join(json.dumps(action) for action in actions)
    (log / f"{version:020d}.json").write_text(lines, encoding="utf-8")


def data_file(directory: Path, name: str, **columns: list[object]) -> dict[str, object]:
    """Write a Parquet file; return the fields of its action in the log."""
    (directory / name).parent.mkdir(exist_ok=True)
    pq.write_table(pa.table(columns), directory / name)
    size = (directory / name).stat().st_size
    return {"path": name, "partitionValues": {}, "size": size, "dataChange": True}


def build(directory: Path) -> None:
    """Build a table of three versions: two rows, one of them updated, the other deleted."""
    columns = [{"name": n, "type": t, "nullable": True, "metadata": {}} for n, t in _COLUMNS]
    metadata = {
        "id": "example",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": columns}),
        "partitionColumns": [],
        "configuration": {"delta.enableChangeDataFeed": "true"},
    }
    protocol = {"minReaderVersion": 1, "minWriterVersion": 4}
    first = data_file(directory, "first.parquet", id=[1], price=[10.0])
    other = data_file(directory, "other.parquet", id=[2], price=[20.0])
    commit(
        directory,
        0,
        {"protocol": protocol},
        {"metaData": metadata},
        {"add": first | {"modificationTime": 0}},
        {"add": other | {"modificationTime": 0}},
    )
    raised = data_file(directory, "raised.parquet", id=[1], price=[12.5])
    changed = data_file(
        directory,
        "_change_data/changed.parquet",
        id=[1, 1],
        price=[10.0, 12.5],
        _change_type=["update_preimage", "update_postimage"],
    )
    commit(
        directory,
        1,
        {"remove": first},
        {"add": raised | {"modificationTime": 0}},
        {"cdc": changed | {"dataChange": False}},
    )
    commit(directory, 2, {"remove": other})


_COLUMNS = (("id", "long"), ("price", "double"))

with tempfile.TemporaryDirectory() as name:
    build(Path(name))
    table = ld.Table.open(name)
    copy: dict[int, float] = {}
    for version in range(table.version + 1):
        for change in (
            table.changes(starting_version=version, ending_version=version).read_all().to_pylist()
        ):
            kind, row = change["_change_type"], (change["id"], change["price"])
            print(f"version {version}: {kind:<17} {row}")
            if kind in ("insert", "update_postimage"):
                copy[row[0]] = row[1]
            elif kind == "delete":
                del copy[row[0]]
    feed = table.changes(where="_change_type != 'insert'", columns=["id"])
    count, files = feed.to_arrow().num_rows, feed.explain()["files"]
    print(
        f"{count} changes of rows, from {files['emitted']} files; {files['pruned']} were not opened"
    )
    rows = table.scan().to_arrow().to_pylist()
    same = copy == {row["id"]: row["price"] for row in rows}
    print(f"the copy and the table are {'the same' if same else 'DIFFERENT'}: {copy}")
