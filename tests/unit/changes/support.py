"""Tables with real files, built by hand, and their change feed as sorted Python rows."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import BitMap64

from lazydelta import Config
from lazydelta.changes import RequestedRange, find_changes
from lazydelta.store import open_store
from tests.builders import TableBuilder, add, remove

META = ("_change_type", "_commit_version", "_commit_timestamp")
_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


def vector(rows):
    """Return an inline deletion vector of these rows; None for none."""
    rows = sorted(rows)
    if not rows:
        return None
    payload = (1681511377).to_bytes(4, "little") + BitMap64(rows).serialize()
    padded = payload + b"\0" * (-len(payload) % 4)
    return {
        "storageType": "i",
        "pathOrInlineDv": "".join(_z85(padded[i : i + 4]) for i in range(0, len(padded), 4)),
        "sizeInBytes": len(payload),
        "cardinality": len(rows),
    }


def _z85(four):
    value, text = int.from_bytes(four, "big"), ""
    for _ in range(5):
        value, digit = divmod(value, 85)
        text = _Z85[digit] + text
    return text


class FeedTable:
    """A table that records its changes; `columns` of files are by physical name."""

    def __init__(self, directory, schema=None, configuration=None, **how):
        self.directory = directory
        configuration = {"delta.enableChangeDataFeed": "true"} | (configuration or {})
        schema = schema or {"id": "long"}
        self.log = TableBuilder(directory, schema=schema, configuration=configuration, **how)

    def file(self, path, columns=None, **options):
        """Write a data file; by default its only column is `id`."""
        table = columns if isinstance(columns, pa.Table) else pa.table(columns)
        target = self.directory / path
        target.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, target, **options)
        return target.stat().st_size

    def add(self, path, columns=None, deleted=(), values=None, **more):
        """Return an add; with columns, the file is written first."""
        if columns is not None:
            self.file(path, columns)
        size = (self.directory / path).stat().st_size
        vectors = {"vector": vector(deleted)}
        return add(path, partition_values=values or {}, size=size, **vectors, **more)

    def remove(self, path, deleted=(), values=None, **more):
        known = {} if values is None else {"partitionValues": values}
        return remove(path, vector=vector(deleted), extendedFileMetadata=True, **known, **more)

    def cdc(self, path, columns, values=None):
        path = f"_change_data/{path}"
        size = self.file(path, columns)
        return {
            "cdc": {
                "path": path,
                "partitionValues": values or {},
                "size": size,
                "dataChange": False,
            }
        }

    def commit(self, *actions, **how):
        self.log.commit(*actions, **how)
        return self

    def metadata(self, *, schema=None, configuration=None, fields=None):
        """Return a `metaData` action that changes the table."""
        body = json.loads(json.dumps(self.log.metadata))
        if schema is not None:
            fields = [
                {"name": n, "type": t, "nullable": True, "metadata": {}} for n, t in schema.items()
            ]
        if fields is not None:
            body["schemaString"] = json.dumps({"type": "struct", "fields": fields})
        body["configuration"] |= configuration or {}
        return {"metaData": body}


def find_feed(store, config=None, *, columns=None, where=None, options=None, **range_arguments):
    """Return the change feed of the table in a store."""
    requested = RequestedRange(**range_arguments)
    return find_changes(
        store, config or Config(), requested, columns=columns, where=where, options=options
    )


def feed(table, start=None, end=None, config=None, **how):
    """Return the feed as one Arrow table."""
    store = open_store(str(getattr(table, "directory", table)))
    return find_feed(store, config, starting_version=start, ending_version=end, **how).to_arrow()


def changes(table, start=None, end=None, **how):
    """Return `(version, change type, row without those columns)` of each change, sorted."""
    rows = feed(table, start, end, **how).to_pylist()
    found = [
        (
            row["_commit_version"],
            row["_change_type"],
            tuple(value for name, value in row.items() if name not in META),
        )
        for row in rows
    ]
    return sorted(found, key=repr)


def ids(version, kind, *numbers):
    """Return the changes that `changes` gives for these ids."""
    return [(version, kind, (number,)) for number in numbers]
