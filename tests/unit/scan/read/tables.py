"""Small tables with data files and arbitrary log entries."""

from __future__ import annotations

import io
import json
import struct
import uuid
import zlib

import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import BitMap64

from lazydelta import Config, Table

Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
MAGIC = 1681511377


def z85_encoded(data):
    """Encode in Z85, without the code under test."""
    assert len(data) % 4 == 0
    out = []
    for at in range(0, len(data), 4):
        value = int.from_bytes(data[at : at + 4], "big")
        out.append("".join(Z85[value // 85**power % 85] for power in (4, 3, 2, 1, 0)))
    return "".join(out)


def bitmap(rows):
    """Return the payload of a deletion vector."""
    return struct.pack("<i", MAGIC) + BitMap64(rows).serialize()


def inline(rows, **changed):
    payload = bitmap(rows)
    padded = payload + bytes(-len(payload) % 4)
    return {
        "storageType": "i",
        "pathOrInlineDv": z85_encoded(padded),
        "sizeInBytes": len(payload),
        "cardinality": len(rows),
        **changed,
    }


def entry(payload):
    """Return a payload with its framing in a `.bin` file."""
    return struct.pack(">i", len(payload)) + payload + struct.pack(">I", zlib.crc32(payload))


class Rows:
    """A table in a directory: `file` writes a data file and adds it to the next commit."""

    def __init__(self, path, fields, *, partition_columns=(), configuration=None, features=()):
        self.path = path
        (path / "_delta_log").mkdir(parents=True)
        self.version = -1
        configuration = dict(configuration or {})
        self.actions = [
            protocol(configuration, features),
            {
                "metaData": {
                    "id": "t",
                    "format": {"provider": "parquet", "options": {}},
                    "schemaString": json.dumps({"type": "struct", "fields": fields}),
                    "partitionColumns": list(partition_columns),
                    "configuration": configuration,
                }
            },
        ]

    def file(self, name, table, *, vector=None, partition=None, action=None, **options):
        """Write a data file and add it with the next commit."""
        sink = io.BytesIO()
        pq.write_table(table, sink, **options)
        place = self.path / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(sink.getvalue())
        add = {
            "path": name,
            "size": len(sink.getvalue()),
            "partitionValues": partition or {},
            "modificationTime": 0,
            "dataChange": True,
            **(action or {}),
        }
        if vector is not None:
            add["deletionVector"] = vector
        self.actions.append({"add": add})
        return self

    def vectors(self, *lists, prefix=""):
        """Write a `.bin` file with one deletion vector per list; return their descriptors."""
        name = uuid.uuid4()
        data, found = b"\x01", []
        for rows in lists:
            payload = bitmap(rows)
            found.append(
                {
                    "storageType": "u",
                    "pathOrInlineDv": prefix + z85_encoded(name.bytes),
                    "offset": len(data),
                    "sizeInBytes": len(payload),
                    "cardinality": len(rows),
                }
            )
            data += entry(payload)
        place = self.path / prefix / f"deletion_vector_{name}.bin"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)
        return found

    def commit(self):
        self.version += 1
        lines = "".join(json.dumps(action) + "\n" for action in self.actions)
        (self.path / "_delta_log" / f"{self.version:020}.json").write_text(lines)
        self.actions = []
        return self

    def open(self, **settings):
        if self.actions:
            self.commit()
        return Table.open(self.path, config=Config(**settings))

    def rows(self, where=None, columns=None, limit=None, **settings):
        """Read the rows, in no order."""
        return self.open(**settings).scan(where, columns, limit).to_arrow().to_pylist()


def protocol(configuration, features):
    if configuration.get("delta.columnMapping.mode", "none") != "none":
        features = (*features, "columnMapping")
    if not features:
        return {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
    readers = [name for name in features if name not in ("rowTracking", "domainMetadata")]
    return {
        "protocol": {
            "minReaderVersion": 3,
            "minWriterVersion": 7,
            "readerFeatures": readers,
            "writerFeatures": list(features),
        }
    }


def field(name, kind, *, physical=None, column_id=None, nullable=True):
    metadata = {}
    if physical is not None:
        metadata["delta.columnMapping.physicalName"] = physical
    if column_id is not None:
        metadata["delta.columnMapping.id"] = column_id
    return {"name": name, "type": kind, "nullable": nullable, "metadata": metadata}


def with_ids(schema, ids):
    """Return an Arrow schema whose fields carry Parquet field ids, by name."""
    return pa.schema([f.with_metadata({"PARQUET:field_id": str(ids[f.name])}) for f in schema])
